// The operations of a model between its matrix products. fp32, row-major; `rows` is over all sequences of a microbatch.
// Those that are given a pool run over it, with the same bits for any number of threads; the others on the calling thread, on
// some rows of a product at a time (gemm.h). Each has a plain twin in reference.h.
// Gradients: "gradient" functions write, those that say "adds" add.
#ifndef BRAID_TENSOR_KERNELS_H
#define BRAID_TENSOR_KERNELS_H

#include "tensor/pool.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Normalisation of each row of x[rows, dim]. RMS (Zhang & Sennrich 2019) when `bias` is NULL in a norm made with
// `centred` false: y = x / sqrt(mean(x^2) + eps) * weight. Centred (layer norm, Ba et al. 2016):
// y = (x - mean) / sqrt(variance + eps) * weight + bias.
typedef struct tensor_norm {
    bool centred;
    size_t rows, dim;
    float eps;
    const float *weight, *bias;  // [dim]; bias for centred only
    float *mean, *inverse;       // [rows]: kept by forward for the gradients; mean for centred only
} tensor_norm;

void tensor_norm_forward(tensor_pool *pool, const tensor_norm *n, const float *x, float *y);
// Rows [first, first + count) of the same.
void tensor_norm_rows(const tensor_norm *n, const float *x, float *y, size_t first, size_t count);
// On the calling thread, rows [first, first + count): dx = gradient of the norm for dy, plus residual unless NULL; dx may be
// x, dy or residual itself. d_weight[dim] and d_bias[dim] (centred only, else NULL): what these rows add to theirs.
typedef struct tensor_norm_gradient {
    const tensor_norm *norm;
    const float *x, *dy, *residual;
    float *dx, *d_weight, *d_bias;
} tensor_norm_gradient;

void tensor_norm_gradient_rows(const tensor_norm_gradient *g, size_t first, size_t count);

// sums[cols] of x[rows, cols] over rows: the gradient of a bias.
void tensor_column_sums(tensor_pool *pool, const float *x, size_t rows, size_t cols, size_t stride, float *sums);

// Rotary positions (Su et al. 2021) in Hugging Face's convention: element i of a head turns with element i + width / 2.
// tables[tokens, width / 2] from tensor_rope_tables.
typedef struct tensor_rope {
    size_t width;
    const float *cosines, *sines;
} tensor_rope;

void tensor_rope_tables(size_t tokens, size_t width, float theta, float *cosines, float *sines);
// On the calling thread: to[rows, width] from one head's rows, which stand at positions first .. first + rows - 1.
// `inverse` turns back, which is the gradient. They lie apart.
void tensor_rope_rows(const tensor_rope *r, size_t first, size_t rows, bool inverse, const float *from,
                      size_t from_stride, float *to, size_t to_stride);

// SwiGLU: y[rows, dim] = silu(x[:, :dim]) * x[:, dim:], x[rows, 2 * dim]. `logistic`[rows, dim], unless NULL, gets what the
// gradient would have to make again, the logistic function of x[:, :dim]; the gradient puts y there.
void tensor_swiglu_forward(const float *x, float *y, float *logistic, size_t rows, size_t dim);
// dx[rows, 2 * dim] may be x itself.
void tensor_swiglu_input_gradient(const float *x, float *logistic, const float *dy, float *dx, size_t rows, size_t dim);
// GELU in GPT-2's tanh form (gelu_new), on count elements, the same way. dx may be x itself.
void tensor_gelu_forward(const float *x, float *y, float *logistic, size_t count);
void tensor_gelu_input_gradient(const float *x, float *logistic, const float *dy, float *dx, size_t count);

