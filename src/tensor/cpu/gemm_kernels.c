// The portable kernels, and the list of all kernels.
#include "tensor/cpu/gemm_kernels.h"

#include "tensor/cpu/gemm_parts.h"

#include <math.h>
#include <string.h>

void gemm_transpose_plain(const float *from, size_t from_stride, size_t count, float *to, size_t to_step) {
    for (size_t i = 0; i < count; i++)
        for (size_t r = 0; r < PANEL_ROWS; r++) to[i * to_step + r] = from[r * from_stride + i];
}

void gemm_copy_plain(const float *from, size_t from_stride, size_t rows, size_t chunks, float *to, size_t chunk_step,
                     size_t row_step) {
    for (size_t r = 0; r < rows; r++)
        for (size_t i = 0; i < chunks; i++)
            memcpy(to + i * chunk_step + r * row_step, from + r * from_stride + i * PANEL_ROWS,
                   PANEL_ROWS * sizeof *to);
}

// Fused where the processor has the instruction. A library call would be too slow, so other
// processors round twice and form a kernel class of their own.
#ifdef __FP_FAST_FMAF
#define PLAIN_NAME "plain C"
static inline float multiply_add(float x, float y, float z) { return fmaf(x, y, z); }
#else
#define PLAIN_NAME "plain C, not fused"
static inline float multiply_add(float x, float y, float z) { return x * y + z; }
#endif

static void keep_plain(const gemm_panel *p, size_t cols) {
    for (size_t k = 0; p->keep_a && k < p->depth; k++)
        memcpy(p->keep_a + k * PANEL_ROWS, p->a + k * p->a_step, PANEL_ROWS * sizeof *p->a);
    for (size_t k = 0; p->keep_b && k < p->depth; k++)
        memcpy(p->keep_b + k * cols, p->b + k * p->b_step, cols * sizeof *p->b);
}

INLINE void plain_panel(const gemm_panel *p, size_t cols) {
    keep_plain(p, cols);
    float sum[PANEL_ROWS][PANEL_COLS] = {{0}};
    const float *b = p->b;
    for (size_t k = 0; k < p->depth; k++, b += p->b_step)
        for (size_t i = 0; i < PANEL_ROWS; i++) {
            float x = p->a[i * p->a_row + k * p->a_step];
            for (size_t j = 0; j < cols; j++) sum[i][j] = multiply_add(x, b[j], sum[i][j]);
        }
    for (size_t i = 0; i < PANEL_ROWS; i++)
        for (size_t j = 0; j < cols; j++) {
            size_t at = i * p->c_stride + j;
            p->c[at] = p->add ? p->add[at] + sum[i][j] : sum[i][j];
        }
}

INLINE void plain_product(const gemm_panel *panels, size_t count, size_t cols) {
    for (size_t i = 0; i < count; i++) plain_panel(&panels[i], cols);
}

static void plain_1(const gemm_panel *panels, size_t count) { plain_product(panels, count, 16); }
static void plain_2(const gemm_panel *panels, size_t count) { plain_product(panels, count, 32); }
static void plain_3(const gemm_panel *panels, size_t count) { plain_product(panels, count, 48); }

const gemm_kernels gemm_plain = {
    .name = PLAIN_NAME,
    .works_here = gemm_always,
    .keeps = true,
    .rows_in_place = SIZE_MAX,
    .columns_in_place = 0,
    .strips = {1, 1, 1},
    .product = {plain_1, plain_2, plain_3},
    .transpose = gemm_transpose_plain,
    .copy = gemm_copy_plain,
};

#if defined(__x86_64__)
const gemm_kernels *const gemm_kernels_all[GEMM_KERNELS] = {&gemm_avx512, &gemm_avx2, &gemm_plain};
#elif defined(__aarch64__)
const gemm_kernels *const gemm_kernels_all[GEMM_KERNELS] = {&gemm_neon, &gemm_plain};
#else
const gemm_kernels *const gemm_kernels_all[GEMM_KERNELS] = {&gemm_plain};
#endif
