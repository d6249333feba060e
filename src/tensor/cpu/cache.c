// Attention over a cache of keys and values (cache.h): groups of up to CACHE_ROWS queries of one key
// head, which share reads of keys and values.
#include "tensor/cache.h"

#include "tensor/cpu/cache_kernels.h"
#include "tensor/cpu/q_format.h"
#include "tensor/cpu/wide.h"
#include "tensor/kernels.h"
#include "tensor/sizes.h"

#include <math.h>
#include <string.h>

static size_t number_bytes(const tensor_cache *c) { return c->half ? sizeof(uint16_t) : sizeof(float); }

size_t tensor_cache_bytes(const tensor_cache *c) { return c->kv_heads * CACHE_PAGE * c->width * number_bytes(c); }

// Where numbers of a position are: the first of its keys, and of its values.
static void *key_at(const tensor_cache *c, size_t head, size_t t) {
    size_t tile = head * (CACHE_PAGE / CACHE_TILE) + t % CACHE_PAGE / CACHE_TILE;
    size_t at = tile * c->width * CACHE_TILE + t % CACHE_TILE;
    return (char *)c->pages[t / CACHE_PAGE] + c->keys_at + at * number_bytes(c);
}

static void *value_at(const tensor_cache *c, size_t head, size_t t) {
    size_t at = (head * CACHE_PAGE + t % CACHE_PAGE) * c->width;
    return (char *)c->pages[t / CACHE_PAGE] + c->values_at + at * number_bytes(c);
}

static void put_halves(const tensor_cache *c, size_t head, size_t t, const float *key, const float *value) {
    uint16_t *keys = key_at(c, head, t), *values = value_at(c, head, t);
    for (size_t i = 0; i < c->width; i++) keys[i * CACHE_TILE] = q_to_half(key[i]);
    for (size_t i = 0; i < c->width; i++) values[i] = q_to_half(value[i]);
}

static void put_floats(const tensor_cache *c, size_t head, size_t t, const float *key, const float *value) {
    float *keys = key_at(c, head, t);
    for (size_t i = 0; i < c->width; i++) keys[i * CACHE_TILE] = key[i];
    memcpy(value_at(c, head, t), value, c->width * sizeof *value);
}

void tensor_cache_put(const tensor_cache *c, size_t first, size_t count, const float *keys, const float *values,
                      size_t stride) {
    for (size_t head = 0; head < c->kv_heads; head++)
        for (size_t r = 0; r < count; r++) {
            const float *key = keys + r * stride + head * c->width, *value = values + r * stride + head * c->width;
            if (c->half)
                put_halves(c, head, first + r, key, value);
            else
                put_floats(c, head, first + r, key, value);
        }
}

// --- a group of queries

typedef struct attend_job {
    const cache_kernels *kernels;
    const cache_call *call;
    size_t shared;  // query heads of a task: all of a key head, or one
    size_t positions, score_stride, sum_stride, scratch;
} attend_job;

// The queries of a group: positions in ascending order, and heads within a position.
typedef struct group {
    size_t rows, kv_head;
    size_t from[CACHE_ROWS], end[CACHE_ROWS];  // the positions that a row sees
    const float *queries[CACHE_ROWS];
    float *out[CACHE_ROWS];
    float *packed, *scores, *sums,
        *totals;  // [width, CACHE_ROWS], [CACHE_ROWS, score_stride], [CACHE_ROWS, sum_stride]
} group;

static size_t floats_per_thread(const tensor_cache_attention *a, size_t end) {
    size_t sums = size_up(a->cache->width, CACHE_TILE);
    return CACHE_ROWS * (size_up(end, CACHE_TILE) + 3 * sums);
}

size_t tensor_cache_scratch(const tensor_pool *pool, const tensor_cache_attention *a, size_t end) {
    return tensor_pool_threads(pool) * floats_per_thread(a, end);
}

