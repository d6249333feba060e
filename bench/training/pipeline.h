// The time of one iteration when every microbatch's path is known: forward through the stages, home for the loss,
// backward along the same peers, or others who stand in.
//
//   1. A peer computes one thing at a time: gradients before activations, then what waited longest, then the lower number.
//   2. A relay begins a forward pass only while it holds fewer microbatches than its capacity; it holds one until its
//      backward pass is done. What arrives before that waits. (No deadlock: room is taken in the order of the stages.)
//   3. A transfer occupies its link for `transfer_ns`; the last bit arrives `latency_ns` later. Transfers of a link go one
//      after the other, first come, first served. Sending disturbs neither computing nor receiving.
//   4. All microbatches are ready at their data peers at time 0. Nothing is sent to a peer before it is there.
//   5. Another relay may stand in on the way back. It has what it needs as soon as the gradient comes and there is room; the room of the first one
//      is free only when the gradient has gone on.
//
// Deterministic: integers only, every choice ends at the microbatch's number.
#ifndef BRAID_BENCH_TRAINING_PIPELINE_H
#define BRAID_BENCH_TRAINING_PIPELINE_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

enum { PIPELINE_MAX_PEERS = 1024, PIPELINE_MAX_MICROBATCHES = 4096, PIPELINE_MAX_LENGTH = 128 };
#define PIPELINE_MAX_NS ((int64_t)1 << 50)  // of one computation, transfer or latency: 13 days

typedef struct pipeline_peer {
    int64_t forward_ns, backward_ns;  // of its stage, one microbatch
    int64_t home_ns;                  // a data peer's: head and loss, forward and backward
    uint32_t capacity;                // microbatches held at once; 0: any number
    int64_t from_ns;                  // it is there since
} pipeline_peer;

// What the transfers of one peer share.
typedef enum pipeline_link {
    PIPELINE_PAIR,  // nothing: each ordered pair of peers has a link of its own
    PIPELINE_PEER   // one link out, whoever it sends to
} pipeline_link;

// All borrowed. `back` and `passed_ns` may be NULL.
typedef struct pipeline {
    uint32_t peers, microbatches, length;  // `length`: peers on a path, the data peer at both ends
    pipeline_link link;
    const pipeline_peer *peer;
    const int64_t *latency_ns, *transfer_ns;  // [from][to]
    const uint32_t *path;                     // [microbatches][length]; a relay stands in one place of all paths
    const uint32_t *back;                     // [microbatches][length], who is there on the way back; NULL: the same
    int64_t *passed_ns;                       // [microbatches][2 length], found: when each had passed the tensor on, forward in its place and backward
                                              // in 2 (length - 1) minus its place
} pipeline;

// `done_ns` [microbatches]: when the last backward pass of each ended; `busy_ns` [peers]: time spent computing. Both the
// caller's, either may be NULL. Returns the time of the iteration in `*iteration_ns`: the latest of `done_ns`; INT64_MAX: relays that stand in wait
// for room for ever.
braid_err pipeline_run(const pipeline *p, int64_t *iteration_ns, int64_t *done_ns, int64_t *busy_ns,
                       braid_error *error);

// The same by and by, by who may change his mind on the way: ways that are not settled may change between two calls, as `path` and `back` are
// borrowed. Whoever a way leads to and who is gone is waited for, for ever.
typedef struct pipeline_state pipeline_state;

braid_err pipeline_open(const pipeline *p, pipeline_state **out, braid_error *error);
void pipeline_close(pipeline_state *s);
// Both of the same pipeline.
void pipeline_copy(pipeline_state *to, const pipeline_state *from);
// Plays on, up to what happens at `until_ns`; returns the time that it is then: `until_ns`, or earlier when all is done.
int64_t pipeline_play(pipeline_state *s, int64_t until_ns);
bool pipeline_is_done(const pipeline_state *s);
int64_t pipeline_done_ns(const pipeline_state *s, uint32_t microbatch);  // when its last backward pass ended, if all is done
// A way is settled up to where the microbatch is, or is being sent. Visits: 0 .. length - 1 forward, then backward to 2 (length - 1).
bool pipeline_is_settled(const pipeline_state *s, uint32_t microbatch, uint32_t visit);
// The visit before which an activation waits for room, or to which it is on its way, while who sent it still has it; 0: it is not so. Recalled,
// it waits for a line there again, and its way may go elsewhere.
uint32_t pipeline_recallable(const pipeline_state *s, uint32_t microbatch);
void pipeline_recall(pipeline_state *s, uint32_t microbatch);
// That peer is gone now. What was there, or on its lines, goes on from the last one before it who is not gone, and had it.
void pipeline_lose(pipeline_state *s, uint32_t peer);

#endif
