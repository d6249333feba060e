// braid with several data peers, or where first ways are planned: what each relay can carry and what its links cost comes to all data
// peers, as a map of the run.
//
// Each peer says of itself which next neighbours it has, at what cost, and how much it can carry (a data peer: how much it wants). Its
// previous neighbours keep that and tell their own previous neighbours: so what is said goes upstream only, and a data peer hears of
// all relays that its units can reach, and of the other data peers, which stand behind the last stage. Entries have versions, and the
// newest one counts. What came in is told together a little later, and each link hears each version once. A lone data peer would hear the
// same from everybody before it, so only some carry its map on (what_hears); and as long as it steers (braid_steer.c) each says what its links
// carry, too.
//
// A relay that has gone is still in the map, but whoever had a link there says that it has none any more.
#include "routing/plan/mincost_map.h"

#include <string.h>

enum {
    // Delays.
    GATHER = 3,   // from the first news until it is told ...
    SOON = 1,     // ... while all wait for it
    MENDED = 8,   // ... of my own to who steers: a repair near by is over then
    LISTEN = 20,  // ... for so long after neighbours came or went not before all next ones have spoken; half of that with one data peer
    LATER = 20,   // until others hear that only costs have changed
    CARRIERS = 2,  // few relays, one data peer: previous neighbours who carry all on; one alone may be late
    BEARERS = 3,   // many relays: who hear what I am, and the first of them all
};

static bool newer(uint32_t a, uint32_t than) { return (int32_t)(a - than) > 0; }

// With how many relays data peers still plan. A lone one has its memory made for the run; its relays carry on whatever comes.
static uint32_t crowd_of(const router_config *c) {
    if (mincost_is_multi_source(c)) return MINCOST_MULTI_SOURCE_RELAYS;
    if (!router_names_source(c, c->self)) return UINT32_MAX;
    uint32_t relays = c->relays > MINCOST_MULTI_SOURCE_RELAYS ? c->relays : MINCOST_MULTI_SOURCE_RELAYS;
    return relays < MINCOST_SINGLE_SOURCE_RELAYS ? relays : MINCOST_SINGLE_SOURCE_RELAYS;
}

static uint32_t limit_of(const router_config *c) {
    if (router_names_source(c, c->self)) return (crowd_of(c) * MINCOST_MAP_WORDS_PER_RELAY + 63) / 64 * 64;
    return mincost_is_multi_source(c) ? MINCOST_MAP_WORDS_MULTI : MINCOST_MAP_WORDS_SINGLE;
}

size_t mincost_single_source_bytes(const router_config *c) { return single_source_bytes(crowd_of(c) + 1, limit_of(c) / 2 + c->max_neighbours); }
single_source *mincost_single_source_init(const router_config *c, void *memory) { return single_source_init(memory, crowd_of(c) + 1, limit_of(c) / 2 + c->max_neighbours); }

mincost_map *mincost_map_lay_out(const router_config *c, arena *a) {
    uint32_t words = limit_of(c);
    bool indexed = router_names_source(c, c->self);
    mincost_map_index x = {.table = map_index_table(words), .salt = c->seed};
    mincost_map *map = arena_take(a, sizeof *map);
    uint32_t *word = arena_take(a, words * sizeof *word);
    if (indexed) {
        x.place = arena_take(a, x.table * sizeof *x.place);
        x.queue = arena_take(a, map_max_entries(words) * sizeof *x.queue);
        x.reached = arena_take(a, words / 64 * sizeof *x.reached);
    }
    if (map == NULL) return NULL;
    *map = (mincost_map){.limit = words, .word = word, .max_relays = crowd_of(c), .has_loads = !mincost_is_multi_source(c), .send_at = ROUTER_NEVER, .version = 1};
    if (!indexed) return map;
    map->index = x;
    map_index_all(&map->index, map);
    return map;
}

