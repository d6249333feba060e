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

TENSOR_WIDE
static void sum_row(const float *restrict x, const float *restrict bias, float *restrict y, size_t dim) {
    for (size_t i = 0; i < dim; i++) y[i] = x[i] + bias[i];
}

void tensor_seed_rows(const float *x, const float *bias, float *y, size_t rows, size_t dim) {
    if (x && !bias) {
        memcpy(y, x, rows * dim * sizeof *y);
        return;
    }
    for (size_t r = 0; r < rows; r++, y += dim) {
        if (x)
            sum_row(x + r * dim, bias, y, dim);
        else
            memcpy(y, bias, dim * sizeof *y);
    }
}
