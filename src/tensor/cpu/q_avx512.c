// Products with quantised weights on processors with AVX-512 and its instruction for sums of four
// products of bytes (VNNI): unsigned times signed. So weights are taken as stored, without their
// offset, and the sum begins with -offset times the sum of the activations.
#include "tensor/cpu/q_avx512_parts.h"

#if defined(__x86_64__)
#include <immintrin.h>
#include <math.h>
#include <string.h>

#define VNNI   __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")))
#define INLINE static inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 16")

enum { LARGEST = 127, SIGNED_OFFSET = 128, LANES = 16, NIBBLE = 4, DIRECT_ROWS = 8, PRODUCT_ROWS = 8 };

bool q_avx512_works(void) {
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vnni");
}

// --- activations

// Lane i of the result combines the lanes of x[i]: pairs of vectors at a time.
#define COMBINE(NAME, WHAT)                                                                                 \
    VNNI INLINE __m512i NAME(__m512i x[LANES]) {                                                            \
        UNROLL for (int i = 0; i < 8; i++) {                                                                \
            __m512i low = _mm512_unpacklo_epi32(x[2 * i], x[2 * i + 1]);                                    \
            x[i] = WHAT(low, _mm512_unpackhi_epi32(x[2 * i], x[2 * i + 1]));                                \
        }                                                                                                   \
        UNROLL for (int i = 0; i < 4; i++) {                                                                \
            __m512i low = _mm512_unpacklo_epi64(x[2 * i], x[2 * i + 1]);                                    \
            x[i] = WHAT(low, _mm512_unpackhi_epi64(x[2 * i], x[2 * i + 1]));                                \
        }                                                                                                   \
        UNROLL for (int i = 0; i < 2; i++) x[i] = WHAT(_mm512_shuffle_i32x4(x[2 * i], x[2 * i + 1], 0x88),  \
                                                       _mm512_shuffle_i32x4(x[2 * i], x[2 * i + 1], 0xdd)); \
        return WHAT(_mm512_shuffle_i32x4(x[0], x[1], 0x88), _mm512_shuffle_i32x4(x[0], x[1], 0xdd));        \
    }
COMBINE(combine_largest, _mm512_max_epu32)

VNNI INLINE __m512i magnitude(const float *x) {
    return _mm512_and_si512(_mm512_loadu_si512(x), _mm512_set1_epi32(0x7fffffff));
}

// The sums of each 16 of 512 bytes: those of the even 16s, then of the odd ones.
VNNI INLINE void sum_halves(const int8_t *bytes, __m512i sums[2]) {
    __m512i x[8], ones = _mm512_set1_epi8(1);
    UNROLL for (int i = 0; i < 8; i++)
        x[i] = _mm512_dpbusd_epi32(_mm512_setzero_si512(), ones, _mm512_loadu_si512(bytes + i * Q_LINE));
    // each four lanes of x[i] are one half: half h of unit 2 i + u in lanes 8 u + 4 h and up
    UNROLL for (int i = 0; i < 4; i++) {
        __m512i low = _mm512_unpacklo_epi32(x[2 * i], x[2 * i + 1]);
        x[i] = _mm512_add_epi32(low, _mm512_unpackhi_epi32(x[2 * i], x[2 * i + 1]));
    }
    UNROLL for (int i = 0; i < 2; i++) {
        __m512i low = _mm512_unpacklo_epi64(x[2 * i], x[2 * i + 1]);
        x[i] = _mm512_add_epi32(low, _mm512_unpackhi_epi64(x[2 * i], x[2 * i + 1]));
    }
    // lane 8 u + 4 h + j of x[i] is half h of unit 8 i + 2 j + u
    const __m512i even = _mm512_setr_epi32(0, 8, 1, 9, 2, 10, 3, 11, 16, 24, 17, 25, 18, 26, 19, 27);
    sums[0] = _mm512_permutex2var_epi32(x[0], even, x[1]);
    sums[1] = _mm512_permutex2var_epi32(x[0], _mm512_add_epi32(even, _mm512_set1_epi32(4)), x[1]);
}

