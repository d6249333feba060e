// The map of the run: capacities of all relays and costs of their links, collected by data peers.
// Used with several data peers and for initial plans (link-state advertisement, upstream only).
//
// Each peer describes itself in an entry: its next neighbours with costs, and its capacity (a data
// peer: its demand). Previous neighbours store the entry and forward it to their previous
// neighbours. A data peer thus learns of all relays that its units can reach, and of the other data
// peers behind the last stage. Entries have versions; the newest one counts. News is collected for
// a short time and each link carries each version once. A single source would receive the same from
// all its neighbours, so only some of them forward (share_with). While it re-optimises, entries
// also list the units on links.
//
// The entry of a dead relay stays in the map, but entries of its neighbours no longer name it.
#include "routing/plan/mincost_map.h"

#include <string.h>

enum {
    // Delays.
    GATHER = 3,          // time from the first change to sending
    INITIAL_GATHER = 1,  // while all peers wait for the map
    // own entry, while a single source re-optimises: a nearby repair is over by then
    LOAD_GATHER = 8,
    // after a change of neighbours, wait this long for entries of all next ones; half of it with a
    // single source
    LISTEN = 20,
    COST_GATHER = 20,  // changes of costs alone
    // small runs, single source: previous neighbours that forward everything; two, because one may
    // be late
    FULL_COPIES = 2,
    // large runs: previous neighbours that receive the own entry; the first of them receives
    // everything
    OWN_COPIES = 3,
};

static bool newer(uint32_t a, uint32_t than) { return (int32_t)(a - than) > 0; }

// Relays of the largest run that data peers plan. The memory of a single source is sized for its
// run; its relays forward whatever arrives.
static uint32_t max_relays_of(const router_config *c) {
    if (mincost_is_multi_source(c)) return MINCOST_MULTI_SOURCE_RELAYS;
    if (!router_names_source(c, c->self)) return UINT32_MAX;
    uint32_t relays = c->relays > MINCOST_MULTI_SOURCE_RELAYS ? c->relays : MINCOST_MULTI_SOURCE_RELAYS;
    return relays < MINCOST_SINGLE_SOURCE_RELAYS ? relays : MINCOST_SINGLE_SOURCE_RELAYS;
}

static uint32_t words_for(const router_config *c) {
    if (router_names_source(c, c->self)) return (max_relays_of(c) * MINCOST_MAP_WORDS_PER_RELAY + 63) / 64 * 64;
    return mincost_is_multi_source(c) ? MINCOST_MAP_WORDS_MULTI : MINCOST_MAP_WORDS_SINGLE;
}

size_t mincost_single_source_bytes(const router_config *c) {
    return single_source_bytes(max_relays_of(c) + 1, words_for(c) / 2 + c->max_neighbours);
}
single_source *mincost_single_source_init(const router_config *c, void *memory) {
    return single_source_init(memory, max_relays_of(c) + 1, words_for(c) / 2 + c->max_neighbours);
}

mincost_map *mincost_map_lay_out(const router_config *c, router_arena *a) {
    uint32_t words = words_for(c);
    bool indexed = router_names_source(c, c->self);
    mincost_map_index x = {.table = map_index_table(words), .salt = c->seed};
    mincost_map *map = router_arena_take(a, sizeof *map);
    uint32_t *word = router_arena_take(a, words * sizeof *word);
    if (indexed) {
        x.place = router_arena_take(a, x.table * sizeof *x.place);
        x.queue = router_arena_take(a, map_max_entries(words) * sizeof *x.queue);
        x.reached = router_arena_take(a, words / 64 * sizeof *x.reached);
    }
    if (map == NULL) return NULL;
    *map = (mincost_map){.limit = words,
                         .word = word,
                         .max_relays = max_relays_of(c),
                         .has_loads = !mincost_is_multi_source(c),
                         .send_at = ROUTER_NEVER,
                         .version = 1};
    if (!indexed) return map;
    map->index = x;
    map_index_all(&map->index, map);
    return map;
}

