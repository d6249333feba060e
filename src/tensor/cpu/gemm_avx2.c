// Products on processors with AVX2 and fused multiply-adds.
#include "tensor/cpu/gemm_parts.h"

#if defined(__x86_64__)
#include "tensor/cpu/gemm_avx2_loops.h"

// Transposes an 8 x 8 square: first pairs, then groups of four, then halves.
AVX2 INLINE void transpose_square(const float *from, size_t from_stride, float *to, size_t to_step) {
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

AVX2 void gemm_transpose_avx2(const float *from, size_t from_stride, size_t count, float *to, size_t to_step) {
    size_t i = 0;
    for (; i + 8 <= count; i += 8) transpose_square(from + i, from_stride, to + i * to_step, to_step);
    gemm_transpose_plain(from + i, from_stride, count - i, to + i * to_step, to_step);
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
    if (chunks == 3) copy_chunks(from, from_stride, rows, 3, to, chunk_step, row_step);
    if (chunks == 2) copy_chunks(from, from_stride, rows, 2, to, chunk_step, row_step);
    if (chunks == 1) copy_chunks(from, from_stride, rows, 1, to, chunk_step, row_step);
}

// Part of a panel of b: the columns that a kernel computes at once.
typedef struct avx2_strip {
    const float *b;
    size_t b_step, col;
    size_t index, strips;  // index and number of strips of the panel, which share its prefetches
} avx2_strip;

// The rows of c that a kernel computes at once. `a` points to pairs of rows, which may belong to
// two panels.
typedef struct avx2_tile {
    size_t depth, a_row, a_step, c_stride;
    const float *a[AVX2_PAIRS];
    float *c;
    const float *add;       // NULL: nothing
    const float *prefetch;  // prefetched, one cache line every four steps
    size_t prefetch_step;
} avx2_tile;

AVX2 INLINE void avx2_step(const avx2_tile *t, size_t k, const float *from, const size_t rows, const size_t vectors,
                           avx2_sums sum) {
    __m256 b[3];
    UNROLL for (size_t v = 0; v < vectors; v++) b[v] = _mm256_loadu_ps(from + 8 * v);
    UNROLL for (size_t i = 0; i < rows; i++) {
        __m256 x = _mm256_broadcast_ss(t->a[i / 2] + i % 2 * t->a_row + k * t->a_step);
        UNROLL for (size_t v = 0; v < vectors; v++)
            sum[i * vectors + v] = _mm256_fmadd_ps(x, b[v], sum[i * vectors + v]);
    }
}

// Returns the number of steps done: a multiple of four, or 0 for layouts that have no assembly
// loop.
AVX2 INLINE size_t avx2_fours(const avx2_tile *t, const avx2_strip *s, const size_t rows, const size_t vectors,
                              avx2_sums sum) {
    bool strip = s->b_step == 8 * vectors, beside = t->a_row == 1, packed = beside && t->a_step == PANEL_ROWS;
    avx2_loop loop = {.fours = t->depth / 4, .a = {t->a[0], t->a[1], t->a[2]}, .b = s->b, .prefetch = t->prefetch};
    loop.a_step = (beside ? t->a_step : t->a_row) * sizeof(float);
    loop.b_step = s->b_step * sizeof(float);
    loop.prefetch_step = t->prefetch_step * sizeof(float);
    if (loop.fours == 0) return 0;
    if (strip && (packed || t->a_step == 1))
        avx2_of_strips(&loop, packed, rows, vectors, sum);
    else if (rows == 4 && (beside || t->a_step == 1))
        avx2_far(&loop, beside, vectors, sum);
    else
        return 0;
    return 4 * loop.fours;
}

AVX2 INLINE void avx2_tile_product(const avx2_tile *t, const avx2_strip *s, const size_t rows, const size_t vectors) {
    UNROLL for (size_t i = 0; i < rows; i++) UNROLL for (size_t line = 0; line < 2; line++)
        __builtin_prefetch(t->c + i * t->c_stride + 16 * line, 1);
    avx2_sums sum;
    UNROLL for (size_t i = 0; i < rows; i++) UNROLL for (size_t v = 0; v < vectors; v++)
        sum[i * vectors + v] = _mm256_setzero_ps();
    for (size_t k = avx2_fours(t, s, rows, vectors, sum); k < t->depth; k++)
        avx2_step(t, k, s->b + k * s->b_step, rows, vectors, sum);
    float *c = t->c;
    const float *add = t->add;
    UNROLL for (size_t i = 0; i < rows; i++, c += t->c_stride, add = add ? add + t->c_stride : NULL)
        UNROLL for (size_t v = 0; v < vectors; v++) {
        __m256 x = sum[i * vectors + v];
        _mm256_storeu_ps(c + 8 * v, add ? _mm256_add_ps(_mm256_loadu_ps(add + 8 * v), x) : x);
    }
}

// Rows [row, row + rows) of consecutive panels; a set of four rows belongs to one panel.
AVX2 INLINE void avx2_rows(const gemm_panel *panels, const avx2_strip *s, size_t row, const size_t rows,
                           const size_t vectors) {
    const gemm_panel *p = &panels[row / PANEL_ROWS];
    size_t down = row % PANEL_ROWS, at = down * p->c_stride + s->col;
    avx2_tile t = {.depth = p->depth, .a_row = p->a_row, .a_step = p->a_step, .c_stride = p->c_stride, .c = p->c + at};
    t.add = p->add ? p->add + at : NULL;
    t.prefetch = s->b;
    size_t done = s->index * PANEL_ROWS + down, all = s->strips * PANEL_ROWS;
    size_t begin = p->prefetch_count * done / all, end = p->prefetch_count * size_least(done + rows, all) / all;
    if (begin < end) {
        t.prefetch = p->prefetch + begin * p->prefetch_step;
        t.prefetch_step = p->prefetch_step;
    }
    t.a[0] = p->a + down * p->a_row;
    t.a[1] = t.a[0] + 2 * p->a_row;
    UNROLL for (size_t i = 0; rows == 6 && i < AVX2_PAIRS; i++) {
        size_t here = row + 2 * i;
        t.a[i] = panels[here / PANEL_ROWS].a + here % PANEL_ROWS * p->a_row;
    }
    avx2_tile_product(&t, s, rows, vectors);
}

// Four rows of 24 columns at a time. With 16 columns six rows where possible, because eight sums
// cannot keep the multipliers busy.
AVX2 INLINE void avx2_strip_rows(const gemm_panel *panels, size_t count, const avx2_strip *s, const size_t vectors) {
    size_t rows = count * PANEL_ROWS, row = 0;
    size_t sixes = vectors == 3 ? 0 : rows % 6 == 2 ? rows - 8 : rows - rows % 6;
    for (; vectors == 2 && row < sixes; row += 6) avx2_rows(panels, s, row, 6, 2);
    for (; row < rows; row += 4) avx2_rows(panels, s, row, 4, vectors);
}

// For each strip of b, computes all rows, so that the strip stays in the first-level cache.
AVX2 INLINE void avx2_product(const gemm_panel *panels, size_t count, const size_t cols, const size_t vectors) {
    const size_t wide = 8 * vectors;
    avx2_strip s = {.b = panels->b, .b_step = panels->b_step, .strips = cols / wide};
    for (s.index = 0; s.index < s.strips; s.index++) {
        avx2_strip_rows(panels, count, &s, vectors);
        s.col += wide;
        s.b += panels->b_next > 0 ? panels->b_next : wide;
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
    .transpose = gemm_transpose_avx2,
    .copy = gemm_copy_avx2,
};

#endif
