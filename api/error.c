#include "api/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    int http_status;
    const char *type;
} codes[] = {
#define CODE_ROW(id, code, status, type) {code, status, type},
    API_CODE_MAP(CODE_ROW)
#undef CODE_ROW
};

const char *api_code_name(api_code c)
{
    return codes[c].name;
}

int api_code_http_status(api_code c)
{
    return codes[c].http_status;
}

const char *api_code_type(api_code c)
{
    return codes[c].type;
}

bool api_fail(api_error *e, api_code code, const char *param, const char *format, ...)
{
    *e = (api_error){.code = code};
    va_list args;
    va_start(args, format);
    vsnprintf(e->message, sizeof e->message, format, args);
    va_end(args);
    if (param) snprintf(e->param, sizeof e->param, "%s", param);
    return false;
}

api_code api_code_of_status(lam_status s)
{
    switch (s) {
    case LAM_E_NOMEM:
        return API_CODE_OUT_OF_MEMORY;
    case LAM_E_EMPTY:
        return API_CODE_EMPTY_INPUT;
    case LAM_E_TOO_LONG:
        return API_CODE_CONTEXT_LENGTH;
    case LAM_E_ID_RANGE:
        return API_CODE_TOKEN_OUT_OF_RANGE;
    case LAM_E_TYPE_RANGE:
        return API_CODE_TYPE_OUT_OF_RANGE;
    case LAM_E_MASK:
        return API_CODE_INVALID_MASK;
    case LAM_E_UTF8:
        return API_CODE_INVALID_UTF8;
    case LAM_E_INPUT:
        return API_CODE_INVALID_VALUE;
    case LAM_E_LIMIT:
        return API_CODE_OUT_OF_RANGE;
    case LAM_E_UNSUPPORTED:
        return API_CODE_UNSUPPORTED;
    case LAM_E_NON_FINITE:
        return API_CODE_NON_FINITE;
    case LAM_E_ZERO_NORM:
        return API_CODE_ZERO_NORM;
    case LAM_E_CANCELLED:
        return API_CODE_DEADLINE;
    case LAM_OK:
    case LAM_E_FILE:
    case LAM_E_FORMAT:
    case LAM_E_CONFIG:
    case LAM_E_WEIGHTS:
    case LAM_E_SYSTEM:
        return API_CODE_INTERNAL;
    }
    return API_CODE_INTERNAL;
}
