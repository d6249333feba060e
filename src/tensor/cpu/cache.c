// Attention over a cache of keys and values (cache.h).
#include "tensor/cache.h"

#include "tensor/cpu/q_format.h"
#include "tensor/cpu/wide.h"
#include "tensor/sizes.h"

#include <math.h>
#include <string.h>

enum { QUERY_ROWS = 8, PUT_ROWS = 32 };

size_t tensor_cache_bytes(const tensor_cache *c) {
    return c->kv_heads * c->positions * c->width * (c->half ? sizeof(uint16_t) : sizeof(float));
}

typedef struct put_job {
    const tensor_cache *c;
    const float *keys, *values;
    size_t first, stride;
} put_job;

static void put_one(const tensor_cache *c, void *at, size_t i, float x) {
    if (c->half)
        ((uint16_t *)at)[i] = q_to_half(x);
    else
        ((float *)at)[i] = x;
}

static float get_one(const tensor_cache *c, const void *at, size_t i) {
    return c->half ? q_half(((const uint16_t *)at)[i]) : ((const float *)at)[i];
}

static size_t key_at(const tensor_cache *c, size_t head, size_t t, size_t i) {
    return ((head * (c->positions / CACHE_TILE) + t / CACHE_TILE) * c->width + i) * CACHE_TILE + t % CACHE_TILE;
}

static size_t value_at(const tensor_cache *c, size_t head, size_t t) { return (head * c->positions + t) * c->width; }

void tensor_cache_put(const tensor_cache *c, size_t first, size_t count, const float *keys, const float *values,
                      size_t stride) {
    for (size_t r = 0; r < count; r++)
        for (size_t head = 0; head < c->kv_heads; head++)
            for (size_t i = 0; i < c->width; i++) {
                size_t from = r * stride + head * c->width + i;
                put_one(c, c->keys, key_at(c, head, first + r, i), keys[from]);
                put_one(c, c->values, value_at(c, head, first + r) + i, values[from]);
            }
}

typedef struct attend_job {
    const tensor_cache_attention *a;
    const float *queries;
    size_t query_stride, first, rows;
    float *out;
    size_t out_stride, scratch;
} attend_job;

size_t tensor_cache_scratch(const tensor_pool *pool, const tensor_cache_attention *a, size_t end) {
    (void)a;
    return tensor_pool_threads(pool) * QUERY_ROWS * size_up(end, CACHE_TILE);
}

static float soften(float score, float cap) {
    if (cap <= 0) return score;
    return cap * (1.0f - 2.0f / (wide_exp(score / cap * 2.0f) + 1.0f));
}

static float score_of(const attend_job *job, const float *query, size_t head, size_t t) {
    const tensor_cache *c = job->a->cache;
    float sum = 0;
    for (size_t i = 0; i < c->width; i++) sum = fmaf(query[i], get_one(c, c->keys, key_at(c, head, t, i)), sum);
    return soften(sum * job->a->scale, job->a->cap);
}

// Scores of positions [from, end) become exponentials; returns 1 / their sum.
static float exponentials(float *scores, size_t from, size_t end) {
    float top = scores[from], lane[LANES] = {0};
    for (size_t t = from; t < end; t++) top = scores[t] > top ? scores[t] : top;
    for (size_t t = from; t < end; t++) {
        scores[t] = wide_exp(scores[t] - top);
        lane[t % LANES] += scores[t];
    }
    lanes sums;
    lanes_load(&sums, lane);
    return 1.0f / lanes_add(&sums);
}

static void attend_row(const attend_job *job, size_t head, size_t row, float *scores) {
    const tensor_cache_attention *a = job->a;
    const tensor_cache *c = a->cache;
    size_t kv = head / (a->heads / c->kv_heads), end = job->first + row + 1;
    size_t from = a->window > 0 && end > a->window ? end - a->window : 0;
    const float *query = job->queries + row * job->query_stride + head * c->width;
    float *out = job->out + row * job->out_stride + head * c->width;
    for (size_t t = from; t < end; t++) scores[t] = score_of(job, query, kv, t);
    float inverse = exponentials(scores, from, end);
    for (size_t i = 0; i < c->width; i++) {
        float all = 0;
        for (size_t t = from; t < end;) {
            float sum = 0;
            size_t stop = size_least(t / CACHE_BLOCK * CACHE_BLOCK + CACHE_BLOCK, end);
            for (; t < stop; t++) sum = fmaf(scores[t], get_one(c, c->values, value_at(c, kv, t) + i), sum);
            all += sum;
        }
        out[i] = all * inverse;
    }
}

static void attend_task(void *context, size_t index) {
    const attend_job *job = context;
    float *scores = job->a->scratch + tensor_pool_slot() * job->scratch;
    size_t head = index % job->a->heads, first = index / job->a->heads * QUERY_ROWS;
    for (size_t row = first; row < first + QUERY_ROWS && row < job->rows; row++) attend_row(job, head, row, scores);
}

void tensor_cache_attend(tensor_pool *pool, const tensor_cache_attention *a, const float *queries, size_t query_stride,
                         size_t first, size_t rows, float *out, size_t out_stride) {
    attend_job job = {a, queries, query_stride, first, rows, out, out_stride, 0};
    job.scratch = QUERY_ROWS * size_up(first + rows, CACHE_TILE);
    tensor_pool_run(pool, size_pieces(rows, QUERY_ROWS) * a->heads, attend_task, &job);
}
