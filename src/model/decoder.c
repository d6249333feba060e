#include "model/decoder.h"

#include "model/layout.h"
#include "tensor/kernels.h"
#include "tensor/matvec.h"
#include "tensor/sizes.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ALIGNMENT = 64 };

typedef struct decoder_block {
    tensor_matvec qkv, o, up, down;
} decoder_block;

struct decoder {
    model_config config;
    const float *parameters;
    tensor_pool *pool;
    layout layout;
    tensor_rope rope;
    size_t width, qkv_dim, up_dim, cache;  // cache: floats in the keys of one block
    uint32_t position;
    decoder_block *blocks;
    tensor_matvec head;
    float *memory;
    // The arrays below point into `memory`. Each vector is followed by zeros up to a multiple of
    // MATVEC_GROUP. The arrays behind them are written before they are read, so unused pages cost
    // no memory.
    float *x, *normed, *qkv, *queries, *attention, *added, *up, *act;
    float *scores;         // [heads, context]
    float *keys, *values;  // [layers, kv_heads, context, width]
};

static bool is_gpt(const decoder *d) { return d->config.arch == MODEL_GPT; }

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
        {&d->queries, c->dim},
        {&d->attention, c->dim},
        {&d->added, c->dim},
        {&d->up, d->up_dim},
        {&d->act, c->ffn_dim},
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

