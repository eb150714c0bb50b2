/* Keys of config.json that several families share. Internal to core/import.
 *
 * A key may have several names: the family's own first, then what other versions of its code wrote;
 * the list ends with NULL. Two of them that are there and say different things are refused. Errors
 * name the key. */
#ifndef LAM_IMPORT_FAMILY_KEYS_H
#define LAM_IMPORT_FAMILY_KEYS_H

#include "core/import/families.h"

typedef const char *const lam_key[4];

/* What the sizes of an encoder are called. No name: the family has no such key. */
typedef struct lam_size_keys {
    lam_key width, layers, heads, ffn, vocab;
    lam_key head_width; /* must be said where there is such a key; else width / heads, whole */
} lam_size_keys;

extern const lam_size_keys lam__bert_keys;

lam_status lam__key_sizes(lam_hparams *h, const lam_json *config, const lam_size_keys *keys,
                          lam_err *err);

/* A whole number in [min, max]; absent is refused, or leaves *out alone. */
lam_status lam__key_size(const lam_json *config, lam_key key, size_t min, size_t max, size_t *out,
                         lam_err *err);
lam_status lam__key_opt_size(const lam_json *config, lam_key key, size_t min, size_t max,
                             size_t *out, lam_err *err);

/* Absent: `fallback`, a name. */
lam_status lam__key_activation(const lam_json *config, lam_key key, const char *fallback,
                               lam_activation *out, lam_err *err);
lam_status lam__activation_parse(const lam_json *config, const char *key, const char *name,
                                 lam_activation *out, lam_err *err);

/* Above 0 and finite as float32; absent: `fallback`. */
lam_status lam__key_eps(const lam_json *config, lam_key key, double fallback, double *out,
                        lam_err *err);

/* Absent: `fallback`. */
lam_status lam__key_bool(const lam_json *config, lam_key key, bool fallback, bool *out,
                         lam_err *err);

lam_status lam__key_refuse_true(const lam_json *config, const char *key, const char *why,
                                lam_err *err);

/* Refuses the string key if it is there and not `only`. */
lam_status lam__key_only(const lam_json *config, const char *key, const char *only, lam_err *err);

/* Embedding, attention and ffn norm. */
void lam__all_norms(lam_hparams *h, lam_norm_kind kind, double eps);

#endif
