// Our algorithm: distributed cancelling of negative cycles. docs/routing.md explains it; this is one peer's state.
//
// Link counters have one owner, the upstream peer (`out`). The downstream peer keeps a mirror (`in`) that only the owner's
// word sets, and hands units back by cumulative counts. Excess (more comes in than goes out) and deficit (less) are derived
// from the counters at each step, never queued.
#ifndef BRAID_ROUTING_BRAID_H
#define BRAID_ROUTING_BRAID_H

#include "base/err.h"
#include "routing/core/router_internal.h"
#include "routing/plan/single_source.h"
#include "routing/plan/multi_source.h"

enum {
    BRAID_RESERVATIONS = 32,  // of tokens on their way through here; a token too many is turned away
    BRAID_FEW = 128,          // relays of a run; with more of them each carries the map on to one (braid_map.c)
    BRAID_CROWD = ROUTER_CROWD,  // ... with more of them several data peers do not plan
    BRAID_LONE_CROWD = 65536,  // ... of one
    BRAID_TRIES = 2,          // drafts that may be begun in vain on one map
    BRAID_SPAN = 1 << 9,      // eras that are about one flow at most (braid_mode.c)
    BRAID_MAP_LINKS = 64,     // that a peer says of itself
    BRAID_MAP_AT_ONCE = 4,    // messages of it to one neighbour in a delay
    BRAID_RELAY_WORDS = 48,   // of a data peer's map for each relay, which names 16 links; and more that data peers need for themselves
    BRAID_CARRIED_WORDS = 8192,  // of a relay's map: what it carries on, some 16 entries, 200 at the worst in the largest swarms; where stages are very uneven that is too little, and nobody steers;
    BRAID_SHARED_WORDS = 24576,  // ... with several data peers all of a crowd: where a stage has few relays, they carry what all others say
    BRAID_WAY_WORDS = 1024,   // of ways and hints that are about to go on from here
    BRAID_HINTED = 4,         // cycles that a data peer remembers (braid_steer.c)
    BRAID_SAID = 8,           // own labels remembered to notice flapping
    BRAID_FLAPS_FREE = 3,     // repeats before the hold-down grows
    BRAID_FLAPS_MAX = BRAID_FLAPS_FREE + 5,
    BRAID_EARLY = 40,         // delays
    BRAID_MATURE = 80,        // delays after the early ones
};

#define BRAID_BIG       ((int64_t)1 << 40)     // what one more unit is worth: more than any cycle of links can cost
#define BRAID_BIG_LOADS ((int64_t)1 << 50)     // ... with the objective worst
#define BRAID_DEFICIT   (-((int64_t)1 << 37))  // the distance that a peer in deficit advertises: it is filled first
#define BRAID_NOWHERE   ((int64_t)1 << 56)     // no way
#define BRAID_TOTALS    ((uint32_t)1 << 31)    // what counts for as long as a link lives goes round here
#define BRAID_LAST_ERA  ((int64_t)1 << 30)
#define BRAID_LAST_PLAN ((uint32_t)INT32_MAX)
#define BRAID_NO_BID    ((int64_t)0)           // there is no other way, or none is known
#define BRAID_UNTOLD    (-((int64_t)1 << 57))  // the next advert goes out whatever it says

enum { BRAID_AS_IT_IS, BRAID_NO_GAIN };  // outgoing.extra of a LABEL: what it will say
enum { BRAID_ERA = 2 };                   // why a QUERY was sent
// Why a FLOW was.
enum { BRAID_PUSHED, BRAID_TOOK_BACK, BRAID_CANCELLED, BRAID_APPLIED, BRAID_REFUSED, BRAID_BID = 6 };

// The cheapest residual walk from a half, never above 0 (the empty walk). Costs are from each half of the path on.
typedef struct braid_label {
    int64_t cost;
    uint32_t length;
    uint32_t near;      // of a neighbour's: the steps that lead over neighbours of mine (braid_near.c)
    uint64_t owners;    // of its halves, a bit for each (router_bit): most walks do not lead over a peer, and this says so
    router_half *half;  // [braid.label_limit], in the router's memory
    int64_t *at;
    int64_t since;  // it came, or mine became what it is
} braid_label;

