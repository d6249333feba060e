// Softmax attention in blocks (Dao et al. 2022): some queries against some keys at a time, so that scores never leave the
// first caches, scratch memory grows with the sequence and not with its square, and no block above the diagonal is made.
// The gradient makes the scores again.
//
// Scores lie transposed, a row for each key and a column for each query of the block: what softmax needs of a query (largest
// score, sum, factors) is then a column, one operation on neighbouring numbers, and every sum over keys has one order on
// every machine. The products are those of gemm_kernels.h.
#include "tensor/cpu/gemm_kernels.h"
#include "tensor/cpu/wide.h"
#include "tensor/kernels.h"

#include <math.h>

enum { QUERIES = PANEL_COLS, KEYS = 128 };

// Scratch of one thread; widths are padded to whole panels.
typedef struct attention_scratch {
    float *k, *v;                          // [tokens, rows_wide], the padding zero
    float *scores, *d_scores;              // [KEYS, QUERIES]
    float *q_turned, *d_out_turned, *sum;  // [rows_wide, QUERIES]
    float *q, *d_out;                      // [QUERIES, cols_wide] in panels of columns
    float *d_k, *d_v;                      // [tokens, cols_wide]
} attention_scratch;

typedef struct attention_job {
    const tensor_attention *a;
    const gemm_kernels *kernels;
    float *qkv;
    const float *out_in, *d_out;
    float *out;
    size_t thread_floats;
    size_t stride, out_stride;  // of a row
    size_t rows_wide, cols_wide;
    float scale;
} attention_job;

static size_t round_up(size_t count, size_t step) { return (count + step - 1) / step * step; }

static size_t least(size_t a, size_t b) { return a < b ? a : b; }

static float *take(float *base, size_t *used, size_t count) {
    float *piece = base ? base + *used : NULL;
    *used += round_up(count, LANES);
    return piece;
}

// With base NULL it only measures.
static attention_scratch scratch_cut(const tensor_attention *a, float *base, size_t *used) {
    size_t tokens = round_up(a->tokens, PANEL_ROWS), rows = round_up(a->width, PANEL_ROWS),
           cols = round_up(a->width, PANEL_STEP);
    attention_scratch s;
    *used = 0;
    s.k = take(base, used, tokens * rows);
    s.v = take(base, used, tokens * rows);
    s.scores = take(base, used, KEYS * QUERIES);
    s.d_scores = take(base, used, KEYS * QUERIES);
    s.q_turned = take(base, used, rows * QUERIES);
    s.d_out_turned = take(base, used, rows * QUERIES);
    s.sum = take(base, used, rows * QUERIES);
    s.q = take(base, used, QUERIES * cols);
    s.d_out = take(base, used, QUERIES * cols);
    s.d_k = take(base, used, tokens * cols);
    s.d_v = take(base, used, tokens * cols);
    return s;
}

size_t tensor_attention_scratch(const tensor_attention *a) {
    size_t floats;
    scratch_cut(a, NULL, &floats);
    return floats;
}

static attention_job attention_job_of(const tensor_attention *a) {
    return (attention_job){.a = a,
                           .kernels = gemm_kernels_here(),
                           .thread_floats = tensor_attention_scratch(a),
                           .stride = (a->heads + 2 * a->kv_heads) * a->width,
                           .out_stride = a->heads * a->width,
                           .rows_wide = round_up(a->width, PANEL_ROWS),
                           .cols_wide = round_up(a->width, PANEL_STEP),
                           .scale = 1.0f / sqrtf((float)a->width)};
}

static attention_scratch scratch_here(const attention_job *job) {
    size_t floats;
    return scratch_cut(job->a, job->a->scratch + tensor_pool_slot() * job->thread_floats, &floats);
}

// --- moving

