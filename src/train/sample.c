#include "train/sample.h"

#include "model/stage.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// qsort has no context: what is sorted carries its key.
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

// How many of the sorted choices stay, and their weights' sum.
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

enum { MAX_WINDOWS = 16, SMALLEST_WINDOW = 32, ALIGNMENT = 64 };

struct generator {
    model_config model;
    tensor_pool *pool;
    float *parameters;
    uint32_t window_count;
    uint32_t windows[MAX_WINDOWS];  // tokens, ascending; the last is the model's context
    stage *stages[MAX_WINDOWS];     // the model on as many tokens
    void *stash;
    float *activation, *logits;
    int32_t *tokens;  // [context]
    uint32_t count;   // of tokens read and kept
};

static void *room_for(size_t bytes) {
    return aligned_alloc(ALIGNMENT, (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT);
}

// There is no cache of keys and values: each byte costs a forward pass over a window. Short texts get short windows.
static braid_err make_windows(generator *g, braid_error *error) {
    uint32_t step = (g->model.context + MAX_WINDOWS - 1) / MAX_WINDOWS;
    if (step < SMALLEST_WINDOW) step = SMALLEST_WINDOW;
    braid_err err = BRAID_OK;
    for (uint32_t width = 0; width < g->model.context && !err;) {
        width = g->model.context - width > step ? width + step : g->model.context;
        stage_shape shape = {.layer_end = g->model.layers, .ends = true, .sequences = 1, .tokens = width};
        err = stage_new(&g->model, &shape, g->pool, &g->stages[g->window_count], error);
        if (!err) g->windows[g->window_count++] = width;
    }
    return err;
}

static braid_err load(generator *g, checkpoint *from, braid_error *error) {
    stage *widest = g->stages[g->window_count - 1];
    g->parameters = room_for(stage_parameters(widest) * sizeof(float));
    g->stash = room_for(stage_stash_bytes(widest));
    g->activation = room_for(stage_activation_elements(widest) * sizeof(float));
    g->logits = room_for(g->model.vocab * sizeof(float));
    g->tokens = calloc(g->model.context, sizeof *g->tokens);
    if (!g->parameters || !g->stash || !g->activation || !g->logits || !g->tokens)
        return braid_fail(error, BRAID_MEMORY, "no memory for this model");
    for (uint32_t i = 0; i < g->window_count; i++) stage_bind(g->stages[i], g->parameters);
    return checkpoint_read_stage(from, &g->model, stage_tensors(widest), stage_tensor_count(widest), g->parameters,
                                 NULL, NULL, error);
}

braid_err generator_new(checkpoint *from, unsigned threads, generator **out, braid_error *error) {
    generator *g = calloc(1, sizeof *g);
    if (!g) return braid_fail(error, BRAID_MEMORY, "no memory for this model");
    g->model = *checkpoint_model(from);
    braid_err err = tensor_pool_new(threads, &g->pool, error);
    if (!err) err = make_windows(g, error);
    if (!err) err = load(g, from, error);
    if (err)
        generator_free(g);
    else
        *out = g;
    return err;
}

void generator_free(generator *g) {
    if (!g) return;
    for (uint32_t i = 0; i < g->window_count; i++) stage_free(g->stages[i]);
    if (g->pool) tensor_pool_free(g->pool);
    free(g->parameters);
    free(g->stash);
    free(g->activation);
    free(g->logits);
    free(g->tokens);
    free(g);
}

void generator_read(generator *g, const uint8_t *bytes, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (g->count == g->model.context) {
            // Full: forget the older half, so that the next bytes are cheap again.
            uint32_t kept = (g->model.context + 1) / 2 < g->count ? (g->model.context + 1) / 2 : 0;
            memmove(g->tokens, g->tokens + g->count - kept, kept * sizeof *g->tokens);
            g->count = kept;
        }
        g->tokens[g->count++] = bytes[i];
    }
}

uint8_t generator_next(generator *g, const sample_settings *settings, rng *random) {
    if (g->count == 0) generator_read(g, (const uint8_t *)"\n", 1);
    uint32_t w = 0;
    while (g->windows[w] < g->count) w++;
    // What stands behind the last token cannot reach back to it: attention is causal.
    memset(g->tokens + g->count, 0, (g->model.context - g->count) * sizeof *g->tokens);
    stage_forward(g->stages[w], g->stash, g->tokens, NULL, g->activation);
    stage_logits(g->stages[w], g->activation, g->count - 1, g->logits);
    uint32_t choices = g->model.vocab < SAMPLE_BYTES ? g->model.vocab : SAMPLE_BYTES;
    uint8_t byte = (uint8_t)sample_token(g->logits, choices, settings, random);
    generator_read(g, &byte, 1);
    return byte;
}