// With a single source the map is needed only while it re-optimises.
static bool is_retired(const mincost_planner *pl) {
    return pl->mc.phase.started && !mincost_is_multi_source(&pl->mc.r.config) && !mincost_is_centralised(&pl->mc);
}
// A single source has no entry in its own map.
static bool is_mapped(const mincost_planner *pl) {
    return !pl->mc.r.is_source || mincost_is_multi_source(&pl->mc.r.config);
}

static uint32_t *find_entry(mincost_map *map, router_peer peer) {
    if (map->index.place != NULL) {
        uint32_t place = *map_place(&map->index, map, peer);
        return place == 0 ? NULL : &map->word[place - 1];
    }
    EACH_ENTRY(map, e) {
        if (e[MAP_PEER] == peer) return e;
    }
    return NULL;
}

static void remove_entry(mincost_map *map, uint32_t *entry) {
    uint32_t words = words_of(map, entry), *end = map->word + map->used;
    memmove(entry, entry + words, (size_t)(end - entry - words) * sizeof *entry);
    map->used -= words;
    if (map->index.place != NULL) map_index_all(&map->index, map);
}

// NULL: the map is full.
static uint32_t *add_entry(mincost_planner *pl, router_peer peer, uint32_t words) {
    mincost_map *map = pl->map;
    if (map->used + words > map->limit) mincost_map_prune(pl);
    if (map->used + words > map->limit) return NULL;
    uint32_t *e = map->word + map->used;
    if (map->index.place != NULL) *map_place(&map->index, map, peer) = map->used + 1;
    map->used += words;
    return e;
}

// --- Contents ------------------------------------------------------------------------------------

// Delay in which further news is collected.
static int64_t gather_delays(const mincost_planner *pl) {
    return mincost_is_waiting(&pl->mc) ? INITIAL_GATHER : GATHER;
}

static void send_by(mincost_planner *pl, int64_t at) {
    if (at < pl->map->send_at) pl->map->send_at = at;
}

static void note_change(mincost_planner *pl) {
    pl->map->version++;
    pl->map->changed_at = pl->mc.r.now;
}

// `entry`: as in a message.
static void store_entry(mincost_planner *pl, const uint32_t *entry, int64_t delays) {
    mincost_map *map = pl->map;
    uint32_t *e = find_entry(map, entry[MAP_PEER]), words = sent_words(map, entry);
    if (e != NULL && sent_words(map, e) != words) {
        remove_entry(map, e);
        e = NULL;
        note_change(pl);  // even if the new entry does not fit
    }
    if (e == NULL) e = add_entry(pl, entry[MAP_PEER], 1 + words);
    if (e == NULL) return;
    memcpy(e, entry, MAP_HEAD * sizeof *e);
    memcpy(e + MAP_HEAD + 1, entry + MAP_HEAD, (words - MAP_HEAD) * sizeof *e);
    e[MAP_SEQUENCE] = ++map->sequence;
    note_change(pl);
    send_by(pl, pl->mc.r.now + delays * pl->mc.r.config.delay);
}

static bool is_entry(const mincost_map *map, const uint32_t *entry, uint32_t words) {
    if (words < MAP_HEAD || entry[MAP_PEER] == 0 || entry[MAP_PEER] >= 1u << 31 ||
        capacity_of(entry) > ROUTER_MAX_UNITS)
        return false;
    if (links_of(entry) > MINCOST_MAP_LINKS || loads_of(map, entry) > MAP_LOADS || sent_words(map, entry) > words)
        return false;
    for (uint32_t i = 0; i < links_of(entry); i++)
        if (entry[MAP_HEAD + 2 * i] == 0 || entry[MAP_HEAD + 2 * i + 1] > ROUTER_MAX_COST) return false;
    for (uint32_t i = MAP_HEAD + 2 * links_of(entry); i < sent_words(map, entry); i++)
        if (entry[i] >> 16 >= links_of(entry) || (entry[i] & 0xffff) > ROUTER_MAX_UNITS) return false;
    return true;
}

