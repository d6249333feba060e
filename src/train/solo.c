#include "train/solo.h"

#include "format/quantity.h"
#include "train/diverged.h"
#include "train/checkpoint_claim.h"
#include "train/checkpoint_directory.h"
#include "train/solo_inside.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

void solo_tell(const solo *s, const solo_event *event) {
    if (s->config.tell) s->config.tell(s->config.context, event);
}

void solo_note(void *context, const char *text) { solo_tell(context, &(solo_event){.kind = SOLO_NOTE, .text = text}); }

static double now_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void tell_iteration(const solo *s, const solo_sum *sum, const train_step *step, double norm2, double seconds) {
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
    solo_tell(s, &event);
}

// The state does not change between microbatches, so a checkpoint need not wait for the end of the
// iteration.
static solo_wish listen(solo *s) {
    solo_wish wish = s->config.wish ? s->config.wish(s->config.context) : SOLO_GO_ON;
    if (wish == SOLO_SAVE && !solo_saves(s))
        solo_tell(s, &(solo_event){.kind = SOLO_NOTE,
                                   .text = "the run has no checkpoint.dir, so nothing is saved (or give --save DIR)"});
    else if (wish == SOLO_SAVE && s->saved == s->version)
        solo_tell(s, &(solo_event){.kind = SOLO_NOTE, .text = "the state has not changed since the last checkpoint"});
    else if (wish == SOLO_SAVE)
        solo_save(s);
    else if (wish > s->wish)
        s->wish = wish;
    return s->wish;
}

bool solo_is_dropped(void *context) { return listen(context) >= SOLO_DROP; }

static braid_err apply_step(solo *s, const train_step *step, braid_error *error) {
    if (s->swap) return swap_apply(s->swap, step, error);
    solo_job(s, &(job){.id = 1,
                       .kind = JOB_APPLY,
                       .iteration = s->version,
                       .clip = step->clip,
                       .learning_rate = step->learning_rate,
                       .bias1 = step->bias1,
                       .bias2 = step->bias2,
                       .skip = step->skip});
    return BRAID_OK;
}

static braid_err iterate(solo *s, braid_error *error) {
    double start = now_seconds(), norm2 = NAN;
    solo_sum sum = {0};
    braid_err err = s->swap ? solo_swapped_gradients(s, &sum, &norm2, error)
                            : solo_worker_gradients(s, &sum, &norm2, error);
    if (err || sum.stopped) return err;
    train_step step = train_decide(&s->run->recipe, s->version, norm2, sum.tokens);
    err = apply_step(s, &step, error);
    if (err) return err;
    s->version++;
    s->skipped_before = s->skipped;
    s->skipped = step.skip ? s->skipped + 1 : 0;
    s->result->loss = sum.tokens > 0 ? sum.loss / (double)sum.tokens : NAN;
    s->result->tokens += sum.tokens;
    tell_iteration(s, &sum, &step, norm2, now_seconds() - start);
    return BRAID_OK;
}

static braid_err evaluate(solo *s, braid_error *error) {
    solo_sum sum = {0};
    braid_err err = s->swap ? solo_swapped_held_out(s, &sum, error) : solo_worker_held_out(s, &sum, error);
    if (err || sum.stopped) return err;
    solo_event event = {.kind = SOLO_EVAL, .iteration = s->version, .of = s->until, .tokens = sum.tokens};
    event.loss = sum.loss / (double)sum.tokens;
    solo_tell(s, &event);
    return BRAID_OK;
}

static void note_threads(solo *s) {
    char text[TENSOR_POOL_NOTE];
    if (tensor_pool_refused(s->pool, s->config.threads, text)) solo_note(s, text);
}

static void note_memory(solo *s, const worker_config *config) {
    char text[256], need[QUANTITY_TEXT], have[QUANTITY_TEXT];
    uint64_t needed = worker_memory_bytes(config);
    if (config->max_memory || !s->config.usable_bytes || needed <= s->config.usable_bytes) return;
    snprintf(text, sizeof text,
             "this run may need %s of memory, and the process may use %s: it may be killed for lack of memory; give it "
             "more, or lower train.sequences",
             quantity_size_text(needed, need), quantity_size_text(s->config.usable_bytes, have));
    solo_note(s, text);
}

