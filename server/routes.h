/* The one table of routes. */
#ifndef SERVER_ROUTES_H
#define SERVER_ROUTES_H

#include <microhttpd.h>

#include "api/api.h"
#include "server/guard.h"
#include "server/metrics.h"

struct srv_exchange;

/* Where a route is answered. */
#define SRV_ON_PUBLIC       1u
#define SRV_ON_ADMIN        2u
#define SRV_ON_ADMIN_IF_ANY 4u /* on the public listener only where there is no admin listener */

typedef struct srv_route {
    srv_method method; /* GET stands for HEAD too */
    const char *path;  /* exact, or a prefix that ends in "/" with a name behind it */
    srv_label label;
    unsigned on;
    bool open;  /* needs no key */
    bool quiet; /* logged at level debug */
    /* Answers a whole request; NULL: an inference request, which goes to the workers as
     * `inference`. */
    enum MHD_Result (*handle)(struct srv_exchange *x);
    api_route inference;
} srv_route;

/* The route of a path and method on a listener; NULL with *allow = 0: no such path; NULL with
 * *allow: the methods it has. `rest` is what stands behind a prefix. */
const srv_route *srv_route_find(srv_text path, srv_method method, bool is_admin, bool has_admin,
                                srv_text *rest, unsigned *allow);

#endif
