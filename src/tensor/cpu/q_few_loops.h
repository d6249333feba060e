// Products of fp32 weights with few rows, for both vector widths. Lanes are outputs: four columns of
// LANES rows of weights are transposed at a time, and every output is a chain over columns as in
// gemm.h. The including file defines:
//   VECTOR, LANES   floats in a register and their number
//   TARGET          the attribute of functions that use it
//   vector_zero, vector_all, vector_add, vector_multiply_add (x * y + z, fused)
//   vector_load, vector_store
//   load_columns    four vectors of `count` columns of LANES rows of weights, 4 r rows after at[r]
//   PREFIX(NAME)    its name for a function
#include "tensor/cpu/gemm_kernels.h"
#include "tensor/cpu/q_floats.h"
#include "tensor/sizes.h"

#define INLINE static inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 8")

// Groups of LANES outputs are computed side by side, because a single chain would wait for itself.
enum { GROUPS = 2, COLUMNS = 4, MOST_M = 4, LINE = 16, QUADS = LANES / 4 };

typedef struct few_block {
    const float *w;  // the first of its rows
    size_t stride;
    const float *x;
    size_t x_stride;
} few_block;

TARGET INLINE void few_step(const few_block *b, const float *const *at, size_t col, const size_t count, const size_t m,
                            VECTOR sums[GROUPS][MOST_M]) {
    UNROLL for (size_t g = 0; g < GROUPS; g++) {
        VECTOR columns[COLUMNS];
        load_columns(at + g * QUADS, b->stride, count, columns);
        UNROLL for (size_t i = 0; i < count; i++) UNROLL for (size_t r = 0; r < m; r++)
            sums[g][r] = vector_multiply_add(columns[i], vector_all(b->x[r * b->x_stride + col + i]), sums[g][r]);
    }
}

// The chains of columns [first, end). Meanwhile an equal share of the next rows is prefetched, in
// order of addresses.
TARGET INLINE void few_chain(const few_block *b, size_t first, size_t end, size_t ahead, const size_t m,
                             VECTOR sums[GROUPS][MOST_M]) {
    const float *at[GROUPS * QUADS];  // every fourth row, at the current column
    size_t col = first;
    UNROLL for (size_t i = 0; i < GROUPS * QUADS; i++) at[i] = b->w + 4 * i * b->stride + first;
    UNROLL for (size_t g = 0; g < GROUPS; g++) UNROLL for (size_t r = 0; r < m; r++) sums[g][r] = vector_zero();
    for (; col + COLUMNS <= end; col += COLUMNS) {
        const float *next = b->w + ahead + col * GROUPS * LANES;
        for (size_t i = 0; ahead > 0 && i < COLUMNS * GROUPS * LANES; i += LINE) __builtin_prefetch(next + i, 0, 2);
        few_step(b, at, col, COLUMNS, m, sums);
        UNROLL for (size_t i = 0; i < GROUPS * QUADS; i++) at[i] += COLUMNS;
    }
    for (; col < end; col++) {
        few_step(b, at, col, 1, m, sums);
        UNROLL for (size_t i = 0; i < GROUPS * QUADS; i++) at[i]++;
    }
}

// Outputs [row, row + GROUPS * LANES) for rows [top, top + m) of x.
TARGET INLINE void few_outputs(const q_few *job, size_t row, size_t top, const size_t m) {
    few_block b = {.w = job->w + row * job->cols, .stride = job->cols, .x_stride = job->x_stride};
    size_t depth = gemm_depth(job->cols), outputs = GROUPS * LANES;
    size_t ahead = row + 2 * outputs <= job->rows ? outputs * job->cols : 0;
    b.x = job->x + top * job->x_stride;
    for (size_t first = 0; first < job->cols; first += depth) {
        VECTOR sums[GROUPS][MOST_M];
        few_chain(&b, first, size_least(first + depth, job->cols), ahead, m, sums);
        UNROLL for (size_t g = 0; g < GROUPS; g++) UNROLL for (size_t r = 0; r < m; r++) {
            float *y = job->y + (top + r) * job->y_stride + row + g * LANES;
            if (first > 0 || job->add) sums[g][r] = vector_add(vector_load(y), sums[g][r]);
            vector_store(y, sums[g][r]);
        }
    }
}

TARGET INLINE void few_rows(const q_few *job, size_t row) {
    size_t top = 0;
    for (; top + 4 <= job->m; top += 4) few_outputs(job, row, top, 4);
    for (; top + 2 <= job->m; top += 2) few_outputs(job, row, top, 2);
    for (; top < job->m; top++) few_outputs(job, row, top, 1);
}

TARGET static size_t PREFIX(product)(const q_few *job) {
    size_t row = 0;
    for (; row + GROUPS * LANES <= job->rows; row += GROUPS * LANES) few_rows(job, row);
    return row;
}