// An entry that its own peer sends over a direct link replaces any other version.
void mincost_on_map(mincost_planner *pl, const router_message *m) {
    if (pl->map == NULL || is_retired(pl)) return;
    for (uint32_t at = 0; at < m->length;) {
        const uint32_t *entry = &m->u.word[at];
        if (!is_entry(pl->map, entry, m->length - at)) return;
        at += sent_words(pl->map, entry);
        const uint32_t *e = find_entry(pl->map, entry[MAP_PEER]);
        bool better = e == NULL || newer(entry[MAP_VERSION], e[MAP_VERSION]) ||
                      (entry[MAP_PEER] == m->from && entry[MAP_VERSION] != e[MAP_VERSION]);
        if (entry[MAP_PEER] != pl->mc.r.config.self && better) store_entry(pl, entry, gather_delays(pl));
    }
}

// --- The own entry -------------------------------------------------------------------------------

// By rising peers; the cheapest ones if there are more than MINCOST_MAP_LINKS.
static uint32_t write_links(const mincost_planner *pl, uint32_t *entry) {
    uint32_t n = 0;
    EACH_NEIGHBOUR(&pl->mc.r, ROUTER_NEXT, s) {
        int64_t cost = link_cost(&pl->mc, ROUTER_NEXT, s);
        uint32_t cheaper = 0;
        EACH_NEIGHBOUR(&pl->mc.r, ROUTER_NEXT, t) cheaper += link_cost(&pl->mc, ROUTER_NEXT, t) < cost;
        if (cheaper >= MINCOST_MAP_LINKS || n == MINCOST_MAP_LINKS) continue;
        entry[MAP_HEAD + 2 * n] = pl->mc.r.slot[ROUTER_NEXT][s].peer;
        entry[MAP_HEAD + 2 * n + 1] = (uint32_t)map_cost(cost);
        n++;
    }
    return n;
}

// Versions follow the time, so that a restarted peer's entry is newer than that of its earlier
// incarnation.
static uint32_t next_version(const mincost_planner *pl, const uint32_t *e) {
    uint32_t version = (uint32_t)(pl->mc.r.now / pl->mc.r.config.delay);
    return e != NULL && !newer(version, e[MAP_VERSION]) ? e[MAP_VERSION] + 1 : version;
}

// Lists the units on links. Few links carry any, and those are all named.
static void write_loads(const mincost_planner *pl, uint32_t *entry, uint32_t links) {
    uint32_t n = 0;
    int32_t sent = 0;
    for (uint32_t i = 0; i < links && n < MAP_LOADS; i++) {
        int slot = router_slot(&pl->mc.r, ROUTER_NEXT, entry[MAP_HEAD + 2 * i]);
        int32_t out = downstream_of(&pl->mc, 0, (uint32_t)slot)->units;
        if (out > 0) entry[MAP_HEAD + 2 * links + n++] = load_word(i, (uint32_t)out);
        sent += out;
    }
    mincost_update_sums(&pl->mc, 0);
    entry[MAP_SIZES] |= (n | (sent < pl->mc.commodity[0].outflow ? MAP_MORE_LOADS : 0)) << 7;
}

static bool same_links(const uint32_t *e, const uint32_t *entry) {
    bool same = e != NULL && capacity_of(e) == capacity_of(entry) && links_of(e) == links_of(entry);
    for (uint32_t i = 0; same && i < links_of(entry); i++) same = link_of(e, i)[0] == entry[MAP_HEAD + 2 * i];
    return same;
}

static bool same_costs(const uint32_t *e, const uint32_t *entry) {
    bool same = true;
    for (uint32_t i = 0; i < links_of(entry); i++) same &= link_of(e, i)[1] == entry[MAP_HEAD + 2 * i + 1];
    return same;
}

static bool same_loads(const mincost_planner *pl, const uint32_t *e, const uint32_t *entry) {
    bool same = cuts_of(e) == cuts_of(entry);
    for (uint32_t i = 0; same && i < loads_of(pl->map, entry); i++)
        same = *load_of(e, i) == entry[MAP_HEAD + 2 * links_of(entry) + i];
    return same;
}