// With one data peer the map is for as long as that one steers.
static bool is_over(const mincost_planner *pl) { return pl->mc.phase.started && !mincost_is_multi_source(&pl->mc.r.config) && !mincost_is_centralised(&pl->mc); }
// ... and it need not be on it.
static bool is_on_it(const mincost_planner *pl) { return !pl->mc.r.is_source || mincost_is_multi_source(&pl->mc.r.config); }

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

static void take_out(mincost_map *map, uint32_t *entry) {
    uint32_t words = words_of(map, entry), *end = map->word + map->used;
    memmove(entry, entry + words, (size_t)(end - entry - words) * sizeof *entry);
    map->used -= words;
    if (map->index.place != NULL) map_index_all(&map->index, map);
}

// NULL: there is no room for it.
static uint32_t *put_in(mincost_planner *pl, router_peer peer, uint32_t words) {
    mincost_map *map = pl->map;
    if (map->used + words > map->limit) mincost_map_prune(pl);
    if (map->used + words > map->limit) return NULL;
    uint32_t *e = map->word + map->used;
    if (map->index.place != NULL) *map_place(&map->index, map, peer) = map->used + 1;
    map->used += words;
    return e;
}

// --- What is known -----------------------------------------------------------------------------------------------------

// How long news waits for more of it.
static int64_t gathers(const mincost_planner *pl) { return mincost_is_waiting(&pl->mc) ? SOON : GATHER; }

static void tell_by(mincost_planner *pl, int64_t at) {
    if (at < pl->map->send_at) pl->map->send_at = at;
}

static void changed(mincost_planner *pl) {
    pl->map->version++;
    pl->map->changed_at = pl->mc.r.now;
}

// `said`: an entry as in a message.
static void keep(mincost_planner *pl, const uint32_t *said, int64_t delays) {
    mincost_map *map = pl->map;
    uint32_t *e = find_entry(map, said[MAP_PEER]), words = told_words(map, said);
    if (e != NULL && told_words(map, e) != words) {
        take_out(map, e);
        e = NULL;
        changed(pl);  // whether or not there is room for what is said now
    }
    if (e == NULL) e = put_in(pl, said[MAP_PEER], 1 + words);
    if (e == NULL) return;
    memcpy(e, said, MAP_HEAD * sizeof *e);
    memcpy(e + MAP_HEAD + 1, said + MAP_HEAD, (words - MAP_HEAD) * sizeof *e);
    e[MAP_NEWS] = ++map->sequence;
    changed(pl);
    tell_by(pl, pl->mc.r.now + delays * pl->mc.r.config.delay);
}

static bool is_entry(const mincost_map *map, const uint32_t *said, uint32_t words) {
    if (words < MAP_HEAD || said[MAP_PEER] == 0 || said[MAP_PEER] >= 1u << 31 || capacity_of(said) > ROUTER_MAX_UNITS) return false;
    if (links_of(said) > MINCOST_MAP_LINKS || loads_of(map, said) > MAP_LOADS || told_words(map, said) > words) return false;
    for (uint32_t i = 0; i < links_of(said); i++)
        if (said[MAP_HEAD + 2 * i] == 0 || said[MAP_HEAD + 2 * i + 1] > ROUTER_MAX_COST) return false;
    for (uint32_t i = MAP_HEAD + 2 * links_of(said); i < told_words(map, said); i++)
        if (said[i] >> 16 >= links_of(said) || (said[i] & 0xffff) > ROUTER_MAX_UNITS) return false;
    return true;
}

// Who says it of itself, over a link to it, is right whatever was known.
void mincost_on_map(mincost_planner *pl, const router_message *m) {
    if (pl->map == NULL || is_over(pl)) return;
    for (uint32_t at = 0; at < m->length;) {
        const uint32_t *said = &m->u.word[at];
        if (!is_entry(pl->map, said, m->length - at)) return;
        at += told_words(pl->map, said);
        const uint32_t *e = find_entry(pl->map, said[MAP_PEER]);
        bool better = e == NULL || newer(said[MAP_VERSION], e[MAP_VERSION]) ||
                      (said[MAP_PEER] == m->from && said[MAP_VERSION] != e[MAP_VERSION]);
        if (said[MAP_PEER] != pl->mc.r.config.self && better) keep(pl, said, gathers(pl));
    }
}

