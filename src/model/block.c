// One transformer block: x + o(attention(norm(x))), then h + down(act(up(norm(h)))). The row of the
// architecture and the config select norms, positions, activation and biases; post norms stand
// between o or down and the addition.
#include "model/rope.h"
#include "model/stage_inner.h"

#include <string.h>

const float *stage_norm_weights(const stage *s, const layout_norm *at, norm_slot slot, size_t width) {
    const float *weights = s->parameters + at->weight;
    float *to = s->norms.weights[slot];
    if (!to) return weights;
    for (size_t i = 0; i < width; i++) to[i] = 1.0f + weights[i];
    return to;
}

tensor_norm stage_norm(const stage *s, const layout_norm *at, norm_slot slot, float *mean, float *inverse) {
    bool centred = s->row->layer_norm;
    return (tensor_norm){.centred = centred,
                         .rows = s->rows,
                         .dim = s->config.dim,
                         .eps = s->config.norm_eps,
                         .weight = stage_norm_weights(s, at, slot, s->config.dim),
                         .bias = centred ? s->parameters + at->bias : NULL,
                         .mean = mean,
                         .inverse = inverse};
}

static const tensor_rope *rope_of(const stage *s, uint32_t layer) {
    if (!model_layer_rotated(&s->config, layer)) return NULL;
    return &s->rotation[model_rope_is_local(&s->config, layer)].rope;
}

tensor_attention stage_attention(const stage *s, uint32_t block, const block_memory *m) {
    const model_config *c = &s->config;
    uint32_t layer = s->shape.layer_begin + block;
    tensor_attention a = {.sequences = s->shape.sequences,
                          .tokens = s->shape.tokens,
                          .heads = c->heads,
                          .kv_heads = c->kv_heads,
                          .width = model_head_dim(c),
                          .scratch = s->attention_scratch,
                          .scale = c->attention_scale,
                          .softcap = c->attention_softcap,
                          .eps = c->norm_eps};
    bool norms = model_has(c, ROLE_Q_NORM);
    static const float none = 0;
    if (norms) a.q_norm.weight = a.k_norm.weight = &none;
    if (!m) return a;
    const layout_block *b = &s->layout.block[block];
    a.rope = rope_of(s, layer);
    a.first = s->documents;
    a.window = model_layer_windowed(c, layer) ? c->window : 0;
    a.maximum = m->softmax_maximum;
    a.inverse = m->softmax_inverse;
    a.kept = m->softmax_kept;
    if (norms) {
        a.q_norm = (tensor_head_norm){stage_norm_weights(s, &b->q_norm, NORM_Q, a.width), s->norms.head_parts[0]};
        a.k_norm = (tensor_head_norm){stage_norm_weights(s, &b->k_norm, NORM_K, a.width), s->norms.head_parts[1]};
    }
    return a;
}

tensor_matrix stage_weight(const stage *s, const layout_linear *l, bool as_in_out) {
    const float *weight = s->parameters + l->weight;
    size_t stride = l->conv1d ? l->out : l->in;
    return as_in_out == l->conv1d ? tensor_plain(weight, stride) : tensor_transposed(weight, stride);
}

// y[rows, out] = residual[rows, out] + norm(before) W (+ bias), and the activation of y; or
// added[rows, out] = residual + post(norm(before) W (+ bias)).
typedef struct forward_job {
    const stage *s;
    const layout_linear *l;
    const tensor_norm *norm;  // x[rows, in] = norm(normed); NULL: x is already computed
    const float *normed, *residual;
    float *x, *y;
    float *act, *logistic;    // [rows, ffn] activation of y; NULL: none
    const tensor_norm *post;  // NULL: none
    float *added;
} forward_job;

// True if the product itself adds the residual.
static bool adds(const forward_job *job) { return job->residual && !job->post; }

static const float *bias_of(const forward_job *job) {
    return job->l->has_bias ? job->s->parameters + job->l->bias : NULL;
}

static void forward_before(const void *context, size_t first, size_t count) {
    const forward_job *job = context;
    const float *bias = bias_of(job), *residual = adds(job) ? job->residual + first * job->l->out : NULL;
    if (job->norm) tensor_norm_rows(job->norm, job->normed, job->x, first, count);
    if (bias) tensor_seed_rows(residual, bias, job->y + first * job->l->out, count, job->l->out);
}

void stage_activate(const stage *s, const float *up, float *act, float *logistic, size_t rows) {
    if (!s->row->gated)
        tensor_gelu_forward(up, act, logistic, rows * s->act_dim);
    else if (s->row->activation == MODEL_SILU)
        tensor_swiglu_forward(up, act, logistic, rows, s->act_dim);
    else
        tensor_geglu_forward(up, act, logistic, rows, s->act_dim);
}

void stage_activation_gradient(const stage *s, float *up, float *act, const float *dy, size_t rows) {
    if (!s->row->gated)
        tensor_gelu_input_gradient(up, act, dy, up, rows * s->act_dim);
    else if (s->row->activation == MODEL_SILU)
        tensor_swiglu_input_gradient(up, act, dy, up, rows, s->act_dim);
    else
        tensor_geglu_input_gradient(up, act, dy, up, rows, s->act_dim);
}