// Sixteen units of 32 numbers, `stride` apart, of which `count` exist: blocks of one row, or one
// block of several rows. Their results are stored one after another, unit `at` first.
VNNI INLINE void quantise_units(const float *x, size_t stride, size_t count, const q_rows *to, size_t at) {
    _Alignas(Q_LINE) float inverses[LANES];
    _Alignas(Q_LINE) int8_t bytes[LANES * Q_BLOCK] = {0};
    const __m512i infinite = _mm512_set1_epi32(0x7f800000), least = _mm512_set1_epi32(0x0d800000);
    const __m512 most = _mm512_set1_ps(LARGEST);
    __mmask16 units = (__mmask16)((1u << count) - 1);
    __m512i tops[LANES], sums[2];
    UNROLL for (size_t u = 0; u < LANES; u++) {
        const float *from = x + (u < count ? u : count - 1) * stride;
        tops[u] = _mm512_max_epu32(magnitude(from), magnitude(from + LANES));
    }
    __m512i top = combine_largest(tops);
    __mmask16 normal = _mm512_cmpge_epu32_mask(top, least) & _mm512_cmplt_epu32_mask(top, infinite);
    __mmask16 odd = _mm512_cmpge_epu32_mask(top, infinite);
    __m512 scale = _mm512_maskz_div_ps(normal, _mm512_castsi512_ps(top), most);
    scale = _mm512_mask_mov_ps(scale, odd, _mm512_set1_ps(NAN));
    _mm512_store_ps(inverses, _mm512_maskz_div_ps(normal, most, _mm512_castsi512_ps(top)));
    for (size_t u = 0; u < count; u++) {
        __mmask16 finite = (normal >> u & 1) ? 0xffff : 0;
        __m512 inverse = _mm512_set1_ps(inverses[u]);
        const float *from = x + u * stride;
        __m512i low = _mm512_maskz_cvtps_epi32(finite, _mm512_mul_ps(_mm512_loadu_ps(from), inverse));
        __m512i up = _mm512_maskz_cvtps_epi32(finite, _mm512_mul_ps(_mm512_loadu_ps(from + LANES), inverse));
        _mm_store_si128((__m128i *)(bytes + u * Q_BLOCK), _mm512_cvtepi32_epi8(low));
        _mm_store_si128((__m128i *)(bytes + u * Q_BLOCK + LANES), _mm512_cvtepi32_epi8(up));
    }
    memcpy(to->values + at * Q_BLOCK, bytes, count * Q_BLOCK);
    sum_halves(bytes, sums);
    __m512 sum = _mm512_cvtepi32_ps(_mm512_add_epi32(sums[0], sums[1]));
    _mm512_mask_storeu_ps(to->scales + at, units, scale);
    _mm512_mask_storeu_ps(to->sums + at, units, _mm512_mul_ps(scale, sum));
    for (int h = 0; h < 2; h++) _mm512_mask_storeu_epi32(to->halves[h] + at, units, sums[h]);
}

VNNI void q_avx512_quantise(const float *x, size_t stride, const q_rows *to) {
    if (to->rows == 1)
        for (size_t b = 0; b < to->blocks; b += LANES)
            quantise_units(x + b * Q_BLOCK, Q_BLOCK, to->blocks - b < LANES ? to->blocks - b : LANES, to, b);
    else
        for (size_t b = 0; b < to->blocks; b++) quantise_units(x + b * Q_BLOCK, stride, to->rows, to, b * to->rows);
}

// --- weights

// The stored integers of a block's groups, as unsigned bytes. Those of 8 bits are signed, so that
// their offset becomes SIGNED_OFFSET.
VNNI INLINE void load_groups(const unsigned bits, const uint8_t *block, __m512i g[Q_GROUPS]) {
    const __m512i low = _mm512_set1_epi8(15), bit = _mm512_set1_epi8(16), two = _mm512_set1_epi8(48);
    if (bits == 8) {
        UNROLL for (int i = 0; i < 8; i++)
            g[i] = _mm512_xor_si512(_mm512_loadu_si512(block + i * Q_LINE), _mm512_set1_epi8((char)SIGNED_OFFSET));
        return;
    }
    UNROLL for (int i = 0; i < 4; i++) {
        g[i] = _mm512_loadu_si512(block + i * Q_LINE);
        g[i + 4] = _mm512_and_si512(_mm512_srli_epi16(g[i], NIBBLE), low);
        g[i] = _mm512_and_si512(g[i], low);
    }
    if (bits == 4) return;
    __m512i high[2] = {_mm512_loadu_si512(block + 4 * Q_LINE)};
    if (bits == 6) high[1] = _mm512_loadu_si512(block + 5 * Q_LINE);
    UNROLL for (int i = 0; i < Q_GROUPS; i++) {
        // the wanted bits move to 16 and up of each byte; bits of neighbouring bytes are cut off
        int shift = bits == 5 ? NIBBLE - i : NIBBLE - 2 * (i % 4);
        __m512i from = _mm512_rolv_epi32(bits == 5 ? high[0] : high[i / 4], _mm512_set1_epi32(shift & 31));
        g[i] = _mm512_or_si512(g[i], _mm512_and_si512(from, bits == 5 ? bit : two));
    }
}

