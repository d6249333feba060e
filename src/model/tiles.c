// Weight gradients, divided into tiles of whole tensor rows; the division depends on the shape
// alone. One thread computes each tile in its own scratch memory and passes it on, or computes it
// where the sink wants it. So no buffer of the size of the weights is needed.
#include "base/err.h"
#include "model/stage_inner.h"
#include "tensor/gemm.h"
#include "tensor/sizes.h"

#include <stdlib.h>
#include <string.h>

enum {
    TILE_ELEMENTS = 1 << 20,
    TILE_ROWS_LEAST = 128,
    TILE_ROWS_MOST = 384,
    TILE_ROWS_STEP = 16,
    TILES_A_THREAD = 8,  // tiles between two barriers of all threads
};

// Rows per tile of tensor[rows, cols]: nearly equal pieces.
static size_t tile_rows(size_t rows, size_t cols) {
    return size_even(rows, size_clamp(TILE_ELEMENTS / cols, TILE_ROWS_LEAST, TILE_ROWS_MOST), TILE_ROWS_STEP);
}

// Counts the tiles of a tensor, and writes them once the list is allocated.
static void tiles_add(stage *s, gradient_tile tile, size_t rows, size_t cols) {
    size_t step = tile.kind == TILE_HEAD ? s->head.cols : tile_rows(rows, cols), offset = tile.offset;
    for (size_t first = 0; first < rows; first += step, s->tile_count++) {
        if (!s->tiles) continue;
        tile.first = (uint32_t)first;
        tile.last = (uint32_t)size_least(first + step, rows);
        tile.offset = offset + first * cols;
        s->tiles[s->tile_count] = tile;
    }
}

static const layout_linear *block_linear(const layout_block *block, uint8_t source) {
    switch (source) {
    case SOURCE_QKV: return &block->qkv;
    case SOURCE_O: return &block->o;
    case SOURCE_UP: return &block->up;
    case SOURCE_DOWN: return &block->down;
    case SOURCE_ROUTER: return &block->router;
    case SOURCE_EXPERT_UP: return &block->expert_up;
    default: return &block->expert_down;
    }
}

static void tiles_add_linear(stage *s, uint32_t block, uint8_t source, uint32_t expert) {
    const layout_block *b = &s->layout.block[block];
    const layout_linear *l = block_linear(b, source);
    gradient_tile tile = {.kind = TILE_LINEAR, .source = source, .block = block, .expert = expert};
    tile.offset = l->weight + expert * b->expert_floats;
    tiles_add(s, tile, l->conv1d ? l->in : l->out, l->conv1d ? l->out : l->in);
}

static void tiles_add_block(stage *s, uint32_t block) {
    tiles_add_linear(s, block, SOURCE_QKV, 0);
    tiles_add_linear(s, block, SOURCE_O, 0);
    if (!s->row->mixture) {
        tiles_add_linear(s, block, SOURCE_UP, 0);
        tiles_add_linear(s, block, SOURCE_DOWN, 0);
        return;
    }
    tiles_add_linear(s, block, SOURCE_ROUTER, 0);
    for (uint32_t expert = 0; expert < s->config.experts; expert++) {
        tiles_add_linear(s, block, SOURCE_EXPERT_UP, expert);
        tiles_add_linear(s, block, SOURCE_EXPERT_DOWN, expert);
    }
}

static void tiles_list(stage *s) {
    const model_config *c = &s->config;
    s->tile_count = 0;
    for (uint32_t block = 0; block < s->layout.blocks; block++) tiles_add_block(s, block);
    s->block_tiles = s->layout.blocks ? s->tile_count / s->layout.blocks : 0;
    if (!s->shape.ends) return;
    tiles_add(s, (gradient_tile){.kind = TILE_HEAD, .offset = s->layout.head}, c->vocab, c->dim);
    if (!c->tied)
        tiles_add(s, (gradient_tile){.kind = TILE_EMBEDDING, .offset = s->layout.embedding}, c->vocab, c->dim);
    if (s->row->learned_positions)
        tiles_add(s, (gradient_tile){.kind = TILE_POSITIONS, .offset = s->layout.positions}, c->context, c->dim);
}

braid_err tiles_new(stage *s, braid_error *error) {
    tiles_list(s);
    s->tiles = calloc(s->tile_count ? s->tile_count : 1, sizeof *s->tiles);
    if (!s->tiles) return braid_fail(error, BRAID_MEMORY, "no memory for %zu gradient tiles", s->tile_count);
    tiles_list(s);
    size_t wanted = (size_t)TILES_A_THREAD * tensor_pool_threads(s->pool);
    if (s->layout.blocks) s->blocks_at_once = (uint32_t)size_pieces(wanted, s->block_tiles);
    return BRAID_OK;
}

size_t tiles_scratch_floats(const stage *s) {
    const model_config *c = &s->config;
    size_t most = 0;
    for (size_t i = 0; i < s->tile_count; i++) {
        const gradient_tile *t = &s->tiles[i];
        size_t rows = t->last - t->first, cols = c->dim;
        if (t->kind == TILE_LINEAR) {
            const layout_linear *l = block_linear(&s->layout.block[t->block], t->source);
            cols = l->conv1d ? l->out : l->in;
        }
        size_t floats = size_up(rows * cols, TILE_ROWS_STEP);
        if (t->kind == TILE_HEAD) floats = s->shape.recompute ? floats + head_recompute_floats(s) : 0;
        if (floats > most) most = floats;
    }
    return size_up(most, TILE_ROWS_STEP);
}

typedef struct tiles_job {
    stage *s;
    const stash_view *v;
    const stage_sink *sink;
    size_t first;  // tile
} tiles_job;

