/* The head guard: a request line and headers, each ended by a line feed; a '?' line is a query
 * argument. What passes must be unambiguous. */
#include <stdlib.h>
#include <string.h>

#include "server/guard.h"
#include "server/routes.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The next line, NUL-ended in place; NULL at the end. */
static char *next_line(char **rest, const char *end)
{
    char *line = *rest;
    if (line >= end) return NULL;
    char *feed = memchr(line, '\n', (size_t)(end - line));
    if (!feed) feed = (char *)(uintptr_t)end;
    *feed = '\0';
    *rest = feed + 1;
    return line;
}

static void check(const srv_head *h, const srv_guard_policy *p)
{
    if (h->count.length > 0 && h->count.coding > 0) abort();
    if (h->count.length > 1 || h->count.coding > 1 || h->count.host > 1) abort();
    if (h->count.coding > 0 && (!h->chunked || h->http10)) abort();
    if (h->length > p->max_body_bytes || h->method == SRV_METHOD_UNKNOWN) abort();
    for (size_t i = 0; i < h->path.n; i++)
        if ((unsigned char)h->path.s[i] <= ' ') abort();
    srv_text rest;
    unsigned allow;
    (void)srv_route_find(h->path, h->method, false, true, &rest, &allow);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const hosts[] = {"localhost", "[::1]"};
    const srv_guard_policy policy = {.max_body_bytes = 4096, .hosts = hosts, .host_count = 2};
    char *text = malloc(size + 1);
    if (!text) return 0;
    memcpy(text, data, size);
    char *rest = text, *end = text + size;
    char *method = next_line(&rest, end), *target = next_line(&rest, end),
         *version = next_line(&rest, end);
    if (version) {
        srv_head h;
        srv_head_begin(&h, method, target, version);
        for (char *line; (line = next_line(&rest, end));) {
            size_t n = strlen(line);
            char *colon = memchr(line, ':', n);
            if (line[0] == '?')
                srv_head_argument(&h, (srv_text){line + 1, n - 1});
            else if (colon)
                srv_head_header(&h, (srv_text){line, (size_t)(colon - line)},
                                (srv_text){colon + 1, n - (size_t)(colon - line) - 1});
            else
                srv_head_header(&h, (srv_text){line, n}, (srv_text){0});
        }
        if (srv_head_end(&h, &policy)) check(&h, &policy);
    }
    free(text);
    return 0;
}
