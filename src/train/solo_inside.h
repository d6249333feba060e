// Private to the files of training in one process.
#ifndef BRAID_TRAIN_SOLO_INSIDE_H
#define BRAID_TRAIN_SOLO_INSIDE_H

#include "train/checkpoint.h"
#include "train/optimizer.h"
#include "train/solo.h"
#include "train/split.h"
#include "train/swap.h"
#include "train/worker.h"

enum { SOLO_BLOBS = 3 };

typedef struct solo_blob {
    void *data;
    uint64_t bytes, capacity;
    bool used;
} solo_blob;

typedef struct solo {
    solo_config config;
    const run_config *run;
    tensor_pool *pool;
    worker *worker;  // one of these two
    swap *swap;
    split split;
    braid_hash run_hash;
    solo_blob blobs[SOLO_BLOBS];  // an activation, its gradient, and a spare
    braid_hash *leaves;           // [split.block_count]
    uint64_t version, until, saved;
    solo_wish wish;  // the strongest request to end so far
    // consecutive iterations without a finite gradient, up to now and one iteration earlier
    uint32_t skipped, skipped_before;
    bool loaded;                  // the state came from a checkpoint
    int lock;                     // of the checkpoint directory; -1: none
    char from[FILES_MAX_PATH];    // the checkpoint that the run continues; "": none
    char newest[FILES_MAX_PATH];  // that checkpoint, when it was found in the run's own directory
    solo_result *result;
} solo;

// The totals of one iteration.
typedef struct solo_sum {
    double loss;
    uint64_t tokens;
    uint32_t counted;
    bool stopped;  // on request, before it was complete
} solo_sum;

static inline bool solo_saves(const solo *s) { return s->run->checkpoint[0] != 0; }
void solo_tell(const solo *s, const solo_event *event);
void solo_note(void *solo, const char *text);
// Polls the host's requests; true: the iteration is dropped.
bool solo_is_dropped(void *solo);

// solo_jobs.c: the state in memory
const void *solo_blob_read(void *solo, blob_id blob, uint64_t *bytes);
void *solo_blob_write(void *solo, uint64_t bytes, blob_id *blob);
void solo_blob_release(solo *s, blob_id blob);
job_result solo_job(solo *s, const job *work);
// The averaged gradient of an iteration, and its squared norm.
braid_err solo_worker_gradients(solo *s, solo_sum *sum, double *norm2, braid_error *error);
braid_err solo_worker_held_out(solo *s, solo_sum *sum, braid_error *error);

// solo_swap.c: the state in a file
braid_err solo_open_swap(solo *s, braid_error *error);
braid_err solo_swapped_gradients(solo *s, solo_sum *sum, double *norm2, braid_error *error);
braid_err solo_swapped_held_out(solo *s, solo_sum *sum, braid_error *error);
// JOB_STATE_GET's blob.
braid_err solo_swapped_state(solo *s, uint32_t first, uint32_t count, blob_id *out, braid_error *error);
void solo_note_transfers(solo *s);

// solo_save.c
void solo_save(solo *s);

#endif
