// Softmax attention in blocks of queries and keys (Dao et al. 2022). Scores stay in the first
// caches, scratch memory grows linearly with the sequence, and blocks above the diagonal are
// skipped. The gradient recomputes the scores, or for short sequences reads the exponentials that
// the forward pass kept.
//
// Scores are stored transposed, [keys, queries]: one row per key, one column per query of the
// block. The softmax of a query then works on a column (largest score, sum, factors), as one
// operation on 16 neighbouring columns. Every sum over keys has the same order on every machine.
// The matrix products are those of gemm_kernels.h.
#include "tensor/cpu/gemm_kernels.h"
#include "tensor/cpu/head_norm.h"
#include "tensor/cpu/softmax.h"
#include "tensor/kernels.h"
#include "tensor/sizes.h"

#include <math.h>
#include <string.h>

enum { QUERIES = SOFTMAX_QUERIES, KEYS = 128, ALIGNED_FLOATS = 16 };
static const float OTHER_DOCUMENT = -1e30f;
_Static_assert((int)PANEL_STEP == (int)SOFTMAX_STEP && (int)QUERIES == (int)PANEL_COLS,
               "softmax takes a block of products");

// Scratch memory of one thread. `wide` is a head's width rounded up to a multiple of PANEL_STEP;
// the padding is zero.
typedef struct attention_scratch {
    float *k, *v, *d_k, *d_v;                // [tokens, wide]
    float *q, *d_out, *sum;                  // [QUERIES, wide]
    float *q_transposed, *d_out_transposed;  // [width, QUERIES]
    float *scores, *d_scores;                // [KEYS, QUERIES]
    float *slopes;                           // [KEYS, QUERIES] of the softcap; NULL: none
    float *normed;                           // [QUERIES, wide] rows between norm and rotation; NULL: no norms
} attention_scratch;

typedef struct attention_job {
    const tensor_attention *a;
    const gemm_kernels *kernels;
    float *qkv;
    const float *out_in, *d_out;
    float *out;
    size_t thread_floats;
    size_t stride, out_stride;  // floats from one row to the next
    size_t wide;
    float *kept;  // tensor_attention_kept; NULL: the gradient recomputes them
    float scale;  // of what the softmax reads: 1 after a softcap
} attention_job;

static float *take(float *base, size_t *used, size_t count) {
    float *piece = base ? base + *used : NULL;
    *used += size_up(count, ALIGNED_FLOATS);
    return piece;
}

// Divides the scratch memory at `base`. With base NULL it only computes the size.
static attention_scratch scratch_cut(const tensor_attention *a, float *base, size_t *used) {
    size_t tokens = size_up(a->tokens, PANEL_ROWS), wide = size_up(a->width, PANEL_STEP);
    attention_scratch s;
    *used = 0;
    s.k = take(base, used, tokens * wide);
    s.v = take(base, used, tokens * wide);
    s.d_k = take(base, used, tokens * wide);
    s.d_v = take(base, used, tokens * wide);
    s.q = take(base, used, QUERIES * wide);
    s.d_out = take(base, used, QUERIES * wide);
    s.sum = take(base, used, QUERIES * wide);
    s.q_transposed = take(base, used, a->width * QUERIES);
    s.d_out_transposed = take(base, used, a->width * QUERIES);
    s.scores = take(base, used, KEYS * QUERIES);
    s.d_scores = take(base, used, KEYS * QUERIES);
    s.slopes = a->softcap > 0 ? take(base, used, KEYS * QUERIES) : NULL;
    s.normed = a->q_norm.weight ? take(base, used, QUERIES * wide) : NULL;
    return s;
}

size_t tensor_attention_scratch(const tensor_attention *a) {
    size_t floats;
    scratch_cut(a, NULL, &floats);
    return floats;
}

static float score_scale(const tensor_attention *a) { return a->scale > 0 ? a->scale : 1.0f / sqrtf((float)a->width); }

