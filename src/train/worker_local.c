// Local steps: a microbatch of an iteration is a chain of AdamW steps from the iteration's weights,
// each on tokens of its own, and its contribution is the difference of the weights. That is a pure
// function of the iteration's weights and m, like a gradient. So counting, repair, exact sums and
// the reduction are those of a run without local steps.
#include "train/optimizer.h"
#include "train/sum.h"
#include "train/worker_inside.h"

#include <string.h>

typedef struct local_run {
    const worker_local_host *host;
    worker *w;
    train_step step;
    float share;  // of the difference, by the tokens of the first step
} local_run;

static float *place_gradient(void *context, size_t offset) {
    return ((local_run *)context)->w->local.gradient + offset;
}

static void take_gradient(void *context, size_t offset, const float *gradient, size_t count) {
    memcpy(place_gradient(context, offset), gradient, count * sizeof *gradient);
}

static void begin_block(void *context, size_t b) {
    worker *w = ((local_run *)context)->w;
    size_t at = w->blocks[b].offset, bytes = w->blocks[b].count * sizeof(float);
    memcpy(w->local.weights + at, w->weights + at, bytes);
    memset(w->local.moment1 + at, 0, bytes);
    memset(w->local.moment2 + at, 0, bytes);
}

static void measure_block(void *context, size_t b) {
    worker *w = ((local_run *)context)->w;
    w->local.norm2[b] = sum_norm2(w->local.gradient + w->blocks[b].offset, w->blocks[b].count);
}

static void step_block(void *context, size_t b) {
    local_run *r = context;
    worker *w = r->w;
    size_t at = w->blocks[b].offset;
    adamw_apply(&w->config.recipe, &r->step, w->tensors[w->blocks[b].tensor].decay, w->blocks[b].count,
                w->local.gradient + at, w->local.weights + at, w->local.moment1 + at, w->local.moment2 + at);
}

static void add_block(void *context, size_t b) {
    local_run *r = context;
    worker *w = r->w;
    size_t at = w->blocks[b].offset, end = at + w->blocks[b].count;
    float *difference = w->local.gradient;
    for (size_t i = at; i < end; i++) difference[i] = (w->weights[i] - w->local.weights[i]) * r->share;
    r->host->add(r->host->context, at, difference + at, w->blocks[b].count);
}

static uint32_t count_tokens(const worker *w, const int32_t *targets) {
    uint32_t count = 0;
    for (size_t i = 0; i < w->rows; i++) count += targets[i] >= 0;
    return count;
}

// The gradient of a later step at the local weights. False: its tokens cannot be read.
static bool local_gradient(local_run *r, void *stash, uint32_t step, int32_t *inputs, int32_t *targets) {
    worker *w = r->w;
    const stage_sink sink = {.take = take_gradient, .place = place_gradient, .context = r};
    uint32_t tokens;
    if (!r->host->draw(r->host->call, step, inputs, targets)) {
        w->text_changed = r->host->call->result->failed = true;
        return false;
    }
    if (w->config.shape.documents) stage_set_documents(w->stage, stash, w->documents);
    stage_forward(w->stage, stash, inputs, NULL, w->local.y);
    stage_loss(w->stage, stash, w->local.y, targets, w->local.dx, &tokens);
    stage_gradients(w->stage, stash, w->local.dx, NULL, &sink);
    return true;
}

static void take_step(local_run *r, uint32_t step, uint32_t tokens) {
    worker *w = r->w;
    double norm2 = 0;
    tensor_pool_run(w->pool, w->block_count, measure_block, r);
    for (uint32_t b = 0; b < w->block_count; b++) norm2 += w->local.norm2[b];
    r->step = train_local_step(&w->config.recipe, r->host->call->work->iteration, step, norm2, tokens);
    tensor_pool_run(w->pool, w->block_count, step_block, r);
}

void worker_local_steps(const worker_local_host *host, void *stash) {
    worker *w = host->call->w;
    local_run r = {.host = host, .w = w};
    int32_t *inputs = w->inputs + host->call->work->slot * w->rows,
            *targets = w->targets + host->call->work->slot * w->rows;
    const stage_sink sink = {.take = take_gradient, .place = place_gradient, .context = &r};
    bool good = true;
    r.share = (float)count_tokens(w, targets) / (float)w->rows;
    tensor_pool_run(w->pool, w->block_count, begin_block, &r);
    stage_weight_gradient(w->stage, stash, &sink);
    for (uint32_t step = 0; step < w->config.recipe.local_steps && good; step++) {
        if (step == 1) stage_bind(w->stage, w->local.weights);
        if (step > 0) good = local_gradient(&r, stash, step, inputs, targets);
        if (good) take_step(&r, step, count_tokens(w, targets));
    }
    stage_bind(w->stage, w->weights);
    if (good) tensor_pool_run(w->pool, w->block_count, add_block, &r);
}
