#include "server/keys.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "server/log.h"

enum { MAX_KEYS = 100000 };

static lam_status add_key(srv_keys *k, size_t *capacity, srv_text key, lam_err *err,
                          const char *path)
{
    if (key.n >= SRV_KEY_BYTES)
        return lam_fail(err, LAM_E_CONFIG, path, "a key is longer than %d bytes",
                        SRV_KEY_BYTES - 1);
    if (k->count == MAX_KEYS)
        return lam_fail(err, LAM_E_CONFIG, path, "more than %d keys", MAX_KEYS);
    if (k->count == *capacity) {
        size_t more = *capacity ? 2 * *capacity : 16;
        void *grown = realloc(k->keys, more * sizeof *k->keys);
        if (!grown) return lam_fail(err, LAM_E_NOMEM, path, "no memory for the keys");
        k->keys = grown;
        *capacity = more;
    }
    memset(k->keys[k->count], 0, sizeof k->keys[0]);
    memcpy(k->keys[k->count++], key.s, key.n);
    return LAM_OK;
}

static lam_status read_keys(srv_keys *k, FILE *f, const char *path, lam_err *err)
{
    char line[4096];
    size_t capacity = 0;
    while (fgets(line, sizeof line, f)) {
        size_t n = strcspn(line, "\r\n");
        if (n == 0 || line[0] == '#') continue;
        LAM_TRY(add_key(k, &capacity, (srv_text){line, n}, err, path));
    }
    if (ferror(f)) return lam_fail(err, LAM_E_FILE, path, "cannot be read");
    if (k->count == 0) return lam_fail(err, LAM_E_CONFIG, path, "holds no key");
    return LAM_OK;
}

lam_status srv_keys_load(srv_keys *k, const char *path, lam_err *err)
{
    *k = (srv_keys){0};
    FILE *f = fopen(path, "re");
    if (!f) return lam_fail(err, LAM_E_FILE, path, "%s", strerror(errno));
    struct stat st;
    if (fstat(fileno(f), &st) == 0 && (st.st_mode & S_IROTH))
        srv_log(SRV_LOG_WARN, "everyone may read the file of keys", "file", path);
    lam_status s = read_keys(k, f, path, err);
    fclose(f);
    if (s != LAM_OK) srv_keys_free(k);
    return s;
}

void srv_keys_free(srv_keys *k)
{
    free(k->keys);
    *k = (srv_keys){0};
}

bool srv_keys_match(const srv_keys *k, srv_text v)
{
    unsigned char given[SRV_KEY_BYTES] = {0};
    static const char scheme[] = "bearer ";
    size_t skip = sizeof scheme - 1;
    if (v.n <= skip || !srv_text_is_nocase((srv_text){v.s, skip}, scheme)) return false;
    srv_text key = {v.s + skip, v.n - skip};
    while (key.n > 0 && key.s[0] == ' ')
        key.s++, key.n--;
    if (key.n == 0 || key.n >= SRV_KEY_BYTES) return false;
    memcpy(given, key.s, key.n);
    unsigned matches = 0;
    for (size_t i = 0; i < k->count; i++) {
        unsigned differ = 0;
        for (size_t j = 0; j < SRV_KEY_BYTES; j++)
            differ |= (unsigned)(given[j] ^ k->keys[i][j]);
        matches |= (differ - 1u) >> 31; /* 1 if differ is 0, without a branch */
    }
    return matches != 0;
}