static bool reserve_tables(decoder *d) {
    if (is_gpt(d)) return true;
    size_t bytes = (size_t)d->config.context * (d->width / 2) * sizeof(float);
    float *cosines = malloc(bytes), *sines = malloc(bytes);
    d->rope = (tensor_rope){d->width, cosines, sines};
    if (!cosines || !sines) return false;
    tensor_rope_tables(d->config.context, d->width, d->config.rope_theta, cosines, sines);
    return true;
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

// The head is initialised first, because decoder_free needs its parts.
static bool reserve_matrices(decoder *d, bool narrow) {
    size_t dim = d->config.dim;
    d->head =
        (tensor_matvec){.in = dim, .out = d->config.vocab, .w = tensor_transposed(d->parameters + d->layout.head, dim)};
    d->blocks = calloc(d->config.layers, sizeof *d->blocks);
    if (!d->blocks || (narrow && !narrow_matrix(d, &d->head))) return false;
    for (uint32_t i = 0; i < d->config.layers; i++) {
        const layout_block *from = &d->layout.block[i];
        decoder_block *to = &d->blocks[i];
        *to = (decoder_block){matvec_of(d, &from->qkv), matvec_of(d, &from->o), matvec_of(d, &from->up),
                              matvec_of(d, &from->down)};
        if (narrow && !(narrow_matrix(d, &to->qkv) && narrow_matrix(d, &to->o) && narrow_matrix(d, &to->up) &&
                        narrow_matrix(d, &to->down)))
            return false;
    }
    return true;
}

braid_err decoder_new(const model_config *config, const float *parameters, bool narrow, tensor_pool *pool,
                      decoder **out, braid_error *error) {
    *out = NULL;
    braid_err err = model_config_check(config, error);
    if (!err && !model_is_plain(config)) err = braid_fail(error, BRAID_CONFIG, "model: only plain llama and gpt are computed");
    if (err) return err;
    decoder *d = calloc(1, sizeof *d);
    if (!d) return braid_fail(error, BRAID_MEMORY, "no memory for this model");
    d->config = *config;
    d->parameters = parameters;
    d->pool = pool;
    d->width = config->dim / config->heads;
    d->qkv_dim = config->dim + 2 * d->width * config->kv_heads;
    d->up_dim = is_gpt(d) ? config->ffn_dim : 2 * (size_t)config->ffn_dim;
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

void decoder_free(decoder *d) {
    if (!d) return;
    for (uint32_t i = 0; d->blocks && i < d->config.layers; i++) {
        free_narrow(&d->blocks[i].qkv);
        free_narrow(&d->blocks[i].o);
        free_narrow(&d->blocks[i].up);
        free_narrow(&d->blocks[i].down);
    }
    free_narrow(&d->head);
    free(d->blocks);
    free((float *)d->rope.cosines);
    free((float *)d->rope.sines);
    free(d->memory);
    layout_free(&d->layout);
    free(d);
}

uint32_t decoder_position(const decoder *d) { return d->position; }
void decoder_rewind(decoder *d) { d->position = 0; }

// --- one token

static void norm(const decoder *d, const layout_norm *at, const float *x, float *y) {
    float mean, inverse;
    tensor_norm n = {.centred = is_gpt(d),
                     .rows = 1,
                     .dim = d->config.dim,
                     .eps = d->config.norm_eps,
                     .weight = d->parameters + at->weight,
                     .bias = is_gpt(d) ? d->parameters + at->bias : NULL,
                     .mean = &mean,
                     .inverse = &inverse};
    tensor_norm_forward(d->pool, &n, x, y);
}

static void place(const decoder *d, const float *from, float *to) {
    if (is_gpt(d))
        memcpy(to, from, d->width * sizeof *to);
    else
        tensor_rope_rows(&d->rope, d->position, 1, false, from, d->width, to, d->width);
}

static void keep_keys(decoder *d, uint32_t block) {
    const model_config *c = &d->config;
    const float *keys = d->qkv + c->dim, *values = keys + c->kv_heads * d->width;
    for (uint32_t h = 0; h < c->heads; h++) place(d, d->qkv + h * d->width, d->queries + h * d->width);
    for (uint32_t h = 0; h < c->kv_heads; h++) {
        size_t at = block * d->cache + ((size_t)h * c->context + d->position) * d->width;
        place(d, keys + h * d->width, d->keys + at);
        memcpy(d->values + at, values + h * d->width, d->width * sizeof *values);
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
    size_t from = a->block * d->cache + head / (c->heads / c->kv_heads) * c->context * d->width;
    tensor_attend(d->queries + head * d->width, d->keys + from, d->values + from, d->position + 1, d->width,
                  d->scores + head * c->context, d->attention + head * d->width);
}

static void read_block(decoder *d, uint32_t block) {
    const model_config *c = &d->config;
    const layout_block *at = &d->layout.block[block];
    const decoder_block *b = &d->blocks[block];
    norm(d, &at->norm1, d->x, d->normed);
    tensor_matvec_run(d->pool, &b->qkv, d->normed, d->qkv);
    keep_keys(d, block);
    attention heads = {d, block};
    tensor_pool_run(d->pool, c->heads, attend_head, &heads);
    tensor_matvec_run(d->pool, &b->o, d->attention, d->added);
    tensor_add(d->x, d->added, c->dim);
    norm(d, &at->norm2, d->x, d->normed);
    tensor_matvec_run(d->pool, &b->up, d->normed, d->up);
    if (is_gpt(d))
        tensor_gelu_forward(d->up, d->act, NULL, c->ffn_dim);
    else
        tensor_swiglu_forward(d->up, d->act, NULL, 1, c->ffn_dim);
    tensor_matvec_run(d->pool, &b->down, d->act, d->added);
    tensor_add(d->x, d->added, c->dim);
}

void decoder_read(decoder *d, uint32_t token, float *logits) {
    const model_config *c = &d->config;
    BRAID_ASSERT(token < c->vocab && d->position < c->context);
    memcpy(d->x, d->parameters + d->layout.embedding + (size_t)token * c->dim, c->dim * sizeof *d->x);
    if (is_gpt(d)) tensor_add(d->x, d->parameters + d->layout.positions + (size_t)d->position * c->dim, c->dim);
    for (uint32_t i = 0; i < c->layers; i++) read_block(d, i);
    d->position++;
    if (!logits) return;
    norm(d, &d->layout.norm, d->x, d->normed);
    tensor_matvec_run(d->pool, &d->head, d->normed, logits);
}
