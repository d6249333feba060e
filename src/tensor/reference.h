// Reference implementations of the kernels: the textbook formulas in fp64 with plain loops, for
// tests. Shapes as in kernels.h.
#ifndef BRAID_TENSOR_REFERENCE_H
#define BRAID_TENSOR_REFERENCE_H

#include "tensor/kernels.h"

typedef struct reference_norm {
    bool centred;
    size_t rows, dim;
    double eps;
    const double *weight, *bias;
} reference_norm;

void reference_norm_forward(const reference_norm *n, const double *x, double *y);
// d_bias NULL when not centred.
void reference_norm_gradient(const reference_norm *n, const double *x, const double *dy, double *dx, double *d_weight,
                             double *d_bias);

// x[tokens, heads * width] of one sequence, in place.
void reference_rope(size_t tokens, size_t heads, size_t width, double theta, bool inverse, double *x);

void reference_swiglu(const double *x, double *y, size_t rows, size_t dim);
void reference_swiglu_gradient(const double *x, const double *dy, double *dx, size_t rows, size_t dim);
void reference_gelu(const double *x, double *y, size_t count);
void reference_gelu_gradient(const double *x, const double *dy, double *dx, size_t count);

// One sequence; probabilities[heads, tokens, tokens].
typedef struct reference_attention {
    size_t tokens, heads, kv_heads, width;
    double *probabilities;
} reference_attention;

void reference_attention_forward(const reference_attention *a, const double *qkv, double *out);
// Call it after forward: the gradient of qkv.
void reference_attention_gradient(const reference_attention *a, const double *qkv, const double *d_out, double *d_qkv);

void reference_embedding(const tensor_embedding *e, const double *table, const double *positions, double *y);
void reference_embedding_gradient(const tensor_embedding *e, const double *dy, double *d_table, size_t vocab,
                                  double *d_positions);

// Sum of losses; d_logits unless NULL.
double reference_loss(const double *logits, const int32_t *targets, size_t rows, size_t vocab, double *d_logits);

#endif
