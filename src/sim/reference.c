#include "sim/reference.h"

#include "base/bitset.h"
#include "sim/blobs.h"

#include <stdio.h>
#include <stdlib.h>

typedef struct solo {
    const log_close *closes;
    const sim_model *model;
    sim_reference *out;
    sim_worker *worker[WIRE_MAX_STAGES];
    sim_blobs blobs;
    double norm2[WIRE_MAX_STAGES][WIRE_MAX_STAGE_TENSORS];
    bool overflow;
} solo;

static const void *solo_read(void *context, blob_id blob, uint64_t *bytes) {
    const sim_buffer *buffer = sim_blobs_get(context, blob);
    if (!buffer) return NULL;
    *bytes = buffer->bytes;
    return buffer->data;
}

static void *solo_write(void *context, uint64_t bytes, blob_id *blob) {
    sim_buffer *buffer = sim_buffer_new(bytes);
    *blob = sim_blobs_add(context, buffer);
    return buffer->data;
}

static job_result solo_run(solo *s, uint16_t index, job work) {
    const worker_blobs blobs = {&s->blobs, solo_read, solo_write};
    sim_worker *w = s->worker[index];
    job_result result;
    work.id = 1;
    work.stage = index;
    w->run(w, &work, &blobs, &result);
    if (w->complaint[0]) fprintf(stderr, "reference: %s\n", w->complaint);
    BRAID_ASSERT(!w->complaint[0]);
    return result;
}

static size_t microbatch_at(const sim_reference *r, uint64_t iteration, uint32_t m) { return (size_t)(iteration * r->microbatches + m); }

// One microbatch forward and backward; false when it is void.
static bool solo_microbatch(solo *s, uint64_t t, uint32_t m, sim_iteration *sums) {
    sim_reference *r = s->out;
    uint16_t stages = s->model->stages;
    job_result last = {0};
    for (uint16_t i = 0; i < stages; i++) {
        job_result next = solo_run(s, i, (job){.kind = JOB_FORWARD, .iteration = t, .m = m, .in = last.out});
        if (last.out) sim_blobs_release(&s->blobs, last.out);
        r->forward[microbatch_at(r, t, m) * stages + i] = next.hash64;
        last = next;
    }
    job_result loss = solo_run(s, 0, (job){.kind = JOB_LOSS, .iteration = t, .m = m, .in = last.out});
    sim_blobs_release(&s->blobs, last.out);
    uint64_t *backward = r->backward + microbatch_at(r, t, m) * (stages + 1u);
    backward[stages] = loss.hash64;
    last = loss;
    for (uint16_t i = stages; i-- > 0;) {
        job_result next = solo_run(s, i, (job){.kind = JOB_BACKWARD, .iteration = t, .m = m, .in = last.out});
        sim_blobs_release(&s->blobs, last.out);
        backward[i] = next.hash64;
        if (i == 0 && loss.finite && !next.finite) s->overflow = true;
        last = next;
    }
    if (last.out) sim_blobs_release(&s->blobs, last.out);
    if (!loss.finite) return false;
    for (uint16_t i = 0; i < stages; i++)
        if (solo_run(s, i, (job){.kind = JOB_WEIGHT, .iteration = t, .m = m}).overflow) s->overflow = true;
    sums->tokens += loss.tokens;
    sums->loss += loss.loss;
    return true;
}

static void solo_reduce(solo *s, uint64_t t, sim_iteration *sums) {
    sim_reference *r = s->out;
    for (uint16_t i = 0; i < s->model->stages; i++) {
        job work = {.kind = JOB_REDUCE, .iteration = t, .count = s->model->blocks[i], .tokens = sums->tokens, .inputs = 1, .input = {JOB_OWN_SUM}};
        job_result reduced = solo_run(s, i, work);
        if (reduced.out) sim_blobs_release(&s->blobs, reduced.out);
        job_result norm = solo_run(s, i, (job){.kind = JOB_NORM, .iteration = t});
        r->result_root[t * r->stages + i] = norm.hash;
        if (norm.overflow) s->overflow = true;
        for (uint32_t n = 0; n < norm.norms; n++) s->norm2[i][n] = norm.norm2[n];
    }
    uint32_t next[WIRE_MAX_STAGES] = {0};
    for (uint32_t n = 0; n < s->model->model_tensors; n++) {
        uint16_t index = s->model->tensor_stage[n];
        sums->norm2 += s->norm2[index][next[index]++];
    }
}

