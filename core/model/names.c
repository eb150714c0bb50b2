#include "core/model/names.h"

#include <string.h>

#define TEXT_ROW(name, text) text,

static const char *const isa_names[] = {LAM_ISA_MAP(TEXT_ROW)};
static const char *const pool_names[] = {LAM_POOL_MAP(TEXT_ROW)};
static const char *const activation_names[] = {LAM_ACTIVATION_MAP(TEXT_ROW)};
static const char *const stats_level_names[] = {LAM_STATS_LEVEL_MAP(TEXT_ROW)};
static const char *const site_names[] = {LAM_SITE_MAP(TEXT_ROW)};
static const char *const layer_value_names[] = {LAM_LAYER_VALUE_MAP(TEXT_ROW)};
static const char *const population_value_names[] = {LAM_POPULATION_VALUE_MAP(TEXT_ROW)};
static const char *const head_value_names[] = {LAM_HEAD_VALUE_MAP(TEXT_ROW)};
static const char *const source_names[] = {LAM_NORM_SOURCE_MAP(TEXT_ROW)};
static const char *const eps_mode_names[] = {LAM_EPS_MODE_MAP(TEXT_ROW)};

#define FOLD_ROW(name, text, on, what) text,
static const char *const fold_names[] = {LAM_FOLD_MAP(FOLD_ROW)};

/* What other programs call the poolings. */
static const struct {
    const char *text;
    lam_pool pool;
} pool_synonyms[] = {
    {"last_token", LAM_POOL_LAST},       {"lasttoken", LAM_POOL_LAST},
    {"weightedmean", LAM_POOL_WEIGHTED}, {"mean_sqrt_len_tokens", LAM_POOL_MEAN_SQRT_LEN},
    {"mean_tokens", LAM_POOL_MEAN},      {"max_tokens", LAM_POOL_MAX},
    {"cls_token", LAM_POOL_CLS},
};

static bool same(const char *name, const char *s, size_t n)
{
    return strlen(name) == n && memcmp(name, s, n) == 0;
}

static bool find(const char *const *names, size_t count, const char *s, size_t n, size_t *at)
{
    for (size_t i = 0; i < count; i++) {
        if (same(names[i], s, n)) {
            *at = i;
            return true;
        }
    }
    return false;
}

const char *lam_isa_name(lam_isa v)
{
    return isa_names[v];
}

const char *lam_pool_name(lam_pool v)
{
    return pool_names[v];
}

const char *lam_activation_name(lam_activation v)
{
    return activation_names[v];
}

const char *lam_stats_level_name(lam_stats_level v)
{
    return stats_level_names[v];
}

const char *lam_site_name(lam_site v)
{
    return site_names[v];
}

const char *lam_layer_value_name(lam_layer_value v)
{
    return layer_value_names[v];
}

const char *lam_head_value_name(lam_head_value v)
{
    return head_value_names[v];
}

const char *lam_population_value_name(lam_population_value v)
{
    return population_value_names[v];
}

const char *lam_norm_source_name(lam_norm_source v)
{
    return source_names[v];
}

const char *lam_eps_mode_name(lam_eps_mode v)
{
    return eps_mode_names[v];
}

bool lam_isa_parse(const char *s, size_t n, lam_isa *out)
{
    size_t at;
    if (!find(isa_names, LAM_ISA_COUNT, s, n, &at)) return false;
    *out = (lam_isa)at;
    return true;
}

bool lam_pool_parse(const char *s, size_t n, lam_pool *out)
{
    size_t at;
    if (find(pool_names, LAM_POOL_COUNT, s, n, &at)) {
        *out = (lam_pool)at;
        return true;
    }
    for (size_t i = 0; i < sizeof pool_synonyms / sizeof *pool_synonyms; i++) {
        if (same(pool_synonyms[i].text, s, n)) {
            *out = pool_synonyms[i].pool;
            return true;
        }
    }
    return false;
}

bool lam_stats_level_parse(const char *s, size_t n, lam_stats_level *out)
{
    size_t at;
    if (!find(stats_level_names, LAM_STATS_LEVEL_COUNT, s, n, &at)) return false;
    *out = (lam_stats_level)at;
    return true;
}

bool lam_site_parse(const char *s, size_t n, lam_site *out)
{
    size_t at;
    if (!find(site_names, LAM_SITE_COUNT, s, n, &at)) return false;
    *out = (lam_site)at;
    return true;
}

bool lam_norm_source_parse(const char *s, size_t n, lam_norm_source *out)
{
    size_t at;
    if (!find(source_names, LAM_NORM_FROM_COUNT, s, n, &at)) return false;
    *out = (lam_norm_source)at;
    return true;
}

bool lam_eps_mode_parse(const char *s, size_t n, lam_eps_mode *out)
{
    size_t at;
    if (!find(eps_mode_names, LAM_EPS_MODE_COUNT, s, n, &at)) return false;
    *out = (lam_eps_mode)at;
    return true;
}

const char *lam_fold_name(lam_fold v)
{
    return fold_names[v];
}

bool lam_folds_parse(const char *s, size_t n, unsigned *folds)
{
    size_t at;
    if (same("none", s, n)) return true;
    if (same("all", s, n))
        *folds |= LAM_FOLDS_ALL;
    else if (same("affine", s, n))
        *folds |= LAM_FOLDS_DEFAULT;
    else if (find(fold_names, LAM_FOLD_COUNT, s, n, &at))
        *folds |= 1u << at;
    else
        return false;
    return true;
}
