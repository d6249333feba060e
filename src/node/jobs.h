// Runs the protocol's jobs on the compute thread: those of the worker, and those that read or write
// checkpoints.
#ifndef BRAID_NODE_JOBS_H
#define BRAID_NODE_JOBS_H

#include "base/err.h"
#include "node/blobs.h"
#include "braid/job.h"
#include "tensor/pool.h"
#include "train/data.h"
#include "train/run.h"
#include "train/split.h"

#include <stdbool.h>

typedef struct jobs jobs;

typedef struct jobs_config {
    const run_config *run;    // borrowed while the jobs exist, as are all pointers below
    const split *split;
    braid_hash run_hash;
    bool saves;               // it writes checkpoints while it leads
    const train_data *data;   // data peers
    blobs *blobs;
    unsigned threads;
    uint32_t capacity;
    uint64_t max_memory;
    const char *state_directory;  // of worker_config
    const char *base;         // checkpoint of the model that the run adapts, NULL: none
    const char *resume;       // leader: checkpoint of the start state, NULL: made from the seed
    const char *save;         // data peers: checkpoint directory, NULL or "": none
} jobs_config;

braid_err jobs_new(const jobs_config *config, jobs **out, braid_error *error);
void jobs_free(jobs *j);

// Whether the system gave fewer compute threads than requested; `note` (TENSOR_POOL_NOTE bytes)
// receives the message.
bool jobs_threads_refused(const jobs *j, char *note);
// Version of the checkpoint named by `resume`; 0 without one.
uint64_t jobs_start_version(const jobs *j);
// Whether that checkpoint belongs to another run; `text` (CHECKPOINT_NOTE bytes) receives the
// message.
bool jobs_start_differs(const jobs *j, char *text);
// Whether it lacks the optimizer's moments; `text` (CHECKPOINT_NOTE bytes) receives the message.
bool jobs_start_lacks_moments(const jobs *j, char *text);
// Path of that checkpoint; NULL without one.
const char *jobs_start_path(const jobs *j);
const braid_hash *jobs_start_weights(const jobs *j);
// Sets the stage of the following jobs; the first of them makes the worker. Callable on any thread.
void jobs_place(jobs *j, uint16_t stage);
// Whether the learning rate jumps at the checkpoint that the run continues from; `text` (RUN_NOTE
// bytes) receives the message.
bool jobs_rate_jumps(const jobs *j, char *text);
// Runs on the compute thread.
void jobs_run(jobs *j, const job *work, job_result *result);
// Path of the last complete checkpoint, "" if there is none. Call it only while no job runs.
const char *jobs_saved_path(const jobs *j);
// Number of older checkpoints removed to make room for it. Call it only while no job runs.
uint32_t jobs_saved_removed(const jobs *j);
// Why the worker could not be made, or the last checkpoint not be written; BRAID_OK: no error. Call
// it only while no job runs.
const braid_error *jobs_worker_error(const jobs *j);
const braid_error *jobs_save_error(const jobs *j);
// Whether the worker's error is a changed text; its state is then intact.
bool jobs_text_lost(const jobs *j);

#endif
