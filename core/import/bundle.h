/* The tensors of a model directory, in one file or in shards. Internal to core/import. */
#ifndef LAM_IMPORT_BUNDLE_H
#define LAM_IMPORT_BUNDLE_H

#include "core/import/json.h"
#include "core/import/safetensors.h"

enum { LAM_MAX_SHARDS = 256 };

/* A tensor and the file it is in. */
typedef struct lam_tensor {
    const lam_safetensors *file;
    lam_st_entry *entry;
} lam_tensor;

typedef struct lam_bundle {
    lam_safetensors *files; /* [count], owned; all open while the bundle is */
    size_t count;
    lam_json index; /* of shards: its object is the weight_map; root NULL for a single file */
} lam_bundle;

/* Tells of oddities that are tolerated. */
typedef struct lam_warner {
    void (*warn)(void *arg, const char *sentence); /* may be NULL */
    void *arg;
} lam_warner;

void lam_warn(const lam_warner *w, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Opens model.safetensors or, without it, the shards of model.safetensors.index.json. On failure
 * nothing is left to close. */
lam_status lam_bundle_open(lam_bundle *b, const lam_dir *d, const lam_warner *w, lam_err *err);
void lam_bundle_close(lam_bundle *b);

/* *out = {0} if the bundle has no tensor of that name; an index that names a shard without it is an
 * error. */
lam_status lam_bundle_find(const lam_bundle *b, const char *name, lam_tensor *out, lam_err *err);

/* Where a missing tensor should have been. */
const char *lam_bundle_name(const lam_bundle *b);

#endif
