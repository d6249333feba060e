// Our algorithm: distributed cancelling of negative cycles. docs/routing.md explains it; this is one peer's state.
//
// Link counters have one owner, the upstream peer (`out`). The downstream peer keeps a mirror (`in`) that only the owner's
// word sets, and hands units back by cumulative counts. Excess (more comes in than goes out) and deficit (less) are derived
// from the counters at each step, never queued.
#ifndef BRAID_FLOW_BRAID_H
#define BRAID_FLOW_BRAID_H

#include "flow/inside.h"

enum {
    BRAID_RESERVATIONS = 32,  // of tokens on their way through here; a token too many is turned away
    BRAID_SHARED_PATH = 16,   // halves in a label when data peers share: those nearest
    BRAID_TRIES = 2,          // drafts that may be begun in vain until neighbours come or go
    BRAID_SHIFT_WAIT = 24,    // delays that a small gain waits, so that who gains most goes first
    BRAID_SPAN = 1 << 10,     // eras from one restored flow to the next (braid_mode.c)
    BRAID_SAID = 8,           // own labels remembered to notice flapping
    BRAID_FLAPS_FREE = 3,     // repeats before the hold-down grows
    BRAID_FLAPS_MAX = BRAID_FLAPS_FREE + 5,
};

#define BRAID_BIG       ((int64_t)1 << 40)     // what one more unit is worth: more than any cycle of links can cost
#define BRAID_BIG_LOADS ((int64_t)1 << 50)     // ... with the objective worst
#define BRAID_DEFICIT   (-((int64_t)1 << 37))  // the distance that a peer in deficit advertises: it is filled first
#define BRAID_NOWHERE   ((int64_t)1 << 56)     // no way
#define BRAID_TOTALS    ((uint32_t)1 << 31)    // what counts for as long as a link lives goes round here
#define BRAID_LAST_ERA  ((int64_t)1 << 30)
#define BRAID_NO_BID    ((int64_t)0)           // there is no other way, or none is known
#define BRAID_UNTOLD    (-((int64_t)1 << 57))  // the next advert goes out whatever it says

enum { BRAID_AS_IT_IS, BRAID_NO_GAIN };  // outgoing.extra of a LABEL: what it will say
// Why a FLOW was sent.
enum { BRAID_UNWATCH, BRAID_WATCH, BRAID_ERA };  // why a QUERY was
enum { BRAID_PUSHED, BRAID_TOOK_BACK, BRAID_CANCELLED, BRAID_APPLIED, BRAID_REFUSED, BRAID_BOOKED, BRAID_BID };

// The cheapest residual walk from a half, never above 0 (the empty walk). Costs are from each half of the path on.
typedef struct braid_label {
    int64_t cost;
    uint32_t length;
    router_half *half;  // [braid.label_limit], in the router's memory
    int64_t *at;
    int64_t since;  // it came, or mine became what it is
} braid_label;

// A previous neighbour and one commodity.
typedef struct braid_up {
    int32_t in;                   // what it says it sends me
    uint32_t denied, denied_ack;  // handed back in total; of which it has taken note (both modulo BRAID_TOTALS)
    int32_t reserved;             // by tokens, to be taken off
    int32_t going;                // removals I committed that it has not confirmed
    int32_t said_room;
    int64_t said_distance;
    int64_t bid;  // what the way home from here may cost before it sends its units elsewhere
    uint32_t said_scale;
    uint32_t era;              // braid_mode.c: it says that it is in (of commodity 0)
    uint64_t said, said_stay;  // hashes of the labels it has from me
    int64_t said_cost;         // of the label it has from me
    bool said_way;             // ... which says more than its first half
    int64_t floor;             // its O half's label settled at that, and is never above it again
    int64_t said_stay_cost, said_at, said_stay_at;
    int64_t news_since;  // with one data peer: my label is not what it has from me; BRAID_NEVER_SINCE: it is
    bool watches;       // ... and it wants to hear of every change
    bool drafts_alone;  // it is in a draft that I am not in, or no more
    int32_t kept;       // ... units that come from it while there is a draft
    braid_label label;  // its O half's
} braid_up;

