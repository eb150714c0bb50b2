/* API keys: read once from a file, compared in a time that tells nothing about them. */
#ifndef SERVER_KEYS_H
#define SERVER_KEYS_H

#include "core/base/status.h"
#include "server/guard.h"

enum { SRV_KEY_BYTES = 256 }; /* a key is shorter */

typedef struct srv_keys {
    unsigned char (*keys)[SRV_KEY_BYTES]; /* [count], padded with zeros */
    size_t count;                         /* 0: no key is asked */
} srv_keys;

/* One key a line; empty lines and lines that start with # are skipped, a CR before the line end is
 * cut. At least one key. Errors: LAM_E_FILE, LAM_E_CONFIG, LAM_E_NOMEM; err->where is the path. */
lam_status srv_keys_load(srv_keys *k, const char *path, lam_err *err);
void srv_keys_free(srv_keys *k);

/* Whether an Authorization value ("Bearer KEY") holds one of the keys. Looks at all of them always.
 */
bool srv_keys_match(const srv_keys *k, srv_text authorization);

#endif
