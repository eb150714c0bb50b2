#include "core/base/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/base/utf8.h"

const char *lam_status_text(lam_status s)
{
    static const char *const texts[] = {
#define X(name, text) text,
        LAM_STATUS_MAP(X)
#undef X
    };
    return (size_t)s < sizeof texts / sizeof *texts ? texts[s] : "unknown status";
}

/* What came from a file may hold anything; a terminal and a log line must not see it raw. A
 * sequence cut in half at the end of the buffer is dropped. */
static void make_printable(char *s)
{
    for (size_t at = 0; !lam_utf8_valid(s, strlen(s), &at);) {
        if (strlen(s + at) < 4) {
            s[at] = '\0';
        } else {
            s[at] = '?';
        }
    }
    for (unsigned char *p = (unsigned char *)s; *p; p++) {
        if (*p < 0x20 || *p == 0x7f) *p = '?';
        if (p[0] == 0xc2 && p[1] >= 0x80 && p[1] < 0xa0) p[0] = p[1] = '?';
    }
}

lam_status lam_fail(lam_err *err, lam_status status, const char *where, const char *format, ...)
{
    if (!err) return status;
    err->status = status;
    (void)snprintf(err->where, sizeof err->where, "%s", where ? where : "");
    va_list args;
    va_start(args, format);
    (void)vsnprintf(err->message, sizeof err->message, format, args);
    va_end(args);
    make_printable(err->where);
    make_printable(err->message);
    return status;
}
