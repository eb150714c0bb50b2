/* Runs whose every site is kept, so that two of them can be compared bit by bit. */
#ifndef SERVER_CLI_TRACE_H
#define SERVER_CLI_TRACE_H

#include "core/program/context.h"

/* A tensor that statistics may be taken of; they stand in order of computation. */
typedef struct cli_site {
    size_t layer; /* LAM_LAYER_NONE: embedding and final */
    lam_site site;
    size_t width;
    size_t before; /* floats of a row at the sites before this one */
} cli_site;

typedef struct cli_sites {
    cli_site *at; /* [count]: by slot */
    size_t count;
    size_t row_floats; /* of all sites together */
} cli_sites;

/* From the arena, as everything here. */
lam_status cli_sites_of(cli_sites *out, const lam_model *m, lam_arena *arena, lam_err *err);

typedef struct cli_trace {
    const cli_sites *sites;
    size_t capacity, rows;
    float *data; /* site after site: [capacity, width] */
} cli_trace;

/* Room for that many rows. LAM_E_NOMEM. */
lam_status cli_trace_new(cli_trace *t, const cli_sites *sites, size_t capacity, lam_arena *arena,
                         lam_err *err);

/* Encodes items that passed lam_item_check and adds the rows of their sites. The rows of all of
 * them fit the context, so that they are one batch. Errors: what an item failed with. */
lam_status cli_trace_run(cli_trace *t, lam_ctx *ctx, lam_item *items, size_t count, lam_err *err);

/* The rows of a site, [rows, width]. */
static inline const float *cli_trace_site(const cli_trace *t, size_t site)
{
    const cli_site *s = &t->sites->at[site];
    return t->data + s->before * t->capacity;
}

/* Where two runs part; over all comparisons it was given. */
typedef struct cli_parting {
    size_t compared; /* rows */
    bool differs;
    size_t first_site;    /* earliest that differs anywhere */
    double first_largest; /* largest difference there */
    size_t largest_site;  /* where the largest difference is */
    double largest;       /* infinite where either is not finite */
} cli_parting;

/* Rows a_row.. of one against rows b_row.. of the other. */
void cli_trace_compare(const cli_trace *a, size_t a_row, const cli_trace *b, size_t b_row,
                       size_t rows, cli_parting *parting);

/* Adds what was found elsewhere. */
void cli_parting_merge(cli_parting *into, const cli_parting *from);

/* Largest |a - b| of n values; 0 only where the bits are the same. */
double cli_largest_difference(const float *a, const float *b, size_t n);

/* ||a - b|| / ||b||. */
double cli_relative_distance(const float *a, const float *b, size_t n);

#endif
