// The forward pass. Tokens pass through the layers in chunks of rows; a row's result does not
// depend on the other rows, so the chunks change no bit.
#include "infer/inside.h"

#include "tensor/kernels.h"
#include "tensor/sizes.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    ROWS_PER_TASK = 8,
    RELEASE_ROWS = 64  // rows of a chunk after which the embedding's memory is given back
};

uint32_t engine_context(const engine *e) { return e->context; }
tensor_pool *engine_pool(const engine *e) { return e->pool; }

size_t engine_scratch_bytes(const engine *e) {
    return e->owned_bytes + e->scratch.bytes + e->product_scratch.bytes + e->attention_scratch.bytes +
           e->adapting.narrow.bytes;
}

size_t engine_copied_bytes(const engine *e) { return e->owned_bytes; }

// --- start and end

static braid_err check_settings(const engine *e, const engine_settings *s, braid_error *error) {
    if (s->layer_begin > e->layer_end || e->layer_end > e->config.layers)
        return braid_fail(error, BRAID_ARGUMENT, "layers %u to %u do not exist: the model has %u", s->layer_begin,
                          e->layer_end, e->config.layers);
    if (s->context > e->config.context)
        return braid_fail(error, BRAID_LIMIT,
                          "a context of %u tokens is longer than the model's, %u; give at most that", s->context,
                          e->config.context);
    return BRAID_OK;
}

braid_err engine_new(const engine_source *source, const engine_settings *settings, engine **out, braid_error *error) {
    *out = NULL;
    engine *e = calloc(1, sizeof *e);
    if (!e) return braid_fail(error, BRAID_MEMORY, "no memory for this model");
    const model_config *c = source->config;
    e->config = *c;
    e->row = model_row_of(c->arch);
    e->pool = settings->pool;
    e->layer_begin = settings->layer_begin;
    e->layer_end = settings->layer_end ? settings->layer_end : c->layers;
    e->ends = !settings->no_ends;
    e->exact = settings->exact;
    e->half_cache = settings->half_cache;
    e->narrow = settings->narrow;
    e->context = settings->context ? settings->context : c->context;
    _Static_assert((int)ENGINE_PAGE_TOKENS == (int)CACHE_PAGE, "one page in both headers");
    braid_err err = model_config_check(c, error);
    if (!err) err = check_settings(e, settings, error);
    if (!err) {
        e->width = model_head_dim(c);
        err = engine_load(e, source, error);
    }
    if (!err) err = rotation_new(e, error);
    if (err)
        engine_free(e);
    else
        *out = e;
    return err;
}

void engine_free(engine *e) {
    if (!e) return;
    rotation_free(e);
    engine_unload(e);
    free(e->scratch.memory);
    free(e->scratch.chosen);
    free(e->product_scratch.at);
    free(e->adapting.narrow.at);
    cache_free_all(e);
    free(e->attention_scratch.at);
    free(e);
}

// --- memory of a call

static size_t widest_mlp(const model_config *c) { return c->experts ? c->expert_ffn_dim : c->ffn_dim; }

static bool scratch_new(const engine *e, size_t rows, engine_scratch *s) {
    const model_config *c = &e->config;
    size_t dim = c->dim, queries = c->heads * e->width, keys = c->kv_heads * e->width, mlp = widest_mlp(c);
    size_t experts = c->experts, used = c->experts_used;
    struct {
        float **at;
        size_t count;  // of a row
    } pieces[] = {
        {&s->x, e->ends ? dim : 0},
        {&s->normed, dim},
        {&s->queries, queries},
        {&s->keys, keys},
        {&s->values, keys},
        {&s->attention, queries},
        {&s->added, dim},
        {&s->up, e->row->gated ? 2 * mlp : mlp},
        {&s->act, mlp},
        {&s->router, experts},
        {&s->shares, used},
        {&s->expert_in, experts ? dim : 0},
        {&s->expert_out, experts ? dim : 0},
        {&s->statistics, 2 * c->heads},
    };
    size_t total = 0, count = sizeof pieces / sizeof *pieces, step = INFER_ALIGNMENT / sizeof(float);
    for (size_t i = 0; i < count; i++) total += size_up(rows * pieces[i].count, step);
    s->rows = rows;
    s->bytes = total * sizeof(float) + rows * used * sizeof *s->chosen;
    s->memory = aligned_alloc(INFER_ALIGNMENT, total * sizeof(float));
    s->chosen = malloc((rows * used + 1) * sizeof *s->chosen);
    float *at = s->memory;
    for (size_t i = 0; i < count && at; i++) {
        *pieces[i].at = at;
        at += size_up(rows * pieces[i].count, step);
    }
    return s->memory && s->chosen;
}

