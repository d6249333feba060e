// braid with several data peers: what each relay can carry and what its links cost comes to all data peers, as a map of the run.
//
// Each peer says of itself which next neighbours it has, at what cost, and how much it can carry (a data peer: how much it wants). Its
// previous neighbours keep that and tell their own previous neighbours: so what is said goes upstream only, and a data peer hears of
// all relays that its units can reach, and of the other data peers, which stand behind the last stage. Entries have versions, and the
// newest one counts. What came in is told together a little later, and each link hears each version once.
//
// A relay that has gone is still in the map, but whoever had a link there says that it has none any more.
#include "flow/braid.h"

#include <string.h>

enum {
    // Delays.
    GATHER = 3,   // from the first news until it is told ...
    SOON = 1,     // ... while all wait for it
    LISTEN = 20,  // ... for so long after neighbours came or went not before all next ones have spoken
    LATER = 20,   // until others hear that only costs have changed
    // An entry in the map and in a message, in words.
    PEER = 0,
    VERSION,
    SIZES,  // what it can carry, how often links went that carried units, and how many links it names
    HEAD,   // then next neighbour and cost of each; in the map one word before them, when it came
    NEWS = HEAD,
    TABLE = 4096,
    CARRIERS = 2,  // with one data peer: previous neighbours that carry the map on; one alone may be late
};

_Static_assert(BRAID_MAP_LINKS <= 0x7f && ROUTER_MAX_UNITS <= 0xffff, "sizes fit a word");
_Static_assert(HEAD + 2 * BRAID_MAP_LINKS <= 4 * ROUTER_MAX_PATH, "an entry fits a message");

static uint32_t links_of(const uint32_t *entry) { return entry[SIZES] & 0x7f; }
static uint32_t cuts_of(const uint32_t *entry) { return entry[SIZES] >> 7 & 0x1ff; }
static uint32_t capacity_of(const uint32_t *entry) { return entry[SIZES] >> 16; }
static uint32_t words_of(const uint32_t *entry) { return HEAD + 1 + 2 * links_of(entry); }
static const uint32_t *link_of(const uint32_t *entry, uint32_t i) { return &entry[HEAD + 1 + 2 * i]; }

#define EACH_ENTRY(map, e) for (uint32_t *e = (map)->word; e < (map)->word + (map)->used; e += words_of(e))

static bool newer(uint32_t a, uint32_t than) { return (int32_t)(a - than) > 0; }

bool braid_maps(const braid *b) { return b->map != NULL && b->r.config.relays <= BRAID_CROWD; }

// With one data peer the map is for its first ways only.
static bool is_over(const braid *b) { return b->begun && !braid_shares(&b->r.config); }
// ... and nobody needs to hear of it.
static bool tells(const braid *b) { return !b->r.is_source || braid_shares(&b->r.config); }

static uint32_t *find_entry(braid_map *map, router_peer peer) {
    EACH_ENTRY(map, e) {
        if (e[PEER] == peer) return e;
    }
    return NULL;
}

static void take_out(braid_map *map, uint32_t *entry) {
    uint32_t words = words_of(entry), *end = map->word + map->used;
    memmove(entry, entry + words, (size_t)(end - entry - words) * sizeof *entry);
    map->used -= words;
}

// --- Who is still there ------------------------------------------------------------------------------------------------

// Where each peer's entry is, 1 + its first word, by a hash of the peer; and which entries can be reached.
typedef struct reach {
    uint16_t place[TABLE];
    uint16_t queue[BRAID_MAP_WORDS / (HEAD + 1)];
    uint32_t head, tail;
    uint64_t reached[BRAID_MAP_WORDS / 64];
} reach;

_Static_assert(TABLE > 2 * BRAID_MAP_WORDS / (HEAD + 1) && BRAID_MAP_WORDS % 64 == 0, "the table is never full");

