// Joint plan for several data peers: all paths of all their units on a map of the run
// (mincost_map.c).
//
// Each unit crosses one relay of each stage and returns to its data peer; a relay takes at most its
// capacity. This is integer multi-commodity flow, which is NP-hard, but there are few units.
// Method: Lagrange multipliers for the relays' capacities by a subgradient method, then a
// large-neighbourhood search with simulated annealing. Every data peer has the same map and
// computes the same result.
//
//     multi_source_clear(w);
//     multi_source_add_peer(w, peer, capacity, incarnation, is_source), by rising peers;
//     multi_source_add_link(w, to, cost) for each of its links
//     hash = multi_source_arrange(w);  // of all that matters
//     if (multi_source_search(w)) ...
//
// Pure and deterministic: integers, no allocation, random numbers seeded by the map, ties broken by
// numbers. A map may hold anything: links that lead nowhere or backwards are ignored.
#ifndef BRAID_ROUTING_MULTI_SOURCE_H
#define BRAID_ROUTING_MULTI_SOURCE_H

#include "routing/core/router.h"

enum {
    MULTI_SOURCE_MAX_PEERS = 512 + ROUTER_MAX_SOURCES,
    MULTI_SOURCE_MAX_LINKS = 9216,
    MULTI_SOURCE_MAX_UNITS = 256,  // units of all data peers together
    MULTI_SOURCE_MAX_HOPS = 64,    // links of a path
    // links examined in a search on a map of MULTI_SOURCE_SMALL_MAP links, about 80 ms
    MULTI_SOURCE_EFFORT = 20000000,
    // more for each further link: 0.3 seconds with 400 relays
    MULTI_SOURCE_EFFORT_PER_LINK = 10000,
    MULTI_SOURCE_SMALL_MAP = 1000,
};

typedef struct multi_source multi_source;

// Bytes for multi_source_init, aligned to 8.
uint32_t multi_source_bytes(void);
multi_source *multi_source_init(void *memory, router_objective objective);

void multi_source_clear(multi_source *w);  // clears the map, not the active paths
// A data peer wants `capacity` units. `incarnation` changes if paths over the peer may have been
// interrupted. False: no room.
bool multi_source_add_peer(multi_source *w, router_peer peer, uint32_t capacity, uint32_t life, bool is_source);
// from the peer added last
bool multi_source_add_link(multi_source *w, router_peer to, int64_t cost);
uint64_t multi_source_arrange(multi_source *w);

// Searches for paths. False: not all units that the capacities allow have one, or there are too
// many units. The result is then empty.
bool multi_source_search(multi_source *w);
// After a search: the sum of costs, or the heaviest load with the bottleneck objective.
int64_t multi_source_value(const multi_source *w);
uint32_t multi_source_count(const multi_source *w);
router_peer multi_source_home(const multi_source *w, uint32_t way);
// The peers behind the data peer on the path, that data peer last. Returns their number.
uint32_t multi_source_path(const multi_source *w, uint32_t way, router_peer path[MULTI_SOURCE_MAX_HOPS]);

// Makes the paths found last the active ones. multi_source_active_value: their cost on the present
// map; -1: some lead nowhere or over a changed incarnation, not all units have one, or none are
// active.
void multi_source_activate(multi_source *w);
int64_t multi_source_active_value(multi_source *w);

#endif
