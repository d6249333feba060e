// Reachability in the map of the run (breadth-first search), removal of unreachable entries, and
// the transfer of the map to the planners.
#include "routing/plan/mincost_map.h"

#include <string.h>

// words of a relay's map; size of its temporary index while it prunes
enum { MOST = MINCOST_MAP_WORDS_MULTI, TABLE = 16384 };

_Static_assert(MOST % 64 == 0, "a bit for each word");
_Static_assert(TABLE > 2 * MOST / (MAP_HEAD + 1), "the table is never full");

// --- The index -----------------------------------------------------------------------------------

uint32_t map_index_table(uint32_t words) {
    uint32_t table = TABLE / 2;
    while (table <= 2 * map_max_entries(words)) table *= 2;
    return table;
}

uint32_t *map_place(const mincost_map_index *x, const mincost_map *map, router_peer peer) {
    uint32_t at = (uint32_t)rng_seed(x->salt, peer) & (x->table - 1);
    while (x->place[at] != 0 && map->word[x->place[at] - 1 + MAP_PEER] != peer) at = (at + 1) & (x->table - 1);
    return &x->place[at];
}

void map_index_all(mincost_map_index *x, const mincost_map *map) {
    memset(x->place, 0, x->table * sizeof *x->place);
    for (uint32_t at = 0; at < map->used; at += words_of(map, &map->word[at]))
        *map_place(x, map, map->word[at + MAP_PEER]) = at + 1;
}

// --- Reachable peers -----------------------------------------------------------------------------

static void reach_peer(mincost_map_index *x, const mincost_map *map, router_peer peer) {
    uint32_t place = *map_place(x, map, peer);
    if (place == 0 || map_is_reached(x, place - 1)) return;
    x->reached[(place - 1) / 64] |= (uint64_t)1 << (place - 1) % 64;
    x->queue[x->tail++] = place - 1;
}

// Entries of dead peers may still name each other, as do those of invented peers. Only reachability
// counts.
void map_find_reachable(const mincost_planner *pl, mincost_map_index *x) {
    const mincost_map *map = pl->map;
    memset(x->reached, 0, map->limit / 64 * sizeof *x->reached);
    x->head = x->tail = 0;
    reach_peer(x, map, pl->mc.r.config.self);
    EACH_NEIGHBOUR(&pl->mc.r, ROUTER_NEXT, s) reach_peer(x, map, pl->mc.r.slot[ROUTER_NEXT][s].peer);
    while (x->head < x->tail) {
        const uint32_t *e = &map->word[x->queue[x->head++]];
        for (uint32_t i = 0; i < links_of(e); i++) reach_peer(x, map, *link_of(e, i));
    }
}

static void keep_reached(mincost_planner *pl, mincost_map_index *x) {
    mincost_map *map = pl->map;
    uint32_t kept = 0;
    map_find_reachable(pl, x);
    for (uint32_t at = 0, words; at < map->used; at += words) {
        words = words_of(map, &map->word[at]);
        if (!map_is_reached(x, at)) continue;
        memmove(&map->word[kept], &map->word[at], words * sizeof *map->word);
        kept += words;
    }
    if (kept != map->used) map->version++;
    map->used = kept;
}

void mincost_map_prune(mincost_planner *pl) {
    mincost_map *map = pl->map;
    if (map->pruned_version == map->version) return;
    if (map->index.place != NULL) {
        keep_reached(pl, &map->index);
        map_index_all(&map->index, map);
    } else {
        uint32_t place[TABLE], queue[MOST / (MAP_HEAD + 1)];
        uint64_t reached[MOST / 64];
        mincost_map_index x = {.table = map_index_table(map->limit),
                               .salt = pl->mc.r.config.seed,
                               .place = place,
                               .queue = queue,
                               .reached = reached};
        map_index_all(&x, map);
        keep_reached(pl, &x);
    }
    map->pruned_version = map->version;
}

// --- Completeness --------------------------------------------------------------------------------

// A named peer has no entry. `has_cycle`: some link leads back to this peer.
static bool find_gap(const mincost_planner *pl, mincost_map_index *x, bool *has_cycle) {
    *has_cycle = false;
    map_find_reachable(pl, x);
    EACH_NEIGHBOUR(&pl->mc.r, ROUTER_NEXT, s) {
        if (*map_place(x, pl->map, pl->mc.r.slot[ROUTER_NEXT][s].peer) == 0) return true;
    }
    for (uint32_t q = 0; q < x->tail; q++) {
        const uint32_t *e = &pl->map->word[x->queue[q]];
        for (uint32_t i = 0; i < links_of(e); i++) {
            router_peer to = *link_of(e, i);
            if (to == pl->mc.r.config.self)
                *has_cycle = true;
            else if (*map_place(x, pl->map, to) == 0)
                return true;
        }
    }
    return false;
}