// A next neighbour and one commodity.
typedef struct braid_down {
    int32_t out;           // units I send it: I own this number
    int64_t said_bid;
    int32_t owed;          // hand-backs still to do
    uint32_t denied_done;  // done in total, modulo BRAID_TOTALS
    int32_t reserved;      // by tokens, to be taken off
    int32_t room;          // what it would take
    uint32_t era;          // braid_mode.c: it says that it is in (of commodity 0)
    int64_t virtual_time;  // swarm's, if weighted
    int64_t distance;      // from it to the sink through free peers
    uint64_t said;              // as in braid_up
    int64_t said_cost;
    bool said_way;
    int64_t news_since;        // as in braid_up
    int64_t said_floor;        // it knows that my O half's label settled at that
    braid_label label;         // its I half's; with several data peers: what one more unit costs from there
    braid_label stay;          // with several data peers: what the dearest unit there costs
    bool watched;              // ... and I asked it to tell me every change
    bool drafts_alone;         // it is in a draft that I am not in, or no more
    int32_t adding;            // units that tokens reserved to put on it
    int32_t kept;              // ... units that go there while there is a draft
    uint16_t scale, heaviest;  // with the objective worst, as it says: steps of braid_worst.c
} braid_down;

// A visit of a token: a run of one peer's halves on the cycle.
typedef enum braid_entry { BRAID_STARTS, BRAID_FROM_PREVIOUS, BRAID_FROM_NEXT } braid_entry;
typedef enum braid_exit { BRAID_ENDS, BRAID_TO_NEXT, BRAID_TO_PREVIOUS } braid_exit;

typedef struct braid_visit {
    router_token token;  // origin 0: free
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
    int32_t units;  // 0: free
} braid_going;

typedef struct braid_commodity {
    braid_label in, out;          // labels of my halves
    int64_t in_floor, out_floor;  // what these have been for so long that no walk needs to show it
    uint64_t in_hash, out_hash;
    router_peer in_choice, out_choice;   // next hops of those labels, kept on ties
    int64_t stuck_since, deficit_since;  // BRAID_NEVER_SINCE: not so
    bool cancelled;                      // the deficit comes from a cancel: no use in waiting
    int64_t shift_at;                    // braid_share.c: when the detour that is known may be tried
} braid_commodity;

#define BRAID_NEVER_SINCE INT64_MIN

typedef struct braid {
    router r;
    braid_up *up;  // [commodity * max_neighbours + slot]
    braid_down *down;
    braid_commodity *commodity;
    uint32_t label_room;       // halves that a label here can hold
    uint32_t label_limit;      // ... and may
    uint32_t shared_limit;     // ... with prices
    bool shared;               // several data peers draft: prices, and labels that know forward ways only
    bool worst;                // the objective: what a unit on a link costs depends on how many there are
    uint16_t scale, heaviest;  // ... braid_worst.c
    bool scale_fell;
    uint32_t scale_turns;
    bool greedy;        // swarm: the same ledger without labels and tokens; a unit goes where it is cheapest from here
    int32_t add, drop;  // load that tokens reserved to add and to take off

    // braid_mode.c
    uint32_t era, tries, drafts;  // tries: drafts that may still be begun; drafts: eras that this one has lasted
    int64_t era_since;            // it began
    int64_t changed_since;        // the last neighbour came or went, or the mean cost changed
    bool prolongs;                // the draft goes on, and some neighbours may not know
    bool rests;                   // a data peer: all that it wants is under way and comes home
    int64_t rests_since;          // ... or not

    // braid_price.c
    int64_t price, step;  // of a unit through here; the last change
    int64_t mean;         // cost of a link here, at the last tick
    int64_t tends_since;
    int32_t tended_load;
    uint32_t rises;           // of it since links or costs changed
    uint32_t flips;           // times that it turned round
    int8_t tends, last_turn;  // -1: to fall, 1: to rise
    uint32_t visits;          // in use
    braid_visit visit[BRAID_RESERVATIONS];
    braid_going going[BRAID_RESERVATIONS];

    // my own token, one at a time
    bool out;
    uint8_t own_k;
    uint32_t serial;
    int32_t coming_in, coming_out;  // it is committed and on its way home: inflow to come, outflow to go
    int64_t back_off_until;
    uint32_t failures;

    int64_t building_until;
    int64_t placed_since, placed_at;  // units were pushed to me or handed back to me, the first time and the last
    int64_t repaired_since, repaired_at;   // the latest repair near by: its first step, its last one
    uint32_t settlings;  // of labels, since links, counters or the mean cost changed here
    int64_t speak_at;    // hold-down
    uint32_t flaps;
    uint64_t said[BRAID_SAID];
    uint32_t said_next;
    bool cycle_waits;  // a negative cycle is known, and my token or the back-off is in the way
} braid;

static inline braid_up *up_of(const braid *b, uint32_t k, uint32_t slot) {
    return &b->up[k * b->r.config.max_neighbours + slot];
}
static inline braid_down *down_of(const braid *b, uint32_t k, uint32_t slot) {
    return &b->down[k * b->r.config.max_neighbours + slot];
}
static inline int64_t link_cost(const braid *b, router_side side, uint32_t slot) { return b->r.slot[side][slot].cost; }
static inline int32_t least(int32_t a, int32_t b) { return a < b ? a : b; }
static inline int32_t most(int32_t a, int32_t b) { return a > b ? a : b; }

