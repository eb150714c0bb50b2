/* The state file: what an interrupted calibration goes on from. Written beside the output under
 * another name and put in place, so that there is always a whole one. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "server/cli/calibrate_run.h"

typedef struct head {
    char magic[8];
    uint64_t fingerprint;
    cal_counts counts;
} head;

static const char MAGIC[8] = {'l', 'a', 'm', 'c', 'a', 'l', '0', '1'};

static size_t width_of(const cal_plan *p, size_t norm)
{
    lam_norm_site_view v = {0};
    (void)lam_model_norm_site(p->texts->model, norm, &v);
    return v.width;
}

lam_status cal_state_new(cal_state *s, const cal_plan *p, lam_err *err)
{
    *s = (cal_state){0};
    s->mean = calloc(p->norm_count + 1, sizeof *s->mean);
    s->square = calloc(p->norm_count + 1, sizeof *s->square);
    if (!s->mean || !s->square) return lam_fail(err, LAM_E_NOMEM, "", "no memory for statistics");
    LAM_TRY(lam_norm_inputs_new(&s->total, p->texts->model, err));
    return lam_norm_inputs_new(&s->other, p->texts->model, err);
}

void cal_state_free(cal_state *s, const cal_plan *p)
{
    for (size_t i = 0; i < p->norm_count; i++) {
        if (s->mean) free(s->mean[i]);
        if (s->square) free(s->square[i]);
    }
    free(s->mean);
    free(s->square);
    lam_norm_inputs_free(s->total);
    lam_norm_inputs_free(s->other);
    *s = (cal_state){0};
}

/* ---- Writing --------------------------------------------------------------------------------- */

static bool put(FILE *f, const void *data, size_t bytes)
{
    return fwrite(data, 1, bytes, f) == bytes;
}

static bool put_population(FILE *f, const lam_norm_inputs *p, size_t norm, size_t width)
{
    lam_norm_inputs_view v = {0};
    return lam_norm_inputs_read(p, norm, &v) && put(f, &v.rows, sizeof v.rows) &&
           put(f, v.mean, width * sizeof *v.mean) && put(f, v.squares, width * sizeof *v.squares);
}

static bool put_norm(FILE *f, const cal_state *s, size_t norm, size_t width)
{
    const uint64_t found = s->square[norm] != NULL;
    return put_population(f, s->total, norm, width) && put_population(f, s->other, norm, width) &&
           put(f, &found, sizeof found) &&
           (!found || (put(f, s->mean[norm], width * sizeof(float)) &&
                       put(f, s->square[norm], width * sizeof(float))));
}

lam_status cal_state_save(const cal_state *s, const cal_plan *p, lam_err *err)
{
    char path[4200];
    head h = {.fingerprint = p->fingerprint, .counts = s->counts};
    memcpy(h.magic, MAGIC, sizeof MAGIC);
    (void)snprintf(path, sizeof path, "%s.new", p->state_path);
    FILE *f = fopen(path, "wbe");
    bool ok = f && put(f, &h, sizeof h);
    for (size_t i = 0; i < p->norm_count && ok; i++)
        ok = put_norm(f, s, i, width_of(p, i));
    if (f && fclose(f) != 0) ok = false;
    if (ok && rename(path, p->state_path) == 0) return LAM_OK;
    return lam_fail(err, LAM_E_FILE, p->state_path, "cannot be written: %s", strerror(errno));
}

/* ---- Reading --------------------------------------------------------------------------------- */

static bool get(FILE *f, void *data, size_t bytes)
{
    return fread(data, 1, bytes, f) == bytes;
}

static bool get_population(FILE *f, lam_norm_inputs *p, size_t norm, size_t width, double *scratch)
{
    lam_norm_inputs_view v = {.mean = scratch, .squares = scratch + width};
    if (!get(f, &v.rows, sizeof v.rows) || !get(f, scratch, 2 * width * sizeof *scratch))
        return false;
    lam_norm_inputs_write(p, norm, &v);
    return true;
}

static bool get_norm(FILE *f, cal_state *s, size_t norm, size_t width)
{
    uint64_t found = 0;
    double *scratch = calloc(2 * width, sizeof *scratch);
    bool ok = scratch && get_population(f, s->total, norm, width, scratch) &&
              get_population(f, s->other, norm, width, scratch) && get(f, &found, sizeof found);
    free(scratch);
    if (!ok || !found) return ok;
    s->mean[norm] = calloc(width, sizeof(float));
    s->square[norm] = calloc(width, sizeof(float));
    return s->mean[norm] && s->square[norm] && get(f, s->mean[norm], width * sizeof(float)) &&
           get(f, s->square[norm], width * sizeof(float));
}

static lam_status load(FILE *f, cal_state *s, const cal_plan *p, lam_err *err)
{
    head h;
    if (!get(f, &h, sizeof h) || memcmp(h.magic, MAGIC, sizeof MAGIC) != 0)
        return lam_fail(err, LAM_E_FORMAT, p->state_path, "is no state of a calibration");
    if (h.fingerprint != p->fingerprint)
        return lam_fail(err, LAM_E_CONFIG, p->state_path,
                        "is of another model, other texts or other options; repeat the command as "
                        "it was, or remove the file to start anew");
    s->counts = h.counts;
    for (size_t i = 0; i < p->norm_count; i++)
        if (!get_norm(f, s, i, width_of(p, i)))
            return lam_fail(err, LAM_E_FORMAT, p->state_path,
                            "ends too early; remove it to start anew");
    return LAM_OK;
}

lam_status cal_state_load(cal_state *s, const cal_plan *p, bool *found, lam_err *err)
{
    FILE *f = fopen(p->state_path, "rbe");
    *found = f != NULL;
    if (!f && errno == ENOENT) return LAM_OK;
    if (!f) return lam_fail(err, LAM_E_FILE, p->state_path, "%s", strerror(errno));
    const lam_status status = load(f, s, p, err);
    (void)fclose(f);
    return status;
}
