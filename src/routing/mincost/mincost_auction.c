// While the first units are placed, places are auctioned: who has least to lose by going elsewhere makes room for who has more. An
// eviction takes two delays where a cycle takes twenty, and what is left for labels and tokens is little.
#include "routing/mincost/mincost.h"

enum {
    AUCTION = 14,  // delays from the first unit placed here: long enough for some ten changes, too short for a war
    LABELS = 12,   // ... that labels rest, which what is placed next would refute
    PAUSE = 6,     // ... or less, when nothing was placed for so long
    YOUNG = 40,    // delays of a router's life in which nothing is a repair: all of it is still being built
    MENDING = 8,   // ... that labels rest after each step of a repair,
    MENDS = 40,    // ... and after its first one at most, for steps may go on for ever where capacities change all the time
    RAISE = 120,   // per cent of a link's mean cost: what a place costs more than its tenant would pay
    PATIENCE = 50  // ... : what a tenant's way home may cost more than it said it would pay
};

// Once in a router's life. Repairs are better left to labels: an eviction would carry them far from where they are due.
static bool lasts(const braid *b, int64_t delays) {
    return b->placed_since != BRAID_NEVER_SINCE && b->r.now < b->placed_since + delays * b->r.config.delay;
}

bool braid_auctions(const braid *b) {
    return !b->greedy && !b->worst && !braid_shares(&b->r.config) && !braid_is_steered(b) && lasts(b, AUCTION);
}

void braid_placed(braid *b) {
    if (b->placed_since == BRAID_NEVER_SINCE) b->placed_since = b->r.now;
    b->placed_at = b->r.now;
    if (!braid_auctions(b)) braid_repairs(b);
}

// What places are for has been seen to: whoever looks for one from now on mends something.
void braid_placed_as_planned(braid *b) {
    if (b->placed_since == BRAID_NEVER_SINCE) b->placed_since = b->r.now - AUCTION * b->r.config.delay;
}

void braid_repairs(braid *b) {
    int64_t delay = b->r.config.delay;
    if (b->greedy || b->worst || braid_shares(&b->r.config) || b->r.now <= b->era_since + YOUNG * delay) return;
    bool goes_on = b->repaired_at != BRAID_NEVER_SINCE && b->r.now <= b->repaired_at + MENDING * delay;
    if (!goes_on) b->repaired_since = b->r.now;
    b->repaired_at = b->r.now;
}

static int64_t least64(int64_t a, int64_t b) { return a < b ? a : b; }

// What is said of ways while units are placed would mostly be taken back.
bool braid_labels_rest(braid *b) {
    int64_t delay = b->r.config.delay, until = BRAID_NEVER_SINCE;
    if (braid_auctions(b)) until = least64(b->placed_since + LABELS * delay, b->placed_at + PAUSE * delay);
    if (b->repaired_at != BRAID_NEVER_SINCE) {
        int64_t mended = least64(b->repaired_since + MENDS * delay, b->repaired_at + MENDING * delay);
        if (mended > until) until = mended;
    }
    if (b->r.now < until) router_want(&b->r, until);
    return braid_begin_spreads(b) || b->r.now < until || braid_waits(b) || braid_is_steered(b);
}

int64_t braid_bid(const braid *b, uint32_t k, uint32_t slot) {
    int64_t other = BRAID_NOWHERE;
    EACH_NEIGHBOUR(&b->r, ROUTER_NEXT, s) {
        if (s == slot || !has_room(advert_of(b, k, ROUTER_NEXT, s))) continue;
        int64_t way = braid_way(b, k, s);
        if (way < other) other = way;
    }
    if (other >= BRAID_NOWHERE) return BRAID_NO_BID;
    int64_t bid = other - link_cost(b, ROUTER_NEXT, slot);
    return bid > BRAID_NO_BID ? bid : BRAID_NO_BID + 1;
}

static bool bids_less(const braid *b, uint32_t k, uint32_t a, uint32_t than) {
    int64_t x = up_of(b, k, a)->bid, y = up_of(b, k, than)->bid;
    if (x == y) return link_cost(b, ROUTER_PREVIOUS, a) > link_cost(b, ROUTER_PREVIOUS, than);
    return x != BRAID_NO_BID && (y == BRAID_NO_BID || x < y);
}

int braid_lowest_bid(const braid *b, uint32_t k) {
    int lowest = -1;
    EACH_NEIGHBOUR(&b->r, ROUTER_PREVIOUS, s) {
        if (braid_free_in(b, k, s) > 0 && (lowest < 0 || bids_less(b, k, s, (uint32_t)lowest))) lowest = (int)s;
    }
    return lowest;
}

int32_t braid_offer(const braid *b, uint32_t k, int64_t *distance) {
    enum { AT_ONCE = 4 };
    int s = braid_auctions(b) ? braid_lowest_bid(b, k) : -1;
    int64_t bid = s < 0 ? BRAID_NO_BID : up_of(b, k, (uint32_t)s)->bid;
    if (bid == BRAID_NO_BID) return 0;
    if (*distance >= BRAID_NOWHERE || *distance < bid) *distance = bid;
    *distance += braid_mean_cost(b) * RAISE / 100;
    return least(AT_ONCE, braid_free_in(b, k, (uint32_t)s));
}

bool braid_outbids(const braid *b, uint32_t k, int64_t way, int *lowest) {
    if (b->r.is_source || !braid_auctions(b)) return false;
    *lowest = braid_lowest_bid(b, k);
    int64_t bid = *lowest < 0 ? BRAID_NO_BID : up_of(b, k, (uint32_t)*lowest)->bid;
    return bid != BRAID_NO_BID && way > bid + braid_mean_cost(b) * PATIENCE / 100;
}

bool braid_bids_anew(braid *b, uint32_t k, uint32_t slot) {
    braid_down *d = down_of(b, k, slot);
    if (d->out <= 0) return false;
    int64_t bid = braid_bid(b, k, slot);
    if (d->said_bid == bid) return false;
    outgoing *pushed = router_waiting(&b->r, b->r.slot[ROUTER_NEXT][slot].peer, ROUTER_FLOW, k);
    if (pushed == NULL || pushed->why != BRAID_PUSHED) pushed = braid_say_flow(b, k, slot, BRAID_BID);
    pushed->cost = d->said_bid = bid;
    return true;
}