static group group_at(const attend_job *job, size_t head, size_t row, size_t rows) {
    const cache_call *call = job->call;
    const tensor_cache_attention *a = call->a;
    size_t width = a->cache->width;
    group g = {.rows = rows, .kv_head = head / (a->heads / a->cache->kv_heads)};
    for (size_t r = 0; r < rows; r++) {
        size_t at = (row + r) / job->shared, h = head + (row + r) % job->shared;
        g.end[r] = call->first + at + 1;
        g.from[r] = a->window > 0 && g.end[r] > a->window ? g.end[r] - a->window : 0;
        g.queries[r] = call->queries + at * call->query_stride + h * width;
        g.out[r] = call->out + at * call->out_stride + h * width;
    }
    float *scratch = a->scratch + tensor_pool_slot() * job->scratch;
    g.sums = scratch;
    g.totals = g.sums + CACHE_ROWS * job->sum_stride;
    g.packed = g.totals + CACHE_ROWS * job->sum_stride;
    g.scores = g.packed + CACHE_ROWS * job->sum_stride;
    return g;
}

static size_t page_end(size_t t) { return (t / CACHE_PAGE + 1) * CACHE_PAGE; }

// scores[row, t] for all t that any row sees, in whole tiles.
static void compute_scores(const attend_job *job, const group *g) {
    const tensor_cache *c = job->call->a->cache;
    size_t t = g->from[0] / CACHE_TILE * CACHE_TILE, end = g->end[g->rows - 1];
    for (size_t r = 0; r < CACHE_ROWS; r++)
        for (size_t i = 0; i < c->width; i++) g->packed[i * CACHE_ROWS + r] = r < g->rows ? g->queries[r][i] : 0;
    cache_scores s = {.rows = g->rows, .width = c->width, .queries = g->packed, .stride = job->score_stride};
    for (size_t next; t < end; t = next) {
        next = size_least(page_end(t), end);
        s.tiles = size_pieces(next - t, CACHE_TILE);
        s.keys = key_at(c, g->kv_head, t);
        s.scores = g->scores + t;
        job->kernels->scores[c->half](&s);
    }
}

LANES_INLINE void soften(lanes *x, float cap) {
    LANES_EACH(h) x->part[h] = x->part[h] / cap * 2.0f;
    lanes_exp(x);
    LANES_EACH(h) x->part[h] = cap * (1.0f - 2.0f / (x->part[h] + 1.0f));
}

static void hide(float *scores, size_t from, size_t end) {
    for (size_t t = from; t < end; t++) scores[t] = -INFINITY;
}

// Chains become exponentials, zero in the same tiles where the row sees nothing; returns 1 / their
// sum.
TENSOR_WIDE
static float exponentials(float *scores, size_t from, size_t end, float scale, float cap) {
    size_t first = from / CACHE_TILE * CACHE_TILE, last = size_up(end, CACHE_TILE);
    lanes top, sum = {{{0}}}, x;
    for (size_t t = first; t < last; t += LANES) {
        lanes_load(&x, scores + t);
        LANES_EACH(h) x.part[h] = x.part[h] * scale;
        if (cap > 0) soften(&x, cap);
        lanes_store(scores + t, &x);
    }
    hide(scores, first, from);
    hide(scores, end, last);
    lanes_load(&top, scores + first);
    for (size_t t = first + LANES; t < last; t += LANES) {
        lanes_load(&x, scores + t);
        lanes_raise(&top, &x);
    }
    float tops[LANES], largest = -INFINITY;
    lanes_store(tops, &top);
    for (size_t i = 0; i < LANES; i++) largest = tops[i] > largest ? tops[i] : largest;
    for (size_t t = first; t < last; t += LANES) {
        lanes_load(&x, scores + t);
        LANES_EACH(h) x.part[h] = x.part[h] - largest;
        lanes_exp(&x);
        lanes_store(scores + t, &x);
        LANES_EACH(h) sum.part[h] += x.part[h];
    }
    return 1.0f / lanes_add(&sum);
}

// Continues the chains of rows [row, row + rows) with positions [from, end).
static void continue_chains(const attend_job *job, const group *g, size_t row, size_t rows, size_t from, size_t end) {
    const tensor_cache *c = job->call->a->cache;
    cache_values v = {.rows = rows, .width = c->width, .stride = job->score_stride, .sum_stride = job->sum_stride};
    v.sums = g->sums + row * job->sum_stride;
    for (size_t t = from, next; t < end; t = next) {
        next = size_least(page_end(t), end);
        v.count = next - t;
        v.weights = g->scores + row * job->score_stride + t;
        v.values = value_at(c, g->kv_head, t);
        job->kernels->values[c->half](&v);
    }
}

