// One machine's part of the computation: a stage with its weights, moments, stashes, sum and
// results, and the jobs of the protocol. Used by `train --solo`, by the simulator's real kernels
// and by the real process.
#ifndef BRAID_TRAIN_WORKER_H
#define BRAID_TRAIN_WORKER_H

#include "base/err.h"
#include "model/config.h"
#include "model/stage.h"
#include "braid/job.h"
#include "tensor/pool.h"
#include "train/data.h"
#include "train/recipe.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct worker worker;

typedef struct worker_config {
    model_config model;
    stage_shape shape;
    // optimizer, schedule, mode. With an adapter the model's weights are fixed (worker_load_base), and
    // parameters, sums, moments and blocks are those of the adapter
    train_recipe recipe;
    uint64_t seed;
    uint32_t microbatches;   // per iteration: a JOB_FORWARD for m >= microbatches draws held-out text
    uint32_t capacity;       // stashes
    // threads of the pool that worker_new will get; worker_memory_bytes counts their scratch; 0:
    // one
    unsigned threads;
    bool alone;              // no other peer requests sums or results: no hashes, and JOB_REDUCE overwrites the sum.
                             // With one microbatch and one stash, the sum replaces the stash as it
                             // is used up
    const train_data *data;  // stage 0 only, borrowed; NULL in other stages
    // keeps weights and moments in an unlinked file in this directory, with only the used pages in
    // memory; NULL: in memory
    const char *state_directory;
    uint64_t max_memory;     // bytes, 0: no limit; too small a limit is BRAID_LIMIT with the required figure
} worker_config;

// Reserves all memory. `pool` is borrowed.
braid_err worker_new(const worker_config *config, tensor_pool *pool, worker **out, braid_error *error);
void worker_free(worker *w);

// The memory that worker_new would reserve, by purpose; all but `parameters` in bytes.
typedef struct worker_sizes {
    uint64_t parameters;  // elements
    uint64_t weights;
    uint64_t optimizer;   // the two moments
    uint64_t gradients;   // the iteration's sum and its result
    uint64_t microbatch;  // each of `capacity`
    uint64_t work;        // the stage's work area, tables
    uint64_t total;       // without what lies in a file of state_directory
} worker_sizes;

braid_err worker_measure_sizes(const worker_config *config, worker_sizes *out, braid_error *error);
// The total; 0 when there is no memory for the computation itself.
uint64_t worker_memory_bytes(const worker_config *config);

// The largest capacity, at most `most`, with which the worker fits into `bytes`; 0 when not even
// one stash fits.
uint32_t worker_fitting_capacity(const worker_config *config, uint64_t bytes, uint32_t most);

// True after a sample failed because the text changed (train_data_why).
bool worker_text_changed(const worker *w);

// Loads the weights and moments of this worker's layers from a checkpoint of any split.
// JOB_STATE_INIT then keeps them, at the checkpoint's version.
struct checkpoint;
braid_err worker_load(worker *w, struct checkpoint *from, braid_error *error);

// With an adapter: reads the model's weights, which stay as they are. Required before the first job.
braid_err worker_load_base(worker *w, struct checkpoint *from, braid_error *error);

uint64_t worker_parameters(const worker *w);  // elements that are trained
uint32_t worker_blocks(const worker *w);
stage *worker_stage(worker *w);
float *worker_weights(worker *w);
uint64_t worker_version(const worker *w);  // the lowest version of any block

// Access to blobs. The worker reads job->in and inputs through `read` (a peer may have sent any
// size; NULL: no such blob), and gets memory for an output from `write`. Addresses are multiples of
// 64.
typedef struct worker_blobs {
    void *context;
    const void *(*read)(void *context, blob_id blob, uint64_t *bytes);
    void *(*write)(void *context, uint64_t bytes, blob_id *blob);  // NULL: no memory
} worker_blobs;

// Runs any job except JOB_SAVE_NAMES, JOB_SAVE and JOB_SAVE_END, which the host runs. Fills all of
// `result`; result->norm2 points into the worker. `failed` is also set when a blob is missing or
// has a wrong size, or when there is no memory for the output.
//
// JOB_LOSS of a held-out microbatch computes no dx. JOB_REDUCE keeps its results in the worker.
// JOB_STATE_GET fails unless all blocks have one version; that version is in the blob and in
// result->version.
void worker_run(worker *w, const job *work, const worker_blobs *blobs, job_result *result);

#endif