static attention_job attention_job_of(const tensor_attention *a) {
    return (attention_job){.a = a,
                           .kernels = gemm_kernels_here(),
                           .thread_floats = tensor_attention_scratch(a),
                           .stride = (a->heads + 2 * a->kv_heads) * a->width,
                           .out_stride = a->heads * a->width,
                           .wide = size_up(a->width, PANEL_STEP),
                           .kept = tensor_attention_kept(a) > 0 ? a->kept : NULL,
                           .scale = a->softcap > 0 ? 1.0f : score_scale(a)};
}

static attention_scratch scratch_here(const attention_job *job) {
    size_t floats;
    return scratch_cut(job->a, job->a->scratch + tensor_pool_slot() * job->thread_floats, &floats);
}

// --- moving

// to[padded_rows, wide] = from[rows, width]; the padding is zero.
static void load_rows(const attention_job *job, const float *from, size_t stride, size_t rows, size_t padded_rows,
                      float *to) {
    size_t width = job->a->width, done = width / PANEL_ROWS * PANEL_ROWS, wide = job->wide;
    job->kernels->copy(from, stride, rows, done / PANEL_ROWS, to, PANEL_ROWS, wide);
    for (size_t r = 0; done < wide && r < rows; r++)
        for (size_t i = done; i < wide; i++) to[r * wide + i] = i < width ? from[r * stride + i] : 0.0f;
    memset(to + rows * wide, 0, (padded_rows - rows) * wide * sizeof *to);
}

// The rotation by positions first .. first + rows - 1, or a copy.
static void rotate(const attention_job *job, size_t first, size_t rows, bool inverse, const float *from,
                   size_t from_stride, float *to, size_t to_stride) {
    if (job->a->rope) {
        tensor_rope_rows(job->a->rope, first, rows, inverse, from, from_stride, to, to_stride);
        return;
    }
    for (size_t r = 0; r < rows; r++) memcpy(to + r * to_stride, from + r * from_stride, job->a->width * sizeof *to);
}

// The norm of rows of queries or keys, then their rotation, some rows at a time.
static void load_normed(const attention_job *job, const attention_scratch *w, const tensor_head_norm *n,
                        const float *from, size_t first, size_t rows, float *to) {
    for (size_t r = 0, count; r < rows; r += count) {
        count = size_least(QUERIES, rows - r);
        tensor_head_norm_rows(n->weight, job->a->eps, job->a->width, count, from + r * job->stride, job->stride,
                              w->normed, job->wide);
        rotate(job, first + r, count, false, w->normed, job->wide, to + r * job->wide, job->wide);
    }
}

// As load_rows for queries or keys, with their norm and the rotary positions first .. first + rows
// - 1 applied.
static void load_rotated(const attention_job *job, const attention_scratch *w, const tensor_head_norm *n,
                         const float *from, size_t first, size_t rows, size_t padded_rows, float *to) {
    const tensor_rope *rope = job->a->rope;
    size_t width = job->a->width, wide = job->wide;
    if (!rope && !n->weight) {
        load_rows(job, from, job->stride, rows, padded_rows, to);
        return;
    }
    if (n->weight)
        load_normed(job, w, n, from, first, rows, to);
    else
        tensor_rope_rows(rope, first, rows, false, from, job->stride, to, wide);
    for (size_t r = 0; width < wide && r < rows; r++) memset(to + r * wide + width, 0, (wide - width) * sizeof *to);
    memset(to + rows * wide, 0, (padded_rows - rows) * wide * sizeof *to);
}

// to[rows, width] = from[rows, wide]; `to` points into qkv, with rows `stride` apart.
static void store_rows(const attention_job *job, const float *from, size_t rows, float *to) {
    size_t width = job->a->width, done = width / PANEL_ROWS * PANEL_ROWS;
    job->kernels->copy(from, job->wide, rows, done / PANEL_ROWS, to, PANEL_ROWS, job->stride);
    for (size_t r = 0; done < width && r < rows; r++)
        memcpy(to + r * job->stride + done, from + r * job->wide + done, (width - done) * sizeof *to);
}

