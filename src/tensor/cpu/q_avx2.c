// Products with quantised weights on processors with AVX2 and FMA. Sums of four products of bytes
// take two instructions, the first of which multiplies unsigned with signed bytes and adds pairs as
// 16-bit numbers. They do not overflow: of magnitudes up to 128 and 127.
#include "tensor/cpu/q_kernels.h"

#if defined(__x86_64__)
#include <immintrin.h>
#include <string.h>

#define AVX2   __attribute__((target("avx2,fma")))
#define INLINE static inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 8")

enum { HALF_STRIP = 8, HALF_LINE = 32, ROWS = 2 };

static bool avx2_works(void) { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }

AVX2 INLINE __m256i four_bytes(const int8_t *from) {
    int32_t four;
    memcpy(&four, from, sizeof four);
    return _mm256_set1_epi32(four);
}

// Sums of products of groups [first, first + count) for half a strip.
AVX2 INLINE __m256i dot_groups(const int8_t *x, const int8_t *w, const int first, const int count) {
    __m256i sum = _mm256_setzero_si256(), ones = _mm256_set1_epi16(1);
    UNROLL for (int i = first; i < first + count; i++) {
        __m256i weights = _mm256_load_si256((const __m256i *)(w + i * Q_LINE));
        __m256i values = _mm256_sign_epi8(four_bytes(x + i * Q_GROUP), weights);
        __m256i pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(weights), values);
        sum = _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, ones));
    }
    return sum;
}

// Half `half` of a strip for rows [first, first + count).
AVX2 INLINE void multiply(const size_t parts, const bool minimum, const q_rows *x, size_t first, const size_t count,
                          const q_panel *w, size_t half, float *y, size_t y_stride) {
    const int groups = Q_GROUPS / (int)parts;
    __m256 dots[ROWS], mins[ROWS];
    UNROLL for (size_t r = 0; r < count; r++) dots[r] = mins[r] = _mm256_setzero_ps();
    for (size_t b = 0; b < x->blocks; b++) {
        const int8_t *weights = w->values + b * Q_BLOCK * Q_STRIP + half * HALF_LINE;
        UNROLL for (size_t r = 0; r < count; r++) {
            size_t at = b * x->rows + first + r;
            __m256 scale = _mm256_broadcast_ss(x->scales + at);
            UNROLL for (size_t p = 0; p < parts; p++) {
                __m256i dot = dot_groups(x->values + at * Q_BLOCK, weights, (int)p * groups, groups);
                __m256 factor = _mm256_load_ps(w->scales + (b * parts + p) * Q_STRIP + half * HALF_STRIP);
                dots[r] = _mm256_fmadd_ps(_mm256_mul_ps(factor, scale), _mm256_cvtepi32_ps(dot), dots[r]);
            }
            if (minimum)
                mins[r] = _mm256_fmadd_ps(_mm256_load_ps(w->minimums + b * Q_STRIP + half * HALF_STRIP),
                                          _mm256_broadcast_ss(x->sums + at), mins[r]);
        }
    }
    UNROLL for (size_t r = 0; r < count; r++) _mm256_storeu_ps(y + (first + r) * y_stride + half * HALF_STRIP,
                                                               minimum ? _mm256_add_ps(dots[r], mins[r]) : dots[r]);
}

AVX2 INLINE void multiply_rows(const size_t parts, const bool minimum, const q_rows *x, const q_panel *w, float *y,
                               size_t y_stride) {
    for (size_t half = 0; half < 2; half++) {
        size_t row = 0;
        for (; row + 2 <= x->rows; row += 2) multiply(parts, minimum, x, row, 2, w, half, y, y_stride);
        for (; row < x->rows; row++) multiply(parts, minimum, x, row, 1, w, half, y, y_stride);
    }
}

AVX2 static void avx2_product(const q_rows *x, const q_panel *w, float *y, size_t y_stride) {
    if (w->format->parts == 2)
        multiply_rows(2, false, x, w, y, y_stride);
    else if (w->minimums)
        multiply_rows(1, true, x, w, y, y_stride);
    else
        multiply_rows(1, false, x, w, y, y_stride);
}

// --- conversions

AVX2 INLINE uint32_t largest_of(__m256i x) {
    __m128i y = _mm_max_epu32(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));
    y = _mm_max_epu32(y, _mm_shuffle_epi32(y, 0x4e));
    return (uint32_t)_mm_cvtsi128_si32(_mm_max_epu32(y, _mm_shuffle_epi32(y, 0xb1)));
}

