// Products on processors with AVX-512.
#include "tensor/cpu/gemm_parts.h"

#if defined(__x86_64__)
#include "tensor/cpu/gemm_avx512_loops.h"

enum { LINE_FLOATS = 16, C_LINES = 4 };  // the most cache lines in a row of a panel of c

// The layout of a panel of a.
typedef enum rows_layout { ROWS_PACKED, ROWS_BESIDE, ROWS_KEPT, ROWS_ALONG } rows_layout;

static inline rows_layout layout_of(const gemm_panel *p) {
    if (p->a_row != 1) return ROWS_ALONG;
    return p->keep_a ? ROWS_KEPT : p->a_step == PANEL_ROWS ? ROWS_PACKED : ROWS_BESIDE;
}

// clang-format off
#define MULTIPLY_ROWS(N, WIDTH, B)                                   \
    switch (rows) {                                                  \
    case ROWS_PACKED: MULTIPLY(N, WIDTH, A_PACKED, B); break;        \
    case ROWS_BESIDE: MULTIPLY(N, WIDTH, A_BESIDE, B); break;        \
    case ROWS_KEPT: MULTIPLY(N, WIDTH, A_KEPT, B); break;            \
    case ROWS_ALONG: MULTIPLY(N, WIDTH, A_ALONG, B); break;          \
    }
// clang-format on

AVX512 INLINE void avx512_multiply(const avx512_panel *panel, rows_layout rows, const size_t vectors) {
    if (panel->keep_b && vectors == 3)
        MULTIPLY_ROWS(3, "48", B_KEPT)
    else if (panel->keep_b && vectors == 2)
        MULTIPLY_ROWS(2, "32", B_KEPT)
    else if (panel->keep_b)
        MULTIPLY_ROWS(1, "16", B_KEPT)
    else if (vectors == 3)
        MULTIPLY_ROWS(3, "48", B_FAR)
    else if (vectors == 2)
        MULTIPLY_ROWS(2, "32", B_FAR)
    else
        MULTIPLY_ROWS(1, "16", B_FAR)
}

// The first line of c that the next kernel writes.
AVX512 INLINE const float *next_c(const gemm_panel *panels, size_t count, size_t i, size_t vectors) {
    return i + 1 < count ? panels[i + 1].c : panels[0].c + PANEL_STEP * vectors;
}

// Divides the loop into parts with the same prefetches. One part prefetches a line of the next
// panel of c per iteration, another four lines of `prefetch`, until they are exhausted.
AVX512 INLINE void plan_prefetches(const gemm_panel *p, const float *c, avx512_panel *panel) {
    const size_t all = p->depth / 4, c_fours = C_LINES * PANEL_ROWS,
                 prefetch_fours = size_least(p->prefetch_count / 4, all);
    avx512_part *part = panel->part;
    for (size_t done = 0; done < all; done += part->fours, part++) {
        bool of_c = done < c_fours, prefetch = done < prefetch_fours;
        size_t end = prefetch ? prefetch_fours : all;
        if (of_c) end = size_least(end, done / PANEL_ROWS * PANEL_ROWS + PANEL_ROWS);
        *part = (avx512_part){.fours = end - done, .c = p->c};
        if (of_c) {
            part->c = c + done % PANEL_ROWS * p->c_stride + done / PANEL_ROWS * LINE_FLOATS;
            part->c_step = panel->c_step;
        }
        if (prefetch) part->prefetch_step = p->prefetch_step * sizeof(float);
    }
    part->fours = 0;
}

AVX512 INLINE void avx512_panel_product(const gemm_panel *p, const float *c_next, const size_t vectors) {
    avx512_panel panel;
    panel.a = p->a;
    panel.a_step = (p->a_row == 1 ? p->a_step : p->a_row) * sizeof(float);
    panel.b = p->b;
    panel.b_step = p->b_step * sizeof(float);
    panel.prefetch = p->prefetch_count > 0 ? p->prefetch : p->b;
    panel.keep_a = p->keep_a;
    panel.keep_b = p->keep_b;
    panel.c = p->c;
    panel.add = p->add;
    panel.c_step = p->c_stride * sizeof(float);
    panel.ones = p->depth % 4;
    plan_prefetches(p, c_next, &panel);
    avx512_multiply(&panel, layout_of(p), vectors);
}

AVX512 INLINE void avx512_product(const gemm_panel *panels, size_t count, const size_t vectors) {
    for (size_t i = 0; i < count; i++) avx512_panel_product(&panels[i], next_c(panels, count, i, vectors), vectors);
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
    .columns_in_place = PANEL_COLS,
    .strips = {1, 1, 1},
    .product = {avx512_1, avx512_2, avx512_3},
    .transpose = gemm_transpose_avx2,
    .copy = gemm_copy_avx2,
};

#endif