// --- Of myself ---------------------------------------------------------------------------------------------------------

// The cheapest links, if they are too many; by rising peers.
static uint32_t write_links(const mincost_planner *pl, uint32_t *said) {
    uint32_t n = 0;
    EACH_NEIGHBOUR(&pl->mc.r, ROUTER_NEXT, s) {
        int64_t cost = link_cost(&pl->mc, ROUTER_NEXT, s);
        uint32_t cheaper = 0;
        EACH_NEIGHBOUR(&pl->mc.r, ROUTER_NEXT, t) cheaper += link_cost(&pl->mc, ROUTER_NEXT, t) < cost;
        if (cheaper >= MINCOST_MAP_LINKS || n == MINCOST_MAP_LINKS) continue;
        said[MAP_HEAD + 2 * n] = pl->mc.r.slot[ROUTER_NEXT][s].peer;
        said[MAP_HEAD + 2 * n + 1] = (uint32_t)map_cost(cost);
        n++;
    }
    return n;
}

// Versions follow the time, so that who comes back with the same number is newer than it was.
static uint32_t next_version(const mincost_planner *pl, const uint32_t *e) {
    uint32_t version = (uint32_t)(pl->mc.r.now / pl->mc.r.config.delay);
    return e != NULL && !newer(version, e[MAP_VERSION]) ? e[MAP_VERSION] + 1 : version;
}

// What my links carry. Few do, and all of those are named.
static void write_loads(const mincost_planner *pl, uint32_t *said, uint32_t links) {
    uint32_t n = 0;
    int32_t told = 0;
    for (uint32_t i = 0; i < links && n < MAP_LOADS; i++) {
        int slot = router_slot(&pl->mc.r, ROUTER_NEXT, said[MAP_HEAD + 2 * i]);
        int32_t out = downstream_of(&pl->mc, 0, (uint32_t)slot)->units;
        if (out > 0) said[MAP_HEAD + 2 * links + n++] = load_word(i, (uint32_t)out);
        told += out;
    }
    mincost_update_sums(&pl->mc, 0);
    said[MAP_SIZES] |= (n | (told < pl->mc.commodity[0].outflow ? MAP_MORE : 0)) << 7;
}

static bool same_links(const uint32_t *e, const uint32_t *said) {
    bool same = e != NULL && capacity_of(e) == capacity_of(said) && links_of(e) == links_of(said);
    for (uint32_t i = 0; same && i < links_of(said); i++) same = link_of(e, i)[0] == said[MAP_HEAD + 2 * i];
    return same;
}

static bool same_costs(const uint32_t *e, const uint32_t *said) {
    bool same = true;
    for (uint32_t i = 0; i < links_of(said); i++) same &= link_of(e, i)[1] == said[MAP_HEAD + 2 * i + 1];
    return same;
}

static bool same_loads(const mincost_planner *pl, const uint32_t *e, const uint32_t *said) {
    bool same = cuts_of(e) == cuts_of(said);
    for (uint32_t i = 0; same && i < loads_of(pl->map, said); i++) same = *load_of(e, i) == said[MAP_HEAD + 2 * links_of(said) + i];
    return same;
}

