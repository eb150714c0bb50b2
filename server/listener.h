/* Sockets and the libmicrohttpd daemons on them, driven by the loop. */
#ifndef SERVER_LISTENER_H
#define SERVER_LISTENER_H

#include "server/state.h"

/* Opens all sockets that the configuration names. On failure err->where is the address, port or
 * path; what was opened is closed by srv_listeners_close. */
lam_status srv_listeners_open(srv_server *s, lam_err *err);

/* Starts answering on them. Errors: LAM_E_SYSTEM. */
lam_status srv_listeners_start(srv_server *s, lam_err *err);

/* The port a TCP listener really has. */
unsigned srv_listener_port(const srv_listener *l);

/* Lets libmicrohttpd do what there is to do; after each resume. */
void srv_listener_run(srv_listener *l);
void srv_listeners_run(srv_server *s);

/* No new connections from now on. */
void srv_listeners_quiesce(srv_server *s);

/* Ends the daemons; no connection may be suspended. Then the loop's handles are closed. */
void srv_listeners_close(srv_server *s);

#endif
