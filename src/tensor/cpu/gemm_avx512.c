// Products on processors with AVX-512.
#include "tensor/cpu/gemm_parts.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define AVX512 __attribute__((target("avx512f,avx2,fma")))

enum { PANEL_LINES = 4 };  // that a row of a panel of c lies in, at most

typedef __m512 avx512_sums[PANEL_ROWS][PANEL_STEPS];

// c is asked for a line a step: all lines at once would hold up what the first steps read. What is constant here decides the
// speed: a loop for any a_row and a_step was 3 % slower.
AVX512 INLINE void avx512_loop(const gemm_panel *p, const size_t vectors, size_t a_row, size_t a_step,
                               const bool keep_a, const bool keep_b, avx512_sums sum) {
    const float *a = p->a, *from = p->b, *c = p->c;
    size_t b_step = p->b_step, c_stride = p->c_stride, depth = p->depth;
    float *a_kept = p->keep_a, *b_kept = p->keep_b;
    const float *soon = p->soon;
    size_t soon_step = p->soon_step, soon_count = p->soon_count;
    for (size_t k = 0; k < depth; k++, a += a_step, from += b_step) {
        __m512 b[PANEL_STEPS];
        if (k < soon_count) {
            __builtin_prefetch(soon, 0, 2);
            soon += soon_step;
        }
        __builtin_prefetch(c + k % PANEL_ROWS * c_stride + k / PANEL_ROWS % PANEL_LINES * 16, 1);
        UNROLL for (size_t v = 0; v < vectors; v++) b[v] = _mm512_loadu_ps(from + 16 * v);
        if (keep_b) {
            UNROLL for (size_t v = 0; v < vectors; v++) _mm512_storeu_ps(b_kept + 16 * v, b[v]);
            b_kept += 16 * vectors;
        }
        if (keep_a) {
            _mm256_storeu_ps(a_kept, _mm256_loadu_ps(a));
            a_kept += PANEL_ROWS;
        }
        UNROLL for (size_t i = 0; i < PANEL_ROWS; i++) {
            __m512 x = _mm512_set1_ps(a[i * a_row]);
            UNROLL for (size_t v = 0; v < vectors; v++) sum[i][v] = _mm512_fmadd_ps(x, b[v], sum[i][v]);
        }
    }
}

AVX512 INLINE void avx512_sum(const gemm_panel *p, const size_t vectors, avx512_sums sum) {
    if (p->a_row != 1 && p->keep_b)
        avx512_loop(p, vectors, p->a_row, p->a_step, false, true, sum);
    else if (p->a_row != 1)
        avx512_loop(p, vectors, p->a_row, p->a_step, false, false, sum);
    else if (p->keep_a && p->keep_b)
        avx512_loop(p, vectors, 1, p->a_step, true, true, sum);
    else if (p->keep_a)
        avx512_loop(p, vectors, 1, p->a_step, true, false, sum);
    else if (p->keep_b)
        avx512_loop(p, vectors, 1, p->a_step, false, true, sum);
    else if (p->a_step == PANEL_ROWS)
        avx512_loop(p, vectors, 1, PANEL_ROWS, false, false, sum);
    else
        avx512_loop(p, vectors, 1, p->a_step, false, false, sum);
}

AVX512 INLINE void avx512_panel(const gemm_panel *p, const size_t vectors) {
    avx512_sums sum;
    UNROLL for (size_t i = 0; i < PANEL_ROWS; i++) UNROLL for (size_t v = 0; v < vectors; v++)
        sum[i][v] = _mm512_setzero_ps();
    avx512_sum(p, vectors, sum);
    float *c = p->c;
    const float *add = p->add;
    size_t stride = p->c_stride;
    if (add)
        UNROLL for (size_t i = 0; i < PANEL_ROWS; i++, c += stride, add += stride)
            UNROLL for (size_t v = 0; v < vectors; v++)
                _mm512_storeu_ps(c + 16 * v, _mm512_add_ps(_mm512_loadu_ps(add + 16 * v), sum[i][v]));
    else
        UNROLL for (size_t i = 0; i < PANEL_ROWS; i++, c += stride) UNROLL for (size_t v = 0; v < vectors; v++)
            _mm512_storeu_ps(c + 16 * v, sum[i][v]);
}

AVX512 INLINE void avx512_product(const gemm_panel *panels, size_t count, const size_t vectors) {
    for (size_t i = 0; i < count; i++) avx512_panel(&panels[i], vectors);
}

AVX512 static void avx512_1(const gemm_panel *panels, size_t count) { avx512_product(panels, count, 1); }
AVX512 static void avx512_2(const gemm_panel *panels, size_t count) { avx512_product(panels, count, 2); }
AVX512 static void avx512_3(const gemm_panel *panels, size_t count) { avx512_product(panels, count, 3); }

static bool avx512_works(void) { return __builtin_cpu_supports("avx512f") && gemm_avx2.works_here(); }

const gemm_kernels gemm_avx512 = {
    .name = "AVX-512",
    .works_here = avx512_works,
    .keeps = true,
    .rows_in_place = SIZE_MAX,
    .columns_in_place = 6 * PANEL_COLS,
    .strips = {1, 1, 1},
    .product = {avx512_1, avx512_2, avx512_3},
    .turn = gemm_turn_avx2,
    .copy = gemm_copy_avx2,
};

#endif
