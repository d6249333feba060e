// Softmax attention, a block of queries at a time: each block sees its own keys and all before it, so the scores of a
// block are complete rows, nothing above the diagonal's block is computed, and scratch memory does not grow with the
// square of the sequence. The gradient computes the scores again instead of keeping them.
#include "tensor/cpu/wide.h"
#include "tensor/gemm.h"
#include "tensor/kernels.h"

#include <math.h>

enum { QUERY_BLOCK = 64 };

typedef struct attention_job {
    const tensor_attention *a;
    float *qkv;
    const float *out_in, *d_out;
    float *out;
    size_t score_stride, thread_floats;
} attention_job;

static size_t round_up(size_t count) { return (count + LANES - 1) / LANES * LANES; }

static size_t block_rows(const tensor_attention *a) { return a->tokens < QUERY_BLOCK ? a->tokens : QUERY_BLOCK; }

static size_t row_width(const tensor_attention *a) { return (a->heads + 2 * a->kv_heads) * a->width; }

size_t tensor_attention_scratch(const tensor_attention *a) {
    size_t scores = block_rows(a) * round_up(a->tokens);
    return 2 * scores + 2 * round_up(a->tokens * a->width);
}

static attention_job attention_job_of(const tensor_attention *a) {
    return (attention_job){.a = a, .score_stride = round_up(a->tokens), .thread_floats = tensor_attention_scratch(a)};
}

// Scores of query `i` against keys 0 .. i become probabilities; the rest of the row, up to a multiple of the lanes, zero.
TENSOR_WIDE
static void softmax_row(float *row, size_t seen, size_t padded, float scale, float *maximum, float *inverse) {
    for (size_t j = seen; j < padded; j++) row[j] = -INFINITY;
    lanes top, v;
    lanes_load(&top, row);
    for (size_t j = LANES; j < padded; j += LANES) {
        lanes_load(&v, row + j);
        for (size_t l = 0; l < LANES; l++) top[l] = v[l] > top[l] ? v[l] : top[l];
    }
    float most = top[0];
    for (size_t l = 1; l < LANES; l++) most = top[l] > most ? top[l] : most;
    for (size_t j = 0; j < padded; j++) row[j] = wide_exp((row[j] - most) * scale);
    float inv = 1.0f / lanes_sum(row, padded);
    for (size_t j = 0; j < padded; j++) row[j] *= inv;
    *maximum = most;
    *inverse = inv;
}

// Probabilities once more from scores, then the gradient of the scores in place of `d_row`, which holds that of the
// probabilities. delta = sum of d_row * probabilities = d_out . out.
TENSOR_WIDE
static void score_gradient_row(float *row, float *d_row, size_t seen, size_t padded, float scale, float maximum,
                               float inverse, float delta) {
    for (size_t j = seen; j < padded; j++) row[j] = -INFINITY;
    for (size_t j = 0; j < padded; j++) {
        float p = wide_exp((row[j] - maximum) * scale) * inverse;
        row[j] = p;
        d_row[j] = p * (d_row[j] - delta) * scale;
    }
    for (size_t j = seen; j < padded; j++) d_row[j] = 0.0f;
}

TENSOR_WIDE
static float row_dot(const float *x, const float *y, size_t count) { return lanes_dot(x, y, count); }

static void attend_head(const attention_job *job, size_t sequence, size_t head) {
    const tensor_attention *a = job->a;
    size_t width = a->width, stride = row_width(a), out_stride = a->heads * width, ld = job->score_stride;
    float *scores = a->scratch + tensor_pool_slot() * job->thread_floats;
    const float *q = job->qkv + sequence * a->tokens * stride + head * width;
    const float *k = job->qkv + sequence * a->tokens * stride + (a->heads + head / (a->heads / a->kv_heads)) * width;
    const float *v = k + a->kv_heads * width;
    float *out = job->out + sequence * a->tokens * out_stride + head * width;
    size_t kept = (sequence * a->heads + head) * a->tokens;
    float scale = 1.0f / sqrtf((float)width);
    for (size_t from = 0; from < a->tokens; from += QUERY_BLOCK) {
        size_t to = from + QUERY_BLOCK < a->tokens ? from + QUERY_BLOCK : a->tokens;
        tensor_gemm_tile(&(tensor_gemm){to - from, to, width, tensor_plain(q + from * stride, stride),
                                        tensor_transposed(k, stride), scores, ld, GEMM_SET});
        for (size_t i = from; i < to; i++)
            softmax_row(scores + (i - from) * ld, i + 1, round_up(to), scale, &a->maximum[kept + i],
                        &a->inverse[kept + i]);
        tensor_gemm_tile(&(tensor_gemm){to - from, width, to, tensor_plain(scores, ld), tensor_plain(v, stride),
                                        out + from * out_stride, out_stride, GEMM_SET});
    }
}

