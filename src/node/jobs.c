#include "node/jobs.h"

#include "node/saver.h"
#include "train/checkpoint.h"
#include "train/digest.h"
#include "train/split.h"
#include "train/worker.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { NOWHERE = UINT32_MAX };

struct jobs {
    jobs_config config;
    tensor_pool *pool;
    const split *split;
    checkpoint *base;          // of the model that the run adapts; NULL: none
    checkpoint *start;         // the checkpoint that the run starts from
    checkpoint *back;          // the checkpoint of the last rollback
    char found[FILES_MAX_PATH];  // the newest checkpoint of the log found on this machine, "": none
    uint64_t found_version;
    saver *saver;
    _Atomic uint32_t placed;   // stage of the following jobs

    // Used by the compute thread only.
    worker *worker;
    uint32_t stage;            // of `worker`
    bool untouched;            // its state still equals that of `start`
    worker_blobs access;
    braid_error error;
    braid_error why;           // a checkpoint could not be read; other peers may have it
};

static const void *access_read(void *context, blob_id id, uint64_t *bytes) { return blobs_data(context, id, bytes); }
static void *access_write(void *context, uint64_t bytes, blob_id *id) { return blobs_add(context, bytes, id); }

// Refuses a checkpoint that this run cannot continue.
static braid_err match(const jobs *j, const checkpoint *c, braid_error *error) {
    const checkpoint_adapter wanted = run_adapter(j->config.run);
    braid_err err = checkpoint_match_adapter(c, &wanted, error);
    return err ? err : checkpoint_match(c, &j->config.run->model, error);
}

static braid_err start_open(jobs *j, braid_error *error) {
    if (!j->config.resume) return BRAID_OK;
    braid_err err = checkpoint_open_start(j->config.resume, &j->start, error);
    return err ? err : match(j, j->start, error);
}

// The model of an adapter run stays open: this peer may change its stage.
static braid_err base_open(jobs *j, braid_error *error) {
    if (!j->config.base) return BRAID_OK;
    braid_err err = checkpoint_open_weights(j->config.base, &j->base, error);
    if (err || hash_equal(checkpoint_weights(j->base), &j->config.run->weights)) return err;
    return braid_fail(error, BRAID_CONFIG,
                      "the model '%.200s' has other weights than the one that this run adapts; give that model (--from)",
                      j->config.base);
}

bool jobs_threads_refused(const jobs *j, char *note) { return tensor_pool_refused(j->pool, j->config.threads, note); }

static braid_err begin_saver(jobs *j, braid_error *error) {
    const run_config *run = j->config.run;
    saver_config config = {.directory = j->config.save, .model = &run->model, .split = j->split, .run = j->config.run_hash, .recipe = &run->recipe,
                           .adapter = run_adapter(run), .base_name = run->from};
    if (j->config.data) config.files = train_data_carried(j->config.data, &config.file_count);
    return saver_new(&config, &j->saver, error);
}

braid_err jobs_new(const jobs_config *config, jobs **out, braid_error *error) {
    jobs *j = calloc(1, sizeof *j);
    if (!j) return braid_fail(error, BRAID_MEMORY, "no memory for the jobs");
    j->config = *config;
    j->split = config->split;
    j->stage = NOWHERE;
    j->placed = NOWHERE;
    j->access = (worker_blobs){.context = config->blobs, .read = access_read, .write = access_write};
    braid_err err = tensor_pool_new(config->threads ? config->threads : 1, &j->pool, error);
    if (!err) err = base_open(j, error);
    if (!err) err = start_open(j, error);
    if (!err && config->saves) err = begin_saver(j, error);
    if (err) {
        jobs_free(j);
        return err;
    }
    *out = j;
    return BRAID_OK;
}

void jobs_free(jobs *j) {
    if (!j) return;
    worker_free(j->worker);
    saver_free(j->saver);
    checkpoint_close(j->base);
    checkpoint_close(j->start);
    checkpoint_close(j->back);
    tensor_pool_free(j->pool);
    free(j);
}

uint64_t jobs_start_version(const jobs *j) { return j->start ? checkpoint_version(j->start) : 0; }

