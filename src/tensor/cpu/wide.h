// Functions that are compiled for several vector widths; the loader selects one when the program
// starts. The arithmetic is the same in each: no contraction into fused operations, and sums over
// sixteen lanes are written out.
#ifndef BRAID_TENSOR_CPU_WIDE_H
#define BRAID_TENSOR_CPU_WIDE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <features.h>

// The loader would call the selection function before a sanitizer is initialised. Clang 14 gives the
// clones of a function that several files define names that the linker does not find.
#if defined(__x86_64__) && defined(__GLIBC__) && !defined(TENSOR_ONE_TARGET) && !defined(__clang__)
#define TENSOR_WIDE __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define TENSOR_WIDE
#endif

// Before a loop with an output that is one of its inputs or does not overlap them: element i is
// read before element i is written. Not under a sanitizer, where no compiler can honour the pragma.
#if defined(TENSOR_ONE_TARGET)
#define LANES_APART
#elif defined(__clang__)
#define LANES_APART _Pragma("clang loop vectorize(assume_safety)")
#else
#define LANES_APART _Pragma("GCC ivdep")
#endif

// Always inlined, so that the function gets the vector width of its caller.
#define LANES_INLINE static inline __attribute__((always_inline))

// Sixteen lanes in vectors of a native size: NEON has four lanes, AVX2 eight, and compilers spill
// larger vectors in every iteration. On processors with sixteen lanes, two vectors of eight cost
// little.
#if defined(__aarch64__)
enum { LANES_PARTS = 4 };
#else
enum { LANES_PARTS = 2 };
#endif
enum { LANES = 16, LANES_PART = LANES / LANES_PARTS };

typedef float lanes_part __attribute__((vector_size(LANES_PART * sizeof(float))));
typedef int32_t lanes_bits __attribute__((vector_size(LANES_PART * sizeof(int32_t))));
typedef uint32_t lanes_words __attribute__((vector_size(LANES_PART * sizeof(uint32_t))));
typedef float lanes_half __attribute__((vector_size(32)));
typedef float lanes_quarter __attribute__((vector_size(16)));

// Sixteen running values; element i of a row belongs to lane i mod 16.
typedef struct lanes {
    lanes_part part[LANES_PARTS];
} lanes;

#define LANES_EACH(h) _Pragma("GCC unroll 4") for (size_t h = 0; h < LANES_PARTS; h++)

LANES_INLINE void lanes_load(lanes *v, const float *from) {
    LANES_EACH(h) memcpy(&v->part[h], from + h * LANES_PART, sizeof v->part[h]);
}

LANES_INLINE void lanes_store(float *to, const lanes *v) {
    LANES_EACH(h) memcpy(to + h * LANES_PART, &v->part[h], sizeof v->part[h]);
}

// Loads the last 0 .. 15 elements of a row; the other lanes are zero.
LANES_INLINE void lanes_load_some(lanes *v, const float *from, size_t count) {
    float some[LANES] = {0};
    for (size_t i = 0; i < count; i++) some[i] = from[i];
    lanes_load(v, some);
}

// Sums lane i with lane i + 8, then i + 4, i + 2, i + 1.
LANES_INLINE float lanes_add(const lanes *v) {
    lanes_half half[2];
    memcpy(half, v, sizeof half);
    half[0] += half[1];
    lanes_quarter quarter[2];
    memcpy(quarter, half, sizeof quarter);
    quarter[0] += quarter[1];
    return (quarter[0][0] + quarter[0][2]) + (quarter[0][1] + quarter[0][3]);
}

LANES_INLINE float lanes_dot(const float *x, const float *y, size_t count) {
    lanes sum = {{{0}}}, a, b;
    size_t i = 0;
    for (; i + LANES <= count; i += LANES) {
        lanes_load(&a, x + i);
        lanes_load(&b, y + i);
        LANES_EACH(h) sum.part[h] += a.part[h] * b.part[h];
    }
    if (i < count) {
        lanes_load_some(&a, x + i, count - i);
        lanes_load_some(&b, y + i, count - i);
        LANES_EACH(h) sum.part[h] += a.part[h] * b.part[h];
    }
    return lanes_add(&sum);
}

