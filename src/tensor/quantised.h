// Products of activations with weights in the form of their file, for inference: y = x W^T.
//
// Bits. They depend on x's row, on the weight's row and on the weight's type, and on nothing else:
// not on m, on threads, on the products of one call or on the processor. The definition:
//  - Quantised types. Each 32 numbers of a row of x become integers q = round(x * (127 / largest)),
//    half to even, with the scale d = largest / 127 (largest: of the magnitudes; below 2^-100 all
//    are zero). With the weight's scale D, minimum M and integers w of block b:
//      dots = fma(D * d, sum of w q, dots)   for b = 0, 1, ..., from zero; the sum is an integer
//      mins = fma(M, d * sum of q, mins)     likewise; for types with a minimum only
//      y = dots + mins, or dots
//    A block has one D for 32 numbers (two of 16 in Q6_K: two steps of `dots`). A row of x with a
//    number that is not finite gives NaN.
//  - F32, F16, BF16, mixed8: fp32 products of the weights' values, with the bits of tensor_gemm_run
//    (gemm.h).
#ifndef BRAID_TENSOR_QUANTISED_H
#define BRAID_TENSOR_QUANTISED_H

#include "tensor/pool.h"
#include "tensor/weights.h"

#include <stdbool.h>
#include <stddef.h>

// Weights prepared for products. `at` is the repacked copy, or the matrix itself.
typedef struct tensor_quantised {
    weight_type type;
    size_t rows, cols;
    const void *at;  // borrowed
} tensor_quantised;

enum { TENSOR_QUANTISED_ALIGN = 64 };

// True if products with this type and these columns exist: whole blocks.
bool tensor_quantised_fits(weight_type type, size_t cols);
// Bytes of the repacked copy, about those of the matrix; 0: products read the matrix in place.
size_t tensor_quantised_bytes(const weight_matrix *w);
// Prepares w, for which tensor_quantised_fits. `copy` has tensor_quantised_bytes bytes, aligned to
// TENSOR_QUANTISED_ALIGN, and must outlive the result; w's own memory is then no longer needed.
// NULL where these bytes are 0: then w's memory must outlive the result.
void tensor_quantised_prepare(tensor_pool *pool, const weight_matrix *w, void *copy, tensor_quantised *out);

// One of the products of a call: y[m, rows] = x[m, cols] W^T.
typedef struct tensor_quantised_product {
    const tensor_quantised *w;
    float *y;  // rows of it are y_stride apart
    size_t y_stride;
    bool add;  // y += x W^T: the product is computed first
} tensor_quantised_product;

// Scratch bytes for a call with m rows, for any types; align the scratch to TENSOR_QUANTISED_ALIGN.
size_t tensor_quantised_scratch(const tensor_pool *pool, size_t m, size_t cols);
// Computes `count` products with the same x[m, cols] in one loop of the pool. Rows of x are x_stride
// apart. All matrices have `cols` columns. Outputs overlap neither x nor weights nor each other.
void tensor_quantised_run(tensor_pool *pool, const float *x, size_t x_stride, size_t m, size_t cols,
                          const tensor_quantised_product *products, size_t count, void *scratch);

// The name of this processor's kernels, for messages.
const char *tensor_quantised_name(void);

#endif
