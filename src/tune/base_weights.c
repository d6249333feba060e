// Weights of the file as fp32.
#include "tune/base_inside.h"

#include <stdlib.h>
#include <string.h>

typedef struct weights_job {
    const tune_base *b;
    const stage_tensor *tensors;
    uint32_t from_layer, layer;
    float *out;
} weights_job;

// The same tensor of another layer.
static uint32_t canonical_of(const model_config *c, uint32_t canonical, uint32_t from_layer, uint32_t layer) {
    uint32_t before = model_tensors_before(c), each = model_tensors_per_block(c);
    if (canonical < before || canonical >= before + each * c->layers) return canonical;
    return canonical - from_layer * each + layer * each;
}

// to[cols, rows] = from[rows, cols], a few columns at a time.
static void turn(const model_file_tensor *t, float *to) {
    size_t rows = t->weights.rows, cols = t->weights.cols;
    float *row = malloc(cols * sizeof *row);
    BRAID_ALLOCATED(row, cols * sizeof *row);
    for (size_t r = 0; r < rows; r++) {
        weight_rows(&t->weights, r, 1, row);
        for (size_t c = 0; c < cols; c++) to[c * rows + r] = row[c];
    }
    free(row);
}

static void convert(void *context, size_t index) {
    const weights_job *job = context;
    const stage_tensor *at = &job->tensors[index];
    const model_config *c = job->b->model;
    uint32_t i = canonical_of(c, at->canonical, job->from_layer, job->layer);
    const model_file_tensor *t = model_file_at(job->b->config.file, i);
    model_tensor expected;
    model_tensor_at(c, i, &expected);
    if (t->transposed == expected.transposed)
        model_file_values(t, job->out + at->offset);
    else
        turn(t, job->out + at->offset);
}

void base_weights(const tune_base *b, const stage *s, uint32_t from_layer, uint32_t layer, float *out) {
    weights_job job = {b, stage_tensors(s), from_layer, layer, out};
    tensor_pool_run(b->config.pool, stage_tensor_count(s), convert, &job);
}

static const model_file_tensor *tensor_of(const tune_base *b, model_role role) {
    for (uint32_t i = 0; i < model_tensor_count(b->model); i++) {
        model_tensor t;
        model_tensor_at(b->model, i, &t);
        if (t.role == role) return model_file_at(b->config.file, i);
    }
    return NULL;
}

void base_embed(const tune_base *b, const int32_t *tokens, float *x) {
    const model_config *c = b->model;
    const model_file_tensor *embedding = tensor_of(b, ROLE_EMBEDDING), *positions = tensor_of(b, ROLE_POSITIONS);
    for (size_t r = 0; r < b->rows; r++, x += b->dim) {
        weight_rows(&embedding->weights, (size_t)tokens[r], 1, x);
        for (size_t i = 0; i < b->dim && c->embedding_scale > 0; i++) x[i] *= c->embedding_scale;
        if (!positions) continue;
        float *added = b->head_unused;  // free outside the head
        weight_rows(&positions->weights, r % b->config.tokens, 1, added);
        for (size_t i = 0; i < b->dim; i++) x[i] += added[i];
    }
}
