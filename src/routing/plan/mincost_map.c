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
    if (braid_shares(c)) return BRAID_CROWD;
    if (!router_names_source(c, c->self)) return UINT32_MAX;
    uint32_t relays = c->relays > BRAID_CROWD ? c->relays : BRAID_CROWD;
    return relays < BRAID_LONE_CROWD ? relays : BRAID_LONE_CROWD;
}

static uint32_t limit_of(const router_config *c) {
    if (router_names_source(c, c->self)) return (crowd_of(c) * BRAID_RELAY_WORDS + 63) / 64 * 64;
    return braid_shares(c) ? BRAID_SHARED_WORDS : BRAID_CARRIED_WORDS;
}

size_t braid_map_lone_bytes(const router_config *c) { return lone_bytes(crowd_of(c) + 1, limit_of(c) / 2 + c->max_neighbours); }
lone *braid_map_lone_init(const router_config *c, void *memory) { return lone_init(memory, crowd_of(c) + 1, limit_of(c) / 2 + c->max_neighbours); }

braid_map *braid_map_lay_out(const router_config *c, arena *a) {
    uint32_t words = limit_of(c);
    bool indexed = router_names_source(c, c->self);
    braid_index x = {.table = map_index_table(words), .salt = c->seed};
    braid_map *map = arena_take(a, sizeof *map);
    uint32_t *word = arena_take(a, words * sizeof *word);
    if (indexed) {
        x.place = arena_take(a, x.table * sizeof *x.place);
        x.queue = arena_take(a, map_max_entries(words) * sizeof *x.queue);
        x.reached = arena_take(a, words / 64 * sizeof *x.reached);
    }
    if (map == NULL) return NULL;
    *map = (braid_map){.limit = words, .word = word, .crowd = crowd_of(c), .loads = !braid_shares(c), .tell_at = ROUTER_NEVER, .changes = 1};
    if (!indexed) return map;
    map->index = x;
    map_index_all(&map->index, map);
    return map;
}

bool braid_maps(const braid *b) { return b->map != NULL && b->r.config.relays <= b->map->crowd; }

// With one data peer the map is for as long as that one steers.
static bool is_over(const braid *b) { return b->begun && !braid_shares(&b->r.config) && !braid_is_steered(b); }
// ... and it need not be on it.
static bool is_on_it(const braid *b) { return !b->r.is_source || braid_shares(&b->r.config); }

static uint32_t *find_entry(braid_map *map, router_peer peer) {
    if (map->index.place != NULL) {
        uint32_t place = *map_place(&map->index, map, peer);
        return place == 0 ? NULL : &map->word[place - 1];
    }
    EACH_ENTRY(map, e) {
        if (e[MAP_PEER] == peer) return e;
    }
    return NULL;
}

static void take_out(braid_map *map, uint32_t *entry) {
    uint32_t words = words_of(map, entry), *end = map->word + map->used;
    memmove(entry, entry + words, (size_t)(end - entry - words) * sizeof *entry);
    map->used -= words;
    if (map->index.place != NULL) map_index_all(&map->index, map);
}

// NULL: there is no room for it.
static uint32_t *put_in(braid *b, router_peer peer, uint32_t words) {
    braid_map *map = b->map;
    if (map->used + words > map->limit) braid_map_prune(b);
    if (map->used + words > map->limit) return NULL;
    uint32_t *e = map->word + map->used;
    if (map->index.place != NULL) *map_place(&map->index, map, peer) = map->used + 1;
    map->used += words;
    return e;
}

// --- What is known -----------------------------------------------------------------------------------------------------

// How long news waits for more of it.
static int64_t gathers(const braid *b) { return braid_waits(b) ? SOON : GATHER; }

static void tell_by(braid *b, int64_t at) {
    if (at < b->map->tell_at) b->map->tell_at = at;
}

static void changed(braid *b) {
    b->map->changes++;
    b->map->changed_at = b->r.now;
}

