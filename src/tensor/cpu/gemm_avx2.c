// Products on processors with AVX2 and fused multiply-adds.
#include "tensor/cpu/gemm_parts.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define AVX2 __attribute__((target("avx2,fma")))

enum { HALF = 4, AVX2_COLS = 24 };  // sixteen registers hold so many sums, three of b and one of a

// An 8 x 8 square: pairs, fours, halves.
AVX2 INLINE void turn_square(const float *from, size_t from_stride, float *to, size_t to_step) {
    __m256 x[8], y[8];
    for (size_t r = 0; r < 8; r++) x[r] = _mm256_loadu_ps(from + r * from_stride);
    for (size_t r = 0; r < 8; r += 2) {
        y[r] = _mm256_unpacklo_ps(x[r], x[r + 1]);
        y[r + 1] = _mm256_unpackhi_ps(x[r], x[r + 1]);
    }
    for (size_t r = 0; r < 8; r += 4)
        for (size_t h = 0; h < 2; h++) {
            x[r + 2 * h] = _mm256_shuffle_ps(y[r + h], y[r + h + 2], 0x44);
            x[r + 2 * h + 1] = _mm256_shuffle_ps(y[r + h], y[r + h + 2], 0xee);
        }
    for (size_t r = 0; r < 4; r++) {
        _mm256_storeu_ps(to + r * to_step, _mm256_permute2f128_ps(x[r], x[r + 4], 0x20));
        _mm256_storeu_ps(to + (r + 4) * to_step, _mm256_permute2f128_ps(x[r], x[r + 4], 0x31));
    }
}

AVX2 void gemm_turn_avx2(const float *from, size_t from_stride, size_t count, float *to, size_t to_step) {
    size_t i = 0;
    for (; i + 8 <= count; i += 8) turn_square(from + i, from_stride, to + i * to_step, to_step);
    gemm_turn_plain(from + i, from_stride, count - i, to + i * to_step, to_step);
}

AVX2 INLINE void copy_chunks(const float *from, size_t from_stride, size_t rows, const size_t chunks, float *to,
                             size_t chunk_step, size_t row_step) {
    for (size_t r = 0; r < rows; r++, from += from_stride, to += row_step)
        UNROLL for (size_t i = 0; i < chunks; i++) _mm256_storeu_ps(to + i * chunk_step, _mm256_loadu_ps(from + 8 * i));
}

AVX2 void gemm_copy_avx2(const float *from, size_t from_stride, size_t rows, size_t chunks, float *to,
                         size_t chunk_step, size_t row_step) {
    for (; chunks >= 4; chunks -= 4, from += 32, to += 4 * chunk_step)
        copy_chunks(from, from_stride, rows, 4, to, chunk_step, row_step);
    for (; chunks >= 2; chunks -= 2, from += 16, to += 2 * chunk_step)
        copy_chunks(from, from_stride, rows, 2, to, chunk_step, row_step);
    if (chunks > 0) copy_chunks(from, from_stride, rows, 1, to, chunk_step, row_step);
}

// Of a panel of b, as many columns as the kernel takes at once.
typedef struct avx2_strip {
    const float *b;
    size_t b_step, col;
    size_t turn, turns;  // of those in which a panel asks for what is read later
} avx2_strip;

typedef __m256 avx2_sums[HALF][3];

AVX2 INLINE void avx2_step(const float *const *rows, size_t at, const float *from, const size_t vectors,
                           avx2_sums sum) {
    __m256 b[3];
    UNROLL for (size_t v = 0; v < vectors; v++) b[v] = _mm256_loadu_ps(from + 8 * v);
    UNROLL for (size_t i = 0; i < HALF; i++) {
        __m256 x = _mm256_broadcast_ss(rows[i] + at);
        UNROLL for (size_t v = 0; v < vectors; v++) sum[i][v] = _mm256_fmadd_ps(x, b[v], sum[i][v]);
    }
}