static uint16_t *place_of(reach *r, const braid_map *map, router_peer peer) {
    uint32_t at = peer * 0x9e3779b9u % TABLE;
    while (r->place[at] != 0 && map->word[r->place[at] - 1 + PEER] != peer) at = (at + 1) % TABLE;
    return &r->place[at];
}

static bool is_reached(const reach *r, uint32_t word) { return r->reached[word / 64] >> word % 64 & 1; }

static void reach_peer(reach *r, const braid_map *map, router_peer peer) {
    uint16_t place = *place_of(r, map, peer);
    if (place == 0 || is_reached(r, place - 1u)) return;
    r->reached[(place - 1) / 64] |= (uint64_t)1 << (place - 1) % 64;
    r->queue[r->tail++] = (uint16_t)(place - 1);
}

// Over links from here. The dead may go on naming each other, and whoever makes peers up names them, too.
static void find_reached(const braid *b, reach *r) {
    const braid_map *map = b->map;
    memset(r, 0, sizeof *r);
    for (uint32_t at = 0; at < map->used; at += words_of(&map->word[at])) *place_of(r, map, map->word[at + PEER]) = (uint16_t)(at + 1);
    reach_peer(r, map, b->r.config.self);
    EACH_NEIGHBOUR(&b->r, ROUTER_NEXT, s) reach_peer(r, map, b->r.slot[ROUTER_NEXT][s].peer);
    while (r->head < r->tail) {
        const uint32_t *e = &map->word[r->queue[r->head++]];
        for (uint32_t i = 0; i < links_of(e); i++) reach_peer(r, map, *link_of(e, i));
    }
}

// Takes out whom no link leads to.
static void prune(braid *b) {
    braid_map *map = b->map;
    if (map->pruned_of == map->changes) return;
    reach r;
    find_reached(b, &r);
    uint32_t kept = 0;
    for (uint32_t at = 0, words; at < map->used; at += words) {
        words = words_of(&map->word[at]);
        if (!is_reached(&r, at)) continue;
        memmove(&map->word[kept], &map->word[at], words * sizeof *map->word);
        kept += words;
    }
    if (kept != map->used) map->changes++;
    map->used = kept;
    map->pruned_of = map->changes;
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
    uint32_t *e = find_entry(map, said[PEER]), links = links_of(said);
    if (e != NULL && links_of(e) != links) {
        take_out(map, e);
        e = NULL;
        changed(b);  // whether or not there is room for what is said now
    }
    if (e == NULL) {
        uint32_t words = HEAD + 1 + 2 * links;
        if (map->used + words > BRAID_MAP_WORDS) prune(b);
        if (map->used + words > BRAID_MAP_WORDS) return;
        e = map->word + map->used;
        map->used += words;
    }
    memcpy(e, said, HEAD * sizeof *e);
    memcpy(e + HEAD + 1, said + HEAD, (size_t)links * 2 * sizeof *e);
    e[NEWS] = ++map->news;
    changed(b);
    tell_by(b, b->r.now + delays * b->r.config.delay);
}

static bool is_entry(const uint32_t *said, uint32_t words) {
    if (words < HEAD || said[PEER] == 0 || said[PEER] >= 1u << 31 || capacity_of(said) > ROUTER_MAX_UNITS) return false;
    if (links_of(said) > BRAID_MAP_LINKS || HEAD + 2 * links_of(said) > words) return false;
    for (uint32_t i = 0; i < links_of(said); i++)
        if (said[HEAD + 2 * i] == 0 || said[HEAD + 2 * i + 1] > ROUTER_MAX_COST) return false;
    return true;
}