// A previous neighbour and one commodity. What is read of all neighbours at once is in arrays of its own: braid_arc, braid_told, braid_advert.
typedef struct braid_up {
    braid_label label;            // its O half's
    int32_t in;                   // what it says it sends me
    uint32_t denied, denied_ack;  // handed back in total; of which it has taken note (both modulo BRAID_TOTALS)
    int32_t going;                // removals I committed that it has not confirmed
    int32_t reserved;             // by tokens, to be taken off

    int64_t said_at;  // it heard of my label

    int64_t bid;         // what the way home from here may cost before it sends its units elsewhere
    uint32_t era;        // braid_mode.c: it says that it is in (of commodity 0)
    int32_t kept;        // units that come from it while there is a draft
    uint32_t told;       // braid_map.c: it has heard all that came until then ...
    bool told_of_me;     // ... of me only
} braid_up;

// A next neighbour and one commodity.
typedef struct braid_down {
    braid_label label;     // its I half's
    int32_t out;           // units I send it: I own this number
    int32_t owed;          // hand-backs still to do
    int32_t reserved;      // by tokens, to be taken off

    int64_t said_bid;
    int64_t virtual_time;  // swarm's, if weighted

    uint32_t denied_done;      // done in total, modulo BRAID_TOTALS
    uint32_t era;              // braid_mode.c: it says that it is in (of commodity 0)
    int32_t adding;            // units that tokens reserved to put on it
    int32_t kept;              // units that go there while there is a draft
    uint16_t scale, heaviest;  // with the objective worst, as it says: steps of braid_worst.c
} braid_down;

// What a search for walks reads of each link, side by side; it reads a link itself where this says that it may count.
typedef struct braid_arc {
    int64_t cost;   // of the walk that goes on with its label, without slack; BRAID_ASK
    int64_t since;  // of that label; ROUTER_NEVER: it does not settle
} braid_arc;

#define BRAID_ASK INT64_MIN  // the walk leads over me, or what a unit costs depends on how many there are

// What a neighbour has heard of my label: a previous one of my I half's, a next one of my O half's.
typedef struct braid_told {
    uint64_t word;       // its hash; 0: no gain
    int64_t cost;
    int64_t news_since;  // with one data peer: my label is another one; BRAID_NEVER_SINCE: it is not
    int64_t floor;       // the label of the O half at the upstream end settled at that, and is never above it again, as I heard or said
    bool way;            // more than its first half
} braid_told;

// What an advert says: a next neighbour's to me, mine to a previous one.
typedef struct braid_advert {
    int64_t distance;  // from there to the sink through free peers
    int32_t room;      // what it would take
    uint32_t scale;    // braid_scale_word; of mine only
} braid_advert;

// A visit of a token: a run of one peer's halves on the cycle.
typedef enum braid_entry { BRAID_STARTS, BRAID_FROM_PREVIOUS, BRAID_FROM_NEXT } braid_entry;
typedef enum braid_exit { BRAID_ENDS, BRAID_TO_NEXT, BRAID_TO_PREVIOUS } braid_exit;

typedef struct braid_visit {
    router_token token;
    uint8_t k;
    uint8_t entry, exit;   // braid_entry, braid_exit
    bool adds, drops;      // passes I -> O: one more unit is carried; O -> I: one less
    uint16_t first, last;  // positions on the cycle
    uint16_t length;
    router_peer before, after;  // on the cycle; 0: none
    int32_t units;
    int64_t lease;
    router_half cycle[ROUTER_MAX_CYCLE];
} braid_visit;

// A removal of inflow that I committed and the owner of the counter has not confirmed.
typedef struct braid_going {
    router_token token;
    uint16_t position;
    uint8_t k;
    uint16_t slot;
    int32_t units;
} braid_going;

