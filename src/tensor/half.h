// 16-bit floating point: IEEE 754 binary16 (F16) and bfloat16 (BF16), one number at a time.
#ifndef BRAID_TENSOR_HALF_H
#define BRAID_TENSOR_HALF_H

#include <stdint.h>
#include <string.h>

static inline float half_bits_float(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static inline uint32_t half_float_bits(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

// Exact. The product moves the exponent's bias from 15 to 127 and normalises subnormal numbers.
static inline float half_from_f16(uint16_t h) {
    uint32_t magnitude = (uint32_t)(h & 0x7fff) << 13, sign = (uint32_t)(h & 0x8000) << 16;
    uint32_t bits = half_float_bits(half_bits_float(magnitude) * 0x1p112f);
    if ((h & 0x7c00) == 0x7c00) bits = magnitude | 0x7f800000;
    return half_bits_float(bits | sign);
}

static inline float half_from_bf16(uint16_t h) { return half_bits_float((uint32_t)h << 16); }

// To the nearest, ties to even; infinite from 65520 up. A NaN stays one.
static inline uint16_t half_to_f16(float x) {
    uint32_t bits = half_float_bits(x), sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
    if (magnitude > 0x7f800000) return (uint16_t)(sign | 0x7e00 | (magnitude >> 13 & 0x3ff));
    if (magnitude >= 0x477ff000) return (uint16_t)(sign | 0x7c00);
    if (magnitude < 0x38800000)  // below 2^-14: a multiple of 2^-24, which the sum with 0.5 rounds to
        return (uint16_t)(sign | (half_float_bits(half_bits_float(magnitude) + 0.5f) - 0x3f000000));
    uint32_t odd = magnitude >> 13 & 1;
    return (uint16_t)(sign | (magnitude - 0x38000000 + 0xfff + odd) >> 13);
}

// To the nearest, ties to even. A NaN stays one.
static inline uint16_t half_to_bf16(float x) {
    uint32_t bits = half_float_bits(x);
    if ((bits & 0x7fffffff) > 0x7f800000) return (uint16_t)(bits >> 16 | 64);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static inline float half_read_f16(const void *at) {
    uint16_t h;
    memcpy(&h, at, sizeof h);
    return half_from_f16(h);
}

#endif
