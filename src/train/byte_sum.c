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
};

static size_t groups_of(size_t count) { return (count + GROUP - 1) / GROUP; }

static size_t group_at(size_t count, size_t at) { return count - at < GROUP ? count - at : GROUP; }

size_t byte_sum_bytes(size_t count) { return groups_of(count) + count; }

static uint32_t bits_of(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static float power_of_two(int exponent) {
    uint32_t bits = (uint32_t)(exponent + 127) << 23;
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

// Rounds a magnitude to the kept bits, to nearest even, and drops the others.
LANES_INLINE uint32_t rounded(uint32_t magnitude) {
    return (magnitude + (1u << (DROPPED_BITS - 1)) - 1 + (magnitude >> DROPPED_BITS & 1)) >> DROPPED_BITS;
}

// The scale byte. It is taken from the rounded largest value, so that decoded values have the same.
static uint8_t scale_of(const float *x, size_t count) {
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

// Values below 8 units have even spacing: there the code is the rounded number of units.
TENSOR_WIDE
static void codes_of(const float *restrict x, size_t count, float units, uint8_t *restrict out) {
    const float rounder = 0x1.8p23f;
    const uint32_t eight = 8, first = ((127 + 3) << KEPT_BITS) - 8;
    for (size_t i = 0; i < count; i++) {
        float y = x[i] * units;
        uint32_t bits, small, magnitude;
        memcpy(&bits, &y, sizeof bits);
        magnitude = bits & 0x7fffffff;
        memcpy(&y, &magnitude, sizeof y);
        float whole = (y < (float)eight ? y : 0) + rounder;
        memcpy(&small, &whole, sizeof small);
        uint32_t code = y < (float)eight ? small & 0xf : rounded(magnitude) - first;
        out[i] = (uint8_t)(code | (code > 0 ? bits >> 24 & SIGN : 0));  // no negative zero
    }
}

static void encode_group(const float *x, size_t count, uint8_t *scale, uint8_t *codes) {
    *scale = scale_of(x, count);
    if (*scale == SCALE_ZERO || *scale == SCALE_NAN)
        memset(codes, 0, count);
    else
        codes_of(x, count, power_of_two(UNIT_BITS - (*scale - SCALE_BIAS)), codes);
}

// A product of powers of two and small integers: exact.
TENSOR_WIDE
static void values_of(const uint8_t *restrict codes, size_t count, float unit, float *restrict out) {
    for (size_t i = 0; i < count; i++) {
        uint32_t code = codes[i] & 0x7fu, sign = (uint32_t)(codes[i] & SIGN) << 24;
        uint32_t wide = (code << DROPPED_BITS) + ((127 + 2u) << 23), bits;
        float y;
        memcpy(&y, &wide, sizeof y);
        y = (code < 8 ? (float)(int32_t)code : y) * unit;
        memcpy(&bits, &y, sizeof bits);
        bits |= sign;
        memcpy(&out[i], &bits, sizeof bits);
    }
}

static void decode_group(uint8_t scale, const uint8_t *codes, size_t count, float *out) {
    if (scale == SCALE_ZERO || scale == SCALE_NAN) {
        for (size_t i = 0; i < count; i++) out[i] = scale == SCALE_NAN ? NAN : 0.0f;
        return;
    }
    int exponent = scale - SCALE_BIAS;
    values_of(codes, count, power_of_two((exponent < LEAST_EXPONENT ? LEAST_EXPONENT : exponent) - UNIT_BITS), out);
}

void byte_sum_encode(const float *x, size_t count, uint8_t *out) {
    uint8_t *scale = out, *codes = out + groups_of(count);
    for (size_t at = 0; at < count; at += GROUP) encode_group(x + at, group_at(count, at), scale++, codes + at);
}

void byte_sum_decode(const uint8_t *in, size_t count, float *out) {
    const uint8_t *scale = in, *codes = in + groups_of(count);
    for (size_t at = 0; at < count; at += GROUP) decode_group(*scale++, codes + at, group_at(count, at), out + at);
}

static void add_part(const sum_part *part, size_t count, size_t at, size_t n, float *all) {
    float more[GROUP];
    if (part->plain)
        memcpy(more, part->plain + at * sizeof *more, n * sizeof *more);
    else
        decode_group(part->packed[at / GROUP], part->packed + groups_of(count) + at, n, more);
    for (size_t i = 0; i < n; i++) all[i] += more[i];
}

void byte_sum_reduce(const sum_part *parts, uint32_t part_count, size_t count, uint64_t tokens, float *result) {
    BRAID_ASSERT(part_count <= SUM_MAX_PARTS);
    for (size_t at = 0; at < count; at += GROUP) {
        size_t n = group_at(count, at);
        float all[GROUP] = {0};
        uint8_t scale, codes[GROUP];
        for (uint32_t p = 0; p < part_count; p++) add_part(&parts[p], count, at, n, all);
        for (size_t i = 0; i < n; i++) all[i] = tokens == 0 ? NAN : (float)((double)all[i] / (double)tokens);
        encode_group(all, n, &scale, codes);
        decode_group(scale, codes, n, result + at);
    }
}
