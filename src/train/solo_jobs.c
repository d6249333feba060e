// Training in one process with the state in memory, by the worker's jobs.
#include "train/solo_inside.h"

#include <math.h>
#include <stdlib.h>

enum { SOLO_ALIGNMENT = 64 };

const void *solo_blob_read(void *context, blob_id blob, uint64_t *bytes) {
    solo *s = context;
    if (blob == 0 || blob > SOLO_BLOBS || !s->blobs[blob - 1].used) return NULL;
    *bytes = s->blobs[blob - 1].bytes;
    return s->blobs[blob - 1].data;
}

void *solo_blob_write(void *context, uint64_t bytes, blob_id *blob) {
    solo *s = context;
    uint32_t i = 0;
    while (i < SOLO_BLOBS && s->blobs[i].used) i++;
    if (i == SOLO_BLOBS) return NULL;
    solo_blob *b = &s->blobs[i];
    if (b->capacity < bytes) {
        free(b->data);
        b->capacity = (bytes + SOLO_ALIGNMENT - 1) / SOLO_ALIGNMENT * SOLO_ALIGNMENT;
        b->data = aligned_alloc(SOLO_ALIGNMENT, b->capacity);
        if (!b->data) b->capacity = 0;
        if (!b->data) return NULL;
    }
    b->bytes = bytes;
    b->used = true;
    *blob = i + 1;
    return b->data;
}

void solo_blob_release(solo *s, blob_id blob) {
    if (blob) s->blobs[blob - 1].used = false;
}

job_result solo_job(solo *s, const job *work) {
    worker_blobs blobs = {.context = s, .read = solo_blob_read, .write = solo_blob_write};
    job_result result;
    worker_run(s->worker, work, &blobs, &result);
    if (s->config.job_done) s->config.job_done(s->config.context, work->kind, result.cost_ns);
    return result;
}

static job_result microbatch_job(solo *s, job_kind kind, uint64_t iteration, uint32_t m, blob_id in) {
    job_result result = solo_job(s, &(job){.id = 1, .kind = kind, .iteration = iteration, .m = m, .in = in});
    solo_blob_release(s, in);
    return result;
}

static bool job_worked(const solo *s, const job_result *result, braid_err *err, braid_error *error) {
    if (result->failed && !*err && worker_text_changed(s->worker)) {
        train_data_why(s->config.data, error);
        *err = BRAID_IO;
    }
    if (result->failed && !*err)
        *err = braid_fail(error, BRAID_MEMORY, "no memory for an activation; lower the microbatch");
    return !*err;
}

static braid_err train_microbatch(solo *s, uint64_t iteration, uint32_t m, solo_sum *sum, braid_error *error) {
    braid_err err = BRAID_OK;
    job_result forward = microbatch_job(s, JOB_FORWARD, iteration, m, 0);
    if (!job_worked(s, &forward, &err, error)) return err;
    job_result loss = microbatch_job(s, JOB_LOSS, iteration, m, forward.out);
    if (!job_worked(s, &loss, &err, error)) return err;
    job backward = {.id = 1, .kind = JOB_BACKWARD, .iteration = iteration, .m = m, .in = loss.out, .weigh = true};
    job_result gradients = {0};
    if (loss.finite) gradients = solo_job(s, &backward);
    solo_blob_release(s, loss.out);
    if (!loss.finite) return BRAID_OK;  // not finite: excluded from the sum
    if (!job_worked(s, &gradients, &err, error)) return err;
    sum->loss += loss.loss;
    sum->tokens += loss.tokens;
    sum->counted++;
    return BRAID_OK;
}

// Sums tensors in canonical order, as a swarm's leader does.
static double squared_norm(solo *s, uint64_t tokens) {
    job reduce = {.id = 1,
                  .kind = JOB_REDUCE,
                  .count = worker_blocks(s->worker),
                  .tokens = tokens,
                  .inputs = 1,
                  .input = {JOB_OWN_SUM}};
    solo_job(s, &reduce);
    job_result norm = solo_job(s, &(job){.id = 1, .kind = JOB_NORM});
    double total = 0;
    for (uint32_t i = 0; i < norm.norms; i++) total += norm.norm2[i];
    return total;
}

// The averaged gradient of an iteration, and its squared norm.
braid_err solo_worker_gradients(solo *s, solo_sum *sum, double *norm2, braid_error *error) {
    solo_job(s, &(job){.id = 1, .kind = JOB_SUM_CLEAR});
    for (uint32_t m = 0; m < s->run->microbatches; m++) {
        sum->stopped = solo_is_dropped(s);
        if (sum->stopped) return BRAID_OK;
        braid_err err = train_microbatch(s, s->version, m, sum, error);
        if (err) return err;
    }
    *norm2 = sum->tokens > 0 ? squared_norm(s, sum->tokens) : NAN;
    return BRAID_OK;
}

braid_err solo_worker_held_out(solo *s, solo_sum *sum, braid_error *error) {
    for (uint32_t i = 0; i < s->run->eval_microbatches; i++) {
        braid_err err = BRAID_OK;
        uint32_t m = s->run->microbatches + i;
        sum->stopped = solo_is_dropped(s);
        if (sum->stopped) return BRAID_OK;
        job_result forward = microbatch_job(s, JOB_FORWARD, s->version, m, 0);
        if (!job_worked(s, &forward, &err, error)) return err;
        job_result loss = microbatch_job(s, JOB_LOSS, s->version, m, forward.out);
        if (!job_worked(s, &loss, &err, error)) return err;
        sum->loss += loss.loss;
        sum->tokens += loss.tokens;
    }
    return BRAID_OK;
}
