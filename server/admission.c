#include "server/admission.h"

void srv_admission_init(srv_admission *a, size_t max_slots, size_t max_bytes)
{
    a->max_slots = max_slots;
    a->max_weight = max_slots / 8 > 0 ? max_slots / 8 : 1;
    a->max_bytes = max_bytes;
    atomic_init(&a->slots, 0);
    atomic_init(&a->bytes, 0);
    atomic_init(&a->requests, 0);
}

/* Adds if the sum stays within max. */
static bool take(atomic_size_t *sum, size_t n, size_t max)
{
    size_t now = atomic_load_explicit(sum, memory_order_relaxed);
    do {
        if (n > max || now > max - n) return false;
    } while (!atomic_compare_exchange_weak_explicit(sum, &now, now + n, memory_order_relaxed,
                                                    memory_order_relaxed));
    return true;
}

static void give(atomic_size_t *sum, size_t n)
{
    atomic_fetch_sub_explicit(sum, n, memory_order_relaxed);
}

bool srv_charge_open(srv_charge *c, srv_admission *a)
{
    if (atomic_load_explicit(&a->slots, memory_order_relaxed) >= a->max_slots) return false;
    atomic_fetch_add_explicit(&a->requests, 1, memory_order_relaxed);
    *c = (srv_charge){.admission = a};
    return true;
}

bool srv_charge_items(srv_charge *c, size_t items)
{
    srv_admission *a = c->admission;
    size_t want = items < a->max_weight ? items : a->max_weight;
    if (want <= c->slots) return true;
    if (!take(&a->slots, want - c->slots, a->max_slots)) return false;
    c->slots = want;
    return true;
}

bool srv_charge_bytes(srv_charge *c, size_t bytes)
{
    srv_admission *a = c->admission;
    if (bytes < c->bytes) {
        give(&a->bytes, c->bytes - bytes);
    } else if (!take(&a->bytes, bytes - c->bytes, a->max_bytes)) {
        return false;
    }
    c->bytes = bytes;
    return true;
}

void srv_charge_move(srv_charge *to, srv_charge *from)
{
    *to = *from;
    *from = (srv_charge){0};
}

void srv_charge_release(srv_charge *c)
{
    if (!c->admission) return;
    give(&c->admission->slots, c->slots);
    give(&c->admission->bytes, c->bytes);
    atomic_fetch_sub_explicit(&c->admission->requests, 1, memory_order_relaxed);
    *c = (srv_charge){0};
}
