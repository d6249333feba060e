// The ways of several data peers' units, planned as a whole by whoever has a map of the run's relays and links (braid_map.c).
//
// Each unit of a data peer goes over one relay of each stage and home to that data peer; a relay takes at most its capacity. To send
// as many units as fit at the least sum of costs is integer multi-commodity flow: hard in general (with one data peer it is not, see
// lone.h), but here there are few units. Every data peer has the same map, and finds the same ways from it without asking the others.
//
//     ways_clear(w);
//     ways_peer(w, peer, capacity, life, is_source), and ways_link(w, to, cost) for each of its links;  // by rising peers
//     hash = ways_arrange(w);  // of all that counts
//     if (ways_search(w)) ...
//
// Pure, and the same everywhere: integers, no allocation, random numbers from the map, every choice ends at a number. A map may say
// anything: links that lead nowhere, or back, count for nothing.
#ifndef BRAID_ROUTING_WAYS_H
#define BRAID_ROUTING_WAYS_H

#include "routing/core/router.h"

enum {
    MULTI_SOURCE_MAX_PEERS = 512 + ROUTER_MAX_SOURCES,
    MULTI_SOURCE_MAX_LINKS = 9216,
    MULTI_SOURCE_MAX_UNITS = 256,    // of all data peers
    MULTI_SOURCE_MAX_HOPS = 64,      // links of a way
    MULTI_SOURCE_EFFORT = 20000000,  // links looked at in a search on a map of WAYS_SMALL links, some 80 milliseconds ...
    MULTI_SOURCE_EFFORT_PER_LINK = 10000,       // ... and so many more for each link beyond that: 0.3 seconds with 400 relays
    MULTI_SOURCE_SMALL_MAP = 1000,
};

typedef struct multi_source multi_source;

// Of the memory that ways_init needs, aligned to 8.
uint32_t multi_source_bytes(void);
multi_source *multi_source_init(void *memory, router_objective objective);

void multi_source_clear(multi_source *w);  // the map, not what is in force
// A data peer wants `capacity` units. `life`: another one if what went on from it may be no more. False: there is no room.
bool multi_source_add_peer(multi_source *w, router_peer peer, uint32_t capacity, uint32_t life, bool is_source);
bool multi_source_add_link(multi_source *w, router_peer to, int64_t cost);  // from the peer that was added last
uint64_t multi_source_arrange(multi_source *w);

// Looks for the ways. False: not all units that relays have room for find one, or there are too many; then none are found.
bool multi_source_search(multi_source *w);
// After a search: the sum of costs, or with ROUTER_WORST the heaviest load of a link.
int64_t multi_source_value(const multi_source *w);
uint32_t multi_source_count(const multi_source *w);
router_peer multi_source_home(const multi_source *w, uint32_t way);
// The peers after the data peer that it leaves, that data peer last; returns how many.
uint32_t multi_source_path(const multi_source *w, uint32_t way, router_peer path[MULTI_SOURCE_MAX_HOPS]);

// The ways that were found last are in force from now on. What they are worth on the map that there is; -1: some lead nowhere, or
// over a peer with another life, not all units have one, or none are in force.
void multi_source_activate(multi_source *w);
int64_t multi_source_active_value(multi_source *w);

#endif