static void activate(const void *context, size_t first, size_t count) {
    const forward_job *job = context;
    size_t at = first * job->s->act_dim;
    stage_activate(job->s, job->y + first * job->l->out, job->act + at, job->logistic + at, count);
}

static void add_normed(const void *context, size_t first, size_t count) {
    const forward_job *job = context;
    size_t dim = job->l->out;
    tensor_norm_rows(job->post, job->y, job->added, first, count);
    tensor_add(job->added + first * dim, job->residual + first * dim, count * dim);
}

static block_step *add_forward(block_chain *c, const forward_job *job) {
    const stage *s = job->s;
    const layout_linear *l = job->l;
    block_step *step = chain_add(c, STEP_PRODUCT);
    step->product = (tensor_gemm){.m = s->rows,
                                  .n = l->out,
                                  .k = l->in,
                                  .a = tensor_plain(job->x, l->in),
                                  .b = stage_weight(s, l, true),
                                  .c = job->y,
                                  .c_stride = l->out,
                                  .mode = adds(job) || l->has_bias ? GEMM_ADD : GEMM_SET,
                                  .more = l->has_bias ? NULL : job->residual,
                                  .fastest = s->shape.fastest};
    step->rows = (tensor_gemm_rows){.context = job};
    if (job->norm || l->has_bias) step->rows.before = forward_before;
    if (job->act) step->rows.after = activate;
    if (job->post) step->rows.after = add_normed;
    return step;
}

