// The operations of a model between its matrix products: fp32, row-major; `rows` counts the rows of
// all sequences of a microbatch. Functions with a pool run on its threads, with the same bits for
// any number of threads. The others run on the calling thread, on some rows of a product at a time
// (gemm.h). Each has a reference implementation in reference.h. Gradients: "gradient" functions
// overwrite; those that say "adds" accumulate.
#ifndef BRAID_TENSOR_KERNELS_H
#define BRAID_TENSOR_KERNELS_H

#include "tensor/pool.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Normalisation of each row of x[rows, dim]. RMS (Zhang & Sennrich 2019) when `bias` is NULL in a
// norm made with `centred` false: y = x / sqrt(mean(x^2) + eps) * weight. Centred (layer norm, Ba
// et al. 2016): y = (x - mean) / sqrt(variance + eps) * weight + bias.
typedef struct tensor_norm {
    bool centred;
    size_t rows, dim;
    float eps;
    const float *weight, *bias;  // [dim]; bias for centred only
    float *mean, *inverse;       // [rows]: forward keeps them for the gradients; mean for centred only
} tensor_norm;

void tensor_norm_forward(tensor_pool *pool, const tensor_norm *n, const float *x, float *y);
// The same for rows [first, first + count).
void tensor_norm_rows(const tensor_norm *n, const float *x, float *y, size_t first, size_t count);
// On the calling thread, for rows [first, first + count): dx = gradient of the norm for dy, plus
// residual unless NULL; dx may be x, dy or residual itself. d_weight[dim] and d_bias[dim] (centred
// only, else NULL) get the sums over these rows.
typedef struct tensor_norm_gradient {
    const tensor_norm *norm;
    const float *x, *dy, *residual;
    float *dx, *d_weight, *d_bias;
} tensor_norm_gradient;

void tensor_norm_gradient_rows(const tensor_norm_gradient *g, size_t first, size_t count);

// sums[cols] = x[rows, cols] summed over rows: the gradient of a bias.
void tensor_column_sums(tensor_pool *pool, const float *x, size_t rows, size_t cols, size_t stride, float *sums);

// Rotary positions (Su et al. 2021) in Hugging Face's convention: elements i and i + width / 2 of a
// head form the rotated pair. tables[tokens, width / 2] from tensor_rope_tables (model/rope.h for
// scaled ones).
typedef struct tensor_rope {
    size_t width;
    const float *cosines, *sines;
} tensor_rope;

void tensor_rope_tables(size_t tokens, size_t width, float theta, float *cosines, float *sines);
// theta^(-2 pair / width), the angle in radians by which a pair turns from one token to the next.
double tensor_rope_rate(size_t pair, size_t width, float theta);
// The column of one pair in tables[tokens, half], for another rate; the values are multiplied by
// `scale`.
void tensor_rope_table(size_t tokens, size_t half, size_t pair, double rate, double scale, float *cosines, float *sines);
// On the calling thread: to[rows, width] = from[rows, width] of one head, rotated to positions
// first .. first + rows - 1. `inverse` rotates back, which is the gradient. The arrays do not
// overlap.
void tensor_rope_rows(const tensor_rope *r, size_t first, size_t rows, bool inverse, const float *from,
                      size_t from_stride, float *to, size_t to_stride);

// SwiGLU: y[rows, dim] = silu(x[:, :dim]) * x[:, dim:], x[rows, 2 * dim]. `logistic`[rows, dim],
// unless NULL, gets the logistic function of x[:, :dim], which saves the gradient from recomputing
// it; the gradient replaces it by y.
void tensor_swiglu_forward(const float *x, float *y, float *logistic, size_t rows, size_t dim);
// dx[rows, 2 * dim] may be x itself.
void tensor_swiglu_input_gradient(const float *x, float *logistic, const float *dy, float *dx, size_t rows, size_t dim);
// GELU in GPT-2's tanh form (gelu_new) on count elements, with the same conventions. dx may be x
// itself.
void tensor_gelu_forward(const float *x, float *y, float *logistic, size_t count);
void tensor_gelu_input_gradient(const float *x, float *logistic, const float *dy, float *dx, size_t count);

// GeGLU: y[rows, dim] = gelu(x[:, :dim]) * x[:, dim:], with the GELU and the conventions above.
void tensor_geglu_forward(const float *x, float *y, float *logistic, size_t rows, size_t dim);
void tensor_geglu_input_gradient(const float *x, float *logistic, const float *dy, float *dx, size_t rows, size_t dim);

// x = cap * tanh(scale * x / cap) for count elements; slope[count], unless NULL, gets the derivative.
void tensor_softcap(float *x, float *slope, size_t count, float scale, float cap);

// RMS norm of each head's queries or keys before the rotation: y = x / sqrt(mean(x^2) + eps) *
// weight[width].
typedef struct tensor_head_norm {
    const float *weight;  // NULL: none
    // [sequences * heads, width] of queries, [sequences * kv_heads, width] of keys: the gradient's
    // parts, one per sequence and head
    float *d_weight;
} tensor_head_norm;

// On the calling thread: to[rows, width] = the norm of from[rows, width].
void tensor_head_norm_rows(const float *weight, float eps, size_t width, size_t rows, const float *from,
                           size_t from_stride, float *to, size_t to_stride);