static void note_jump(solo *s, const checkpoint *from) {
    char text[RUN_NOTE];
    if (checkpoint_rate_jumps(from, &s->run->recipe, text)) solo_note(s, text);
}

static bool is_due(uint64_t version, uint32_t every) { return every > 0 && version % every == 0; }

// After skipped iterations a version has the weights of the version before them. Saving it would
// remove an older checkpoint, possibly the newest one from which the run can recover. A save that
// was due meanwhile follows the next step, as in a swarm.
static bool save_is_due(const solo *s) {
    uint64_t every = s->run->checkpoint_every;
    return solo_saves(s) && s->saved != s->version && every > 0 && s->skipped == 0 &&
           s->version / every > (s->version - 1 - s->skipped_before) / every;
}

static bool is_hopeless(const solo *s) { return s->run->max_skipped > 0 && s->skipped >= s->run->max_skipped; }

static braid_err diverged(const solo *s, braid_error *error) {
    const char *began = s->config.resume ? s->config.resume : "";
    return run_diverged(s->run, s->version, s->skipped, s->result->path[0] ? s->result->path : began, error);
}

// A run that ends early after skipped iterations has no new state to save.
static bool last_save_is_due(const solo *s, braid_err err) {
    bool nothing_new = (err || s->result->stopped) && s->saved + s->skipped == s->version;
    return solo_saves(s) && s->saved != s->version && !s->result->abandoned && !nothing_new;
}

static braid_err train(solo *s, braid_error *error) {
    braid_err err = BRAID_OK;
    s->saved = s->version;
    while (s->version < s->until && !err && listen(s) < SOLO_FINISH) {
        if (is_due(s->version, s->run->eval_every)) err = evaluate(s, error);
        if (!err && s->wish < SOLO_FINISH) err = iterate(s, error);
        s->result->diverged = !err && is_hopeless(s);
        if (s->result->diverged) return diverged(s, error);
        if (!err && save_is_due(s)) solo_save(s);
    }
    s->result->stopped = s->version < s->until && s->wish >= SOLO_FINISH;
    s->result->abandoned = s->wish == SOLO_ABANDON;
    if (last_save_is_due(s, err)) solo_save(s);
    if (err || s->wish >= SOLO_FINISH) return err;
    return s->run->eval_every > 0 ? evaluate(s, error) : BRAID_OK;
}

static braid_err find_leaves(solo *s, braid_error *error) {
    if (s->swap) return swap_leaves(s->swap, s->leaves, error);
    job_result leaves = solo_job(s, &(job){.id = 1, .kind = JOB_LEAVES});
    uint64_t bytes = 0;
    const void *data = solo_blob_read(s, leaves.out, &bytes);
    if (!data) return braid_fail(error, BRAID_MEMORY, "no memory to hash the weights");
    BRAID_ASSERT(split_put_leaves(&s->split, 0, data, bytes, s->leaves));
    solo_blob_release(s, leaves.out);
    return BRAID_OK;
}

static braid_err hash_weights(solo *s, braid_error *error) {
    s->leaves = calloc(s->split.block_count, sizeof *s->leaves);
    if (!s->leaves) return braid_fail(error, BRAID_MEMORY, "no memory to hash the weights");
    braid_err err = find_leaves(s, error);
    if (!err) s->result->weights = split_weights_hash(&s->split, s->leaves);
    return err;
}

static braid_err find_newest(solo *s, braid_error *error) {
    uint64_t version;
    if (!solo_saves(s))
        return braid_fail(error, BRAID_CONFIG,
                          "--continue needs a directory of checkpoints: set checkpoint.dir, or give --save DIR");
    if (checkpoint_find_newest(s->run->checkpoint, &s->run_hash, s->newest, &version)) s->config.resume = s->newest;
    return BRAID_OK;
}

static bool has_adapter(const solo *s) { return s->run->recipe.adapter.rank > 0; }

static braid_err load(solo *s, checkpoint *from, braid_error *error) {
    s->loaded = true;
    return s->swap ? swap_load(s->swap, from, error) : worker_load(s->worker, from, error);
}