// to[padded_rows, padded_width] from[rows, width], the rest zero.
static void copy_padded(const attention_job *job, const float *from, size_t stride, size_t rows, size_t width,
                        float *to, size_t padded_rows, size_t padded_width) {
    size_t done = width / PANEL_ROWS * PANEL_ROWS;
    job->kernels->copy(from, stride, rows, done / PANEL_ROWS, to, PANEL_ROWS, padded_width);
    for (size_t r = 0; done < padded_width && r < rows; r++)
        for (size_t i = done; i < padded_width; i++) to[r * padded_width + i] = i < width ? from[r * stride + i] : 0.0f;
    memset(to + rows * padded_width, 0, (padded_rows - rows) * padded_width * sizeof *to);
}

// Keys or values, up to whole panels.
static void pack_keys(const attention_job *job, const float *from, float *to) {
    size_t tokens = job->a->tokens;
    copy_padded(job, from, job->stride, tokens, job->a->width, to, round_up(tokens, PANEL_ROWS), job->rows_wide);
}

// to[width, cols] from[rows, width], rows <= cols, the rest zero.
static void turn_queries(const attention_job *job, const float *from, size_t stride, size_t rows, size_t cols,
                         float *to) {
    size_t i = 0, width = job->a->width;
    for (; i + PANEL_ROWS <= rows; i += PANEL_ROWS) job->kernels->turn(from + i * stride, stride, width, to + i, cols);
    for (; i < cols; i++)
        for (size_t d = 0; d < width; d++) to[d * cols + i] = i < rows ? from[i * stride + d] : 0.0f;
}

// And back: to[rows, width] from[width, cols].
static void turn_back(const attention_job *job, const float *from, size_t rows, size_t cols, float *to, size_t stride) {
    size_t d = 0, width = job->a->width;
    for (; d + PANEL_ROWS <= width; d += PANEL_ROWS) job->kernels->turn(from + d * cols, cols, rows, to + d, stride);
    for (; d < width; d++)
        for (size_t i = 0; i < rows; i++) to[i * stride + d] = from[d * cols + i];
}

// Columns of the next panel.
static size_t panel_cols(size_t left) { return PANEL_STEP * gemm_panel_steps(left / PANEL_STEP); }

// to: panels of [cols, some columns] side by side, from[rows, width]; the rest zero.
static void pack_panels(const attention_job *job, const float *from, size_t stride, size_t rows, size_t cols,
                        float *to) {
    size_t width = job->a->width;
    for (size_t at = 0, wide; at < job->cols_wide; at += wide) {
        wide = panel_cols(job->cols_wide - at);
        copy_padded(job, from + at, stride, rows, least(wide, width - at), to + cols * at, cols, wide);
    }
}

// The gradient of keys or values back to where those were.
static void unpack_keys(const attention_job *job, const float *from, float *to) {
    size_t width = job->a->width, done = width / PANEL_ROWS * PANEL_ROWS;
    job->kernels->copy(from, job->cols_wide, job->a->tokens, done / PANEL_ROWS, to, PANEL_ROWS, job->stride);
    for (size_t t = 0; done < width && t < job->a->tokens; t++)
        memcpy(to + t * job->stride + done, from + t * job->cols_wide + done, (width - done) * sizeof *to);
}

// --- products

// c[rows, cols] = a b (+ c), rows a multiple of PANEL_ROWS, cols of one panel.
static void multiply(const attention_job *job, size_t rows, size_t cols, gemm_panel p) {
    for (size_t row = 0; row < rows; row += PANEL_ROWS) {
        job->kernels->product[cols / PANEL_STEP - 1](&p);
        p.a += PANEL_ROWS * p.a_row;
        p.c += PANEL_ROWS * p.c_stride;
    }
}

// Keys [first, first + keys) and queries [from, from + rows), padded to `cols`.
typedef struct attention_block {
    size_t first, keys, padded_keys;
    size_t from, rows, cols;
} attention_block;

// products[padded_keys, cols] of keys or values with turned queries or gradients.
static void score(const attention_job *job, const attention_block *b, const float *k, const float *turned,
                  float *products) {
    multiply(job, b->padded_keys, b->cols,
             (gemm_panel){.depth = job->a->width,
                          .a = k + b->first * job->rows_wide,
                          .a_row = job->rows_wide,
                          .a_step = 1,
                          .b = turned,
                          .c = products,
                          .c_stride = b->cols});
}

