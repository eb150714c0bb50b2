/* Status codes and error details. One list makes the enum and the names. */
#ifndef LAM_BASE_STATUS_H
#define LAM_BASE_STATUS_H

#include <stdbool.h>
#include <stddef.h>

/* X(name, text): text says what kind of thing went wrong. */
#define LAM_STATUS_MAP(X)                                      \
    X(OK, "ok")                                                \
    X(E_NOMEM, "out of memory")                                \
    X(E_FILE, "file cannot be read")                           \
    X(E_FORMAT, "file is malformed")                           \
    X(E_UNSUPPORTED, "model is not supported")                 \
    X(E_CONFIG, "configuration is refused")                    \
    X(E_WEIGHTS, "tensor is missing, misshapen or not finite") \
    X(E_LIMIT, "limit exceeded")                               \
    X(E_EMPTY, "input is empty")                               \
    X(E_TOO_LONG, "input is longer than the model allows")     \
    X(E_ID_RANGE, "token id is outside the vocabulary")        \
    X(E_TYPE_RANGE, "token type is outside the model's types") \
    X(E_MASK, "attention mask is refused")                     \
    X(E_UTF8, "text is not valid UTF-8")                       \
    X(E_INPUT, "input is refused")                             \
    X(E_NON_FINITE, "result is not finite")                    \
    X(E_ZERO_NORM, "result has length zero")                   \
    X(E_CANCELLED, "cancelled")                                \
    X(E_SYSTEM, "operating system call failed")

typedef enum lam_status {
#define X(name, text) LAM_##name,
    LAM_STATUS_MAP(X)
#undef X
} lam_status;

/* Details for people. `where` names the file, tensor, key or setting; both are cut to fit, hold no
 * raw control characters and are valid UTF-8. */
typedef struct lam_err {
    lam_status status;
    char where[256];
    char message[512];
} lam_err;

const char *lam_status_text(lam_status s);

/* Fills err (may be NULL) and returns `status`, so that a function can `return lam_fail(...)`. */
lam_status lam_fail(lam_err *err, lam_status status, const char *where, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Passes an error up unchanged. */
#define LAM_TRY(call)                            \
    do {                                         \
        lam_status lam_try_ = (call);            \
        if (lam_try_ != LAM_OK) return lam_try_; \
    } while (0)

#endif