static braid_err reserve_scratch(engine *e, size_t rows, braid_error *error) {
    engine_scratch s = {0};
    if (rows <= e->scratch.rows) return BRAID_OK;
    bool good = scratch_new(e, rows, &s);
    if (!good) {
        free(s.memory);
        free(s.chosen);
        return braid_fail(error, BRAID_MEMORY, "no memory to compute %zu tokens at a time", rows);
    }
    free(e->scratch.memory);
    free(e->scratch.chosen);
    e->scratch = s;
    return BRAID_OK;
}

static braid_err reserve_mlp(engine *e, const engine_mlp *m, size_t rows, braid_error *error) {
    braid_err err = product_reserve(e, &m->gate, rows, error);
    if (!err) err = product_reserve(e, &m->up, rows, error);
    return err ? err : product_reserve(e, &m->down, rows, error);
}

static braid_err reserve_products(engine *e, size_t rows, braid_error *error) {
    braid_err err = product_reserve(e, &e->head, rows, error);
    for (uint32_t i = 0; i < e->layer_end - e->layer_begin && !err; i++) {
        const engine_block *b = &e->blocks[i];
        const engine_matrix *attention[] = {&b->q, &b->k, &b->v, &b->o, &b->router};
        for (size_t j = 0; j < sizeof attention / sizeof *attention && !err; j++)
            err = product_reserve(e, attention[j], rows, error);
        if (!err && !b->experts) err = reserve_mlp(e, &b->mlp, rows, error);
        for (uint32_t j = 0; j < e->config.experts && b->experts && !err; j++)
            err = reserve_mlp(e, &b->experts[j], rows, error);
    }
    return err;
}

static tensor_cache_attention attention_of(const engine *e, uint32_t layer, const tensor_cache *cache) {
    const model_config *c = &e->config;
    float scale = c->attention_scale > 0 ? c->attention_scale : 1.0f / sqrtf((float)e->width);
    return (tensor_cache_attention){.cache = cache,
                                    .heads = c->heads,
                                    .scale = scale,
                                    .cap = c->attention_softcap,
                                    .window = model_layer_windowed(c, layer) ? c->window : 0,
                                    .scratch = e->attention_scratch.at};
}

static braid_err reserve_attention(engine *e, uint32_t end, braid_error *error) {
    tensor_cache cache = {.kv_heads = e->config.kv_heads, .width = e->width, .half = e->half_cache};
    tensor_cache_attention a = {.cache = &cache, .heads = e->config.heads};
    if (e->layer_begin == e->layer_end) return BRAID_OK;
    size_t bytes = size_up(tensor_cache_scratch(e->pool, &a, end) * sizeof(float), INFER_ALIGNMENT);
    if (bytes <= e->attention_scratch.bytes || memory_grow(&e->attention_scratch, bytes)) return BRAID_OK;
    return braid_fail(error, BRAID_MEMORY, "no memory for the attention to %u tokens", end);
}

// --- chunks

typedef struct chunk_part {
    sequence *sequence;
    uint32_t first, rows;    // position of the first row
    const uint32_t *tokens;  // [rows] or NULL
    bool last;               // ends its part
} chunk_part;

typedef struct chunk {
    chunk_part part[ENGINE_CHUNK_ROWS];
    uint32_t parts;
    size_t rows;
} chunk;

typedef struct cursor {
    const engine_part *parts;
    uint32_t count, index, done;  // tokens of part `index` that earlier chunks had
} cursor;

// False: there are no more rows.
static bool next_chunk(cursor *at, chunk *c) {
    c->parts = 0;
    c->rows = 0;
    while (at->index < at->count && c->rows < ENGINE_CHUNK_ROWS) {
        const engine_part *p = &at->parts[at->index];
        uint32_t left = p->count - at->done, rows = (uint32_t)size_least(left, ENGINE_CHUNK_ROWS - c->rows);
        if (rows > 0)
            c->part[c->parts++] = (chunk_part){p->sequence, p->sequence->length, rows,
                                               p->tokens ? p->tokens + at->done : NULL, rows == left};
        c->rows += rows;
        at->done += rows;
        if (at->done < p->count) continue;
        at->index++;
        at->done = 0;
    }
    return c->rows > 0;
}

