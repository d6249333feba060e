#include "model/decoder.h"

#include "model/layout.h"
#include "model/rope.h"
#include "tensor/kernels.h"
#include "tensor/matvec.h"
#include "tensor/sizes.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ALIGNMENT = 64 };

typedef struct decoder_block {
    tensor_matvec qkv, o;
    tensor_matvec router;      // of a mixture
    uint32_t mlps;             // 1, or the number of experts
    tensor_matvec *up, *down;  // [mlps]
} decoder_block;

struct decoder {
    model_config config;
    const float *parameters;
    tensor_pool *pool;
    const model_row *row;
    layout layout;
    tensor_rope rope[2];                                   // the second of layers with a rotation of their own
    size_t width, q_dim, qkv_dim, up_dim, act_dim, cache;  // cache: floats in the keys of one block
    uint32_t position;
    decoder_block *blocks;
    tensor_matvec logits;
    float *memory;
    // The arrays below point into `memory`. Each vector is followed by zeros up to a multiple of
    // MATVEC_GROUP. The arrays behind them are written before they are read, so unused pages cost
    // no memory.
    float *x, *normed, *qkv, *queries, *attention, *added, *up, *act, *mixed;
    float *weights;        // of a norm, plus one
    float *head;           // a query or key after its norm
    float *routed;         // [experts]
    float *scores;         // [heads, context]
    float *keys, *values;  // [layers, kv_heads, context, width]
};

// --- memory

static size_t padded(size_t count) { return size_up(count, MATVEC_GROUP); }

static bool reserve(decoder *d) {
    const model_config *c = &d->config;
    struct {
        float **at;
        size_t count;
    } pieces[] = {
        {&d->x, c->dim},
        {&d->normed, c->dim},
        {&d->qkv, d->qkv_dim},
        {&d->queries, d->q_dim},
        {&d->attention, d->q_dim},
        {&d->added, c->dim},
        {&d->up, d->up_dim},
        {&d->act, d->act_dim},
        {&d->mixed, d->row->mixture ? c->dim : 0},
        {&d->weights, d->row->norm_plus_one ? (c->dim > d->width ? c->dim : d->width) : 0},
        {&d->head, d->width},
        {&d->routed, c->experts},
        {&d->scores, (size_t)c->heads * c->context},
        {&d->keys, c->layers * d->cache},
        {&d->values, c->layers * d->cache},
    };
    size_t total = 0, count = sizeof pieces / sizeof *pieces;
    for (size_t i = 0; i < count; i++) total += padded(pieces[i].count);
    d->memory = aligned_alloc(ALIGNMENT, total * sizeof *d->memory);
    if (!d->memory) return false;
    float *at = d->memory;
    for (size_t i = 0; i < count; i++) {
        *pieces[i].at = at;
        at += padded(pieces[i].count);
    }
    memset(d->memory, 0, (size_t)(d->scores - d->memory) * sizeof *d->memory);
    return true;
}

static bool reserve_rotation(decoder *d, bool local) {
    size_t bytes = (size_t)d->config.context * (d->width / 2) * sizeof(float);
    float *cosines = malloc(bytes), *sines = malloc(bytes);
    d->rope[local] = (tensor_rope){d->width, cosines, sines};
    if (!cosines || !sines) return false;
    model_rope_tables(&d->config, local, d->config.context, cosines, sines);
    return true;
}

static bool reserve_tables(decoder *d) {
    if (d->row->learned_positions) return true;
    return reserve_rotation(d, false) && (!model_rope_has_local(&d->config) || reserve_rotation(d, true));
}

static bool narrow_matrix(decoder *d, tensor_matvec *m) {
    m->bytes = malloc(m->out * matvec_groups(m->in) * MATVEC_GROUP);
    m->scales = malloc(m->out * matvec_groups(m->in) * sizeof *m->scales);
    if (!m->bytes || !m->scales) return false;
    tensor_matvec_narrow(d->pool, m);
    return true;
}

static tensor_matvec matvec_of(const decoder *d, const layout_linear *l) {
    const float *weight = d->parameters + l->weight;
    return (tensor_matvec){.in = l->in,
                           .out = l->out,
                           .w = l->conv1d ? tensor_plain(weight, l->out) : tensor_transposed(weight, l->in),
                           .bias = l->has_bias ? d->parameters + l->bias : NULL};
}

static bool reserve_block(decoder *d, const layout_block *from, decoder_block *to, bool narrow) {
    to->qkv = matvec_of(d, &from->qkv);
    to->o = matvec_of(d, &from->o);
    bool mixture = d->row->mixture;
    if (mixture) to->router = matvec_of(d, &from->router);
    uint32_t mlps = mixture ? d->config.experts : 1;
    to->up = calloc(mlps, sizeof *to->up);
    to->down = calloc(mlps, sizeof *to->down);
    if (!to->up || !to->down) return false;
    to->mlps = mlps;
    if (narrow && !(narrow_matrix(d, &to->qkv) && narrow_matrix(d, &to->o))) return false;
    for (uint32_t e = 0; e < mlps; e++) {
        layout_linear up = mixture ? layout_expert(from, from->expert_up, e) : from->up,
                      down = mixture ? layout_expert(from, from->expert_down, e) : from->down;
        to->up[e] = matvec_of(d, &up);
        to->down[e] = matvec_of(d, &down);
        if (narrow && !(narrow_matrix(d, &to->up[e]) && narrow_matrix(d, &to->down[e]))) return false;
    }
    return true;
}

