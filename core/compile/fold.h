/* Shared by the passes that move norms into weights. docs/NUMERICS.md says what each does.
 *
 * A pass changes the folded list's ops and notes in `edits` what becomes of their weights; all
 * notes of a matrix are applied at once, in double, so that folding twice rounds once. */
#ifndef LAM_COMPILE_FOLD_H
#define LAM_COMPILE_FOLD_H

#include "core/compile/passes.h"

/* y = scale x + shift, channel by channel. scale NULL: y = x. */
typedef struct lam__affine {
    double *scale, *shift; /* [width] */
} lam__affine;

typedef struct lam__fold_edit {
    lam__affine in;  /* LINEAR: what is done to its input first */
    lam__affine out; /* LINEAR: what is done to its result; NORM: what the op is instead */
    bool centre;     /* LINEAR, EMBED: the mean over the channels of the result is taken away */
    bool bare;       /* NORM: without gain and bias */
} lam__fold_edit;

typedef struct lam__folder {
    const lam_program *base; /* packed */
    lam_program *list;       /* being folded; ops keep their places until the end */
    const lam_hparams *h;
    unsigned folds;        /* those that may be taken */
    lam__fold_edit *edits; /* [op_count] */
    lam_fold_view *views;  /* [2 * op_count]: of each op, of its centring; kind NULL: none */
    lam_arena *scratch;
    bool taken;  /* something was */
    bool failed; /* out of memory; looked at once at the end */
} lam__folder;

/* Who reads a buffer. */
typedef struct lam__readers {
    size_t count; /* of all */
    size_t by[LAM_OP_COUNT];
    size_t shortcuts; /* additions that carry it on: by `other` */
    size_t op;        /* the last one */
} lam__readers;

lam__readers lam__readers_of(const lam_program *p, lam_buf buf);

/* The op that writes it; there is one. */
size_t lam__writer_of(const lam_program *p, lam_buf buf);

/* Lets all readers of `from` read `to`. */
void lam__redirect(lam_program *p, lam_buf from, lam_buf to);

/* Whether it is one affine map for every row: nothing in it is measured. */
bool lam__norm_is_fixed(const lam_norm_spec *spec);

/* What a norm does behind its measuring: of a fixed one all of it; else gain and bias. *offset: how
 * far its running mean is from 0, in deviations. */
lam__affine lam__norm_map(lam__folder *f, const lam_op *op, double *offset);

/* first, then second; a new map. */
lam__affine lam__compose(lam__folder *f, lam__affine first, lam__affine second, size_t width);

/* The matrix of op number `at` does `map` to its input before all else, or to its result at last.
 */
void lam__edit_input(lam__folder *f, size_t at, lam__affine map);
void lam__edit_output(lam__folder *f, size_t at, lam__affine map);

/* The smallest |scale|; the largest |shift|. */
double lam__smallest_scale(lam__affine map, size_t width);
double lam__largest_shift(lam__affine map, size_t width);

/* A running mean so many deviations from 0 would leave few digits of the difference: the fold is
 * left out. */
#define LAM__FOLD_MAX_OFFSET 100.0
/* The smallest factor that a shortcut may be divided by. */
#define LAM__FOLD_MIN_FACTOR 1e-6

/* Notes what became of the norm; reason NULL: taken, with nothing to say. */
void lam__fold_note(lam__folder *f, size_t at, lam_fold fold, const char *reason, double factor,
                    double offset);

/* The passes, in order. */
void lam__fold_neighbours(lam__folder *f); /* reader, writer, gain */
void lam__fold_stream(lam__folder *f);     /* stream, final */
void lam__fold_centre(lam__folder *f);

/* Applies the edits: maps the block of folded weights and points the list's ops to it. */
lam_status lam__fold_weights(lam__folder *f, lam_program *p, lam_err *err);

#endif
