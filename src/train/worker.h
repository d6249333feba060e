// One machine's share of the computation: a stage with its weights, moments, stashes, sum and results, and the jobs that
// the protocol asks for. Used by `train --solo`, by the simulator's real kernels and by the real process alike.
#ifndef BRAID_TRAIN_WORKER_H
#define BRAID_TRAIN_WORKER_H

#include "base/err.h"
#include "model/config.h"
#include "model/stage.h"
#include "protocol/job.h"
#include "tensor/pool.h"
#include "train/data.h"
#include "train/recipe.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct worker worker;

typedef struct worker_config {
    model_config model;
    stage_shape shape;
    train_recipe recipe;  // optimizer, schedule, mode
    uint64_t seed;
    uint32_t microbatches;   // of an iteration: a JOB_FORWARD for m >= microbatches draws held-out text
    uint32_t capacity;       // stashes
    unsigned threads;        // of the pool that worker_new will get: worker_memory_bytes counts their scratch; 0: one
    bool alone;              // nobody else asks for sums or results: no hashes, JOB_REDUCE puts results in the sum's place.
                             // With one microbatch and room for one the sum grows in the stash as that is used up
    const train_data *data;  // stage 0 only, borrowed; NULL elsewhere
    const char *state_directory;  // weights and moments lie in a nameless file there, of which memory holds what is in use; NULL: in memory
    uint64_t max_memory;     // bytes, 0: no cap; too small is BRAID_LIMIT with the figure needed
} worker_config;

// Reserves all memory at once. `pool` is borrowed.
braid_err worker_new(const worker_config *config, tensor_pool *pool, worker **out, braid_error *error);
void worker_free(worker *w);

// What worker_new would reserve, by purpose; all but `parameters` in bytes.
typedef struct worker_sizes {
    uint64_t parameters;  // elements
    uint64_t weights;
    uint64_t optimizer;   // the two moments
    uint64_t gradients;   // the iteration's sum and its result
    uint64_t microbatch;  // each of `capacity`
    uint64_t work;        // the stage's work area, tables
    uint64_t total;
} worker_sizes;

braid_err worker_measure_sizes(const worker_config *config, worker_sizes *out, braid_error *error);
// The total; 0 when there is no memory even to count it.
uint64_t worker_memory_bytes(const worker_config *config);

// The largest capacity, at most `most`, with which the worker fits into `bytes`; 0 when not even one stash does.
uint32_t worker_fitting_capacity(const worker_config *config, uint64_t bytes, uint32_t most);

// A sample could not be drawn, because the text is not what it was (train_data_why).
bool worker_text_changed(const worker *w);

// Takes the weights and moments of this worker's layers from a checkpoint, however that was split. JOB_STATE_INIT then
// keeps them, at the checkpoint's version.
struct checkpoint;
braid_err worker_load(worker *w, struct checkpoint *from, braid_error *error);

uint32_t worker_blocks(const worker *w);
stage *worker_stage(worker *w);
float *worker_weights(worker *w);
float *worker_moment1(worker *w);
float *worker_moment2(worker *w);
uint64_t worker_version(const worker *w);  // lowest version of any block

// Where blobs live. The worker reads job->in and inputs through `read` (any size may come from a peer; NULL: no such blob),
// and asks `write` for room for an output. Addresses are multiples of 64.
typedef struct worker_blobs {
    void *context;
    const void *(*read)(void *context, blob_id blob, uint64_t *bytes);
    void *(*write)(void *context, uint64_t bytes, blob_id *blob);  // NULL: no memory
} worker_blobs;

// Runs any job but JOB_SAVE_NAMES, JOB_SAVE and JOB_SAVE_END (the host's). Fills all of `result`; result->norm2 points into the worker.
// `failed` also when a blob is missing, has a wrong size, or there is no memory for the output.
//
// JOB_LOSS of a held-out microbatch gives no dx. JOB_REDUCE leaves its results in the worker. JOB_STATE_GET serves blocks as
// they stand and fails when they are not all at one version; that version is in the blob and in result->version.
void worker_run(worker *w, const job *work, const worker_blobs *blobs, job_result *result);

#endif