// The head is initialised first, because decoder_free needs its parts.
static bool reserve_matrices(decoder *d, bool narrow) {
    size_t dim = d->config.dim;
    d->logits =
        (tensor_matvec){.in = dim, .out = d->config.vocab, .w = tensor_transposed(d->parameters + d->layout.head, dim)};
    d->blocks = calloc(d->config.layers, sizeof *d->blocks);
    if (!d->blocks || (narrow && !narrow_matrix(d, &d->logits))) return false;
    for (uint32_t i = 0; i < d->config.layers; i++)
        if (!reserve_block(d, &d->layout.block[i], &d->blocks[i], narrow)) return false;
    return true;
}

braid_err decoder_new(const model_config *config, const float *parameters, bool narrow, tensor_pool *pool,
                      decoder **out, braid_error *error) {
    *out = NULL;
    braid_err err = model_config_check(config, error);
    if (err) return err;
    decoder *d = calloc(1, sizeof *d);
    if (!d) return braid_fail(error, BRAID_MEMORY, "no memory for this model");
    d->config = *config;
    d->parameters = parameters;
    d->pool = pool;
    d->row = model_row_of(config->arch);
    d->width = model_head_dim(config);
    d->q_dim = d->width * config->heads;
    d->qkv_dim = d->q_dim + 2 * d->width * config->kv_heads;
    d->act_dim = d->row->mixture ? config->expert_ffn_dim : config->ffn_dim;
    d->up_dim = (d->row->gated ? 2 : 1) * d->act_dim;
    d->cache = (size_t)config->kv_heads * config->context * d->width;
    stage_shape whole = {.layer_end = config->layers, .ends = true, .sequences = 1, .tokens = 1};
    err = layout_new(config, &whole, &d->layout, error);
    if (!err && !(reserve(d) && reserve_tables(d) && reserve_matrices(d, narrow)))
        err = braid_fail(error, BRAID_MEMORY, "no memory for this model's keys, values and weights");
    if (err)
        decoder_free(d);
    else
        *out = d;
    return err;
}

static void free_narrow(tensor_matvec *m) {
    free(m->bytes);
    free(m->scales);
}

static void free_block(decoder_block *b) {
    free_narrow(&b->qkv);
    free_narrow(&b->o);
    for (uint32_t e = 0; e < b->mlps; e++) {
        free_narrow(&b->up[e]);
        free_narrow(&b->down[e]);
    }
    free(b->up);
    free(b->down);
}

void decoder_free(decoder *d) {
    if (!d) return;
    for (uint32_t i = 0; d->blocks && i < d->config.layers; i++) free_block(&d->blocks[i]);
    free_narrow(&d->logits);
    free(d->blocks);
    for (int i = 0; i < 2; i++) {
        free((float *)d->rope[i].cosines);
        free((float *)d->rope[i].sines);
    }
    free(d->memory);
    layout_free(&d->layout);
    free(d);
}

uint32_t decoder_position(const decoder *d) { return d->position; }
void decoder_rewind(decoder *d) { d->position = 0; }

// --- one token

static const float *norm_weights(const decoder *d, const layout_norm *at, size_t width) {
    const float *weights = d->parameters + at->weight;
    if (!d->row->norm_plus_one) return weights;
    for (size_t i = 0; i < width; i++) d->weights[i] = 1.0f + weights[i];
    return d->weights;
}

static void norm(const decoder *d, const layout_norm *at, const float *x, float *y) {
    float mean, inverse;
    bool centred = d->row->layer_norm;
    tensor_norm n = {.centred = centred,
                     .rows = 1,
                     .dim = d->config.dim,
                     .eps = d->config.norm_eps,
                     .weight = norm_weights(d, at, d->config.dim),
                     .bias = centred ? d->parameters + at->bias : NULL,
                     .mean = &mean,
                     .inverse = &inverse};
    tensor_norm_forward(d->pool, &n, x, y);
}

// A query or key of a head: its norm, and its rotation to the position.
static void place(const decoder *d, uint32_t block, const layout_norm *at, const float *from, float *to) {
    if (model_has(&d->config, ROLE_Q_NORM)) {
        tensor_head_norm_rows(norm_weights(d, at, d->width), d->config.norm_eps, d->width, 1, from, d->width, d->head,
                              d->width);
        from = d->head;
    }
    if (!model_layer_rotated(&d->config, block))
        memcpy(to, from, d->width * sizeof *to);
    else
        tensor_rope_rows(&d->rope[model_rope_is_local(&d->config, block)], d->position, 1, false, from, d->width, to,
                         d->width);
}

