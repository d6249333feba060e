// The state of lone.h, for lone.c and lone_cycle.c only.
#ifndef BRAID_ROUTING_LONE_INSIDE_H
#define BRAID_ROUTING_LONE_INSIDE_H

#include "routing/plan/single_source.h"

// A peer's two halves: units come in at the first and go out at the second, and the link between them is what a relay can carry. Those of
// the data peer are not joined: its units end at the one and begin at the other.
static inline uint32_t half_in(uint32_t place) { return 1 + 2 * place; }
static inline uint32_t half_out(uint32_t place) { return 2 + 2 * place; }
static inline uint32_t place_of(uint32_t half) { return (half - 1) / 2; }

typedef struct lone_link {
    uint32_t from, to;  // halves; until lone_solve `to` is a peer
    int32_t cost;
    uint16_t room, units;  // that may be on it; that are
} lone_link;

typedef struct lone_place {
    router_peer peer;
    uint32_t first, links;
    uint32_t before, level;  // the place before it on a shortest way from the data peer, and how many links that has; UINT32_MAX: there is none
} lone_place;

// Of the tree. Above a half is the root in the end.
typedef struct lone_half {
    int64_t cost;  // of coming here: of a link in the tree, what it costs is what its ends differ by
    uint32_t above, link, depth;
    uint32_t below, next, last;  // the first one below; the others below the same one, after and before this one; 0: none
    bool up;                     // that link leads to the one above
} lone_half;

struct lone {
    uint32_t max_peers, max_links;
    router_peer home;
    uint32_t wanted, left;  // units; that have a way and have not been taken
    uint32_t peers, at_home, links, halves;
    uint32_t looked_at;  // the link where the next search begins
    int64_t dear;        // of a way that is none: more than any way costs
    lone_place *place;   // [max_peers], by rising peers
    lone_link *link;     // [max_links], then one between each half and the root, in the order of the halves
    lone_half *half;     // [1 + 2 * max_peers]
    uint32_t *stack;     // [1 + 2 * max_peers]
    bool ready;               // lone_cycle: ends and loads are known
    uint32_t sent;            // units that leave the data peer
};

_Static_assert(ROUTER_MAX_COST <= INT32_MAX && ROUTER_MAX_UNITS < UINT16_MAX, "a link's fields");

void lone_find_ends(lone *w);  // of all links

#endif
