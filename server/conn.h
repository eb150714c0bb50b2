/* Connections: their list, their phases and the watch over them. */
#ifndef SERVER_CONN_H
#define SERVER_CONN_H

#include "server/state.h"

/* MHD's callback at a connection's start and end. `cls` is the listener. */
void srv_conn_notify(void *cls, struct MHD_Connection *mhd, void **context,
                     enum MHD_ConnectionNotificationCode code);

/* The watch, called every SRV_WATCH_MS: ends phases that are over their deadline, answers 504 where
 * a request's deadline passed, and finds clients that left. Runs the listeners. */
enum { SRV_WATCH_MS = 50 };
void srv_watch(srv_server *s);

/* Shuts connections that are between requests: nobody is waiting on them. */
void srv_conns_close_idle(srv_server *s);

/* Answers every suspended request with an error. */
void srv_conns_cut_all(srv_server *s, api_code code, const char *sentence);

#endif
