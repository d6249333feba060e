// The jobs on weights and moments: initial values, apply, transfer. For content hashes see
// worker_names.c.
#include "train/worker_inside.h"

#include "train/digest.h"
#include "train/optimizer.h"
#include "train/state_blob.h"

static void init_adapter(worker *w) {
    memset(w->weights, 0, w->parameters * sizeof *w->weights);
    adapter_init(w->adapter.parts, w->weights, w->config.seed);
}

void worker_state_init(const worker_call *call) {
    worker *w = call->w;
    if (w->loaded && w->loaded_version == call->work->version) {
        // Keeps the values that worker_load placed; after training they no longer exist.
        uint64_t version = worker_version(w);
        call->result->failed = version != w->loaded_version;
        call->result->version = version;
        return;
    }
    call->result->version = call->work->version;
    w->adapter.stale = true;
    if (w->adapter.parts)
        init_adapter(w);
    else
        stage_init(w->stage, w->weights, w->config.seed);
    memset(w->moment1, 0, w->parameters * sizeof *w->moment1);
    memset(w->moment2, 0, w->parameters * sizeof *w->moment2);
    for (uint32_t b = 0; b < w->block_count; b++) w->versions[b] = call->work->version;
}

typedef struct application {
    worker *w;
    train_step step;
    uint64_t iteration;
} application;

static void apply_block(void *context, size_t i) {
    application *a = context;
    worker *w = a->w;
    if (w->versions[i] != a->iteration) return;
    const block *range = &w->blocks[i];
    size_t at = range->offset;
    if (!a->step.skip && w->config.recipe.local_steps > 0)
        nesterov_apply(&w->config.recipe, &a->step, range->count, w->results + at, w->weights + at, w->moment1 + at);
    else if (!a->step.skip)
        adamw_apply(&w->config.recipe, &a->step, w->tensors[range->tensor].decay, range->count, w->results + at,
                    w->weights + at, w->moment1 + at, w->moment2 + at);
    w->versions[i] = a->iteration + 1;
}

void worker_apply(const worker_call *call) {
    const job *work = call->work;
    application a = {.w = call->w, .iteration = work->iteration};
    a.step = (train_step){work->clip, work->learning_rate, work->bias1, work->bias2, work->skip};
    worker_each(call, call->w->block_count, apply_block, &a);
    call->w->adapter.stale = true;
}

static void hash_weights(void *context, size_t pair) {
    worker *w = context;
    worker_hash_pair(w, pair, w->weights);
}

void worker_leaves(const worker_call *call) {
    worker *w = call->w;
    worker_each(call, (w->block_count + 1) / 2, hash_weights, w);
    void *out = worker_write(call, w->block_count * sizeof *w->block_hash);
    if (out) memcpy(out, w->block_hash, w->block_count * sizeof *w->block_hash);
    call->result->version = worker_version(w);
}

void worker_state_get(const worker_call *call) {
    worker *w = call->w;
    const job *work = call->work;
    if (!worker_range(call)) return;
    call->result->version = w->versions[work->first];
    for (uint32_t b = work->first; b < work->first + work->count; b++)
        if (w->versions[b] != call->result->version) call->result->failed = true;
    if (call->result->failed) return;
    uint8_t *out = worker_write(call, state_blob_bytes(w->blocks, work->first, work->count));
    for (uint32_t b = work->first; out && b < work->first + work->count; b++) {
        size_t at = w->blocks[b].offset;
        const float *parts[STATE_PARTS] = {w->weights + at, w->moment1 + at, w->moment2 + at};
        state_block_write(out, w->versions[b], w->blocks[b].count, parts);
        out += state_block_bytes(w->blocks[b].count);
    }
}

void worker_state_put(const worker_call *call) {
    worker *w = call->w;
    const job *work = call->work;
    if (!worker_range(call)) return;
    const uint8_t *in = worker_read(call, work->in, state_blob_bytes(w->blocks, work->first, work->count));
    if (!in) return;
    size_t bytes = state_blob_bytes(w->blocks, work->first, work->count);
    bool as_sent = work->expected == 0 || digest64(in, bytes) == work->expected;
    if (!as_sent || !state_blob_sound(w->blocks, work->first, work->count, in, bytes)) {
        call->result->failed = true;
        return;
    }
    const uint8_t *each = in;
    for (uint32_t b = work->first; work->named && b < work->first + work->count; b++) {
        if (!worker_is_named(w, work->version, b, each)) {
            call->result->failed = true;
            return;
        }
        each += state_block_bytes(w->blocks[b].count);
    }
    w->adapter.stale = true;
    call->result->version = state_block_version(in);
    for (uint32_t b = work->first; b < work->first + work->count; b++) {
        size_t at = w->blocks[b].offset;
        uint32_t count = w->blocks[b].count;
        float *parts[STATE_PARTS] = {w->weights + at, w->moment1 + at, w->moment2 + at};
        for (uint32_t i = 0; i < STATE_PARTS; i++)
            memcpy(parts[i], state_block_part(in, count, i), count * sizeof(float));
        w->versions[b] = call->result->version;
        in += state_block_bytes(count);
    }
}
