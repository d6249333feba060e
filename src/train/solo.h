// `train --solo`: the whole model in one process, with the same jobs and arithmetic as a swarm, so
// that every swarm must reach its weights.
#ifndef BRAID_TRAIN_SOLO_H
#define BRAID_TRAIN_SOLO_H

#include "base/err.h"
#include "base/id.h"
#include "braid/job.h"
#include "tensor/pool.h"
#include "train/data.h"
#include "train/files.h"
#include "train/run.h"

#include <stdbool.h>
#include <stdint.h>

typedef enum solo_event_kind {
    SOLO_STARTED,     // iteration (completed before), of, parameters, tokens (per iteration)
    // iteration (completed), of, loss (mean), tokens, microbatches (counted), tokens_per_second,
    // norm, ...
    SOLO_ITERATION,
    // iteration (completed), loss, tokens: before the first of every eval_every iterations, and at
    // the end
    SOLO_EVAL,
    SOLO_CHECKPOINT,  // iteration, path, failed, text
    SOLO_NOTE,        // text
} solo_event_kind;

typedef struct solo_event {
    solo_event_kind kind;
    uint64_t iteration, of, tokens, parameters;
    uint32_t microbatches;
    double loss, norm, learning_rate, tokens_per_second;
    bool skip, failed;
    const char *text, *path;
} solo_event;

// Requests of the host, polled between microbatches. A later value includes the earlier ones,
// except SOLO_SAVE.
typedef enum solo_wish {
    SOLO_GO_ON,
    SOLO_SAVE,    // saves a checkpoint of the current state and continues
    SOLO_FINISH,  // finishes the iteration, saves, ends
    SOLO_DROP,    // drops the iteration, saves the state before it, ends
    SOLO_ABANDON,  // ends without saving
} solo_wish;

typedef struct solo_config {
    const run_config *run;
    const train_data *data;
    unsigned threads;
    uint64_t usable_bytes;  // memory available to the process; 0: unknown
    const char *resume;  // path of a checkpoint; NULL: starts from the seed
    const char *model;   // checkpoint of the model that the run starts from, unless it resumes (run_has_model); NULL: the seed
    const struct swap_options *swap;  // state in a file (swap.h); NULL: in memory
    bool continues;      // starts from the newest checkpoint of the run in its directory, else from `resume`
    bool anew;           // moves newer checkpoints in its directory aside
    uint64_t until;      // stops after this many iterations; 0: those of the run
    void *context;
    void (*tell)(void *context, const solo_event *event);
    solo_wish (*wish)(void *context);  // NULL: no requests
    // For measurements; NULL: none.
    const tensor_watch *watch;
    void (*job_done)(void *context, job_kind kind, uint64_t cost_ns);
} solo_config;

typedef struct solo_result {
    uint64_t version, until;    // iterations completed, and in total
    braid_hash weights;         // split_weights_hash
    double loss;                // mean of the last iteration; NAN when there was none
    uint64_t tokens;            // trained on by this process
    bool begun;                 // SOLO_STARTED was reported
    bool stopped, abandoned;    // ended early on request; abandoned: without saving
    bool diverged;              // why solo_run failed: no finite gradient for too long
    bool save_failed;           // the last checkpoint could not be written
    bool nothing;               // the checkpoint already had all iterations: nothing was computed
    char path[FILES_MAX_PATH];  // the last checkpoint; "": none
} solo_result;

// After an error with intact weights (a changed text, no memory) the newest state is still saved.
braid_err solo_run(const solo_config *config, solo_result *out, braid_error *error);

#endif
