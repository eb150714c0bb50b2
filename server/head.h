/* From MHD's view of a head to a verdict: guard, route, key, admission. */
#ifndef SERVER_HEAD_H
#define SERVER_HEAD_H

#include "server/exchange.h"

/* Fills the exchange's route, ids and refusal, and *h for the caller. */
void srv_head_read(srv_exchange *x, const char *url, const char *method, const char *version,
                   srv_head *h);

#endif
