// Layout of map entries, and the index of a map. For mincost_map.c, mincost_reach.c and tests only.
#ifndef BRAID_ROUTING_MINCOST_MAP_H
#define BRAID_ROUTING_MINCOST_MAP_H

#include "routing/plan/mincost_planner.h"

// Words of an entry, in the map and in a message.
enum {
    MAP_PEER = 0,
    MAP_VERSION,
    MAP_SIZES,  // capacity, number of cuts, number of links
    // then (next neighbour, cost) of each link. In the map one word comes before them: the sequence
    // number.
    MAP_HEAD,
    MAP_SEQUENCE = MAP_HEAD,
    MAP_LOADS = 28,  // links with units in an entry
};

_Static_assert(MINCOST_MAP_LINKS <= 0x7f && ROUTER_MAX_UNITS <= 0xffff, "sizes fit a word");
_Static_assert(MAP_HEAD + 2 * MINCOST_MAP_LINKS + MAP_LOADS <= 4 * ROUTER_MAX_PATH, "an entry fits a message");

static inline uint32_t links_of(const uint32_t *entry) { return entry[MAP_SIZES] & 0x7f; }
static inline uint32_t cuts_of(const uint32_t *entry) { return entry[MAP_SIZES] >> 7 & 0x1ff; }
static inline uint32_t capacity_of(const uint32_t *entry) { return entry[MAP_SIZES] >> 16; }

// A single source needs no cuts. There the field holds the number of loads behind the links, and
// MAP_MORE_LOADS if not all loads fit.
enum { MAP_MORE_LOADS = 0x80 };
static inline bool carries_more(const uint32_t *entry) { return (cuts_of(entry) & MAP_MORE_LOADS) != 0; }
static inline uint32_t loads_of(const mincost_map *map, const uint32_t *entry) {
    return map->has_loads ? cuts_of(entry) & (MAP_MORE_LOADS - 1) : 0;
}
static inline uint32_t load_word(uint32_t link, uint32_t units) { return link << 16 | units; }

static inline uint32_t sent_words(const mincost_map *map, const uint32_t *entry) {
    return MAP_HEAD + 2 * links_of(entry) + loads_of(map, entry);
}
static inline uint32_t words_of(const mincost_map *map, const uint32_t *entry) { return 1 + sent_words(map, entry); }
static inline const uint32_t *load_of(const uint32_t *entry, uint32_t i) {
    return &entry[MAP_HEAD + 1 + 2 * links_of(entry) + i];
}
static inline const uint32_t *link_of(const uint32_t *entry, uint32_t i) { return &entry[MAP_HEAD + 1 + 2 * i]; }

// A link's cost, clamped to what an entry can hold.
static inline int64_t map_cost(int64_t cost) { return cost < 0 ? 0 : cost > ROUTER_MAX_COST ? ROUTER_MAX_COST : cost; }

#define EACH_ENTRY(map, e) for (uint32_t *e = (map)->word; e < (map)->word + (map)->used; e += words_of(map, e))

// Size of the index of a map with `words` words.
uint32_t map_index_table(uint32_t words);
static inline uint32_t map_max_entries(uint32_t words) { return words / (MAP_HEAD + 1); }

// The place of the peer in the index: 1 + the first word of its entry; 0: free.
uint32_t *map_place(const mincost_map_index *x, const mincost_map *map, router_peer peer);
void map_index_all(mincost_map_index *x, const mincost_map *map);
// Finds all entries reachable over links from this peer: x->queue[0 .. x->tail) and a bit in
// x->reached for each.
void map_find_reachable(const mincost_planner *pl, mincost_map_index *x);
static inline bool map_is_reached(const mincost_map_index *x, uint32_t word) {
    return x->reached[word / 64] >> word % 64 & 1;
}

#endif
