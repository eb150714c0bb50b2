/* Replies: through libmicrohttpd, or by hand where it cannot send one (in the middle of a body). */
#ifndef SERVER_REPLY_H
#define SERVER_REPLY_H

#include "server/exchange.h"

#define SRV_TYPE_JSON "application/json"
#define SRV_TYPE_TEXT "text/plain; charset=utf-8"

/* Queues a reply whose bytes live until the exchange ends. */
enum MHD_Result srv_reply(srv_exchange *x, int status, const char *type, const char *data,
                          size_t bytes);

/* The exchange's own page. */
enum MHD_Result srv_reply_page(srv_exchange *x, const char *type);

/* The exchange's error, on its route's dialect. */
enum MHD_Result srv_reply_error(srv_exchange *x);

/* An error written straight to the socket, which is then shut for sending. The caller lets MHD
 * close it. */
void srv_reply_raw(srv_exchange *x);

/* Fills x->error and marks it refused. */
void srv_exchange_refuse(srv_exchange *x, api_code code, const char *sentence);

#endif
