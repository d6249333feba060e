// Training in one process with the state in a file: weights, moments, sums and stashed inputs come into
// memory layer by layer (store/tier.h).
//
// All microbatches of an iteration pass through one layer before the next layer begins, forward and
// backward, while the next layer is read and the last one is written. The backward pass repeats each
// block's forward pass from its stashed input, or reads its activations (`stashes`). AdamW runs in a second pass over the file, because its
// clip needs the norm of all gradients. The bits are those of a worker that holds all state in memory.
//
// Until swap_apply, an iteration changes neither weights nor moments in the file.
#ifndef BRAID_TRAIN_SWAP_H
#define BRAID_TRAIN_SWAP_H

#include "store/io.h"
#include "train/checkpoint.h"
#include "train/data.h"
#include "train/optimizer.h"
#include "train/run.h"
#include "train/split.h"

typedef struct swap swap;

typedef struct swap_options {
    const char *directory;  // of the file
    uint64_t max_memory;    // of the whole process; 0: no limit
    uint64_t used_bytes;    // of memory, by the rest of the process; 0: as the system says
    uint64_t rate;          // limit of the file's transfers in bytes a second; 0: none
    bool naive;             // the baseline: one microbatch after another, each transfer waited for
    bool stashes;           // activations go to the file, too, and no forward pass is repeated
    block_file_faults faults;
} swap_options;

typedef struct swap_config {
    const swap_options *options;
    const run_config *run;
    braid_hash owner;    // of the file: the run's hash
    const split *split;  // of the whole model in one stage, borrowed
    const train_data *data;
    store_io_host host;
} swap_config;

// `pool` is borrowed. BRAID_LIMIT: max_memory is too small; the message has the required figure.
braid_err swap_new(const swap_config *config, tensor_pool *pool, swap **out, braid_error *error);
void swap_free(swap *s);  // NULL is allowed; removes the file

typedef struct swap_figures {
    uint64_t memory_bytes;  // of the process at most, as planned
    uint64_t file_bytes;
    uint32_t layers_at_once;
    bool direct;
    store_io_stats io;
} swap_figures;

swap_figures swap_measure(swap *s);

// The initial state: from the run's seed, or from a checkpoint of any split.
braid_err swap_init(swap *s, braid_error *error);
braid_err swap_load(swap *s, checkpoint *from, braid_error *error);

// Polled between steps; true ends the call early.
typedef struct swap_stop {
    void *context;
    bool (*asked)(void *context);
} swap_stop;

typedef struct swap_sum {
    double loss;
    uint64_t tokens;
    uint32_t counted;
    bool stopped;
} swap_sum;

// Gradients of all microbatches of an iteration; `norm2` is that of the averaged gradient.
braid_err swap_gradients(swap *s, uint64_t iteration, swap_stop stop, swap_sum *sum, double *norm2, braid_error *error);
// The optimizer step. After an error the state is between two iterations and cannot be saved.
braid_err swap_apply(swap *s, const train_step *step, braid_error *error);
// Loss of the first `count` held-out microbatches.
braid_err swap_held_out(swap *s, uint64_t iteration, uint32_t count, swap_stop stop, swap_sum *sum, braid_error *error);

// Blocks [first, first + count) of the whole model in the format of JOB_STATE_GET, into state_blob_bytes.
braid_err swap_state_get(swap *s, uint32_t first, uint32_t count, uint64_t version, void *out, braid_error *error);
// SHA-256 of the weights of each block.
braid_err swap_leaves(swap *s, braid_hash *out, braid_error *error);

#endif
