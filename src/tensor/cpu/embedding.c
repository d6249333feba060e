#include "tensor/cpu/wide.h"
#include "tensor/kernels.h"

enum { ROWS_PER_TASK = 64 };

typedef struct embedding_job {
    const tensor_embedding *e;
    const float *table, *positions;
    float *y;
} embedding_job;

static void add_row(float *restrict sum, const float *restrict x, size_t count) {
    for (size_t i = 0; i < count; i++) sum[i] += x[i];
}

static void embedding_rows(const void *context, size_t begin, size_t end) {
    const embedding_job *job = context;
    const tensor_embedding *e = job->e;
    for (size_t r = begin; r < end; r++) {
        float *y = job->y + r * e->dim;
        memcpy(y, job->table + (size_t)e->tokens[r] * e->dim, e->dim * sizeof *y);
        if (job->positions) add_row(y, job->positions + r % e->sequence * e->dim, e->dim);
    }
}

void tensor_embedding_forward(tensor_pool *pool, const tensor_embedding *e, const float *table, const float *positions,
                              float *y) {
    embedding_job job = {.e = e, .table = table, .positions = positions};
    job.y = y;
    tensor_pool_ranges(pool, e->rows, ROWS_PER_TASK, embedding_rows, &job);
}

void tensor_embedding_gradient(const tensor_embedding *e, const float *dy, size_t first, size_t last, float *d_table) {
    for (size_t r = 0; r < e->rows; r++) {
        size_t token = (size_t)e->tokens[r];
        if (token >= first && token < last) add_row(d_table + (token - first) * e->dim, dy + r * e->dim, e->dim);
    }
}

void tensor_position_gradient(const tensor_embedding *e, const float *dy, size_t first, size_t last,
                              float *d_positions) {
    memset(d_positions, 0, (last - first) * e->dim * sizeof *d_positions);
    for (size_t r = 0; r < e->rows; r++) {
        size_t t = r % e->sequence;
        if (t >= first && t < last) add_row(d_positions + (t - first) * e->dim, dy + r * e->dim, e->dim);
    }
}

typedef struct seed_job {
    const float *x, *bias;
    float *y;
    size_t dim;
} seed_job;

TENSOR_WIDE
static void sum_row(const float *restrict x, const float *restrict bias, float *restrict y, size_t dim) {
    for (size_t i = 0; i < dim; i++) y[i] = x[i] + bias[i];
}

static void seed_rows(const void *context, size_t begin, size_t end) {
    const seed_job *job = context;
    size_t dim = job->dim;
    if (job->x && !job->bias) {
        memcpy(job->y + begin * dim, job->x + begin * dim, (end - begin) * dim * sizeof *job->y);
        return;
    }
    for (size_t r = begin; r < end; r++) {
        if (job->x)
            sum_row(job->x + r * dim, job->bias, job->y + r * dim, dim);
        else
            memcpy(job->y + r * dim, job->bias, dim * sizeof *job->y);
    }
}

void tensor_seed_rows(tensor_pool *pool, const float *x, const float *bias, float *y, size_t rows, size_t dim) {
    seed_job job = {.x = x, .bias = bias, .dim = dim};
    job.y = y;
    tensor_pool_ranges(pool, rows, ROWS_PER_TASK, seed_rows, &job);
}
