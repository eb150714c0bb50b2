/* Every mistake that the references name, put into the program in turn: the test of check_norms
 * must see each of them. A mistake that stays within the tolerance is a failure of the tests.
 *
 * check_norm_mistakes [DATA]: DATA is tests/data/norms. Prints, for each mistake, in how many cases
 * it was put and the smallest error that it made, in tolerances. */
#include <dirent.h>

#include "tests/golden/norm_mistakes.h"

/* A test that can see this many tolerances sees more than luck. */
static const double LEAST = 10.0;

enum { MOST_MISTAKES = 128 };

typedef struct run {
    tally tally;
    norm_case c;
    lam_isa isa;
    struct {
        const char *name;
        size_t cases;
        double smallest; /* in tolerances */
    } seen[MOST_MISTAKES];
    size_t seen_count, caught;
} run;

/* The case's weights with one mistake in them. */
typedef struct spoilt_weights {
    lam_weights base;
    lam_weights *right;
    const lam_hparams *hparams;
    const mistake *mistake;
} spoilt_weights;

static lam_status read_spoilt(lam_weights *w, const lam_param *p, float *dst, lam_err *err)
{
    const spoilt_weights *s = (const spoilt_weights *)w;
    const lam_status status = s->right->read(s->right, p, dst, err);
    if (status == LAM_OK && s->mistake->tensor) s->mistake->tensor(s->hparams, s->right, p, dst);
    return status;
}

static bool has_spoilt(const lam_weights *w, lam_module module, size_t layer, const char *name)
{
    const spoilt_weights *s = (const spoilt_weights *)w;
    return s->right->has(s->right, module, layer, name);
}

/* How far off the embeddings are, in tolerances. An item that fails is as far off as can be. */
static double distance(run *r, lam_model *m, const mistake *wrong, const json_t *json)
{
    norm_request q;
    lam_ctx *ctx;
    size_t rows = 0, columns = 0;
    double off = 0.0;
    if (lam_ctx_new(&ctx, m, 256, NULL) != LAM_OK) return 0.0;
    if (request_open(&q, m, json)) {
        const char *name = json_string_value(json_object_get(q.expect, "embeddings"));
        double *want = case_expected(&r->c, name, &rows, &columns);
        if (wrong->request) wrong->request(&q);
        mistaken_now.request = &q;
        const bool ran = request_run(&q, ctx);
        if (want) off = relative_error(q.out, columns, want, rows, columns) / r->c.relative;
        if (!ran) off = HUGE_VAL;
        free(want);
    }
    request_close(&q);
    lam_ctx_free(ctx);
    return off;
}

/* The largest distance over the requests of the case: one that fails is enough. */
static double run_mistake(run *r, const mistake *wrong)
{
    lam_hparams h = r->c.hparams;
    lam_model *m;
    lam_err err = {0};
    if (wrong->hparams) wrong->hparams(&h);
    r->c.folds = 0; /* a norm that is folded away can't be spoilt any more */
    spoilt_weights w = {.base = {read_spoilt, has_spoilt},
                        .right = &r->c.tensors.base,
                        .hparams = &h,
                        .mistake = wrong};
    const bool compiled = case_compile(&r->c, &h, &w.base, r->isa, false, &m, &err) == LAM_OK;
    if (!check(&r->tally, compiled, "%s: \"%s\" does not compile: %s: %s", r->c.name, wrong->name,
               err.where, err.message))
        return 0.0;
    mistaken_now = (mistaken){.right = m->kernels, .spec = r->c.hparams.attention_norm};
    if (wrong->model) wrong->model(m, &r->c);
    double worst = 0.0;
    size_t i;
    json_t *request;
    json_array_foreach(json_object_get(r->c.cases, "requests"), i, request)
    {
        const double off = distance(r, m, wrong, request);
        if (!(off <= worst)) worst = off;
    }
    lam_model_close(m);
    return worst;
}

static void note(run *r, const mistake *wrong, double off)
{
    size_t i = 0;
    while (i < r->seen_count && strcmp(r->seen[i].name, wrong->name) != 0)
        i++;
    if (i == r->seen_count) {
        r->seen_count++;
        r->seen[i].name = wrong->name;
        r->seen[i].smallest = HUGE_VAL;
    }
    r->seen[i].cases++;
    if (off < r->seen[i].smallest) r->seen[i].smallest = off;
}

static void check_trap(run *r, const json_t *trap)
{
    const char *name = json_string_value(json_object_get(trap, "mistake"));
    const mistake *wrong = mistake_find(name);
    if (wrong == NULL) {
        check(&r->tally, false, "%s: \"%s\" is not known", r->c.name, name);
        return;
    }
    const double off = run_mistake(r, wrong);
    if (check(&r->tally, off >= LEAST || isnan(off), "%s: \"%s\" is off by %.3g tolerances only",
              r->c.name, name, off))
        r->caught++;
    note(r, wrong, off);
}

/* The same way without a mistake: within the tolerance, or the rest would mean nothing. */
static void check_nothing(run *r)
{
    static const mistake nothing = {.name = "nothing"};
    const double off = run_mistake(r, &nothing);
    check(&r->tally, off <= 1.0, "%s: without a mistake off by %.3g tolerances", r->c.name, off);
}

static int visible(const struct dirent *e)
{
    return e->d_name[0] != '.';
}

int main(int argc, char **argv)
{
    const char *data = argc > 1 ? argv[1] : "tests/data/norms";
    static run r;
    struct dirent **names;
    size_t traps = 0, i;
    json_t *trap;
    const int count = scandir(data, &names, visible, alphasort);
    r.isa = lam_cpu_best();
    check(&r.tally, count >= 77, "%s holds only %d cases", data, count);
    for (int n = 0; n < count; n++) {
        lam_err err = {0};
        if (check(&r.tally, case_open(&r.c, data, names[n]->d_name, &err), "%s: %s: %s",
                  names[n]->d_name, err.where, err.message)) {
            check_nothing(&r);
            json_array_foreach(json_object_get(r.c.cases, "trap"), i, trap)
            {
                check_trap(&r, trap);
                traps++;
            }
            case_close(&r.c);
        }
        free(names[n]);
    }
    if (count >= 0) free(names);
    for (i = 0; i < r.seen_count; i++)
        printf("%3zu cases, at least %9.3g tolerances: %s\n", r.seen[i].cases, r.seen[i].smallest,
               r.seen[i].name);
    check(&r.tally, r.seen_count == mistake_count(), "%zu of %zu mistakes were put", r.seen_count,
          mistake_count());
    printf("%zu of %zu mistakes in %d cases were caught, of %zu kinds\n", r.caught, traps, count,
           r.seen_count);
    return report(&r.tally);
}
