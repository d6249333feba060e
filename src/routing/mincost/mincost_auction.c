// Auction of places while the first units are placed (a single source, sum objective).
//
// Each sender attaches a bid to its units: the path cost beyond which it has a better alternative.
// A full relay advertises its places at a price above the lowest bid. A sender that accepts the
// price evicts the lowest bidder. An eviction takes two delays and a cycle about twenty, so little
// is left for labels and commits.
#include "routing/mincost/mincost.h"

enum {
    AUCTION_DELAYS = 14,  // duration from the first unit placed here: enough for about ten changes
    LABEL_HOLD = 12,      // labels are held, because the next placement would change them
    LABEL_PAUSE = 6,      // labels are released after this time without a placement
    YOUNG_DELAYS = 40,    // age below which no change counts as a repair
    REPAIR_STEP = 8,      // labels are held after each step of a repair
    // Labels are held at most this long after the first step, even if capacities keep changing.
    REPAIR_MAX = 40,
    PRICE_PERCENT = 120,  // price of a place above its tenant's bid, in percent of the mean link cost
    // of the mean link cost: tolerated rise of a path above its tenant's bid
    TOLERANCE_PERCENT = 50
};

// Once in a router's life. Repairs are left to labels: an eviction would move the damage far away.
static bool within(const mincost *mc, int64_t delays) {
    return mc->auction.first_placed_at != MINCOST_NEVER &&
           mc->r.now < mc->auction.first_placed_at + delays * mc->r.config.delay;
}

bool mincost_auction_open(const mincost *mc) {
    return !mc->greedy && !mc->minimise_bottleneck && !mincost_is_multi_source(&mc->r.config) &&
           !mincost_is_centralised(mc) && within(mc, AUCTION_DELAYS);
}

void mincost_note_placed(mincost *mc) {
    if (mc->auction.first_placed_at == MINCOST_NEVER) mc->auction.first_placed_at = mc->r.now;
    mc->auction.last_placed_at = mc->r.now;
    if (!mincost_auction_open(mc)) mincost_note_repair(mc);
}

// A plan has placed the units: every later change is a repair.
void mincost_skip_auction(mincost *mc) {
    if (mc->auction.first_placed_at == MINCOST_NEVER)
        mc->auction.first_placed_at = mc->r.now - AUCTION_DELAYS * mc->r.config.delay;
}

void mincost_note_repair(mincost *mc) {
    int64_t delay = mc->r.config.delay;
    if (mc->greedy || mc->minimise_bottleneck || mincost_is_multi_source(&mc->r.config) ||
        mc->r.now <= mc->phase.epoch_since + YOUNG_DELAYS * delay)
        return;
    bool continues = mc->auction.repair_step_at != MINCOST_NEVER &&
                     mc->r.now <= mc->auction.repair_step_at + REPAIR_STEP * delay;
    if (!continues) mc->auction.repair_began_at = mc->r.now;
    mc->auction.repair_step_at = mc->r.now;
}

static int64_t least64(int64_t a, int64_t c) { return a < c ? a : c; }

// Labels sent while units are placed would mostly be retracted.
bool mincost_labels_held(mincost *mc) {
    int64_t delay = mc->r.config.delay, until = MINCOST_NEVER;
    if (mincost_auction_open(mc))
        until =
            least64(mc->auction.first_placed_at + LABEL_HOLD * delay, mc->auction.last_placed_at + LABEL_PAUSE * delay);
    if (mc->auction.repair_step_at != MINCOST_NEVER) {
        int64_t repaired =
            least64(mc->auction.repair_began_at + REPAIR_MAX * delay, mc->auction.repair_step_at + REPAIR_STEP * delay);
        if (repaired > until) until = repaired;
    }
    if (mc->r.now < until) router_want(&mc->r, until);
    return mincost_is_dispatching(mc) || mc->r.now < until || mincost_is_waiting(mc) || mincost_is_centralised(mc);
}

int64_t mincost_bid(const mincost *mc, uint32_t k, uint32_t slot) {
    int64_t other = MINCOST_INFINITY;
    EACH_NEIGHBOUR(&mc->r, ROUTER_NEXT, s) {
        if (s == slot || !has_room(advert_of(mc, k, ROUTER_NEXT, s))) continue;
        int64_t way = mincost_distance_over(mc, k, s);
        if (way < other) other = way;
    }
    if (other >= MINCOST_INFINITY) return MINCOST_NO_BID;
    int64_t bid = other - link_cost(mc, ROUTER_NEXT, slot);
    return bid > MINCOST_NO_BID ? bid : MINCOST_NO_BID + 1;
}

static bool bids_lower(const mincost *mc, uint32_t k, uint32_t a, uint32_t than) {
    int64_t x = upstream_of(mc, k, a)->bid, y = upstream_of(mc, k, than)->bid;
    if (x == y) return link_cost(mc, ROUTER_PREVIOUS, a) > link_cost(mc, ROUTER_PREVIOUS, than);
    return x != MINCOST_NO_BID && (y == MINCOST_NO_BID || x < y);
}

int mincost_lowest_bid(const mincost *mc, uint32_t k) {
    int lowest = -1;
    EACH_NEIGHBOUR(&mc->r, ROUTER_PREVIOUS, s) {
        if (mincost_free_inflow(mc, k, s) > 0 && (lowest < 0 || bids_lower(mc, k, s, (uint32_t)lowest)))
            lowest = (int)s;
    }
    return lowest;
}

int32_t mincost_auction_offer(const mincost *mc, uint32_t k, int64_t *distance) {
    enum { AT_ONCE = 4 };
    int s = mincost_auction_open(mc) ? mincost_lowest_bid(mc, k) : -1;
    int64_t bid = s < 0 ? MINCOST_NO_BID : upstream_of(mc, k, (uint32_t)s)->bid;
    if (bid == MINCOST_NO_BID) return 0;
    if (*distance >= MINCOST_INFINITY || *distance < bid) *distance = bid;
    *distance += mincost_mean_cost(mc) * PRICE_PERCENT / 100;
    return least(AT_ONCE, mincost_free_inflow(mc, k, (uint32_t)s));
}

bool mincost_is_outbid(const mincost *mc, uint32_t k, int64_t way, int *lowest) {
    if (mc->r.is_source || !mincost_auction_open(mc)) return false;
    *lowest = mincost_lowest_bid(mc, k);
    int64_t bid = *lowest < 0 ? MINCOST_NO_BID : upstream_of(mc, k, (uint32_t)*lowest)->bid;
    return bid != MINCOST_NO_BID && way > bid + mincost_mean_cost(mc) * TOLERANCE_PERCENT / 100;
}

bool mincost_update_bid(mincost *mc, uint32_t k, uint32_t slot) {
    mincost_downstream *d = downstream_of(mc, k, slot);
    if (d->units <= 0) return false;
    int64_t bid = mincost_bid(mc, k, slot);
    if (d->bid_sent == bid) return false;
    router_outgoing *pushed = router_waiting(&mc->r, mc->r.slot[ROUTER_NEXT][slot].peer, ROUTER_FLOW, k);
    if (pushed == NULL || pushed->why != MINCOST_PUSHED) pushed = mincost_post_flow(mc, k, slot, MINCOST_BID);
    pushed->cost = d->bid_sent = bid;
    return true;
}
