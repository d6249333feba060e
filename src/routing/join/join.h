// The stage of a joining peer. Two rules:
// - the published one (GWTF, section V-B): the largest candidates go to the most used stages;
// - by gain: each stage is tried on the map of the run, and the one with the best result is taken.
//
// A candidate is known by its capacity and by its probes: the cost of its links to at most
// JOIN_PROBES peers of each stage. Links that were not probed do not exist for these functions.
//
// Pure and deterministic: integers, no allocation, ties are broken by numbers.
#ifndef BRAID_ROUTING_JOIN_H
#define BRAID_ROUTING_JOIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    JOIN_MAX_STAGES = 64,
    JOIN_MAX_CANDIDATES = 64,
    JOIN_PROBES = 16,  // probed peers of one stage
};

// --- the published rule

typedef struct join_stage {
    uint64_t flows;     // microbatches that pass through the stage
    uint64_t capacity;  // of its members together
} join_stage;

// Writes the stages 1 .. stages - 1 into `order`, the most used first. A stage without capacity is
// before all others, then the ratio of flows to capacity decides, then the lower number.
void join_rank_stages(const join_stage *stage, uint16_t stages, uint16_t *order);
// Assigns the largest candidate to the most used stage, the second to the second, and so on. With
// more candidates than stages the rest gets 0 and waits for the next period.
void join_assign(const join_stage *stage, uint16_t stages, const uint32_t *capacity, uint32_t candidates,
                 uint16_t *assigned);

// --- by the cost of the flow

typedef struct join_peer {
    uint16_t stage;     // 0: the data peer
    uint32_t capacity;  // of the data peer: the units that it wants to send
} join_peer;

// The run as the leader knows it: peer 0 is the data peer.
typedef struct join_map {
    uint16_t stages;  // that of the data peer included
    uint32_t peers;
    const join_peer *peer;
    // Cost of the link between two peers of adjacent stages. Negative: unknown.
    int64_t (*cost)(const void *context, uint32_t from, uint32_t to);
    const void *context;
} join_map;

typedef struct join_probe {
    uint32_t peer;
    int64_t cost;
} join_probe;

typedef struct join_candidate {
    uint32_t capacity, probes;
    const join_probe *probe;
} join_candidate;

typedef struct join_flow {
    uint32_t units;
    int64_t cost;
} join_flow;

// Scratch memory of the functions below, aligned to 8, for maps of so many peers and links.
size_t join_flow_bytes(uint32_t peers, uint32_t links);
// The cheapest flow on the map, with the candidate as a member of `stage`; a null candidate: without.
join_flow join_flow_with(const join_map *map, const join_candidate *candidate, uint16_t stage, void *memory,
                         uint32_t links);
// More units are better, then a lower cost.
bool join_flow_is_better(const join_flow *a, const join_flow *b);

typedef struct join_choice {
    uint32_t candidate;
    uint16_t stage;  // 0: no stage
    join_flow flow;
} join_choice;

// The best of all candidates in all stages.
join_choice join_choose(const join_map *map, const join_candidate *candidate, uint32_t candidates, void *memory,
                        uint32_t links);

#endif
