#include "server/cli/json.h"

#include <string.h>

#include "server/cli/cli.h"

void cli_json_next(api_buffer *b)
{
    const char last = b->size > 0 ? b->data[b->size - 1] : '{';
    if (last != '{' && last != '[' && last != '\n') api_buffer_put(b, ",", 1);
}

void cli_json_key(api_buffer *b, const char *name)
{
    cli_json_next(b);
    api_buffer_json_string(b, name, strlen(name));
    api_buffer_put(b, ":", 1);
}

void cli_json_string(api_buffer *b, const char *name, const char *v)
{
    cli_json_key(b, name);
    if (v)
        api_buffer_json_string(b, v, strlen(v));
    else
        api_buffer_puts(b, "null");
}

void cli_json_count(api_buffer *b, const char *name, uint64_t v)
{
    cli_json_key(b, name);
    api_buffer_json_u64(b, v);
}

void cli_json_number(api_buffer *b, const char *name, double v)
{
    cli_json_key(b, name);
    api_buffer_json_double(b, v);
}

void cli_json_bool(api_buffer *b, const char *name, bool v)
{
    cli_json_key(b, name);
    api_buffer_puts(b, v ? "true" : "false");
}

int cli_json_print(api_buffer *b, const char *command, int status)
{
    const bool failed = b->failed;
    if (!failed) (void)fwrite(b->data, 1, b->size, stdout);
    api_buffer_free(b);
    return failed ? cli_complain(command, "no memory for the result") : cli_finish(status);
}
