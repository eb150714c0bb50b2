#include "api/api.h"
#include "api/openapi_text.h"

const char *api_openapi(size_t *bytes)
{
    *bytes = sizeof openapi_text - 1;
    return openapi_text;
}