bool jobs_start_differs(const jobs *j, char *text) {
    return j->start && checkpoint_of_another_run(j->start, &j->config.run_hash, text);
}

bool jobs_start_lacks_moments(const jobs *j, char *text) { return j->start && checkpoint_lacks_moments(j->start, text); }

const char *jobs_start_path(const jobs *j) { return j->start ? checkpoint_path(j->start) : NULL; }

const braid_hash *jobs_start_weights(const jobs *j) { return j->start ? checkpoint_weights(j->start) : NULL; }

void jobs_place(jobs *j, uint16_t number) { atomic_store(&j->placed, number); }

const braid_error *jobs_worker_error(const jobs *j) { return j->error.code ? &j->error : NULL; }

bool jobs_text_lost(const jobs *j) { return j->error.code && j->worker && worker_text_changed(j->worker); }

const braid_error *jobs_save_error(const jobs *j) { return j->saver ? saver_error(j->saver) : NULL; }

uint32_t jobs_saved_removed(const jobs *j) { return j->saver ? saver_removed(j->saver) : 0; }

const char *jobs_saved_path(const jobs *j) { return j->saver ? saver_path(j->saver) : ""; }

static braid_err worker_make(jobs *j, uint32_t number) {
    const run_config *run = j->config.run;
    worker_config config = {.model = run->model, .recipe = run->recipe, .seed = run->seed, .microbatches = run->microbatches,
                            .capacity = j->config.capacity, .data = j->config.data, .max_memory = j->config.max_memory, .state_directory = j->config.state_directory};
    run_stage_shape(run, number, &config.shape);
    worker_free(j->worker);
    j->worker = NULL;
    j->stage = NOWHERE;
    braid_err err = worker_new(&config, j->pool, &j->worker, &j->error);
    bool loads = !err && j->start && checkpoint_has_files(j->start);
    if (!err && j->base) err = worker_load_base(j->worker, j->base, &j->error);
    if (loads && !err) err = worker_load(j->worker, j->start, &j->error);
    if (!err) j->stage = number;
    j->untouched = !err && loads;
    return err;
}

// Path of this version's checkpoint on this machine, or NULL.
static const char *path_of(const jobs *j, uint64_t version) {
    if (j->found[0] && j->found_version == version) return j->found;
    return j->start && checkpoint_version(j->start) == version ? checkpoint_path(j->start) : NULL;
}

static braid_err back_open(jobs *j, const char *path) {
    bool start = path != j->found;
    return start ? checkpoint_open_start(path, &j->back, &j->why) : checkpoint_open(path, &j->back, &j->why);
}

// This version's checkpoint, opened and verified at the first request. NULL: not on this machine,
// or damaged.
static checkpoint *checkpoint_at(jobs *j, uint64_t version) {
    if (j->start && checkpoint_version(j->start) == version && checkpoint_has_files(j->start)) return j->start;
    if (j->back && checkpoint_version(j->back) == version) return j->back;
    checkpoint_close(j->back);
    j->back = NULL;
    const char *path = path_of(j, version);
    if (!path || back_open(j, path)) return NULL;
    if (checkpoint_version(j->back) == version && !match(j, j->back, &j->why)) return j->back;
    checkpoint_close(j->back);
    j->back = NULL;
    return NULL;
}

// After the first FINAL, stages get their state from peers, so the checkpoints are closed: open
// files would keep their disk space after removal. A rollback opens its checkpoint anew.
static void let_go_of_checkpoints(jobs *j) {
    checkpoint_close_files(j->start);
    checkpoint_close(j->back);
    j->back = NULL;
}

static void find_saved(jobs *j, const job *work, job_result *result) {
    char path[FILES_MAX_PATH];
    bool saves = j->config.save && j->config.save[0] != '\0';
    result->failed = !saves || !checkpoint_find(j->config.save, &j->config.run_hash, work->version, &work->weights, path);
    if (result->failed) return;
    memcpy(j->found, path, sizeof j->found);
    j->found_version = work->version;
}

