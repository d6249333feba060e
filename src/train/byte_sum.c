#include "train/byte_sum.h"

#include "base/err.h"
#include "tensor/cpu/wide.h"

#include <math.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "values in messages are little-endian");

enum {
    GROUP = BYTE_SUM_GROUP,
    SCALE_ZERO = 0,         // all values are zero
    SCALE_NAN = 255,        // a value was not finite
    SCALE_BIAS = 128,       // of the exponent of the largest value
    LEAST_EXPONENT = -100,  // so that the unit is a normal number
    UNIT_BITS = 17,         // the largest value has this exponent in units
    KEPT_BITS = 3,          // of a mantissa of 23
    DROPPED_BITS = 23 - KEPT_BITS,
    SIGN = 0x80,
    EIGHT_BITS = (127 + 3) << 23,  // of 8.0f
    FLOAT_EXACT = 1 << 24,         // every integer up to here is a float
};

static size_t groups_of(size_t count) { return (count + GROUP - 1) / GROUP; }

size_t byte_sum_bytes(size_t count) { return groups_of(count) + count; }

LANES_INLINE uint32_t bits_of(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

LANES_INLINE float float_of(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

LANES_INLINE float power_of_two(int exponent) { return float_of((uint32_t)(exponent + 127) << 23); }

LANES_INLINE uint32_t ones_if(bool truth) { return truth ? ~0u : 0u; }

// Rounds a magnitude to the kept bits, to nearest even, and drops the others.
LANES_INLINE uint32_t rounded(uint32_t magnitude) {
    return (magnitude + (1u << (DROPPED_BITS - 1)) - 1 + (magnitude >> DROPPED_BITS & 1)) >> DROPPED_BITS;
}

// The scale byte. It is taken from the rounded largest value, so that decoded values have the same.
LANES_INLINE uint8_t scale_of(const float *x, size_t count) {
    uint32_t largest = 0;
    for (size_t i = 0; i < count; i++) {
        uint32_t magnitude = bits_of(x[i]) & 0x7fffffff;
        largest = magnitude > largest ? magnitude : largest;
    }
    if (largest == 0) return SCALE_ZERO;
    int exponent = (int)(rounded(largest) >> KEPT_BITS) - 127;
    if (exponent >= SCALE_NAN - SCALE_BIAS) return SCALE_NAN;
    return (uint8_t)(SCALE_BIAS + (exponent < LEAST_EXPONENT ? LEAST_EXPONENT : exponent));
}

// Values below 8 units have even spacing: there the code is the rounded number of units. Both codes are computed as
// numbers and one is kept by a mask, so that compilers make no branches of the choice.
LANES_INLINE void codes_of(const float *restrict x, size_t count, float units, uint8_t *restrict out) {
    const float rounder = 0x1.8p23f;
    const uint32_t first = ((127 + 3) << KEPT_BITS) - 8;
    uint32_t codes[GROUP];
    for (size_t i = 0; i < count; i++) {
        float y = x[i] * units;
        uint32_t bits = bits_of(y), magnitude = bits & 0x7fffffff;
        uint32_t small = bits_of(float_of(magnitude) + rounder) & 0xf;
        uint32_t is_small = ones_if(magnitude < EIGHT_BITS);
        uint32_t code = (small & is_small) | ((rounded(magnitude) - first) & ~is_small);
        codes[i] = code | (bits >> 24 & SIGN & ones_if(code > 0));  // no negative zero
    }
    for (size_t i = 0; i < count; i++) out[i] = (uint8_t)codes[i];
}

LANES_INLINE void encode_group(const float *x, size_t count, uint8_t *scale, uint8_t *codes) {
    *scale = scale_of(x, count);
    if (*scale == SCALE_ZERO || *scale == SCALE_NAN)
        memset(codes, 0, count);
    else
        codes_of(x, count, power_of_two(UNIT_BITS - (*scale - SCALE_BIAS)), codes);
}

// A product of powers of two and small integers: exact.
LANES_INLINE void values_of(const uint8_t *restrict codes, size_t count, float unit, float *restrict out) {
    for (size_t i = 0; i < count; i++) {
        uint32_t code = codes[i] & 0x7fu, sign = (uint32_t)(codes[i] & SIGN) << 24;
        uint32_t is_small = ones_if(code < 8), wide = (code << DROPPED_BITS) + ((127 + 2u) << 23);
        uint32_t y = (bits_of((float)(int32_t)code) & is_small) | (wide & ~is_small);
        out[i] = float_of(bits_of(float_of(y) * unit) | sign);
    }
}

LANES_INLINE void decode_group(uint8_t scale, const uint8_t *codes, size_t count, float *out) {
    if (scale == SCALE_ZERO || scale == SCALE_NAN) {
        for (size_t i = 0; i < count; i++) out[i] = scale == SCALE_NAN ? NAN : 0.0f;
        return;
    }
    int exponent = scale - SCALE_BIAS;
    values_of(codes, count, power_of_two((exponent < LEAST_EXPONENT ? LEAST_EXPONENT : exponent) - UNIT_BITS), out);
}

// In the loops below, whole groups have a constant length, which lets compilers use full vectors.
TENSOR_WIDE
void byte_sum_encode(const float *x, size_t count, uint8_t *out) {
    uint8_t *scale = out, *codes = out + groups_of(count);
    size_t at = 0;
    for (; at + GROUP <= count; at += GROUP) encode_group(x + at, GROUP, scale++, codes + at);
    if (at < count) encode_group(x + at, count - at, scale, codes + at);
}

TENSOR_WIDE
void byte_sum_decode(const uint8_t *in, size_t count, float *out) {
    const uint8_t *scale = in, *codes = in + groups_of(count);
    size_t at = 0;
    for (; at + GROUP <= count; at += GROUP) decode_group(*scale++, codes + at, GROUP, out + at);
    if (at < count) decode_group(*scale, codes + at, count - at, out + at);
}

LANES_INLINE void add_part(const sum_part *part, size_t count, size_t at, size_t n, float *all) {
    float more[GROUP];
    if (part->plain)
        memcpy(more, part->plain + at * sizeof *more, n * sizeof *more);
    else
        decode_group(part->packed[at / GROUP], part->packed + groups_of(count) + at, n, more);
    for (size_t i = 0; i < n; i++) all[i] += more[i];
}

// A quotient of doubles that is rounded to float equals the quotient of floats when both operands are floats.
LANES_INLINE void divide(float *all, size_t n, uint64_t tokens) {
    if (tokens == 0) {
        for (size_t i = 0; i < n; i++) all[i] = NAN;
    } else if (tokens <= FLOAT_EXACT) {
        for (size_t i = 0; i < n; i++) all[i] /= (float)tokens;
    } else {
        for (size_t i = 0; i < n; i++) all[i] = (float)((double)all[i] / (double)tokens);
    }
}

typedef struct reduction {
    const sum_part *parts;
    uint32_t part_count;
    size_t count;
    uint64_t tokens;
    float *result;
} reduction;

LANES_INLINE void reduce_group(const reduction *r, size_t at, size_t n) {
    float all[GROUP] = {0};
    uint8_t scale, codes[GROUP];
    for (uint32_t p = 0; p < r->part_count; p++) add_part(&r->parts[p], r->count, at, n, all);
    divide(all, n, r->tokens);
    encode_group(all, n, &scale, codes);
    decode_group(scale, codes, n, r->result + at);
}

TENSOR_WIDE
void byte_sum_reduce(const sum_part *parts, uint32_t part_count, size_t count, uint64_t tokens, float *result) {
    BRAID_ASSERT(part_count <= SUM_MAX_PARTS);
    const reduction r = {.parts = parts, .part_count = part_count, .count = count, .tokens = tokens, .result = result};
    size_t at = 0;
    for (; at + GROUP <= count; at += GROUP) reduce_group(&r, at, GROUP);
    if (at < count) reduce_group(&r, at, count - at);
}