VNNI INLINE __m512 load_halves(const uint8_t *from) {
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)from));
}

VNNI INLINE __m512 load_factors(const uint8_t *from) {
    return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)from)));
}

VNNI INLINE __m512 load_signed_factors(const uint8_t *from) {
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)from)));
}

// The kinds of formats; everything else about them is a constant of these.
typedef struct kind {
    unsigned bits;
    int offset;  // of the unsigned integers
    bool super, minimum;
    size_t parts;
} kind;

typedef struct block_scales {
    __m512 scale[Q_PARTS], minimum;
} block_scales;

enum { SUPER_BLOCKS = Q_SUPER / Q_BLOCK, HALVES = 2 * Q_STRIP, FACTORS = 2 * Q_STRIP };

VNNI INLINE void load_scales(const kind k, const uint8_t *scales, size_t b, block_scales *to) {
    const size_t halves = k.minimum ? 2 * HALVES : HALVES;
    if (!k.super) {
        to->scale[0] = load_halves(scales + b * halves);
        if (k.minimum) to->minimum = load_halves(scales + b * halves + HALVES);
        return;
    }
    const uint8_t *at = scales + b / SUPER_BLOCKS * (halves + SUPER_BLOCKS * FACTORS);
    const uint8_t *factors = at + halves + b % SUPER_BLOCKS * FACTORS;
    __m512 scale = load_halves(at);
    if (k.parts == 2) {
        to->scale[0] = _mm512_mul_ps(scale, load_signed_factors(factors));
        to->scale[1] = _mm512_mul_ps(scale, load_signed_factors(factors + Q_STRIP));
        return;
    }
    to->scale[0] = _mm512_mul_ps(scale, load_factors(factors));
    __m512 minimum = _mm512_mul_ps(load_halves(at + HALVES), load_factors(factors + Q_STRIP));
    to->minimum = _mm512_xor_ps(minimum, _mm512_set1_ps(-0.0f));
}

#define KINDS(CALL)                                  \
    do {                                             \
        const bool super = f->elements == Q_SUPER;   \
        if (f->bits == 8)                            \
            CALL(8, SIGNED_OFFSET, false, false, 1); \
        else if (f->bits == 4 && super)              \
            CALL(4, 0, true, true, 1);               \
        else if (f->bits == 4 && f->minimum)         \
            CALL(4, 0, false, true, 1);              \
        else if (f->bits == 4)                       \
            CALL(4, 8, false, false, 1);             \
        else if (f->bits == 5 && super)              \
            CALL(5, 0, true, true, 1);               \
        else if (f->bits == 5 && f->minimum)         \
            CALL(5, 0, false, true, 1);              \
        else if (f->bits == 5)                       \
            CALL(5, 16, false, false, 1);            \
        else                                         \
            CALL(6, 32, true, false, 2);             \
    } while (false)

VNNI INLINE void unpack(const kind k, const uint8_t *strip, const q_panel *to) {
    const uint8_t *scales = strip + q_scales_at(to->format, to->blocks * Q_BLOCK);
    const __m512i offset = _mm512_set1_epi8((char)k.offset);
    for (size_t b = 0; b < to->blocks; b++) {
        __m512i g[Q_GROUPS];
        block_scales s;
        load_groups(k.bits, strip + b * to->format->value_bytes, g);
        int8_t *values = to->values + b * Q_BLOCK * Q_STRIP;
        UNROLL for (int i = 0; i < Q_GROUPS; i++)
            _mm512_store_si512(values + i * Q_LINE, k.offset ? _mm512_sub_epi8(g[i], offset) : g[i]);
        load_scales(k, scales, b, &s);
        for (size_t p = 0; p < k.parts; p++) _mm512_store_ps(to->scales + (b * k.parts + p) * Q_STRIP, s.scale[p]);
        if (k.minimum) _mm512_store_ps(to->minimums + b * Q_STRIP, s.minimum);
    }
}

