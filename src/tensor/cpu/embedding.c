#include "tensor/kernels.h"

#include <string.h>

enum { ROWS_PER_TASK = 64 };

typedef struct embedding_job {
    const tensor_embedding *e;
    const float *table, *positions;
    float *y;
} embedding_job;

static void embedding_rows(const void *context, size_t begin, size_t end) {
    const embedding_job *job = context;
    const tensor_embedding *e = job->e;
    for (size_t r = begin; r < end; r++) {
        float *y = job->y + r * e->dim;
        const float *from = job->table + (size_t)e->tokens[r] * e->dim;
        if (e->scale > 0)
            tensor_scale(from, e->scale, y, e->dim);
        else
            memcpy(y, from, e->dim * sizeof *y);
        if (job->positions) tensor_add(y, job->positions + r % e->sequence * e->dim, e->dim);
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
        if (token < first || token >= last) continue;
        if (e->scale > 0)
            tensor_add_scaled(d_table + (token - first) * e->dim, dy + r * e->dim, e->scale, e->dim);
        else
            tensor_add(d_table + (token - first) * e->dim, dy + r * e->dim, e->dim);
    }
}

void tensor_position_gradient(const tensor_embedding *e, const float *dy, size_t first, size_t last,
                              float *d_positions) {
    memset(d_positions, 0, (last - first) * e->dim * sizeof *d_positions);
    for (size_t r = 0; r < e->rows; r++) {
        size_t t = r % e->sequence;
        if (t >= first && t < last) tensor_add(d_positions + (t - first) * e->dim, dy + r * e->dim, e->dim);
    }
}
