// tensor_quantised_run with given kernels, for tests.
#ifndef BRAID_TENSOR_CPU_Q_PRODUCT_H
#define BRAID_TENSOR_CPU_Q_PRODUCT_H

#include "tensor/cpu/q_kernels.h"
#include "tensor/quantised.h"

typedef struct q_call {
    const float *x;
    size_t x_stride, m, cols;
    const tensor_quantised_product *products;
    size_t count;
} q_call;

void q_run_by(const q_kernels *kernels, tensor_pool *pool, const q_call *call, void *scratch);

#endif
