/* The same inputs under two configurations: where the hidden states part, and how far. */
#ifndef API_COMPARE_H
#define API_COMPARE_H

#include "api/buffer.h"
#include "core/lamina.h"

/* The hidden states of one output_layer: 0 the embeddings, i after layer i. */
typedef struct api_departure {
    bool identical; /* every bit of every row */
    size_t rows;
    double cosine; /* mean over the tokens; NaN where none has a direction on both sides */
    double least_cosine;
    double distance;                         /* ||b - a|| / ||a|| of all rows together */
    double difference;                       /* largest |b - a| */
    double squares_off, squares, cosine_sum; /* what they are made of */
    size_t cosine_count;
} api_departure;

/* Adds the rows [rows, width] of both sides; starts from zeros. */
void api_departure_add(api_departure *d, const float *a, const float *b, size_t rows, size_t width);

/* What is compared: items of both sides with their states. Borrowed. */
typedef struct api_comparison {
    const char *model;
    const lam_item *a, *b; /* [count], `states` and `out` of both are set */
    size_t count;
    size_t layers, width; /* of the model */
    size_t vector;        /* floats of an item's `out`; of each row for pooling none */
    double tolerance;     /* of a distance */
    bool batch_dependent[2];
} api_comparison;

/* The departures [layers + 1], and the first that is not identical and whose distance is above the
 * tolerance (SIZE_MAX: none). */
typedef struct api_departures {
    api_departure *list;
    size_t first, beyond;
} api_departures;

void api_compare_layers(const api_comparison *c, api_departures *out);

/* Of an item's vectors. */
void api_compare_item(const api_comparison *c, size_t i, api_departure *out);

/* Writes the object but for its closing brace, so that members may follow. `list` is scratch:
 * [layers + 1]. */
void api_comparison_write(const api_comparison *c, api_departure *list, api_buffer *b);

#endif
