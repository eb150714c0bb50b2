/* The steps of lam_compile, in order: build, number the taps, part the measured list from the plain
 * one, pack, fold, fuse, plan the memory of each list. */
#ifndef LAM_COMPILE_PASSES_H
#define LAM_COMPILE_PASSES_H

#include <stddef.h>

#include "core/program/program.h"

/* Writes the op list, nothing fused, and places every weight in the block. All memory is the
 * arena's. `weights` is asked which optional tensors there are. */
lam_status lam__build(lam_program *p, const lam_hparams *h, const lam_weights *weights,
                      lam_arena *arena, lam_err *err);

/* Of a list without MEASURE ops: merges activations and residual additions into the linear op
 * before them. The same bits: a linear's epilogue does them in the order of the separate ops. */
void lam__fuse(lam_program *p);

/* Gives each site its slot of statistics; sites that are one tensor share it. */
lam_status lam__number_taps(lam_program *p, size_t layers, lam_arena *arena, lam_err *err);

/* p->measured becomes a copy of the list; p itself loses its MEASURE ops. */
lam_status lam__part_measured(lam_program *p, lam_arena *arena, lam_err *err);

/* Lifetimes -> places of the buffers in a row of the arena. */
void lam__plan(lam_program *p);

/* Maps the block and fills it from the checkpoint. */
lam_status lam__pack(lam_program *p, const lam_hparams *h, lam_weights *w, lam_err *err);

/* Of a packed list, nothing fused yet: p->folded becomes a copy without the norms that the folds of
 * the set can move into weights, or stays NULL if that is none. p->folds says what became of each.
 */
lam_status lam__fold(lam_program *p, const lam_hparams *h, unsigned folds, lam_arena *arena,
                     lam_err *err);

/* Which row of the table of biases a key has, seen from a query at distance 0:
 * distance = position of the key - position of the query. */
size_t lam__bias_bucket(ptrdiff_t distance, size_t buckets, size_t farthest);

/* Spreads a table [rows, heads] to out [heads, 2 * span + 1], by distance from -span to span. */
void lam__spread_bias(const float *table, size_t heads, size_t buckets, size_t farthest,
                      size_t span, float *out);

/* Makes an op one that does nothing; lam__drop removes those. */
void lam__op_retire(lam_op *op);
void lam__drop(lam_program *p);

#endif