static void update_own_entry(mincost_planner *pl) {
    uint32_t entry[MAP_HEAD + 2 * MINCOST_MAP_LINKS + MAP_LOADS], links = write_links(pl, entry);
    const uint32_t *e = find_entry(pl->map, pl->mc.r.config.self);
    entry[MAP_PEER] = pl->mc.r.config.self;
    entry[MAP_SIZES] = pl->mc.r.config.capacity << 16 | links;
    if (pl->map->has_loads)
        write_loads(pl, entry, links);
    else
        entry[MAP_SIZES] |= (pl->mc.phase.cuts & 0x1ff) << 7;
    int64_t delays = COST_GATHER;
    if (!same_links(e, entry) || !same_loads(pl, e, entry))
        delays = pl->map->has_loads && pl->mc.phase.started ? LOAD_GATHER : gather_delays(pl);
    else if (same_costs(e, entry))
        return;
    entry[MAP_VERSION] = next_version(pl, e);
    store_entry(pl, entry, delays);
}

// --- Sending -------------------------------------------------------------------------------------

// Entries that a previous neighbour receives.
typedef enum map_share { SHARE_NOTHING, SHARE_OWN, SHARE_ALL } map_share;

// The previous neighbours of a data peer are relays of the last stage. They serve other data peers,
// which already know what this one knows.
static bool should_send(const mincost_planner *pl, const uint32_t *e, router_peer to, map_share what) {
    return e[MAP_PEER] != to && ((what == SHARE_ALL && !pl->mc.r.is_source) || e[MAP_PEER] == pl->mc.r.config.self);
}

// The next entry to send to a neighbour that has all entries up to sequence number `sent`.
static const uint32_t *next_unsent(const mincost_planner *pl, router_peer to, map_share what, uint32_t sent) {
    const uint32_t *next = NULL;
    EACH_ENTRY(pl->map, e) {
        if (newer(e[MAP_SEQUENCE], sent) && should_send(pl, e, to, what) &&
            (next == NULL || newer(next[MAP_SEQUENCE], e[MAP_SEQUENCE])))
            next = e;
    }
    return next;
}

// Writes entries after `sent` into `m` as far as they fit (NULL: only counts). Returns the sequence
// number reached.
static uint32_t write_entries(const mincost_planner *pl, router_peer to, map_share what, uint32_t sent,
                              router_message *m) {
    uint32_t words = 0;
    for (const uint32_t *e; (e = next_unsent(pl, to, what, sent)) != NULL; sent = e[MAP_SEQUENCE]) {
        uint32_t more = sent_words(pl->map, e);
        if (words + more > sizeof m->u.word / sizeof *m->u.word) break;
        if (m != NULL) {
            memcpy(m->u.word + words, e, MAP_HEAD * sizeof *e);
            memcpy(m->u.word + words + MAP_HEAD, e + MAP_HEAD + 1, (more - MAP_HEAD) * sizeof *e);
        }
        words += more;
    }
    if (m != NULL) m->length = (uint16_t)words;
    return sent;
}

void mincost_map_compose(const mincost_planner *pl, const router_outgoing *from, router_message *out) {
    out->why = 0;
    write_entries(pl, from->to, (map_share)from->why, from->extra, out);
}

// All entries must reach all data peers. In a small run with a single source two previous
// neighbours receive everything. In a large run one does, and two more receive the own entry, so
// that each entry takes three ways. A hash selects the neighbours, which spreads the load. Later
// news of a started run is not urgent, and one copy is enough.
static map_share share_with(const mincost_planner *pl, uint32_t slot) {
    bool few = pl->mc.r.config.relays <= MINCOST_SMALL_RUN, shares = mincost_is_multi_source(&pl->mc.r.config);
    if (shares && (few || router_names_source(&pl->mc.r.config, pl->mc.r.slot[ROUTER_PREVIOUS][slot].peer)))
        return SHARE_ALL;
    uint64_t mine = rng_seed(pl->mc.r.config.self, pl->mc.r.slot[ROUTER_PREVIOUS][slot].peer);
    uint32_t before = 0;
    EACH_NEIGHBOUR(&pl->mc.r, ROUTER_PREVIOUS, s)
        before += rng_seed(pl->mc.r.config.self, pl->mc.r.slot[ROUTER_PREVIOUS][s].peer) < mine;
    if (pl->mc.phase.started && !shares) return before == 0 ? SHARE_ALL : SHARE_NOTHING;
    if (few) return before < FULL_COPIES ? SHARE_ALL : SHARE_NOTHING;
    return before == 0 ? SHARE_ALL : before < OWN_COPIES ? SHARE_OWN : SHARE_NOTHING;
}

