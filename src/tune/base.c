#include "tune/base_inside.h"

#include "base/rng.h"
#include "tensor/sizes.h"

#include <stdlib.h>
#include <string.h>

static stage_shape layer_shape(const tune_base *b, uint32_t layer) {
    return (stage_shape){.layer_begin = layer,
                         .layer_end = layer + 1,
                         .sequences = b->config.remote ? 1 : b->config.sequences,
                         .tokens = b->config.remote ? 1 : b->config.tokens,
                         .documents = true,
                         .frozen = true};
}

// ---- start

static braid_err make_kinds(tune_base *b, braid_error *error) {
    braid_err err = BRAID_OK;
    for (uint32_t layer = base_first(b); layer < base_first(b) + base_count(b) && !err; layer++) {
        base_kind *k = &b->kinds[base_kind_of(b->model, layer)];
        stage_shape shape = layer_shape(b, layer);
        if (k->stage) continue;
        k->layer = layer;
        err = stage_new(b->model, &shape, b->config.pool, &k->stage, error);
        if (!err) err = adapter_new(k->stage, &b->config.adapter, &k->adapter, error);
        if (err) break;
        b->layer_adapter = adapter_parameters(k->adapter);
        b->bytes += stage_work_bytes(k->stage);
        if (stage_stash_bytes(k->stage) > b->stash_bytes) b->stash_bytes = stage_stash_bytes(k->stage);
    }
    b->stash_bytes = size_up(b->stash_bytes, BASE_ALIGNMENT);
    return err;
}

static braid_err make_head(tune_base *b, braid_error *error) {
    b->head_rows = size_least(b->rows, size_least(BASE_HEAD_ROWS, b->model->context));
    stage_shape shape = {.ends = true, .sequences = 1, .tokens = (uint32_t)b->head_rows, .frozen = true};
    braid_err err = stage_new(b->model, &shape, b->config.pool, &b->head, error);
    if (!err) b->bytes += stage_work_bytes(b->head);
    return err;
}

static void *reserve(tune_base *b, size_t bytes) {
    bytes = size_up(bytes, BASE_ALIGNMENT);
    b->bytes += bytes;
    return aligned_alloc(BASE_ALIGNMENT, bytes);
}

static float *reserve_floats(tune_base *b, size_t count) { return reserve(b, count * sizeof(float)); }

static size_t layer_parameters(const tune_base *b) {
    size_t most = 0;
    for (int i = 0; i < BASE_KINDS; i++)
        if (b->kinds[i].stage && stage_parameters(b->kinds[i].stage) > most) most = stage_parameters(b->kinds[i].stage);
    return most;
}

static braid_err reserve_layers(tune_base *b, braid_error *error) {
    size_t one = b->rows * b->dim, layer = b->config.remote ? 0 : layer_parameters(b);
    bool good = (b->weights = reserve_floats(b, layer)) && (b->merged = reserve_floats(b, layer));
    for (int i = 0; i < 2 && good; i++)
        good = (b->x[i] = reserve_floats(b, one)) && (b->dy[i] = reserve_floats(b, one));
    return good ? BRAID_OK
                : braid_fail(error, BRAID_MEMORY, "no memory for tuning: give smaller --batch or --sequence");
}

static braid_err reserve_head(tune_base *b, braid_error *error) {
    size_t head = b->head_rows * b->dim;
    bool good = (b->head_weights = reserve_floats(b, stage_parameters(b->head))) &&
                (b->head_x = reserve_floats(b, head)) && (b->head_dx = reserve_floats(b, head)) &&
                (b->head_unused = reserve_floats(b, head)) &&
                (b->head_tokens = reserve(b, b->head_rows * sizeof *b->head_tokens)) &&
                (b->head_targets = reserve(b, b->head_rows * sizeof *b->head_targets)) &&
                (b->head_from = reserve(b, b->head_rows * sizeof *b->head_from)) &&
                (b->head_stash = reserve(b, stage_stash_bytes(b->head)));
    if (!good) return braid_fail(error, BRAID_MEMORY, "no memory for tuning: give smaller --batch or --sequence");
    memset(b->head_tokens, 0, b->head_rows * sizeof *b->head_tokens);
    base_weights(b, b->head, 0, 0, b->head_weights);
    stage_bind(b->head, b->head_weights);
    return BRAID_OK;
}

