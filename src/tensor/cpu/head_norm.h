// The gradient of the norms of queries and keys, for attention.c.
#ifndef BRAID_TENSOR_CPU_HEAD_NORM_H
#define BRAID_TENSOR_CPU_HEAD_NORM_H

#include <stddef.h>

// dx[rows, width] from dy[rows, width] and the norm's input x, which dx may be; x and dx have rows
// `stride` apart, dy `dy_stride`. Adds to d_weight[width] in order of rows.
void head_norm_gradient(const float *weight, float eps, size_t width, size_t rows, const float *x, size_t stride,
                        const float *dy, size_t dy_stride, float *dx, float *d_weight);

#endif
