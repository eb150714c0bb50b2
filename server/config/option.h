/* Options as data: one list macro makes a struct's fields, their defaults, parsers and help.
 *
 * A list is written as X(type, field, default, min, max, value, help) rows. `type` is one of
 *   TEXT    const char *  default a string or NULL; min and max bound its length in bytes
 *   LIST    const char *  TEXT of words with commas between them, none of them empty
 *   CHOICE  const char *  one of the words of `value`, "a|b|c"
 *   WORDS   const char *  some of them, with commas between
 *   NUMBER  uint64_t      min and max bound it
 *   SWITCH  bool          a flag without a value
 *
 * `value` is how help calls the value: "PORT", "FILE". A field is spelled max_items in a file,
 * --max-items as a flag and LAM_MAX_ITEMS in the environment. */
#ifndef SERVER_CONFIG_OPTION_H
#define SERVER_CONFIG_OPTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/status.h"

typedef enum srv_option_type {
    SRV_OPTION_TEXT,
    SRV_OPTION_LIST,
    SRV_OPTION_CHOICE,
    SRV_OPTION_WORDS,
    SRV_OPTION_NUMBER,
    SRV_OPTION_SWITCH,
} srv_option_type;

typedef struct srv_option {
    srv_option_type type;
    const char *name; /* the field */
    const char *text; /* default of TEXT, LIST, CHOICE, WORDS */
    uint64_t number;  /* default of NUMBER */
    uint64_t min, max;
    const char *value;
    const char *help;
    size_t offset; /* of the field in its struct */
} srv_option;

#define SRV_FIELD_TEXT(field)       const char *field;
#define SRV_FIELD_LIST(field)       const char *field;
#define SRV_FIELD_CHOICE(field)     const char *field;
#define SRV_FIELD_WORDS(field)      const char *field;
#define SRV_FIELD_NUMBER(field)     uint64_t field;
#define SRV_FIELD_SWITCH(field)     bool field;
#define SRV_FIELD(type, field, ...) SRV_FIELD_##type(field)

#define SRV_ROW_TEXT(s, f, d, lo, hi, v, h) \
    {SRV_OPTION_TEXT, #f, d, 0, lo, hi, v, h, offsetof(s, f)},
#define SRV_ROW_LIST(s, f, d, lo, hi, v, h) \
    {SRV_OPTION_LIST, #f, d, 0, lo, hi, v, h, offsetof(s, f)},
#define SRV_ROW_CHOICE(s, f, d, lo, hi, v, h) \
    {SRV_OPTION_CHOICE, #f, d, 0, lo, hi, v, h, offsetof(s, f)},
#define SRV_ROW_WORDS(s, f, d, lo, hi, v, h) \
    {SRV_OPTION_WORDS, #f, d, 0, lo, hi, v, h, offsetof(s, f)},
#define SRV_ROW_NUMBER(s, f, d, lo, hi, v, h) \
    {SRV_OPTION_NUMBER, #f, NULL, d, lo, hi, v, h, offsetof(s, f)},
#define SRV_ROW_SWITCH(s, f, d, lo, hi, v, h) \
    {SRV_OPTION_SWITCH, #f, NULL, d, lo, hi, v, h, offsetof(s, f)},

/* Writes the default of each option into the struct at `base`. */
void srv_option_defaults(const srv_option *options, size_t count, void *base);

/* The option of that name, or NULL; `word` is what stands between: '-' for a flag, '_' else. */
const srv_option *srv_option_find(const srv_option *options, size_t count, const char *name,
                                  size_t name_bytes, char word);

/* Checks `text` and stores it; a TEXT keeps the pointer. `where` is what the error names: "--port",
 * "LAM_PORT". For a SWITCH text is NULL. Errors: LAM_E_CONFIG. */
lam_status srv_option_set(const srv_option *o, void *base, const char *text, const char *where,
                          lam_err *err);

/* "--max-items" and "LAM_MAX_ITEMS"; cut to fit. */
enum { SRV_OPTION_NAME_BYTES = 64 };
void srv_option_flag(const srv_option *o, char out[SRV_OPTION_NAME_BYTES]);
void srv_option_environment(const srv_option *o, char out[SRV_OPTION_NAME_BYTES]);

/* The value in the struct at `base` as a file would have it; NULL if it is not set. A number is
 * written to buf. */
const char *srv_option_get(const srv_option *o, const void *base, char buf[32]);

/* Decimal digits only, no sign, no space; false leaves *out alone. */
bool srv_number_parse(const char *text, size_t bytes, uint64_t *out);

/* The next word of a list with commas: moves *at behind it. False at the end. */
bool srv_list_next(const char *list, size_t *at, const char **word, size_t *bytes);

#endif
