/* What the server lets in: slots for items and bytes for memory, both bounded, both taken before
 * the work and given back in one place. Any thread. */
#ifndef SERVER_ADMISSION_H
#define SERVER_ADMISSION_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct srv_admission {
    size_t max_slots;
    size_t max_weight; /* slots of one request at most: slices take turns, so a long request holds
                          up nobody */
    size_t max_bytes;
    atomic_size_t slots, bytes, requests;
} srv_admission;

/* One request's share. One owner at a time. Zeroed: nothing is held. */
typedef struct srv_charge {
    srv_admission *admission;
    size_t slots, bytes;
} srv_charge;

void srv_admission_init(srv_admission *a, size_t max_slots, size_t max_bytes);

/* A request begins. It holds no slot before its body is there, so that clients who do not send one
 * keep nobody out; its bytes count as they come. False: no slot is free now. */
bool srv_charge_open(srv_charge *c, srv_admission *a);

/* The slots of its items: 1 once the body is there, all once they are known. False: full; what is
 * held stays held. */
bool srv_charge_items(srv_charge *c, size_t items);

/* Holds exactly `bytes` from now on. False: no room for more; what is held stays held. A smaller
 * number always works. */
bool srv_charge_bytes(srv_charge *c, size_t bytes);

void srv_charge_move(srv_charge *to, srv_charge *from);
void srv_charge_release(srv_charge *c);

#endif
