/* lamina version */
#include <microhttpd.h>
#include <string.h>
#include <uv.h>

#include "api/libraries.h"
#include "core/base/cpu.h"
#include "server/cli/cli.h"
#include "server/server.h"

#ifdef __clang__
#define COMPILER "clang " __clang_version__
#else
#define COMPILER "gcc " __VERSION__
#endif

#define VERSION_MAP(X) X(SWITCH, json, 0, 0, 0, NULL, "one JSON object")

typedef struct version_options {
    VERSION_MAP(SRV_FIELD)
} version_options;

#define X(type, ...) SRV_ROW_##type(version_options, __VA_ARGS__)
static const srv_option options[] = {VERSION_MAP(X)};
#undef X

/* clang's version text ends with a space. */
static int compiler_bytes(void)
{
    size_t n = strlen(COMPILER);
    while (n > 0 && COMPILER[n - 1] == ' ')
        n--;
    return (int)n;
}

static int run(const cli_args *args)
{
    version_options o;
    lam_err err;
    if (cli_options_load(args, options, 1, &o, &err) != LAM_OK) return cli_fail(&err);
    static const char text[] = "lamina %s\n"
                               "compiler       %.*s\n"
                               "cpu            %s\n"
                               "libmicrohttpd  %s\n"
                               "libuv          %s\n"
                               "jansson        %s\n";
    static const char json[] = "{\"version\":\"%s\",\"compiler\":\"%.*s\",\"isa\":\"%s\","
                               "\"libraries\":{\"libmicrohttpd\":\"%s\",\"libuv\":\"%s\","
                               "\"jansson\":\"%s\"}}\n";
    const char *isa = lam_isa_name(lam_cpu_best());
    if (o.json)
        (void)printf(json, SRV_VERSION, compiler_bytes(), COMPILER, isa, MHD_get_version(),
                     uv_version_string(), api_jansson_version());
    else
        (void)printf(text, SRV_VERSION, compiler_bytes(), COMPILER, isa, MHD_get_version(),
                     uv_version_string(), api_jansson_version());
    return cli_finish(CLI_DONE);
}

const cli_command cli_version = {
    .name = "version",
    .words = "",
    .summary = "print version, compiler, libraries and instruction set",
    .about = "Prints the version, the compiler that built it, the libraries it runs with and the\n"
             "best instruction set of this machine.\n",
    .examples = "  lamina version\n"
                "  lamina version --json\n",
    .groups = {{"Options", options, 1}},
    .run = run,
};