LANES_INLINE float lanes_sum(const float *x, size_t count) {
    lanes sum = {{{0}}}, a;
    size_t i = 0;
    for (; i + LANES <= count; i += LANES) {
        lanes_load(&a, x + i);
        LANES_EACH(h) sum.part[h] += a.part[h];
    }
    if (i < count) {
        lanes_load_some(&a, x + i, count - i);
        LANES_EACH(h) sum.part[h] += a.part[h];
    }
    return lanes_add(&sum);
}

// e^x to about one unit in the last place. Results below the smallest normal number are zero; NaN
// stays NaN. Only additions and multiplications, so the bits are the same everywhere. The
// polynomial is the minimax one of Cephes (Moshier). The macro serves floats and vectors of floats;
// MASK converts a comparison's result to all bits.
#define WIDE_EXP(NAME, FLOATS, BITS, MASK)                                                                            \
    LANES_INLINE void NAME(const FLOATS *in, FLOATS *out) {                                                           \
        const float top = 88.37626f, bottom = -87.33654f, shift = 12582912.0f; /* 1.5 * 2^23: rounds to an integer */ \
        FLOATS x = *in, z = x * 1.44269504f + shift, n = z - shift;                                                   \
        FLOATS r = x - n * 0.693359375f;                                                                              \
        r = r - n * -2.12194440e-4f;                                                                                  \
        FLOATS p = r * 1.9875691500e-4f + 1.3981999507e-3f;                                                           \
        p = p * r + 8.3334519073e-3f;                                                                                 \
        p = p * r + 4.1665795894e-2f;                                                                                 \
        p = p * r + 1.6666665459e-1f;                                                                                 \
        p = p * r + 5.0000001201e-1f;                                                                                 \
        FLOATS y = p * (r * r) + r + 1.0f, power;                                                                     \
        BITS bits, above = MASK(x > top), below = MASK(x < bottom);                                                   \
        memcpy(&bits, &z, sizeof bits);                                                                               \
        bits = (bits + 127u) << 23; /* the low bits of z hold n */                                                    \
        memcpy(&power, &bits, sizeof power);                                                                          \
        y *= power;                                                                                                   \
        /* Last and not choices of floats: compilers would make branches of those, all the way up. */                 \
        memcpy(&bits, &y, sizeof bits);                                                                               \
        bits = ((bits & ~above) | (0x7f3504a4u & above)) & ~below; /* e^top */                                        \
        memcpy(out, &bits, sizeof bits);                                                                              \
    }
#define ONE_MASK(truth)  ((truth) ? ~0u : 0u)
#define PART_MASK(truth) ((lanes_words)(truth))
WIDE_EXP(one_exp, float, uint32_t, ONE_MASK)
WIDE_EXP(part_exp, lanes_part, lanes_words, PART_MASK)

LANES_INLINE float wide_exp(float x) {
    float y;
    one_exp(&x, &y);
    return y;
}

LANES_INLINE void lanes_exp(lanes *x) { LANES_EACH(h) part_exp(&x->part[h], &x->part[h]); }

// top = the larger of top and x, per lane.
LANES_INLINE void lanes_raise(lanes *top, const lanes *x) {
    LANES_EACH(h) {
        lanes_bits larger = x->part[h] > top->part[h];
        top->part[h] = (lanes_part)(((lanes_bits)x->part[h] & larger) | ((lanes_bits)top->part[h] & ~larger));
    }
}

// To about two units in the last place. The polynomial for small x is that of Cephes (Moshier).
LANES_INLINE float wide_tanh(float x) {
    float size = x < 0.0f ? -x : x, z = x * x;
    float p = z * -5.70498872745e-3f + 2.06390887954e-2f;
    p = p * z - 5.37397155531e-2f;
    p = p * z + 1.33314422036e-1f;
    p = p * z - 3.33332819422e-1f;
    float large = 1.0f - 2.0f / (wide_exp(2.0f * size) + 1.0f);
    return size < 0.625f ? p * z * x + x : x < 0.0f ? -large : large;
}

LANES_INLINE float wide_sigmoid(float x) { return 1.0f / (1.0f + wide_exp(-x)); }

#endif
