#include "model/stage.h"

#include "base/err.h"
#include "model/rope.h"
#include "model/stage_inner.h"

#include <stdlib.h>
#include <string.h>

static braid_err check_shape(const model_config *c, const stage_shape *shape, braid_error *error) {
    if (shape->layer_begin > shape->layer_end || shape->layer_end > c->layers)
        return braid_fail(error, BRAID_CONFIG, "stage: layers %u to %u of a model with %u", shape->layer_begin,
                          shape->layer_end, c->layers);
    if (shape->layer_begin == shape->layer_end && !shape->ends)
        return braid_fail(error, BRAID_CONFIG, "stage: it holds no layer: give every stage but the first at least one");
    if (shape->ends && shape->layer_begin != 0)
        return braid_fail(error, BRAID_CONFIG, "stage: the stage with the ends begins at layer 0, not %u",
                          shape->layer_begin);
    if (shape->tokens < 1 || shape->tokens > c->context)
        return braid_fail(error, BRAID_CONFIG, "stage: sequences of %u tokens, the model's context is %u",
                          shape->tokens, c->context);
    if (shape->sequences < 1 || (uint64_t)shape->sequences * shape->tokens > STAGE_MAX_ROWS)
        return braid_fail(error, BRAID_CONFIG,
                          "stage: %u sequences of %u tokens, a microbatch has between 1 and %d tokens",
                          shape->sequences, shape->tokens, STAGE_MAX_ROWS);
    return BRAID_OK;
}

static braid_err stage_build(stage *s, braid_error *error) {
    braid_err err = layout_new(&s->config, &s->shape, &s->layout, error);
    if (!err) err = tiles_new(s, error);
    if (!err) err = stage_reserve(s, error);
    for (int local = 0; local < 2 && !err; local++)
        if (s->rotation[local].cosines)
            model_rope_tables(&s->config, local != 0, s->shape.tokens, s->rotation[local].cosines,
                              s->rotation[local].sines);
    return err;
}

braid_err stage_new(const model_config *config, const stage_shape *shape, tensor_pool *pool, stage **out,
                    braid_error *error) {
    *out = NULL;
    braid_err err = model_config_check(config, error);
    if (!err) err = check_shape(config, shape, error);
    if (err) return err;
    stage *s = calloc(1, sizeof *s);
    if (!s) return braid_fail(error, BRAID_MEMORY, "no memory for a stage");
    s->config = *config;
    s->shape = *shape;
    s->pool = pool;
    s->rows = (size_t)shape->sequences * shape->tokens;
    s->row = model_row_of(config->arch);
    s->q_dim = (size_t)config->heads * model_head_dim(config);
    s->qkv_dim = s->q_dim + 2 * (size_t)config->kv_heads * model_head_dim(config);
    s->act_dim = s->row->mixture ? config->expert_ffn_dim : config->ffn_dim;
    s->up_dim = (s->row->gated ? 2 : 1) * s->act_dim;
    s->mlp_rows = s->rows * (s->row->mixture ? config->experts_used : 1);
    s->post_norms = model_has(config, ROLE_POST1);
    BRAID_ASSERT(!(s->post_norms && s->row->mixture));  // block.c
    s->head = head_cut_of(config, s->rows);
    err = stage_build(s, error);
    if (err)
        stage_free(s);
    else
        *out = s;
    return err;
}

void stage_free(stage *s) {
    if (!s) return;
    layout_free(&s->layout);
    free(s->tiles);
    free(s->work);
    free(s);
}

size_t stage_parameters(const stage *s) { return s->layout.parameters; }
uint32_t stage_tensor_count(const stage *s) { return s->layout.tensors; }
const stage_tensor *stage_tensors(const stage *s) { return s->layout.tensor; }
size_t stage_stash_bytes(const stage *s) { return s->stash_bytes; }
size_t stage_work_bytes(const stage *s) { return s->work_bytes; }
size_t stage_activation_elements(const stage *s) { return s->rows * s->config.dim; }

void stage_bind(stage *s, float *parameters) {
    s->parameters = parameters;
    s->body_phase = PHASE_EMPTY;
}

void stage_move(stage *s, uint32_t layer) {
    BRAID_ASSERT(s->layout.blocks == 1 && !s->shape.ends && layer < s->config.layers);
    uint32_t each = model_tensors_per_block(&s->config), first = model_tensors_before(&s->config) + layer * each;
    for (uint32_t i = 0; i < each; i++) {
        model_tensor t;
        model_tensor_at(&s->config, first + i, &t);
        s->layout.tensor[i].canonical = first + i;
        memcpy(s->layout.tensor[i].name, t.name, sizeof s->layout.tensor[i].name);
    }
    s->shape.layer_begin = layer;
    s->shape.layer_end = layer + 1;
    s->body_phase = PHASE_EMPTY;
}

