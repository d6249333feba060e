// Entries of the map of a run (braid_map.c), and who of them can be reached (braid_reach.c). Only these two and braid.c need this.
#ifndef BRAID_ROUTING_BRAID_MAP_H
#define BRAID_ROUTING_BRAID_MAP_H

#include "routing/plan/mincost_planner.h"

// An entry in the map and in a message, in words.
enum {
    MAP_PEER = 0,
    MAP_VERSION,
    MAP_SIZES,  // what it can carry, how often links went that carried units, and how many links it names
    MAP_HEAD,   // then next neighbour and cost of each; in the map one word before them, when it came
    MAP_NEWS = MAP_HEAD,
    MAP_LOADS = 28,  // links with units that an entry tells of
};

_Static_assert(MINCOST_MAP_LINKS <= 0x7f && ROUTER_MAX_UNITS <= 0xffff, "sizes fit a word");
_Static_assert(MAP_HEAD + 2 * MINCOST_MAP_LINKS + MAP_LOADS <= 4 * ROUTER_MAX_PATH, "an entry fits a message");

static inline uint32_t links_of(const uint32_t *entry) { return entry[MAP_SIZES] & 0x7f; }
static inline uint32_t cuts_of(const uint32_t *entry) { return entry[MAP_SIZES] >> 7 & 0x1ff; }
static inline uint32_t capacity_of(const uint32_t *entry) { return entry[MAP_SIZES] >> 16; }

// With one data peer nobody asks for cuts: there the entry says of how many links it tells what they carry, behind them, and whether others do, too.
enum { MAP_MORE = 0x80 };
static inline bool carries_more(const uint32_t *entry) { return (cuts_of(entry) & MAP_MORE) != 0; }
static inline uint32_t loads_of(const mincost_map *map, const uint32_t *entry) { return map->has_loads ? cuts_of(entry) & (MAP_MORE - 1) : 0; }
static inline uint32_t load_word(uint32_t link, uint32_t units) { return link << 16 | units; }

static inline uint32_t told_words(const mincost_map *map, const uint32_t *entry) { return MAP_HEAD + 2 * links_of(entry) + loads_of(map, entry); }
static inline uint32_t words_of(const mincost_map *map, const uint32_t *entry) { return 1 + told_words(map, entry); }
static inline const uint32_t *load_of(const uint32_t *entry, uint32_t i) { return &entry[MAP_HEAD + 1 + 2 * links_of(entry) + i]; }
static inline const uint32_t *link_of(const uint32_t *entry, uint32_t i) { return &entry[MAP_HEAD + 1 + 2 * i]; }

// Of a link's cost what a map can say.
static inline int64_t map_cost(int64_t cost) { return cost < 0 ? 0 : cost > ROUTER_MAX_COST ? ROUTER_MAX_COST : cost; }

#define EACH_ENTRY(map, e) for (uint32_t *e = (map)->word; e < (map)->word + (map)->used; e += words_of(map, e))

// An index of a map with room for `words`, and what of it is taken from the arena.
uint32_t map_index_table(uint32_t words);
static inline uint32_t map_max_entries(uint32_t words) { return words / (MAP_HEAD + 1); }

// 1 + the first word of the peer's entry; 0, and there it belongs: there is none.
uint32_t *map_place(const mincost_map_index *x, const mincost_map *map, router_peer peer);
void map_index_all(mincost_map_index *x, const mincost_map *map);
// Finds who can be reached over links from here: x->queue until x->tail has where their entries begin, x->reached a bit for each.
void map_find_reachable(const mincost_planner *pl, mincost_map_index *x);
static inline bool map_is_reached(const mincost_map_index *x, uint32_t word) { return x->reached[word / 64] >> word % 64 & 1; }

#endif
