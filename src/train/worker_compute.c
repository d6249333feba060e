// The jobs on one microbatch: forward, loss, input gradient, weight gradient.
#include "train/worker_inside.h"
#include "train/sum.h"

#include <math.h>
#include <string.h>

static void *slot_stash(const worker_call *call) {
    BRAID_ASSERT(call->work->slot < call->w->config.capacity);
    return call->w->stashes + (size_t)call->work->slot * call->w->stash_bytes;
}

static bool is_held_out(const worker_call *call) { return call->work->m >= call->w->config.microbatches; }

// With local steps: the tokens of step `step`.
static bool draw_tokens(const worker_call *call, uint32_t step, int32_t *inputs, int32_t *targets) {
    const worker_config *c = &call->w->config;
    const job *j = call->work;
    uint32_t *first = call->w->documents, steps = c->recipe.local_steps;
    uint64_t draw = steps > 0 ? j->iteration * steps + step : j->iteration;
    if (is_held_out(call))
        return train_data_held_out(c->data, c->seed, j->m - c->microbatches, c->shape.sequences, c->shape.tokens, inputs,
                                   targets, first);
    return train_data_sample(c->data, c->seed, draw, j->m, c->shape.sequences, c->shape.tokens, inputs, targets, first);
}

// An activation or gradient as a blob: encoded by its link's codec. The starts of documents travel
// behind an activation; gradients have zeros there.
typedef struct link_blob {
    tensor_codec codec;
    uint64_t bytes;
} link_blob;

static link_blob forward_blob(const worker *w) { return (link_blob){w->config.shape.links.forward, w->link.forward_bytes}; }

static link_blob backward_blob(const worker *w) { return (link_blob){w->config.shape.links.backward, w->link.backward_bytes}; }

// The starts of documents in a blob of another peer, or NULL.
static const uint32_t *documents_behind(const worker *w, link_blob kind, const void *blob) {
    return (const uint32_t *)(const void *)((const uint8_t *)blob + tensor_codec_bytes(kind.codec, w->activation_floats));
}

// The tensor of the job's input. NULL sets result->failed.
static const float *read_tensor(const worker_call *call, link_blob kind, const void **blob) {
    worker *w = call->w;
    *blob = worker_read(call, call->work->in, kind.bytes);
    if (!*blob || kind.codec == CODEC_FP32) return *blob;
    tensor_codec_decode(w->pool, kind.codec, *blob, w->activation_floats, w->link.decoded);
    return w->link.decoded;
}

// Memory for the output's tensor, and its blob. NULL sets result->failed.
static float *begin_tensor(const worker_call *call, link_blob kind, void **blob) {
    *blob = worker_write(call, kind.bytes);
    return kind.codec == CODEC_FP32 ? *blob : *blob ? call->w->link.plain : NULL;
}

// Encodes the tensor of begin_tensor. `documents` NULL: zeros.
static void end_tensor(const worker_call *call, link_blob kind, const float *x, void *blob, const uint32_t *documents) {
    const worker *w = call->w;
    size_t bytes = w->rows * sizeof *documents;
    if (kind.codec != CODEC_FP32) tensor_codec_encode(w->pool, kind.codec, x, w->activation_floats, blob);
    if (!w->config.shape.documents) return;
    uint8_t *behind = (uint8_t *)blob + kind.bytes - bytes;
    if (documents) memcpy(behind, documents, bytes);
    else memset(behind, 0, bytes);
}

void worker_forward(const worker_call *call) {
    worker *w = call->w;
    void *stash = slot_stash(call);
    const link_blob link = forward_blob(w);
    const void *in = NULL;
    void *out;
    const float *x = NULL;
    int32_t *inputs = NULL;
    if (w->config.shape.ends) {
        inputs = w->inputs + call->work->slot * w->rows;
        if (!draw_tokens(call, 0, inputs, w->targets + call->work->slot * w->rows)) {
            w->text_changed = call->result->failed = true;
            return;
        }
    } else if (!(x = read_tensor(call, link, &in))) {
        return;
    }
    const uint32_t *documents = !w->config.shape.documents ? NULL : in ? documents_behind(w, link, in) : w->documents;
    // another peer's are checked, because they index keys
    if (in && documents && !stage_documents_valid(&w->config.shape, documents)) call->result->failed = true;
    float *y = call->result->failed ? NULL : begin_tensor(call, link, &out);
    if (!y) return;
    if (documents) stage_set_documents(w->stage, stash, documents);
    worker_refresh(w);
    stage_forward(w->stage, stash, inputs, x, y);
    end_tensor(call, link, y, out, documents);
}

void worker_loss(const worker_call *call) {
    worker *w = call->w;
    BRAID_ASSERT(w->config.shape.ends);
    void *stash = slot_stash(call), *out = NULL;
    const void *in;
    const float *x = read_tensor(call, forward_blob(w), &in);
    if (!x) return;
    float *dx = is_held_out(call) ? NULL : begin_tensor(call, backward_blob(w), &out);
    if (call->result->failed) return;
    const int32_t *targets = w->targets + call->work->slot * w->rows;
    call->result->loss = stage_loss(w->stage, stash, x, targets, dx, &call->result->tokens);
    call->result->finite = isfinite(call->result->loss) && (!dx || blocks_finite(dx, w->activation_floats));
    if (dx) end_tensor(call, backward_blob(w), dx, out, NULL);
    // each local step takes as many tokens as the first
    if (!dx || w->config.recipe.local_steps == 0) return;
    call->result->loss *= (double)w->config.recipe.local_steps;
    call->result->tokens *= w->config.recipe.local_steps;
}