// Each bit of a set, as it was in the beginning, rising.
#define EACH_OF(set, i) for (uint32_t i##_left = (set), i = 0; i##_left != 0 && (i = (uint32_t)__builtin_ctz(i##_left), true); i##_left &= i##_left - 1)
_Static_assert(BRAID_RESERVATIONS == 32, "braid.visits and .goings have a bit for each");

// What was found when labels were looked for last (braid_label.c). While all that it depends on is as it was the same would be found.
typedef struct braid_calm {
    bool known;
    bool room, settled, mature;  // what it depends on, apart from what has to tell (braid_stir, braid_label_came)
    uint32_t settlings;
    int64_t slack;
    int64_t until;     // then some label may settle
    uint64_t watched;  // peers whose labels may contradict a walk that was considered (router_bit)
    struct {
        router_peer direct, through;  // the neighbours over which the best walks from my half on that side go
        int64_t direct_cost, through_cost;
    } best[2];         // by side
} braid_calm;

// What a router has to tell its neighbours of its labels, as was seen when it spoke last.
typedef enum braid_news {
    BRAID_MAYBE_NEWS,
    BRAID_NO_WARNING,  // no way became dearer
    BRAID_NO_NEWS      // nothing before hush_until, or before it is mature if it was not (hushed_mature)
} braid_news;

typedef struct braid_commodity {
    // What a label that comes reads.
    braid_calm calm;
    bool arcs_known;              // of all links, their labels and what they cost
    bool counted;                 // the next two are what the links' counters add up to
    bool cancelled;               // the deficit comes from a cancel: no use in waiting
    bool advertised;              // no advert is due until something changes (stir_one, on_advert)
    bool hushed_mature;
    braid_news news;
    int32_t links_in, links_out;
    int64_t hush_until;
    int64_t stuck_since, deficit_since;  // BRAID_NEVER_SINCE: not so
    // What a search for walks does.
    braid_label in, out;          // labels of my halves
    int64_t in_floor, out_floor;  // what these have been for so long that no walk needs to show it
    uint64_t in_hash, out_hash;
    router_peer in_choice, out_choice;  // next hops of those labels, kept on ties
} braid_commodity;

#define BRAID_NEVER_SINCE INT64_MIN

// Where each peer's entry of a map is, by a hash of the peer, and who can be reached (braid_reach.c).
typedef struct braid_index {
    uint32_t table;     // a power of two
    uint64_t salt;      // of the hash: whoever makes peers up must not be able to choose such that all lie in one place
    uint32_t *place;    // [table]
    uint32_t *queue;    // of entries that can be reached
    uint32_t head, tail;
    uint64_t *reached;  // a bit for each word of the map
} braid_index;

// What is known of peers (braid_map.c).
typedef struct braid_map {
    uint32_t used, limit, news;  // words; that there is room for; changes so far
    uint32_t crowd;       // relays of a run of which nothing is told: more than that
    uint32_t cuts;        // next neighbours that went while units went there
    int64_t tell_at;      // ROUTER_NEVER: all has been told
    int64_t changed_at;
    uint32_t changes, pruned_of;  // of what is known, at least 1; when it was last tidied up
    uint32_t closed_of;   // when braid_map_closed was asked last
    bool closed;
    bool crowded;         // nothing was told for a while
    bool loads;           // entries say what links carry (one data peer)
    braid_index index;    // of a data peer; place NULL: a relay looks through its few entries one after the other
    uint32_t *word;
} braid_map;

