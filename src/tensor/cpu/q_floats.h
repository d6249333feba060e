// Products with F32, F16, BF16 and mixed8 weights.
#ifndef BRAID_TENSOR_CPU_Q_FLOATS_H
#define BRAID_TENSOR_CPU_Q_FLOATS_H

#include "tensor/cpu/q_product.h"

enum {
    Q_FLOAT_ROWS = 48,   // the most outputs that are widened to fp32 at a time
    Q_FEW_OUTPUTS = 32,  // a multiple of the outputs that loops for few rows compute at a time
    Q_FEW_ROWS = 8,      // rows of x up to which these are faster than products of matrices
};

// Outputs of a part of a product with m rows: a multiple of this.
static inline size_t q_float_rows(size_t m) { return m <= Q_FEW_ROWS ? Q_FEW_OUTPUTS : Q_FLOAT_ROWS; }

// Outputs [first, first + count) of a product, on the calling thread. wide[Q_FLOAT_ROWS, cols] is
// scratch.
void q_float_product(const q_call *call, const tensor_quantised_product *p, size_t first, size_t count, float *wide);

// y[m, rows] = or += x[m, cols] w[rows, cols]^T for few rows of x, with the bits of gemm.h.
typedef struct q_few {
    const float *w, *x;
    size_t rows, cols, m, x_stride, y_stride;
    float *y;
    bool add;
} q_few;

// Exactly, with plain C.
void q_widen_f16(const uint8_t *from, size_t count, float *to);
void q_widen_bf16(const uint8_t *from, size_t count, float *to);

typedef struct q_few_kernels {
    const char *name;
    bool (*works_here)(void);
    // computes the first outputs, as many as fit its groups; returns their number
    size_t (*product)(const q_few *job);
    // fp16 and bf16 to fp32, exactly; `from` has any alignment
    void (*widen_f16)(const uint8_t *from, size_t count, float *to);
    void (*widen_bf16)(const uint8_t *from, size_t count, float *to);
} q_few_kernels;

// In order of speed. There may be none: a processor without them uses products of matrices.
#if defined(__x86_64__)
enum { Q_FEW_KERNELS = 2 };
extern const q_few_kernels *const q_few_all[Q_FEW_KERNELS];
extern const q_few_kernels q_few_avx512, q_few_avx2;
#else
enum { Q_FEW_KERNELS = 0 };
#endif

#endif