// Four steps for 4 x 24 sums, which need all registers: compilers run out of them and read b again. Four, since counting and
// pointing would be a tenth of what the processor begins.
// clang-format off
#define ROW(AT, S) "vbroadcastss " AT ", %%ymm15\n\t"                  \
                   "vfmadd231ps %%ymm12, %%ymm15, %[" S "0]\n\t"       \
                   "vfmadd231ps %%ymm13, %%ymm15, %[" S "1]\n\t"       \
                   "vfmadd231ps %%ymm14, %%ymm15, %[" S "2]\n\t"
#define STEP(K, A0, A1, A2, A3) "vmovups 96*" K "(%[b]), %%ymm12\n\t"      \
                                "vmovups 96*" K "+32(%[b]), %%ymm13\n\t"   \
                                "vmovups 96*" K "+64(%[b]), %%ymm14\n\t"   \
                                ROW(A0, "r") ROW(A1, "s") ROW(A2, "t") ROW(A3, "u")
#define PACKED(K) STEP(K, "32*" K "(%[a])", "32*" K "+4(%[a])", "32*" K "+8(%[a])", "32*" K "+12(%[a])")
#define APART(K) STEP(K, "4*" K "(%[a])", "4*" K "(%[a],%[row])", "4*" K "(%[a],%[row],2)", "4*" K "(%[last])")
#define FOUR(STEPS) STEPS("0") STEPS("1") STEPS("2") STEPS("3")
#define SUMS [r0] "+x"(sum[0][0]), [r1] "+x"(sum[0][1]), [r2] "+x"(sum[0][2]), \
             [s0] "+x"(sum[1][0]), [s1] "+x"(sum[1][1]), [s2] "+x"(sum[1][2]), \
             [t0] "+x"(sum[2][0]), [t1] "+x"(sum[2][1]), [t2] "+x"(sum[2][2]), \
             [u0] "+x"(sum[3][0]), [u1] "+x"(sum[3][1]), [u2] "+x"(sum[3][2])
#define OTHERS "memory", "xmm12", "xmm13", "xmm14", "xmm15"
// clang-format on

// How many steps it did.
AVX2 INLINE size_t avx2_fours(const gemm_panel *p, const float *a, const float *b, avx2_sums sum) {
    size_t k = 0, row = p->a_row * sizeof *a;
    const float *last = a + 3 * p->a_row;
    if (p->a_row == 1 && p->a_step == PANEL_ROWS)
        for (; k + 4 <= p->depth; k += 4, a += 4 * PANEL_ROWS, b += 4 * AVX2_COLS)
            __asm__(FOUR(PACKED) : SUMS : [a] "r"(a), [b] "r"(b) : OTHERS);
    else if (p->a_step == 1)
        for (; k + 4 <= p->depth; k += 4, a += 4, last += 4, b += 4 * AVX2_COLS)
            __asm__(FOUR(APART) : SUMS : [a] "r"(a), [last] "r"(last), [row] "r"(row), [b] "r"(b) : OTHERS);
    return k;
}

// The same for 4 x 16 sums, which leave compilers registers enough; strides are constants where this is called.
AVX2 INLINE size_t avx2_narrow_fours(const gemm_panel *p, const float *a, size_t a_row, size_t a_step, const float *b,
                                     size_t b_step, avx2_sums sum) {
    const float *rows[HALF];
    UNROLL for (size_t i = 0; i < HALF; i++) rows[i] = a + i * a_row;
    size_t k = 0;
    for (; k + 4 <= p->depth; k += 4, b += 4 * b_step)
        UNROLL for (size_t j = 0; j < 4; j++) avx2_step(rows, (k + j) * a_step, b + j * b_step, 2, sum);
    return k;
}

AVX2 INLINE size_t avx2_narrow(const gemm_panel *p, const float *a, const float *b, size_t b_step, avx2_sums sum) {
    if (p->a_row == 1 && p->a_step == PANEL_ROWS && b_step == 16)
        return avx2_narrow_fours(p, a, 1, PANEL_ROWS, b, 16, sum);
    if (p->a_step == 1 && b_step == 16) return avx2_narrow_fours(p, a, p->a_row, 1, b, 16, sum);
    if (p->a_step == 1 && b_step == 32) return avx2_narrow_fours(p, a, p->a_row, 1, b, 32, sum);
    return 0;
}