static void keep_keys(decoder *d, uint32_t block) {
    const model_config *c = &d->config;
    const layout_block *at = &d->layout.block[block];
    const float *keys = d->qkv + d->q_dim, *values = keys + c->kv_heads * d->width;
    for (uint32_t h = 0; h < c->heads; h++)
        place(d, block, &at->q_norm, d->qkv + h * d->width, d->queries + h * d->width);
    for (uint32_t h = 0; h < c->kv_heads; h++) {
        size_t to = block * d->cache + ((size_t)h * c->context + d->position) * d->width;
        place(d, block, &at->k_norm, keys + h * d->width, d->keys + to);
        memcpy(d->values + to, values + h * d->width, d->width * sizeof *values);
    }
}

typedef struct attention {
    decoder *d;
    uint32_t block;
} attention;

static void attend_head(void *context, size_t head) {
    const attention *a = context;
    decoder *d = a->d;
    const model_config *c = &d->config;
    size_t first = 0, seen = d->position + 1;
    if (model_layer_windowed(c, a->block) && seen > c->window) first = seen - c->window;
    size_t from = a->block * d->cache + (head / (c->heads / c->kv_heads) * c->context + first) * d->width;
    float scale = c->attention_scale > 0 ? c->attention_scale : 1.0f / sqrtf((float)d->width);
    tensor_attend_scaled(d->queries + head * d->width, d->keys + from, d->values + from, seen - first, d->width, scale,
                         c->attention_softcap, d->scores + head * c->context, d->attention + head * d->width);
}

// out = one MLP, or one expert, of d->normed.
static void read_mlp(decoder *d, const decoder_block *b, uint32_t which, float *out) {
    tensor_matvec_run(d->pool, &b->up[which], d->normed, d->up);
    if (!d->row->gated)
        tensor_gelu_forward(d->up, d->act, NULL, d->act_dim);
    else if (d->row->activation == MODEL_SILU)
        tensor_swiglu_forward(d->up, d->act, NULL, 1, d->act_dim);
    else
        tensor_geglu_forward(d->up, d->act, NULL, 1, d->act_dim);
    tensor_matvec_run(d->pool, &b->down[which], d->act, out);
}

static void read_experts(decoder *d, const decoder_block *b, float *out) {
    const model_config *c = &d->config;
    tensor_router r = {c->experts, c->experts_used, c->normalised_experts};
    uint32_t chosen[MODEL_MAX_EXPERTS_USED];
    float weights[MODEL_MAX_EXPERTS_USED];
    tensor_matvec_run(d->pool, &b->router, d->normed, d->routed);
    tensor_route_rows(&r, 1, d->routed, chosen, weights);
    memset(out, 0, c->dim * sizeof *out);
    for (uint32_t i = 0; i < c->experts_used; i++) {
        read_mlp(d, b, chosen[i], d->mixed);
        tensor_add_scaled(out, d->mixed, weights[i], c->dim);
    }
}

// Adds to x what a part of the block computed, after its norm if there is one.
static void add_part(decoder *d, const layout_norm *post) {
    if (model_has(&d->config, ROLE_POST1)) norm(d, post, d->added, d->added);
    tensor_add(d->x, d->added, d->config.dim);
}

static void read_block(decoder *d, uint32_t block) {
    const layout_block *at = &d->layout.block[block];
    const decoder_block *b = &d->blocks[block];
    norm(d, &at->norm1, d->x, d->normed);
    tensor_matvec_run(d->pool, &b->qkv, d->normed, d->qkv);
    keep_keys(d, block);
    attention heads = {d, block};
    tensor_pool_run(d->pool, d->config.heads, attend_head, &heads);
    tensor_matvec_run(d->pool, &b->o, d->attention, d->added);
    add_part(d, &at->post1);
    norm(d, &at->norm2, d->x, d->normed);
    if (d->row->mixture)
        read_experts(d, b, d->added);
    else
        read_mlp(d, b, 0, d->added);
    add_part(d, &at->post2);
}

void decoder_read(decoder *d, uint32_t token, float *logits) {
    const model_config *c = &d->config;
    BRAID_ASSERT(token < c->vocab && d->position < c->context);
    memcpy(d->x, d->parameters + d->layout.embedding + (size_t)token * c->dim, c->dim * sizeof *d->x);
    if (c->embedding_scale > 0) tensor_scale(d->x, c->embedding_scale, d->x, c->dim);
    if (d->row->learned_positions)
        tensor_add(d->x, d->parameters + d->layout.positions + (size_t)d->position * c->dim, c->dim);
    for (uint32_t i = 0; i < c->layers; i++) read_block(d, i);
    d->position++;
    if (!logits) return;
    norm(d, &d->layout.norm, d->x, d->normed);
    tensor_matvec_run(d->pool, &d->logits, d->normed, logits);
    if (c->logit_softcap > 0) tensor_softcap(logits, NULL, c->vocab, 1, c->logit_softcap);
}