// `said`: an entry as in a message.
static void keep(braid *b, const uint32_t *said, int64_t delays) {
    braid_map *map = b->map;
    uint32_t *e = find_entry(map, said[MAP_PEER]), words = told_words(map, said);
    if (e != NULL && told_words(map, e) != words) {
        take_out(map, e);
        e = NULL;
        changed(b);  // whether or not there is room for what is said now
    }
    if (e == NULL) e = put_in(b, said[MAP_PEER], 1 + words);
    if (e == NULL) return;
    memcpy(e, said, MAP_HEAD * sizeof *e);
    memcpy(e + MAP_HEAD + 1, said + MAP_HEAD, (words - MAP_HEAD) * sizeof *e);
    e[MAP_NEWS] = ++map->news;
    changed(b);
    tell_by(b, b->r.now + delays * b->r.config.delay);
}

static bool is_entry(const braid_map *map, const uint32_t *said, uint32_t words) {
    if (words < MAP_HEAD || said[MAP_PEER] == 0 || said[MAP_PEER] >= 1u << 31 || capacity_of(said) > ROUTER_MAX_UNITS) return false;
    if (links_of(said) > BRAID_MAP_LINKS || loads_of(map, said) > MAP_LOADS || told_words(map, said) > words) return false;
    for (uint32_t i = 0; i < links_of(said); i++)
        if (said[MAP_HEAD + 2 * i] == 0 || said[MAP_HEAD + 2 * i + 1] > ROUTER_MAX_COST) return false;
    for (uint32_t i = MAP_HEAD + 2 * links_of(said); i < told_words(map, said); i++)
        if (said[i] >> 16 >= links_of(said) || (said[i] & 0xffff) > ROUTER_MAX_UNITS) return false;
    return true;
}

// Who says it of itself, over a link to it, is right whatever was known.
void braid_on_map(braid *b, const router_message *m) {
    if (b->map == NULL || is_over(b)) return;
    for (uint32_t at = 0; at < m->length;) {
        const uint32_t *said = &m->u.word[at];
        if (!is_entry(b->map, said, m->length - at)) return;
        at += told_words(b->map, said);
        const uint32_t *e = find_entry(b->map, said[MAP_PEER]);
        bool better = e == NULL || newer(said[MAP_VERSION], e[MAP_VERSION]) ||
                      (said[MAP_PEER] == m->from && said[MAP_VERSION] != e[MAP_VERSION]);
        if (said[MAP_PEER] != b->r.config.self && better) keep(b, said, gathers(b));
    }
}

// --- Of myself ---------------------------------------------------------------------------------------------------------

// The cheapest links, if they are too many; by rising peers.
static uint32_t write_links(const braid *b, uint32_t *said) {
    uint32_t n = 0;
    EACH_NEIGHBOUR(&b->r, ROUTER_NEXT, s) {
        int64_t cost = link_cost(b, ROUTER_NEXT, s);
        uint32_t cheaper = 0;
        EACH_NEIGHBOUR(&b->r, ROUTER_NEXT, t) cheaper += link_cost(b, ROUTER_NEXT, t) < cost;
        if (cheaper >= BRAID_MAP_LINKS || n == BRAID_MAP_LINKS) continue;
        said[MAP_HEAD + 2 * n] = b->r.slot[ROUTER_NEXT][s].peer;
        said[MAP_HEAD + 2 * n + 1] = (uint32_t)map_cost(cost);
        n++;
    }
    return n;
}

// Versions follow the time, so that who comes back with the same number is newer than it was.
static uint32_t next_version(const braid *b, const uint32_t *e) {
    uint32_t version = (uint32_t)(b->r.now / b->r.config.delay);
    return e != NULL && !newer(version, e[MAP_VERSION]) ? e[MAP_VERSION] + 1 : version;
}

