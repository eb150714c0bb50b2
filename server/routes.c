#include "server/routes.h"

#include <string.h>

#include "server/handle.h"

#define BIT(name) (1u << SRV_METHOD_##name)

static const srv_route routes[] = {
    {SRV_METHOD_POST, "/v1/encode", SRV_LABEL_ENCODE, SRV_ON_PUBLIC, false, false, NULL,
     API_ROUTE_ENCODE},
    {SRV_METHOD_POST, "/v1/compare", SRV_LABEL_COMPARE, SRV_ON_PUBLIC, false, false, NULL,
     API_ROUTE_COMPARE},
    {SRV_METHOD_POST, "/v1/embeddings", SRV_LABEL_EMBEDDINGS, SRV_ON_PUBLIC, false, false, NULL,
     API_ROUTE_OPENAI_EMBEDDINGS},
    {SRV_METHOD_GET, "/v1/models", SRV_LABEL_MODELS, SRV_ON_PUBLIC, false, false, srv_handle_models,
     0},
    {SRV_METHOD_GET, "/v1/models/", SRV_LABEL_MODELS, SRV_ON_PUBLIC, false, false, srv_handle_model,
     0},
    {SRV_METHOD_GET, "/info", SRV_LABEL_INFO, SRV_ON_PUBLIC, false, false, srv_handle_info, 0},
    {SRV_METHOD_GET, "/openapi.json", SRV_LABEL_OPENAPI, SRV_ON_PUBLIC, false, false,
     srv_handle_openapi, 0},
    {SRV_METHOD_GET, "/livez", SRV_LABEL_LIVEZ, SRV_ON_PUBLIC | SRV_ON_ADMIN, true, true,
     srv_handle_livez, 0},
    {SRV_METHOD_GET, "/readyz", SRV_LABEL_READYZ, SRV_ON_PUBLIC | SRV_ON_ADMIN, true, true,
     srv_handle_readyz, 0},
    {SRV_METHOD_GET, "/health", SRV_LABEL_HEALTH, SRV_ON_PUBLIC | SRV_ON_ADMIN, true, true,
     srv_handle_readyz, 0},
    {SRV_METHOD_GET, "/metrics", SRV_LABEL_METRICS, SRV_ON_ADMIN_IF_ANY | SRV_ON_ADMIN, false, true,
     srv_handle_metrics, 0},
};

static bool is_here(const srv_route *r, bool is_admin, bool has_admin)
{
    if (is_admin) return r->on & SRV_ON_ADMIN;
    return (r->on & SRV_ON_PUBLIC) || ((r->on & SRV_ON_ADMIN_IF_ANY) && !has_admin);
}

static bool path_fits(const srv_route *r, srv_text path, srv_text *rest)
{
    size_t n = strlen(r->path);
    bool is_prefix = r->path[n - 1] == '/';
    if (path.n < n || memcmp(path.s, r->path, n) != 0) return false;
    *rest = (srv_text){path.s + n, path.n - n};
    return is_prefix ? rest->n > 0 : rest->n == 0;
}

const srv_route *srv_route_find(srv_text path, srv_method method, bool is_admin, bool has_admin,
                                srv_text *rest, unsigned *allow)
{
    *allow = 0;
    for (size_t i = 0; i < sizeof routes / sizeof *routes; i++) {
        const srv_route *r = &routes[i];
        if (!is_here(r, is_admin, has_admin) || !path_fits(r, path, rest)) continue;
        if (r->method == method || (r->method == SRV_METHOD_GET && method == SRV_METHOD_HEAD))
            return r;
        *allow |= 1u << r->method | BIT(OPTIONS) | (r->method == SRV_METHOD_GET ? BIT(HEAD) : 0);
    }
    return NULL;
}