// Replaces rows of queries or keys at `to` by their gradient, given that of the rotated ones. Adds
// to d_weight[width], the gradient of the norm's weights.
static void store_rotated(const attention_job *job, const attention_scratch *w, const tensor_head_norm *n,
                          float *d_weight, const float *from, size_t first, size_t rows, float *to) {
    const tensor_attention *a = job->a;
    for (size_t r = 0, count; n->weight && r < rows; r += count) {
        count = size_least(QUERIES, rows - r);
        rotate(job, first + r, count, true, from + r * job->wide, job->wide, w->normed, job->wide);
        head_norm_gradient(n->weight, a->eps, a->width, count, to + r * job->stride, job->stride, w->normed, job->wide,
                           to + r * job->stride, d_weight);
    }
    if (n->weight) return;
    if (a->rope)
        tensor_rope_rows(a->rope, first, rows, true, from, job->wide, to, job->stride);
    else
        store_rows(job, from, rows, to);
}

// to[width, cols] = transpose of from[cols, wide]; cols is a multiple of PANEL_ROWS.
static void transpose(const attention_job *job, const float *from, size_t cols, float *to) {
    for (size_t i = 0; i < cols; i += PANEL_ROWS)
        job->kernels->transpose(from + i * job->wide, job->wide, job->a->width, to + i, cols);
}

// --- products

// A block of scores: keys [first, first + keys) and queries [from, from + rows), padded to `cols`.
typedef struct attention_block {
    size_t begin;  // the first key that a query of the block sees, rounded down to a multiple of PANEL_ROWS
    size_t first, keys, padded_keys;
    size_t from, rows, cols;
    float *scores;         // [padded_keys, cols] scores, then their exponentials
    bool first_head;       // the first query head that uses these keys
    const uint32_t *seen;  // [tokens] the first key that a query sees; NULL: 0
} attention_block;

// The first query column that may see one of the keys [first + key, first + key + PANEL_ROWS),
// rounded down to a multiple of PANEL_STEP.
static size_t first_column(const attention_block *b, size_t key) {
    size_t at = b->first + key;
    return at > b->from ? (at - b->from) / PANEL_STEP * PANEL_STEP : 0;
}

// The number of keys, at most `keys`, that the query columns before `end` may see. `end` is a
// multiple of PANEL_ROWS.
static size_t keys_seen(const attention_block *b, size_t keys, size_t end) {
    size_t seen = b->from + end > b->first ? b->from + end - b->first : 0;
    return size_least(keys, seen);
}

// products[padded_keys, cols] = k[padded_keys, wide] times the transposed queries or gradients
// [width, cols]. `prefetch` has the layout of `products`; the caller reads it next.
static void score_block(const attention_job *job, const attention_block *b, const float *k, const float *transposed,
                        float *products, const float *prefetch) {
    gemm_panel p = {.depth = job->a->width, .a_row = job->wide, .a_step = 1, .b_step = b->cols, .c_stride = b->cols};
    p.prefetch_step = ALIGNED_FLOATS;
    for (size_t key = 0; key < b->padded_keys; key += PANEL_ROWS) {
        size_t col = first_column(b, key);
        if (prefetch) {
            p.prefetch = prefetch + key * b->cols;
            p.prefetch_count = PANEL_ROWS * b->cols / ALIGNED_FLOATS;
        }
        p.a = k + (b->first + key) * job->wide;
        p.b = transposed + col;
        p.c = products + key * b->cols + col;
        job->kernels->product[(b->cols - col) / PANEL_STEP - 1](&p, 1);
    }
}

