// The jobs of the protocol, run on the compute thread: the worker's, and those that touch checkpoints.
#ifndef BRAID_NODE_JOBS_H
#define BRAID_NODE_JOBS_H

#include "base/err.h"
#include "node/blobs.h"
#include "protocol/job.h"
#include "tensor/pool.h"
#include "train/data.h"
#include "train/run.h"
#include "train/split.h"

#include <stdbool.h>

typedef struct jobs jobs;

typedef struct jobs_config {
    const run_config *run;    // borrowed for the life of the jobs, as is all below
    const split *split;
    braid_hash run_hash;
    bool saves;               // checkpoints, while it leads
    const train_data *data;   // data peers
    blobs *blobs;
    unsigned threads;
    uint32_t capacity;
    uint64_t max_memory;
    const char *state_directory;  // of worker_config
    const char *resume;       // leader: where the start state comes from, NULL: the seed
    const char *save;         // data peers: where checkpoints go, NULL or "": nowhere
} jobs_config;

braid_err jobs_new(const jobs_config *config, jobs **out, braid_error *error);
void jobs_free(jobs *j);

// Whether the system gave fewer compute threads than were asked for; says so in `note`
// (TENSOR_POOL_NOTE bytes).
bool jobs_threads_refused(const jobs *j, char *note);
// Of the checkpoint named by `resume`; 0 without one.
uint64_t jobs_start_version(const jobs *j);
// Whether that checkpoint is of another run; says so in `text`, which holds CHECKPOINT_NOTE bytes.
bool jobs_start_differs(const jobs *j, char *text);
// Whether it has no moments; says so in such a `text`.
bool jobs_start_lacks_moments(const jobs *j, char *text);
// Of that checkpoint; NULL without one.
const char *jobs_start_path(const jobs *j);
const braid_hash *jobs_start_weights(const jobs *j);
// The stage of the jobs to come; the worker is made by the first of them. On any thread.
void jobs_place(jobs *j, uint16_t stage);
// Whether the learning rate jumps where the run goes on from it; says so in `text` (RUN_NOTE
// bytes).
bool jobs_rate_jumps(const jobs *j, char *text);
// On the compute thread.
void jobs_run(jobs *j, const job *work, job_result *result);
// Where the last complete checkpoint lies, "" when there is none. Only while no job runs.
const char *jobs_saved_path(const jobs *j);
// Older checkpoints that were removed to make room for it. Only while no job runs.
uint32_t jobs_saved_removed(const jobs *j);
// Why the worker could not be made, or the last checkpoint not be written. Only while no job runs; BRAID_OK: no reason.
const braid_error *jobs_worker_error(const jobs *j);
const braid_error *jobs_save_error(const jobs *j);
// Whether the worker's error is that the text is not what it was: its state is whole.
bool jobs_text_lost(const jobs *j);

#endif
