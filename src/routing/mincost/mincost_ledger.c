// braid's counters: what passes here, what is too much, what is missing, and how either is mended.
#include "routing/mincost/mincost.h"

#include "base/err.h"

enum {
    TRY_EXCESS = 5,
    TRY_DEFICIT = 7,
    TRY_PLAIN = 24
};  // delays to wait: excess or deficit for a mend near by, ...

static void count(const mincost *mc, uint32_t k) {
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

// BRAID_CHECKED: no counter changed without recount.
static void check_count(const mincost *mc, uint32_t k) {
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

// The sums are asked for again and again in a step, and change seldom.
static const mincost_commodity *counted(const mincost *mc, uint32_t k) {
    if (mc->commodity[k].sums_valid)
        check_count(mc, k);
    else
        count(mc, k);
    return &mc->commodity[k];
}

void mincost_update_sums(const mincost *mc, uint32_t k) { counted(mc, k); }

int32_t mincost_total_in(const mincost *mc, uint32_t k) { return counted(mc, k)->inflow + (mc->commit.own_commodity == k ? mc->commit.incoming : 0); }

int32_t mincost_total_out(const mincost *mc, uint32_t k) { return counted(mc, k)->outflow - (mc->commit.own_commodity == k ? mc->commit.outgoing : 0); }

int32_t mincost_excess(const mincost *mc, uint32_t k) { return mincost_total_in(mc, k) - mincost_total_out(mc, k); }

int32_t mincost_load(const mincost *mc) {
    int32_t load = 0;
    for (uint32_t k = 0; k < mc->r.commodities; k++) load += most(mincost_total_in(mc, k), mincost_total_out(mc, k));
    return load;
}

int32_t mincost_room(const mincost *mc) { return (int32_t)mc->r.config.capacity - mincost_load(mc) - mc->commit.adding; }

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

// --- Words between the two ends of a link ------------------------------------------------------------------------------

// What the frame says of a counter is its newest value: one FLOW without a token is enough.
outgoing *mincost_post_flow(mincost *mc, uint32_t k, uint32_t slot, uint8_t why) {
    const mincost_downstream *d = downstream_of(mc, k, slot);
    router_peer to = mc->r.slot[ROUTER_NEXT][slot].peer;
    bool about_token = why == MINCOST_APPLIED || why == MINCOST_REFUSED;
    outgoing *o = about_token ? NULL : router_waiting(&mc->r, to, ROUTER_FLOW, k);
    const outgoing *commit = router_waiting(&mc->r, to, ROUTER_COMMIT, k);  // has a count too: must not be overtaken
    if (o == NULL || o->why != why || (commit != NULL && commit > o)) o = router_post(&mc->r, to, ROUTER_FLOW);
    o->k = (uint8_t)k;
    o->why = why;
    o->units = (uint32_t)d->units;
    o->taken_back = d->returned_done;
    if (why == MINCOST_PUSHED && mincost_auction_open(mc)) o->cost = downstream_of(mc, k, slot)->bid_sent = mincost_bid(mc, k, slot);
    return o;
}

// It will think that I have no room, so my next words of that go out whatever they say.
void mincost_return_units(mincost *mc, uint32_t k, uint32_t slot, int32_t units) {
    mincost_upstream *u = upstream_of(mc, k, slot);
    u->returned = (u->returned + (uint32_t)units) % MINCOST_COUNTER_MODULUS;
    invalidate_sums(mc, k);
    advert_of(mc, k, ROUTER_PREVIOUS, slot)->distance = MINCOST_RESEND;
    router_peer to = mc->r.slot[ROUTER_PREVIOUS][slot].peer;
    outgoing *o = router_waiting(&mc->r, to, ROUTER_DENY, k);
    if (o == NULL) o = router_post(&mc->r, to, ROUTER_DENY);
    o->k = (uint8_t)k;
    o->units += (uint32_t)units;
}

// Does what is owed to a next neighbour, as far as no token holds it. Units that are gone already count as done: a cancel
// and a hand-back of the same unit crossed.
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
    if (now > 0 && !mc->r.is_source)  // one delay to find another way, then it goes back further
        mc->commodity[k].blocked_since = mc->r.now - (TRY_EXCESS - 1) * mc->r.config.delay;
}

// Units pushed at me beyond what I may take go back at once.
void mincost_return_overflow(mincost *mc, uint32_t k, uint32_t slot, int32_t arrived) {
    int32_t over = mc->r.is_source ? mincost_total_in(mc, k) - (int32_t)mc->r.config.capacity : -mincost_room(mc);
    int32_t units = least(least(arrived, over), mincost_free_inflow(mc, k, slot));
    if (units > 0) mincost_return_units(mc, k, slot, units);
}

// Nobody can take note of more than was handed back, or of less than before.
bool mincost_accept_counts(mincost *mc, uint32_t k, uint32_t slot, uint32_t units, uint32_t taken_back) {
    mincost_upstream *u = upstream_of(mc, k, slot);
    if ((u->returned - taken_back) % MINCOST_COUNTER_MODULUS > (uint32_t)mincost_unacked_returns(u)) return false;
    u->units = (int32_t)units;
    invalidate_sums(mc, k);
    u->returned_acked = taken_back % MINCOST_COUNTER_MODULUS;
    return true;
}

static void confirm_going(mincost *mc, uint32_t k, uint32_t slot, const router_message *m) {
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
    if (m->token.origin != 0) confirm_going(mc, k, slot, m);
    if (m->why == MINCOST_PUSHED) advert_of(mc, k, ROUTER_PREVIOUS, slot)->distance = MINCOST_RESEND;  // it counts my room down by itself
    if (m->why == MINCOST_PUSHED || m->why == MINCOST_BID) upstream_of(mc, k, slot)->bid = m->cost;
    bool auctioned = m->why == MINCOST_PUSHED && !mc->r.is_source && mincost_auction_open(mc);  // the bids say who makes room (braid_keep_capacity)
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

// --- Excess and deficit ------------------------------------------------------------------------------------------------

static int64_t weight(const mincost *mc, router_side side, uint32_t slot) {
    return mc->minimise_bottleneck ? mincost_link_load(mc, side, slot, 0) : link_cost(mc, side, slot);
}

// The costliest link of a side on which `free_units` finds something; -1: none.
static int costliest(const mincost *mc, uint32_t k, router_side side,
                     int32_t (*free_units)(const mincost *, uint32_t, uint32_t)) {
    int best = -1;
    EACH_NEIGHBOUR(&mc->r, side, s) {
        if (free_units(mc, k, s) <= 0) continue;
        if (best < 0 || weight(mc, side, s) > weight(mc, side, (uint32_t)best)) best = (int)s;
    }
    return best;
}

static void hand_back(mincost *mc, uint32_t k, int32_t units) {
    while (units > 0) {
        int s = mincost_auction_open(mc) ? mincost_lowest_bid(mc, k) : costliest(mc, k, ROUTER_PREVIOUS, mincost_free_inflow);
        if (s < 0) return;
        int32_t n = least(units, mincost_free_inflow(mc, k, (uint32_t)s));
        mincost_return_units(mc, k, (uint32_t)s, n);
        units -= n;
    }
}

static void cancel(mincost *mc, uint32_t k, int32_t units) {
    for (; units > 0; units--) {
        int s = costliest(mc, k, ROUTER_NEXT, mincost_free_outflow);
        if (s < 0) return;
        downstream_of(mc, k, (uint32_t)s)->units--;
        invalidate_sums(mc, k);
        mincost_post_flow(mc, k, (uint32_t)s, MINCOST_CANCELLED);
    }
}

// Nothing else counts while a relay has more than it can carry: what came in too much goes back, what went out too much
// (a token that would have taken it off was cut) is cancelled.
void mincost_enforce_capacity(mincost *mc) {
    if (mc->r.is_source) return;
    for (uint32_t k = 0; k < mc->r.commodities && mincost_room(mc) < 0; k++) {
        int32_t excess = mincost_excess(mc, k);
        hand_back(mc, k, least(-mincost_room(mc), excess));
        cancel(mc, k, least(-mincost_room(mc), -excess));
        int32_t held = least(-mincost_room(mc), mincost_excess(mc, k));
        if (held <= 0) continue;
        mincost_release_inflow(mc, k, held);
        hand_back(mc, k, held);
    }
    mincost_release_additions(mc);
}

// The capacity was lowered: of what passes here the costliest is given up, at both ends.
static void give_up_passing(mincost *mc) {
    for (uint32_t k = 0; k < mc->r.commodities && mincost_room(mc) < 0; k++) {
        int32_t passing = least(mincost_total_in(mc, k), mincost_total_out(mc, k));
        int32_t units = least(-mincost_room(mc), most(0, passing));
        hand_back(mc, k, units);
        cancel(mc, k, units);
    }
}

// With the objective worst: the heaviest link's load with one more unit. A deficit, which is below 0, still comes first.
int64_t mincost_distance_over(const mincost *mc, uint32_t k, uint32_t slot) {
    int64_t far = advert_of(mc, k, ROUTER_NEXT, slot)->distance;
    if (!mc->minimise_bottleneck) return link_cost(mc, ROUTER_NEXT, slot) + far;
    int64_t here = mincost_link_load(mc, ROUTER_NEXT, slot, 1);
    if (far < 0) return far + here;
    return here > far ? here : far;
}

static int best_way(const mincost *mc, uint32_t k) {
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

// Pushes down the cheapest open way; returns what is left.
static int32_t push(mincost *mc, uint32_t k, int32_t units) {
    while (units > 0) {
        int s = best_way(mc, k), lowest;
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

static void mend_excess(mincost *mc, uint32_t k) {
    mincost_commodity *c = &mc->commodity[k];
    int32_t excess = most(0, mincost_excess(mc, k));
    int32_t left = push(mc, k, excess);
    if (left == 0) {
        c->blocked_since = MINCOST_NEVER;
        return;
    }
    if (c->blocked_since == MINCOST_NEVER || left < excess) c->blocked_since = mc->r.now;
    if (mc->r.now - c->blocked_since >= TRY_EXCESS * mc->r.config.delay) hand_back(mc, k, left);
}

static void mend_deficit(mincost *mc, uint32_t k) {
    mincost_commodity *c = &mc->commodity[k];
    int32_t deficit = -mincost_excess(mc, k);
    if (deficit <= 0) {
        c->deficit_since = MINCOST_NEVER;
        c->cancelled = false;
        return;
    }
    if (c->deficit_since == MINCOST_NEVER) c->deficit_since = mc->r.now;
    if (!c->cancelled && !mc->greedy && mc->r.now - c->deficit_since < TRY_DEFICIT * mc->r.config.delay) return;
    cancel(mc, k, deficit);
}

// A data peer starts what it may, and takes back what it may no longer send.
static void balance_source(mincost *mc) {
    if (mincost_is_waiting(mc)) return;
    int32_t spare = (int32_t)mc->r.config.capacity - mincost_total_out(mc, 0) - mc->commit.adding;
    int32_t left = mincost_is_dispatching(mc) ? spare : push(mc, 0, spare);
    cancel(mc, 0, -spare);
    mincost_commodity *c = &mc->commodity[0];
    if (left <= 0)
        c->blocked_since = MINCOST_NEVER;
    else if (c->blocked_since == MINCOST_NEVER || left < spare)
        c->blocked_since = mc->r.now;
}

// Nothing passes here beyond what may.
void mincost_fit_capacity(mincost *mc) {
    mincost_enforce_capacity(mc);
    give_up_passing(mc);
}

static void balance_relay(mincost *mc) {
    mincost_fit_capacity(mc);
    bool mended = true;
    for (uint32_t k = 0; k < mc->r.commodities; k++) {
        mend_excess(mc, k);
        mend_deficit(mc, k);
        const mincost_commodity *c = &mc->commodity[k];
        mended &= mincost_excess(mc, k) == 0 && c->blocked_since == MINCOST_NEVER && c->deficit_since == MINCOST_NEVER;
    }
    mc->balanced_at = mended && mincost_room(mc) >= 0 ? mc->r.moves : 0;
}

// As long as a relay that has nothing to mend carries what it did, it has nothing to mend (with several data peers every tick counts as a
// change: drafts). BRAID_CHECKED: it looks all the same.
void mincost_balance(mincost *mc) {
    if (mc->r.is_source) {
        balance_source(mc);
    } else if (mc->balanced_at != mc->r.moves || mc->r.terms_changed) {
        balance_relay(mc);
    } else {
#ifdef BRAID_CHECKED
        uint32_t said = mc->r.queue_count;
        uint64_t moves = mc->r.moves;
        balance_relay(mc);
        BRAID_ASSERT(mc->r.queue_count == said && mc->r.moves == moves && mc->balanced_at == moves);
#endif
    }
}

static void want_after(mincost *mc, int64_t since, int64_t delays) {
    if (since == MINCOST_NEVER) return;
    int64_t at = since + delays * mc->r.config.delay;
    router_want(&mc->r, at > mc->r.now ? at : mc->r.now + mc->r.config.delay);
}

// Looking for a detour for one more unit wakes everybody up, so a data peer first sees whether the plain ways take all.
bool mincost_wants_augmenting_path(const mincost *mc) {
    int64_t since = mc->commodity[0].blocked_since;
    return since != MINCOST_NEVER && mc->r.now - since >= TRY_PLAIN * mc->r.config.delay;
}

void mincost_ledger_deadlines(mincost *mc) {
    if (mc->r.is_source) {
        int64_t since = mc->commodity[0].blocked_since;
        if (since != MINCOST_NEVER && !mincost_wants_augmenting_path(mc))
            router_want(&mc->r, since + TRY_PLAIN * mc->r.config.delay);
        return;
    }
    for (uint32_t k = 0; k < mc->r.commodities; k++) {
        want_after(mc, mc->commodity[k].blocked_since, TRY_EXCESS);
        want_after(mc, mc->commodity[k].deficit_since, TRY_DEFICIT);
    }
}

// --- The view ----------------------------------------------------------------------------------------------------------

static router_peer next_in(const mincost *mc, uint32_t k, uint32_t *i, int32_t *left) {
    for (; *i < mc->r.count[ROUTER_PREVIOUS]; (*i)++) {
        uint32_t s = router_slot_at(&mc->r, ROUTER_PREVIOUS, *i);
        if (*left < 0) *left = most(0, mc->phase.staged ? upstream_of(mc, k, s)->active : mincost_inflow(mc, k, s));
        if (*left > 0) return mc->r.slot[ROUTER_PREVIOUS][s].peer;
        *left = -1;
    }
    return 0;
}

static router_peer next_out(const mincost *mc, uint32_t k, uint32_t *i, int32_t *left) {
    for (; *i < mc->r.count[ROUTER_NEXT]; (*i)++) {
        uint32_t s = router_slot_at(&mc->r, ROUTER_NEXT, *i);
        if (*left < 0) *left = most(0, mc->phase.staged ? downstream_of(mc, k, s)->active : downstream_of(mc, k, s)->units);
        if (*left > 0) return mc->r.slot[ROUTER_NEXT][s].peer;
        *left = -1;
    }
    return 0;
}

// Pairs the links in with the links out, both by rising peer. A data peer pairs nothing: its units end and begin.
static void view_commodity(const mincost *mc, uint32_t k, int32_t *room, router_unit *units, uint32_t max, uint32_t *n) {
    const mincost_commodity *c = counted(mc, k);
    if (!mc->phase.staged && c->inflow == 0 && c->outflow == 0) return;
    uint32_t i = 0, j = 0;
    int32_t in_left = -1, out_left = -1;
    for (;;) {
        router_peer to = next_out(mc, k, &j, &out_left);
        router_peer from = mc->r.is_source && to != 0 ? 0 : next_in(mc, k, &i, &in_left);
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
    bool capped = mincost_is_multi_source(&r->config) && !r->is_source;  // hand-backs under way, or in a draft another capacity
    int32_t room = capped ? (int32_t)r->config.capacity : INT32_MAX;
    for (uint32_t k = 0; k < r->commodities; k++) view_commodity(mc, k, &room, units, max, &n);
    return n;
}
