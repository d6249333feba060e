// What the protocol must know of a run, made from its description.
#ifndef BRAID_NODE_PLAN_H
#define BRAID_NODE_PLAN_H

#include "base/err.h"
#include "protocol/peer.h"
#include "train/run.h"
#include "train/split.h"
#include "train/worker.h"

// Fills `out`, which borrows from `model` (the run's split). start_version and start_* are left 0: the leader's to choose.
void plan_make(const run_config *run, const braid_hash *description, const split *model, peer_run *out);
// Elements of the whole model.
uint64_t plan_parameters(const split *model);

// What a peer of this stage with room for `capacity` microbatches computes with.
void plan_stage_worker(const run_config *run, uint32_t number, uint32_t capacity, worker_config *out);

// How many microbatches a peer of this run may hold: what the user says, else what the description says, else 16, as far
// as `max_memory` (0: no cap) leaves room for in the largest stage; never more than an iteration has.
braid_err plan_capacity(const run_config *run, uint32_t wanted, uint64_t max_memory, bool data_peer, uint32_t *out, braid_error *error);
// Bytes that the largest stage it may get needs, with room for `capacity` microbatches (or for one,
// unless that number is `fixed`).
uint64_t plan_least_bytes(const run_config *run, uint32_t capacity, bool fixed, bool data_peer);

#endif