// False: entries are left to send.
static bool send_entries(mincost_planner *pl, mincost_upstream *u, router_peer to, map_share what) {
    if (u->map_sent_own && what == SHARE_ALL) u->map_sent = 0;
    if (what != SHARE_NOTHING) u->map_sent_own = what == SHARE_OWN;
    for (uint32_t i = 0; i < MINCOST_MAP_BURST && what != SHARE_NOTHING; i++) {
        uint32_t until = write_entries(pl, to, what, u->map_sent, NULL);
        if (until == u->map_sent) return true;
        router_outgoing *o = router_post(&pl->mc.r, to, ROUTER_MAP);
        o->why = (uint8_t)what;
        o->extra = u->map_sent;
        u->map_sent = until;
    }
    return what == SHARE_NOTHING || next_unsent(pl, to, what, u->map_sent) == NULL;
}

// Waits for entries of next neighbours that have not arrived, to send them together. A started
// single-source run does not wait.
static int64_t send_time(const mincost_planner *pl) {
    if (pl->map->has_loads && pl->mc.phase.started) return pl->map->send_at;
    int64_t listen = pl->epochs.neighbours_changed_at +
                     (pl->map->has_loads ? LISTEN / 2 : LISTEN) * pl->mc.r.config.delay;
    bool all = true;
    EACH_NEIGHBOUR(&pl->mc.r, ROUTER_NEXT, s) all &= find_entry(pl->map, pl->mc.r.slot[ROUTER_NEXT][s].peer) != NULL;
    return all || pl->map->send_at >= listen ? pl->map->send_at : listen;
}

// Nothing is sent while the run is too large; afterwards everything is sent again.
static bool may_send(mincost_planner *pl) {
    if (pl->map == NULL || is_retired(pl)) return false;
    bool before = pl->map->suspended;
    pl->map->suspended = !mincost_map_usable(pl);
    if (before && !pl->map->suspended) {
        EACH_NEIGHBOUR(&pl->mc.r, ROUTER_PREVIOUS, s) upstream_of(&pl->mc, 0, s)->map_sent = 0;
        send_by(pl, pl->mc.r.now + gather_delays(pl) * pl->mc.r.config.delay);
        note_change(pl);
    }
    return !pl->map->suspended;
}

void mincost_map_tick(mincost_planner *pl) {
    if (!may_send(pl) || !is_mapped(pl)) return;
    update_own_entry(pl);
    if (pl->map->send_at == ROUTER_NEVER) return;
    int64_t at = send_time(pl);
    if (pl->mc.r.now < at) {
        router_want(&pl->mc.r, at);
        return;
    }
    bool all = true;
    EACH_NEIGHBOUR(&pl->mc.r, ROUTER_PREVIOUS, s) {
        all &= send_entries(pl, upstream_of(&pl->mc, 0, s), pl->mc.r.slot[ROUTER_PREVIOUS][s].peer, share_with(pl, s));
    }
    pl->map->send_at = all ? ROUTER_NEVER : pl->mc.r.now + pl->mc.r.config.delay;
    if (!all) router_want(&pl->mc.r, pl->map->send_at);
}

void mincost_map_link_up(mincost_planner *pl, router_side side) {
    if (pl->map == NULL) return;
    if (side == ROUTER_PREVIOUS) send_by(pl, pl->mc.r.now + gather_delays(pl) * pl->mc.r.config.delay);
    if (!is_mapped(pl)) note_change(pl);
}

// The neighbour may have been the one that forwarded the map.
void mincost_map_link_gone(mincost_planner *pl, bool previous) {
    if (pl->map == NULL) return;
    if (previous) send_by(pl, pl->mc.r.now);
    if (!is_mapped(pl)) note_change(pl);
}