// What my links carry. Few do, and all of those are named.
static void write_loads(const braid *b, uint32_t *said, uint32_t links) {
    uint32_t n = 0;
    int32_t told = 0;
    for (uint32_t i = 0; i < links && n < MAP_LOADS; i++) {
        int slot = router_slot(&b->r, ROUTER_NEXT, said[MAP_HEAD + 2 * i]);
        int32_t out = down_of(b, 0, (uint32_t)slot)->out;
        if (out > 0) said[MAP_HEAD + 2 * links + n++] = load_word(i, (uint32_t)out);
        told += out;
    }
    braid_count(b, 0);
    said[MAP_SIZES] |= (n | (told < b->commodity[0].links_out ? MAP_MORE : 0)) << 7;
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

static bool same_loads(const braid *b, const uint32_t *e, const uint32_t *said) {
    bool same = cuts_of(e) == cuts_of(said);
    for (uint32_t i = 0; same && i < loads_of(b->map, said); i++) same = *load_of(e, i) == said[MAP_HEAD + 2 * links_of(said) + i];
    return same;
}

static void look_at_myself(braid *b) {
    uint32_t said[MAP_HEAD + 2 * BRAID_MAP_LINKS + MAP_LOADS], links = write_links(b, said);
    const uint32_t *e = find_entry(b->map, b->r.config.self);
    said[MAP_PEER] = b->r.config.self;
    said[MAP_SIZES] = b->r.config.capacity << 16 | links;
    if (b->map->loads)
        write_loads(b, said, links);
    else
        said[MAP_SIZES] |= (b->map->cuts & 0x1ff) << 7;
    int64_t delays = LATER;
    if (!same_links(e, said) || !same_loads(b, e, said))
        delays = b->map->loads && b->begun ? MENDED : gathers(b);
    else if (same_costs(e, said))
        return;
    said[MAP_VERSION] = next_version(b, e);
    keep(b, said, delays);
}

// --- Telling -----------------------------------------------------------------------------------------------------------

// What a previous neighbour is to hear.
typedef enum hears { HEARS_NOTHING, HEARS_OF_ME, HEARS_ALL } hears;

// A data peer's neighbours before it are other data peers' last stage: what those know it has from them.
static bool tells_of(const braid *b, const uint32_t *e, router_peer to, hears what) {
    return e[MAP_PEER] != to && ((what == HEARS_ALL && !b->r.is_source) || e[MAP_PEER] == b->r.config.self);
}

// The next that it is to hear when it has heard all news until `told`.
static const uint32_t *next_news(const braid *b, router_peer to, hears what, uint32_t told) {
    const uint32_t *next = NULL;
    EACH_ENTRY(b->map, e) {
        if (newer(e[MAP_NEWS], told) && tells_of(b, e, to, what) && (next == NULL || newer(next[MAP_NEWS], e[MAP_NEWS]))) next = e;
    }
    return next;
}

// Puts as much as fits after `told` into `m` (NULL: only counts); returns until where that is.
static uint32_t write_news(const braid *b, router_peer to, hears what, uint32_t told, router_message *m) {
    uint32_t words = 0;
    for (const uint32_t *e; (e = next_news(b, to, what, told)) != NULL; told = e[MAP_NEWS]) {
        uint32_t more = told_words(b->map, e);
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

void braid_map_compose(const braid *b, const outgoing *from, router_message *out) {
    out->why = 0;
    write_news(b, from->to, (hears)from->why, from->extra, out);
}

// All must come to all data peers. With few relays and one data peer two previous neighbours carry everything on. Where relays are many
// one does, and two more hear of me: so each word goes three ways, over one neighbour at a time. Who it is, chance says, so that
// nobody carries much more than others. What is news once units are under way nobody waits for, and one alone carries it.
static hears what_hears(const braid *b, uint32_t slot) {
    bool few = b->r.config.relays <= BRAID_FEW, shares = braid_shares(&b->r.config);
    if (shares && (few || router_names_source(&b->r.config, b->r.slot[ROUTER_PREVIOUS][slot].peer))) return HEARS_ALL;
    uint64_t mine = rng_seed(b->r.config.self, b->r.slot[ROUTER_PREVIOUS][slot].peer);
    uint32_t before = 0;
    EACH_NEIGHBOUR(&b->r, ROUTER_PREVIOUS, s) before += rng_seed(b->r.config.self, b->r.slot[ROUTER_PREVIOUS][s].peer) < mine;
    if (b->begun && !shares) return before == 0 ? HEARS_ALL : HEARS_NOTHING;
    if (few) return before < CARRIERS ? HEARS_ALL : HEARS_NOTHING;
    return before == 0 ? HEARS_ALL : before < BEARERS ? HEARS_OF_ME : HEARS_NOTHING;
}

// False: there is more.
static bool tell(braid *b, braid_up *u, router_peer to, hears what) {
    if (u->told_of_me && what == HEARS_ALL) u->told = 0;
    if (what != HEARS_NOTHING) u->told_of_me = what == HEARS_OF_ME;
    for (uint32_t i = 0; i < BRAID_MAP_AT_ONCE && what != HEARS_NOTHING; i++) {
        uint32_t until = write_news(b, to, what, u->told, NULL);
        if (until == u->told) return true;
        outgoing *o = router_post(&b->r, to, ROUTER_MAP);
        o->why = (uint8_t)what;
        o->extra = u->told;
        u->told = until;
    }
    return what == HEARS_NOTHING || next_news(b, to, what, u->told) == NULL;
}

// Next neighbours that have not spoken yet are worth waiting for: what they say is told together. But once one data peer steers they tell others, mostly.
static int64_t telling_at(const braid *b) {
    if (b->map->loads && b->begun) return b->map->tell_at;
    int64_t listen = b->changed_since + (b->map->loads ? LISTEN / 2 : LISTEN) * b->r.config.delay;
    bool all = true;
    EACH_NEIGHBOUR(&b->r, ROUTER_NEXT, s) all &= find_entry(b->map, b->r.slot[ROUTER_NEXT][s].peer) != NULL;
    return all || b->map->tell_at >= listen ? b->map->tell_at : listen;
}

// In a crowd nothing is told, not even again: afterwards all is.
static bool may_tell(braid *b) {
    if (b->map == NULL || is_over(b)) return false;
    bool before = b->map->crowded;
    b->map->crowded = !braid_maps(b);
    if (before && !b->map->crowded) {
        EACH_NEIGHBOUR(&b->r, ROUTER_PREVIOUS, s) up_of(b, 0, s)->told = 0;
        tell_by(b, b->r.now + gathers(b) * b->r.config.delay);
        changed(b);
    }
    return !b->map->crowded;
}

void braid_map_tick(braid *b) {
    if (!may_tell(b) || !is_on_it(b)) return;
    look_at_myself(b);
    if (b->map->tell_at == ROUTER_NEVER) return;
    int64_t at = telling_at(b);
    if (b->r.now < at) {
        router_want(&b->r, at);
        return;
    }
    bool all = true;
    EACH_NEIGHBOUR(&b->r, ROUTER_PREVIOUS, s) {
        all &= tell(b, up_of(b, 0, s), b->r.slot[ROUTER_PREVIOUS][s].peer, what_hears(b, s));
    }
    b->map->tell_at = all ? ROUTER_NEVER : b->r.now + b->r.config.delay;
    if (!all) router_want(&b->r, b->map->tell_at);
}

// Units went over it: those in force are not there any more, even if the same link comes back at once.
void braid_map_cut(braid *b) {
    if (b->map != NULL) b->map->cuts++;
}

void braid_map_link_up(braid *b, router_side side) {
    if (b->map == NULL) return;
    if (side == ROUTER_PREVIOUS) tell_by(b, b->r.now + gathers(b) * b->r.config.delay);
    if (!is_on_it(b)) changed(b);
}

// It may have been the one who carried the map on.
void braid_map_link_gone(braid *b, bool previous) {
    if (b->map == NULL) return;
    if (previous) tell_by(b, b->r.now);
    if (!is_on_it(b)) changed(b);
}

int64_t braid_map_changed_at(const braid *b) { return braid_maps(b) ? b->map->changed_at : b->r.now; }