// c[PANEL_ROWS, wide] = a b (+ add) for all columns of a head.
static void multiply_head(const attention_job *job, const gemm_panel *p) {
    if (job->wide <= PANEL_COLS) {
        job->kernels->product[job->wide / PANEL_STEP - 1](p, 1);
        return;
    }
    gemm_panel part = *p;
    for (size_t left = job->wide / PANEL_STEP, steps; left > 0; left -= steps) {
        steps = gemm_panel_steps(left);
        job->kernels->product[steps - 1](&part, 1);
        part.b += steps * PANEL_STEP;
        part.c += steps * PANEL_STEP;
        if (part.add) part.add += steps * PANEL_STEP;
    }
}

// sum[rows, wide] = (for the first keys) or += weights[keys, cols] transposed times v[keys, wide].
static void accumulate_weighted(const attention_job *job, const attention_block *b, const float *v,
                                const float *weights, float *sum) {
    gemm_panel p = {.a_row = 1, .a_step = b->cols, .b_step = job->wide, .c_stride = job->wide};
    p.b = v + b->first * job->wide;
    for (size_t row = 0; row < b->rows; row += PANEL_ROWS) {
        p.depth = keys_seen(b, b->keys, row + PANEL_ROWS);
        p.a = weights + row;
        p.c = sum + row * job->wide;
        p.add = b->first > b->begin ? p.c : NULL;
        if (p.depth > 0) multiply_head(job, &p);
    }
}

// d_k[keys, wide] = (for the first queries that see a key) or += weights[keys, cols] times q[cols,
// wide]. The first queries that see a key are those of the key's own block.
static void accumulate_key_gradients(const attention_job *job, const attention_block *b, const float *weights,
                                     const float *q, float *d_k) {
    gemm_panel p = {.a_row = b->cols, .a_step = 1, .b_step = job->wide, .c_stride = job->wide};
    for (size_t key = 0; key < b->padded_keys; key += PANEL_ROWS) {
        size_t col = first_column(b, key);
        p.depth = b->cols - col;
        p.a = weights + key * b->cols + col;
        p.b = q + col * job->wide;
        p.c = d_k + (b->first + key) * job->wide;
        p.add = b->first_head && b->first + key >= b->from ? NULL : p.c;
        multiply_head(job, &p);
    }
}

// Sets the scores of keys before their query's document to a finite value: with all keys of a block
// at -infinity, the running softmax would be NaN. A later key's score is so much larger that these
// weights become exactly zero.
static void mask_documents(const attention_block *b, float *scores) {
    for (size_t i = 0; i < b->rows; i++) {
        size_t seen = b->seen[b->from + i], keys = seen > b->first ? size_least(seen - b->first, b->padded_keys) : 0;
        for (size_t key = 0; key < keys; key++) scores[key * b->cols + i] = OTHER_DOCUMENT;
    }
}

// Causal mask: sets the scores of keys after their query to -infinity in the columns that
// first_column leaves; and those of keys before their query's window. Columns of padding see all
// keys, so that they stay finite.
static void mask(const attention_block *b, size_t window, float *scores) {
    for (size_t key = b->first > b->from ? 0 : b->from - b->first; key < b->padded_keys; key++)
        for (size_t i = first_column(b, key); i < b->first + key - b->from; i++) scores[key * b->cols + i] = -INFINITY;
    if (window == 0) return;
    for (size_t key = 0; key < b->padded_keys; key++) {
        size_t end = b->first + key + window;  // the first query that does not see the key
        for (size_t i = end > b->from ? end - b->from : 0; i < b->rows; i++) scores[key * b->cols + i] = -INFINITY;
    }
}

// The scores of a block as the softmax reads them.
static void finish_scores(const attention_job *job, const attention_scratch *w, const attention_block *b,
                          bool gradient) {
    const tensor_attention *a = job->a;
    for (size_t key = 0; a->softcap > 0 && key < b->padded_keys; key++) {
        size_t at = key * b->cols + first_column(b, key / PANEL_ROWS * PANEL_ROWS), end = (key + 1) * b->cols;
        tensor_softcap(b->scores + at, gradient ? w->slopes + at : NULL, end - at, score_scale(a), a->softcap);
    }
    mask(b, a->window, b->scores);
    if (b->seen) mask_documents(b, b->scores);
}

