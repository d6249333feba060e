// Matrix products whose bits depend on shapes and values alone: cut into tiles by shape, each tile one single-threaded
// call (docs/protocol.md, arithmetic, 5).
#ifndef BRAID_TENSOR_GEMM_H
#define BRAID_TENSOR_GEMM_H

#include "tensor/pool.h"

#include <stdbool.h>
#include <stddef.h>

// c[m, n] = op(a)[m, k] * op(b)[k, n], plus c when `add`. Row-major with leading dimensions; op transposes when
// `a_transposed` (a is stored [k, m]) or `b_transposed` (b is stored [n, k]). c overlaps neither a nor b.
typedef struct tensor_gemm {
    bool a_transposed, b_transposed, add;
    size_t m, n, k;
    const float *a, *b;
    float *c;
    size_t a_stride, b_stride, c_stride;
} tensor_gemm;

// Over the pool's threads.
void tensor_gemm_run(tensor_pool *pool, const tensor_gemm *g);
// On the calling thread, as one call. Safe from several threads at once.
void tensor_gemm_tile(const tensor_gemm *g);
// Keeps the BLAS from starting threads of its own. tensor_pool_new calls it.
void tensor_gemm_setup(void);
// The library and the kernels it chose, for people and for the name of a kernel class.
const char *tensor_gemm_name(void);

#endif