VNNI void q_avx512_unpack(const uint8_t *strip, const q_panel *to) {
    const q_format *f = to->format;
#define UNPACK(...) unpack((kind){__VA_ARGS__}, strip, to)
    KINDS(UNPACK);
#undef UNPACK
}

// --- products

VNNI INLINE __m512i four_bytes(const int8_t *from) {
    int32_t four;
    memcpy(&four, from, sizeof four);
    return _mm512_set1_epi32(four);
}

// `start` plus the sums of products of groups [first, first + count), in two chains.
VNNI INLINE __m512i dot_groups(const __m512i *g, const int8_t *x, const int first, const int count, int32_t start) {
    __m512i even = _mm512_set1_epi32(start), odd = _mm512_setzero_si512();
    UNROLL for (int i = first; i < first + count; i += 2) {
        even = _mm512_dpbusd_epi32(even, g[i], four_bytes(x + i * Q_GROUP));
        odd = _mm512_dpbusd_epi32(odd, g[i + 1], four_bytes(x + (i + 1) * Q_GROUP));
    }
    return _mm512_add_epi32(even, odd);
}

typedef struct sums {
    __m512 dots, mins;
} sums;

// Adds one block to a row's sums. `at` is the place of the row's block in x.
VNNI INLINE void add_block(const kind k, const __m512i g[Q_GROUPS], const block_scales *s, const q_rows *x, size_t at,
                           sums *to) {
    const int8_t *values = x->values + at * Q_BLOCK;
    const __m512 scale = _mm512_set1_ps(x->scales[at]);
    const int count = Q_GROUPS / (int)k.parts;
    UNROLL for (int p = 0; p < (int)k.parts; p++) {
        int32_t start = 0;
        if (k.offset) start = -k.offset * (k.parts == 2 ? x->halves[p][at] : x->halves[0][at] + x->halves[1][at]);
        __m512 dot = _mm512_cvtepi32_ps(dot_groups(g, values, p * count, count, start));
        to->dots = _mm512_fmadd_ps(_mm512_mul_ps(s->scale[p], scale), dot, to->dots);
    }
    if (k.minimum) to->mins = _mm512_fmadd_ps(s->minimum, _mm512_set1_ps(x->sums[at]), to->mins);
}

VNNI INLINE void store_sums(const kind k, const sums *from, size_t rows, float *y, size_t y_stride) {
    for (size_t r = 0; r < rows; r++)
        _mm512_storeu_ps(y + r * y_stride, k.minimum ? _mm512_add_ps(from[r].dots, from[r].mins) : from[r].dots);
}

// Asks for what follows in memory, which processors do not do well by themselves at the ends of
// strips and pages: as many lines a block as a block has.
VNNI INLINE void prefetch_block(const unsigned bits, const uint8_t *strip, size_t b) {
    const size_t lines = bits + 1, ahead = 4096;  // bits vectors hold the integers, about one the scales
    UNROLL for (size_t i = 0; i < lines; i++) __builtin_prefetch(strip + ahead + (b * lines + i) * Q_LINE, 0, 2);
}

// Rows [first, first + count) from a packed strip.
VNNI INLINE void direct(const kind k, const q_format *f, const q_rows *x, size_t first, const size_t count,
                        const uint8_t *strip, float *y, size_t y_stride) {
    const uint8_t *scales = strip + q_scales_at(f, x->blocks * Q_BLOCK);
    sums all[DIRECT_ROWS];
    UNROLL for (size_t r = 0; r < count; r++) all[r].dots = all[r].mins = _mm512_setzero_ps();
    for (size_t b = 0; b < x->blocks; b++) {
        __m512i g[Q_GROUPS];
        block_scales s;
        prefetch_block(k.bits, strip, b);
        load_groups(k.bits, strip + b * f->value_bytes, g);
        load_scales(k, scales, b, &s);
        UNROLL for (size_t r = 0; r < count; r++) add_block(k, g, &s, x, b * x->rows + first + r, &all[r]);
    }
    store_sums(k, all, count, y + first * y_stride, y_stride);
}