static void look_at_myself(mincost_planner *pl) {
    uint32_t said[MAP_HEAD + 2 * MINCOST_MAP_LINKS + MAP_LOADS], links = write_links(pl, said);
    const uint32_t *e = find_entry(pl->map, pl->mc.r.config.self);
    said[MAP_PEER] = pl->mc.r.config.self;
    said[MAP_SIZES] = pl->mc.r.config.capacity << 16 | links;
    if (pl->map->has_loads)
        write_loads(pl, said, links);
    else
        said[MAP_SIZES] |= (pl->mc.phase.cuts & 0x1ff) << 7;
    int64_t delays = LATER;
    if (!same_links(e, said) || !same_loads(pl, e, said))
        delays = pl->map->has_loads && pl->mc.phase.started ? MENDED : gathers(pl);
    else if (same_costs(e, said))
        return;
    said[MAP_VERSION] = next_version(pl, e);
    keep(pl, said, delays);
}

// --- Telling -----------------------------------------------------------------------------------------------------------

// What a previous neighbour is to hear.
typedef enum hears { HEARS_NOTHING, HEARS_OF_ME, HEARS_ALL } hears;

// A data peer's neighbours before it are other data peers' last stage: what those know it has from them.
static bool tells_of(const mincost_planner *pl, const uint32_t *e, router_peer to, hears what) {
    return e[MAP_PEER] != to && ((what == HEARS_ALL && !pl->mc.r.is_source) || e[MAP_PEER] == pl->mc.r.config.self);
}

// The next that it is to hear when it has heard all news until `told`.
static const uint32_t *next_news(const mincost_planner *pl, router_peer to, hears what, uint32_t told) {
    const uint32_t *next = NULL;
    EACH_ENTRY(pl->map, e) {
        if (newer(e[MAP_NEWS], told) && tells_of(pl, e, to, what) && (next == NULL || newer(next[MAP_NEWS], e[MAP_NEWS]))) next = e;
    }
    return next;
}

// Puts as much as fits after `told` into `m` (NULL: only counts); returns until where that is.
static uint32_t write_news(const mincost_planner *pl, router_peer to, hears what, uint32_t told, router_message *m) {
    uint32_t words = 0;
    for (const uint32_t *e; (e = next_news(pl, to, what, told)) != NULL; told = e[MAP_NEWS]) {
        uint32_t more = told_words(pl->map, e);
        if (words + more > sizeof m->u.word / sizeof *m->u.word) break;
        if (m != NULL) {
            memcpy(m->u.word + words, e, MAP_HEAD * sizeof *e);
            memcpy(m->u.word + words + MAP_HEAD, e + MAP_HEAD + 1, (more - MAP_HEAD) * sizeof *e);
        }
        words += more;
    }
    if (m != NULL) m->length = (uint16_t)words;
    return told;
}

void mincost_map_compose(const mincost_planner *pl, const outgoing *from, router_message *out) {
    out->why = 0;
    write_news(pl, from->to, (hears)from->why, from->extra, out);
}

// All must come to all data peers. With few relays and one data peer two previous neighbours carry everything on. Where relays are many
// one does, and two more hear of me: so each word goes three ways, over one neighbour at a time. Who it is, chance says, so that
// nobody carries much more than others. What is news once units are under way nobody waits for, and one alone carries it.
static hears what_hears(const mincost_planner *pl, uint32_t slot) {
    bool few = pl->mc.r.config.relays <= MINCOST_SMALL_RUN, shares = mincost_is_multi_source(&pl->mc.r.config);
    if (shares && (few || router_names_source(&pl->mc.r.config, pl->mc.r.slot[ROUTER_PREVIOUS][slot].peer))) return HEARS_ALL;
    uint64_t mine = rng_seed(pl->mc.r.config.self, pl->mc.r.slot[ROUTER_PREVIOUS][slot].peer);
    uint32_t before = 0;
    EACH_NEIGHBOUR(&pl->mc.r, ROUTER_PREVIOUS, s) before += rng_seed(pl->mc.r.config.self, pl->mc.r.slot[ROUTER_PREVIOUS][s].peer) < mine;
    if (pl->mc.phase.started && !shares) return before == 0 ? HEARS_ALL : HEARS_NOTHING;
    if (few) return before < CARRIERS ? HEARS_ALL : HEARS_NOTHING;
    return before == 0 ? HEARS_ALL : before < BEARERS ? HEARS_OF_ME : HEARS_NOTHING;
}