static uint64_t input_bytes(const tune_base *b) { return size_up(b->rows * b->dim * sizeof(float), BASE_ALIGNMENT); }

static size_t inputs_bytes(const tune_base *b) { return (base_computed(b) - b->kept + 1) * input_bytes(b); }

static size_t stashes_bytes(const tune_base *b) { return (b->kept + (b->kept < base_computed(b))) * b->stash_bytes; }

// Keeps the activations of as many layers as there is memory for.
static braid_err reserve_activations(tune_base *b, braid_error *error) {
    uint32_t layers = base_computed(b);
    uint64_t most = b->config.max_memory, input = input_bytes(b);
    uint64_t least = b->bytes + b->stash_bytes + layers * input;
    if (most > 0 && most < least)
        return braid_fail(error, BRAID_LIMIT,
                          "tuning needs %llu MiB besides the model's file: raise --max-memory, or give smaller --batch "
                          "or --sequence",
                          (unsigned long long)(least >> 20) + 1);
    b->kept = layers;
    if (most > 0 && most < b->bytes + layers * b->stash_bytes + input)
        b->kept = (uint32_t)size_least(layers - 1, (most - least) / b->stash_bytes);
    b->stashes = reserve(b, stashes_bytes(b));
    b->inputs = reserve(b, inputs_bytes(b));
    return b->stashes && b->inputs
               ? BRAID_OK
               : braid_fail(error, BRAID_MEMORY, "no memory for the activations of %u layers: give --max-memory",
                            b->kept);
}

braid_err tune_base_new(const tune_base_config *config, tune_base **out, braid_error *error) {
    tune_base *b = *out = calloc(1, sizeof *b);
    if (!b) return braid_fail(error, BRAID_MEMORY, "no memory for tuning");
    b->config = *config;
    b->model = model_file_config(config->file);
    b->rows = (size_t)config->sequences * config->tokens;
    b->dim = b->model->dim;
    b->loaded = UINT32_MAX;
    bool ends = config->part.begin == config->part.end;
    if (ends) b->config.part = (tune_part){0, b->model->layers};
    braid_err err = make_kinds(b, error);
    if (!err && ends) err = make_head(b, error);
    if (!err) err = reserve_layers(b, error);
    if (!err && ends) err = reserve_head(b, error);
    if (!err) err = reserve_activations(b, error);
    if (!err && config->remote)
        err = config->remote->open(config->remote->context, &config->adapter, config->sequences, config->tokens,
                                   b->layer_adapter, error);
    if (!err) return BRAID_OK;
    tune_base_free(b);
    *out = NULL;
    return err;
}

void tune_base_free(tune_base *b) {
    if (!b) return;
    for (int i = 0; i < BASE_KINDS; i++) {
        adapter_free(b->kinds[i].adapter);
        stage_free(b->kinds[i].stage);
    }
    stage_free(b->head);
    void *all[] = {b->weights,     b->merged,       b->head_weights, b->head_x,     b->head_dx, b->head_unused,
                   b->head_tokens, b->head_targets, b->head_from,    b->head_stash, b->x[0],    b->x[1],
                   b->dy[0],       b->dy[1],        b->stashes,      b->inputs};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
    free(b);
}

uint32_t tune_base_kept(const tune_base *b) { return b->kept; }
uint64_t tune_base_bytes(const tune_base *b) { return b->bytes; }

// ---- the adapter's parameters

static const base_kind *kind_at(const tune_base *b, uint32_t layer) { return &b->kinds[base_kind_of(b->model, layer)]; }

size_t tune_base_parameters(const tune_base *b) { return b->layer_adapter * base_count(b); }

void tune_base_init(const tune_base *b, float *parameters, uint64_t seed) {
    for (uint32_t layer = 0; layer < b->model->layers; layer++)
        adapter_init(kind_at(b, layer)->adapter, parameters + layer * b->layer_adapter, rng_seed(seed, layer));
}

