// Counters of units on links: pushing units along the cheapest advertised link, returning and
// cancelling them, and repairing excess and deficit.
//
// A relay with excess pushes it to a peer of the next stage that advertises room or a deficit.
// After EXCESS_DELAYS it returns the excess upstream. A deficit is first advertised, so that others
// push units here, and cancelled downstream after DEFICIT_DELAYS. Cycles (mincost_labels.c) improve
// the cost later.
#include "routing/mincost/mincost.h"

#include "base/err.h"

enum {
    EXCESS_DELAYS = 5,
    DEFICIT_DELAYS = 7,
    PLAIN_DELAYS = 24
    // Times in delays: excess is returned, a deficit is cancelled, and a data peer asks for an
    // augmenting path.
};

static void compute_sums(const mincost *mc, uint32_t k) {
    mincost_commodity *c = &mc->commodity[k];
    c->inflow = c->outflow = 0;
    EACH_NEIGHBOUR(&mc->r, ROUTER_PREVIOUS, s) {
        int32_t in = mincost_inflow(mc, k, s);
        c->inflow += in;
        mc->carries[link_at(mc, k, ROUTER_PREVIOUS, s)] = in > 0;
    }
    EACH_NEIGHBOUR(&mc->r, ROUTER_NEXT, s) {
        int32_t out = downstream_of(mc, k, s)->units;
        c->outflow += out;
        mc->carries[link_at(mc, k, ROUTER_NEXT, s)] = out > 0;
    }
    c->sums_valid = true;
}

// BRAID_CHECKED: every change of a counter has called invalidate_sums.
static void check_sums(const mincost *mc, uint32_t k) {
#ifdef BRAID_CHECKED
    int32_t in = 0, out = 0;
    EACH_NEIGHBOUR(&mc->r, ROUTER_PREVIOUS, s) {
        in += mincost_inflow(mc, k, s);
        BRAID_ASSERT(mc->carries[link_at(mc, k, ROUTER_PREVIOUS, s)] == (mincost_inflow(mc, k, s) > 0));
    }
    EACH_NEIGHBOUR(&mc->r, ROUTER_NEXT, s) {
        out += downstream_of(mc, k, s)->units;
        BRAID_ASSERT(mc->carries[link_at(mc, k, ROUTER_NEXT, s)] == (downstream_of(mc, k, s)->units > 0));
    }
    BRAID_ASSERT(in == mc->commodity[k].inflow && out == mc->commodity[k].outflow);
#endif
    (void)mc, (void)k;
}

// Cached: each step asks many times and changes little.
static const mincost_commodity *sums_of(const mincost *mc, uint32_t k) {
    if (mc->commodity[k].sums_valid)
        check_sums(mc, k);
    else
        compute_sums(mc, k);
    return &mc->commodity[k];
}

void mincost_update_sums(const mincost *mc, uint32_t k) { sums_of(mc, k); }

int32_t mincost_total_in(const mincost *mc, uint32_t k) {
    return sums_of(mc, k)->inflow + (mc->commit.own_commodity == k ? mc->commit.incoming : 0);
}

int32_t mincost_total_out(const mincost *mc, uint32_t k) {
    return sums_of(mc, k)->outflow - (mc->commit.own_commodity == k ? mc->commit.outgoing : 0);
}

int32_t mincost_excess(const mincost *mc, uint32_t k) { return mincost_total_in(mc, k) - mincost_total_out(mc, k); }

int32_t mincost_load(const mincost *mc) {
    int32_t load = 0;
    for (uint32_t k = 0; k < mc->r.commodities; k++) load += most(mincost_total_in(mc, k), mincost_total_out(mc, k));
    return load;
}

int32_t mincost_room(const mincost *mc) {
    return (int32_t)mc->r.config.capacity - mincost_load(mc) - mc->commit.adding;
}