static stage_operands operands_of(const stage *s, const block_memory *m, const gradient_tile *t) {
    switch (t->source) {
    case SOURCE_QKV: return (stage_operands){m->normed1, m->qkv, s->rows};
    case SOURCE_O: return (stage_operands){m->attention, m->post1 ? m->post1 : m->middle, s->rows};
    case SOURCE_UP: return (stage_operands){m->normed2, m->up, s->rows};
    case SOURCE_DOWN: return (stage_operands){m->act, m->post2 ? m->post2 : m->x, s->rows};
    case SOURCE_ROUTER: return (stage_operands){m->normed2, m->router, s->rows};
    default: break;
    }
    size_t first = m->begin[t->expert], rows = m->begin[t->expert + 1] - first;
    if (t->source == SOURCE_EXPERT_UP)
        return (stage_operands){m->gathered + first * s->config.dim, m->up + first * s->up_dim, rows};
    return (stage_operands){m->act + first * s->act_dim, m->gathered_dy + first * s->config.dim, rows};
}

stage_operands stage_linear_operands(const stage *s, const stash_view *v, uint32_t block, tile_source source) {
    block_memory m = stage_block_memory(s, &v->body, block);
    return operands_of(s, &m, &(gradient_tile){.source = (uint8_t)source});
}

static void linear_tile(const tiles_job *job, const gradient_tile *t, float *gradient) {
    const stage *s = job->s;
    const layout_linear *l = block_linear(&s->layout.block[t->block], t->source);
    block_memory m = stage_block_memory(s, &job->v->body, t->block);
    stage_operands o = operands_of(s, &m, t);
    tensor_gemm g = {.m = t->last - t->first, .k = o.rows, .c = gradient, .fastest = s->shape.fastest};
    if (l->conv1d) {
        g.a = tensor_transposed(o.x + t->first, l->in);
        g.b = tensor_plain(o.dy, l->out);
    } else {
        g.a = tensor_transposed(o.dy + t->first, l->out);
        g.b = tensor_plain(o.x, l->in);
    }
    g.n = g.c_stride = g.b.stride;
    if (o.rows > 0)
        tensor_gemm_tile(&g);
    else  // an expert that no row uses
        memset(gradient, 0, g.m * g.n * sizeof *gradient);
}

// The gradient of the head's rows: computed with the loss, or here.
static float *head_tile(const tiles_job *job, const gradient_tile *t, float *scratch) {
    stage *s = job->s;
    size_t dim = s->config.dim;
    if (job->v->d_head) return job->v->d_head + t->first * dim;
    size_t floats = size_up((t->last - t->first) * dim, TILE_ROWS_STEP);
    head_recompute_tile(s, job->v, t->first / s->head.cols, scratch + floats, scratch);
    return scratch;
}

// A tied head's gradient includes that of the embedding.
static float *ends_tile(const tiles_job *job, const gradient_tile *t, float *scratch) {
    const stage *s = job->s;
    tensor_embedding e = {.rows = s->rows,
                          .dim = s->config.dim,
                          .sequence = s->shape.tokens,
                          .tokens = job->v->tokens,
                          .scale = s->config.embedding_scale};
    const float *dy = job->v->body.d_embedding;
    if (t->kind == TILE_POSITIONS) {
        tensor_position_gradient(&e, dy, t->first, t->last, scratch);
        return scratch;
    }
    float *gradient = t->kind == TILE_HEAD ? head_tile(job, t, scratch) : scratch;
    if (t->kind == TILE_EMBEDDING) memset(gradient, 0, (t->last - t->first) * e.dim * sizeof *gradient);
    if (t->kind == TILE_EMBEDDING || s->config.tied) tensor_embedding_gradient(&e, dy, t->first, t->last, gradient);
    return gradient;
}

static void tile_task(void *context, size_t index) {
    const tiles_job *job = context;
    const stage *s = job->s;
    const gradient_tile *t = &s->tiles[job->first + index];
    const stage_sink *sink = job->sink;
    float *gradient = s->tile_scratch + tensor_pool_slot() * s->tile_floats;
    size_t cols = s->config.dim;
    if (t->kind == TILE_LINEAR) {
        const layout_linear *l = block_linear(&s->layout.block[t->block], t->source);
        cols = l->conv1d ? l->out : l->in;
        float *place = sink->place ? sink->place(sink->context, t->offset) : NULL;
        linear_tile(job, t, place ? place : gradient);
        if (place) return;
    } else {
        gradient = ends_tile(job, t, gradient);
    }
    sink->take(sink->context, t->offset, gradient, (t->last - t->first) * cols);
}

void tiles_run_blocks(stage *s, const stash_view *v, uint32_t first, uint32_t end, const stage_sink *sink) {
    tiles_job job = {s, v, sink, first * s->block_tiles};
    tensor_pool_run(s->pool, (end - first) * s->block_tiles, tile_task, &job);
}

void tiles_run_ends(stage *s, const stash_view *v, const stage_sink *sink) {
    tiles_job job = {s, v, sink, s->layout.blocks * s->block_tiles};
    tensor_pool_run(s->pool, s->tile_count - job.first, tile_task, &job);
}

void tiles_run_ends_in(stage *s, const stash_view *v, size_t first, size_t end, const stage_sink *sink) {
    size_t dim = s->config.dim;
    for (size_t i = s->layout.blocks * s->block_tiles, last; i < s->tile_count; i = last) {
        const gradient_tile *t = &s->tiles[i];
        last = i + 1;
        if (t->offset >= end || t->offset + (t->last - t->first) * dim <= first) continue;
        while (last < s->tile_count && s->tiles[last].offset >= t->offset && s->tiles[last].offset < end) last++;
        tiles_job job = {s, v, sink, i};
        tensor_pool_run(s->pool, last - i, tile_task, &job);
    }
}