// braid_ledger.c: counters
int32_t braid_in(const braid *b, uint32_t k, uint32_t slot);        // effective inflow from there
int32_t braid_free_in(const braid *b, uint32_t k, uint32_t slot);   // ... that no token reserved
int32_t braid_free_out(const braid *b, uint32_t k, uint32_t slot);  // outflow neither reserved nor owed
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
void braid_hand_back_overflow(braid *b, uint32_t k, uint32_t slot, int32_t arrived, bool booked);
void braid_keep_capacity(braid *b);
void braid_balance(braid *b);
bool braid_wants_detour(const braid *b);
int64_t braid_way(const braid *b, uint32_t k, uint32_t slot);  // how far home is over that next neighbour
void braid_ledger_deadlines(braid *b);
uint32_t braid_view(const router *r, router_unit *units, uint32_t max);
void braid_fit(braid *b);

// braid_label.c
bool braid_mature(const braid *b);  // it has been there for so long that it says less
int braid_find_half(const braid_label *label, router_half half);  // -1: the walk does not lead over it

// braid_worst.c: the objective worst
int64_t braid_link_load(const braid *b, router_side side, uint32_t slot, int32_t more);  // if so many units were added
int64_t braid_worst_more(const braid *b, uint32_t slot);
int64_t braid_worst_less(const braid *b, router_side side, uint32_t slot);
int64_t braid_worst_slack(const braid *b);
int64_t braid_coarse_slack(const braid *b);  // braid_mode.c
int64_t braid_early_until(const braid *b);   // with one data peer: small gains are left alone
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
static inline bool braid_is_count(router_kind kind) { return kind >= ROUTER_FLOW && kind <= ROUTER_ABORT; }

// braid_mode.c
bool braid_shares(const router_config *c);  // whether several data peers share relays here, with prices or without
bool braid_still(const braid *b);           // no token may be launched
bool braid_settled(const braid *b);
int32_t braid_kept_load(const braid *b);
void braid_mode_tick(braid *b);
void braid_mode_link_up(braid *b, router_side side, uint32_t slot);
void braid_mode_link_gone(braid *b, bool kept);
bool braid_mode_deaf(const braid *b, int previous, int next);  // its counts are of another flow
void braid_mode_heard(braid *b, const router_message *m, int previous, int next);

// braid_speak.c
void braid_speak(braid *b);
void braid_warn(braid *b);  // before the hold-down is over

// braid_auction.c: places while the first units are placed
bool braid_auctions(const braid *b);
void braid_placed(braid *b);
void braid_repairs(braid *b);  // a step of a repair was taken here
bool braid_labels_rest(braid *b);
int64_t braid_bid(const braid *b, uint32_t k, uint32_t slot);   // mine for a place there
int braid_lowest_bid(const braid *b, uint32_t k);               // the previous neighbour's; -1: no unit here could go
int32_t braid_offer(const braid *b, uint32_t k, int64_t *distance);  // places whose tenants may be outbid, and the way home with the price
bool braid_outbids(const braid *b, uint32_t k, int64_t way, int *lowest);  // that way home costs more than the lowest bid
bool braid_bids_anew(braid *b, uint32_t k, uint32_t slot);

// braid_price.c: the inner arcs
int64_t braid_mean_cost(const braid *b);  // of the links here, at least 1
bool braid_priced(const braid *b);
int32_t braid_bookable(const braid *b);                    // units that could still be booked
int64_t braid_one_more(const braid *b, int32_t reserved);  // cost of I -> O beside so many; BRAID_NOWHERE: shut
int64_t braid_one_less(const braid *b, int32_t reserved);  // cost of O -> I, not above 0
void braid_adjust_price(braid *b);
void braid_unsettle_price(braid *b);  // neighbours came or went: look for the price anew
int64_t braid_grain(const braid *b);  // of costs, while prices move: a difference that is small

// braid_share.c
bool braid_share_open(const braid *b, uint32_t k, uint32_t slot);
void braid_share_watch(braid *b, uint32_t k);
uint32_t braid_share(braid *b, uint32_t k, router_half cycle[ROUTER_MAX_CYCLE]);

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
braid_visit *braid_find_visit(braid *b, router_token token, uint32_t first);

// braid_label.c: both labels of commodity k; returns the length of the most negative cycle, 0 if there is none
uint32_t braid_labels(braid *b, uint32_t k, router_half cycle[ROUTER_MAX_CYCLE]);
uint64_t braid_label_hash(const braid_label *label);

#endif