// --- forward

// Size of the kept exponentials of one head for all queries before `from`; the blocks are
// contiguous.
static size_t kept_before(size_t from) {
    size_t blocks = from / QUERIES, last = from % QUERIES;
    size_t whole = QUERIES * QUERIES * blocks * (blocks + 1) / 2;
    return whole + size_up(from, PANEL_ROWS) * size_up(last, PANEL_STEP);
}

size_t tensor_attention_kept(const tensor_attention *a) {
    bool keeps = a->tokens <= KEYS && !(a->softcap > 0);
    return keeps ? a->sequences * a->heads * kept_before(a->tokens) : 0;
}

// `head` counts the heads of all sequences.
static attention_block block_of(const attention_job *job, const attention_scratch *w, size_t head, size_t from) {
    const tensor_attention *a = job->a;
    attention_block b = {.from = from, .rows = size_least(QUERIES, a->tokens - from), .scores = w->scores};
    b.cols = size_up(b.rows, PANEL_STEP);
    if (a->window > 0 && from + 1 > a->window) b.begin = (from + 1 - a->window) / PANEL_ROWS * PANEL_ROWS;
    if (a->first) {
        b.seen = a->first + head / a->heads * a->tokens;
        size_t begin = b.seen[from] / PANEL_ROWS * PANEL_ROWS;
        if (begin > b.begin) b.begin = begin;
    }
    b.first = b.begin;
    if (job->kept) b.scores = job->kept + head * kept_before(a->tokens) + kept_before(from);
    return b;
}

// Advances to the block's next keys, up to the diagonal; false when there are none.
static bool next_keys(attention_block *b) {
    b->first += b->keys;
    b->keys = size_least(KEYS, b->from + b->rows - b->first);
    b->padded_keys = size_up(b->keys, PANEL_ROWS);
    return b->keys > 0;
}

static void softmax_block(const attention_block *b, float scale, softmax *s) {
    for (size_t col = 0; col < b->cols; col += PANEL_STEP)
        softmax_step(s, b->scores, keys_seen(b, b->padded_keys, col + PANEL_STEP), b->cols, col, scale);
}

// One block of queries of one head: out[rows, width]. `row` is the index of its first query in
// maximum and inverse.
static void attend_block(const attention_job *job, const attention_scratch *w, attention_block *b, const float *q,
                         size_t row, float *out) {
    softmax s;
    for (size_t i = 0; i < b->cols; i++) s.top[i] = -INFINITY, s.sum[i] = 0;
    load_rotated(job, w, &job->a->q_norm, q, b->from, b->rows, b->cols, w->q);
    transpose(job, w->q, b->cols, w->q_transposed);
    while (next_keys(b)) {
        score_block(job, b, w->k, w->q_transposed, b->scores, NULL);
        finish_scores(job, w, b, false);
        softmax_block(b, job->scale, &s);
        if (b->first > b->begin) softmax_scale_rows(w->sum, job->wide, b->rows, job->wide, s.factor, w->sum, job->wide);
        accumulate_weighted(job, b, w->v, b->scores, w->sum);
    }
    for (size_t i = 0; i < b->cols; i++) s.factor[i] = 1.0f / s.sum[i];
    softmax_scale_rows(w->sum, job->wide, b->rows, job->a->width, s.factor, out, job->out_stride);
    memcpy(job->a->maximum + row, s.top, b->rows * sizeof *s.top);
    memcpy(job->a->inverse + row, s.factor, b->rows * sizeof *s.factor);
}

// k[tokens, wide] (rotated) and v[tokens, wide] of one head of a sequence.
static void load_keys(const attention_job *job, const float *k, const attention_scratch *w) {
    const tensor_attention *a = job->a;
    size_t padded = size_up(a->tokens, PANEL_ROWS);
    load_rotated(job, w, &a->k_norm, k, 0, a->tokens, padded, w->k);
    load_rows(job, k + a->kv_heads * a->width, job->stride, a->tokens, padded, w->v);
}

