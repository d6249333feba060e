// One transformer block: x + o(attention(norm(x))), then h + down(act(up(norm(h)))). LLaMA and GPT differ in norm,
// positions, activation and biases.
#include "base/err.h"
#include "model/stage_inner.h"
#include "tensor/gemm.h"

#include <string.h>

static bool is_gpt(const stage *s) { return s->config.arch == MODEL_GPT; }

tensor_norm stage_norm(const stage *s, const layout_norm *at, float *mean, float *inverse) {
    const float *p = s->parameters;
    return (tensor_norm){.centred = is_gpt(s),
                         .rows = s->rows,
                         .dim = s->config.dim,
                         .eps = s->config.norm_eps,
                         .weight = p + at->weight,
                         .bias = is_gpt(s) ? p + at->bias : NULL,
                         .mean = mean,
                         .inverse = inverse};
}

tensor_attention stage_attention(const stage *s, const block_memory *m) {
    const model_config *c = &s->config;
    return (tensor_attention){.sequences = s->shape.sequences,
                              .tokens = s->shape.tokens,
                              .heads = c->heads,
                              .kv_heads = c->kv_heads,
                              .width = c->dim / c->heads,
                              .rope = c->arch == MODEL_LLAMA ? &s->rope : NULL,
                              .maximum = m ? m->softmax_maximum : NULL,
                              .inverse = m ? m->softmax_inverse : NULL,
                              .scratch = s->attention_scratch};
}

// The weight read as [in, out], which forward multiplies by, or as its transpose.
static tensor_matrix linear_weight(const stage *s, const layout_linear *l, bool as_in_out) {
    const float *weight = s->parameters + l->weight;
    size_t stride = l->conv1d ? l->out : l->in;
    return as_in_out == l->conv1d ? tensor_plain(weight, stride) : tensor_transposed(weight, stride);
}

// y = residual + x W (+ bias); residual NULL: none.
static void linear_forward(stage *s, const layout_linear *l, const float *x, const float *residual, float *y) {
    const float *bias = l->has_bias ? s->parameters + l->bias : NULL;
    tensor_gemm_mode mode = residual || bias ? GEMM_ADD : GEMM_SET;
    if (mode == GEMM_ADD) tensor_seed_rows(s->pool, residual, bias, y, s->rows, l->out);
    tensor_gemm_run(s->pool, &(tensor_gemm){s->rows, l->out, l->in, tensor_plain(x, l->in), linear_weight(s, l, true),
                                            y, l->out, mode});
}

// dx = dy W^T; the bias' gradient too, since it is a vector.
static void linear_input_gradient(stage *s, const layout_linear *l, const float *dy, float *dx, float *d_bias) {
    tensor_gemm_run(s->pool, &(tensor_gemm){s->rows, l->in, l->out, tensor_plain(dy, l->out),
                                            linear_weight(s, l, false), dx, l->in, GEMM_SET});
    if (l->has_bias) tensor_column_sums(s->pool, dy, s->rows, l->out, l->out, d_bias);
}

void block_forward(stage *s, uint32_t block, const block_memory *m, float *y) {
    const layout_block *b = &s->layout.block[block];
    tensor_norm norm1 = stage_norm(s, &b->norm1, m->mean1, m->inverse1),
                norm2 = stage_norm(s, &b->norm2, m->mean2, m->inverse2);
    tensor_attention attention = stage_attention(s, m);

    tensor_norm_forward(s->pool, &norm1, m->x, m->normed1);
    linear_forward(s, &b->qkv, m->normed1, NULL, m->qkv);
    tensor_attention_forward(s->pool, &attention, m->qkv, m->attention);
    linear_forward(s, &b->o, m->attention, m->x, m->middle);

    tensor_norm_forward(s->pool, &norm2, m->middle, m->normed2);
    linear_forward(s, &b->up, m->normed2, NULL, m->up);
    if (is_gpt(s))
        tensor_gelu_forward(s->pool, m->up, m->act, s->rows * s->config.ffn_dim);
    else
        tensor_swiglu_forward(s->pool, m->up, m->act, s->rows, s->config.ffn_dim);
    linear_forward(s, &b->down, m->act, m->middle, y);
}

static void mlp_input_gradient(stage *s, const layout_block *b, const block_memory *m, const float *dy) {
    tensor_norm norm = stage_norm(s, &b->norm2, m->mean2, m->inverse2);
    linear_input_gradient(s, &b->down, dy, s->wide, m->d_down_bias);
    if (is_gpt(s))
        tensor_gelu_input_gradient(s->pool, m->up, s->wide, m->up, s->rows * s->config.ffn_dim);
    else
        tensor_swiglu_input_gradient(s->pool, m->up, s->wide, m->up, s->rows, s->config.ffn_dim);
    linear_input_gradient(s, &b->up, m->up, s->narrow, m->d_up_bias);
    tensor_norm_weight_gradient(s->pool, &norm, m->middle, s->narrow, m->d_norm2, m->d_norm2_bias);
    tensor_norm_input_gradient(s->pool, &norm, m->middle, s->narrow, dy, m->middle);
}

static void attention_input_gradient(stage *s, const layout_block *b, const block_memory *m, float *dx) {
    tensor_norm norm = stage_norm(s, &b->norm1, m->mean1, m->inverse1);
    tensor_attention attention = stage_attention(s, m);
    linear_input_gradient(s, &b->o, m->middle, s->narrow, m->d_o_bias);
    tensor_attention_input_gradient(s->pool, &attention, m->qkv, m->attention, s->narrow);
    linear_input_gradient(s, &b->qkv, m->qkv, s->narrow, m->d_qkv_bias);
    tensor_norm_weight_gradient(s->pool, &norm, m->x, s->narrow, m->d_norm1, m->d_norm1_bias);
    tensor_norm_input_gradient(s->pool, &norm, m->x, s->narrow, m->middle, dx);
}

void block_input_gradient(stage *s, uint32_t block, const block_memory *m, const float *dy, float *dx) {
    const layout_block *b = &s->layout.block[block];
    mlp_input_gradient(s, b, m, dy);
    attention_input_gradient(s, b, m, dx);
    memcpy(m->x, dy, s->rows * s->config.dim * sizeof *dy);  // down's weight gradient needs it
}