typedef struct braid {
    router r;
    // What most ticks read comes first, and what most do not touch last: in a large simulation each line of memory is far away.
    braid_up *up;  // [commodity * max_neighbours + slot]
    braid_down *down;
    braid_arc *arc;  // [(commodity * 2 + side) * max_neighbours + slot], and so are the next three
    braid_told *told;
    braid_advert *advert;
    bool *carries;   // units, when they were counted
    char *steps;     // of all labels, mine first (braid.c)
    braid_commodity *commodity;
    uint32_t label_limit;      // halves in a label here
    uint32_t era;              // braid_mode.c
    braid_map *map;            // NULL: one data peer that plans nothing
    int64_t mean;              // cost of a link here, at the last tick
    uint64_t balanced_at;      // router_moves when nothing was left to be mended; 0: something is
    int64_t speak_at;          // hold-down
    int64_t back_off_until;
    int64_t building_until;
    int64_t era_since;         // it began
    int64_t placed_since, placed_at;  // units were pushed to me or handed back to me, the first time and the last
    int64_t repaired_since, repaired_at;  // the latest repair near by: its first step, its last one
    int32_t add, drop;         // load that tokens reserved to add and to take off
    int32_t coming_in, coming_out;  // my token is committed and on its way home: inflow to come, outflow to go
    uint32_t settlings;        // of labels, since links, counters or the mean cost changed here
    uint32_t flaps;
    uint32_t visits, goings;   // which of those below are in use, a bit for each
    bool worst;        // the objective: what a unit on a link costs depends on how many there are
    bool mature;       // braid_mature
    bool greedy;       // swarm: the same ledger without labels and tokens; a unit goes where it is cheapest from here
    bool drafts, keeps;  // counters are a draft's; the flow that was in force before it has been kept
    bool out;          // my own token, one at a time
    uint8_t own_k;
    bool cycle_waits;  // a negative cycle is known, and my token or the back-off is in the way

    uint16_t scale, heaviest;  // braid_worst.c
    uint32_t said_next;
    uint64_t said[BRAID_SAID];
    uint32_t serial, failures;  // of my tokens

    // braid_mode.c
    uint32_t tries, plan;  // tries: drafts that may still be begun; plan: whose ways it is about, 0: none
    int64_t changed_since;      // the last neighbour came or went
    bool tells;                 // some neighbours may not know of the era
    bool rests;                 // a data peer: nothing is under way, and what leaves comes home
    int64_t rests_since;        // ... or not
    int32_t rested_out, wished; // units that left then; that it wanted when the draft began

    // braid_begin.c
    bool begun, sends;    // sends: a lone data peer, there are ways to be sent still
    bool free;            // braid_steer.c: nobody steers, everybody looks for cycles
    int64_t open_since;   // a data peer: units could go; BRAID_NEVER_SINCE: not so
    int64_t spread_until; // planned ways may be under way until then

    // braid_steer.c, of the data peer
    uint32_t steered_of;  // of map->changes,
    uint64_t steered_at;  // ... and router_moves, when cycles were looked for last
    int64_t steers_again; // ROUTER_NEVER: none was found
    uint32_t in_vain;     // searches that found first what had been found before, less those that did not
    uint64_t hinted[BRAID_HINTED];  // cycles that were found last

    // braid_map.c, braid_draft.c
    ways *ways;            // a data peer that is not the only one
    lone *lone;            // ... that is
    uint32_t planned_of;   // of map->changes, when ways were looked for
    uint32_t planned;      // names that map; 0: none were found
    int64_t in_force;      // what those in force are worth on it; -1: not all are there
    bool worth_it;
    uint32_t tried, attempts;
    uint32_t *way_word, way_words;

    braid_visit *visit;  // [BRAID_RESERVATIONS]
    braid_going *going;
} braid;

