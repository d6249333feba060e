#include "tensor/cpu/wide.h"
#include "tensor/kernels.h"

#include <math.h>

enum { ROWS_PER_TASK = 32 };

typedef struct norm_job {
    const tensor_norm *n;
    const float *x;
    float *y;
} norm_job;

TENSOR_WIDE
static void rms_forward_row(const float *x, const float *weight, float *y, size_t dim, float eps, float *inverse) {
    float inv = 1.0f / sqrtf(lanes_dot(x, x, dim) / (float)dim + eps);
    *inverse = inv;
    for (size_t i = 0; i < dim; i++) y[i] = x[i] * inv * weight[i];
}

// x[dim] -> y[dim]. The variance is computed from centred values, because E[x^2] - E[x]^2 cancels
// when the mean is large.
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
    tensor_norm_rows(job->n, job->x, job->y, begin, end - begin);
}

void tensor_norm_forward(tensor_pool *pool, const tensor_norm *n, const float *x, float *y) {
    norm_job job = {.n = n, .x = x};
    job.y = y;
    tensor_pool_ranges(pool, n->rows, ROWS_PER_TASK, forward_rows, &job);
}

// x, dy, weight[dim] -> the sums over the row of dy * weight * (x - mean) and of dy * weight.
TENSOR_WIDE
static void gradient_sums(const float *x, const float *dy, const float *weight, size_t dim, float mean, float *product,
                          float *plain) {
    lanes sum_product = {{{0}}}, sum_plain = {{{0}}}, a, b, w;
    size_t i = 0;
    for (; i + LANES <= dim; i += LANES) {
        lanes_load(&a, x + i);
        lanes_load(&b, dy + i);
        lanes_load(&w, weight + i);
        LANES_EACH(h) {
            w.part[h] *= b.part[h];
            sum_plain.part[h] += w.part[h];
            sum_product.part[h] += w.part[h] * (a.part[h] - mean);
        }
    }
    if (i < dim) {
        lanes_load_some(&a, x + i, dim - i);
        lanes_load_some(&b, dy + i, dim - i);
        lanes_load_some(&w, weight + i, dim - i);
        LANES_EACH(h) {
            w.part[h] *= b.part[h];
            sum_plain.part[h] += w.part[h];
            sum_product.part[h] += w.part[h] * (a.part[h] - mean);
        }
    }
    *product = lanes_add(&sum_product);
    *plain = lanes_add(&sum_plain);
}

// x, dy, residual[dim] -> dx[dim], from the row's sums; adds to d_weight[dim].
TENSOR_WIDE
static void gradient_row(const float *x, const float *dy, const float *weight, const float *residual, size_t dim,
                         float mean, float inv, float slope, float shift, float *dx, float *restrict d_weight) {
    if (residual) LANES_APART
    for (size_t i = 0; i < dim; i++) {
        float above = dy[i], from_mean = x[i] - mean, more = residual[i];
        d_weight[i] += above * (from_mean * inv);
        dx[i] = more + inv * (above * weight[i] - shift - from_mean * slope);
    }
    else LANES_APART for (size_t i = 0; i < dim; i++) {
        float above = dy[i], from_mean = x[i] - mean;
        d_weight[i] += above * (from_mean * inv);
        dx[i] = inv * (above * weight[i] - shift - from_mean * slope);
    }
}

void tensor_norm_gradient_rows(const tensor_norm_gradient *g, size_t first, size_t count) {
    const tensor_norm *n = g->norm;
    size_t dim = n->dim;
    memset(g->d_weight, 0, dim * sizeof *g->d_weight);
    if (g->d_bias) memset(g->d_bias, 0, dim * sizeof *g->d_bias);
    for (size_t r = first; r < first + count; r++) {
        const float *x = g->x + r * dim, *dy = g->dy + r * dim, *residual = g->residual ? g->residual + r * dim : NULL;
        float mean = n->centred ? n->mean[r] : 0.0f, inv = n->inverse[r], product, plain;
        gradient_sums(x, dy, n->weight, dim, mean, &product, &plain);
        if (g->d_bias) tensor_add(g->d_bias, dy, dim);
        gradient_row(x, dy, n->weight, residual, dim, mean, inv, product / (float)dim * (inv * inv),
                     n->centred ? plain / (float)dim : 0.0f, g->dx + r * dim, g->d_weight);
    }
}