// sum[rows_wide, cols] = or += the keys or values, each by its weight for each query.
static void weigh(const attention_job *job, const attention_block *b, const float *v, const float *weights,
                  float *sum) {
    multiply(job, job->rows_wide, b->cols,
             (gemm_panel){.depth = b->keys,
                          .a = v + b->first * job->rows_wide,
                          .a_row = 1,
                          .a_step = job->rows_wide,
                          .b = weights,
                          .c = sum,
                          .c_stride = b->cols,
                          .add = b->first > 0});
}

// d_k[keys, cols_wide] += weights[keys, cols] times packed queries or gradients.
static void weigh_queries(const attention_job *job, const attention_block *b, const float *weights, const float *panels,
                          float *d_k) {
    for (size_t at = 0, wide; at < job->cols_wide; at += wide) {
        wide = panel_cols(job->cols_wide - at);
        multiply(job, b->padded_keys, wide,
                 (gemm_panel){.depth = b->cols,
                              .a = weights,
                              .a_row = b->cols,
                              .a_step = 1,
                              .b = panels + b->cols * at,
                              .c = d_k + b->first * job->cols_wide + at,
                              .c_stride = job->cols_wide,
                              .add = true});
    }
}

// A key after its query is never seen.
static void mask(const attention_block *b, float *scores) {
    for (size_t j = b->first > b->from ? b->first : b->from + 1; j < b->first + b->padded_keys; j++) {
        float *row = scores + (j - b->first) * b->cols;
        for (size_t i = 0; i < least(j - b->from, b->cols); i++) row[i] = -INFINITY;
    }
}

// --- softmax

// Of each query so far: largest score, sum of exponentials, and what the last block of keys made of older sums.
typedef struct softmax {
    float top[QUERIES], sum[QUERIES], factor[QUERIES];
} softmax;

LANES_INLINE void soften_cols(float *restrict x, size_t keys, const size_t cols, float scale, softmax *restrict s) {
    float top[QUERIES], sum[QUERIES];
    for (size_t i = 0; i < cols; i++) top[i] = s->top[i];
    for (size_t j = 0; j < keys; j++)
        for (size_t i = 0; i < cols; i++) top[i] = x[j * cols + i] > top[i] ? x[j * cols + i] : top[i];
    for (size_t i = 0; i < cols; i++) {
        s->factor[i] = wide_exp((s->top[i] - top[i]) * scale);
        sum[i] = s->sum[i] * s->factor[i];
        s->top[i] = top[i];
    }
    for (size_t j = 0; j < keys; j++)
        for (size_t i = 0; i < cols; i++) {
            float p = wide_exp((x[j * cols + i] - top[i]) * scale);
            x[j * cols + i] = p;
            sum[i] += p;
        }
    for (size_t i = 0; i < cols; i++) s->sum[i] = sum[i];
}

// scores[keys, cols] become exponentials.
TENSOR_WIDE
static void soften(float *scores, size_t keys, size_t cols, float scale, softmax *s) {
    switch (cols) {
    case PANEL_STEP: soften_cols(scores, keys, PANEL_STEP, scale, s); break;
    case 2 * PANEL_STEP: soften_cols(scores, keys, 2 * PANEL_STEP, scale, s); break;
    default: soften_cols(scores, keys, QUERIES, scale, s); break;
    }
}

// x[rows, cols], each column by its factor.
TENSOR_WIDE
static void scale_columns(float *restrict x, size_t rows, size_t cols, const float *restrict factor) {
    for (size_t r = 0; r < rows; r++)
        for (size_t i = 0; i < cols; i++) x[r * cols + i] *= factor[i];
}

// Of each query: what forward kept, and d_out . out, the sum of d_scores * probabilities.
typedef struct softmax_kept {
    float top[QUERIES], inverse[QUERIES], delta[QUERIES];
} softmax_kept;

