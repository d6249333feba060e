// The time of one iteration when every microbatch's path is known: forward through the stages, to
// its data peer for the loss, and backward along the same peers, or along replacements.
//
// 1. A peer computes one thing at a time: gradients before activations, then the longest wait, then
// the lower number.
// 2. A relay begins a forward pass only while it holds fewer microbatches than its capacity. It
// holds one until its backward pass is done; later ones wait. (No deadlock: room is taken in the
// order of the stages.)
// 3. A transfer occupies its link for `transfer_ns`; the last bit arrives `latency_ns` later.
// Transfers of a link are served in order of arrival. Sending disturbs neither computing nor
// receiving.
// 4. All microbatches are ready at their data peers at time 0. Nothing is sent to a peer before it
// is there.
// 5. Another relay may replace one on the backward pass. It has all it needs once the gradient
// arrives and there is room; the room of the first one is free only when the gradient has been sent
// on.
//
// Deterministic: integers only, and every tie is broken by the microbatch's number.
#ifndef BRAID_BENCH_TRAINING_PIPELINE_H
#define BRAID_BENCH_TRAINING_PIPELINE_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

enum { PIPELINE_MAX_PEERS = 1024, PIPELINE_MAX_MICROBATCHES = 4096, PIPELINE_MAX_LENGTH = 128 };
// limit of one computation, transfer or latency: 13 days
#define PIPELINE_MAX_NS ((int64_t)1 << 50)

typedef struct pipeline_peer {
    int64_t forward_ns, backward_ns;  // one microbatch of its stage
    int64_t home_ns;                  // a data peer's: head and loss, forward and backward
    uint32_t capacity;                // microbatches held at once; 0: any number
    int64_t from_ns;                  // time of its arrival
} pipeline_peer;

// The resource that the transfers of one peer share.
typedef enum pipeline_link {
    PIPELINE_PAIR,  // nothing: each ordered pair of peers has a link of its own
    PIPELINE_PEER   // one outgoing link to all receivers
} pipeline_link;

// All borrowed. `back` and `passed_ns` may be NULL.
typedef struct pipeline {
    uint32_t peers, microbatches, length;  // `length`: peers on a path, the data peer at both ends
    pipeline_link link;
    const pipeline_peer *peer;
    const int64_t *latency_ns, *transfer_ns;  // [from][to]
    // [microbatches][length]; a relay is at one place of all paths
    const uint32_t *path;
    // [microbatches][length], peers of the backward pass; NULL: the same
    const uint32_t *back;
    // [microbatches][2 length], output: when each peer had sent the tensor on, forward at its place
    // and backward at 2 (length - 1) minus its place
    int64_t *passed_ns;
} pipeline;

// `done_ns` [microbatches]: when the last backward pass of each ended; `busy_ns` [peers]: time
// spent computing. Both are the caller's and may be NULL. Returns the time of the iteration in
// `*iteration_ns`, the latest of `done_ns`; INT64_MAX: replacements wait for room for ever.
braid_err pipeline_run(const pipeline *p, int64_t *iteration_ns, int64_t *done_ns, int64_t *busy_ns,
                       braid_error *error);

// The same step by step, for a planner that changes paths meanwhile. `path` and `back` are
// borrowed, and their unsettled entries may change between two calls. A microbatch on its way to a
// dead peer waits for ever.
typedef struct pipeline_state pipeline_state;

braid_err pipeline_open(const pipeline *p, pipeline_state **out, braid_error *error);
void pipeline_close(pipeline_state *s);
// Both of the same pipeline.
void pipeline_copy(pipeline_state *to, const pipeline_state *from);
// Continues up to events at `until_ns`; returns the time then: `until_ns`, or earlier when all is
// done.
int64_t pipeline_play(pipeline_state *s, int64_t until_ns);
bool pipeline_is_done(const pipeline_state *s);
// end of its last backward pass, if all is done
int64_t pipeline_done_ns(const pipeline_state *s, uint32_t microbatch);
// A path is settled up to the peer that holds the microbatch, or that it is being sent to. Visits:
// 0 .. length - 1 forward, then backward to 2 (length - 1).
bool pipeline_is_settled(const pipeline_state *s, uint32_t microbatch, uint32_t visit);
// The visit before which an activation waits for room, or to which it is on its way, while its
// sender still has it; 0: none. After a recall it waits for a link at the sender again, and its
// path may change.
uint32_t pipeline_recallable(const pipeline_state *s, uint32_t microbatch);
void pipeline_recall(pipeline_state *s, uint32_t microbatch);
// A peer dies. Microbatches at it, or on its links, continue from the last living peer before it
// that had them.
void pipeline_lose(pipeline_state *s, uint32_t peer);

#endif
