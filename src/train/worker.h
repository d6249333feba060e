// One machine's share of the computation: a stage with its weights, moments, stashes, sum and results, and the jobs that
// the protocol asks for. Used by `train --solo`, by the simulator's real kernels and by the real process alike.
#ifndef BRAID_TRAIN_WORKER_H
#define BRAID_TRAIN_WORKER_H

#include "base/err.h"
#include "model/config.h"
#include "model/stage.h"
#include "peer/job.h"
#include "tensor/pool.h"
#include "train/data.h"
#include "train/recipe.h"

#include <stdint.h>

enum { WORKER_BLOCK_ELEMENTS = 1 << 16 };  // a block: this many elements of one tensor, never across tensors

typedef struct worker worker;

typedef struct worker_config {
    model_config model;
    stage_shape shape;
    train_recipe recipe;       // optimizer, schedule, mode
    uint64_t seed;
    uint32_t capacity;         // stashes
    const train_data *data;    // stage 0 only, borrowed; NULL elsewhere
    uint64_t max_memory;       // bytes, 0: no cap; too small is BRAID_LIMIT with the figure needed
} worker_config;

// Reserves all memory at once. `pool` is borrowed.
braid_err worker_new(const worker_config *config, tensor_pool *pool, worker **out, braid_error *error);
void worker_free(worker *w);
// What worker_new would reserve, in bytes.
uint64_t worker_memory_bytes(const worker_config *config);

uint32_t worker_blocks(const worker *w);
stage *worker_stage(worker *w);
float *worker_weights(worker *w);
float *worker_moment1(worker *w);
float *worker_moment2(worker *w);
uint64_t worker_version(const worker *w);  // lowest version of any block

// Where blobs live. The worker reads job->in and inputs through `read`, and asks `write` for room for an output.
typedef struct worker_blobs {
    void *context;
    const void *(*read)(void *context, blob_id blob, uint64_t *bytes);
    void *(*write)(void *context, uint64_t bytes, blob_id *blob);  // NULL: no memory
} worker_blobs;

// Runs any job but JOB_SAVE and JOB_SAVE_END (the host's). result->norm2 points into the worker.
void worker_run(worker *w, const job *work, const worker_blobs *blobs, job_result *result);

#endif
