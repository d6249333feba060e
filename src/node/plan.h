// The protocol's parameters of a run, made from its description.
#ifndef BRAID_NODE_PLAN_H
#define BRAID_NODE_PLAN_H

#include "base/err.h"
#include "braid/peer.h"
#include "train/run.h"
#include "train/split.h"
#include "train/worker.h"

// Fills `out`, which borrows from `model` (the run's split). start_version and start_* stay 0: the
// leader sets them.
void plan_make(const run_config *run, const braid_hash *description, const split *model, peer_run *out);
// Number of parameters of the whole model.
uint64_t plan_parameters(const split *model);

// Fills the worker configuration of a peer of stage `number` that holds `capacity` microbatches.
void plan_stage_worker(const run_config *run, uint32_t number, uint32_t capacity, worker_config *out);

// Computes how many microbatches a peer may hold: the user's number, else the description's, else
// 16. `max_memory` (0: no cap) limits it by the largest stage. It never exceeds the microbatches of
// an iteration. `on_disk`: weights and moments lie in a file, not in that memory.
braid_err plan_capacity(const run_config *run, uint32_t wanted, uint64_t max_memory, bool data_peer, bool on_disk, uint32_t *out, braid_error *error);
// Bytes that the largest possible stage needs, with room for `capacity` microbatches (for one
// unless that number is `fixed`).
uint64_t plan_least_bytes(const run_config *run, uint32_t capacity, bool fixed, bool data_peer, bool on_disk);

// The memory of a whole-model peer, divided among its processes: `own` for the first one (stage 0 of
// a data peer, stage 1 of a relay), `each` for those of the other stages. Each gets what its stage
// needs for one microbatch, and an equal share of the rest.
braid_err plan_whole_memory(const run_config *run, uint32_t wanted, uint64_t max_memory, bool data_peer, bool on_disk,
                            uint64_t *own, uint64_t *each, braid_error *error);

#endif