static braid_err reserve(engine *e, const chunk *c, braid_error *error) {
    braid_err err = reserve_scratch(e, c->rows, error);
    if (!err) err = reserve_products(e, c->rows, error);
    for (uint32_t i = 0; i < c->parts && !err; i++) {
        const chunk_part *p = &c->part[i];
        uint32_t end = p->first + p->rows;
        err = cache_reserve(p->sequence, p->rows, error);
        if (!err) err = rotation_reach(e, end, error);
        if (!err) err = reserve_attention(e, end, error);
        if (!err) err = adapters_reserve(e, p->sequence->adapter, c->rows, error);
    }
    return err;
}

braid_err engine_reserve(engine *e, uint32_t rows, uint32_t tokens, braid_error *error) {
    size_t most = size_least(rows, ENGINE_CHUNK_ROWS);
    braid_err err = reserve_scratch(e, most, error);
    if (!err) err = reserve_products(e, most, error);
    if (!err) err = rotation_reach(e, tokens, error);
    return err ? err : reserve_attention(e, tokens, error);
}

// Before anything is read.
static braid_err check_parts(const engine *e, const engine_part *parts, uint32_t count, bool tokens,
                             braid_error *error) {
    for (uint32_t i = 0; i < count; i++) {
        const engine_part *p = &parts[i];
        const sequence *s = p->sequence, *first = parts[0].sequence;
        BRAID_ASSERT(s->engine == e && s->begin == first->begin && s->end == first->end);
        if (p->count > e->context - p->sequence->length)
            return braid_fail(error, BRAID_LIMIT,
                              "%u tokens after %u are more than the context of %u tokens; give a longer --context"
                              " or a shorter text",
                              p->count, p->sequence->length, e->context);
        for (uint32_t t = 0; t < p->count && tokens; t++)
            if (p->tokens[t] >= e->config.vocab)
                return braid_fail(error, BRAID_ARGUMENT, "token %u is not in the model's vocabulary of %u tokens",
                                  p->tokens[t], e->config.vocab);
    }
    return BRAID_OK;
}

// --- layers

static void norm(const engine *e, const engine_norm *n, const float *x, size_t rows, size_t dim, float *y) {
    tensor_norm all = {.centred = e->row->layer_norm,
                       .rows = rows,
                       .dim = dim,
                       .eps = e->config.norm_eps,
                       .weight = n->weight,
                       .bias = n->bias,
                       .mean = e->scratch.statistics,
                       .inverse = e->scratch.statistics + rows};
    tensor_norm_forward(e->pool, &all, x, y);
}

static void add(float *sum, const float *x, size_t count) {
    for (size_t i = 0; i < count; i++) sum[i] += x[i];
}

typedef struct rotation_job {
    const engine *e;
    uint32_t layer;
    const chunk_part *part;
    float *queries, *keys;
} rotation_job;

static void rotate_heads(const rotation_job *job, uint32_t position, bool pairs, float *x, uint32_t heads) {
    float from[MODEL_MAX_HEAD_DIM];
    size_t width = job->e->width;
    for (uint32_t h = 0; h < heads; h++, x += width) {
        memcpy(from, x, width * sizeof *from);
        rotation_apply(job->e, job->layer, position, pairs, from, x);
    }
}

static void rotate_rows(const void *context, size_t begin, size_t end) {
    const rotation_job *job = context;
    const engine *e = job->e;
    const model_config *c = &e->config;
    const engine_block *b = &e->blocks[job->layer - e->layer_begin];
    for (size_t r = begin; r < end; r++) {
        uint32_t position = job->part->first + (uint32_t)r;
        rotate_heads(job, position, b->q.pairs, job->queries + r * c->heads * e->width, c->heads);
        rotate_heads(job, position, b->k.pairs, job->keys + r * c->kv_heads * e->width, c->kv_heads);
    }
}

