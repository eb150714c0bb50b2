/* The header parser of safetensors: an input is a file, of which only the size of the data counts.
 */
#include <stdlib.h>
#include <string.h>

#include "core/import/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What a caller may rely on after a file was taken. */
static void use(const lam_safetensors *st, uint64_t data_bytes)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < st->count; i++) {
        const lam_st_entry *e = &st->entries[i];
        lam_quoted q;
        if (e->end < e->begin || e->end > data_bytes || e->rank > LAM_ST_MAX_RANK) abort();
        if (lam_safetensors_find(st, e->name, e->name_bytes) != e) abort();
        if (strlen(lam_quote(&q, e->name, e->name_bytes)) > LAM_QUOTE_MAX) abort();
        sum += e->end - e->begin;
    }
    if (sum != data_bytes) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint64_t n;
    lam_err err;
    lam_safetensors st = {.file = {.fd = -1, .name = "model.safetensors"}};
    if (size < sizeof n) return 0;
    memcpy(&n, data, sizeof n);
    if (n == 0 || n > size - sizeof n) return 0;
    char *header = malloc((size_t)n);
    if (header == NULL) return 0;
    memcpy(header, data + sizeof n, (size_t)n);
    const uint64_t data_bytes = size - sizeof n - n;
    if (lam_safetensors_parse(&st, header, (size_t)n, data_bytes, &err) == LAM_OK)
        use(&st, data_bytes);
    lam_safetensors_close(&st);
    return 0;
}