LANES_INLINE void gradient_cols(float *restrict x, float *restrict d, size_t keys, const size_t cols, float scale,
                                const softmax_kept *restrict s) {
    for (size_t j = 0; j < keys; j++)
        for (size_t i = 0; i < cols; i++) {
            size_t at = j * cols + i;
            float p = wide_exp((x[at] - s->top[i]) * scale) * s->inverse[i];
            x[at] = p;
            d[at] = p * (d[at] - s->delta[i]) * scale;
        }
}

// scores become probabilities, the gradient of probabilities that of scores.
TENSOR_WIDE
static void score_gradient(float *scores, float *d_scores, size_t keys, size_t cols, float scale,
                           const softmax_kept *s) {
    switch (cols) {
    case PANEL_STEP: gradient_cols(scores, d_scores, keys, PANEL_STEP, scale, s); break;
    case 2 * PANEL_STEP: gradient_cols(scores, d_scores, keys, 2 * PANEL_STEP, scale, s); break;
    default: gradient_cols(scores, d_scores, keys, QUERIES, scale, s); break;
    }
}

TENSOR_WIDE
static float row_dot(const float *x, const float *y, size_t count) { return lanes_dot(x, y, count); }

// --- forward

static attention_block block_of(const attention_job *job, size_t from) {
    attention_block b = {.from = from, .rows = least(QUERIES, job->a->tokens - from)};
    b.cols = round_up(b.rows, PANEL_STEP);
    return b;
}

// The block's next keys, none above the diagonal; false when it has seen all.
static bool next_keys(attention_block *b) {
    b->first += b->keys;
    b->keys = least(KEYS, b->from + b->rows - b->first);
    b->padded_keys = round_up(b->keys, PANEL_ROWS);
    return b->keys > 0;
}

// One block of queries of one head; `kept`: where its first row lies among what forward keeps.
static void attend_block(const attention_job *job, const attention_scratch *w, attention_block *b, const float *q,
                         size_t kept, float *out) {
    softmax s;
    for (size_t i = 0; i < b->cols; i++) s.top[i] = -INFINITY, s.sum[i] = 0;
    turn_queries(job, q, job->stride, b->rows, b->cols, w->q_turned);
    while (next_keys(b)) {
        score(job, b, w->k, w->q_turned, w->scores);
        mask(b, w->scores);
        soften(w->scores, b->keys, b->cols, job->scale, &s);
        if (b->first > 0) scale_columns(w->sum, job->rows_wide, b->cols, s.factor);
        weigh(job, b, w->v, w->scores, w->sum);
    }
    for (size_t i = 0; i < b->cols; i++) s.factor[i] = 1.0f / s.sum[i];
    scale_columns(w->sum, job->rows_wide, b->cols, s.factor);
    turn_back(job, w->sum, b->rows, b->cols, out, job->out_stride);
    memcpy(job->a->maximum + kept, s.top, b->rows * sizeof *s.top);
    memcpy(job->a->inverse + kept, s.factor, b->rows * sizeof *s.factor);
}

static void forward_task(void *context, size_t index) {
    const attention_job *job = context;
    const tensor_attention *a = job->a;
    size_t row = index / a->heads * a->tokens, head = index % a->heads;
    const float *qkv = job->qkv + row * job->stride;
    const float *k = qkv + (a->heads + head / (a->heads / a->kv_heads)) * a->width;
    float *out = job->out + row * job->out_stride + head * a->width;
    attention_scratch w = scratch_here(job);
    pack_keys(job, k, w.k);
    pack_keys(job, k + a->kv_heads * a->width, w.v);
    for (size_t from = 0; from < a->tokens; from += QUERIES) {
        attention_block b = block_of(job, from);
        attend_block(job, &w, &b, qkv + from * job->stride + head * a->width, index * a->tokens + from,
                     out + from * job->out_stride);
    }
}

void tensor_attention_forward(tensor_pool *pool, const tensor_attention *a, const float *qkv, float *out) {
    attention_job job = attention_job_of(a);
    job.out = out;
    job.qkv = (float *)(uintptr_t)qkv;  // only read here
    tensor_pool_run(pool, a->sequences * a->heads, forward_task, &job);
}