// False: there is more.
static bool tell(mincost_planner *pl, mincost_upstream *u, router_peer to, hears what) {
    if (u->map_sent_own && what == HEARS_ALL) u->map_sent = 0;
    if (what != HEARS_NOTHING) u->map_sent_own = what == HEARS_OF_ME;
    for (uint32_t i = 0; i < MINCOST_MAP_BURST && what != HEARS_NOTHING; i++) {
        uint32_t until = write_news(pl, to, what, u->map_sent, NULL);
        if (until == u->map_sent) return true;
        outgoing *o = router_post(&pl->mc.r, to, ROUTER_MAP);
        o->why = (uint8_t)what;
        o->extra = u->map_sent;
        u->map_sent = until;
    }
    return what == HEARS_NOTHING || next_news(pl, to, what, u->map_sent) == NULL;
}

// Next neighbours that have not spoken yet are worth waiting for: what they say is told together. But once one data peer steers they tell others, mostly.
static int64_t telling_at(const mincost_planner *pl) {
    if (pl->map->has_loads && pl->mc.phase.started) return pl->map->send_at;
    int64_t listen = pl->epochs.neighbours_changed_at + (pl->map->has_loads ? LISTEN / 2 : LISTEN) * pl->mc.r.config.delay;
    bool all = true;
    EACH_NEIGHBOUR(&pl->mc.r, ROUTER_NEXT, s) all &= find_entry(pl->map, pl->mc.r.slot[ROUTER_NEXT][s].peer) != NULL;
    return all || pl->map->send_at >= listen ? pl->map->send_at : listen;
}

// In a crowd nothing is told, not even again: afterwards all is.
static bool may_tell(mincost_planner *pl) {
    if (pl->map == NULL || is_over(pl)) return false;
    bool before = pl->map->suspended;
    pl->map->suspended = !mincost_map_usable(pl);
    if (before && !pl->map->suspended) {
        EACH_NEIGHBOUR(&pl->mc.r, ROUTER_PREVIOUS, s) upstream_of(&pl->mc, 0, s)->map_sent = 0;
        tell_by(pl, pl->mc.r.now + gathers(pl) * pl->mc.r.config.delay);
        changed(pl);
    }
    return !pl->map->suspended;
}

void mincost_map_tick(mincost_planner *pl) {
    if (!may_tell(pl) || !is_on_it(pl)) return;
    look_at_myself(pl);
    if (pl->map->send_at == ROUTER_NEVER) return;
    int64_t at = telling_at(pl);
    if (pl->mc.r.now < at) {
        router_want(&pl->mc.r, at);
        return;
    }
    bool all = true;
    EACH_NEIGHBOUR(&pl->mc.r, ROUTER_PREVIOUS, s) {
        all &= tell(pl, upstream_of(&pl->mc, 0, s), pl->mc.r.slot[ROUTER_PREVIOUS][s].peer, what_hears(pl, s));
    }
    pl->map->send_at = all ? ROUTER_NEVER : pl->mc.r.now + pl->mc.r.config.delay;
    if (!all) router_want(&pl->mc.r, pl->map->send_at);
}

void mincost_map_link_up(mincost_planner *pl, router_side side) {
    if (pl->map == NULL) return;
    if (side == ROUTER_PREVIOUS) tell_by(pl, pl->mc.r.now + gathers(pl) * pl->mc.r.config.delay);
    if (!is_on_it(pl)) changed(pl);
}

// It may have been the one who carried the map on.
void mincost_map_link_gone(mincost_planner *pl, bool previous) {
    if (pl->map == NULL) return;
    if (previous) tell_by(pl, pl->mc.r.now);
    if (!is_on_it(pl)) changed(pl);
}
