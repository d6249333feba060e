// Which peer of the next stage takes a microbatch that has no unit of flow (router.h): what a peer knows without asking.
//
// What a peer knows of the next stage comes from measured traffic (ACCEPT delays, COMPLETE's computing time, CAN TAKE,
// heartbeats). The cheapest live peer that has a slot. Pure: time and randomness are passed in.
#ifndef BRAID_ROUTING_FLOW_H
#define BRAID_ROUTING_FLOW_H

#include <stdbool.h>
#include <stdint.h>

enum { FLOW_MAX_PEERS = 64 };  // known peers of the next stage; more are not looked at

typedef struct flow_peer {
    uint64_t member;      // 0: unused
    bool reachable;       // its link is up
    bool can_take;        // announced for the present iteration
    uint32_t free_slots;  // what it said, less what was sent since
    uint32_t queued;      // microbatches waiting or sent since
    uint64_t forward_ns;  // its measured time for one forward
    uint64_t link_ns;     // smoothed time from FORWARD to ACCEPT
} flow_peer;

typedef struct flow {
    uint32_t count;
    flow_peer peer[FLOW_MAX_PEERS];
} flow;

void flow_init(flow *f);
// Adds a peer or returns the one it has; NULL when the table is full.
flow_peer *flow_add(flow *f, uint64_t member);
flow_peer *flow_find(flow *f, uint64_t member);
// The same, to look at.
const flow_peer *flow_known(const flow *f, uint64_t member);
void flow_drop(flow *f, uint64_t member);
// Expected time until a microbatch sent now would be computed there.
uint64_t flow_cost_ns(const flow_peer *peer);
// Time until what waits there and one more would be computed.
uint64_t flow_wait_ns(const flow_peer *peer);
// It is reachable, has a free slot, and is not in `tried`.
bool flow_usable(const flow_peer *peer, const uint64_t *tried, uint32_t tried_count);
// The cheapest reachable peer with a free slot that is not in `tried`; equal costs are told apart by `salt`. 0: none now.
uint64_t flow_pick(const flow *f, const uint64_t *tried, uint32_t tried_count, uint64_t salt);
// A microbatch was sent there.
void flow_sent(flow *f, uint64_t member);

#endif
