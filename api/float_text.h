/* Numbers as the shortest decimals that read back to the same bits. */
#ifndef API_FLOAT_TEXT_H
#define API_FLOAT_TEXT_H

#include <stddef.h>

/* Most bytes that one number takes, "null" included; and the room that a writer wants: it moves
 * bytes in blocks, so that what lies behind the number is overwritten. */
enum { API_FLOAT_TEXT_MAX = 17, API_DOUBLE_TEXT_MAX = 25, API_NUMBER_ROOM = 32 };

/* Writes `v` to out[API_NUMBER_ROOM] and returns the bytes written; no NUL. The digits are the
 * shortest that read back to the same float32, and of those the nearest to `v`. Plain notation from
 * 1e-6 up to below 1e15, an exponent outside ("1e-7", "1.5e20"). -0 becomes "-0.0", so that readers
 * which take "-0" for an integer keep the sign. NaN and infinities become "null". */
size_t api_float_text(float v, char *out);

/* The same for a double, to out[API_NUMBER_ROOM]. */
size_t api_double_text(double v, char *out);

/* Decimal digits of an unsigned integer, to out[20]. */
size_t api_u64_text(unsigned long long v, char *out);

#endif