int32_t mincost_active_load(const mincost *mc) {
    int32_t load = 0;
    for (uint32_t k = 0; k < mc->r.commodities; k++) {
        int32_t in = 0, out = 0;
        EACH_NEIGHBOUR(&mc->r, ROUTER_PREVIOUS, s) in += upstream_of(mc, k, s)->active;
        EACH_NEIGHBOUR(&mc->r, ROUTER_NEXT, s) out += downstream_of(mc, k, s)->active;
        load += most(in, out);
    }
    return load;
}

bool mincost_is_settled(const mincost *mc) {
    const router *r = &mc->r;
    if (mc->commit.own_active || mc->commit.reservations != 0 || mc->commit.removals != 0) return false;
    if (!r->is_source && mincost_room(mc) < 0) return false;
    for (uint32_t k = 0; k < r->commodities; k++) {
        if (!r->is_source && mincost_excess(mc, k) != 0) return false;
        EACH_NEIGHBOUR(r, ROUTER_NEXT, slot) {
            if (downstream_of(mc, k, slot)->owed != 0) return false;
        }
        EACH_NEIGHBOUR(r, ROUTER_PREVIOUS, slot) {
            if (upstream_of(mc, k, slot)->returned != upstream_of(mc, k, slot)->returned_acked) return false;
        }
    }
    return true;
}

// --- Messages between the ends of a link ---------------------------------------------------------

// A FLOW carries the newest value of the counter, so one without a token is enough in each frame.
router_outgoing *mincost_post_flow(mincost *mc, uint32_t k, uint32_t slot, uint8_t why) {
    const mincost_downstream *d = downstream_of(mc, k, slot);
    router_peer to = mc->r.slot[ROUTER_NEXT][slot].peer;
    bool about_token = why == MINCOST_APPLIED || why == MINCOST_REFUSED;
    router_outgoing *o = about_token ? NULL : router_waiting(&mc->r, to, ROUTER_FLOW, k);
    // carries a count as well and must not be overtaken
    const router_outgoing *commit = router_waiting(&mc->r, to, ROUTER_COMMIT, k);
    if (o == NULL || o->why != why || (commit != NULL && commit > o)) o = router_post(&mc->r, to, ROUTER_FLOW);
    o->k = (uint8_t)k;
    o->why = why;
    o->units = (uint32_t)d->units;
    o->taken_back = d->returned_done;
    if (why == MINCOST_PUSHED && mincost_auction_open(mc))
        o->cost = downstream_of(mc, k, slot)->bid_sent = mincost_bid(mc, k, slot);
    return o;
}

// The neighbour will assume that there is no room here, so the next advert is sent unconditionally.
void mincost_return_units(mincost *mc, uint32_t k, uint32_t slot, int32_t units) {
    mincost_upstream *u = upstream_of(mc, k, slot);
    u->returned = (u->returned + (uint32_t)units) % MINCOST_COUNTER_MODULUS;
    invalidate_sums(mc, k);
    advert_of(mc, k, ROUTER_PREVIOUS, slot)->distance = MINCOST_RESEND;
    router_peer to = mc->r.slot[ROUTER_PREVIOUS][slot].peer;
    router_outgoing *o = router_waiting(&mc->r, to, ROUTER_DENY, k);
    if (o == NULL) o = router_post(&mc->r, to, ROUTER_DENY);
    o->k = (uint8_t)k;
    o->units += (uint32_t)units;
}

// Carries out the returns owed to a next neighbour, except for units that a commit has reserved.
// Units that are already gone count as returned: a cancel and a return of the same unit crossed.
void mincost_settle_returns(mincost *mc, uint32_t k, uint32_t slot) {
    mincost_downstream *d = downstream_of(mc, k, slot);
    int32_t gone = most(0, d->owed - d->units);
    int32_t now = most(0, least(d->owed - gone, d->units - d->reserved));
    if (gone + now == 0) return;
    d->owed -= gone + now;
    d->returned_done = (d->returned_done + (uint32_t)(gone + now)) % MINCOST_COUNTER_MODULUS;
    d->units -= now;
    invalidate_sums(mc, k);
    mincost_post_flow(mc, k, slot, MINCOST_RETURNED);
    // search one delay for another path, then return the units further
    if (now > 0 && !mc->r.is_source)
        mc->commodity[k].blocked_since = mc->r.now - (EXCESS_DELAYS - 1) * mc->r.config.delay;
}