// Who says it of itself, over a link to it, is right whatever was known.
void braid_on_map(braid *b, const router_message *m) {
    if (b->map == NULL || is_over(b)) return;
    for (uint32_t at = 0; at < m->length;) {
        const uint32_t *said = &m->u.word[at];
        if (!is_entry(said, m->length - at)) return;
        at += HEAD + 2 * links_of(said);
        const uint32_t *e = find_entry(b->map, said[PEER]);
        bool better = e == NULL || newer(said[VERSION], e[VERSION]) ||
                      (said[PEER] == m->from && said[VERSION] != e[VERSION]);
        if (said[PEER] != b->r.config.self && better) keep(b, said, gathers(b));
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
        said[HEAD + 2 * n] = b->r.slot[ROUTER_NEXT][s].peer;
        said[HEAD + 2 * n + 1] = (uint32_t)(cost < 0 ? 0 : cost > ROUTER_MAX_COST ? ROUTER_MAX_COST : cost);
        n++;
    }
    return n;
}

// Versions follow the time, so that who comes back with the same number is newer than it was.
static uint32_t next_version(const braid *b, const uint32_t *e) {
    uint32_t version = (uint32_t)(b->r.now / b->r.config.delay);
    return e != NULL && !newer(version, e[VERSION]) ? e[VERSION] + 1 : version;
}

static void look_at_myself(braid *b) {
    uint32_t said[HEAD + 2 * BRAID_MAP_LINKS], links = write_links(b, said);
    const uint32_t *e = find_entry(b->map, b->r.config.self);
    said[PEER] = b->r.config.self;
    said[SIZES] = b->r.config.capacity << 16 | (b->map->cuts & 0x1ff) << 7 | links;
    bool same = e != NULL && e[SIZES] == said[SIZES], same_costs = same;
    for (uint32_t i = 0; same && i < links; i++) {
        same &= link_of(e, i)[0] == said[HEAD + 2 * i];
        same_costs &= link_of(e, i)[1] == said[HEAD + 2 * i + 1];
    }
    if (same && same_costs) return;
    said[VERSION] = next_version(b, e);
    keep(b, said, same ? LATER : gathers(b));
}

// --- Telling -----------------------------------------------------------------------------------------------------------

// A data peer's neighbours before it are other data peers' last stage: what those know it has from them.
static bool tells_of(const braid *b, const uint32_t *e, router_peer to) {
    return e[PEER] != to && (!b->r.is_source || e[PEER] == b->r.config.self);
}

// The next that a previous neighbour is to hear when it has heard all news until `told`.
static const uint32_t *next_news(const braid *b, router_peer to, uint32_t told) {
    const uint32_t *next = NULL;
    EACH_ENTRY(b->map, e) {
        if (newer(e[NEWS], told) && tells_of(b, e, to) && (next == NULL || newer(next[NEWS], e[NEWS]))) next = e;
    }
    return next;
}

// Puts as much as fits after `told` into `m` (NULL: only counts); returns until where that is.
static uint32_t write_news(const braid *b, router_peer to, uint32_t told, router_message *m) {
    uint32_t words = 0;
    for (const uint32_t *e; (e = next_news(b, to, told)) != NULL; told = e[NEWS]) {
        uint32_t links = 2 * links_of(e);
        if (words + HEAD + links > sizeof m->u.word / sizeof *m->u.word) break;
        if (m != NULL) {
            memcpy(m->u.word + words, e, HEAD * sizeof *e);
            memcpy(m->u.word + words + HEAD, e + HEAD + 1, links * sizeof *e);
        }
        words += HEAD + links;
    }
    if (m != NULL) m->length = (uint16_t)words;
    return told;
}

void braid_map_compose(const braid *b, const outgoing *from, router_message *out) {
    write_news(b, from->to, from->extra, out);
}

// With several data peers all that is said must come to all of them. To the only one two ways are enough: by chance, so that nobody
// carries much more than others.
static bool carries_on(const braid *b, uint32_t slot) {
    if (braid_shares(&b->r.config)) return true;
    uint64_t mine = rng_seed(b->r.config.self, b->r.slot[ROUTER_PREVIOUS][slot].peer);
    uint32_t before = 0;
    EACH_NEIGHBOUR(&b->r, ROUTER_PREVIOUS, s) before += rng_seed(b->r.config.self, b->r.slot[ROUTER_PREVIOUS][s].peer) < mine;
    return before < CARRIERS;
}