// dx[rows, in] = dy[rows, out] W^T.
static block_step *add_input_gradient(block_chain *c, const layout_linear *l, const float *dy, float *dx) {
    block_step *step = chain_add(c, STEP_PRODUCT);
    step->product = (tensor_gemm){.m = c->s->rows,
                                  .n = l->in,
                                  .k = l->out,
                                  .a = tensor_plain(dy, l->out),
                                  .b = stage_weight(c->s, l, false),
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

static void add_attention(block_chain *c, uint32_t block, const block_memory *m, step_kind kind) {
    block_step *step = chain_add(c, kind);
    step->attention = stage_attention(c->s, block, m);
    step->qkv = m->qkv;
    step->out = m->attention;
    step->d_out = c->s->d_attention;
}

void block_forward(stage *s, uint32_t block, const block_memory *m, float *y) {
    const layout_block *b = &s->layout.block[block];
    tensor_norm norm1 = stage_norm(s, &b->norm1, NORM_1, m->mean1, m->inverse1),
                norm2 = stage_norm(s, &b->norm2, NORM_2, m->mean2, m->inverse2), post1, post2;
    forward_job qkv = {.s = s, .l = &b->qkv, .norm = &norm1, .normed = m->x, .x = m->normed1, .y = m->qkv},
                o = {.s = s, .l = &b->o, .residual = m->x, .x = m->attention, .y = m->middle},
                up = {.s = s,
                      .l = &b->up,
                      .norm = &norm2,
                      .normed = m->middle,
                      .x = m->normed2,
                      .y = m->up,
                      .act = s->wide,
                      .logistic = m->act},
                down = {.s = s, .l = &b->down, .residual = m->middle, .x = s->wide, .y = y};
    if (s->post_norms) {
        post1 = stage_norm(s, &b->post1, NORM_POST1, NULL, m->post_inverse1);
        post2 = stage_norm(s, &b->post2, NORM_POST2, NULL, m->post_inverse2);
        o.post = &post1, o.added = m->middle, o.y = m->post1;
        down.post = &post2, down.added = y, down.y = m->post2;
    }
    block_chain c = {.s = s};
    prefetch_after(add_forward(&c, &qkv), 0, m->attention, s->q_dim);
    add_attention(&c, block, m, STEP_ATTENTION);
    prefetch_after(add_forward(&c, &o), 0, m->normed2, s->config.dim);
    if (!s->row->mixture) {
        prefetch_after(add_forward(&c, &up), 0, m->act, s->act_dim);
        add_forward(&c, &down);
    }
    chain_run(&c);
    if (s->row->mixture) mixture_forward(s, block, m, y);
}

typedef struct activation_job {
    const stage *s;
    float *up, *act;
} activation_job;

// From the activation's gradient in s->wide.
static void activation_gradient(const void *context, size_t first, size_t count) {
    const activation_job *job = context;
    const stage *s = job->s;
    size_t at = first * s->act_dim;
    stage_activation_gradient(s, job->up + first * s->up_dim, job->act + at, s->wide + at, count);
}

// The gradient of a bias: dy[rows, out] summed over all rows.
static void bias_gradient(stage *s, const layout_linear *l, const float *dy, float *d_bias) {
    if (l->has_bias) tensor_column_sums(s->pool, dy, s->rows, l->out, l->out, d_bias);
}

void chain_add_norm_gradient(block_chain *c, const tensor_norm *norm, norm_slot which, const float *x, const float *dy,
                             const float *residual, float *dx) {
    stage *s = c->s;
    block_step *step = chain_add(c, STEP_NORM_GRADIENT);
    step->norm = *norm;
    step->gradient = (tensor_norm_gradient){.x = x, .dy = dy, .residual = residual};
    step->gradient.dx = dx;
    step->gradient.d_weight = s->norms.parts[which][0];
    step->gradient.d_bias = s->norms.parts[which][1];
}

void norm_weight_gradient(stage *s, norm_slot which, float *d_weight, float *d_bias) {
    tensor_sum_parts(s->pool, s->norms.parts[which][0], s->norms.pieces, s->config.dim, d_weight);
    if (d_bias) tensor_sum_parts(s->pool, s->norms.parts[which][1], s->norms.pieces, s->config.dim, d_bias);
}

// The gradients of a block's vectors; dy is that of down's output, d_o of o's.
static void vector_gradients(stage *s, uint32_t block, const block_memory *m, const float *dy, const float *d_o) {
    const layout_block *b = &s->layout.block[block];
    size_t width = model_head_dim(&s->config), sequences = s->shape.sequences;
    bias_gradient(s, &b->down, dy, m->d_down_bias);
    bias_gradient(s, &b->up, m->up, m->d_up_bias);
    bias_gradient(s, &b->o, d_o, m->d_o_bias);
    bias_gradient(s, &b->qkv, m->qkv, m->d_qkv_bias);
    norm_weight_gradient(s, NORM_1, m->d_norm1, m->d_norm1_bias);
    norm_weight_gradient(s, NORM_2, m->d_norm2, m->d_norm2_bias);
    if (s->post_norms) norm_weight_gradient(s, NORM_POST1, m->d_post1, NULL);
    if (s->post_norms) norm_weight_gradient(s, NORM_POST2, m->d_post2, NULL);
    if (!m->d_q_norm) return;
    tensor_sum_parts(s->pool, s->norms.head_parts[0], sequences * s->config.heads, width, m->d_q_norm);
    tensor_sum_parts(s->pool, s->norms.head_parts[1], sequences * s->config.kv_heads, width, m->d_k_norm);
}

static void add_mlp_gradient(block_chain *c, uint32_t block, const block_memory *m, const activation_job *job,
                             const float *dy) {
    stage *s = c->s;
    const layout_block *b = &s->layout.block[block];
    block_step *down = add_input_gradient(c, &b->down, dy, s->wide);
    down->rows.after = activation_gradient;
    down->rows.context = job;
    prefetch_after(down, 0, m->up, s->up_dim);
    prefetch_after(down, 1, m->act, s->act_dim);
    prefetch_after(add_input_gradient(c, &b->up, m->up, s->narrow), 0, m->middle, s->config.dim);
}

void block_input_gradient(stage *s, uint32_t block, const block_memory *m, const float *dy, float *dx) {
    const layout_block *b = &s->layout.block[block];
    tensor_norm norm1 = stage_norm(s, &b->norm1, NORM_1, m->mean1, m->inverse1),
                norm2 = stage_norm(s, &b->norm2, NORM_2, m->mean2, m->inverse2), post;
    activation_job job = {s, m->up, m->act};
    const float *d_down = s->post_norms ? m->post2 : dy, *d_o = s->post_norms ? m->post1 : m->middle;
    size_t dim = s->config.dim;
    block_chain c = {.s = s};
    if (s->post_norms) {
        post = stage_norm(s, &b->post2, NORM_POST2, NULL, m->post_inverse2);
        chain_add_norm_gradient(&c, &post, NORM_POST2, m->post2, dy, NULL, m->post2);
    }
    if (s->row->mixture)
        mixture_input_gradient(s, block, m, dy);
    else
        add_mlp_gradient(&c, block, m, &job, d_down);
    chain_add_norm_gradient(&c, &norm2, NORM_2, m->middle, s->narrow, dy, m->middle);
    if (s->post_norms) {
        post = stage_norm(s, &b->post1, NORM_POST1, NULL, m->post_inverse1);
        chain_add_norm_gradient(&c, &post, NORM_POST1, m->post1, m->middle, NULL, m->post1);
    }
    block_step *o = add_input_gradient(&c, &b->o, d_o, s->d_attention);
    prefetch_after(o, 0, m->qkv, s->qkv_dim);
    prefetch_after(o, 1, m->attention, s->q_dim);
    add_attention(&c, block, m, STEP_ATTENTION_GRADIENT);
    prefetch_after(add_input_gradient(&c, &b->qkv, m->qkv, s->narrow), 0, m->x, dim);
    chain_add_norm_gradient(&c, &norm1, NORM_1, m->x, s->narrow, m->middle, dx);
    chain_run(&c);
    vector_gradients(s, block, m, d_down, d_o);
    // The weight gradient of down needs it.
    if (!s->row->mixture && !s->post_norms) memcpy(m->x, dy, s->rows * dim * sizeof *dy);
}
