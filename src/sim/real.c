// The kernels of the real process on a model so small that thousands of runs take a minute.
#include "base/rng.h"
#include "sim/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TEXT_BYTES = 4096, TINY_TOKENS = 8, TINY_SEQUENCES = 1 };

typedef struct real_model {
    sim_model base;
    worker_config config;
    uint32_t layers[WIRE_MAX_STAGES];
    uint32_t first_layer[WIRE_MAX_STAGES];
    train_data *data;
    tensor_pool *pool;
} real_model;

typedef struct real_worker {
    sim_worker base;
    worker *inner;
} real_worker;

static void real_run(sim_worker *base, const job *work, const worker_blobs *blobs, job_result *result) {
    real_worker *w = (real_worker *)base;
    worker_run(w->inner, work, blobs, result);
    // donors that may send wrong data
    bool from_others = (work->kind == JOB_STATE_PUT && work->named) || work->kind == JOB_NAMES_PUT;
    if (result->failed && !from_others) snprintf(base->complaint, sizeof base->complaint, "the worker refuses it");
}

static void real_free(sim_worker *base) {
    real_worker *w = (real_worker *)base;
    worker_free(w->inner);
    free(w);
}

static worker_config config_of(const real_model *model, uint16_t index, uint32_t capacity) {
    worker_config config = model->config;
    config.shape.layer_begin = model->first_layer[index];
    config.shape.layer_end = model->first_layer[index] + model->layers[index];
    config.shape.ends = index == 0;
    config.capacity = capacity;
    config.data = index == 0 ? model->data : NULL;
    return config;
}

static sim_worker *real_open(const sim_model *base, uint16_t index, uint32_t capacity) {
    const real_model *model = (const real_model *)base;
    real_worker *w = calloc(1, sizeof *w);
    BRAID_ALLOCATED(w, sizeof *w);
    w->base = (sim_worker){.run = real_run, .free = real_free, .stage = index};
    worker_config config = config_of(model, index, capacity);
    braid_error error;
    if (worker_new(&config, model->pool, &w->inner, &error) != BRAID_OK) fprintf(stderr, "%s\n", error.text);
    BRAID_ASSERT(w->inner);
    return &w->base;
}

static void real_model_free(sim_model *base) {
    real_model *model = (real_model *)base;
    train_data_free(model->data);
    if (model->pool) tensor_pool_free(model->pool);
    free(base->tensor_stage);
    free(model);
}

// Letters with a little structure, so that there is something to learn.
static braid_err text_make(real_model *model, uint64_t seed, braid_error *error) {
    char path[] = "/tmp/braid-sim-XXXXXX";
    int file = mkstemp(path);
    if (file < 0) return braid_fail(error, BRAID_IO, "cannot make a file for the text in /tmp");
    char text[TEXT_BYTES];
    rng r = {seed};
    for (size_t i = 0; i < sizeof text; i++) text[i] = (char)(i % 7 == 6 ? ' ' : 'a' + rng_below(&r, 4 + i % 5));
    bool written = write(file, text, sizeof text) == (ssize_t)sizeof text;
    close(file);
    const char *paths[] = {path};
    braid_err err = written ? train_data_open(paths, 1, 0.1, TINY_TOKENS, &model->data, error) : braid_fail(error, BRAID_IO, "cannot write %s", path);
    unlink(path);
    return err;
}

static void model_describe(real_model *model, uint64_t seed, uint16_t stages, uint32_t microbatches, uint64_t iterations, tensor_links links) {
    model->base = (sim_model){.stages = stages, .reproducible = true, .open = real_open, .free = real_model_free};
    uint32_t layers = 0;
    for (uint16_t i = 0; i < stages; i++) {
        model->layers[i] = i == 0 ? (uint32_t)(seed % 2) : 1;
        model->first_layer[i] = layers;
        layers += model->layers[i];
    }
    model->config = (worker_config){
        .model = {.arch = MODEL_LLAMA, .dim = 16, .layers = layers, .heads = 2, .kv_heads = 1, .ffn_dim = 32, .vocab = 256, .context = 16,
                  .rope_theta = 10000.0f, .norm_eps = 1e-5f, .tied = false},
        .shape = {.sequences = TINY_SEQUENCES, .tokens = TINY_TOKENS, .links = {.forward = links.forward, .backward = links.backward}},
        .recipe = {.iterations = iterations, .warmup = 1, .learning_rate = 0.01f, .min_learning_rate = 0.001f, .beta1 = 0.9f, .beta2 = 0.95f,
                   .eps = 1e-8f, .weight_decay = 0.1f, .clip = 1.0f, .reproducible = true},
        .seed = seed,
        .microbatches = microbatches,
    };
    size_t values = (size_t)TINY_SEQUENCES * TINY_TOKENS * model->config.model.dim;
    model->base.activation_bytes = tensor_codec_bytes(links.forward, values);
    model->base.gradient_bytes = tensor_codec_bytes(links.backward, values);
}

static void model_measure(real_model *model) {
    for (uint16_t i = 0; i < model->base.stages; i++) {
        real_worker *w = (real_worker *)real_open(&model->base, i, 1);
        model->base.blocks[i] = worker_blocks(w->inner);
        model->base.tensors[i] = stage_tensor_count(worker_stage(w->inner));
        real_free(&w->base);
    }
    model->base.model_tensors = model_tensor_count(&model->config.model);
    model->base.tensor_stage = calloc(model->base.model_tensors, sizeof(uint16_t));
    BRAID_ALLOCATED(model->base.tensor_stage, model->base.model_tensors * sizeof(uint16_t));
    model_tensor_stages(&model->config.model, model->layers, model->base.stages, model->base.tensor_stage);
}

braid_err sim_real_new(uint64_t seed, uint16_t stages, uint32_t microbatches, uint64_t iterations, tensor_links links, sim_model **out, braid_error *error) {
    real_model *model = calloc(1, sizeof *model);
    BRAID_ALLOCATED(model, sizeof *model);
    model_describe(model, seed, stages, microbatches, iterations, links);
    braid_err err = text_make(model, seed, error);
    if (err == BRAID_OK) err = tensor_pool_new(1, &model->pool, error);
    if (err != BRAID_OK) {
        real_model_free(&model->base);
        return err;
    }
    model_measure(model);
    *out = &model->base;
    return BRAID_OK;
}