// Causal attention within each sequence; query head h reads key head h / (heads / kv_heads).
// qkv[rows, (heads + 2 * kv_heads) * width]: queries, keys, values side by side, before the norms
// and the rotation by `rope`. out[rows, heads * width].
typedef struct tensor_attention {
    size_t sequences, tokens, heads, kv_heads, width;
    const tensor_rope *rope;   // of the same width; NULL: none
    // [sequences * heads * tokens]: the largest score and 1 / sum of each softmax row
    float *maximum, *inverse;
    float *scratch;            // tensor_attention_scratch floats per thread of the pool, side by side
    float *kept;  // tensor_attention_kept floats: exponentials that forward keeps for the gradient;
                               // NULL: recomputed with the same bits
    float scale;               // of scores; 0: 1 / sqrt(width)
    float softcap;             // scores become softcap * tanh(score / softcap); 0: none
    size_t window;             // keys that a query sees, its own included; 0: all before it
    // [sequences * tokens] for each query the first key of its sequence that it sees, at most itself
    // and not falling; NULL: 0
    const uint32_t *first;
    tensor_head_norm q_norm, k_norm;
    float eps;                 // of the norms
} tensor_attention;

// A multiple of 16, so that each thread's part stays aligned.
size_t tensor_attention_scratch(const tensor_attention *a);
// 0 for long sequences, where keeping costs more than recomputing, and with a softcap.
size_t tensor_attention_kept(const tensor_attention *a);
void tensor_attention_forward(tensor_pool *pool, const tensor_attention *a, const float *qkv, float *out);
// Replaces qkv by its gradient. `out` is the result of forward.
void tensor_attention_input_gradient(tensor_pool *pool, const tensor_attention *a, float *qkv, const float *out,
                                     const float *d_out);
// The same for one sequence, on the calling thread.
void tensor_attention_forward_one(const tensor_attention *a, size_t sequence, const float *qkv, float *out);
void tensor_attention_input_gradient_one(const tensor_attention *a, size_t sequence, float *qkv, const float *out,
                                         const float *d_out);

// y[rows, dim]: y[r] = table[tokens[r]] (+ positions[r mod sequence] unless NULL). Each token must
// be in the table. With `scale` the table's values are multiplied by it; 0: not.
typedef struct tensor_embedding {
    size_t rows, dim, sequence;
    const int32_t *tokens;
    float scale;
} tensor_embedding;

void tensor_embedding_forward(tensor_pool *pool, const tensor_embedding *e, const float *table, const float *positions,
                              float *y);
// Adds to d_table[last - first, dim], the rows first .. last - 1 of the table, on the calling
// thread, in order of rows.
void tensor_embedding_gradient(const tensor_embedding *e, const float *dy, size_t first, size_t last, float *d_table);
// d_positions[last - first, dim] = the gradients of positions first .. last - 1, on the calling
// thread.
void tensor_position_gradient(const tensor_embedding *e, const float *dy, size_t first, size_t last,
                              float *d_positions);

// Softmax cross-entropy with logits that are computed in tiles of columns, so that a row's logits
// need not be in memory at once: logits[rows, cols] are the columns first .. first + cols - 1.
typedef struct tensor_loss_tile {
    size_t rows, first, cols;
    const int32_t *targets;  // [rows]; -1: ignored, no gradient
    float *logits;
    float *tops, *sums;  // [rows]: the tile's largest logit and its sum of exponentials
} tensor_loss_tile;

// On the calling thread: logits become exp(logit - the row's largest in this tile). Copies the
// logits of targets in this tile to target_logits[rows] unless NULL.
void tensor_loss_exponentials(const tensor_loss_tile *t, float *target_logits);
// Call it after the exponentials, with the statistics of whole rows: logits become the gradient of
// the summed loss.
void tensor_loss_gradient(const tensor_loss_tile *t, const float *maximum, const float *inverse);

// From tops[tiles, rows] and sums[tiles, rows]: each row's largest logit, 1 / sum of exponentials,
// and loss in fp64 (0 for ignored rows).
typedef struct tensor_loss {
    size_t rows, tiles;
    const int32_t *targets;
    const float *tops, *sums, *target_logits;
    double *losses;
    float *maximum, *inverse;
} tensor_loss;

void tensor_loss_rows(tensor_pool *pool, const tensor_loss *l);

// Mixture of experts: each row uses `used` of its experts. Their probabilities are the softmax of
// the row's logits[experts]; `normalised` divides those of the used ones by their sum.
typedef struct tensor_router {
    size_t experts, used;
    bool normalised;
} tensor_router;

// On the calling thread, for `rows` rows: chosen[rows, used] = the experts with the largest logits, in
// ascending order of their numbers (equal logits: the lower number; a NaN is the largest), and their
// weights[rows, used]. logits become probabilities.
void tensor_route_rows(const tensor_router *r, size_t rows, float *logits, uint32_t *chosen, float *weights);
// probabilities[rows, experts] become the gradient of the logits, from that of the weights.
void tensor_route_gradient_rows(const tensor_router *r, size_t rows, float *probabilities, const uint32_t *chosen,
                                const float *weights, const float *d_weights);

// On the calling thread: sum[count] += factor * x[count], and the sum of x[i] * y[i].
void tensor_add_scaled(float *sum, const float *x, float factor, size_t count);
float tensor_dot(const float *x, const float *y, size_t count);
// to[count] = factor * x[count]; to may be x.
void tensor_scale(const float *x, float factor, float *to, size_t count);

// On the calling thread: sum[count] += x[count]. The arrays do not overlap.
void tensor_add(float *sum, const float *x, size_t count);

// sum[count] = parts[0] + parts[1] + ... of parts[part_count, count], in that order.
void tensor_sum_parts(tensor_pool *pool, const float *parts, size_t part_count, size_t count, float *sum);

// y[rows, dim] = x[rows, dim] + bias[dim], or the bias alone (x NULL): the addend of a matrix
// product.
void tensor_seed_rows(const float *x, const float *bias, float *y, size_t rows, size_t dim);

#endif