static inline braid_up *up_of(const braid *b, uint32_t k, uint32_t slot) {
    return &b->up[k * b->r.config.max_neighbours + slot];
}
static inline braid_down *down_of(const braid *b, uint32_t k, uint32_t slot) {
    return &b->down[k * b->r.config.max_neighbours + slot];
}
static inline braid_label *label_from(const braid *b, uint32_t k, router_side side, uint32_t slot) {
    return side == ROUTER_NEXT ? &down_of(b, k, slot)->label : &up_of(b, k, slot)->label;
}
static inline size_t link_at(const braid *b, uint32_t k, router_side side, uint32_t slot) {
    return (size_t)(k * 2 + (uint32_t)side) * b->r.config.max_neighbours + slot;
}
static inline braid_arc *arc_of(const braid *b, uint32_t k, router_side side, uint32_t slot) { return &b->arc[link_at(b, k, side, slot)]; }
static inline braid_told *told_of(const braid *b, uint32_t k, router_side side, uint32_t slot) { return &b->told[link_at(b, k, side, slot)]; }
static inline braid_advert *advert_of(const braid *b, uint32_t k, router_side side, uint32_t slot) {
    return &b->advert[link_at(b, k, side, slot)];
}
static inline bool has_room(const braid_advert *a) { return a->room > 0 && a->distance < BRAID_NOWHERE; }
static inline void stir_one(braid *b, uint32_t k) {
    b->commodity[k].calm.known = false;
    b->commodity[k].news = BRAID_MAYBE_NEWS;
    b->commodity[k].advertised = false;
    b->r.moves++;
}
// What the links of a commodity carry is another number now.
static inline void recount(braid *b, uint32_t k) {
    b->commodity[k].counted = false;
    stir_one(b, k);
}
// So are links, what they cost, what tokens hold, or what neighbours may be told.
static inline void braid_stir(braid *b) {
    for (uint32_t k = 0; k < b->r.commodities; k++) stir_one(b, k);
}
static inline int64_t link_cost(const braid *b, router_side side, uint32_t slot) { return b->r.slot[side][slot].cost; }
static inline int32_t least(int32_t a, int32_t b) { return a < b ? a : b; }
static inline int32_t most(int32_t a, int32_t b) { return a > b ? a : b; }

// Whether several data peers share relays here.
static inline bool braid_shares(const router_config *c) { return c->source_count > 1 && c->algorithm == ROUTER_BRAID; }
// Whether data peers plan their first ways, with the objective sum (braid_begin.c).
static inline bool braid_plans_first(const router_config *c) {
    return c->plan_first && c->algorithm == ROUTER_BRAID && c->objective == ROUTER_SUM;
}
static inline bool braid_has_map(const router_config *c) { return braid_shares(c) || braid_plans_first(c); }
// With one data peer small gains are left alone until then.
static inline int64_t braid_early_until(const braid *b) { return b->era_since + BRAID_EARLY * b->r.config.delay; }
// It has been there for so long that it says less.
static inline bool braid_is_mature(const braid *b) {
    return !b->worst && !braid_shares(&b->r.config) && b->r.now >= braid_early_until(b) + BRAID_MATURE * b->r.config.delay;
}
// ... in this tick.
static inline bool braid_mature(const braid *b) {
#ifdef BRAID_CHECKED
    BRAID_ASSERT(b->mature == braid_is_mature(b));
#endif
    return b->mature;
}

// braid_ledger.c: counters
// Handed back, and the owner has not taken note of it.
static inline int32_t braid_open_denials(const braid_up *u) { return (int32_t)((u->denied - u->denied_ack) % BRAID_TOTALS); }
// Effective inflow from there. Not below 0: of what both left by itself and is to be taken off by a token or a hand-back, the owner
// refuses the latter.
static inline int32_t braid_in(const braid *b, uint32_t k, uint32_t slot) {
    const braid_up *u = up_of(b, k, slot);
    return most(0, u->in - braid_open_denials(u) - u->going);
}
// ... that no token reserved.
static inline int32_t braid_free_in(const braid *b, uint32_t k, uint32_t slot) { return braid_in(b, k, slot) - up_of(b, k, slot)->reserved; }
// Outflow neither reserved nor owed.
static inline int32_t braid_free_out(const braid *b, uint32_t k, uint32_t slot) {
    const braid_down *d = down_of(b, k, slot);
    return d->out - d->reserved - d->owed;
}
void braid_count(const braid *b, uint32_t k);  // from here until a counter changes `carries` is right
int32_t braid_excess(const braid *b, uint32_t k);
int32_t braid_sum_in(const braid *b, uint32_t k);
int32_t braid_sum_out(const braid *b, uint32_t k);
int32_t braid_load(const braid *b);
int32_t braid_room(const braid *b);
outgoing *braid_say_flow(braid *b, uint32_t k, uint32_t slot, uint8_t why);
void braid_deny(braid *b, uint32_t k, uint32_t slot, int32_t units);
void braid_take_back(braid *b, uint32_t k, uint32_t slot);
void braid_on_flow(braid *b, uint32_t k, uint32_t slot, const router_message *m);
void braid_on_deny(braid *b, uint32_t k, uint32_t slot, const router_message *m);
bool braid_on_counts(braid *b, uint32_t k, uint32_t slot, uint32_t units, uint32_t taken_back);  // false: nonsense
void braid_hand_back_overflow(braid *b, uint32_t k, uint32_t slot, int32_t arrived);
void braid_keep_capacity(braid *b);
void braid_balance(braid *b);
bool braid_wants_detour(const braid *b);
int64_t braid_way(const braid *b, uint32_t k, uint32_t slot);  // how far home is over that next neighbour
void braid_ledger_deadlines(braid *b);
uint32_t braid_view(const router *r, router_unit *units, uint32_t max);
void braid_fit(braid *b);

