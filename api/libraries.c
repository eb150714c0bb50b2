#include "api/libraries.h"

#include <jansson.h>

const char *api_jansson_version(void)
{
    return jansson_version_str();
}