// Returns units beyond the capacity at once.
void mincost_return_overflow(mincost *mc, uint32_t k, uint32_t slot, int32_t arrived) {
    int32_t over = mc->r.is_source ? mincost_total_in(mc, k) - (int32_t)mc->r.config.capacity : -mincost_room(mc);
    int32_t units = least(least(arrived, over), mincost_free_inflow(mc, k, slot));
    if (units > 0) mincost_return_units(mc, k, slot, units);
}

// Rejects an acknowledgement of more returns than were made, or of fewer than before.
bool mincost_accept_counts(mincost *mc, uint32_t k, uint32_t slot, uint32_t units, uint32_t taken_back) {
    mincost_upstream *u = upstream_of(mc, k, slot);
    if ((u->returned - taken_back) % MINCOST_COUNTER_MODULUS > (uint32_t)mincost_unacked_returns(u)) return false;
    u->units = (int32_t)units;
    invalidate_sums(mc, k);
    u->returned_acked = taken_back % MINCOST_COUNTER_MODULUS;
    return true;
}

static void confirm_removal(mincost *mc, uint32_t k, uint32_t slot, const router_message *m) {
    EACH_OF(mc->commit.removals, i) {
        mincost_removal *g = &mc->commit.removal[i];
        if (g->position != m->position || g->k != k || g->slot != slot) continue;
        if (g->token.origin != m->token.origin || g->token.serial != m->token.serial) continue;
        upstream_of(mc, k, slot)->removing -= g->units;
        invalidate_sums(mc, k);
        mincost_end_removal(mc, g);
    }
}

void mincost_on_flow(mincost *mc, uint32_t k, uint32_t slot, const router_message *m) {
    int32_t before = mincost_inflow(mc, k, slot);
    if (!mincost_accept_counts(mc, k, slot, m->units, m->taken_back)) return;
    if (m->token.origin != 0) confirm_removal(mc, k, slot, m);
    // the neighbour decrements its copy of the room itself
    if (m->why == MINCOST_PUSHED) advert_of(mc, k, ROUTER_PREVIOUS, slot)->distance = MINCOST_RESEND;
    if (m->why == MINCOST_PUSHED || m->why == MINCOST_BID) upstream_of(mc, k, slot)->bid = m->cost;
    // the lowest bidder is evicted instead (mincost_enforce_capacity)
    bool auctioned = m->why == MINCOST_PUSHED && !mc->r.is_source && mincost_auction_open(mc);
    if (!auctioned) mincost_return_overflow(mc, k, slot, mincost_inflow(mc, k, slot) - before);
    if (m->why == MINCOST_CANCELLED) mc->commodity[k].cancelled = true;
}

void mincost_on_deny(mincost *mc, uint32_t k, uint32_t slot, const router_message *m) {
    mincost_downstream *d = downstream_of(mc, k, slot);
    if (d->owed > ROUTER_MAX_UNITS) return;
    d->owed += (int32_t)m->units;
    mincost_note_deviation(mc);
    advert_of(mc, k, ROUTER_NEXT, slot)->room = 0;
    mincost_settle_returns(mc, k, slot);
}

// --- Excess and deficit --------------------------------------------------------------------------

static int64_t link_weight(const mincost *mc, router_side side, uint32_t slot) {
    return mc->minimise_bottleneck ? mincost_link_load(mc, side, slot, 0) : link_cost(mc, side, slot);
}

// The most expensive link of a side on which `free_units` is positive; -1: none.
static int costliest_link(const mincost *mc, uint32_t k, router_side side,
                          int32_t (*free_units)(const mincost *, uint32_t, uint32_t)) {
    int best = -1;
    EACH_NEIGHBOUR(&mc->r, side, s) {
        if (free_units(mc, k, s) <= 0) continue;
        if (best < 0 || link_weight(mc, side, s) > link_weight(mc, side, (uint32_t)best)) best = (int)s;
    }
    return best;
}

