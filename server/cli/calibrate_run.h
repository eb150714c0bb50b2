/* Passes over the texts: what they measure, how their parts are put together and kept on disk. */
#ifndef SERVER_CLI_CALIBRATE_RUN_H
#define SERVER_CLI_CALIBRATE_RUN_H

#include <time.h>

#include "server/cli/calibrate_texts.h"

/* Old and new vectors of the same texts. */
typedef struct cal_shift {
    uint64_t texts, failed; /* failed: either vector is no number, or has length 0 */
    double cosines;         /* sum */
    double least_cosine, largest_difference;
} cal_shift;

/* What a pass is for. */
typedef enum cal_what {
    CAL_ONE_NORM, /* a norm with running tensors, behind those that have new ones */
    CAL_RUNNING,  /* all of them, on the stored tensors */
    CAL_PROFILE,  /* norms without, on the new tensors of the others */
    CAL_COMPARE,  /* the old model and the new one */
} cal_what;

typedef struct cal_pass {
    cal_what what;
    size_t norm; /* of CAL_ONE_NORM */
} cal_pass;

typedef struct cal_plan {
    const cal_texts *texts;
    cal_pass *passes;
    size_t pass_count;
    size_t norm_count;
    size_t chunk_lines; /* the same texts are merged first, whatever the workers */
    bool batches;       /* a chunk is a batch; batches count alike */
    bool old_runs;      /* every norm with running tensors has stored ones: there is an old model */
    size_t workers, max_rows;
    const char *state_path;
    uint64_t fingerprint; /* of all that decides the numbers */
    double checkpoint_seconds;
    bool progress;
} cal_plan;

/* Numbers of a run, as a state file keeps them. */
typedef struct cal_counts {
    uint64_t pass;                            /* at work, or next */
    uint64_t chunks, offset, line;            /* of it, merged */
    uint64_t texts, rows, truncated, skipped; /* of it */
    uint64_t rows_run;                        /* of all passes, old and new model counted apart */
    double seconds;
    cal_shift shift;
} cal_counts;

typedef struct cal_state {
    cal_counts counts;
    lam_norm_inputs *total, *other; /* of the pass; `other` of the new model when comparing */
    float **mean, **square;         /* [norm_count][width] found so far; NULL: not yet */
} cal_state;

lam_status cal_state_new(cal_state *s, const cal_plan *p, lam_err *err);
void cal_state_free(cal_state *s, const cal_plan *p);

/* The state file. Loading one of another run is refused; *found: there was one. */
lam_status cal_state_load(cal_state *s, const cal_plan *p, bool *found, lam_err *err);
lam_status cal_state_save(const cal_state *s, const cal_plan *p, lam_err *err);

/* Goes on from s->counts.pass to the end. What the last pass measured stays in total and other. */
lam_status cal_run(cal_state *s, const cal_plan *p, lam_err *err);

/* The moments of what a pass merged -> mean and square of a norm. */
lam_status cal_take(cal_state *s, const cal_plan *p, size_t norm, lam_err *err);

#endif