// The weights of the run's model: the first ones, or those that an adapter adapts.
static braid_err load_model(solo *s, braid_error *error) {
    checkpoint *from = NULL;
    braid_err err = checkpoint_open_start(s->config.model, &from, error);
    if (!err) err = has_adapter(s) ? worker_load_base(s->worker, from, error) : load(s, from, error);
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
    if (!err) err = load(s, from, error);
    s->version = checkpoint_version(from);
    snprintf(s->from, sizeof s->from, "%s", checkpoint_path(from));
    s->result->nothing = s->version == s->until;
    if (!err && s->version > s->until)
        err = braid_fail(error, BRAID_CONFIG,
                         "the checkpoint '%s' has done %llu iterations already, more than the %llu wanted",
                         checkpoint_path(from), (unsigned long long)s->version, (unsigned long long)s->until);
    char text[CHECKPOINT_NOTE];
    if (!err && checkpoint_of_another_run(from, &s->run_hash, text)) solo_note(s, text);
    if (!err && !s->result->nothing && checkpoint_lacks_moments(from, text)) solo_note(s, text);
    checkpoint_close(from);
    return err;
}

static braid_err claim(solo *s, braid_error *error) {
    if (!solo_saves(s) || s->result->nothing) return BRAID_OK;
    const checkpoint_start start = {.directory = s->run->checkpoint,
                                    .run = s->run_hash,
                                    .version = s->version,
                                    .from = s->from[0] ? s->from : NULL,
                                    .anew = s->config.anew,
                                    .newest = s->config.continues,
                                    .wait_ms = CHECKPOINT_WAIT_MS,
                                    .note = solo_note,
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
    braid_err err = solo_saves(s) ? checkpoint_try(run->checkpoint, error) : BRAID_OK;
    if (!err) err = tensor_pool_new(s->config.threads, &s->pool, error);
    if (!err) note_threads(s);
    if (!err && !s->config.swap) note_memory(s, &config);
    if (!err) tensor_pool_watch(s->pool, s->config.watch);
    if (!err && s->config.swap && has_adapter(s))
        err = braid_fail(error, BRAID_CONFIG, "a run with an adapter keeps its model in memory: leave out --state-dir");
    if (!err && s->config.swap && run->recipe.local_steps > 0)
        err = braid_fail(error, BRAID_CONFIG,
                         "a run with train.local_steps keeps its state in memory: leave out --state-dir");
    if (!err) err = split_new(&run->model, &run->recipe.adapter, &run->model.layers, 1, &s->split, error);
    if (!err) err = s->config.swap ? solo_open_swap(s, error) : worker_new(&config, s->pool, &s->worker, error);
    if (!err && s->config.continues) err = find_newest(s, error);
    if (!err && s->config.model && (has_adapter(s) || !s->config.resume)) err = load_model(s, error);
    if (!err && s->config.resume) err = resume(s, error);
    if (!err) err = claim(s, error);
    if (!err && s->swap) return s->loaded ? BRAID_OK : swap_init(s->swap, error);
    if (!err) solo_job(s, &(job){.id = 1, .kind = JOB_STATE_INIT, .version = s->version});
    return err;
}

static void solo_close(solo *s) {
    worker_free(s->worker);
    swap_free(s->swap);
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
    solo_note(s, text);
}

static uint64_t parameters_of(const split *s) {
    uint64_t parameters = 0;
    for (uint32_t i = 0; i < s->tensor_count; i++)
        if (!adapter_is_filler(&s->tensors[i])) parameters += s->tensors[i].elements;
    return parameters;
}

static void tell_started(solo *s) {
    uint64_t tokens = run_iteration_tokens(s->run);
    solo_tell(s, &(solo_event){.kind = SOLO_STARTED,
                               .iteration = s->version,
                               .of = s->until,
                               .tokens = tokens,
                               .microbatches = s->run->microbatches,
                               .parameters = parameters_of(&s->split)});
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
        if (!err && s.swap) solo_note_transfers(&s);
    }
    if (!err) err = hash_weights(&s, error);
    out->version = s.version;
    out->until = s.until;
    solo_close(&s);
    return err;
}
