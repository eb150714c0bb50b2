/* `lamina serve`: the HTTP server from start to exit. */
#ifndef SERVER_SERVER_H
#define SERVER_SERVER_H

#include <stddef.h>

#define SRV_VERSION "0.1.0"

struct srv_config; /* server/config/config.h */

/* A model as the command line names it. The strings must outlive srv_serve. */
typedef struct srv_model_spec {
    const char *name; /* NULL: the last component of the path */
    const char *path;
} srv_model_spec;

/* Opens the models, serves until a signal, and returns the program's exit status: 0 after a
 * graceful stop; 2 for a model that cannot be opened, a bad address or a port in use, 71 if the
 * system refuses a thread, memory or a descriptor, each with one sentence on stderr. A second
 * SIGTERM or SIGINT ends the process at once with 143 or 130. Call once, from the main thread,
 * before any other thread exists. */
int srv_serve(const struct srv_config *config, const srv_model_spec *models, size_t model_count);

#endif