// Initialises the worker's own stage from the seed or from a checkpoint.
static void state_init(jobs *j, const job *work, job_result *result) {
    bool loaded = j->untouched && checkpoint_version(j->start) == work->version;
    bool seeded = work->version == 0 && !run_has_model(j->config.run);
    checkpoint *from = seeded || loaded ? NULL : checkpoint_at(j, work->version);
    j->untouched = false;
    if (from && !worker_load(j->worker, from, &j->why)) loaded = true;
    if (seeded || loaded) worker_run(j->worker, work, &j->access, result);
    else result->failed = true;
}

// Serves another stage's state from a checkpoint on this machine to peers that start from it.
static void state_from_start(jobs *j, const job *work, job_result *result) {
    uint32_t blocks = work->stage < j->split->stages ? split_count(j->split, work->stage) : 0;
    result->failed = true;
    checkpoint *from = checkpoint_at(j, work->version);
    if (!from || work->count == 0 || work->first >= blocks || work->count > blocks - work->first) return;
    uint64_t bytes = checkpoint_state_bytes(j->split, work->stage, work->first, work->count);
    blob_id id;
    void *data = blobs_add(j->config.blobs, bytes, &id);
    if (!data) return;
    braid_error error;
    if (checkpoint_state(from, j->split, work->stage, work->first, work->count, data, &error)) {
        blobs_release(j->config.blobs, id);
        return;
    }
    result->failed = false;
    result->out = id;
    result->hash64 = digest64(data, bytes);
    result->version = work->version;
}

// Serves the block names, so that a peer with its own copy of the checkpoint fetches only what it
// lacks.
static void names_from_start(jobs *j, const job *work, job_result *result) {
    uint32_t blocks = work->stage < j->split->stages ? split_count(j->split, work->stage) : 0;
    result->failed = true;
    checkpoint *from = checkpoint_at(j, work->version);
    if (!from || blocks == 0) return;
    uint64_t bytes = blocks * sizeof(braid_hash);
    blob_id id;
    void *data = blobs_add(j->config.blobs, bytes, &id);
    if (!data) return;
    braid_error error;
    if (checkpoint_names(from, j->split, work->stage, data, &error)) {
        blobs_release(j->config.blobs, id);
        return;
    }
    result->failed = false;
    result->out = id;
    result->hash64 = digest64(data, bytes);
}

void jobs_run(jobs *j, const job *work, job_result *result) {
    uint32_t placed = atomic_load(&j->placed);
    if (work->kind == JOB_SAVE) {
        uint64_t bytes;
        const void *data = blobs_data(j->config.blobs, work->in, &bytes);
        braid_err err = saver_put(j->saver, work->version, work->stage, work->first, work->count, work->named, data, bytes);
        result->malformed = err == BRAID_FORMAT && work->named;
        result->failed = err != BRAID_OK && !result->malformed;
    } else if (work->kind == JOB_SAVE_NAMES) {
        uint64_t bytes;
        const void *data = blobs_data(j->config.blobs, work->in, &bytes);
        result->failed = saver_names(j->saver, work->version, work->stage, data, bytes, &result->hash) != BRAID_OK;
    } else if (work->kind == JOB_SAVE_END) {
        result->failed = saver_end(j->saver, work->version, work->skip, &result->hash) != BRAID_OK;
    } else if (work->kind == JOB_SAVE_FIND) {
        find_saved(j, work, result);
    } else if (work->kind == JOB_STATE_GET && work->stage != placed) {
        state_from_start(j, work, result);
    } else if (work->kind == JOB_NAMES_GET && work->stage != placed) {
        names_from_start(j, work, result);
    } else if ((placed == NOWHERE || placed == j->stage || !worker_make(j, placed)) && j->worker) {
        if (work->kind == JOB_STATE_INIT) state_init(j, work, result);
        else {
            j->untouched = false;
            worker_run(j->worker, work, &j->access, result);
            if (work->kind == JOB_APPLY) let_go_of_checkpoints(j);
            if (worker_text_changed(j->worker)) train_data_why(j->config.data, &j->error);
        }
    } else {
        result->failed = true;
    }
}

bool jobs_rate_jumps(const jobs *j, char *text) { return j->start && checkpoint_rate_jumps(j->start, &j->config.run->recipe, text); }
