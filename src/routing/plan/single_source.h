// Exact plan for a single data peer: all paths of its units on a map of the run (mincost_map.c).
//
// With one data peer this is a minimum-cost flow, which a network simplex solves exactly and
// quickly. For several data peers see multi_source.h.
//
//     single_source_clear(w, home, units);
//     single_source_add_peer(w, peer, capacity), by rising peers, `home` among them;
//     single_source_add_link(w, to, cost) for each of its links
//     single_source_solve(w);
//     while ((hops = single_source_next(w, path)) > 0) ...
//
// For a flow that is already there, negative cycles are found one by one (single_source_cycles.c):
//
//     the same three calls, and single_source_set_load for each link that carries units;
//     while ((length = single_source_cycle(w, slack, cycle)) > 0) ...
//
// Pure and deterministic: integers, no allocation, ties are broken by numbers. A map may hold
// anything: links that lead nowhere are ignored.
#ifndef BRAID_ROUTING_SINGLE_SOURCE_H
#define BRAID_ROUTING_SINGLE_SOURCE_H

#include "routing/core/router.h"

#include <stddef.h>

enum { SINGLE_SOURCE_MAX_HOPS = 64 };  // links of a path

typedef struct single_source single_source;

// Bytes for single_source_init, aligned to 8.
size_t single_source_bytes(uint32_t peers, uint32_t links);
single_source *single_source_init(void *memory, uint32_t peers, uint32_t links);

// `home` wants to send so many units.
void single_source_clear(single_source *w, router_peer home, uint32_t units);
// false: no room
bool single_source_add_peer(single_source *w, router_peer peer, uint32_t capacity);
// from the peer added last
bool single_source_add_link(single_source *w, router_peer to, int64_t cost);
// Computes the paths of as many units as possible at the lowest total cost. Returns the number of
// units with a path.
uint32_t single_source_solve(single_source *w);
int64_t single_source_cost(const single_source *w);
// Takes the next unit and writes the peers behind `home` on its path, `home` last. Returns their
// number; 0: no unit is left. Units with longer paths are skipped and must find a path without a
// plan.
uint32_t single_source_next(single_source *w, router_peer path[SINGLE_SOURCE_MAX_HOPS]);

void single_source_set_load(single_source *w, uint32_t units);  // sets the units on the link added last
// Finds a residual cycle that saves more than `slack` for each of its links, or that serves one
// more unit. The result is in the form that mincost_begin_commit takes. Peers on it are excluded
// from later results, so all results can be applied at once. The cycle begins and ends at its peer
// nearest to `home`. Returns its length; 0: none.
uint32_t single_source_cycle(single_source *w, int64_t slack, router_node cycle[ROUTER_MAX_CYCLE]);
// The peers behind `home` on a shortest path to `to`, `to` last. Returns their number; 0: no path.
// After single_source_cycle.
uint32_t single_source_path(const single_source *w, router_peer to, router_peer path[SINGLE_SOURCE_MAX_HOPS]);

#endif