static void forward_task(void *context, size_t index) {
    const attention_job *job = context;
    attend_head(job, index / job->a->heads, index % job->a->heads);
}

void tensor_attention_forward(tensor_pool *pool, const tensor_attention *a, const float *qkv, float *out) {
    attention_job job = attention_job_of(a);
    job.out = out;
    job.qkv = (float *)(uintptr_t)qkv;  // only read here
    tensor_pool_run(pool, a->sequences * a->heads, forward_task, &job);
}

// What one query head adds to the gradients of its keys and values; its queries are replaced by their gradient.
typedef struct head_gradient {
    float *scores, *d_scores, *d_k, *d_v;  // scratch; d_k and d_v: [tokens, width]
    float *q;
    const float *k, *v, *out, *d_out;
    size_t kept;
} head_gradient;

static void gradient_block(const attention_job *job, const head_gradient *h, size_t from, size_t to) {
    const tensor_attention *a = job->a;
    size_t width = a->width, stride = row_width(a), out_stride = a->heads * width, ld = job->score_stride,
           rows = to - from;
    const float *d_out = h->d_out + from * out_stride;
    float *q = h->q + from * stride, scale = 1.0f / sqrtf((float)width);
    tensor_gemm_tile(&(tensor_gemm){rows, to, width, tensor_plain(q, stride), tensor_transposed(h->k, stride),
                                    h->scores, ld, GEMM_SET});
    tensor_gemm_tile(&(tensor_gemm){rows, to, width, tensor_plain(d_out, out_stride), tensor_transposed(h->v, stride),
                                    h->d_scores, ld, GEMM_SET});
    for (size_t i = from; i < to; i++) {
        float delta = row_dot(h->d_out + i * out_stride, h->out + i * out_stride, width);
        score_gradient_row(h->scores + (i - from) * ld, h->d_scores + (i - from) * ld, i + 1, round_up(to), scale,
                           a->maximum[h->kept + i], a->inverse[h->kept + i], delta);
    }
    tensor_gemm_tile(&(tensor_gemm){to, width, rows, tensor_transposed(h->scores, ld), tensor_plain(d_out, out_stride),
                                    h->d_v, width, GEMM_ADD});
    tensor_gemm_tile(&(tensor_gemm){to, width, rows, tensor_transposed(h->d_scores, ld), tensor_plain(q, stride),
                                    h->d_k, width, GEMM_ADD});
    tensor_gemm_tile(&(tensor_gemm){rows, width, to, tensor_plain(h->d_scores, ld), tensor_plain(h->k, stride), q,
                                    stride, GEMM_SET});
}

// All query heads of one key head, in order, so that the sums over a group never depend on threads.
static void gradient_task(void *context, size_t index) {
    const attention_job *job = context;
    const tensor_attention *a = job->a;
    size_t sequence = index / a->kv_heads, kv = index % a->kv_heads, group = a->heads / a->kv_heads;
    size_t width = a->width, stride = row_width(a), tokens = a->tokens, row = sequence * tokens;
    float *k = job->qkv + row * stride + (a->heads + kv) * width, *v = k + a->kv_heads * width;
    head_gradient h = {.k = k, .v = v, .scores = a->scratch + tensor_pool_slot() * job->thread_floats};
    h.d_scores = h.scores + block_rows(a) * job->score_stride;
    h.d_k = h.d_scores + block_rows(a) * job->score_stride;
    h.d_v = h.d_k + round_up(tokens * width);
    memset(h.d_k, 0, 2 * round_up(tokens * width) * sizeof *h.d_k);
    for (size_t head = kv * group; head < (kv + 1) * group; head++) {
        h.q = job->qkv + row * stride + head * width;
        h.out = job->out_in + row * a->heads * width + head * width;
        h.d_out = job->d_out + row * a->heads * width + head * width;
        h.kept = (sequence * a->heads + head) * tokens;
        for (size_t from = 0; from < tokens; from += QUERY_BLOCK)
            gradient_block(job, &h, from, from + QUERY_BLOCK < tokens ? from + QUERY_BLOCK : tokens);
    }
    for (size_t t = 0; t < tokens; t++) {
        memcpy(k + t * stride, h.d_k + t * width, width * sizeof *k);
        memcpy(v + t * stride, h.d_v + t * width, width * sizeof *v);
    }
}

void tensor_attention_input_gradient(tensor_pool *pool, const tensor_attention *a, float *qkv, const float *out,
                                     const float *d_out) {
    attention_job job = attention_job_of(a);
    job.qkv = qkv;
    job.out_in = out;
    job.d_out = d_out;
    tensor_pool_run(pool, a->sequences * a->kv_heads, gradient_task, &job);
}