// --- gradient

// Columns that are padding get nothing.
static softmax_kept kept_of(const attention_job *job, const attention_block *b, size_t kept, const float *out,
                            const float *d_out) {
    softmax_kept s = {{0}, {0}, {0}};
    size_t stride = job->out_stride;
    memcpy(s.top, job->a->maximum + kept, b->rows * sizeof *s.top);
    memcpy(s.inverse, job->a->inverse + kept, b->rows * sizeof *s.inverse);
    for (size_t i = 0; i < b->rows; i++) s.delta[i] = row_dot(d_out + i * stride, out + i * stride, job->a->width);
    return s;
}

// Replaces the block's queries by their gradient; adds to d_k and d_v.
static void gradient_block(const attention_job *job, const attention_scratch *w, attention_block *b, float *q,
                           const float *d_out, const softmax_kept *s) {
    turn_queries(job, q, job->stride, b->rows, b->cols, w->q_turned);
    turn_queries(job, d_out, job->out_stride, b->rows, b->cols, w->d_out_turned);
    pack_panels(job, q, job->stride, b->rows, b->cols, w->q);
    pack_panels(job, d_out, job->out_stride, b->rows, b->cols, w->d_out);
    while (next_keys(b)) {
        score(job, b, w->k, w->q_turned, w->scores);
        score(job, b, w->v, w->d_out_turned, w->d_scores);
        mask(b, w->scores);
        score_gradient(w->scores, w->d_scores, b->padded_keys, b->cols, job->scale, s);
        weigh_queries(job, b, w->scores, w->d_out, w->d_v);
        weigh_queries(job, b, w->d_scores, w->q, w->d_k);
        weigh(job, b, w->k, w->d_scores, w->sum);
    }
    turn_back(job, w->sum, b->rows, b->cols, q, job->stride);
}

static void head_gradient(const attention_job *job, const attention_scratch *w, size_t sequence, size_t head) {
    const tensor_attention *a = job->a;
    size_t row = sequence * a->tokens;
    for (size_t from = 0; from < a->tokens; from += QUERIES) {
        attention_block b = block_of(job, from);
        float *q = job->qkv + (row + from) * job->stride + head * a->width;
        size_t at = (row + from) * job->out_stride + head * a->width;
        softmax_kept s =
            kept_of(job, &b, (sequence * a->heads + head) * a->tokens + from, job->out_in + at, job->d_out + at);
        gradient_block(job, w, &b, q, job->d_out + at, &s);
    }
}

// All query heads of one key head, in order, so that the sums over a group never depend on threads.
static void gradient_task(void *context, size_t index) {
    const attention_job *job = context;
    const tensor_attention *a = job->a;
    size_t sequence = index / a->kv_heads, kv = index % a->kv_heads, group = a->heads / a->kv_heads;
    size_t width = a->width, sums = round_up(a->tokens, PANEL_ROWS) * job->cols_wide;
    float *k = job->qkv + sequence * a->tokens * job->stride + (a->heads + kv) * width, *v = k + a->kv_heads * width;
    attention_scratch w = scratch_here(job);
    pack_keys(job, k, w.k);
    pack_keys(job, k + a->kv_heads * a->width, w.v);
    memset(w.d_k, 0, sums * sizeof *w.d_k);
    memset(w.d_v, 0, sums * sizeof *w.d_v);
    for (size_t head = kv * group; head < (kv + 1) * group; head++) head_gradient(job, &w, sequence, head);
    unpack_keys(job, w.d_k, k);
    unpack_keys(job, w.d_v, v);
}

void tensor_attention_input_gradient(tensor_pool *pool, const tensor_attention *a, float *qkv, const float *out,
                                     const float *d_out) {
    attention_job job = attention_job_of(a);
    job.qkv = qkv;
    job.out_in = out;
    job.d_out = d_out;
    tensor_pool_run(pool, a->sequences * a->kv_heads, gradient_task, &job);
}
