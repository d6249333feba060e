// `train --solo`: the whole model in one process, by the same jobs and the same mathematics as a swarm, so that its weights
// are what every swarm's must be.
#ifndef BRAID_TRAIN_SOLO_H
#define BRAID_TRAIN_SOLO_H

#include "base/err.h"
#include "base/id.h"
#include "protocol/job.h"
#include "tensor/pool.h"
#include "train/data.h"
#include "train/files.h"
#include "train/run.h"

#include <stdbool.h>
#include <stdint.h>

typedef enum solo_event_kind {
    SOLO_STARTED,     // iteration (done so far), of, parameters, tokens (of one iteration)
    SOLO_ITERATION,   // iteration (done), of, loss (mean), tokens, microbatches (counted), tokens_per_second, norm, ...
    SOLO_EVAL,        // iteration (done), loss, tokens: before the first of every eval_every iterations, and at the end
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

// What the host wishes, asked between microbatches; a later one includes those before it but
// SOLO_SAVE.
typedef enum solo_wish {
    SOLO_GO_ON,
    SOLO_SAVE,    // a checkpoint of the state as it is, and go on
    SOLO_FINISH,  // finish the iteration, save, end
    SOLO_DROP,    // drop the iteration: save the state before it, end
    SOLO_ABANDON, // end without saving
} solo_wish;

typedef struct solo_config {
    const run_config *run;
    const train_data *data;
    unsigned threads;
    uint64_t usable_bytes;  // memory that the process may use; 0: not known
    const char *resume;  // a checkpoint, NULL: from the seed
    bool anew;           // newer checkpoints in its directory are set aside
    uint64_t until;      // stop when this many iterations are done, 0: the run's
    void *context;
    void (*tell)(void *context, const solo_event *event);
    solo_wish (*wish)(void *context);  // NULL: go on
    // For who measures; NULL: nobody.
    const tensor_watch *watch;
    void (*job_done)(void *context, job_kind kind, uint64_t cost_ns);
} solo_config;

typedef struct solo_result {
    uint64_t version, until;    // iterations done, and to be done
    braid_hash weights;         // split_weights_hash
    double loss;                // mean of the last iteration, NAN when there was none
    uint64_t tokens;            // trained on in this process
    bool begun;                 // SOLO_STARTED was told
    bool stopped, abandoned;    // before the end, as wished; abandoned: without saving
    bool diverged;              // the reason why solo_run failed: no gradient was finite for too long
    bool save_failed;           // the last checkpoint could not be written
    bool nothing;               // the checkpoint had as many iterations as are wanted: nothing was computed
    char path[FILES_MAX_PATH];  // the last checkpoint, "": none
} solo_result;

// After an error that leaves the weights whole (a text that has changed, no memory) the newest
// state is saved all the same.
braid_err solo_run(const solo_config *config, solo_result *out, braid_error *error);

#endif