bool mincost_map_has_gap(mincost_planner *pl) {
    bool has_cycle;
    return find_gap(pl, &pl->map->index, &has_cycle);
}

bool mincost_map_complete(mincost_planner *pl) {
    mincost_map *map = pl->map;
    bool has_cycle;
    if (map->closed_version != map->version) map->complete = !find_gap(pl, &map->index, &has_cycle) && has_cycle;
    map->closed_version = map->version;
    return map->complete;
}

// --- Input of the planners -----------------------------------------------------------------------

static router_peer peer_in(const mincost_map *map, uint32_t queued) {
    return map->word[map->index.queue[queued] + MAP_PEER];
}

// Restores the order of a max-heap of `count` entries below position `at`.
static void sift(mincost_map *map, uint32_t at, uint32_t count) {
    uint32_t *queue = map->index.queue, entry = queue[at];
    for (uint32_t child; (child = 2 * at + 1) < count; at = child) {
        if (child + 1 < count && peer_in(map, child + 1) > peer_in(map, child)) child++;
        if (peer_in(map, child) <= map->word[entry + MAP_PEER]) break;
        queue[at] = queue[child];
    }
    queue[at] = entry;
}

// By rising peers, so that plans do not depend on the order of arrival (heapsort).
static void sort_reached(mincost_map *map) {
    uint32_t *queue = map->index.queue, count = map->index.tail;
    for (uint32_t i = count / 2; i > 0; i--) sift(map, i - 1, count);
    for (uint32_t i = count; i > 1; i--) {
        uint32_t highest = queue[0];
        queue[0] = queue[i - 1];
        queue[i - 1] = highest;
        sift(map, 0, i - 1);
    }
}

static bool load_multi_entry(const mincost_planner *pl, const uint32_t *e) {
    bool is_source = router_names_source(&pl->mc.r.config, e[MAP_PEER]);
    if (!multi_source_add_peer(pl->multi, e[MAP_PEER], capacity_of(e), cuts_of(e), is_source)) return false;
    for (uint32_t i = 0; i < links_of(e); i++)
        if (!multi_source_add_link(pl->multi, link_of(e, i)[0], link_of(e, i)[1])) return false;
    return true;
}

bool mincost_map_load_multi(mincost_planner *pl) {
    multi_source_clear(pl->multi);
    if (!mincost_map_usable(pl)) return false;
    map_find_reachable(pl, &pl->map->index);
    sort_reached(pl->map);
    for (uint32_t q = 0; q < pl->map->index.tail; q++)
        if (!load_multi_entry(pl, &pl->map->word[pl->map->index.queue[q]])) return false;
    return true;
}

// A single source is not in its own map, because it may have more links than an entry holds.
static bool load_own_links(const mincost_planner *pl, bool loads) {
    if (!single_source_add_peer(pl->single, pl->mc.r.config.self, 0)) return false;
    EACH_NEIGHBOUR(&pl->mc.r, ROUTER_NEXT, s) {
        if (!single_source_add_link(pl->single, pl->mc.r.slot[ROUTER_NEXT][s].peer,
                                    map_cost(link_cost(&pl->mc, ROUTER_NEXT, s))))
            return false;
        if (loads) single_source_set_load(pl->single, (uint32_t)downstream_of(&pl->mc, 0, s)->units);
    }
    return true;
}

static uint32_t units_on_link(const mincost_map *map, const uint32_t *e, uint32_t link) {
    for (uint32_t i = 0; i < loads_of(map, e); i++)
        if (*load_of(e, i) >> 16 == link) return *load_of(e, i) & 0xffff;
    return 0;
}

static bool load_single_entry(const mincost_planner *pl, const uint32_t *e, bool loads) {
    if (!single_source_add_peer(pl->single, e[MAP_PEER], capacity_of(e)) || (loads && carries_more(e))) return false;
    for (uint32_t i = 0; i < links_of(e); i++) {
        if (!single_source_add_link(pl->single, link_of(e, i)[0], link_of(e, i)[1])) return false;
        if (loads) single_source_set_load(pl->single, units_on_link(pl->map, e, i));
    }
    return true;
}

bool mincost_map_load_single(mincost_planner *pl, bool loads) {
    router_peer self = pl->mc.r.config.self, before = 0;
    single_source_clear(pl->single, self, pl->mc.r.config.capacity);
    if (!mincost_map_usable(pl)) return false;
    map_find_reachable(pl, &pl->map->index);
    sort_reached(pl->map);
    for (uint32_t q = 0; q < pl->map->index.tail; q++) {
        const uint32_t *e = &pl->map->word[pl->map->index.queue[q]];
        if (before < self && self < e[MAP_PEER] && !load_own_links(pl, loads)) return false;
        if (!load_single_entry(pl, e, loads)) return false;
        before = e[MAP_PEER];
    }
    return before > self || load_own_links(pl, loads);
}