// Attention of one sequence's rows, which begin at row `row` of the chunk.
static void attend(engine *e, uint32_t layer, const chunk_part *p, size_t row) {
    const model_config *c = &e->config;
    engine_scratch *s = &e->scratch;
    size_t queries = c->heads * e->width, keys = c->kv_heads * e->width;
    tensor_cache cache = cache_layer(p->sequence, layer);
    rotation_job job = {e, layer, p, s->queries + row * queries, s->keys + row * keys};
    if (!e->row->learned_positions) tensor_pool_ranges(e->pool, p->rows, ROWS_PER_TASK, rotate_rows, &job);
    tensor_cache_put(&cache, p->first, p->rows, job.keys, s->values + row * keys, keys);
    tensor_cache_attention a = attention_of(e, layer, &cache);
    tensor_cache_attend(e->pool, &a, job.queries, queries, p->first, p->rows, s->attention + row * queries, queries);
}

static void attention(engine *e, uint32_t layer, const engine_block *b, const chunk *c) {
    const model_config *m = &e->config;
    engine_scratch *s = &e->scratch;
    size_t queries = m->heads * e->width, keys = m->kv_heads * e->width;
    engine_product qkv[] = {{&b->q, s->queries, queries}, {&b->k, s->keys, keys}, {&b->v, s->values, keys}};
    product_run(e, s->normed, c->rows, qkv, 3);
    if (b->q_norm) norm(e, &(engine_norm){b->q_norm, NULL}, s->queries, c->rows * m->heads, e->width, s->queries);
    if (b->k_norm) norm(e, &(engine_norm){b->k_norm, NULL}, s->keys, c->rows * m->kv_heads, e->width, s->keys);
    size_t row = 0;
    for (uint32_t i = 0; i < c->parts; row += c->part[i++].rows) attend(e, layer, &c->part[i], row);
    product_run(e, s->attention, c->rows, &(engine_product){&b->o, s->added, m->dim}, 1);
}

static void add_to(engine *e, const engine_norm *post, float *x, size_t rows) {
    engine_scratch *s = &e->scratch;
    size_t dim = e->config.dim;
    if (post->weight) norm(e, post, s->added, rows, dim, s->added);
    add(x, s->added, rows * dim);
}

static void run_layer(engine *e, uint32_t layer, const chunk *c, float *x) {
    const engine_block *b = &e->blocks[layer - e->layer_begin];
    engine_scratch *s = &e->scratch;
    size_t dim = e->config.dim;
    norm(e, &b->norm1, x, c->rows, dim, s->normed);
    attention(e, layer, b, c);
    add_to(e, &b->post1, x, c->rows);
    norm(e, &b->norm2, x, c->rows, dim, s->normed);
    mlp_run(e, b, s->normed, c->rows, s->added);
    add_to(e, &b->post2, x, c->rows);
}

static void run_layers(engine *e, const chunk *c, float *x) {
    const sequence *any = c->part[0].sequence;
    adapters_begin(e);
    for (uint32_t i = 0; i < c->parts; i++) adapters_add(e, c->part[i].sequence->adapter, c->part[i].rows);
    for (uint32_t i = any->begin; i < any->end; i++) run_layer(e, i, c, x);
    for (uint32_t i = 0; i < c->parts; i++) c->part[i].sequence->length += c->part[i].rows;
}

// --- the ends

static void embed(const engine *e, uint32_t token, uint32_t position, float *x) {
    size_t dim = e->config.dim;
    weight_rows(&e->embedding.w, token, 1, x);
    for (size_t i = 0; i < dim && e->config.embedding_scale > 0; i++) x[i] *= e->config.embedding_scale;
    if (e->positions) add(x, e->positions + position * dim, dim);
}

static void embed_chunk(const engine *e, const chunk *c, float *x) {
    const weight_matrix *w = &e->embedding.w;
    for (uint32_t i = 0; i < c->parts; i++)
        for (uint32_t r = 0; r < c->part[i].rows; r++, x += e->config.dim)
            embed(e, c->part[i].tokens[r], c->part[i].first + r, x);
    if (e->release.call && c->rows >= RELEASE_ROWS)
        e->release.call(e->release.context, w->data, weight_bytes(w->type, w->rows, w->cols));
}

// x[rows, dim] is replaced by its norm, with rows <= scratch.rows.
static void head(engine *e, float *x, size_t rows, float *logits) {
    const model_config *c = &e->config;
    norm(e, &e->norm, x, rows, c->dim, x);
    product_run(e, x, rows, &(engine_product){&e->head, logits, c->vocab}, 1);
    if (c->logit_softcap > 0) tensor_softcap(logits, NULL, rows * c->vocab, 1, c->logit_softcap);
}

