// Products on 64-bit ARM.
#include "tensor/cpu/gemm_parts.h"

#if defined(__aarch64__)
#include <arm_neon.h>

// c[8, 12] or c[8, 8]: 24 sums, three vectors of b and some of a fit into 32 registers.
INLINE void neon_part(const gemm_panel *p, size_t col, const size_t vectors) {
    float32x4_t sum[PANEL_ROWS][3], b[3];
    const float *a = p->a, *from = p->b + col;
    size_t a_row = p->a_row, a_step = p->a_step, b_step = p->b_step;
    UNROLL for (size_t i = 0; i < PANEL_ROWS; i++) UNROLL for (size_t v = 0; v < vectors; v++)
        sum[i][v] = vdupq_n_f32(0);
    for (size_t k = 0; k < p->depth; k++, a += a_step, from += b_step) {
        UNROLL for (size_t v = 0; v < vectors; v++) b[v] = vld1q_f32(from + 4 * v);
        UNROLL for (size_t i = 0; i < PANEL_ROWS; i++) {
            float32x4_t x = vld1q_dup_f32(a + i * a_row);
            UNROLL for (size_t v = 0; v < vectors; v++) sum[i][v] = vfmaq_f32(sum[i][v], b[v], x);
        }
    }
    UNROLL for (size_t i = 0; i < PANEL_ROWS; i++) UNROLL for (size_t v = 0; v < vectors; v++) {
        size_t at = i * p->c_stride + col + 4 * v;
        vst1q_f32(p->c + at, p->add ? vaddq_f32(vld1q_f32(p->add + at), sum[i][v]) : sum[i][v]);
    }
}

INLINE void neon_product(const gemm_panel *panels, size_t count, size_t cols) {
    for (const gemm_panel *p = panels; p < panels + count; p++) {
        size_t col = 0;
        for (; cols > 16 && col + 12 <= cols; col += 12) neon_part(p, col, 3);
        // 16 columns: 8 and 8; 32: 12, 12 and 8; 48: four times 12
        for (; col < cols; col += 8) neon_part(p, col, 2);
    }
}

static void neon_1(const gemm_panel *panels, size_t count) { neon_product(panels, count, 16); }
static void neon_2(const gemm_panel *panels, size_t count) { neon_product(panels, count, 32); }
static void neon_3(const gemm_panel *panels, size_t count) { neon_product(panels, count, 48); }

// Transposes a 4 x 4 square: first pairs, then halves.
INLINE void transpose_square(const float *from, size_t from_stride, float *to, size_t to_step) {
    float32x4_t x[4];
    float64x2_t y[4];
    UNROLL for (size_t r = 0; r < 4; r++) x[r] = vld1q_f32(from + r * from_stride);
    UNROLL for (size_t h = 0; h < 2; h++) {
        y[h] = vreinterpretq_f64_f32(vtrn1q_f32(x[2 * h], x[2 * h + 1]));
        y[2 + h] = vreinterpretq_f64_f32(vtrn2q_f32(x[2 * h], x[2 * h + 1]));
    }
    UNROLL for (size_t h = 0; h < 2; h++) {
        vst1q_f32(to + h * to_step, vreinterpretq_f32_f64(vtrn1q_f64(y[2 * h], y[2 * h + 1])));
        vst1q_f32(to + (h + 2) * to_step, vreinterpretq_f32_f64(vtrn2q_f64(y[2 * h], y[2 * h + 1])));
    }
}

static void neon_transpose(const float *from, size_t from_stride, size_t count, float *to, size_t to_step) {
    size_t i = 0;
    for (; i + 4 <= count; i += 4)
        for (size_t r = 0; r < PANEL_ROWS; r += 4)
            transpose_square(from + i + r * from_stride, from_stride, to + i * to_step + r, to_step);
    gemm_transpose_plain(from + i, from_stride, count - i, to + i * to_step, to_step);
}

const gemm_kernels gemm_neon = {
    .name = "NEON",
    .works_here = gemm_always,
    .keeps = false,
    .rows_in_place = SIZE_MAX,
    .columns_in_place = 0,
    .strips = {1, 1, 1},
    .product = {neon_1, neon_2, neon_3},
    .transpose = neon_transpose,
    .copy = gemm_copy_plain,
};

#endif