// braid_label.c
int braid_place_of_half(const braid_label *label, router_half half);
static inline int braid_find_half(const braid_label *label, router_half half) {  // -1: the walk does not lead over it
    return (label->owners & router_bit(router_owner(half))) == 0 ? -1 : braid_place_of_half(label, half);
}

// braid_near.c: of its walk somebody whom I hear says that it has become dearer from there (one data peer)
bool braid_contradicted(const braid *b, braid_label *far);

// braid_worst.c: the objective worst
int64_t braid_link_load(const braid *b, router_side side, uint32_t slot, int32_t more);  // if so many units were added
int64_t braid_worst_more(const braid *b, uint32_t slot);
int64_t braid_worst_less(const braid *b, router_side side, uint32_t slot);
int64_t braid_worst_slack(const braid *b);
int64_t braid_coarse_slack(const braid *b);  // braid_mode.c
void braid_follow_scale(braid *b);
uint32_t braid_scale_word(const braid *b);
void braid_hear_scale(braid_down *d, uint32_t word);

// What one more unit to a next neighbour costs; what one less on a link saves; the gain per link that is left alone.
static inline int64_t cost_of_more(const braid *b, uint32_t slot) {
    return b->worst ? braid_worst_more(b, slot) : link_cost(b, ROUTER_NEXT, slot);
}
static inline int64_t cost_of_less(const braid *b, router_side side, uint32_t slot) {
    return b->worst ? braid_worst_less(b, side, slot) : link_cost(b, side, slot);
}
static inline int64_t worth_of_unit(const braid *b) { return b->worst ? BRAID_BIG_LOADS : BRAID_BIG; }
static inline int64_t slack_of(const braid *b) { return b->worst ? braid_worst_slack(b) : braid_coarse_slack(b); }

// It changes a counter or holds units, so it is about one span.
static inline bool braid_is_count(router_kind kind) { return kind >= ROUTER_FLOW && kind <= ROUTER_WAY; }

// braid_mode.c
int64_t braid_mean_cost(const braid *b);    // of the links here, at least 1
void braid_follow_mean(braid *b);
bool braid_still(const braid *b);           // no token may be launched
bool braid_settled(const braid *b);
int32_t braid_kept_load(const braid *b);
void braid_mode_tick(braid *b);
void braid_mode_link_up(braid *b, router_side side, uint32_t slot);
void braid_mode_link_gone(braid *b, bool kept);
bool braid_mode_deaf(const braid *b, int previous, int next);
void braid_mode_heard(braid *b, const router_message *m, int previous, int next);

// braid_map.c
bool braid_maps(const braid *b);  // there is a map, and not too many relays for it
void braid_map_tick(braid *b);
void braid_map_link_up(braid *b, router_side side);
void braid_map_link_gone(braid *b, bool previous);
void braid_map_cut(braid *b);
void braid_on_map(braid *b, const router_message *m);
void braid_map_compose(const braid *b, const outgoing *from, router_message *out);
int64_t braid_map_changed_at(const braid *b);
braid_map *braid_map_lay_out(const router_config *c, arena *a);
size_t braid_map_lone_bytes(const router_config *c);
lone *braid_map_lone_init(const router_config *c, void *memory);