static size_t activation_bytes(const stage *s) { return s->rows * s->config.dim * sizeof(float); }

// At the boundary before block i the activation x, or the gradient, has the values that a link
// would carry. The stage's own input and output are left to its links.
static void round_at(const stage *s, uint32_t i, tensor_codec codec, float *x) {
    uint32_t layer = s->shape.layer_begin + i;
    if (i >= s->layout.blocks || !(s->shape.links.starts[layer / 64] >> layer % 64 & 1)) return;
    tensor_codec_round(s->pool, codec, x, s->rows * s->config.dim);
}

// x NULL: from the stash's tokens.
static void body_forward(stage *s, const stash_view *v, const float *x, float *y) {
    uint32_t blocks = s->layout.blocks;
    s->documents = v->documents;
    float *first = blocks ? stage_block_memory(s, &v->body, 0).x : y;
    if (s->shape.ends)
        ends_embed(s, v->tokens, first);
    else
        memcpy(first, x, activation_bytes(s));
    round_at(s, 0, s->shape.links.forward, first);
    for (uint32_t i = 0; i < blocks; i++) {
        block_memory m = stage_block_memory(s, &v->body, i);
        float *to = i + 1 < blocks ? stage_block_memory(s, &v->body, i + 1).x : y;
        block_forward(s, i, &m, to);
        round_at(s, i + 1, s->shape.links.forward, to);
    }
}

// The gradient on its way from the stage's output to its lowest activation.
typedef struct descent {
    stage *s;
    const stash_view *v;
    const float *dy;
    float *lowest;
} descent;

static descent descent_new(stage *s, const stash_view *v, const float *dy, float *dx) {
    s->documents = v->documents;
    return (descent){s, v, dy, s->shape.ends ? v->body.d_embedding : dx};
}

// Propagates the gradient through blocks [first, end), the last one first.
static void descend(descent *d, uint32_t first, uint32_t end) {
    for (uint32_t i = end; i-- > first;) {
        block_memory m = stage_block_memory(d->s, &d->v->body, i);
        float *to = i == 0 ? d->lowest : d->s->grad[i % 2];
        block_input_gradient(d->s, i, &m, d->dy, to);
        round_at(d->s, i, d->s->shape.links.backward, to);
        d->dy = to;
    }
}

static const float *arrive(const descent *d) {
    if (d->s->layout.blocks == 0) memcpy(d->lowest, d->dy, activation_bytes(d->s));
    return d->lowest;
}

static const float *body_input_gradient(stage *s, const stash_view *v, const float *dy, float *dx) {
    descent d = descent_new(s, v, dy, dx);
    descend(&d, 0, s->layout.blocks);
    return arrive(&d);
}

// With recomputation the stage has one body; this records the microbatch that it holds.
static void body_claim(stage *s, const stash_view *v, stage_phase phase) {
    s->body_ticket = v->header->ticket;
    s->body_phase = phase;
}

static bool body_holds(const stage *s, const stash_view *v, stage_phase phase) {
    return !s->shape.recompute || (s->body_phase == phase && s->body_ticket == v->header->ticket);
}

bool stage_documents_valid(const stage_shape *shape, const uint32_t *first) {
    for (size_t i = 0; i < (size_t)shape->sequences * shape->tokens; i++) {
        uint32_t position = (uint32_t)(i % shape->tokens);
        if (first[i] != position && (position == 0 || first[i] != first[i - 1])) return false;
    }
    return true;
}

void stage_set_documents(stage *s, void *stash, const uint32_t *first) {
    stash_view v = stage_stash_view(s, stash);
    BRAID_ASSERT(s->shape.documents);
    memcpy(v.documents, first, s->rows * sizeof *first);
}

void stage_forward(stage *s, void *stash, const int32_t *tokens, const float *x, float *y) {
    stash_view v = stage_stash_view(s, stash);
    *v.header = (stage_header){.ticket = ++s->next_ticket, .phase = PHASE_FORWARD_DONE};
    if (s->shape.ends)
        memcpy(v.tokens, tokens, s->rows * sizeof *tokens);
    else if (s->shape.recompute)
        memcpy(v.x, x, activation_bytes(s));
    body_forward(s, &v, x, y);
    body_claim(s, &v, PHASE_FORWARD_DONE);
}

// Repeats the forward pass. Its output is not needed, so it goes to a gradient buffer.
static void body_restore(stage *s, const stash_view *v) {
    if (body_holds(s, v, PHASE_FORWARD_DONE)) return;
    body_forward(s, v, v->x, s->grad[0]);
    body_claim(s, v, PHASE_FORWARD_DONE);
}

