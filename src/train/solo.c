#include "train/solo.h"

#include "train/checkpoint.h"
#include "train/worker.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SOLO_BLOBS = 3, SOLO_ALIGNMENT = 64, SAVE_BLOCKS = 8 };

typedef struct solo_blob {
    void *data;
    uint64_t bytes, capacity;
    bool used;
} solo_blob;

typedef struct solo {
    solo_config config;
    const run_config *run;
    tensor_pool *pool;
    worker *worker;
    split split;
    braid_hash run_hash;
    solo_blob blobs[SOLO_BLOBS];  // an activation, its gradient, and one more
    braid_hash *leaves;           // [split.block_count]
    uint64_t version, until, saved;
    solo_wish wish;               // of those that end the run, the strongest so far
    solo_result *result;
} solo;

// What one iteration counts.
typedef struct solo_sum {
    double loss;
    uint64_t tokens;
    uint32_t counted;
} solo_sum;

static const void *blob_read(void *context, blob_id blob, uint64_t *bytes) {
    solo *s = context;
    if (blob == 0 || blob > SOLO_BLOBS || !s->blobs[blob - 1].used) return NULL;
    *bytes = s->blobs[blob - 1].bytes;
    return s->blobs[blob - 1].data;
}

static void *blob_write(void *context, uint64_t bytes, blob_id *blob) {
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

static void blob_release(solo *s, blob_id blob) {
    if (blob) s->blobs[blob - 1].used = false;
}

static double now_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void tell(const solo *s, const solo_event *event) {
    if (s->config.tell) s->config.tell(s->config.context, event);
}

static job_result solo_job(solo *s, const job *work) {
    worker_blobs blobs = {.context = s, .read = blob_read, .write = blob_write};
    job_result result;
    worker_run(s->worker, work, &blobs, &result);
    if (s->config.job_done) s->config.job_done(s->config.context, work->kind, result.cost_ns);
    return result;
}

static job_result microbatch_job(solo *s, job_kind kind, uint64_t iteration, uint32_t m, blob_id in) {
    job_result result = solo_job(s, &(job){.id = 1, .kind = kind, .iteration = iteration, .m = m, .in = in});
    blob_release(s, in);
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
    blob_release(s, loss.out);
    if (!loss.finite) return BRAID_OK;  // void: counts nowhere
    if (!job_worked(s, &gradients, &err, error)) return err;
    sum->loss += loss.loss;
    sum->tokens += loss.tokens;
    sum->counted++;
    return BRAID_OK;
}

// As a swarm's leader does: tensors in canonical order.
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

static void tell_iteration(const solo *s, const solo_sum *sum, const job_result *step, double norm2, double seconds) {
    solo_event event = {.kind = SOLO_ITERATION,
                        .iteration = s->version,
                        .of = s->until,
                        .tokens = sum->tokens,
                        .microbatches = sum->counted};
    event.loss = s->result->loss;
    event.norm = sqrt(norm2);
    event.learning_rate = (double)step->learning_rate;
    event.skip = step->skip;
    event.tokens_per_second = seconds > 0 ? (double)sum->tokens / seconds : 0;
    tell(s, &event);
}

static bool saves(const solo *s) { return s->run->checkpoint[0] != 0; }

static void save(solo *s);

// The state stands still between microbatches too, so a checkpoint need not wait for the
// iteration's end.
static solo_wish listen(solo *s) {
    solo_wish wish = s->config.wish ? s->config.wish(s->config.context) : SOLO_GO_ON;
    if (wish == SOLO_SAVE && !saves(s)) tell(s, &(solo_event){.kind = SOLO_NOTE, .text = "the run has no checkpoint.dir, so nothing is saved (or give --save DIR)"});
    else if (wish == SOLO_SAVE && s->saved == s->version) tell(s, &(solo_event){.kind = SOLO_NOTE, .text = "nothing is new since the last checkpoint"});
    else if (wish == SOLO_SAVE) save(s);
    else if (wish > s->wish) s->wish = wish;
    return s->wish;
}

static braid_err iterate(solo *s, braid_error *error) {
    double start = now_seconds();
    uint64_t t = s->version;
    solo_sum sum = {0};
    solo_job(s, &(job){.id = 1, .kind = JOB_SUM_CLEAR});
    for (uint32_t m = 0; m < s->run->microbatches; m++) {
        if (listen(s) >= SOLO_DROP) return BRAID_OK;
        braid_err err = train_microbatch(s, t, m, &sum, error);
        if (err) return err;
    }
    double norm2 = sum.tokens > 0 ? squared_norm(s, sum.tokens) : NAN;
    job_result step =
        solo_job(s, &(job){.id = 1, .kind = JOB_DECIDE, .iteration = t, .norm2 = norm2, .tokens = sum.tokens});
    solo_job(s, &(job){.id = 1,
                       .kind = JOB_APPLY,
                       .iteration = t,
                       .clip = step.clip,
                       .learning_rate = step.learning_rate,
                       .bias1 = step.bias1,
                       .bias2 = step.bias2,
                       .skip = step.skip});
    s->version = t + 1;
    s->result->loss = sum.tokens > 0 ? sum.loss / (double)sum.tokens : NAN;
    s->result->tokens += sum.tokens;
    tell_iteration(s, &sum, &step, norm2, now_seconds() - start);
    return BRAID_OK;
}

static braid_err evaluate(solo *s, braid_error *error) {
    solo_event event = {.kind = SOLO_EVAL, .iteration = s->version, .of = s->until};
    for (uint32_t i = 0; i < s->run->eval_microbatches; i++) {
        braid_err err = BRAID_OK;
        uint32_t m = s->run->microbatches + i;
        if (listen(s) >= SOLO_DROP) return BRAID_OK;
        job_result forward = microbatch_job(s, JOB_FORWARD, s->version, m, 0);
        if (!job_worked(s, &forward, &err, error)) return err;
        job_result loss = microbatch_job(s, JOB_LOSS, s->version, m, forward.out);
        if (!job_worked(s, &loss, &err, error)) return err;
        event.loss += loss.loss;
        event.tokens += loss.tokens;
    }
    event.loss /= (double)event.tokens;
    tell(s, &event);
    return BRAID_OK;
}

static braid_err save_blocks(solo *s, checkpoint_writer *writer, braid_error *error) {
    braid_err err = BRAID_OK;
    uint32_t all = worker_blocks(s->worker);
    for (uint32_t first = 0; first < all && !err; first += SAVE_BLOCKS) {
        uint32_t count = all - first < SAVE_BLOCKS ? all - first : SAVE_BLOCKS;
        job_result state =
            solo_job(s, &(job){.id = 1, .kind = JOB_STATE_GET, .first = first, .count = count, .version = s->version});
        uint64_t bytes = 0;
        const void *data = blob_read(s, state.out, &bytes);
        err = data ? checkpoint_put(writer, 0, first, count, data, bytes, error)
                   : braid_fail(error, BRAID_MEMORY, "no memory to save");
        blob_release(s, state.out);
    }
    return err;
}

// A checkpoint that cannot be written is told, and the run goes on: the older one is still there.
static void save(solo *s) {
    checkpoint_config config = {.directory = s->run->checkpoint,
                                .model = &s->run->model,
                                .split = &s->split,
                                .run = s->run_hash,
                                .version = s->version};
    checkpoint_writer *writer = NULL;
    checkpoint_summary summary;
    braid_error why = {0};
    braid_err err = checkpoint_begin(&config, &writer, &why);
    if (!err && (err = save_blocks(s, writer, &why)))
        checkpoint_abort(writer);
    else if (!err)
        err = checkpoint_end(writer, &summary, &why);
    s->result->save_failed = err != BRAID_OK;
    if (!err) s->saved = s->version;
    solo_event event = {.kind = SOLO_CHECKPOINT, .iteration = s->version, .failed = err != BRAID_OK, .text = why.text};
    if (!err) {
        snprintf(s->result->path, sizeof s->result->path, "%s", summary.path);
        event.path = s->result->path;
    }
    tell(s, &event);
}

static bool is_due(uint64_t version, uint32_t every) { return every > 0 && version % every == 0; }

static braid_err train(solo *s, braid_error *error) {
    braid_err err = BRAID_OK;
    s->saved = s->version;
    while (s->version < s->until && !err && listen(s) < SOLO_FINISH) {
        if (is_due(s->version, s->run->eval_every)) err = evaluate(s, error);
        if (!err && s->wish < SOLO_FINISH) err = iterate(s, error);
        if (!err && saves(s) && is_due(s->version, s->run->checkpoint_every) && s->saved != s->version) save(s);
    }
    s->result->stopped = s->version < s->until && s->wish >= SOLO_FINISH;
    s->result->abandoned = s->wish == SOLO_ABANDON;
    if (saves(s) && s->saved != s->version && !s->result->abandoned) save(s);
    if (err || s->wish >= SOLO_FINISH) return err;
    return s->run->eval_every > 0 ? evaluate(s, error) : BRAID_OK;
}

static braid_err hash_weights(solo *s, braid_error *error) {
    job_result leaves = solo_job(s, &(job){.id = 1, .kind = JOB_LEAVES});
    uint64_t bytes = 0;
    const void *data = blob_read(s, leaves.out, &bytes);
    s->leaves = calloc(s->split.block_count, sizeof *s->leaves);
    if (!data || !s->leaves) return braid_fail(error, BRAID_MEMORY, "no memory to hash the weights");
    BRAID_ASSERT(split_put_leaves(&s->split, 0, data, bytes, s->leaves));
    blob_release(s, leaves.out);
    s->result->weights = split_weights_hash(&s->split, s->leaves);
    return BRAID_OK;
}

static braid_err resume(solo *s, braid_error *error) {
    checkpoint *from = NULL;
    braid_err err = checkpoint_open(s->config.resume, &from, error);
    if (err) return err;
    err = worker_load(s->worker, from, error);
    s->version = checkpoint_version(from);
    if (!err && s->version > s->until)
        err = braid_fail(error, BRAID_CONFIG,
                         "the checkpoint '%s' has done %llu iterations already, more than the %llu wanted",
                         checkpoint_path(from), (unsigned long long)s->version, (unsigned long long)s->until);
    char text[CHECKPOINT_NOTE];
    if (!err && checkpoint_of_another_run(from, &s->run_hash, text))
        tell(s, &(solo_event){.kind = SOLO_NOTE, .text = text});
    checkpoint_close(from);
    return err;
}

static braid_err solo_open(solo *s, braid_error *error) {
    const run_config *run = s->run;
    worker_config config = {.model = run->model,
                            .recipe = run->recipe,
                            .seed = run->seed,
                            .microbatches = run->microbatches,
                            .capacity = 1,
                            .alone = true,
                            .data = s->config.data,
                            .max_memory = run->max_memory};
    run_solo_shape(run, &config.shape);
    s->until = s->config.until ? s->config.until : run->recipe.iterations;
    if (s->until > run->recipe.iterations)
        return braid_fail(error, BRAID_CONFIG,
                          "the run's description ends after %llu iterations; raise train.iterations to do more",
                          (unsigned long long)run->recipe.iterations);
    braid_hash text = train_data_hash(s->config.data);
    s->run_hash = run_config_hash(run, &text);
    braid_err err = saves(s) ? checkpoint_try(run->checkpoint, error) : BRAID_OK;
    if (!err) err = tensor_pool_new(s->config.threads, &s->pool, error);
    if (!err) tensor_pool_watch(s->pool, s->config.watch);
    if (!err) err = split_new(&run->model, &run->model.layers, 1, &s->split, error);
    if (!err) err = worker_new(&config, s->pool, &s->worker, error);
    if (!err && s->config.resume) err = resume(s, error);
    if (!err) solo_job(s, &(job){.id = 1, .kind = JOB_STATE_INIT, .version = s->version});
    return err;
}

static void solo_close(solo *s) {
    worker_free(s->worker);
    split_free(&s->split);
    if (s->pool) tensor_pool_free(s->pool);
    for (uint32_t i = 0; i < SOLO_BLOBS; i++) free(s->blobs[i].data);
    free(s->leaves);
}

braid_err solo_run(const solo_config *config, solo_result *out, braid_error *error) {
    *out = (solo_result){.loss = NAN};
    solo s = {.config = *config, .run = config->run, .result = out};
    braid_err err = solo_open(&s, error);
    if (!err) {
        uint64_t tokens = (uint64_t)s.run->microbatches * s.run->sequences * s.run->tokens;
        tell(&s, &(solo_event){.kind = SOLO_STARTED,
                               .iteration = s.version,
                               .of = s.until,
                               .tokens = tokens,
                               .microbatches = s.run->microbatches,
                               .parameters = stage_parameters(worker_stage(s.worker))});
        out->begun = true;
        err = train(&s, error);
    }
    if (!err) err = hash_weights(&s, error);
    out->version = s.version;
    out->until = s.until;
    solo_close(&s);
    return err;
}
