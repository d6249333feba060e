// State of the single-source planner, for single_source.c and single_source_cycles.c only.
#ifndef BRAID_ROUTING_SINGLE_SOURCE_INTERNAL_H
#define BRAID_ROUTING_SINGLE_SOURCE_INTERNAL_H

#include "routing/plan/single_source.h"

// Each peer is split into an in node and an out node. The arc between them carries at most the relay's
// capacity. The data peer has no such arc: its units end at its in node and start at its out node.
// Node 0 is the root of the spanning tree.
static inline uint32_t node_in(uint32_t place) { return 1 + 2 * place; }
static inline uint32_t node_out(uint32_t place) { return 2 + 2 * place; }
static inline uint32_t place_of(uint32_t node) { return (node - 1) / 2; }

typedef struct single_source_arc {
    uint32_t from, to;  // nodes; before single_source_resolve `to` is a peer
    int32_t cost;
    uint16_t room, units;  // capacity, flow
} single_source_arc;

typedef struct single_source_peer {
    router_peer peer;
    uint32_t first, links;   // its arcs
    uint32_t before, level;  // predecessor and hop count on a shortest path from the data peer; UINT32_MAX: unreachable
} single_source_peer;

// A node of the spanning tree. In single_source_cycles.c the fields hold the state of a search instead.
typedef struct single_source_node {
    int64_t potential;                                     // every tree arc has reduced cost 0
    uint32_t parent, arc, depth;                           // `arc` connects the node with its parent
    uint32_t first_child, next_sibling, previous_sibling;  // 0: none
    bool to_parent;                                        // direction of that arc
} single_source_node;

struct single_source {
    uint32_t max_peers, max_links;
    router_peer home;                       // the data peer
    uint32_t wanted, left;                  // units; units with a path that were not taken yet
    uint32_t peers, at_home, links, nodes;  // at_home: place of the data peer
    uint32_t next_arc;                      // where the pricing of arcs continues
    int64_t infinity;                       // cost of an artificial arc: above that of any path
    single_source_peer *place;              // [max_peers] by rising peers
    single_source_arc *link;                // [max_links] then one artificial arc between each node and the root
    single_source_node *node;               // [1 + 2 * max_peers]
    uint32_t *stack;                        // [1 + 2 * max_peers]
    bool resolved;                          // single_source_cycle: arc ends, loads and levels are known
    uint32_t sent;                          // units that leave the data peer
};

_Static_assert(ROUTER_MAX_COST <= INT32_MAX && ROUTER_MAX_UNITS < UINT16_MAX, "fields of an arc");

void single_source_resolve(single_source *w);  // finds the nodes at the ends of all arcs

#endif
