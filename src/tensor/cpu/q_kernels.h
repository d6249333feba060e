// The innermost loops of products with quantised weights, one set per kind of processor. All sets
// compute the same bits (quantised.h).
#ifndef BRAID_TENSOR_CPU_Q_KERNELS_H
#define BRAID_TENSOR_CPU_Q_KERNELS_H

#include "tensor/cpu/q_format.h"

enum { Q_ROWS = 16 };  // rows of a tile of activations

// Up to 16 rows of activations as integers, with blocks outermost. Kernels may read beyond the last
// row, up to 16 rows.
typedef struct q_rows {
    size_t rows, blocks;
    int8_t *values;      // [blocks, rows, 32]
    float *scales;       // [blocks, rows]
    float *sums;         // [blocks, rows]: the scale times the sum of the integers
    int32_t *halves[2];  // [blocks, rows]: sums of the integers of the first and the last 16 columns
} q_rows;

// A strip of weights as bytes.
typedef struct q_panel {
    const q_format *format;
    size_t blocks;
    int8_t *values;   // [blocks, 8, 16, 4]: the integers, less the offset
    float *scales;    // [blocks, parts, 16]
    float *minimums;  // [blocks, 16]; NULL: none
} q_panel;

typedef struct q_kernels {
    const char *name;
    bool (*works_here)(void);
    // to->rows rows of x, `stride` apart
    void (*quantise)(const float *x, size_t stride, const q_rows *to);
    void (*unpack)(const uint8_t *strip, const q_panel *to);
    // Around products of a thread; NULL: nothing.
    void (*begin)(void);
    void (*end)(void);
    // y[rows, 16] = the products, rows `y_stride` apart
    void (*product)(const q_rows *x, const q_panel *w, float *y, size_t y_stride);
    // The same from a packed strip, for few rows; NULL: unpack and product.
    void (*direct)(const q_format *f, const q_rows *x, const uint8_t *strip, float *y, size_t y_stride);
    size_t direct_rows;  // the most rows of a call for which that is faster
} q_kernels;

// In order of speed; the last one works on every processor.
#if defined(__x86_64__)
enum { Q_KERNELS = 4 };
#else
enum { Q_KERNELS = 1 };
#endif
extern const q_kernels *const q_kernels_all[Q_KERNELS];

// The fastest kernels that this processor supports.
const q_kernels *q_kernels_here(void);

extern const q_kernels q_plain, q_avx2, q_avx512, q_amx;

// From the bits of the largest magnitude of 32 numbers.
typedef struct q_block_scale {
    float scale, inverse;  // inverse 0: all integers are zero
} q_block_scale;

q_block_scale q_scale_of(uint32_t largest_bits);

// The scales and minimums of block b from a strip's scales.
void q_unpack_scales(const q_panel *to, const uint8_t *scales, size_t b);

#endif
