/* Tests of the table of routes. */
#include <criterion/criterion.h>
#include <string.h>

#include "server/routes.h"

#define BIT(name) (1u << SRV_METHOD_##name)

Test(routes, are_found_by_path_method_and_listener)
{
    static const struct {
        const char *path;
        srv_method method;
        bool is_admin, has_admin;
        const char *found; /* the route's path, or NULL */
        unsigned allow;
    } rows[] = {
        {"/v1/encode", SRV_METHOD_POST, false, false, "/v1/encode", 0},
        {"/v1/encode", SRV_METHOD_GET, false, false, NULL, BIT(POST) | BIT(OPTIONS)},
        {"/v1/encode/", SRV_METHOD_POST, false, false, NULL, 0},
        {"/v1/Encode", SRV_METHOD_POST, false, false, NULL, 0},
        {"/v1/models", SRV_METHOD_HEAD, false, false, "/v1/models", 0},
        {"/v1/models/", SRV_METHOD_GET, false, false, NULL, 0},
        {"/v1/models/a/b", SRV_METHOD_GET, false, false, "/v1/models/", 0},
        {"/livez", SRV_METHOD_PUT, false, false, NULL, BIT(GET) | BIT(HEAD) | BIT(OPTIONS)},
        {"/livez%00", SRV_METHOD_GET, false, false, NULL, 0},
        {"//livez", SRV_METHOD_GET, false, false, NULL, 0},
        {"/metrics", SRV_METHOD_GET, false, false, "/metrics", 0},
        {"/metrics", SRV_METHOD_GET, false, true, NULL, 0},
        {"/metrics", SRV_METHOD_GET, true, true, "/metrics", 0},
        {"/livez", SRV_METHOD_GET, true, true, "/livez", 0},
        {"/v1/encode", SRV_METHOD_POST, true, true, NULL, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        srv_text rest;
        unsigned allow;
        const srv_route *r =
            srv_route_find((srv_text){rows[i].path, strlen(rows[i].path)}, rows[i].method,
                           rows[i].is_admin, rows[i].has_admin, &rest, &allow);
        cr_expect_eq(r != NULL, rows[i].found != NULL, "%s", rows[i].path);
        if (r && rows[i].found) cr_expect_str_eq(r->path, rows[i].found);
        if (!r) cr_expect_eq(allow, rows[i].allow, "methods of %s: %x", rows[i].path, allow);
    }
}
