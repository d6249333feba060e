#include "tensor/cpu/wide.h"
#include "tensor/kernels.h"

#include <math.h>

enum { ROWS_PER_TASK = 32, COLS_PER_TASK = 256 };

typedef struct norm_job {
    const tensor_norm *n;
    const float *x, *dy, *residual;
    float *out, *d_weight, *d_bias;
} norm_job;

TENSOR_WIDE
static void rms_forward_row(const float *x, const float *weight, float *y, size_t dim, float eps, float *inverse) {
    float inv = 1.0f / sqrtf(lanes_dot(x, x, dim) / (float)dim + eps);
    *inverse = inv;
    for (size_t i = 0; i < dim; i++) y[i] = x[i] * inv * weight[i];
}

// The variance from centred values: E[x^2] - E[x]^2 loses everything when the mean is large.
TENSOR_WIDE
static void layer_forward_row(const float *x, const tensor_norm *n, float *y, float *mean, float *inverse) {
    size_t dim = n->dim;
    float m = lanes_sum(x, dim) / (float)dim;
    for (size_t i = 0; i < dim; i++) y[i] = x[i] - m;
    float inv = 1.0f / sqrtf(lanes_dot(y, y, dim) / (float)dim + n->eps);
    *mean = m;
    *inverse = inv;
    for (size_t i = 0; i < dim; i++) y[i] = y[i] * inv * n->weight[i] + n->bias[i];
}

void tensor_norm_rows(const tensor_norm *n, const float *x, float *y, size_t first, size_t count) {
    x += first * n->dim, y += first * n->dim;
    for (size_t r = first; r < first + count; r++, x += n->dim, y += n->dim) {
        if (n->centred)
            layer_forward_row(x, n, y, &n->mean[r], &n->inverse[r]);
        else
            rms_forward_row(x, n->weight, y, n->dim, n->eps, &n->inverse[r]);
    }
}

static void forward_rows(const void *context, size_t begin, size_t end) {
    const norm_job *job = context;
    tensor_norm_rows(job->n, job->x, job->out, begin, end - begin);
}

void tensor_norm_forward(tensor_pool *pool, const tensor_norm *n, const float *x, float *y) {
    norm_job job = {.n = n, .x = x};
    job.out = y;
    tensor_pool_ranges(pool, n->rows, ROWS_PER_TASK, forward_rows, &job);
}

// Sum over the row of dy * weight * (x - mean), and of dy * weight.
TENSOR_WIDE
static void gradient_sums(const float *x, const float *dy, const float *weight, size_t dim, float mean, float *product,
                          float *plain) {
    lanes sum_product = {0}, sum_plain = {0}, a, b, w;
    size_t i = 0;
    for (; i + LANES <= dim; i += LANES) {
        lanes_load(&a, x + i);
        lanes_load(&b, dy + i);
        lanes_load(&w, weight + i);
        w *= b;
        sum_plain += w;
        sum_product += w * (a - mean);
    }
    if (i < dim) {
        lanes_load_some(&a, x + i, dim - i);
        lanes_load_some(&b, dy + i, dim - i);
        lanes_load_some(&w, weight + i, dim - i);
        w *= b;
        sum_plain += w;
        sum_product += w * (a - mean);
    }
    *product = lanes_add(&sum_product);
    *plain = lanes_add(&sum_plain);
}

TENSOR_WIDE
static void gradient_row(const norm_job *job, const float *weight, size_t r, size_t dim, bool centred, float mean,
                         float inv) {
    const float *x = job->x + r * dim, *dy = job->dy + r * dim,
                *residual = job->residual ? job->residual + r * dim : NULL;
    float *dx = job->out + r * dim, product, plain;
    gradient_sums(x, dy, weight, dim, mean, &product, &plain);
    float slope = product / (float)dim * (inv * inv), shift = centred ? plain / (float)dim : 0.0f;
    if (residual) LANES_APART
    for (size_t i = 0; i < dim; i++) dx[i] = residual[i] + inv * (dy[i] * weight[i] - shift - (x[i] - mean) * slope);
    else LANES_APART for (size_t i = 0; i < dim; i++) dx[i] = inv * (dy[i] * weight[i] - shift - (x[i] - mean) * slope);
}

static void gradient_rows(const void *context, size_t begin, size_t end) {
    const norm_job *job = context;
    const tensor_norm *n = job->n;
    for (size_t r = begin; r < end; r++)
        gradient_row(job, n->weight, r, n->dim, n->centred, n->centred ? n->mean[r] : 0.0f, n->inverse[r]);
}

void tensor_norm_input_gradient(tensor_pool *pool, const tensor_norm *n, const float *x, const float *dy,
                                const float *residual, float *dx) {
    norm_job job = {.n = n, .x = x, .dy = dy, .residual = residual};
    job.out = dx;
    tensor_pool_ranges(pool, n->rows, ROWS_PER_TASK, gradient_rows, &job);
}

TENSOR_WIDE
static void weight_gradient_add(float *sum, const float *x, const float *dy, float mean, float inv, size_t count) {
    for (size_t i = 0; i < count; i++) sum[i] += dy[i] * ((x[i] - mean) * inv);
}

TENSOR_WIDE
static void add_row(float *sum, const float *x, size_t count) {
    for (size_t i = 0; i < count; i++) sum[i] += x[i];
}

static void weight_gradient_cols(const void *context, size_t begin, size_t end) {
    const norm_job *job = context;
    const tensor_norm *n = job->n;
    memset(job->d_weight + begin, 0, (end - begin) * sizeof *job->d_weight);
    if (job->d_bias) memset(job->d_bias + begin, 0, (end - begin) * sizeof *job->d_bias);
    for (size_t r = 0; r < n->rows; r++) {
        const float *x = job->x + r * n->dim + begin, *dy = job->dy + r * n->dim + begin;
        weight_gradient_add(job->d_weight + begin, x, dy, n->centred ? n->mean[r] : 0.0f, n->inverse[r], end - begin);
        if (job->d_bias) add_row(job->d_bias + begin, dy, end - begin);
    }
}

void tensor_norm_weight_gradient(tensor_pool *pool, const tensor_norm *n, const float *x, const float *dy,
                                 float *d_weight, float *d_bias) {
    norm_job job = {.n = n, .x = x, .dy = dy};
    job.d_weight = d_weight;
    job.d_bias = d_bias;
    tensor_pool_ranges(pool, n->dim, COLS_PER_TASK, weight_gradient_cols, &job);
}

typedef struct column_job {
    const float *x;
    size_t rows, stride;
    float *sums;
} column_job;

static void column_range(const void *context, size_t begin, size_t end) {
    const column_job *job = context;
    memset(job->sums + begin, 0, (end - begin) * sizeof *job->sums);
    for (size_t r = 0; r < job->rows; r++) add_row(job->sums + begin, job->x + r * job->stride + begin, end - begin);
}

void tensor_column_sums(tensor_pool *pool, const float *x, size_t rows, size_t cols, size_t stride, float *sums) {
    column_job job = {.x = x, .rows = rows, .stride = stride};
    job.sums = sums;
    tensor_pool_ranges(pool, cols, COLS_PER_TASK, column_range, &job);
}