static void forward_task(void *context, size_t index) {
    const attention_job *job = context;
    const tensor_attention *a = job->a;
    size_t row = index / a->heads * a->tokens, head = index % a->heads;
    const float *qkv = job->qkv + row * job->stride;
    const float *k = qkv + (a->heads + head / (a->heads / a->kv_heads)) * a->width;
    float *out = job->out + row * job->out_stride + head * a->width;
    attention_scratch w = scratch_here(job);
    load_keys(job, k, &w);
    for (size_t from = 0; from < a->tokens; from += QUERIES) {
        attention_block b = block_of(job, &w, index, from);
        attend_block(job, &w, &b, qkv + from * job->stride + head * a->width, index * a->tokens + from,
                     out + from * job->out_stride);
    }
}

static attention_job forward_job(const tensor_attention *a, const float *qkv, float *out) {
    attention_job job = attention_job_of(a);
    job.out = out;
    job.qkv = (float *)(uintptr_t)qkv;  // forward only reads it
    return job;
}

void tensor_attention_forward(tensor_pool *pool, const tensor_attention *a, const float *qkv, float *out) {
    attention_job job = forward_job(a, qkv, out);
    tensor_pool_run(pool, a->sequences * a->heads, forward_task, &job);
}

void tensor_attention_forward_one(const tensor_attention *a, size_t sequence, const float *qkv, float *out) {
    attention_job job = forward_job(a, qkv, out);
    for (size_t head = 0; head < a->heads; head++) forward_task(&job, sequence * a->heads + head);
}

// --- gradient

// Prepares the gradient of a block: d_out[rows, wide] is divided by each query's sum, so that
// exponentials can be used in place of probabilities. `row` is the index of the first query in
// maximum and inverse, `at` the offset of its output. Padding columns get zero.
static softmax_kept load_gradient(const attention_job *job, const attention_scratch *w, const attention_block *b,
                                  size_t row, size_t at) {
    softmax_kept s = {{0}, {0}};
    const float *inverse = job->a->inverse + row;
    memcpy(s.top, job->a->maximum + row, b->rows * sizeof *s.top);
    load_rows(job, job->d_out + at, job->out_stride, b->rows, b->cols, w->d_out);
    softmax_scale_rows(w->d_out, job->wide, b->rows, job->wide, inverse, w->d_out, job->wide);
    softmax_row_dots(w->d_out, job->wide, job->out_in + at, job->out_stride, b->rows, job->a->width, s.delta);
    transpose(job, w->d_out, b->cols, w->d_out_transposed);
    return s;
}

// The gradients of the capped scores become those of the scores.
static void uncap(const attention_block *b, const float *slopes, float *d_scores) {
    for (size_t key = 0; key < b->padded_keys; key++) {
        size_t at = key * b->cols + first_column(b, key / PANEL_ROWS * PANEL_ROWS), end = (key + 1) * b->cols;
        for (; at < end; at++) d_scores[at] *= slopes[at];
    }
}

static void score_block_gradient(const attention_job *job, const attention_scratch *w, const attention_block *b,
                                 const softmax_kept *s) {
    if (!job->kept) {
        score_block(job, b, w->k, w->q_transposed, b->scores, NULL);
        finish_scores(job, w, b, true);
    }
    score_block(job, b, w->v, w->d_out_transposed, w->d_scores, job->kept ? b->scores : NULL);
    for (size_t col = 0; col < b->cols; col += PANEL_STEP) {
        size_t keys = keys_seen(b, b->padded_keys, col + PANEL_STEP);
        if (job->kept)
            softmax_gradient_step(s, b->scores, w->d_scores, keys, b->cols, col, job->scale);
        else
            softmax_again_step(s, b->scores, w->d_scores, keys, b->cols, col, job->scale);
    }
    if (job->a->softcap > 0) uncap(b, w->slopes, w->d_scores);
}