static void return_excess(mincost *mc, uint32_t k, int32_t units) {
    while (units > 0) {
        int s = mincost_auction_open(mc) ? mincost_lowest_bid(mc, k)
                                         : costliest_link(mc, k, ROUTER_PREVIOUS, mincost_free_inflow);
        if (s < 0) return;
        int32_t n = least(units, mincost_free_inflow(mc, k, (uint32_t)s));
        mincost_return_units(mc, k, (uint32_t)s, n);
        units -= n;
    }
}

static void cancel_outflow(mincost *mc, uint32_t k, int32_t units) {
    for (; units > 0; units--) {
        int s = costliest_link(mc, k, ROUTER_NEXT, mincost_free_outflow);
        if (s < 0) return;
        downstream_of(mc, k, (uint32_t)s)->units--;
        invalidate_sums(mc, k);
        mincost_post_flow(mc, k, (uint32_t)s, MINCOST_CANCELLED);
    }
}

// Capacity comes before everything else: surplus inflow is returned. Surplus outflow, left by a
// commit that was interrupted, is cancelled.
void mincost_enforce_capacity(mincost *mc) {
    if (mc->r.is_source) return;
    for (uint32_t k = 0; k < mc->r.commodities && mincost_room(mc) < 0; k++) {
        int32_t excess = mincost_excess(mc, k);
        return_excess(mc, k, least(-mincost_room(mc), excess));
        cancel_outflow(mc, k, least(-mincost_room(mc), -excess));
        int32_t held = least(-mincost_room(mc), mincost_excess(mc, k));
        if (held <= 0) continue;
        mincost_release_inflow(mc, k, held);
        return_excess(mc, k, held);
    }
    mincost_release_additions(mc);
}

// After the capacity was lowered: gives up the most expensive passing units, at both ends.
static void release_passing(mincost *mc) {
    for (uint32_t k = 0; k < mc->r.commodities && mincost_room(mc) < 0; k++) {
        int32_t passing = least(mincost_total_in(mc, k), mincost_total_out(mc, k));
        int32_t units = least(-mincost_room(mc), most(0, passing));
        return_excess(mc, k, units);
        cancel_outflow(mc, k, units);
    }
}

// Bottleneck objective: the heaviest load on the path with one more unit. A deficit is negative and
// still comes first.
int64_t mincost_distance_over(const mincost *mc, uint32_t k, uint32_t slot) {
    int64_t far = advert_of(mc, k, ROUTER_NEXT, slot)->distance;
    if (!mc->minimise_bottleneck) return link_cost(mc, ROUTER_NEXT, slot) + far;
    int64_t here = mincost_link_load(mc, ROUTER_NEXT, slot, 1);
    if (far < 0) return far + here;
    return here > far ? here : far;
}

static int cheapest_open_link(const mincost *mc, uint32_t k) {
    int best = -1;
    int64_t best_cost = MINCOST_INFINITY;
    EACH_NEIGHBOUR(&mc->r, ROUTER_NEXT, s) {
        const mincost_downstream *d = downstream_of(mc, k, s);
        if (!has_room(advert_of(mc, k, ROUTER_NEXT, s)) || d->owed != 0) continue;
        int64_t cost = mincost_distance_over(mc, k, s);
        if (mc->greedy) cost = mc->r.config.weighted ? d->virtual_time : link_cost(mc, ROUTER_NEXT, s);
        if (cost >= best_cost) continue;
        best_cost = cost;
        best = (int)s;
    }
    return best;
}

// Pushes units along the cheapest open links. Returns the number of units left.
static int32_t push_units(mincost *mc, uint32_t k, int32_t units) {
    while (units > 0) {
        int s = cheapest_open_link(mc, k), lowest;
        if (s < 0) break;
        if (mincost_is_outbid(mc, k, mincost_distance_over(mc, k, (uint32_t)s), &lowest)) {
            mincost_return_units(mc, k, (uint32_t)lowest, 1);
            units--;
            continue;
        }
        if (mc->r.is_source) mincost_note_placed(mc);
        mincost_downstream *d = downstream_of(mc, k, (uint32_t)s);
        mincost_advert *advert = advert_of(mc, k, ROUTER_NEXT, (uint32_t)s);
        int32_t n = least(mc->greedy || mc->minimise_bottleneck ? 1 : units, advert->room);
        d->virtual_time += link_cost(mc, ROUTER_NEXT, (uint32_t)s);
        advert->room -= n;
        d->units += n;
        invalidate_sums(mc, k);
        units -= n;
        mincost_post_flow(mc, k, (uint32_t)s, MINCOST_PUSHED);
    }
    return units;
}

