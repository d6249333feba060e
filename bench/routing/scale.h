// Large swarms for routing: relays with places on a map, each of which knows a bounded number of
// others.
#ifndef BRAID_BENCH_ROUTING_SCALE_H
#define BRAID_BENCH_ROUTING_SCALE_H

#include "bench/routing/routing.h"

enum {
    SCALE_STAGES = 8,
    // the data peer knows a whole stage, and a router at most ROUTER_MAX_NEIGHBOURS
    SCALE_MAX_RELAYS = 16000,
    SCALE_SIDE = 100,             // side of the square map, in units of cost
    SCALE_MAX_ACCESS = 20,        // a peer's own line costs 1 .. this
    SCALE_MAX_NEIGHBOURS = 32,    // neighbours of a relay on one side
};

// Relays in SCALE_STAGES equal stages, capacity 1 or 2 (the floor of U(1,3)). A link costs the
// distance of its ends and half of the access cost of each. Between two stages half of a relay's
// links (`neighbours` on each side at most) are the cheapest that suit both ends, the others are
// random: the outcome of a gossip that keeps the cheapest and some random peers. One data peer
// knows all of the first and the last stage and wants to send `demand` percent of the narrowest
// stage's capacity.
typedef struct scale_spec {
    uint32_t relays, neighbours, demand;
    uint64_t seed;
} scale_spec;

braid_err scale_make(const scale_spec *spec, routing_instance *out, braid_error *error);

#endif
