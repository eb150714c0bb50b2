#include "core/tokenizer/vocab.h"

#include <stdio.h>
#include <string.h>

#include "core/base/checked.h"

/* Ids may have gaps, but a handful of pieces must not ask for gigabytes. */
static size_t id_limit(const lam__tokenizer_spec *spec)
{
    return 65536 + 4 * (spec->piece_count + spec->added_count);
}

const char *lam__vocab_piece(const lam__vocab *v, int32_t id, size_t *bytes)
{
    if (id < 0 || (size_t)id >= v->size) return NULL;
    const uint32_t start = v->starts[id], end = v->starts[id + 1];
    if (start == end) return NULL;
    if (bytes) *bytes = end - start - 1;
    return v->blob + start;
}

static lam_status check_id(int32_t id, const lam__tokenizer_spec *spec, const char *where,
                           lam_err *err)
{
    if (id >= 0 && (size_t)id < id_limit(spec)) return LAM_OK;
    return lam_fail(err, id < 0 ? LAM_E_FORMAT : LAM_E_LIMIT, where,
                    "id %d is outside 0..%zu, the range for a file with %zu pieces", id,
                    id_limit(spec) - 1, spec->piece_count + spec->added_count);
}

static bool same_bytes(lam__bytes a, lam__bytes b)
{
    return a.n == b.n && (a.n == 0 || memcmp(a.text, b.text, a.n) == 0);
}

/* by_id[id] = text, refusing a second text for an id. */
static lam_status claim(lam__bytes *by_id, const lam__piece *p, const char *where, lam_err *err)
{
    lam__bytes *const slot = &by_id[p->id];
    if (slot->text && !same_bytes(*slot, p->text)) {
        return lam_fail(err, LAM_E_FORMAT, where, "id %d is given to \"%.*s\" and to \"%.*s\"",
                        p->id, (int)(slot->n < 64 ? slot->n : 64), slot->text,
                        (int)(p->text.n < 64 ? p->text.n : 64), p->text.text);
    }
    *slot = p->text;
    return LAM_OK;
}

static void key_name(char *out, size_t size, const lam__tokenizer_spec *spec, const char *key)
{
    snprintf(out, size, "%s: %s", spec->file, key);
}

static lam_status claim_all(lam__bytes *by_id, const lam__tokenizer_spec *spec, lam_err *err)
{
    char where[200];
    key_name(where, sizeof where, spec, "model.vocab");
    for (size_t i = 0; i < spec->piece_count; i++) {
        LAM_TRY(claim(by_id, &spec->pieces[i], where, err));
    }
    for (size_t i = 0; i < spec->added_count; i++) {
        snprintf(where, sizeof where, "%s: added_tokens[%zu].id", spec->file, i);
        const lam__piece p = {spec->added[i].text, spec->added[i].id};
        LAM_TRY(claim(by_id, &p, where, err));
    }
    return LAM_OK;
}

/* Largest id + 1, every id being within bounds. */
static lam_status find_size(const lam__tokenizer_spec *spec, size_t *size, lam_err *err)
{
    char where[200];
    key_name(where, sizeof where, spec, "model.vocab");
    *size = 0;
    for (size_t i = 0; i < spec->piece_count; i++) {
        const int32_t id = spec->pieces[i].id;
        LAM_TRY(check_id(id, spec, where, err));
        if ((size_t)id >= *size) *size = (size_t)id + 1;
    }
    for (size_t i = 0; i < spec->added_count; i++) {
        const int32_t id = spec->added[i].id;
        snprintf(where, sizeof where, "%s: added_tokens[%zu].id", spec->file, i);
        LAM_TRY(check_id(id, spec, where, err));
        if ((size_t)id >= *size) *size = (size_t)id + 1;
    }
    return LAM_OK;
}

static lam_status build_strings(lam__vocab *v, const lam__tokenizer_spec *spec, lam_arena *arena,
                                lam_arena *scratch, lam_err *err)
{
    LAM_TRY(find_size(spec, &v->size, err));
    lam__bytes *by_id = lam_arena_calloc(scratch, v->size, sizeof *by_id);
    if (!by_id) return LAM_E_NOMEM;
    LAM_TRY(claim_all(by_id, spec, err));
    size_t total = 0;
    for (size_t id = 0; id < v->size; id++) {
        if (by_id[id].text && !lam_add_size(total, by_id[id].n + 1, &total)) return LAM_E_NOMEM;
    }
    if (total > UINT32_MAX) {
        return lam_fail(err, LAM_E_LIMIT, spec->file, "the pieces take more than 4 GiB");
    }
    char *blob = lam_arena_alloc(arena, total);
    uint32_t *starts = lam_arena_alloc(arena, (v->size + 1) * sizeof *starts);
    if (!blob || !starts) return LAM_E_NOMEM;
    uint32_t at = 0;
    for (size_t id = 0; id < v->size; id++) {
        starts[id] = at;
        if (!by_id[id].text) continue;
        memcpy(blob + at, by_id[id].text, by_id[id].n);
        at += (uint32_t)by_id[id].n;
        blob[at++] = '\0';
    }
    starts[v->size] = at;
    v->blob = blob;
    v->starts = starts;
    return LAM_OK;
}

static lam_status build_trie(lam__vocab *v, const lam__tokenizer_spec *spec, lam_arena *arena,
                             lam_arena *scratch, lam_err *err)
{
    lam__trie_key *keys = lam_arena_calloc(scratch, spec->piece_count, sizeof *keys);
    if (!keys) return LAM_E_NOMEM;
    for (size_t i = 0; i < spec->piece_count; i++) {
        const lam__piece *p = &spec->pieces[i];
        keys[i] = (lam__trie_key){p->text.text, p->text.n, p->id};
    }
    size_t twin;
    const lam_status status =
        lam__trie_build(&v->trie, keys, spec->piece_count, arena, scratch, &twin);
    char where[200];
    key_name(where, sizeof where, spec, "model.vocab");
    if (status == LAM_E_LIMIT) {
        return lam_fail(err, status, where, "the pieces make more than 8 million trie states");
    }
    if (status != LAM_OK) return status;
    if (twin == SIZE_MAX) return LAM_OK;
    const lam__bytes t = spec->pieces[twin].text;
    return lam_fail(err, LAM_E_FORMAT, where, "\"%.*s\" is there twice", (int)(t.n < 64 ? t.n : 64),
                    t.text);
}

lam_status lam__vocab_build(lam__vocab *out, const lam__tokenizer_spec *spec, lam_arena *arena,
                            lam_arena *scratch, lam_err *err)
{
    const lam_arena_mark mark = lam_arena_get_mark(scratch);
    lam_status status = build_strings(out, spec, arena, scratch, err);
    if (status == LAM_OK) {
        lam_arena_rewind(scratch, mark);
        status = build_trie(out, spec, arena, scratch, err);
    }
    lam_arena_rewind(scratch, mark);
    return status;
}