uint32_t tune_base_matrices(const tune_base *b) {
    return b->model->layers * adapter_tensor_count(kind_at(b, 0)->adapter);
}

peft_matrix tune_base_matrix(const tune_base *b, uint32_t i, float *parameters) {
    uint32_t each = adapter_tensor_count(kind_at(b, 0)->adapter), layer = i / each;
    const base_kind *k = kind_at(b, layer);
    const adapter_tensor *t = &adapter_tensors(k->adapter)[i % each];
    uint32_t canonical = stage_tensors(k->stage)[t->tensor].canonical;
    model_tensor expected;
    model_tensor_at(b->model, canonical + (layer - k->layer) * model_tensors_per_block(b->model), &expected);
    float *at = parameters + layer * b->layer_adapter;
    const adapter_config *c = &b->config.adapter;
    peft_matrix m = {.role = expected.role,
                     .layer = layer,
                     .rank = c->rank,
                     .in = t->in,
                     .out = t->out,
                     .scale = adapter_scale(c->alpha, c->rank, c->rank_stabilised),
                     .a = at + t->a,
                     .b = at + t->b};
    memcpy(m.name, expected.name, sizeof m.name);
    return m;
}

// ---- layers. Stashes, inputs and parameters are numbered from the first layer of this base.

static stage *load(tune_base *b, uint32_t i, const float *parameters) {
    uint32_t layer = base_first(b) + i;
    const base_kind *k = kind_at(b, layer);
    if (b->loaded != layer) {
        base_weights(b, k->stage, k->layer, layer, b->weights);
        adapter_merge(k->adapter, b->weights, parameters + i * b->layer_adapter, true, b->merged);
    }
    b->loaded = layer;
    stage_bind(k->stage, b->merged);
    return k->stage;
}

static bool is_kept(const tune_base *b, uint32_t i) { return i >= base_count(b) - b->kept; }

static void *stash_of(const tune_base *b, uint32_t i) {
    uint32_t place = is_kept(b, i) ? i - (base_count(b) - b->kept) : b->kept;
    return b->stashes + place * b->stash_bytes;
}

// The input of a layer: memory of its own if the layer is computed again.
static float *input_of(tune_base *b, uint32_t i) {
    return i < base_count(b) && !is_kept(b, i) ? b->inputs + i * b->rows * b->dim : b->x[i % 2];
}

static void forward(tune_base *b, uint32_t i, const uint32_t *documents, const float *parameters, float *y) {
    stage *s = load(b, i, parameters);
    stage_set_documents(s, stash_of(b, i), documents);
    stage_forward(s, stash_of(b, i), NULL, input_of(b, i), y);
}

typedef struct sum {
    float *at;
} sum;

static void add_gradient(void *context, size_t offset, const float *gradient, size_t count) {
    float *to = ((const sum *)context)->at + offset;
    for (size_t i = 0; i < count; i++) to[i] += gradient[i];
}

static void backward(tune_base *b, uint32_t i, const uint32_t *documents, const float *parameters, float *gradient) {
    stage *s = load(b, i, parameters);
    void *stash = stash_of(b, i);
    sum into = {gradient + i * b->layer_adapter};
    const stage_sink sink = {.take = add_gradient, .context = &into};
    if (!is_kept(b, i)) forward(b, i, documents, parameters, b->x[0]);
    stage_input_gradient(s, stash, b->dy[(i + 1) % 2], b->dy[i % 2]);
    adapter_gradient(kind_at(b, base_first(b) + i)->adapter, stash, parameters + i * b->layer_adapter, &sink);
}

void tune_base_forward(tune_base *b, const uint32_t *documents, const float *x, const float *parameters, float *y) {
    size_t bytes = b->rows * b->dim * sizeof *x;
    memcpy(input_of(b, 0), x, bytes);
    for (uint32_t i = 0; i < base_count(b); i++) forward(b, i, documents, parameters, input_of(b, i + 1));
    memcpy(y, input_of(b, base_count(b)), bytes);
}

