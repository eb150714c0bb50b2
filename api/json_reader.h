/* A pull reader for JSON (RFC 8259) over bytes that stay where they are: no tree, no recursion.
 *
 * The caller asks for what it expects, in the order of the text:
 *
 *     if (api_json_enter_object(&r))
 *         while (api_json_next_key(&r, &key)) { read or skip exactly one value }
 *
 * The first fault is kept in `fault` and ends everything: all later calls return false. A caller
 * that stops early without a fault of the reader (a value of the wrong kind) has not seen the rest
 * of the text; api_json_validate judges it. Nothing outside [text, end) is read. */
#ifndef API_JSON_READER_H
#define API_JSON_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/arena.h"

enum {
    API_JSON_MAX_DEPTH = 16, /* arrays and objects inside each other */
    API_JSON_MAX_KEYS = 64,  /* of all objects that are open at one time */
};

#define API_JSON_FAULT_MAP(X)                                     \
    X(NONE, "no fault")                                           \
    X(SYNTAX, "the text is not JSON")                             \
    X(UTF8, "the text is not valid UTF-8")                        \
    X(TOO_DEEP, "arrays or objects are nested more than 16 deep") \
    X(DUPLICATE_KEY, "an object has a key twice")                 \
    X(TOO_MANY_KEYS, "objects have more than 64 keys")            \
    X(MEMORY, "out of memory")

#define API_ENUM_ROW_FAULT(name, text) API_JSON_FAULT_##name,
typedef enum api_json_fault {
    API_JSON_FAULT_MAP(API_ENUM_ROW_FAULT) API_JSON_FAULT_COUNT
} api_json_fault;

const char *api_json_fault_text(api_json_fault f);

typedef enum api_json_kind {
    API_JSON_NOTHING, /* end of text or a byte that starts no value: the fault is set */
    API_JSON_NULL,
    API_JSON_BOOL,
    API_JSON_NUMBER,
    API_JSON_STRING,
    API_JSON_ARRAY,
    API_JSON_OBJECT
} api_json_kind;

/* Bytes of a string without its escapes: in the text itself where it has none, else in the arena.
 */
typedef struct api_text {
    const char *data;
    size_t size;
    bool has_nul; /* an escaped U+0000 is among them */
} api_text;

typedef struct api_json_key {
    api_text text;
    uint32_t hash;
} api_json_key;

typedef struct api_json {
    const char *text, *at, *end;
    lam_arena *arena; /* for strings with escapes; NULL: judging, strings are not kept */
    api_json_fault fault;
    const char *fault_at;
    const char *bad_utf8_at; /* without an arena: the first string that is no Unicode; or NULL */
    size_t depth;
    uint32_t first_mask; /* bit d: the container at depth d has had no element yet */
    size_t key_start[API_JSON_MAX_DEPTH + 1];
    size_t key_count;
    api_json_key keys[API_JSON_MAX_KEYS];
} api_json;

void api_json_init(api_json *r, const char *text, size_t bytes, lam_arena *arena);

/* What kind of value comes next; takes nothing but white space. */
api_json_kind api_json_peek(api_json *r);

/* The kind of the first element of the array that is next, judged by its first byte; nothing is
 * taken. API_JSON_NOTHING: the array is empty, or that byte starts no value. */
api_json_kind api_json_peek_inside(const api_json *r);

/* Containers. `enter` wants that kind of value next. `next` is false at the end of the container,
 * which is then closed, or on a fault: tell them apart by r->fault. */
bool api_json_enter_array(api_json *r);
bool api_json_next_element(api_json *r);
bool api_json_enter_object(api_json *r);
bool api_json_next_key(api_json *r, api_text *key);

/* Scalars; the kind must be next. */
bool api_json_string(api_json *r, api_text *out);
bool api_json_bool(api_json *r, bool *out);
bool api_json_null(api_json *r);

/* How a number token stands to int64. Fractions and exponents are never rounded to integers: "1.0"
 * and "1e2" are not integers here. */
typedef enum api_json_number_kind {
    API_JSON_INTEGER,
    API_JSON_INTEGER_TOO_LOW, /* an integer outside int64 */
    API_JSON_INTEGER_TOO_HIGH,
    API_JSON_FRACTION
} api_json_number_kind;

typedef struct api_json_number {
    api_json_number_kind kind;
    int64_t integer; /* clamped where outside int64; 0 for a fraction */
} api_json_number;

bool api_json_number_read(api_json *r, api_json_number *out);

/* Any value; its syntax is checked, and duplicate keys in it. */
bool api_json_skip(api_json *r);

/* Nothing but white space is left. */
bool api_json_finish(api_json *r);

/* ---- Lists of integers ----------------------------------------------------------------------- */

typedef enum api_json_list_problem {
    API_JSON_LIST_OK,
    API_JSON_LIST_NOT_NUMBER,
    API_JSON_LIST_NOT_INTEGER,
    API_JSON_LIST_RANGE,
    API_JSON_LIST_FAULT /* of the text */
} api_json_list_problem;

/* Elements of the list of scalars whose '[' was just entered, without reading them; at least as
 * many as will be read, however the text goes on. */
size_t api_json_list_bound(const api_json *r);

/* Reads the elements of the list just entered and closes it. Numbers must be integers in min..max.
 * `out` has room for api_json_list_bound numbers; *count is how many were read, and on a problem
 * the index of the element to blame. */
api_json_list_problem api_json_int32s(api_json *r, int32_t *out, size_t *count);
api_json_list_problem api_json_flags(api_json *r, uint8_t *out, size_t *count); /* 0 and 1 only */

/* ---- Judging a whole text -------------------------------------------------------------------- */

/* Whether all of the text is one JSON value; *fault and *offset (bytes) say why not. */
bool api_json_validate(const char *text, size_t bytes, api_json_fault *fault, size_t *offset);

#endif