static void repair_excess(mincost *mc, uint32_t k) {
    mincost_commodity *c = &mc->commodity[k];
    int32_t excess = most(0, mincost_excess(mc, k));
    int32_t left = push_units(mc, k, excess);
    if (left == 0) {
        c->blocked_since = MINCOST_NEVER;
        return;
    }
    if (c->blocked_since == MINCOST_NEVER || left < excess) c->blocked_since = mc->r.now;
    if (mc->r.now - c->blocked_since >= EXCESS_DELAYS * mc->r.config.delay) return_excess(mc, k, left);
}

static void repair_deficit(mincost *mc, uint32_t k) {
    mincost_commodity *c = &mc->commodity[k];
    int32_t deficit = -mincost_excess(mc, k);
    if (deficit <= 0) {
        c->deficit_since = MINCOST_NEVER;
        c->cancelled = false;
        return;
    }
    if (c->deficit_since == MINCOST_NEVER) c->deficit_since = mc->r.now;
    if (!c->cancelled && !mc->greedy && mc->r.now - c->deficit_since < DEFICIT_DELAYS * mc->r.config.delay) return;
    cancel_outflow(mc, k, deficit);
}

// A data peer sends what its demand allows, and cancels what exceeds a lowered demand.
static void balance_source(mincost *mc) {
    if (mincost_is_waiting(mc)) return;
    int32_t spare = (int32_t)mc->r.config.capacity - mincost_total_out(mc, 0) - mc->commit.adding;
    int32_t left = mincost_is_dispatching(mc) ? spare : push_units(mc, 0, spare);
    cancel_outflow(mc, 0, -spare);
    mincost_commodity *c = &mc->commodity[0];
    if (left <= 0)
        c->blocked_since = MINCOST_NEVER;
    else if (c->blocked_since == MINCOST_NEVER || left < spare)
        c->blocked_since = mc->r.now;
}

// No unit passes beyond the capacity.
void mincost_fit_capacity(mincost *mc) {
    mincost_enforce_capacity(mc);
    release_passing(mc);
}

static void balance_relay(mincost *mc) {
    mincost_fit_capacity(mc);
    bool balanced = true;
    for (uint32_t k = 0; k < mc->r.commodities; k++) {
        repair_excess(mc, k);
        repair_deficit(mc, k);
        const mincost_commodity *c = &mc->commodity[k];
        balanced &= mincost_excess(mc, k) == 0 && c->blocked_since == MINCOST_NEVER &&
                    c->deficit_since == MINCOST_NEVER;
    }
    mc->balanced_at = balanced && mincost_room(mc) >= 0 ? mc->r.moves : 0;
}

// A balanced relay stays balanced while its counters are unchanged. With several data peers every
// tick counts as a change, because of staged plans. BRAID_CHECKED: balances anyway and compares.
void mincost_balance(mincost *mc) {
    if (mc->r.is_source) {
        balance_source(mc);
    } else if (mc->balanced_at != mc->r.moves || mc->r.terms_changed) {
        balance_relay(mc);
    } else {
#ifdef BRAID_CHECKED
        uint32_t queued = mc->r.queue_count;
        uint64_t moves = mc->r.moves;
        balance_relay(mc);
        BRAID_ASSERT(mc->r.queue_count == queued && mc->r.moves == moves && mc->balanced_at == moves);
#endif
    }
}

static void want_tick_after(mincost *mc, int64_t since, int64_t delays) {
    if (since == MINCOST_NEVER) return;
    int64_t at = since + delays * mc->r.config.delay;
    router_want(&mc->r, at > mc->r.now ? at : mc->r.now + mc->r.config.delay);
}