// Replaces the block's queries q[rows, width] by their gradient; adds to d_k, d_v and d_weight.
static void gradient_block(const attention_job *job, const attention_scratch *w, attention_block *b, float *q,
                           const softmax_kept *s, float *d_weight) {
    load_rotated(job, w, &job->a->q_norm, q, b->from, b->rows, b->cols, w->q);
    if (!job->kept) transpose(job, w->q, b->cols, w->q_transposed);
    while (next_keys(b)) {
        score_block_gradient(job, w, b, s);
        accumulate_key_gradients(job, b, b->scores, w->d_out, w->d_v);
        accumulate_key_gradients(job, b, w->d_scores, w->q, w->d_k);
        accumulate_weighted(job, b, w->k, w->d_scores, w->sum);
    }
    store_rotated(job, w, &job->a->q_norm, d_weight, w->sum, b->from, b->rows, q);
}

// The part of a norm's gradient of one head, set to zero; NULL without a norm.
static float *weight_part(const attention_job *job, const tensor_head_norm *n, size_t head) {
    if (!n->weight) return NULL;
    float *part = n->d_weight + head * job->a->width;
    memset(part, 0, job->a->width * sizeof *part);
    return part;
}

static void head_gradient(const attention_job *job, const attention_scratch *w, size_t sequence, size_t head) {
    const tensor_attention *a = job->a;
    size_t first_row = sequence * a->tokens, index = sequence * a->heads + head;
    float *d_weight = weight_part(job, &a->q_norm, index);
    for (size_t from = 0; from < a->tokens; from += QUERIES) {
        attention_block b = block_of(job, w, index, from);
        b.first_head = head % (a->heads / a->kv_heads) == 0;
        softmax_kept s =
            load_gradient(job, w, &b, index * a->tokens + from, (first_row + from) * job->out_stride + head * a->width);
        gradient_block(job, w, &b, job->qkv + (first_row + from) * job->stride + head * a->width, &s, d_weight);
    }
}

// All query heads that share a key head, in order, so that the sums over the group do not depend on
// threads.
static void gradient_task(void *context, size_t index) {
    const attention_job *job = context;
    const tensor_attention *a = job->a;
    size_t sequence = index / a->kv_heads, kv = index % a->kv_heads, group = a->heads / a->kv_heads;
    size_t width = a->width;
    float *k = job->qkv + sequence * a->tokens * job->stride + (a->heads + kv) * width, *v = k + a->kv_heads * width;
    attention_scratch w = scratch_here(job);
    load_keys(job, k, &w);
    for (size_t head = kv * group; head < (kv + 1) * group; head++) head_gradient(job, &w, sequence, head);
    store_rotated(job, &w, &a->k_norm, weight_part(job, &a->k_norm, index), w.d_k, 0, a->tokens, k);
    store_rows(job, w.d_v, a->tokens, v);
}

static attention_job gradient_job(const tensor_attention *a, float *qkv, const float *out, const float *d_out) {
    attention_job job = attention_job_of(a);
    job.qkv = qkv;
    job.out_in = out;
    job.d_out = d_out;
    return job;
}

void tensor_attention_input_gradient(tensor_pool *pool, const tensor_attention *a, float *qkv, const float *out,
                                     const float *d_out) {
    attention_job job = gradient_job(a, qkv, out, d_out);
    tensor_pool_run(pool, a->sequences * a->kv_heads, gradient_task, &job);
}

void tensor_attention_input_gradient_one(const tensor_attention *a, size_t sequence, float *qkv, const float *out,
                                         const float *d_out) {
    attention_job job = gradient_job(a, qkv, out, d_out);
    for (size_t kv = 0; kv < a->kv_heads; kv++) gradient_task(&job, sequence * a->kv_heads + kv);
}