const float *stage_input_gradient(stage *s, void *stash, const float *dy, float *dx) {
    stash_view v = stage_stash_view(s, stash);
    BRAID_ASSERT(v.header->phase == PHASE_FORWARD_DONE);
    body_restore(s, &v);
    if (s->shape.recompute) memcpy(v.dy, dy, activation_bytes(s));
    const float *lowest = body_input_gradient(s, &v, dy, dx);
    body_claim(s, &v, PHASE_INPUT_GRADIENT_DONE);
    v.header->phase = PHASE_INPUT_GRADIENT_DONE;
    return lowest;
}

static void hand(const stage_sink *sink, size_t offset, const float *vector, size_t count) {
    if (vector) sink->take(sink->context, offset, vector, count);
}

static void hand_norm(const layout_norm *at, const float *weight, const float *bias, size_t dim, const stage_sink *sink) {
    hand(sink, at->weight, weight, dim);
    hand(sink, at->bias, bias, dim);
}

static void hand_vectors(const stage *s, const stash_view *v, uint32_t block, const stage_sink *sink) {
    const layout_block *b = &s->layout.block[block];
    block_memory m = stage_block_memory(s, &v->body, block);
    size_t dim = s->config.dim, width = model_head_dim(&s->config);
    hand_norm(&b->norm1, m.d_norm1, m.d_norm1_bias, dim, sink);
    hand(sink, b->qkv.bias, m.d_qkv_bias, b->qkv.out);
    hand(sink, b->q_norm.weight, m.d_q_norm, width);
    hand(sink, b->k_norm.weight, m.d_k_norm, width);
    hand(sink, b->o.bias, m.d_o_bias, b->o.out);
    hand(sink, b->post1.weight, m.d_post1, dim);
    hand_norm(&b->norm2, m.d_norm2, m.d_norm2_bias, dim, sink);
    hand(sink, b->up.bias, m.d_up_bias, b->up.out);
    hand(sink, b->down.bias, m.d_down_bias, b->down.out);
    hand(sink, b->post2.weight, m.d_post2, dim);
}

static void weigh_blocks(stage *s, const stash_view *v, uint32_t first, uint32_t end, const stage_sink *sink) {
    tiles_run_blocks(s, v, first, end, sink);
    for (uint32_t i = first; i < end; i++) hand_vectors(s, v, i, sink);
}

static void weigh_ends(stage *s, const stash_view *v, const stage_sink *sink) {
    if (s->shape.ends) {
        tiles_run_ends(s, v, sink);
        hand_norm(&s->layout.norm, v->d_norm, v->d_norm_bias, s->config.dim, sink);
    }
    v->header->phase = PHASE_EMPTY;
}

static bool has_loss(const stage *s, const stash_view *v) { return !s->shape.ends || v->header->lossy; }

stash_view stage_open_gradients(stage *s, void *stash) {
    stash_view v = stage_stash_view(s, stash);
    BRAID_ASSERT(v.header->phase == PHASE_INPUT_GRADIENT_DONE && has_loss(s, &v));
    if (!body_holds(s, &v, PHASE_INPUT_GRADIENT_DONE)) {
        body_restore(s, &v);
        body_input_gradient(s, &v, v.dy, s->grad[0]);
        body_claim(s, &v, PHASE_INPUT_GRADIENT_DONE);
    }
    return v;
}

void stage_weight_gradient(stage *s, void *stash, const stage_sink *sink) {
    BRAID_ASSERT(!s->shape.frozen);
    stash_view v = stage_open_gradients(s, stash);
    for (uint32_t end = s->layout.blocks, first; end > 0; end = first) {
        first = stage_blocks_from(s, end);
        weigh_blocks(s, &v, first, end, sink);
    }
    weigh_ends(s, &v, sink);
}

const float *stage_gradients(stage *s, void *stash, const float *dy, float *dx, const stage_sink *sink) {
    BRAID_ASSERT(!s->shape.frozen);
    stash_view v = stage_stash_view(s, stash);
    BRAID_ASSERT(v.header->phase == PHASE_FORWARD_DONE && has_loss(s, &v));
    body_restore(s, &v);
    descent d = descent_new(s, &v, dy, dx);
    for (uint32_t end = s->layout.blocks, first; end > 0; end = first) {
        first = stage_blocks_from(s, end);
        descend(&d, first, end);
        weigh_blocks(s, &v, first, end, sink);
    }
    const float *lowest = arrive(&d);
    body_claim(s, &v, PHASE_INPUT_GRADIENT_DONE);
    weigh_ends(s, &v, sink);
    return lowest;
}

void stage_ends_gradients(stage *s, void *stash, const float *dy, size_t first, size_t end, const stage_sink *sink) {
    stash_view v = stage_stash_view(s, stash);
    BRAID_ASSERT(s->shape.ends && s->layout.blocks == 0 && has_loss(s, &v));
    memcpy(v.body.d_embedding, dy, activation_bytes(s));
    tiles_run_ends_in(s, &v, first, end, sink);
    hand_norm(&s->layout.norm, v.d_norm, v.d_norm_bias, s->config.dim, sink);
}
