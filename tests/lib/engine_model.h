// Small models with random weights in memory, as an engine reads them.
#ifndef BRAID_TEST_ENGINE_MODEL_H
#define BRAID_TEST_ENGINE_MODEL_H

#include "base/rng.h"
#include "infer/engine.h"
#include "model/rows.h"
#include "tensor/gemm.h"

#include <stdlib.h>
#include <string.h>

typedef struct tiny_model {
    model_config config;
    model_file_tensor *tensors;
    uint32_t count;
} tiny_model;

static const model_file_tensor *tiny_find(const void *context, const char *name) {
    const tiny_model *m = context;
    for (uint32_t i = 0; i < m->count; i++)
        if (strcmp(m->tensors[i].name, name) == 0) return &m->tensors[i];
    return NULL;
}

// Matrices of deviation 1 / sqrt(in), vectors around 1 (norms) or 0 (biases).
static void tiny_values(const model_tensor *t, uint64_t seed, float *values) {
    rng r = {seed};
    size_t in = t->transposed ? t->rows : t->cols;
    bool is_norm = t->vector && !strstr(t->name, "bias");
    float deviation = t->vector ? 0.2f : 1.7f;
    for (size_t i = 0; i < (size_t)t->rows * t->cols; i++) {
        float x = (float)(2 * rng_unit(&r) - 1) * deviation;
        for (size_t k = 1; !t->vector && k < in; k *= 4) x *= 0.5f;
        values[i] = is_norm ? 1 + x : x;
    }
}

// One block of ggml's Q8_0, with values near those given.
static void tiny_block(const float *from, unsigned char *to) {
    float largest = 0;
    for (int i = 0; i < 32; i++) largest = fmaxf(largest, fabsf(from[i]));
    int exponent;
    frexpf(largest / 127, &exponent);  // the scale is a power of two, so its fp16 is exact
    float scale = ldexpf(1, exponent);
    uint16_t half = (uint16_t)((exponent + 15) << 10);
    memcpy(to, &half, sizeof half);
    for (int i = 0; i < 32; i++) to[2 + i] = (unsigned char)(int8_t)lrintf(from[i] / scale);
}

static void tiny_tensor(model_file_tensor *to, const model_tensor *t, weight_type type, uint64_t seed) {
    size_t count = (size_t)t->rows * t->cols;
    float *values = malloc(count * sizeof *values);
    if (!values) abort();
    tiny_values(t, seed, values);
    memcpy(to->name, t->name, sizeof to->name);
    to->vector = t->vector;
    to->transposed = t->transposed;
    to->weights = (weight_matrix){WEIGHT_F32, t->rows, t->cols, values};
    if (type != WEIGHT_Q8_0 || t->vector || t->transposed || t->cols % 32) return;
    unsigned char *blocks = malloc(count / 32 * 34);
    if (!blocks) abort();
    for (size_t i = 0; i < count / 32; i++) tiny_block(values + 32 * i, blocks + 34 * i);
    to->weights = (weight_matrix){WEIGHT_Q8_0, t->rows, t->cols, blocks};
    free(values);
}

// `type`: WEIGHT_F32 or WEIGHT_Q8_0, of the matrices. Free with tiny_model_free.
static void tiny_model_new(tiny_model *m, const model_config *config, weight_type type, uint64_t seed) {
    m->config = *config;
    m->count = model_tensor_count(config);
    m->tensors = calloc(m->count, sizeof *m->tensors);
    if (!m->tensors) abort();
    for (uint32_t i = 0; i < m->count; i++) {
        model_tensor t;
        model_tensor_at(config, i, &t);
        tiny_tensor(&m->tensors[i], &t, type, rng_seed(seed, i));
    }
}

static void tiny_model_free(tiny_model *m) {
    for (uint32_t i = 0; i < m->count; i++) free((void *)m->tensors[i].weights.data);
    free(m->tensors);
}

static engine_source tiny_source(const tiny_model *m) {
    return (engine_source){.config = &m->config, .find = tiny_find, .context = m};
}

#endif
