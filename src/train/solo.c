#include "train/solo.h"

#include "format/quantity.h"
#include "train/checkpoint.h"
#include "train/diverged.h"
#include "train/state_blob.h"
#include "train/checkpoint_claim.h"
#include "train/checkpoint_directory.h"
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
    solo_blob blobs[SOLO_BLOBS];  // an activation, its gradient, and a spare
    braid_hash *leaves;  // [split.block_count]
    uint64_t version, until, saved;
    solo_wish wish;  // the strongest request to end so far
    // consecutive iterations without a finite gradient, up to now and one iteration earlier
    uint32_t skipped, skipped_before;
    int lock;  // of the checkpoint directory; -1: none
    char from[FILES_MAX_PATH];  // the checkpoint that the run continues; "": none
    char newest[FILES_MAX_PATH];  // that checkpoint, when it was found in the run's own directory
    solo_result *result;
} solo;

// The totals of one iteration.
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

// The state does not change between microbatches, so a checkpoint need not wait for the end of the
// iteration.
static solo_wish listen(solo *s) {
    solo_wish wish = s->config.wish ? s->config.wish(s->config.context) : SOLO_GO_ON;
    if (wish == SOLO_SAVE && !saves(s)) tell(s, &(solo_event){.kind = SOLO_NOTE, .text = "the run has no checkpoint.dir, so nothing is saved (or give --save DIR)"});
    else if (wish == SOLO_SAVE && s->saved == s->version) tell(s, &(solo_event){.kind = SOLO_NOTE, .text = "the state has not changed since the last checkpoint"});
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
    s->skipped_before = s->skipped;
    s->skipped = step.skip ? s->skipped + 1 : 0;
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

// Refuses to save weights that are not finite, because they are useless and would replace good
// ones.
static braid_err blocks_are_finite(const solo *s, uint32_t first, uint32_t count, const uint8_t *at, braid_error *error) {
    for (uint32_t i = first; i < first + count; i++) {
        uint32_t elements = s->split.blocks[split_block(&s->split, 0, i)].count;
        if (!state_block_is_finite(at, elements))
            return braid_fail(error, BRAID_STATE, "the weights are not finite after iteration %llu: they are not saved, and older checkpoints are kept", (unsigned long long)s->version);
        at += state_block_bytes(elements);
    }
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
        err = data ? blocks_are_finite(s, first, count, data, error) : braid_fail(error, BRAID_MEMORY, "no memory to save");
        if (!err) err = checkpoint_put(writer, 0, first, count, data, bytes, error);
        blob_release(s, state.out);
    }
    return err;
}

static void note(void *context, const char *text) { tell(context, &(solo_event){.kind = SOLO_NOTE, .text = text}); }

static braid_err save_once(solo *s, checkpoint_summary *summary, braid_error *why) {
    checkpoint_config config = {.directory = s->run->checkpoint,
                                .model = &s->run->model,
                                .split = &s->split,
                                .run = s->run_hash,
                                .version = s->version,
                                .recipe = &s->run->recipe,
                                .adapter = run_adapter(s->run),
                                .base_name = s->run->from};
    config.files = train_data_carried(s->config.data, &config.file_count);
    checkpoint_writer *writer = NULL;
    braid_err err = checkpoint_begin(&config, &writer, why);
    if (err) return err;
    err = save_blocks(s, writer, why);
    if (!err) return checkpoint_end(writer, summary, why);
    checkpoint_abort(writer);
    return err;
}

static void note_room(solo *s, uint32_t removed) {
    char text[CHECKPOINT_NOTE];
    snprintf(text, sizeof text, "the disk is full: %u older checkpoint%s removed to save this one", removed,
             removed == 1 ? " was" : "s were");
    if (removed > 0) note(s, text);
}

// A failed save is reported and the run continues, because the older checkpoint still exists. Some
// file systems report a full disk only at the final sync (NFS); then everything is written again.
static void save(solo *s) {
    checkpoint_summary summary = {0};
    braid_error why = {0};
    braid_err err;
    uint32_t removed = 0;
    do err = save_once(s, &summary, &why);
    while (err == BRAID_FULL && checkpoint_make_room(s->run->checkpoint, &s->run_hash, s->version) && ++removed);
    s->result->save_failed = err != BRAID_OK;
    if (!err) {
        s->saved = s->version;
        note_room(s, removed + summary.removed);
    }
    solo_event event = {.kind = SOLO_CHECKPOINT, .iteration = s->version, .failed = err != BRAID_OK, .text = why.text};
    if (!err) {
        snprintf(s->result->path, sizeof s->result->path, "%s", summary.path);
        event.path = s->result->path;
    }
    tell(s, &event);
}

