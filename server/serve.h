/* Runs the server until it is told to stop. */
#ifndef SERVER_SERVE_H
#define SERVER_SERVE_H

#include "server/config/config.h"

typedef struct srv_model_path {
    const char *name; /* or NULL: the model's own, the last component of its path */
    const char *path;
} srv_model_path;

/* Opens the models, listens, serves; returns the process's exit status: 0 after a stop that was
 * asked for, 2 with one sentence on stderr if it could not start, 128 + signal if stopped by a
 * second signal. Borrows both. */
int srv_serve(const srv_config *config, const srv_model_path *models, size_t model_count);

#endif