// An offer for an augmenting path reaches every peer, so a data peer first waits whether plain
// pushing places all units.
bool mincost_wants_augmenting_path(const mincost *mc) {
    int64_t since = mc->commodity[0].blocked_since;
    return since != MINCOST_NEVER && mc->r.now - since >= PLAIN_DELAYS * mc->r.config.delay;
}

void mincost_ledger_deadlines(mincost *mc) {
    if (mc->r.is_source) {
        int64_t since = mc->commodity[0].blocked_since;
        if (since != MINCOST_NEVER && !mincost_wants_augmenting_path(mc))
            router_want(&mc->r, since + PLAIN_DELAYS * mc->r.config.delay);
        return;
    }
    for (uint32_t k = 0; k < mc->r.commodities; k++) {
        want_tick_after(mc, mc->commodity[k].blocked_since, EXCESS_DELAYS);
        want_tick_after(mc, mc->commodity[k].deficit_since, DEFICIT_DELAYS);
    }
}

// --- The flow for hosts --------------------------------------------------------------------------

static router_peer next_inflow_peer(const mincost *mc, uint32_t k, uint32_t *i, int32_t *left) {
    for (; *i < mc->r.count[ROUTER_PREVIOUS]; (*i)++) {
        uint32_t s = router_slot_at(&mc->r, ROUTER_PREVIOUS, *i);
        if (*left < 0) *left = most(0, mc->phase.staged ? upstream_of(mc, k, s)->active : mincost_inflow(mc, k, s));
        if (*left > 0) return mc->r.slot[ROUTER_PREVIOUS][s].peer;
        *left = -1;
    }
    return 0;
}

static router_peer next_outflow_peer(const mincost *mc, uint32_t k, uint32_t *i, int32_t *left) {
    for (; *i < mc->r.count[ROUTER_NEXT]; (*i)++) {
        uint32_t s = router_slot_at(&mc->r, ROUTER_NEXT, *i);
        if (*left < 0)
            *left = most(0, mc->phase.staged ? downstream_of(mc, k, s)->active : downstream_of(mc, k, s)->units);
        if (*left > 0) return mc->r.slot[ROUTER_NEXT][s].peer;
        *left = -1;
    }
    return 0;
}

// Pairs inflow links with outflow links, both by rising peer. A data peer pairs nothing: its units
// end and begin here.
static void pair_commodity(const mincost *mc, uint32_t k, int32_t *room, router_unit *units, uint32_t max,
                           uint32_t *n) {
    const mincost_commodity *c = sums_of(mc, k);
    if (!mc->phase.staged && c->inflow == 0 && c->outflow == 0) return;
    uint32_t i = 0, j = 0;
    int32_t in_left = -1, out_left = -1;
    for (;;) {
        router_peer to = next_outflow_peer(mc, k, &j, &out_left);
        router_peer from = mc->r.is_source && to != 0 ? 0 : next_inflow_peer(mc, k, &i, &in_left);
        if (from == 0 && to == 0) return;
        int32_t count = from == 0 ? out_left : to == 0 ? in_left : least(in_left, out_left);
        int32_t carried = least(count, *room);
        *room -= carried;
        if (carried > 0) router_add_unit(units, max, n, (router_unit){mc->r.source[k], from, to, (uint32_t)carried});
        if (from != 0 && (in_left -= count) == 0) i++, in_left = -1;
        if (to != 0 && (out_left -= count) == 0) j++, out_left = -1;
    }
}

uint32_t mincost_units(const router *r, router_unit *units, uint32_t max) {
    const mincost *mc = (const mincost *)r;
    uint32_t n = 0;
    // returns are under way, or a staged plan has another capacity
    bool capped = mincost_is_multi_source(&r->config) && !r->is_source;
    int32_t room = capped ? (int32_t)r->config.capacity : INT32_MAX;
    for (uint32_t k = 0; k < r->commodities; k++) pair_commodity(mc, k, &room, units, max, &n);
    return n;
}