// Causal attention within each sequence; query head h reads key head h / (heads / kv_heads).
// qkv[rows, (heads + 2 * kv_heads) * width]: queries, keys, values side by side, as they are before `rope` turns them.
// out[rows, heads * width].
typedef struct tensor_attention {
    size_t sequences, tokens, heads, kv_heads, width;
    const tensor_rope *rope;   // of this width; NULL: none
    float *maximum, *inverse;  // [sequences * heads * tokens]: each softmax row's largest score and 1 / sum
    float *scratch;            // tensor_attention_scratch floats per thread of the pool, side by side
    float *kept;               // tensor_attention_kept floats: exponentials that forward leaves for the gradient; NULL: made
                               // again, with the same bits
} tensor_attention;

// Multiple of 16, so that each thread's part stays aligned.
size_t tensor_attention_scratch(const tensor_attention *a);
// 0 where sequences are so long that keeping would cost more than making again.
size_t tensor_attention_kept(const tensor_attention *a);
void tensor_attention_forward(tensor_pool *pool, const tensor_attention *a, const float *qkv, float *out);
// Replaces qkv by its gradient. `out` is forward's result.
void tensor_attention_input_gradient(tensor_pool *pool, const tensor_attention *a, float *qkv, const float *out,
                                     const float *d_out);
// The same of one sequence, on the calling thread.
void tensor_attention_forward_one(const tensor_attention *a, size_t sequence, const float *qkv, float *out);
void tensor_attention_input_gradient_one(const tensor_attention *a, size_t sequence, float *qkv, const float *out,
                                         const float *d_out);

// y[r] = table[tokens[r]] (+ positions[r mod sequence] unless NULL). Each token must be in the table.
typedef struct tensor_embedding {
    size_t rows, dim, sequence;
    const int32_t *tokens;
} tensor_embedding;

void tensor_embedding_forward(tensor_pool *pool, const tensor_embedding *e, const float *table, const float *positions,
                              float *y);
// Adds to d_table[last - first, dim], the rows first .. last - 1 of the table, on the calling thread, in order of rows.
void tensor_embedding_gradient(const tensor_embedding *e, const float *dy, size_t first, size_t last, float *d_table);
// d_positions[last - first, dim], on the calling thread.
void tensor_position_gradient(const tensor_embedding *e, const float *dy, size_t first, size_t last,
                              float *d_positions);

// Softmax cross-entropy of rows whose logits are made one tile of columns after another, so that all of a row's logits
// need never be held: logits[rows, cols] are the columns first .. first + cols - 1.
typedef struct tensor_loss_tile {
    size_t rows, first, cols;
    const int32_t *targets;  // [rows]; -1: not counted, no gradient
    float *logits;
    float *tops, *sums;  // [rows] the tile's largest logit and its sum of exponentials
} tensor_loss_tile;

// On the calling thread: logits become exp(logit - the row's largest here). Copies the logits of targets that lie in the
// tile to target_logits[rows] unless NULL.
void tensor_loss_exponentials(const tensor_loss_tile *t, float *target_logits);
// After exponentials, from the whole row's numbers: the gradient of the summed loss in their place.
void tensor_loss_gradient(const tensor_loss_tile *t, const float *maximum, const float *inverse);

// From tops[tiles, rows] and sums[tiles, rows]: each row's largest logit, 1 / sum of exponentials and loss in fp64 (0 when
// not counted).
typedef struct tensor_loss {
    size_t rows, tiles;
    const int32_t *targets;
    const float *tops, *sums, *target_logits;
    double *losses;
    float *maximum, *inverse;
} tensor_loss;

void tensor_loss_rows(tensor_pool *pool, const tensor_loss *l);

// On the calling thread: sum[i] += x[i]. They lie apart.
void tensor_add(float *sum, const float *x, size_t count);

// sum[i] = parts[i] + parts[count + i] + ..., of count elements each, in that order.
void tensor_sum_parts(tensor_pool *pool, const float *parts, size_t part_count, size_t count, float *sum);

// y = x + bias broadcast over rows, or the broadcast alone (x NULL): what a matrix product then adds to.
void tensor_seed_rows(const float *x, const float *bias, float *y, size_t rows, size_t dim);

#endif