void tune_base_backward(tune_base *b, const uint32_t *documents, const float *dy, const float *parameters, float *dx,
                        float *gradient) {
    size_t bytes = b->rows * b->dim * sizeof *dy;
    memcpy(b->dy[base_count(b) % 2], dy, bytes);
    for (uint32_t i = base_count(b); i-- > 0;) backward(b, i, documents, parameters, gradient);
    memcpy(dx, b->dy[0], bytes);
}

void tune_base_wipe(tune_base *b) {
    b->loaded = UINT32_MAX;
    memset(b->stashes, 0, stashes_bytes(b));
    memset(b->inputs, 0, inputs_bytes(b));
    memset(b->merged, 0, layer_parameters(b) * sizeof *b->merged);
    for (int i = 0; i < BASE_KINDS; i++)
        if (b->kinds[i].adapter) adapter_wipe(b->kinds[i].adapter);
}

// ---- the head

// The next rows with a target, from row `*at` on. Returns how many.
static size_t gather(tune_base *b, const float *x, const int32_t *targets, size_t *at) {
    size_t count = 0;
    for (; *at < b->rows && count < b->head_rows; (*at)++) {
        if (targets[*at] < 0) continue;
        memcpy(b->head_x + count * b->dim, x + *at * b->dim, b->dim * sizeof *x);
        b->head_targets[count] = targets[*at];
        b->head_from[count++] = *at;
    }
    for (size_t i = count; i < b->head_rows; i++) {
        memset(b->head_x + i * b->dim, 0, b->dim * sizeof *x);
        b->head_targets[i] = -1;
    }
    return count;
}

// dy NULL: only the loss.
static double head(tune_base *b, const float *x, const int32_t *targets, float *dy) {
    double loss = 0;
    size_t at = 0, count;
    uint32_t counted;
    if (dy) memset(dy, 0, b->rows * b->dim * sizeof *dy);
    while ((count = gather(b, x, targets, &at)) > 0) {
        stage_forward(b->head, b->head_stash, b->head_tokens, NULL, b->head_unused);
        loss += stage_loss(b->head, b->head_stash, b->head_x, b->head_targets, dy ? b->head_dx : NULL, &counted);
        for (size_t i = 0; i < count && dy; i++)
            memcpy(dy + b->head_from[i] * b->dim, b->head_dx + i * b->dim, b->dim * sizeof *dy);
    }
    return loss;
}

void tune_base_begin(tune_base *b, const float *parameters) {
    const tune_remote *r = b->config.remote;
    b->loaded = UINT32_MAX;  // the parameters may have changed
    if (r) r->begin(r->context, parameters);
}

void tune_base_end(tune_base *b) {
    const tune_remote *r = b->config.remote;
    if (r) r->end(r->context);
}

static braid_err run_elsewhere(tune_base *b, const tune_microbatch *m, float *gradient, double *loss,
                               braid_error *error) {
    const tune_remote *r = b->config.remote;
    braid_err err = r->forward(r->context, m->documents, b->x[0], gradient != NULL, b->x[1], error);
    if (err) return err;
    *loss = head(b, b->x[1], m->targets, gradient ? b->dy[0] : NULL);
    return gradient ? r->backward(r->context, b->dy[0], gradient, error) : BRAID_OK;
}

braid_err tune_base_run(tune_base *b, const tune_microbatch *m, const float *parameters, float *gradient, double *loss,
                        braid_error *error) {
    uint32_t layers = base_count(b);
    if (b->config.remote) {
        base_embed(b, m->tokens, b->x[0]);
        return run_elsewhere(b, m, gradient, loss, error);
    }
    base_embed(b, m->tokens, input_of(b, 0));
    for (uint32_t i = 0; i < layers; i++) forward(b, i, m->documents, parameters, input_of(b, i + 1));
    *loss = head(b, input_of(b, layers), m->targets, gradient ? b->dy[layers % 2] : NULL);
    for (uint32_t i = layers; i-- > 0 && gradient;) backward(b, i, m->documents, parameters, gradient);
    return BRAID_OK;
}