// Moves the last row of each part that ends in this chunk to the front. Returns how many.
static size_t keep_last(const engine *e, const chunk *c, float *x) {
    size_t row = 0, kept = 0, dim = e->config.dim;
    for (uint32_t i = 0; i < c->parts; i++) {
        row += c->part[i].rows;
        if (c->part[i].last) memmove(x + kept++ * dim, x + (row - 1) * dim, dim * sizeof *x);
    }
    return kept;
}

// --- calls

static braid_err read_parts(engine *e, const engine_part *parts, uint32_t count, float *logits, bool all,
                            braid_error *error) {
    BRAID_ASSERT(e->ends && e->layer_begin == 0 && e->layer_end == e->config.layers);
    cursor at = {.parts = parts, .count = count};
    chunk c;
    braid_err err = check_parts(e, parts, count, true, error);
    while (!err && next_chunk(&at, &c)) {
        float *x;
        if ((err = reserve(e, &c, error))) break;
        x = e->scratch.x;
        embed_chunk(e, &c, x);
        run_layers(e, &c, x);
        if (!logits) continue;
        size_t rows = all ? c.rows : keep_last(e, &c, x);
        if (rows > 0) head(e, x, rows, logits);
        logits += rows * e->config.vocab;
    }
    return err;
}

braid_err engine_read(engine *e, const engine_part *parts, uint32_t count, float *logits, braid_error *error) {
    return read_parts(e, parts, count, logits, false, error);
}

braid_err engine_read_all(engine *e, const engine_part *parts, uint32_t count, float *logits, braid_error *error) {
    return read_parts(e, parts, count, logits, true, error);
}

braid_err engine_embed(engine *e, const engine_part *parts, uint32_t count, float *x, braid_error *error) {
    BRAID_ASSERT(e->ends);
    braid_err err = check_parts(e, parts, count, true, error);
    for (uint32_t i = 0; i < count && !err; i++)
        for (uint32_t t = 0; t < parts[i].count; t++, x += e->config.dim)
            embed(e, parts[i].tokens[t], parts[i].sequence->length + t, x);
    return err;
}

braid_err engine_embed_at(engine *e, uint32_t first, const uint32_t *tokens, uint32_t count, float *x,
                          braid_error *error) {
    BRAID_ASSERT(e->ends && first <= e->context && count <= e->context - first);
    for (uint32_t t = 0; t < count; t++, x += e->config.dim) {
        if (tokens[t] >= e->config.vocab)
            return braid_fail(error, BRAID_ARGUMENT, "token %u is not in the model's vocabulary of %u tokens",
                              tokens[t], e->config.vocab);
        embed(e, tokens[t], first + t, x);
    }
    return BRAID_OK;
}

braid_err engine_layers(engine *e, const engine_part *parts, uint32_t count, float *x, braid_error *error) {
    cursor at = {.parts = parts, .count = count};
    chunk c;
    braid_err err = check_parts(e, parts, count, false, error);
    while (!err && next_chunk(&at, &c)) {
        err = reserve(e, &c, error);
        if (!err) run_layers(e, &c, x);
        x += c.rows * e->config.dim;
    }
    return err;
}

braid_err engine_logits(engine *e, const float *x, size_t rows, float *logits, braid_error *error) {
    BRAID_ASSERT(e->ends);
    const model_config *c = &e->config;
    braid_err err = BRAID_OK;
    for (size_t first = 0; first < rows && !err; first += ENGINE_CHUNK_ROWS) {
        size_t some = size_least(rows - first, ENGINE_CHUNK_ROWS);
        err = reserve_scratch(e, some, error);
        if (!err) err = product_reserve(e, &e->head, some, error);
        if (err) break;
        memcpy(e->scratch.x, x + first * c->dim, some * c->dim * sizeof *x);
        head(e, e->scratch.x, some, logits + first * c->vocab);
    }
    return err;
}

braid_err engine_final_norm(engine *e, float *x, size_t rows, braid_error *error) {
    BRAID_ASSERT(e->ends);
    size_t dim = e->config.dim;
    braid_err err = reserve_scratch(e, size_least(rows, ENGINE_CHUNK_ROWS), error);
    for (size_t first = 0; first < rows && !err; first += ENGINE_CHUNK_ROWS) {
        size_t some = size_least(rows - first, ENGINE_CHUNK_ROWS);
        norm(e, &e->norm, x + first * dim, some, dim, x + first * dim);
    }
    return err;
}
