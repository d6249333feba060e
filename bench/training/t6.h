// GWTF's Table VI: one small swarm spread over the world, arranged into stages by different
// methods, and the time that its microbatches take. docs/results/t6.md says which values are from
// the paper, and which are assumed.
#ifndef BRAID_BENCH_TRAINING_T6_H
#define BRAID_BENCH_TRAINING_T6_H

#include "bench/baselines/dtfm.h"
#include "bench/training/pipeline.h"
#include "bench/routing/routing.h"

enum {
    T6_DATA = 3,
    T6_STAGES = 6,  // including the data peers' stage
    T6_WIDTH = 3,   // peers in a stage
    T6_PEERS = T6_STAGES * T6_WIDTH,
    T6_LENGTH = T6_STAGES + 1,  // peers on a path
    T6_MAX_MICROBATCHES = 64    // microbatches of one data peer
};

typedef struct t6_settings {
    uint32_t microbatches;  // microbatches of each data peer, 1 .. T6_MAX_MICROBATCHES
    uint32_t capacity;      // capacity of each relay, at least `microbatches`
    pipeline_link link;     // resource that transfers share
    // an iteration ends with the exchange of weights, and DT-FM's score counts it
    bool weights;
} t6_settings;

// Peers 0 .. T6_DATA - 1 are the data peers; tables are [T6_PEERS][T6_PEERS], the same in both
// directions.
typedef struct t6_world {
    uint64_t seed;
    t6_settings settings;
    uint32_t place[T6_PEERS];
    char name[T6_PEERS][ROUTING_NAME];
    pipeline_peer peer[T6_PEERS];
    int64_t latency_ns[T6_PEERS * T6_PEERS], transfer_ns[T6_PEERS * T6_PEERS];
    int64_t cost[T6_PEERS * T6_PEERS];      // d(i, j), 1 / ROUTING_SCALE seconds
    int64_t exchange[T6_PEERS * T6_PEERS];  // cost of weights inside a stage, the same unit
} t6_world;

// Places are drawn from the seed and the peers' names.
void t6_world_make(uint64_t seed, const t6_settings *settings, t6_world *out);

// --- arrangements: stage[i] of each peer, 0 for the data peers

// GWTF's rule for joiners: the stage with the least capacity for its use. All stages have the same
// capacity, so relays in any order fill the stages in turn.
void t6_arrange_joined(uint32_t *stage);
// DT-FM's search, and its score there.
braid_err t6_arrange_dtfm(const t6_world *world, uint32_t *stage, plan_dtfm_answer *answer, braid_error *error);

// The joined arrangement after relays have traded places to save link costs. Returns the number of
// trades.
uint32_t t6_arrange_traded(const t6_world *world, uint32_t *stage);

// The instance for routing, with costs d(i, j). of[i]: the world's number of the instance's peer i.
braid_err t6_instance(const t6_world *world, const uint32_t *stage, routing_instance *out, uint32_t *of,
                      braid_error *error);
// DT-FM's pipelines as a flow, [T6_DATA][links]: every data peer sends all its microbatches through
// one of them.
braid_err t6_dtfm_flow(const t6_world *world, const uint32_t *stage, const routing_instance *instance,
                       const uint32_t *of, int64_t *flow, braid_error *error);

// --- time

typedef struct t6_time {
    uint32_t microbatches;  // completed ones
    int64_t pipeline_ns, weights_ns, iteration_ns;
} t6_time;

// The time of one iteration with the microbatches on the paths of `flow`.
braid_err t6_time_of(const t6_world *world, const uint32_t *stage, const routing_instance *instance, const uint32_t *of,
                     const int64_t *flow, t6_time *out, braid_error *error);

#endif
