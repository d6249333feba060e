// Matrix products whose bits depend on values and on k alone (docs/protocol.md, arithmetic, 5).
#ifndef BRAID_TENSOR_GEMM_H
#define BRAID_TENSOR_GEMM_H

#include "tensor/pool.h"

#include <stdbool.h>
#include <stddef.h>

// A matrix as a product reads it: rows lie `stride` apart; a transposed one is stored with rows and columns swapped.
typedef struct tensor_matrix {
    const float *at;
    size_t stride;
    bool transposed;
} tensor_matrix;

static inline tensor_matrix tensor_plain(const float *at, size_t stride) { return (tensor_matrix){at, stride, false}; }
static inline tensor_matrix tensor_transposed(const float *at, size_t stride) {
    return (tensor_matrix){at, stride, true};
}

// c[m, n] = a[m, k] b[k, n], or c plus that. c overlaps neither a nor b.
typedef enum tensor_gemm_mode { GEMM_SET, GEMM_ADD } tensor_gemm_mode;

typedef struct tensor_gemm {
    size_t m, n, k;
    tensor_matrix a, b;
    float *c;
    size_t c_stride;
    tensor_gemm_mode mode;
} tensor_gemm;

// Over the pool's threads.
void tensor_gemm_run(tensor_pool *pool, const tensor_gemm *g);
// On the calling thread: the same bits. Takes 700 KB of its stack.
void tensor_gemm_tile(const tensor_gemm *g);
// The kernels that this processor gets, for people and for the name of a kernel class.
const char *tensor_gemm_name(void);

// Keeps the calling thread's core at nothing but fused multiply-adds for some milliseconds and returns how many operations
// that were (two each), for who times it. `sink` gets a value that depends on all of them.
double tensor_peak_burst(float *sink);

#endif
