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

// y = residual + norm(before) W (+ bias), and what is made of y.
typedef struct forward_job {
    const stage *s;
    const layout_linear *l;
    const tensor_norm *norm;  // x = norm(normed); NULL: x is there
    const float *normed, *residual;
    float *x, *y;
    float *act;  // of y; NULL: none
} forward_job;

static const float *bias_of(const forward_job *job) {
    return job->l->has_bias ? job->s->parameters + job->l->bias : NULL;
}

static void forward_before(const void *context, size_t first, size_t count) {
    const forward_job *job = context;
    const float *bias = bias_of(job), *residual = job->residual ? job->residual + first * job->l->out : NULL;
    if (job->norm) tensor_norm_rows(job->norm, job->normed, job->x, first, count);
    if (residual || bias) tensor_seed_rows(residual, bias, job->y + first * job->l->out, count, job->l->out);
}

static void forward_after(const void *context, size_t first, size_t count) {
    const forward_job *job = context;
    size_t ffn = job->s->config.ffn_dim;
    const float *y = job->y + first * job->l->out;
    if (is_gpt(job->s))
        tensor_gelu_forward(y, job->act + first * ffn, count * ffn);
    else
        tensor_swiglu_forward(y, job->act + first * ffn, count, ffn);
}

static void linear_forward(const forward_job *job) {
    const stage *s = job->s;
    const layout_linear *l = job->l;
    tensor_gemm_mode mode = job->residual || l->has_bias ? GEMM_ADD : GEMM_SET;
    tensor_gemm g = {s->rows, l->out, l->in, tensor_plain(job->x, l->in), linear_weight(s, l, true),
                     job->y,  l->out, mode};
    tensor_gemm_rows rows = {.before = forward_before, .context = job, .packed = s->packed};
    if (job->act) rows.after = forward_after;
    tensor_gemm_run_rows(s->pool, &g, &rows);
}

// dx = dy W^T; the bias' gradient too, since it is a vector. `also`: NULL or what else is done to dx's rows.
static void linear_input_gradient(const stage *s, const layout_linear *l, const float *dy, float *dx, float *d_bias,
                                  const tensor_gemm_rows *also) {
    tensor_gemm g = {s->rows, l->in, l->out, tensor_plain(dy, l->out), linear_weight(s, l, false), dx, l->in, GEMM_SET};
    tensor_gemm_rows rows = also ? *also : (tensor_gemm_rows){0};
    rows.packed = s->packed;
    tensor_gemm_run_rows(s->pool, &g, &rows);
    if (l->has_bias) tensor_column_sums(s->pool, dy, s->rows, l->out, l->out, d_bias);
}

void block_forward(stage *s, uint32_t block, const block_memory *m, float *y) {
    const layout_block *b = &s->layout.block[block];
    tensor_norm norm1 = stage_norm(s, &b->norm1, m->mean1, m->inverse1),
                norm2 = stage_norm(s, &b->norm2, m->mean2, m->inverse2);
    tensor_attention attention = stage_attention(s, m);
    linear_forward(&(forward_job){s, &b->qkv, &norm1, m->x, NULL, m->normed1, m->qkv, NULL});
    tensor_attention_forward(s->pool, &attention, m->qkv, m->attention);
    linear_forward(&(forward_job){s, &b->o, NULL, NULL, m->x, m->attention, m->middle, NULL});
    linear_forward(&(forward_job){s, &b->up, &norm2, m->middle, NULL, m->normed2, m->up, m->act});
    linear_forward(&(forward_job){s, &b->down, NULL, NULL, m->middle, m->act, y, NULL});
}

typedef struct activation_job {
    const stage *s;
    float *up;
} activation_job;

// From the gradient of the activation in s->wide.
static void activation_gradient(const void *context, size_t first, size_t count) {
    const activation_job *job = context;
    size_t ffn = job->s->config.ffn_dim;
    float *up = job->up + first * job->s->up_dim;
    const float *dy = job->s->wide + first * ffn;
    if (is_gpt(job->s))
        tensor_gelu_input_gradient(up, dy, up, count * ffn);
    else
        tensor_swiglu_input_gradient(up, dy, up, count, ffn);
}

static void mlp_input_gradient(stage *s, const layout_block *b, const block_memory *m, const float *dy) {
    tensor_norm norm = stage_norm(s, &b->norm2, m->mean2, m->inverse2);
    activation_job job = {s, m->up};
    tensor_gemm_rows also = {.after = activation_gradient, .context = &job, .soon = m->up, .soon_floats = s->up_dim};
    linear_input_gradient(s, &b->down, dy, s->wide, m->d_down_bias, &also);
    linear_input_gradient(s, &b->up, m->up, s->narrow, m->d_up_bias, NULL);
    tensor_norm_weight_gradient(s->pool, &norm, m->middle, s->narrow, m->d_norm2, m->d_norm2_bias);
    tensor_norm_input_gradient(s->pool, &norm, m->middle, s->narrow, dy, m->middle);
}

static void attention_input_gradient(stage *s, const layout_block *b, const block_memory *m, float *dx) {
    tensor_norm norm = stage_norm(s, &b->norm1, m->mean1, m->inverse1);
    tensor_attention attention = stage_attention(s, m);
    linear_input_gradient(s, &b->o, m->middle, s->narrow, m->d_o_bias, NULL);
    tensor_attention_input_gradient(s->pool, &attention, m->qkv, m->attention, s->narrow);
    linear_input_gradient(s, &b->qkv, m->qkv, s->narrow, m->d_qkv_bias, NULL);
    tensor_norm_weight_gradient(s->pool, &norm, m->x, s->narrow, m->d_norm1, m->d_norm1_bias);
    tensor_norm_input_gradient(s->pool, &norm, m->x, s->narrow, m->middle, dx);
}

void block_input_gradient(stage *s, uint32_t block, const block_memory *m, const float *dy, float *dx) {
    const layout_block *b = &s->layout.block[block];
    mlp_input_gradient(s, b, m, dy);
    attention_input_gradient(s, b, m, dx);
    memcpy(m->x, dy, s->rows * s->config.dim * sizeof *dy);  // down's weight gradient needs it
}