static void say_note(const solo *s, const char *text) { tell(s, &(solo_event){.kind = SOLO_NOTE, .text = text}); }

static void note_threads(const solo *s) {
    char text[TENSOR_POOL_NOTE];
    if (tensor_pool_refused(s->pool, s->config.threads, text)) say_note(s, text);
}

static void note_memory(const solo *s, const worker_config *config) {
    char text[256], need[QUANTITY_TEXT], have[QUANTITY_TEXT];
    uint64_t needed = worker_memory_bytes(config);
    if (config->max_memory || !s->config.usable_bytes || needed <= s->config.usable_bytes) return;
    snprintf(text, sizeof text, "this run may need %s of memory, and the process may use %s: it may be killed for lack of memory; give it more, or lower train.sequences",
             quantity_size_text(needed, need), quantity_size_text(s->config.usable_bytes, have));
    say_note(s, text);
}

static void note_jump(const solo *s, const checkpoint *from) {
    char text[RUN_NOTE];
    if (checkpoint_rate_jumps(from, &s->run->recipe, text)) say_note(s, text);
}

static bool is_due(uint64_t version, uint32_t every) { return every > 0 && version % every == 0; }

// After skipped iterations a version has the weights of the version before them. Saving it would
// remove an older checkpoint, possibly the newest one from which the run can recover. A save that
// was due meanwhile follows the next step, as in a swarm.
static bool save_is_due(const solo *s) {
    uint64_t every = s->run->checkpoint_every;
    return saves(s) && s->saved != s->version && every > 0 && s->skipped == 0 && s->version / every > (s->version - 1 - s->skipped_before) / every;
}

static bool is_hopeless(const solo *s) { return s->run->max_skipped > 0 && s->skipped >= s->run->max_skipped; }

static braid_err diverged(const solo *s, braid_error *error) {
    const char *began = s->config.resume ? s->config.resume : "";
    return run_diverged(s->run, s->version, s->skipped, s->result->path[0] ? s->result->path : began, error);
}

// A run that ends early after skipped iterations has no new state to save.
static bool last_save_is_due(const solo *s, braid_err err) {
    bool nothing_new = (err || s->result->stopped) && s->saved + s->skipped == s->version;
    return saves(s) && s->saved != s->version && !s->result->abandoned && !nothing_new;
}

