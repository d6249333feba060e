#include "train/kernel_class.h"

#include "base/sha256.h"
#include "model/stage.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { CLASS_SEED = 1, CLASS_VOCABULARY = 512, CLASS_TOKENS = 128, CLASS_DIM = 1536, CLASS_FFN_DIM = 3072, CLASS_EXPERTS = 8, ALIGNMENT = 64 };

typedef struct trial {
    stage *stage;
    model_config model;
    uint32_t tokens;
    float *parameters, *gradient, *x, *y;
    void *stash;
} trial;

static uint32_t smaller(uint32_t a, uint32_t b) { return a < b ? a : b; }

static uint32_t shorter(uint32_t width) {
    return width > CLASS_FFN_DIM ? CLASS_FFN_DIM / 2 + width % (CLASS_FFN_DIM / 2) : width;
}

// One layer with the switches of any.
static void narrow_layers(model_config *model) {
    bool windowed = model->window > 0;
    memset(model->windowed, 0, sizeof model->windowed);
    memset(model->unrotated, 0, sizeof model->unrotated);
    if (windowed) model_set_layer(model->windowed, 0);
    model->window = smaller(model->window, CLASS_TOKENS / 2);
    model->layers = 1;
}

// A smaller size that exercises the same kernel paths: a kernel treats more heads, rows and columns
// in the same way after a few blocks, and the remainder behind whole blocks and vectors is kept. So
// even the largest models take a second and not ten.
static void narrow(model_config *model) {
    const model_row *row = model_row_of(model->arch);
    uint32_t width = smaller(model_head_dim(model), CLASS_DIM), most = CLASS_DIM / width, share = model->heads / model->kv_heads;
    uint32_t each = model->head_dim ? model->dim / model->heads : width;  // of the model's width, per head
    if (model->heads > most) {
        share = smaller(share, most);
        model->kv_heads = row->learned_positions ? most : most / share;
        model->heads = row->learned_positions ? most : model->kv_heads * share;
    }
    model->dim = model->heads * smaller(each, CLASS_DIM / model->heads);
    if (!model->head_dim) model->dim = model->heads * width;
    if (row->scaled_embedding) model->embedding_scale = sqrtf((float)model->dim);
    model->ffn_dim = shorter(model->ffn_dim);
    model->expert_ffn_dim = shorter(model->expert_ffn_dim);
    model->experts = smaller(model->experts, CLASS_EXPERTS);
    model->experts_used = smaller(model->experts_used, model->experts);
    narrow_layers(model);
}

static void *reserve(size_t bytes) { return aligned_alloc(ALIGNMENT, (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT); }

static braid_err trial_open(trial *t, const model_config *model, bool fastest, tensor_pool *pool, braid_error *error) {
    t->model = *model;
    narrow(&t->model);
    t->model.vocab = smaller(model->vocab, CLASS_VOCABULARY);
    t->model.context = t->tokens = smaller(model->context, CLASS_TOKENS);
    stage_shape shape = {.layer_end = 1, .ends = true, .sequences = 1, .tokens = t->tokens, .fastest = fastest};
    braid_err err = stage_new(&t->model, &shape, pool, &t->stage, error);
    if (err) return err;
    size_t parameters = stage_parameters(t->stage) * sizeof(float),
           activation = stage_activation_elements(t->stage) * sizeof(float);
    t->parameters = reserve(parameters);
    t->gradient = reserve(parameters);
    t->x = reserve(activation);
    t->y = reserve(activation);
    t->stash = reserve(stage_stash_bytes(t->stage));
    if (t->parameters && t->gradient && t->x && t->y && t->stash) return BRAID_OK;
    return braid_fail(error, BRAID_MEMORY, "no memory to try the kernels on one block of the model (%zu MiB)",
                      2 * parameters >> 20);
}

static void trial_close(trial *t) {
    free(t->parameters);
    free(t->gradient);
    free(t->x);
    free(t->y);
    free(t->stash);
    stage_free(t->stage);
}

static void keep_gradient(void *context, size_t offset, const float *gradient, size_t count) {
    trial *t = context;
    memcpy(t->gradient + offset, gradient, count * sizeof *gradient);
}

static braid_hash trial_run(trial *t) {
    int32_t tokens[CLASS_TOKENS], targets[CLASS_TOKENS];
    for (uint32_t i = 0; i < t->tokens; i++) {
        tokens[i] = (int32_t)(i * 37 % t->model.vocab);
        targets[i] = (int32_t)((i * 37 + 11) % t->model.vocab);
    }
    size_t activation = stage_activation_elements(t->stage) * sizeof(float);
    uint32_t counted;
    sha256 hash;
    sha256_init(&hash);
    stage_init(t->stage, t->parameters, CLASS_SEED);
    stage_bind(t->stage, t->parameters);
    stage_forward(t->stage, t->stash, tokens, NULL, t->x);
    sha256_update(&hash, t->x, activation);
    double loss = stage_loss(t->stage, t->stash, t->x, targets, t->y, &counted);
    sha256_update(&hash, &loss, sizeof loss);
    sha256_update(&hash, t->y, activation);
    sha256_update(&hash, stage_input_gradient(t->stage, t->stash, t->y, NULL), activation);
    stage_weight_gradient(t->stage, t->stash, &(stage_sink){.take = keep_gradient, .context = t});
    sha256_update(&hash, t->gradient, stage_parameters(t->stage) * sizeof(float));
    return sha256_final(&hash);
}

braid_err kernel_class_of(const model_config *model, bool fastest, braid_hash *out, braid_error *error) {
    tensor_pool *pool = NULL;
    trial t = {0};
    braid_err err = tensor_pool_new(1, &pool, error);
    if (!err) err = trial_open(&t, model, fastest, pool, error);
    if (!err) *out = trial_run(&t);
    trial_close(&t);
    if (pool) tensor_pool_free(pool);
    return err;
}