VNNI void q_avx512_direct(const q_format *f, const q_rows *x, const uint8_t *strip, float *y, size_t y_stride) {
    size_t row = 0;
#define DIRECT_ONE(...)   direct((kind){__VA_ARGS__}, f, x, row, 1, strip, y, y_stride)
#define DIRECT_TWO(...)   direct((kind){__VA_ARGS__}, f, x, row, 2, strip, y, y_stride)
#define DIRECT_FOUR(...)  direct((kind){__VA_ARGS__}, f, x, row, 4, strip, y, y_stride)
#define DIRECT_EIGHT(...) direct((kind){__VA_ARGS__}, f, x, row, 8, strip, y, y_stride)
    for (; row + 8 <= x->rows; row += 8) KINDS(DIRECT_EIGHT);
    for (; row + 4 <= x->rows; row += 4) KINDS(DIRECT_FOUR);
    for (; row + 2 <= x->rows; row += 2) KINDS(DIRECT_TWO);
    for (; row < x->rows; row++) KINDS(DIRECT_ONE);
#undef DIRECT_ONE
#undef DIRECT_TWO
#undef DIRECT_FOUR
#undef DIRECT_EIGHT
}

// The unpacked integers of a block as unsigned bytes.
VNNI INLINE void load_unpacked(const int8_t *values, __m512i g[Q_GROUPS]) {
    UNROLL for (int i = 0; i < Q_GROUPS; i++)
        g[i] = _mm512_xor_si512(_mm512_load_si512(values + i * Q_LINE), _mm512_set1_epi8((char)SIGNED_OFFSET));
}

// Rows [first, first + count) with an unpacked panel.
VNNI INLINE void multiply(const kind k, const q_rows *x, size_t first, const size_t count, const q_panel *w, float *y,
                          size_t y_stride) {
    sums all[PRODUCT_ROWS];
    UNROLL for (size_t r = 0; r < count; r++) all[r].dots = all[r].mins = _mm512_setzero_ps();
    for (size_t b = 0; b < x->blocks; b++) {
        __m512i g[Q_GROUPS];
        block_scales s;
        load_unpacked(w->values + b * Q_BLOCK * Q_STRIP, g);
        UNROLL for (size_t p = 0; p < k.parts; p++)
            s.scale[p] = _mm512_load_ps(w->scales + (b * k.parts + p) * Q_STRIP);
        if (k.minimum) s.minimum = _mm512_load_ps(w->minimums + b * Q_STRIP);
        UNROLL for (size_t r = 0; r < count; r++) add_block(k, g, &s, x, b * x->rows + first + r, &all[r]);
    }
    store_sums(k, all, count, y + first * y_stride, y_stride);
}

VNNI INLINE void multiply_rows(const kind k, const q_rows *x, const q_panel *w, float *y, size_t y_stride) {
    size_t row = 0;
    for (; row + 8 <= x->rows; row += 8) multiply(k, x, row, 8, w, y, y_stride);
    for (; row + 4 <= x->rows; row += 4) multiply(k, x, row, 4, w, y, y_stride);
    for (; row < x->rows; row++) multiply(k, x, row, 1, w, y, y_stride);
}

VNNI void q_avx512_product(const q_rows *x, const q_panel *w, float *y, size_t y_stride) {
    if (w->format->parts == 2)
        multiply_rows((kind){8, SIGNED_OFFSET, false, false, 2}, x, w, y, y_stride);
    else if (w->format->minimum)
        multiply_rows((kind){8, SIGNED_OFFSET, false, true, 1}, x, w, y, y_stride);
    else
        multiply_rows((kind){8, SIGNED_OFFSET, false, false, 1}, x, w, y, y_stride);
}

const q_kernels q_avx512 = {
    .name = "AVX-512 VNNI",
    .works_here = q_avx512_works,
    .quantise = q_avx512_quantise,
    .unpack = q_avx512_unpack,
    .product = q_avx512_product,
    .direct = q_avx512_direct,
    .direct_rows = DIRECT_ROWS,
};

#endif