// False: there is more.
static bool tell(braid *b, braid_up *u, router_peer to) {
    for (uint32_t i = 0; i < BRAID_MAP_AT_ONCE; i++) {
        uint32_t until = write_news(b, to, u->told, NULL);
        if (until == u->told) return true;
        router_post(&b->r, to, ROUTER_MAP)->extra = u->told;
        u->told = until;
    }
    return next_news(b, to, u->told) == NULL;
}

// Next neighbours that have not spoken yet are worth waiting for: what they say is told together.
static int64_t telling_at(const braid *b) {
    int64_t listen = b->changed_since + LISTEN * b->r.config.delay;
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
    if (!may_tell(b)) return;
    look_at_myself(b);
    if (b->map->tell_at == ROUTER_NEVER || !tells(b)) return;
    int64_t at = telling_at(b);
    if (b->r.now < at) {
        router_want(&b->r, at);
        return;
    }
    bool all = true;
    EACH_NEIGHBOUR(&b->r, ROUTER_PREVIOUS, s) {
        if (carries_on(b, s)) all &= tell(b, up_of(b, 0, s), b->r.slot[ROUTER_PREVIOUS][s].peer);
    }
    b->map->tell_at = all ? ROUTER_NEVER : b->r.now + b->r.config.delay;
    if (!all) router_want(&b->r, b->map->tell_at);
}

// Units went over it: those in force are not there any more, even if the same link comes back at once.
void braid_map_cut(braid *b) {
    if (b->map != NULL) b->map->cuts++;
}

void braid_map_link_up(braid *b, router_side side) {
    if (b->map != NULL && side == ROUTER_PREVIOUS) tell_by(b, b->r.now + gathers(b) * b->r.config.delay);
}

// It may have been the one who carried the map on.
void braid_map_link_gone(braid *b, bool previous) {
    if (previous && b->map != NULL && !braid_shares(&b->r.config)) tell_by(b, b->r.now);
}

// --- For ways ----------------------------------------------------------------------------------------------------------

int64_t braid_map_changed_at(const braid *b) { return braid_maps(b) ? b->map->changed_at : b->r.now; }

static bool draw_entry(const braid *b, const uint32_t *e) {
    bool is_source = router_names_source(&b->r.config, e[PEER]);
    if (!ways_peer(b->ways, e[PEER], capacity_of(e), cuts_of(e), is_source)) return false;
    for (uint32_t i = 0; i < links_of(e); i++)
        if (!ways_link(b->ways, link_of(e, i)[0], link_of(e, i)[1])) return false;
    return true;
}

bool braid_map_closed(const braid *b) {
    reach r;
    bool home = false;
    find_reached(b, &r);
    EACH_NEIGHBOUR(&b->r, ROUTER_NEXT, s) {
        if (*place_of(&r, b->map, b->r.slot[ROUTER_NEXT][s].peer) == 0) return false;
    }
    for (uint32_t q = 0; q < r.tail; q++) {
        const uint32_t *e = &b->map->word[r.queue[q]];
        for (uint32_t i = 0; i < links_of(e); i++) {
            router_peer to = *link_of(e, i);
            if (to == b->r.config.self)
                home = true;
            else if (*place_of(&r, b->map, to) == 0)
                return false;
        }
    }
    return home;
}

// Gives all that can be reached to b->ways, by rising peers. False: it is too much.
bool braid_map_draw(braid *b) {
    ways_clear(b->ways);
    if (!braid_maps(b)) return false;
    reach r;
    find_reached(b, &r);
    for (router_peer last = 0;;) {
        const uint32_t *next = NULL;
        EACH_ENTRY(b->map, e) {
            if (e[PEER] > last && (next == NULL || e[PEER] < next[PEER]) && is_reached(&r, (uint32_t)(e - b->map->word))) next = e;
        }
        if (next == NULL) return true;
        if (!draw_entry(b, next)) return false;
        last = next[PEER];
    }
}