// The addition of one microbatch to the sum, or its removal.
typedef struct addition {
    worker *w;
    bool minus;
    _Atomic(bool) overflow;
} addition;

static void count_lost(addition *a, uint32_t b, size_t lost) {
    if (lost == 0) return;
    uint32_t count = (uint32_t)lost;
    atomic_fetch_add_explicit(&a->w->lost[b], a->minus ? 0 - count : count, memory_order_relaxed);
    atomic_store_explicit(&a->overflow, true, memory_order_relaxed);
}

static void add_to_sum(void *context, size_t offset, const float *gradient, size_t count) {
    addition *a = context;
    worker *w = a->w;
    if (w->plain_sum) {
        sum_add_plain(w->plain_sum + offset, gradient, count, w->sum_shares);
        return;
    }
    for (uint32_t b = blocks_at(w->blocks, w->block_count, offset); count > 0; b++) {
        size_t left = w->blocks[b].offset + w->blocks[b].count - offset;
        size_t n = count < left ? count : left;
        count_lost(a, b, sum_add_fixed(w->fixed_sum + offset, gradient, n, w->sum_shares));
        offset += n;
        gradient += n;
        count -= n;
    }
}

// With one microbatch in fast mode its gradients are the sum, so they are computed in place.
static float *place_in_sum(void *context, size_t offset) {
    const worker *w = ((const addition *)context)->w;
    return w->plain_sum && w->sum_shares ? w->plain_sum + offset : NULL;
}

// Removes a microbatch exactly: rounding to fixed point is symmetric about zero, and elements that
// did not fit are counted.
static void take_from_sum(void *context, size_t offset, const float *gradient, size_t count) {
    enum { CHUNK = 1024 };
    float negated[CHUNK];
    for (size_t at = 0; at < count; at += CHUNK) {
        size_t n = count - at < CHUNK ? count - at : CHUNK;
        for (size_t i = 0; i < n; i++) negated[i] = -gradient[at + i];
        add_to_sum(context, offset + at, negated, n);
    }
}

// Input and weight gradients together. The adapter's gradients leave the input gradient as it is.
static const float *both_gradients(worker *w, void *stash, const float *dy, float *dx, const stage_sink *sink) {
    if (!w->adapter.parts) return stage_gradients(w->stage, stash, dy, dx, sink);
    const float *lowest = stage_input_gradient(w->stage, stash, dy, dx);
    adapter_gradient(w->adapter.parts, stash, w->weights, sink);
    return lowest;
}

static void add_local_steps(const worker_call *call, void *stash, addition *a) {
    worker_local_steps(&(worker_local_host){.call = call, .draw = draw_tokens, .add = a->minus ? take_from_sum : add_to_sum, .context = a}, stash);
}

void worker_backward(const worker_call *call) {
    worker *w = call->w;
    void *stash = slot_stash(call), *out = NULL;
    const void *in;
    const float *dy = read_tensor(call, backward_blob(w), &in);
    if (!dy) return;
    float *dx = w->config.shape.ends ? NULL : begin_tensor(call, backward_blob(w), &out);
    if (call->result->failed) return;
    addition a = {.w = w};
    w->sum_used |= call->work->weigh;
    const stage_sink sum = {.take = add_to_sum, .place = place_in_sum, .context = &a};
    worker_refresh(w);
    bool local = w->config.recipe.local_steps > 0, both = call->work->weigh && !local;
    const float *lowest = both ? both_gradients(w, stash, dy, dx, &sum) : stage_input_gradient(w->stage, stash, dy, dx);
    call->result->finite = blocks_finite(lowest, w->activation_floats);
    if (call->work->weigh && local) add_local_steps(call, stash, &a);
    if (dx) end_tensor(call, backward_blob(w), dx, out, NULL);
    call->result->overflow = atomic_load_explicit(&a.overflow, memory_order_relaxed);
}

void worker_weight(const worker_call *call) {
    worker *w = call->w;
    w->sum_used = true;
    addition a = {.w = w, .minus = call->work->minus};
    const stage_sink sum = {.take = a.minus ? take_from_sum : add_to_sum, .place = a.minus ? NULL : place_in_sum, .context = &a};
    worker_refresh(w);
    if (w->config.recipe.local_steps > 0)
        add_local_steps(call, slot_stash(call), &a);
    else if (w->adapter.parts)
        adapter_gradient(w->adapter.parts, slot_stash(call), w->weights, &sum);
    else
        stage_weight_gradient(w->stage, slot_stash(call), &sum);
    call->result->overflow = atomic_load_explicit(&a.overflow, memory_order_relaxed);
}

void worker_sum_clear(const worker_call *call) {
    worker *w = call->w;
    if (!w->sum_used) return;  // an unused sum is zero and its pages are not allocated yet
    if (w->plain_sum && !w->sum_shares) memset(w->plain_sum, 0, w->parameters * sizeof *w->plain_sum);
    if (w->fixed_sum && !w->sum_shares) memset(w->fixed_sum, 0, w->parameters * sizeof *w->fixed_sum);
    for (uint32_t b = 0; b < w->block_count; b++) atomic_store_explicit(&w->lost[b], 0, memory_order_relaxed);
    w->sum_used = false;
}
