// Products on processors with AVX-512.
#include "tensor/cpu/gemm_parts.h"

#if defined(__x86_64__)
#include "tensor/cpu/gemm_avx512_loops.h"

enum { LINE_FLOATS = 16, C_LINES = 4 };  // that a row of a panel of c lies in, at most

// How a panel of a lies.
typedef enum rows_lie { ROWS_PACKED, ROWS_BESIDE, ROWS_KEPT, ROWS_ALONG } rows_lie;

static inline rows_lie rows_lie_of(const gemm_panel *p) {
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

AVX512 INLINE void avx512_multiply(const avx512_panel *panel, rows_lie rows, const size_t vectors) {
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

// Where the first line of c that a kernel makes next lies.
AVX512 INLINE const float *next_c(const gemm_panel *panels, size_t count, size_t i, size_t vectors) {
    return i + 1 < count ? panels[i + 1].c : panels[0].c + PANEL_STEP * vectors;
}

// What is asked for beside which fours: of the panel of c that is made next a line at a time, and what comes later, a line a step, while
// there is something.
AVX512 INLINE void ask(const gemm_panel *p, const float *c, avx512_panel *panel) {
    const size_t all = p->depth / 4, c_fours = C_LINES * PANEL_ROWS, soon_fours = size_least(p->soon_count / 4, all);
    avx512_part *part = panel->part;
    for (size_t done = 0; done < all; done += part->fours, part++) {
        bool of_c = done < c_fours, soon = done < soon_fours;
        size_t end = soon ? soon_fours : all;
        if (of_c) end = size_least(end, done / PANEL_ROWS * PANEL_ROWS + PANEL_ROWS);
        *part = (avx512_part){.fours = end - done, .c = p->c};
        if (of_c) {
            part->c = c + done % PANEL_ROWS * p->c_stride + done / PANEL_ROWS * LINE_FLOATS;
            part->c_step = panel->c_step;
        }
        if (soon) part->soon_step = p->soon_step * sizeof(float);
    }
    part->fours = 0;
}

AVX512 INLINE void avx512_make(const gemm_panel *p, const float *c_next, const size_t vectors) {
    avx512_panel panel;
    panel.a = p->a;
    panel.a_step = (p->a_row == 1 ? p->a_step : p->a_row) * sizeof(float);
    panel.b = p->b;
    panel.b_step = p->b_step * sizeof(float);
    panel.soon = p->soon_count > 0 ? p->soon : p->b;
    panel.keep_a = p->keep_a;
    panel.keep_b = p->keep_b;
    panel.c = p->c;
    panel.add = p->add;
    panel.c_step = p->c_stride * sizeof(float);
    panel.ones = p->depth % 4;
    ask(p, c_next, &panel);
    avx512_multiply(&panel, rows_lie_of(p), vectors);
}

AVX512 INLINE void avx512_product(const gemm_panel *panels, size_t count, const size_t vectors) {
    for (size_t i = 0; i < count; i++) avx512_make(&panels[i], next_c(panels, count, i, vectors), vectors);
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
    .turn = gemm_turn_avx2,
    .copy = gemm_copy_avx2,
};

#endif