AVX2 INLINE void avx2_loop(const gemm_panel *p, const avx2_strip *t, size_t row, const size_t vectors, avx2_sums sum) {
    const float *a = p->a + row * p->a_row, *b = t->b;
    size_t b_step = t->b_step, k = 0;
    if (vectors == 2) k = avx2_narrow(p, a, b, b_step, sum);
    if (vectors == 3 && b_step == AVX2_COLS) k = avx2_fours(p, a, b, sum);
    const float *rows[HALF] = {a, a + p->a_row, a + 2 * p->a_row, a + 3 * p->a_row};
    for (; k < p->depth; k++) avx2_step(rows, k * p->a_step, b + k * b_step, vectors, sum);
}

// Rows [row, row + HALF) of a panel.
AVX2 INLINE void avx2_tile(const gemm_panel *p, const avx2_strip *t, size_t row, const size_t vectors) {
    size_t at = row * p->c_stride + t->col;
    float *c = p->c + at;
    const float *add = p->add ? p->add + at : NULL;
    for (size_t i = 0; i < HALF; i++)
        for (size_t line = 0; line < 2; line++) __builtin_prefetch(c + i * p->c_stride + 16 * line, 1);
    avx2_sums sum;
    UNROLL for (size_t i = 0; i < HALF; i++) UNROLL for (size_t v = 0; v < vectors; v++)
        sum[i][v] = _mm256_setzero_ps();
    avx2_loop(p, t, row, vectors, sum);
    for (size_t i = 0; i < HALF; i++, c += p->c_stride, add = add ? add + p->c_stride : NULL)
        UNROLL for (size_t v = 0; v < vectors; v++)
            _mm256_storeu_ps(c + 8 * v, add ? _mm256_add_ps(_mm256_loadu_ps(add + 8 * v), sum[i][v]) : sum[i][v]);
}

AVX2 INLINE void avx2_ask(const gemm_panel *p, const avx2_strip *t) {
    if (p->soon_count == 0) return;
    size_t i = p->soon_count * t->turn / t->turns, end = p->soon_count * (t->turn + 1) / t->turns;
    for (; i < end; i++) __builtin_prefetch(p->soon + i * p->soon_step, 0, 2);
}

// A strip of b stays in the first cache while all rows pass by.
AVX2 INLINE void avx2_product(const gemm_panel *panels, size_t count, const size_t cols, const size_t vectors) {
    const size_t wide = 8 * vectors;
    avx2_strip t = {.b = panels->b, .b_step = panels->b_step, .turns = cols / wide};
    for (t.turn = 0; t.turn < t.turns; t.turn++) {
        for (size_t i = 0; i < count; i++) {
            avx2_ask(&panels[i], &t);
            for (size_t row = 0; row < PANEL_ROWS; row += HALF) avx2_tile(&panels[i], &t, row, vectors);
        }
        t.col += wide;
        t.b += panels->b_next > 0 ? panels->b_next : wide;
    }
}

AVX2 static void avx2_1(const gemm_panel *panels, size_t count) { avx2_product(panels, count, 16, 2); }
AVX2 static void avx2_2(const gemm_panel *panels, size_t count) { avx2_product(panels, count, 32, 2); }
AVX2 static void avx2_3(const gemm_panel *panels, size_t count) { avx2_product(panels, count, 48, 3); }

static bool avx2_works(void) { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }

const gemm_kernels gemm_avx2 = {
    .name = "AVX2",
    .works_here = avx2_works,
    .keeps = false,
    .rows_in_place = 4 * PANEL_COLS,
    .columns_in_place = 0,
    .strips = {1, 2, 2},
    .product = {avx2_1, avx2_2, avx2_3},
    .turn = gemm_turn_avx2,
    .copy = gemm_copy_avx2,
};

#endif
