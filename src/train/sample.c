#include "train/sample.h"

#include "model/decoder.h"
#include "model/stage.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// qsort has no context, so the elements carry their sort key.
typedef struct choice {
    float logit;
    uint32_t token;
} choice;

static int compare_choices(const void *a, const void *b) {
    const choice *x = a, *y = b;
    if (x->logit > y->logit) return -1;
    if (x->logit < y->logit) return 1;
    return x->token < y->token ? -1 : x->token > y->token;
}

static uint32_t likeliest(const float *logits, uint32_t count) {
    uint32_t best = 0;
    for (uint32_t i = 1; i < count; i++)
        if (logits[i] > logits[best]) best = i;
    return best;
}

// Number of sorted choices that remain, and the sum of their weights.
static uint32_t cut(const choice *choices, uint32_t count, const sample_settings *settings, double *weights,
                    double *sum) {
    uint32_t kept = settings->top_k > 0 && settings->top_k < count ? settings->top_k : count;
    *sum = 0;
    for (uint32_t i = 0; i < kept; i++) {
        weights[i] = exp(((double)choices[i].logit - (double)choices[0].logit) / settings->temperature);
        *sum += weights[i];
    }
    double wanted = settings->top_p * *sum, have = 0;
    for (uint32_t i = 0; i < kept && settings->top_p < 1; i++) {
        have += weights[i];
        if (have < wanted) continue;
        *sum = have;
        return i + 1;
    }
    return kept;
}

uint32_t sample_token(const float *logits, uint32_t count, const sample_settings *settings, rng *random) {
    BRAID_ASSERT(count > 0 && count <= SAMPLE_BYTES);
    if (settings->temperature <= 0) return likeliest(logits, count);
    choice choices[SAMPLE_BYTES];
    double weights[SAMPLE_BYTES], sum;
    for (uint32_t i = 0; i < count; i++) choices[i] = (choice){isnan(logits[i]) ? -INFINITY : logits[i], i};
    qsort(choices, count, sizeof *choices, compare_choices);
    uint32_t kept = cut(choices, count, settings, weights, &sum);
    double at = rng_unit(random) * sum;
    for (uint32_t i = 0; i + 1 < kept; i++) {
        at -= weights[i];
        if (at < 0) return choices[i].token;
    }
    return choices[kept - 1].token;
}

enum { ALIGNMENT = 64 };

struct generator {
    model_config model;
    tensor_pool *pool;
    float *parameters;
    decoder *decoder;
    float *logits;
    int32_t *tokens;  // [context]
    uint32_t count;  // number of tokens received and kept; the decoder may be behind
};

static void *room_for(size_t bytes) {
    return aligned_alloc(ALIGNMENT, (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT);
}

static braid_err load_weights(checkpoint *from, tensor_pool *pool, float **out, braid_error *error) {
    const model_config *model = checkpoint_model(from);
    stage_shape shape = {.layer_end = model->layers, .ends = true, .sequences = 1, .tokens = 1};
    stage *s = NULL;
    braid_err err = stage_new(model, &shape, pool, &s, error);
    if (!err && !(*out = room_for(stage_parameters(s) * sizeof **out)))
        err = braid_fail(error, BRAID_MEMORY, "no memory for this model's weights");
    if (!err)
        err = checkpoint_read_stage(from, model, stage_tensors(s), stage_tensor_count(s), *out, NULL, NULL, error);
    stage_free(s);
    return err;
}

braid_err generator_new(checkpoint *from, bool narrow, unsigned threads, generator **out, braid_error *error) {
    const model_config *model = checkpoint_model(from);
    if (model->vocab < SAMPLE_BYTES)
        return braid_fail(error, BRAID_CONFIG, "this model has %u tokens; to read and write bytes it needs %d", model->vocab,
                          SAMPLE_BYTES);
    generator *g = calloc(1, sizeof *g);
    if (!g) return braid_fail(error, BRAID_MEMORY, "no memory for this model");
    g->model = *model;
    g->logits = room_for(g->model.vocab * sizeof *g->logits);
    g->tokens = calloc(g->model.context, sizeof *g->tokens);
    braid_err err = tensor_pool_new(threads, &g->pool, error);
    if (!err && (!g->logits || !g->tokens)) err = braid_fail(error, BRAID_MEMORY, "no memory for this model");
    if (!err) err = load_weights(from, g->pool, &g->parameters, error);
    if (!err) err = decoder_new(&g->model, g->parameters, narrow, g->pool, &g->decoder, error);
    if (err)
        generator_free(g);
    else
        *out = g;
    return err;
}

void generator_free(generator *g) {
    if (!g) return;
    decoder_free(g->decoder);
    if (g->pool) tensor_pool_free(g->pool);
    free(g->parameters);
    free(g->logits);
    free(g->tokens);
    free(g);
}

void generator_read(generator *g, const uint8_t *bytes, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (g->count == g->model.context) {
            // The buffer is full: drops the older half; the rest gets new positions and is read
            // again.
            uint32_t kept = g->model.context / 2;
            memmove(g->tokens, g->tokens + g->count - kept, kept * sizeof *g->tokens);
            g->count = kept;
            decoder_rewind(g->decoder);
        }
        g->tokens[g->count++] = bytes[i];
    }
}

// The logits after the last token. They are computed on demand, because callers may append more
// first.
static void catch_up(generator *g) {
    if (g->count == 0) generator_read(g, (const uint8_t *)"\n", 1);
    for (uint32_t i = decoder_position(g->decoder); i < g->count; i++)
        decoder_read(g->decoder, (uint32_t)g->tokens[i], i + 1 == g->count ? g->logits : NULL);
}

uint8_t generator_next(generator *g, const sample_settings *settings, rng *random) {
    catch_up(g);
    uint8_t byte = (uint8_t)sample_token(g->logits, SAMPLE_BYTES, settings, random);
    generator_read(g, &byte, 1);
    return byte;
}

double generator_surprise(generator *g, uint8_t byte) {
    catch_up(g);
    float top = g->logits[likeliest(g->logits, g->model.vocab)];
    double sum = 0;
    for (uint32_t i = 0; i < g->model.vocab; i++) sum += exp((double)g->logits[i] - (double)top);
    double surprise = log(sum) - ((double)g->logits[byte] - (double)top);
    generator_read(g, &byte, 1);
    return surprise;
}