// braid_reach.c
void braid_map_prune(braid *b);      // takes out whom no link leads to
bool braid_map_closed(braid *b);     // a data peer: whoever can be reached is in it, and home can be
bool braid_map_lacks(braid *b);      // ... somebody is named who has said nothing
bool braid_map_draw(braid *b);       // gives all that can be reached to b->ways, by rising peers; false: it is too much
bool braid_map_draw_lone(braid *b, bool loads);  // ... to b->lone; `loads`: and what links carry, which all must have said

// braid_draft.c
void braid_plan(braid *b);
int32_t braid_planned_units(const braid *b);  // of my own
void braid_send_ways(braid *b);
bool braid_send_lone_ways(braid *b);          // as many as fit; true: there are more
uint32_t *braid_take_words(braid *b, uint32_t words);
void braid_on_way(braid *b, uint32_t k, uint32_t slot, const router_message *m);
void braid_compose_way(const braid *b, const outgoing *from, router_message *out);

// braid_begin.c: the first ways, planned
bool braid_waits(const braid *b);  // neither units nor labels go here yet, but maps
void braid_begin(braid *b);
void braid_begin_tick(braid *b);
void braid_begin_receive(braid *b, const router_message *m);
bool braid_begin_spreads(braid *b);  // planned ways may be under way, and what seems open is theirs
void braid_begin_differs(braid *b);  // a unit cannot go as planned
void braid_begin_link_up(braid *b, uint32_t previous);

// braid_steer.c: cycles that the lone data peer finds on its map
// Nobody tells labels. It does not matter before the run has begun.
static inline bool braid_is_steered(const braid *b) { return !b->free && braid_plans_first(&b->r.config) && !braid_shares(&b->r.config); }
void braid_steer(braid *b);
void braid_set_free(braid *b);
void braid_on_hint(braid *b, const router_message *m);
bool braid_is_hint(const outgoing *o);  // a MAP that goes downstream
void braid_compose_hint(const braid *b, const outgoing *from, router_message *out);

// braid_speak.c
void braid_speak(braid *b);
void braid_warn(braid *b);  // before the hold-down is over

// braid_auction.c: places while the first units are placed
bool braid_auctions(const braid *b);
void braid_placed(braid *b);
void braid_placed_as_planned(braid *b);  // there is no auction here
void braid_repairs(braid *b);  // a step of a repair was taken here
bool braid_labels_rest(braid *b);
int64_t braid_bid(const braid *b, uint32_t k, uint32_t slot);   // mine for a place there
int braid_lowest_bid(const braid *b, uint32_t k);               // the previous neighbour's; -1: no unit here could go
int32_t braid_offer(const braid *b, uint32_t k, int64_t *distance);  // places whose tenants may be outbid, and the way home with the price
bool braid_outbids(const braid *b, uint32_t k, int64_t way, int *lowest);  // that way home costs more than the lowest bid
bool braid_bids_anew(braid *b, uint32_t k, uint32_t slot);  // in an auction, of a relay

// braid_token.c
void braid_launch(braid *b, uint32_t k, const router_half *cycle, uint32_t length);
void braid_on_lock(braid *b, const router_message *m);
void braid_on_commit(braid *b, const router_message *m, int previous, int next);
void braid_on_abort(braid *b, const router_message *m);
void braid_tokens_link_gone(braid *b, router_peer peer);
void braid_expire(braid *b);
void braid_give_way(braid *b);
void braid_let_in_go(braid *b, uint32_t k, int32_t units);
void braid_drop_tokens(braid *b);
void braid_end_going(braid *b, const braid_going *g);  // the removal has been confirmed, or its link is no more
braid_visit *braid_find_visit(braid *b, router_token token, uint32_t first);

// braid_label.c: both labels of commodity k; returns the length of the most negative cycle, 0 if there is none
uint32_t braid_labels(braid *b, uint32_t k, router_half cycle[ROUTER_MAX_CYCLE]);
uint64_t braid_label_hash(const braid_label *label);
// The label of `peer`, on that side, is another one than it `was`.
void braid_label_came(braid *b, uint32_t k, router_side side, uint32_t slot, router_peer peer, const braid_label *was);

#endif