AVX2 INLINE int32_t sum_of(__m256i x) {
    __m128i y = _mm_add_epi32(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));
    y = _mm_add_epi32(y, _mm_shuffle_epi32(y, 0x4e));
    return _mm_cvtsi128_si32(_mm_add_epi32(y, _mm_shuffle_epi32(y, 0xb1)));
}

AVX2 static void avx2_quantise(const float *x, size_t stride, const q_rows *to) {
    for (size_t row = 0; row < to->rows; row++)
        for (size_t b = 0; b < to->blocks; b++) {
            const float *from = x + row * stride + b * Q_BLOCK;
            size_t at = b * to->rows + row;
            __m256i top = _mm256_setzero_si256(), q[4];
            UNROLL for (int i = 0; i < 4; i++)
                top = _mm256_max_epu32(top, _mm256_and_si256(_mm256_loadu_si256((const __m256i *)(from + 8 * i)),
                                                             _mm256_set1_epi32(0x7fffffff)));
            q_block_scale scale = q_scale_of(largest_of(top));
            __m256 inverse = _mm256_set1_ps(scale.inverse);
            UNROLL for (int i = 0; i < 4; i++)
                q[i] = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(from + 8 * i), inverse));
            if (!(scale.inverse > 0)) q[0] = q[1] = q[2] = q[3] = _mm256_setzero_si256();
            int32_t low = sum_of(_mm256_add_epi32(q[0], q[1])), up = sum_of(_mm256_add_epi32(q[2], q[3]));
            __m256i bytes = _mm256_packs_epi16(_mm256_packs_epi32(q[0], q[1]), _mm256_packs_epi32(q[2], q[3]));
            bytes = _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
            _mm256_storeu_si256((__m256i *)(to->values + at * Q_BLOCK), bytes);
            to->scales[at] = scale.scale;
            to->sums[at] = scale.scale * (float)(low + up);
            to->halves[0][at] = low;
            to->halves[1][at] = up;
        }
}

enum { NIBBLE = 4 };

// Half `half` of a group's vector, in the low bits of bytes.
AVX2 INLINE __m256i load_group(const unsigned bits, const uint8_t *block, const int group, size_t half) {
    const uint8_t *at = block + half * HALF_LINE;
    if (bits == 8) return _mm256_load_si256((const __m256i *)(at + group * Q_LINE));
    __m256i low = _mm256_load_si256((const __m256i *)(at + group % 4 * Q_LINE));
    low = _mm256_and_si256(_mm256_srl_epi16(low, _mm_cvtsi32_si128(group / 4 * NIBBLE)), _mm256_set1_epi8(15));
    if (bits == 4) return low;
    // the wanted bits move to 16 and up of each byte; bits of neighbouring bytes are cut off
    const int line = bits == 5 ? 4 : 4 + group / 4, from = bits == 5 ? group : 2 * (group % 4);
    __m256i high = _mm256_load_si256((const __m256i *)(at + line * Q_LINE));
    high = from <= NIBBLE ? _mm256_sll_epi16(high, _mm_cvtsi32_si128(NIBBLE - from))
                          : _mm256_srl_epi16(high, _mm_cvtsi32_si128(from - NIBBLE));
    return _mm256_or_si256(low, _mm256_and_si256(high, _mm256_set1_epi8(bits == 5 ? 16 : 48)));
}

AVX2 INLINE void unpack(const unsigned bits, const uint8_t *strip, const q_panel *to) {
    const q_format *f = to->format;
    const uint8_t *scales = strip + q_scales_at(f, to->blocks * Q_BLOCK);
    const __m256i offset = _mm256_set1_epi8((char)f->offset);
    for (size_t b = 0; b < to->blocks; b++) {
        int8_t *values = to->values + b * Q_BLOCK * Q_STRIP;
        UNROLL for (int g = 0; g < Q_GROUPS; g++) for (size_t half = 0; half < 2; half++) {
            __m256i group = load_group(bits, strip + b * f->value_bytes, g, half);
            _mm256_store_si256((__m256i *)(values + g * Q_LINE + half * HALF_LINE), _mm256_sub_epi8(group, offset));
        }
        q_unpack_scales(to, scales, b);
    }
}

AVX2 static void avx2_unpack(const uint8_t *strip, const q_panel *to) {
    switch (to->format->bits) {
    case 4: unpack(4, strip, to); break;
    case 5: unpack(5, strip, to); break;
    case 6: unpack(6, strip, to); break;
    default: unpack(8, strip, to); break;
    }
}

const q_kernels q_avx2 = {
    .name = "AVX2",
    .works_here = avx2_works,
    .quantise = avx2_quantise,
    .unpack = avx2_unpack,
    .product = avx2_product,
};

#endif
