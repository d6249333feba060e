// One transformer block: x + o(attention(norm(x))), then h + down(act(up(norm(h)))). LLaMA and GPT
// differ in norm, positions, activation and biases.
#include "model/stage_inner.h"

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
                              .kept = m ? m->softmax_kept : NULL,
                              .scratch = s->attention_scratch};
}

// The weight as the matrix [in, out] of the forward product, or its transpose.
static tensor_matrix linear_weight(const stage *s, const layout_linear *l, bool as_in_out) {
    const float *weight = s->parameters + l->weight;
    size_t stride = l->conv1d ? l->out : l->in;
    return as_in_out == l->conv1d ? tensor_plain(weight, stride) : tensor_transposed(weight, stride);
}

// y[rows, out] = residual[rows, out] + norm(before) W (+ bias), and the activation of y.
typedef struct forward_job {
    const stage *s;
    const layout_linear *l;
    const tensor_norm *norm;  // x[rows, in] = norm(normed); NULL: x is already computed
    const float *normed, *residual;
    float *x, *y;
    float *act, *logistic;  // [rows, ffn] activation of y; NULL: none
} forward_job;

static const float *bias_of(const forward_job *job) {
    return job->l->has_bias ? job->s->parameters + job->l->bias : NULL;
}

static void forward_before(const void *context, size_t first, size_t count) {
    const forward_job *job = context;
    const float *bias = bias_of(job), *residual = job->residual ? job->residual + first * job->l->out : NULL;
    if (job->norm) tensor_norm_rows(job->norm, job->normed, job->x, first, count);
    if (bias) tensor_seed_rows(residual, bias, job->y + first * job->l->out, count, job->l->out);
}

static void forward_after(const void *context, size_t first, size_t count) {
    const forward_job *job = context;
    size_t ffn = job->s->config.ffn_dim;
    const float *y = job->y + first * job->l->out;
    float *act = job->act + first * ffn, *logistic = job->logistic + first * ffn;
    if (is_gpt(job->s))
        tensor_gelu_forward(y, act, logistic, count * ffn);
    else
        tensor_swiglu_forward(y, act, logistic, count, ffn);
}

static block_step *add_forward(block_chain *c, const forward_job *job) {
    const stage *s = job->s;
    const layout_linear *l = job->l;
    block_step *step = chain_add(c, STEP_PRODUCT);
    step->product = (tensor_gemm){.m = s->rows,
                                  .n = l->out,
                                  .k = l->in,
                                  .a = tensor_plain(job->x, l->in),
                                  .b = linear_weight(s, l, true),
                                  .c = job->y,
                                  .c_stride = l->out,
                                  .mode = job->residual || l->has_bias ? GEMM_ADD : GEMM_SET,
                                  .more = l->has_bias ? NULL : job->residual,
                                  .fastest = s->shape.fastest};
    step->rows = (tensor_gemm_rows){.context = job};
    if (job->norm || l->has_bias) step->rows.before = forward_before;
    if (job->act) step->rows.after = forward_after;
    return step;
}

// dx[rows, in] = dy[rows, out] W^T.
static block_step *add_input_gradient(block_chain *c, const layout_linear *l, const float *dy, float *dx) {
    block_step *step = chain_add(c, STEP_PRODUCT);
    step->product = (tensor_gemm){.m = c->s->rows,
                                  .n = l->in,
                                  .k = l->out,
                                  .a = tensor_plain(dy, l->out),
                                  .b = linear_weight(c->s, l, false),
                                  .c = dx,
                                  .c_stride = l->in,
                                  .fastest = c->s->shape.fastest};
    return step;
}

// The arrays that the steps after a product use first; the product prefetches them.
static void prefetch_after(block_step *step, int which, const float *at, size_t floats) {
    step->rows.prefetch[which].at = at;
    step->rows.prefetch[which].floats = floats;
}

void block_forward(stage *s, uint32_t block, const block_memory *m, float *y) {
    const layout_block *b = &s->layout.block[block];
    tensor_norm norm1 = stage_norm(s, &b->norm1, m->mean1, m->inverse1),
                norm2 = stage_norm(s, &b->norm2, m->mean2, m->inverse2);
    forward_job qkv = {s, &b->qkv, &norm1, m->x, NULL, m->normed1, m->qkv, NULL, NULL},
                o = {s, &b->o, NULL, NULL, m->x, m->attention, m->middle, NULL, NULL},
                up = {s, &b->up, &norm2, m->middle, NULL, m->normed2, m->up, s->wide, m->act},
                down = {s, &b->down, NULL, NULL, m->middle, s->wide, y, NULL, NULL};
    block_chain c = {.s = s};
    prefetch_after(add_forward(&c, &qkv), 0, m->attention, s->config.dim);
    block_step *attention = chain_add(&c, STEP_ATTENTION);
    attention->attention = stage_attention(s, m);
    attention->qkv = m->qkv;
    attention->out = m->attention;
    prefetch_after(add_forward(&c, &o), 0, m->normed2, s->config.dim);
    prefetch_after(add_forward(&c, &up), 0, m->act, s->config.ffn_dim);
    add_forward(&c, &down);
    chain_run(&c);
}

