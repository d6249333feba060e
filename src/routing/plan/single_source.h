// The ways of a lone data peer's units, planned as a whole from a map of the run's relays and links (braid_map.c).
//
// With one data peer that is a min-cost flow, so the plan is exact, and quick in large swarms, too; with several see ways.h.
//
//     lone_clear(w, home, units);
//     lone_peer(w, peer, capacity), and lone_link_to(w, to, cost) for each of its links;  // by rising peers, `home` among them
//     lone_solve(w);
//     while ((hops = lone_next(w, path)) > 0) ...
//
// Later, when it is known what goes where by then, the cycles that save something are found one by one (lone_cycle.c):
//
//     lone_clear, lone_peer, lone_link_to, and lone_carries for each link that carries something;
//     while ((length = lone_cycle(w, slack, cycle)) > 0) ...
//
// Pure, and the same everywhere: integers, no allocation, every choice ends at a number. A map may say anything: links that lead nowhere
// count for nothing.
#ifndef BRAID_ROUTING_LONE_H
#define BRAID_ROUTING_LONE_H

#include "routing/core/router.h"

#include <stddef.h>

enum { SINGLE_SOURCE_MAX_HOPS = 64 };  // links of a way

typedef struct single_source single_source;

// Of the memory that lone_init needs, aligned to 8, for so many peers and links.
size_t single_source_bytes(uint32_t peers, uint32_t links);
single_source *single_source_init(void *memory, uint32_t peers, uint32_t links);

// `home` wants so many units to leave it and come back.
void single_source_clear(single_source *w, router_peer home, uint32_t units);
bool single_source_add_peer(single_source *w, router_peer peer, uint32_t capacity);  // false: there is no room
bool single_source_add_link(single_source *w, router_peer to, int64_t cost);         // from the peer that was added last
// Looks for the ways: of as many units as can be, at the least sum of costs. Returns how many units have one.
uint32_t single_source_solve(single_source *w);
int64_t single_source_cost(const single_source *w);
// Takes the next unit: the peers behind `home` on its way, `home` last. How many they are; 0: no unit is left. One whose way is longer
// than that is left out: it has to look for another one.
uint32_t single_source_next(single_source *w, router_peer path[SINGLE_SOURCE_MAX_HOPS]);

void single_source_set_load(single_source *w, uint32_t units);  // the link that was added last
// Finds a cycle of halves, as a token goes it (braid_launch), that saves more than `slack` for each link on it, or with which one unit more
// has a way. Those on it are on none that is found later: all can be gone at the same time. It begins, and ends, at that one of them who is nearest
// to `home`. Returns its length; 0: there is none.
uint32_t single_source_cycle(single_source *w, int64_t slack, router_half cycle[ROUTER_MAX_CYCLE]);
// The peers behind `home` on a shortest way there, `to` last; 0: there is none. Behind lone_cycle.
uint32_t single_source_path(const single_source *w, router_peer to, router_peer path[SINGLE_SOURCE_MAX_HOPS]);

#endif