static bool is_in_close(const solo *s, uint64_t t, uint32_t m) {
    return !s->closes || bitset_has(s->closes[t].counted.words, m) || bitset_has(s->closes[t].voided.words, m);
}

static void solo_iteration(solo *s, uint64_t t) {
    sim_reference *r = s->out;
    sim_iteration *now = &r->iteration[t];
    s->overflow = false;
    for (uint16_t i = 0; i < r->stages; i++) solo_run(s, i, (job){.kind = JOB_SUM_CLEAR, .iteration = t});
    for (uint32_t m = 0; m < r->microbatches; m++)
        if (is_in_close(s, t, m)) bitset_add(solo_microbatch(s, t, m, now) ? now->counted.words : now->voided.words, m);
    now->skip = now->tokens == 0;
    if (!now->skip) {
        solo_reduce(s, t, now);
        job_result decided = solo_run(s, 0, (job){.kind = JOB_DECIDE, .iteration = t, .norm2 = now->norm2, .tokens = now->tokens});
        now->skip = decided.skip || s->overflow;
        now->clip = decided.clip;
        now->learning_rate = decided.learning_rate;
        now->bias1 = decided.bias1;
        now->bias2 = decided.bias2;
    }
    for (uint16_t i = 0; i < r->stages; i++) {
        job apply = {.kind = JOB_APPLY, .iteration = t, .clip = now->clip, .learning_rate = now->learning_rate,
                     .bias1 = now->bias1, .bias2 = now->bias2, .skip = now->skip};
        solo_run(s, i, apply);
    }
}

static void solo_roots(solo *s, uint64_t version) {
    for (uint16_t i = 0; i < s->out->stages; i++)
        s->out->state_root[version * s->out->stages + i] = solo_run(s, i, (job){.kind = JOB_STATE_ROOT, .version = version}).hash;
}

sim_reference *sim_reference_new(const sim_model *model, uint64_t start, uint64_t iterations, uint32_t microbatches) {
    return sim_reference_of(model, start, iterations, microbatches, NULL);
}

sim_reference *sim_reference_of(const sim_model *model, uint64_t start, uint64_t iterations, uint32_t microbatches, const log_close *closes) {
    sim_reference *r = calloc(1, sizeof *r);
    solo *s = calloc(1, sizeof *s);
    BRAID_ASSERT(r && s);
    *r = (sim_reference){.iterations = iterations, .microbatches = microbatches, .stages = model->stages};
    size_t flows = (size_t)iterations * microbatches;
    r->iteration = calloc(iterations, sizeof *r->iteration);
    r->result_root = calloc(iterations * model->stages, sizeof *r->result_root);
    r->state_root = calloc((iterations + 1) * model->stages, sizeof *r->state_root);
    r->forward = calloc(flows * model->stages, sizeof *r->forward);
    r->backward = calloc(flows * (model->stages + 1u), sizeof *r->backward);
    BRAID_ASSERT(r->iteration && r->result_root && r->state_root && r->forward && r->backward);
    s->model = model;
    s->out = r;
    s->closes = closes;
    for (uint16_t i = 0; i < model->stages; i++) {
        s->worker[i] = model->open(model, i, 1);
        solo_run(s, i, (job){.kind = JOB_STATE_INIT, .version = start});
    }
    solo_roots(s, start);
    for (uint64_t t = start; t < iterations; t++) {
        solo_iteration(s, t);
        solo_roots(s, t + 1);
    }
    for (uint16_t i = 0; i < model->stages; i++) s->worker[i]->free(s->worker[i]);
    sim_blobs_close(&s->blobs);
    free(s);
    return r;
}

void sim_reference_free(sim_reference *r) {
    if (!r) return;
    free(r->iteration);
    free(r->result_root);
    free(r->state_root);
    free(r->forward);
    free(r->backward);
    free(r);
}

const braid_hash *sim_reference_result(const sim_reference *r, uint64_t iteration, uint16_t index) {
    return &r->result_root[iteration * r->stages + index];
}

const braid_hash *sim_reference_state(const sim_reference *r, uint64_t version, uint16_t index) {
    return &r->state_root[version * r->stages + index];
}

uint64_t sim_reference_forward(const sim_reference *r, uint64_t iteration, uint32_t m, uint16_t index) {
    return r->forward[microbatch_at(r, iteration, m) * r->stages + index];
}

uint64_t sim_reference_backward(const sim_reference *r, uint64_t iteration, uint32_t m, uint16_t index) {
    return r->backward[microbatch_at(r, iteration, m) * (r->stages + 1u) + index];
}