typedef struct activation_job {
    const stage *s;
    float *up, *act;
} activation_job;

// From the activation's gradient in s->wide. Also recomputes the activation for the weight
// gradient.
static void activation_gradient(const void *context, size_t first, size_t count) {
    const activation_job *job = context;
    size_t ffn = job->s->config.ffn_dim;
    float *up = job->up + first * job->s->up_dim, *act = job->act + first * ffn;
    const float *dy = job->s->wide + first * ffn;
    if (is_gpt(job->s))
        tensor_gelu_input_gradient(up, act, dy, up, count * ffn);
    else
        tensor_swiglu_input_gradient(up, act, dy, up, count, ffn);
}

// The gradient of a bias: dy[rows, out] summed over all rows.
static void bias_gradient(stage *s, const layout_linear *l, const float *dy, float *d_bias) {
    if (l->has_bias) tensor_column_sums(s->pool, dy, s->rows, l->out, l->out, d_bias);
}

void chain_add_norm_gradient(block_chain *c, const tensor_norm *norm, int which, const float *x, const float *residual,
                             float *dx) {
    stage *s = c->s;
    block_step *step = chain_add(c, STEP_NORM_GRADIENT);
    step->norm = *norm;
    step->gradient = (tensor_norm_gradient){.x = x, .dy = s->narrow, .residual = residual};
    step->gradient.dx = dx;
    step->gradient.d_weight = s->norm_parts[which][0];
    step->gradient.d_bias = s->norm_parts[which][1];
}

void norm_weight_gradient(stage *s, int which, float *d_weight, float *d_bias) {
    tensor_sum_parts(s->pool, s->norm_parts[which][0], s->norm_pieces, s->config.dim, d_weight);
    if (d_bias) tensor_sum_parts(s->pool, s->norm_parts[which][1], s->norm_pieces, s->config.dim, d_bias);
}

void block_input_gradient(stage *s, uint32_t block, const block_memory *m, const float *dy, float *dx) {
    const layout_block *b = &s->layout.block[block];
    tensor_norm norm1 = stage_norm(s, &b->norm1, m->mean1, m->inverse1),
                norm2 = stage_norm(s, &b->norm2, m->mean2, m->inverse2);
    activation_job job = {s, m->up, m->act};
    size_t dim = s->config.dim;
    block_chain c = {.s = s};
    block_step *down = add_input_gradient(&c, &b->down, dy, s->wide);
    down->rows.after = activation_gradient;
    down->rows.context = &job;
    prefetch_after(down, 0, m->up, s->up_dim);
    prefetch_after(down, 1, m->act, s->config.ffn_dim);
    prefetch_after(add_input_gradient(&c, &b->up, m->up, s->narrow), 0, m->middle, dim);
    chain_add_norm_gradient(&c, &norm2, 1, m->middle, dy, m->middle);
    block_step *o = add_input_gradient(&c, &b->o, m->middle, s->narrow);
    prefetch_after(o, 0, m->qkv, s->qkv_dim);
    prefetch_after(o, 1, m->attention, dim);
    block_step *attention = chain_add(&c, STEP_ATTENTION_GRADIENT);
    attention->attention = stage_attention(s, m);
    attention->qkv = m->qkv;
    attention->out = m->attention;
    attention->d_out = s->narrow;
    prefetch_after(add_input_gradient(&c, &b->qkv, m->qkv, s->narrow), 0, m->x, dim);
    chain_add_norm_gradient(&c, &norm1, 0, m->x, m->middle, dx);
    chain_run(&c);
    bias_gradient(s, &b->down, dy, m->d_down_bias);
    bias_gradient(s, &b->up, m->up, m->d_up_bias);
    bias_gradient(s, &b->o, m->middle, m->d_o_bias);
    bias_gradient(s, &b->qkv, m->qkv, m->d_qkv_bias);
    norm_weight_gradient(s, 0, m->d_norm1, m->d_norm1_bias);
    norm_weight_gradient(s, 1, m->d_norm2, m->d_norm2_bias);
    memcpy(m->x, dy, s->rows * dim * sizeof *dy);  // the weight gradient of down needs it
}
