// Sums over rows, and biases added to rows.
#include "tensor/cpu/wide.h"
#include "tensor/kernels.h"

enum { COLS_PER_TASK = 768, ELEMENTS_PER_TASK = 1 << 14 };

TENSOR_WIDE
static void add(float *restrict sum, const float *restrict x, size_t count) {
    for (size_t i = 0; i < count; i++) sum[i] += x[i];
}

void tensor_add(float *sum, const float *x, size_t count) { add(sum, x, count); }

TENSOR_WIDE
static void add_scaled(float *restrict sum, const float *restrict x, float factor, size_t count) {
    for (size_t i = 0; i < count; i++) sum[i] += factor * x[i];
}

void tensor_add_scaled(float *sum, const float *x, float factor, size_t count) { add_scaled(sum, x, factor, count); }

TENSOR_WIDE
static float dot(const float *x, const float *y, size_t count) { return lanes_dot(x, y, count); }

float tensor_dot(const float *x, const float *y, size_t count) { return dot(x, y, count); }

TENSOR_WIDE
static void scale_row(const float *x, float factor, float *to, size_t count) {
    LANES_APART
    for (size_t i = 0; i < count; i++) to[i] = factor * x[i];
}

void tensor_scale(const float *x, float factor, float *to, size_t count) { scale_row(x, factor, to, count); }

typedef struct parts_job {
    const float *parts;
    float *sum;
    size_t part_count, count;
} parts_job;

static void sum_range(const void *context, size_t begin, size_t end) {
    const parts_job *job = context;
    memcpy(job->sum + begin, job->parts + begin, (end - begin) * sizeof *job->sum);
    for (size_t p = 1; p < job->part_count; p++)
        tensor_add(job->sum + begin, job->parts + p * job->count + begin, end - begin);
}

void tensor_sum_parts(tensor_pool *pool, const float *parts, size_t part_count, size_t count, float *sum) {
    parts_job job = {.parts = parts, .part_count = part_count, .count = count};
    job.sum = sum;
    tensor_pool_ranges(pool, count, ELEMENTS_PER_TASK, sum_range, &job);
}

typedef struct column_job {
    const float *x;
    size_t rows, stride;
    float *sums;
} column_job;

static void column_range(const void *context, size_t begin, size_t end) {
    const column_job *job = context;
    memset(job->sums + begin, 0, (end - begin) * sizeof *job->sums);
    for (size_t r = 0; r < job->rows; r++) tensor_add(job->sums + begin, job->x + r * job->stride + begin, end - begin);
}

void tensor_column_sums(tensor_pool *pool, const float *x, size_t rows, size_t cols, size_t stride, float *sums) {
    column_job job = {.x = x, .rows = rows, .stride = stride};
    job.sums = sums;
    tensor_pool_ranges(pool, cols, COLS_PER_TASK, column_range, &job);
}

TENSOR_WIDE
static void sum_row(const float *restrict x, const float *restrict bias, float *restrict y, size_t dim) {
    for (size_t i = 0; i < dim; i++) y[i] = x[i] + bias[i];
}

void tensor_seed_rows(const float *x, const float *bias, float *y, size_t rows, size_t dim) {
    for (size_t r = 0; r < rows; r++, y += dim) {
        if (x)
            sum_row(x + r * dim, bias, y, dim);
        else
            memcpy(y, bias, dim * sizeof *y);
    }
}
