// The costs of each layer of a run on a machine: time, bytes, and the rates of its tiers of memory.
// Measured once, kept as a file, and read by planning (ATOM, III-D: its nodes' m, t^f, t^b, t^u).
#ifndef BRAID_TRAIN_PROFILE_H
#define BRAID_TRAIN_PROFILE_H

#include "train/run.h"

enum { PROFILE_MAX_ITEMS = 130 };  // SWAP_MAX_ITEMS

// The embedding, a layer, or the final norm and head. Seconds of one microbatch.
typedef struct profile_item {
    double forward_s, backward_s;  // backward: with the recomputation of the layer
    uint64_t parameters;
} profile_item;

typedef struct train_profile {
    uint32_t items;  // layers + 2: the ends are first and last
    profile_item item[PROFILE_MAX_ITEMS];
    uint32_t sequences, tokens, threads;
    uint64_t activation_bytes;           // at a boundary between layers, of one microbatch
    uint64_t work_bytes;                 // the largest stash and work area of a layer
    double memory_bytes_s;               // copying in memory
    double read_bytes_s, write_bytes_s;  // of a file in the state directory
    bool direct;                         // measured without the page cache
} train_profile;

// Runs each kind of layer alone, `reps` times, and takes the median. Layers of the same shape are
// measured once. `directory`: where the state's file would be; NULL: its rates stay 0.
braid_err profile_measure(const run_config *run, unsigned threads, uint32_t reps, const char *directory,
                          train_profile *out, braid_error *error);

braid_err profile_write(const train_profile *p, const char *path, braid_error *error);
// Refuses a profile of another shape of model or microbatch than the run's.
braid_err profile_read(const char *path, const run_config *run, train_profile *out, braid_error *error);

#endif
