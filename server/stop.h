/* Signals and the graceful stop.
 *
 * SIGTERM or SIGINT: readiness off; accepting goes on for drain_delay_ms; then no new connections,
 * and every reply ends its connection; admitted requests are finished; after stop_timeout_ms what
 * is left is answered 503. A second signal ends the process at once. */
#ifndef SERVER_STOP_H
#define SERVER_STOP_H

#include "server/state.h"

/* From the first moment on, for a stop that comes while models load: SIGTERM and SIGINT end the
 * process with 0 at once; the system's own action would do nothing where this is process 1, as in a
 * container. srv_signals_start takes over. */
void srv_signals_early(void);

/* Takes over the signals. Errors: LAM_E_SYSTEM. */
lam_status srv_signals_start(srv_server *s, lam_err *err);

/* Called after each change: stops the loop once nothing is left to do. */
void srv_stop_check(srv_server *s);

/* Closes this module's handles. */
void srv_signals_close(srv_server *s);

#endif