// Adds the chains of positions [block, stop): what only some rows see, row by row, before and after
// what all see.
static void add_block(const attend_job *job, const group *g, size_t block, size_t stop) {
    size_t last = g->rows - 1, floats = g->rows * job->sum_stride;
    size_t from = size_clamp(g->from[last], block, stop), end = size_clamp(g->end[0], from, stop);
    memset(g->sums, 0, floats * sizeof *g->sums);
    for (size_t r = 0; r < g->rows; r++)
        continue_chains(job, g, r, 1, size_clamp(g->from[r], block, from), size_clamp(g->end[r], block, from));
    continue_chains(job, g, 0, g->rows, from, end);
    for (size_t r = 0; r < g->rows; r++)
        continue_chains(job, g, r, 1, size_clamp(g->from[r], end, stop), size_clamp(g->end[r], end, stop));
    tensor_add(g->totals, g->sums, floats);
}

static void attend_group(const attend_job *job, const group *g) {
    const tensor_cache_attention *a = job->call->a;
    float inverses[CACHE_ROWS];
    compute_scores(job, g);
    for (size_t r = 0; r < g->rows; r++)
        inverses[r] = exponentials(g->scores + r * job->score_stride, g->from[r], g->end[r], a->scale, a->cap);
    memset(g->totals, 0, g->rows * job->sum_stride * sizeof *g->totals);
    size_t end = g->end[g->rows - 1];
    for (size_t block = g->from[0] / CACHE_BLOCK * CACHE_BLOCK; block < end; block += CACHE_BLOCK)
        add_block(job, g, block, size_least(block + CACHE_BLOCK, end));
    for (size_t r = 0; r < g->rows; r++)
        for (size_t i = 0; i < a->cache->width; i++) g->out[r][i] = g->totals[r * job->sum_stride + i] * inverses[r];
}

// --- all queries

static void attend_task(void *context, size_t index) {
    const attend_job *job = context;
    size_t tasks = job->call->a->heads / job->shared, head = index % tasks * job->shared;
    size_t first = index / tasks * job->positions, last = size_least(first + job->positions, job->call->rows);
    for (size_t row = first * job->shared; row < last * job->shared; row += CACHE_ROWS) {
        group g = group_at(job, head, row, size_least(CACHE_ROWS, last * job->shared - row));
        attend_group(job, &g);
    }
}

// Positions of a task: a multiple of CACHE_ROWS, so that groups are full.
enum { TASK_POSITIONS = 4 * CACHE_ROWS, TASKS_PER_THREAD = 4 };

void cache_attend_by(const cache_kernels *kernels, tensor_pool *pool, const cache_call *call) {
    const tensor_cache_attention *a = call->a;
    size_t threads = tensor_pool_threads(pool), end = call->first + call->rows;
    attend_job job = {.kernels = kernels, .call = call, .positions = TASK_POSITIONS};
    job.shared = a->heads / a->cache->kv_heads;
    job.score_stride = size_up(end, CACHE_TILE);
    job.sum_stride = size_up(a->cache->width, CACHE_TILE);
    job.scratch = floats_per_thread(a, end);
    bool few = size_pieces(call->rows, TASK_POSITIONS) * a->cache->kv_heads < TASKS_PER_THREAD * threads;
    if (few && threads > 1) {
        job.positions = CACHE_ROWS;
        job.shared = 1;
    }
    tensor_pool_run(pool, size_pieces(call->rows, job.positions) * (a->heads / job.shared), attend_task, &job);
}

void tensor_cache_attend(tensor_pool *pool, const tensor_cache_attention *a, const float *queries, size_t query_stride,
                         size_t first, size_t rows, float *out, size_t out_stride) {
    cache_call call = {a, queries, query_stride, first, rows, out, out_stride};
    cache_attend_by(cache_kernels_here(), pool, &call);
}