static braid_err train(solo *s, braid_error *error) {
    braid_err err = BRAID_OK;
    s->saved = s->version;
    while (s->version < s->until && !err && listen(s) < SOLO_FINISH) {
        if (is_due(s->version, s->run->eval_every)) err = evaluate(s, error);
        if (!err && s->wish < SOLO_FINISH) err = iterate(s, error);
        s->result->diverged = !err && is_hopeless(s);
        if (s->result->diverged) return diverged(s, error);
        if (!err && save_is_due(s)) save(s);
    }
    s->result->stopped = s->version < s->until && s->wish >= SOLO_FINISH;
    s->result->abandoned = s->wish == SOLO_ABANDON;
    if (last_save_is_due(s, err)) save(s);
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

static braid_err find_newest(solo *s, braid_error *error) {
    uint64_t version;
    if (!saves(s))
        return braid_fail(error, BRAID_CONFIG,
                          "--continue needs a directory of checkpoints: set checkpoint.dir, or give --save DIR");
    if (checkpoint_find_newest(s->run->checkpoint, &s->run_hash, s->newest, &version)) s->config.resume = s->newest;
    return BRAID_OK;
}

static bool has_adapter(const solo *s) { return s->run->recipe.adapter.rank > 0; }

// The weights of the run's model: the first ones, or those that an adapter adapts.
static braid_err load_model(solo *s, braid_error *error) {
    checkpoint *from = NULL;
    braid_err err = checkpoint_open_start(s->config.model, &from, error);
    if (!err) err = has_adapter(s) ? worker_load_base(s->worker, from, error) : worker_load(s->worker, from, error);
    checkpoint_close(from);
    return err;
}

static braid_err resume(solo *s, braid_error *error) {
    checkpoint *from = NULL;
    braid_err err = checkpoint_open_start(s->config.resume, &from, error);
    if (err) return err;
    note_jump(s, from);
    const checkpoint_adapter wanted = run_adapter(s->run);
    err = checkpoint_match_adapter(from, &wanted, error);
    if (!err) err = worker_load(s->worker, from, error);
    s->version = checkpoint_version(from);
    snprintf(s->from, sizeof s->from, "%s", checkpoint_path(from));
    s->result->nothing = s->version == s->until;
    if (!err && s->version > s->until)
        err = braid_fail(error, BRAID_CONFIG,
                         "the checkpoint '%s' has done %llu iterations already, more than the %llu wanted",
                         checkpoint_path(from), (unsigned long long)s->version, (unsigned long long)s->until);
    char text[CHECKPOINT_NOTE];
    if (!err && checkpoint_of_another_run(from, &s->run_hash, text)) note(s, text);
    if (!err && !s->result->nothing && checkpoint_lacks_moments(from, text)) note(s, text);
    checkpoint_close(from);
    return err;
}

static braid_err claim(solo *s, braid_error *error) {
    if (!saves(s) || s->result->nothing) return BRAID_OK;
    const checkpoint_start start = {.directory = s->run->checkpoint,
                                    .run = s->run_hash,
                                    .version = s->version,
                                    .from = s->from[0] ? s->from : NULL,
                                    .anew = s->config.anew,
                                    .newest = s->config.continues,
                                    .wait_ms = CHECKPOINT_WAIT_MS,
                                    .note = note,
                                    .context = s};
    return checkpoint_claim(&start, &s->lock, error);
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
    if (!err) note_threads(s);
    if (!err) note_memory(s, &config);
    if (!err) tensor_pool_watch(s->pool, s->config.watch);
    if (!err) err = split_new(&run->model, &run->recipe.adapter, &run->model.layers, 1, &s->split, error);
    if (!err) err = worker_new(&config, s->pool, &s->worker, error);
    if (!err && s->config.continues) err = find_newest(s, error);
    if (!err && s->config.model && (has_adapter(s) || !s->config.resume)) err = load_model(s, error);
    if (!err && s->config.resume) err = resume(s, error);
    if (!err) err = claim(s, error);
    if (!err) solo_job(s, &(job){.id = 1, .kind = JOB_STATE_INIT, .version = s->version});
    return err;
}

static void solo_close(solo *s) {
    worker_free(s->worker);
    split_free(&s->split);
    if (s->pool) tensor_pool_free(s->pool);
    for (uint32_t i = 0; i < SOLO_BLOBS; i++) free(s->blobs[i].data);
    free(s->leaves);
    checkpoint_release(s->run->checkpoint, s->lock);
}

// The run is already complete: only reports the hash of its weights.
static void tell_nothing(solo *s) {
    char text[CHECKPOINT_NOTE];
    checkpoint_nothing_to_do(s->version, s->run->recipe.iterations, text);
    snprintf(s->result->path, sizeof s->result->path, "%s", s->from);
    note(s, text);
}

static void tell_started(solo *s) {
    uint64_t tokens = (uint64_t)s->run->microbatches * s->run->sequences * s->run->tokens;
    tell(s, &(solo_event){.kind = SOLO_STARTED,
                          .iteration = s->version,
                          .of = s->until,
                          .tokens = tokens,
                          .microbatches = s->run->microbatches,
                          .parameters = worker_parameters(s->worker)});
}

braid_err solo_run(const solo_config *config, solo_result *out, braid_error *error) {
    *out = (solo_result){.loss = NAN};
    solo s = {.config = *config, .run = config->run, .result = out, .lock = -1};
    braid_err err = solo_open(&s, error);
    if (!err && out->nothing)
        tell_nothing(&s);
    else if (!err) {
        tell_started(&s);
        out->begun = true;
        err = train(&s, error);
    }
    if (!err) err = hash_weights(&s, error);
    out->version = s.version;
    out->until = s.until;
    solo_close(&s);
    return err;
}
