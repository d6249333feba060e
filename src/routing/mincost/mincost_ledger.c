// braid's counters: what passes here, what is too much, what is missing, and how either is mended.
#include "routing/mincost/mincost.h"

#include "base/err.h"

enum {
    TRY_EXCESS = 5,
    TRY_DEFICIT = 7,
    TRY_PLAIN = 24
};  // delays to wait: excess or deficit for a mend near by, ...

static void count(const braid *b, uint32_t k) {
    braid_commodity *c = &b->commodity[k];
    c->links_in = c->links_out = 0;
    EACH_NEIGHBOUR(&b->r, ROUTER_PREVIOUS, s) {
        int32_t in = braid_in(b, k, s);
        c->links_in += in;
        b->carries[link_at(b, k, ROUTER_PREVIOUS, s)] = in > 0;
    }
    EACH_NEIGHBOUR(&b->r, ROUTER_NEXT, s) {
        int32_t out = down_of(b, k, s)->out;
        c->links_out += out;
        b->carries[link_at(b, k, ROUTER_NEXT, s)] = out > 0;
    }
    c->counted = true;
}

// BRAID_CHECKED: no counter changed without recount.
static void check_count(const braid *b, uint32_t k) {
#ifdef BRAID_CHECKED
    int32_t in = 0, out = 0;
    EACH_NEIGHBOUR(&b->r, ROUTER_PREVIOUS, s) {
        in += braid_in(b, k, s);
        BRAID_ASSERT(b->carries[link_at(b, k, ROUTER_PREVIOUS, s)] == (braid_in(b, k, s) > 0));
    }
    EACH_NEIGHBOUR(&b->r, ROUTER_NEXT, s) {
        out += down_of(b, k, s)->out;
        BRAID_ASSERT(b->carries[link_at(b, k, ROUTER_NEXT, s)] == (down_of(b, k, s)->out > 0));
    }
    BRAID_ASSERT(in == b->commodity[k].links_in && out == b->commodity[k].links_out);
#endif
    (void)b, (void)k;
}

// The sums are asked for again and again in a step, and change seldom.
static const braid_commodity *counted(const braid *b, uint32_t k) {
    if (b->commodity[k].counted)
        check_count(b, k);
    else
        count(b, k);
    return &b->commodity[k];
}

void braid_count(const braid *b, uint32_t k) { counted(b, k); }

int32_t braid_sum_in(const braid *b, uint32_t k) { return counted(b, k)->links_in + (b->own_k == k ? b->coming_in : 0); }

int32_t braid_sum_out(const braid *b, uint32_t k) { return counted(b, k)->links_out - (b->own_k == k ? b->coming_out : 0); }

int32_t braid_excess(const braid *b, uint32_t k) { return braid_sum_in(b, k) - braid_sum_out(b, k); }

int32_t braid_load(const braid *b) {
    int32_t load = 0;
    for (uint32_t k = 0; k < b->r.commodities; k++) load += most(braid_sum_in(b, k), braid_sum_out(b, k));
    return load;
}

int32_t braid_room(const braid *b) { return (int32_t)b->r.config.capacity - braid_load(b) - b->add; }

// --- Words between the two ends of a link ------------------------------------------------------------------------------

// What the frame says of a counter is its newest value: one FLOW without a token is enough.
outgoing *braid_say_flow(braid *b, uint32_t k, uint32_t slot, uint8_t why) {
    const braid_down *d = down_of(b, k, slot);
    router_peer to = b->r.slot[ROUTER_NEXT][slot].peer;
    bool about_token = why == BRAID_APPLIED || why == BRAID_REFUSED;
    outgoing *o = about_token ? NULL : router_waiting(&b->r, to, ROUTER_FLOW, k);
    const outgoing *commit = router_waiting(&b->r, to, ROUTER_COMMIT, k);  // has a count too: must not be overtaken
    if (o == NULL || o->why != why || (commit != NULL && commit > o)) o = router_post(&b->r, to, ROUTER_FLOW);
    o->k = (uint8_t)k;
    o->why = why;
    o->units = (uint32_t)d->out;
    o->taken_back = d->denied_done;
    if (why == BRAID_PUSHED && braid_auctions(b)) o->cost = down_of(b, k, slot)->said_bid = braid_bid(b, k, slot);
    return o;
}

// It will think that I have no room, so my next words of that go out whatever they say.
void braid_deny(braid *b, uint32_t k, uint32_t slot, int32_t units) {
    braid_up *u = up_of(b, k, slot);
    u->denied = (u->denied + (uint32_t)units) % BRAID_TOTALS;
    recount(b, k);
    advert_of(b, k, ROUTER_PREVIOUS, slot)->distance = BRAID_UNTOLD;
    router_peer to = b->r.slot[ROUTER_PREVIOUS][slot].peer;
    outgoing *o = router_waiting(&b->r, to, ROUTER_DENY, k);
    if (o == NULL) o = router_post(&b->r, to, ROUTER_DENY);
    o->k = (uint8_t)k;
    o->units += (uint32_t)units;
}

// Does what is owed to a next neighbour, as far as no token holds it. Units that are gone already count as done: a cancel
// and a hand-back of the same unit crossed.
void braid_take_back(braid *b, uint32_t k, uint32_t slot) {
    braid_down *d = down_of(b, k, slot);
    int32_t gone = most(0, d->owed - d->out);
    int32_t now = most(0, least(d->owed - gone, d->out - d->reserved));
    if (gone + now == 0) return;
    d->owed -= gone + now;
    d->denied_done = (d->denied_done + (uint32_t)(gone + now)) % BRAID_TOTALS;
    d->out -= now;
    recount(b, k);
    braid_say_flow(b, k, slot, BRAID_TOOK_BACK);
    if (now > 0 && !b->r.is_source)  // one delay to find another way, then it goes back further
        b->commodity[k].stuck_since = b->r.now - (TRY_EXCESS - 1) * b->r.config.delay;
}

// Units pushed at me beyond what I may take go back at once.
void braid_hand_back_overflow(braid *b, uint32_t k, uint32_t slot, int32_t arrived) {
    int32_t over = b->r.is_source ? braid_sum_in(b, k) - (int32_t)b->r.config.capacity : -braid_room(b);
    int32_t units = least(least(arrived, over), braid_free_in(b, k, slot));
    if (units > 0) braid_deny(b, k, slot, units);
}

// Nobody can take note of more than was handed back, or of less than before.
bool braid_on_counts(braid *b, uint32_t k, uint32_t slot, uint32_t units, uint32_t taken_back) {
    braid_up *u = up_of(b, k, slot);
    if ((u->denied - taken_back) % BRAID_TOTALS > (uint32_t)braid_open_denials(u)) return false;
    u->in = (int32_t)units;
    recount(b, k);
    u->denied_ack = taken_back % BRAID_TOTALS;
    return true;
}

static void confirm_going(braid *b, uint32_t k, uint32_t slot, const router_message *m) {
    EACH_OF(b->goings, i) {
        braid_going *g = &b->going[i];
        if (g->position != m->position || g->k != k || g->slot != slot) continue;
        if (g->token.origin != m->token.origin || g->token.serial != m->token.serial) continue;
        up_of(b, k, slot)->going -= g->units;
        recount(b, k);
        braid_end_going(b, g);
    }
}

void braid_on_flow(braid *b, uint32_t k, uint32_t slot, const router_message *m) {
    int32_t before = braid_in(b, k, slot);
    if (!braid_on_counts(b, k, slot, m->units, m->taken_back)) return;
    if (m->token.origin != 0) confirm_going(b, k, slot, m);
    if (m->why == BRAID_PUSHED) advert_of(b, k, ROUTER_PREVIOUS, slot)->distance = BRAID_UNTOLD;  // it counts my room down by itself
    if (m->why == BRAID_PUSHED || m->why == BRAID_BID) up_of(b, k, slot)->bid = m->cost;
    bool auctioned = m->why == BRAID_PUSHED && !b->r.is_source && braid_auctions(b);  // the bids say who makes room (braid_keep_capacity)
    if (!auctioned) braid_hand_back_overflow(b, k, slot, braid_in(b, k, slot) - before);
    if (m->why == BRAID_CANCELLED) b->commodity[k].cancelled = true;
}

void braid_on_deny(braid *b, uint32_t k, uint32_t slot, const router_message *m) {
    braid_down *d = down_of(b, k, slot);
    if (d->owed > ROUTER_MAX_UNITS) return;
    d->owed += (int32_t)m->units;
    braid_begin_differs(b);
    advert_of(b, k, ROUTER_NEXT, slot)->room = 0;
    braid_take_back(b, k, slot);
}

// --- Excess and deficit ------------------------------------------------------------------------------------------------

static int64_t weight(const braid *b, router_side side, uint32_t slot) {
    return b->worst ? braid_link_load(b, side, slot, 0) : link_cost(b, side, slot);
}

// The costliest link of a side on which `free_units` finds something; -1: none.
static int costliest(const braid *b, uint32_t k, router_side side,
                     int32_t (*free_units)(const braid *, uint32_t, uint32_t)) {
    int best = -1;
    EACH_NEIGHBOUR(&b->r, side, s) {
        if (free_units(b, k, s) <= 0) continue;
        if (best < 0 || weight(b, side, s) > weight(b, side, (uint32_t)best)) best = (int)s;
    }
    return best;
}

static void hand_back(braid *b, uint32_t k, int32_t units) {
    while (units > 0) {
        int s = braid_auctions(b) ? braid_lowest_bid(b, k) : costliest(b, k, ROUTER_PREVIOUS, braid_free_in);
        if (s < 0) return;
        int32_t n = least(units, braid_free_in(b, k, (uint32_t)s));
        braid_deny(b, k, (uint32_t)s, n);
        units -= n;
    }
}

static void cancel(braid *b, uint32_t k, int32_t units) {
    for (; units > 0; units--) {
        int s = costliest(b, k, ROUTER_NEXT, braid_free_out);
        if (s < 0) return;
        down_of(b, k, (uint32_t)s)->out--;
        recount(b, k);
        braid_say_flow(b, k, (uint32_t)s, BRAID_CANCELLED);
    }
}

// Nothing else counts while a relay has more than it can carry: what came in too much goes back, what went out too much
// (a token that would have taken it off was cut) is cancelled.
void braid_keep_capacity(braid *b) {
    if (b->r.is_source) return;
    for (uint32_t k = 0; k < b->r.commodities && braid_room(b) < 0; k++) {
        int32_t excess = braid_excess(b, k);
        hand_back(b, k, least(-braid_room(b), excess));
        cancel(b, k, least(-braid_room(b), -excess));
        int32_t held = least(-braid_room(b), braid_excess(b, k));
        if (held <= 0) continue;
        braid_let_in_go(b, k, held);
        hand_back(b, k, held);
    }
    braid_give_way(b);
}

// The capacity was lowered: of what passes here the costliest is given up, at both ends.
static void give_up_passing(braid *b) {
    for (uint32_t k = 0; k < b->r.commodities && braid_room(b) < 0; k++) {
        int32_t passing = least(braid_sum_in(b, k), braid_sum_out(b, k));
        int32_t units = least(-braid_room(b), most(0, passing));
        hand_back(b, k, units);
        cancel(b, k, units);
    }
}

// With the objective worst: the heaviest link's load with one more unit. A deficit, which is below 0, still comes first.
int64_t braid_way(const braid *b, uint32_t k, uint32_t slot) {
    int64_t far = advert_of(b, k, ROUTER_NEXT, slot)->distance;
    if (!b->worst) return link_cost(b, ROUTER_NEXT, slot) + far;
    int64_t here = braid_link_load(b, ROUTER_NEXT, slot, 1);
    if (far < 0) return far + here;
    return here > far ? here : far;
}

static int best_way(const braid *b, uint32_t k) {
    int best = -1;
    int64_t best_cost = BRAID_NOWHERE;
    EACH_NEIGHBOUR(&b->r, ROUTER_NEXT, s) {
        const braid_down *d = down_of(b, k, s);
        if (!has_room(advert_of(b, k, ROUTER_NEXT, s)) || d->owed != 0) continue;
        int64_t cost = braid_way(b, k, s);
        if (b->greedy) cost = b->r.config.weighted ? d->virtual_time : link_cost(b, ROUTER_NEXT, s);
        if (cost >= best_cost) continue;
        best_cost = cost;
        best = (int)s;
    }
    return best;
}

// Pushes down the cheapest open way; returns what is left.
static int32_t push(braid *b, uint32_t k, int32_t units) {
    while (units > 0) {
        int s = best_way(b, k), lowest;
        if (s < 0) break;
        if (braid_outbids(b, k, braid_way(b, k, (uint32_t)s), &lowest)) {
            braid_deny(b, k, (uint32_t)lowest, 1);
            units--;
            continue;
        }
        if (b->r.is_source) braid_placed(b);
        braid_down *d = down_of(b, k, (uint32_t)s);
        braid_advert *advert = advert_of(b, k, ROUTER_NEXT, (uint32_t)s);
        int32_t n = least(b->greedy || b->worst ? 1 : units, advert->room);
        d->virtual_time += link_cost(b, ROUTER_NEXT, (uint32_t)s);
        advert->room -= n;
        d->out += n;
        recount(b, k);
        units -= n;
        braid_say_flow(b, k, (uint32_t)s, BRAID_PUSHED);
    }
    return units;
}

static void mend_excess(braid *b, uint32_t k) {
    braid_commodity *c = &b->commodity[k];
    int32_t excess = most(0, braid_excess(b, k));
    int32_t left = push(b, k, excess);
    if (left == 0) {
        c->stuck_since = BRAID_NEVER_SINCE;
        return;
    }
    if (c->stuck_since == BRAID_NEVER_SINCE || left < excess) c->stuck_since = b->r.now;
    if (b->r.now - c->stuck_since >= TRY_EXCESS * b->r.config.delay) hand_back(b, k, left);
}

static void mend_deficit(braid *b, uint32_t k) {
    braid_commodity *c = &b->commodity[k];
    int32_t deficit = -braid_excess(b, k);
    if (deficit <= 0) {
        c->deficit_since = BRAID_NEVER_SINCE;
        c->cancelled = false;
        return;
    }
    if (c->deficit_since == BRAID_NEVER_SINCE) c->deficit_since = b->r.now;
    if (!c->cancelled && !b->greedy && b->r.now - c->deficit_since < TRY_DEFICIT * b->r.config.delay) return;
    cancel(b, k, deficit);
}

// A data peer starts what it may, and takes back what it may no longer send.
static void balance_source(braid *b) {
    if (braid_waits(b)) return;
    int32_t spare = (int32_t)b->r.config.capacity - braid_sum_out(b, 0) - b->add;
    int32_t left = braid_begin_spreads(b) ? spare : push(b, 0, spare);
    cancel(b, 0, -spare);
    braid_commodity *c = &b->commodity[0];
    if (left <= 0)
        c->stuck_since = BRAID_NEVER_SINCE;
    else if (c->stuck_since == BRAID_NEVER_SINCE || left < spare)
        c->stuck_since = b->r.now;
}

// Nothing passes here beyond what may.
void braid_fit(braid *b) {
    braid_keep_capacity(b);
    give_up_passing(b);
}

static void balance_relay(braid *b) {
    braid_fit(b);
    bool mended = true;
    for (uint32_t k = 0; k < b->r.commodities; k++) {
        mend_excess(b, k);
        mend_deficit(b, k);
        const braid_commodity *c = &b->commodity[k];
        mended &= braid_excess(b, k) == 0 && c->stuck_since == BRAID_NEVER_SINCE && c->deficit_since == BRAID_NEVER_SINCE;
    }
    b->balanced_at = mended && braid_room(b) >= 0 ? b->r.moves : 0;
}

// As long as a relay that has nothing to mend carries what it did, it has nothing to mend (with several data peers every tick counts as a
// change: drafts). BRAID_CHECKED: it looks all the same.
void braid_balance(braid *b) {
    if (b->r.is_source) {
        balance_source(b);
    } else if (b->balanced_at != b->r.moves || b->r.terms_changed) {
        balance_relay(b);
    } else {
#ifdef BRAID_CHECKED
        uint32_t said = b->r.queue_count;
        uint64_t moves = b->r.moves;
        balance_relay(b);
        BRAID_ASSERT(b->r.queue_count == said && b->r.moves == moves && b->balanced_at == moves);
#endif
    }
}

static void want_after(braid *b, int64_t since, int64_t delays) {
    if (since == BRAID_NEVER_SINCE) return;
    int64_t at = since + delays * b->r.config.delay;
    router_want(&b->r, at > b->r.now ? at : b->r.now + b->r.config.delay);
}

// Looking for a detour for one more unit wakes everybody up, so a data peer first sees whether the plain ways take all.
bool braid_wants_detour(const braid *b) {
    int64_t since = b->commodity[0].stuck_since;
    return since != BRAID_NEVER_SINCE && b->r.now - since >= TRY_PLAIN * b->r.config.delay;
}

void braid_ledger_deadlines(braid *b) {
    if (b->r.is_source) {
        int64_t since = b->commodity[0].stuck_since;
        if (since != BRAID_NEVER_SINCE && !braid_wants_detour(b))
            router_want(&b->r, since + TRY_PLAIN * b->r.config.delay);
        return;
    }
    for (uint32_t k = 0; k < b->r.commodities; k++) {
        want_after(b, b->commodity[k].stuck_since, TRY_EXCESS);
        want_after(b, b->commodity[k].deficit_since, TRY_DEFICIT);
    }
}

// --- The view ----------------------------------------------------------------------------------------------------------

static router_peer next_in(const braid *b, uint32_t k, uint32_t *i, int32_t *left) {
    for (; *i < b->r.count[ROUTER_PREVIOUS]; (*i)++) {
        uint32_t s = router_slot_at(&b->r, ROUTER_PREVIOUS, *i);
        if (*left < 0) *left = most(0, b->drafts ? up_of(b, k, s)->kept : braid_in(b, k, s));
        if (*left > 0) return b->r.slot[ROUTER_PREVIOUS][s].peer;
        *left = -1;
    }
    return 0;
}

static router_peer next_out(const braid *b, uint32_t k, uint32_t *i, int32_t *left) {
    for (; *i < b->r.count[ROUTER_NEXT]; (*i)++) {
        uint32_t s = router_slot_at(&b->r, ROUTER_NEXT, *i);
        if (*left < 0) *left = most(0, b->drafts ? down_of(b, k, s)->kept : down_of(b, k, s)->out);
        if (*left > 0) return b->r.slot[ROUTER_NEXT][s].peer;
        *left = -1;
    }
    return 0;
}

// Pairs the links in with the links out, both by rising peer. A data peer pairs nothing: its units end and begin.
static void view_commodity(const braid *b, uint32_t k, int32_t *room, router_unit *units, uint32_t max, uint32_t *n) {
    const braid_commodity *c = counted(b, k);
    if (!b->drafts && c->links_in == 0 && c->links_out == 0) return;
    uint32_t i = 0, j = 0;
    int32_t in_left = -1, out_left = -1;
    for (;;) {
        router_peer to = next_out(b, k, &j, &out_left);
        router_peer from = b->r.is_source && to != 0 ? 0 : next_in(b, k, &i, &in_left);
        if (from == 0 && to == 0) return;
        int32_t count = from == 0 ? out_left : to == 0 ? in_left : least(in_left, out_left);
        int32_t carried = least(count, *room);
        *room -= carried;
        if (carried > 0) router_add_unit(units, max, n, (router_unit){b->r.source[k], from, to, (uint32_t)carried});
        if (from != 0 && (in_left -= count) == 0) i++, in_left = -1;
        if (to != 0 && (out_left -= count) == 0) j++, out_left = -1;
    }
}

uint32_t braid_view(const router *r, router_unit *units, uint32_t max) {
    const braid *b = (const braid *)r;
    uint32_t n = 0;
    bool capped = braid_shares(&r->config) && !r->is_source;  // hand-backs under way, or in a draft another capacity
    int32_t room = capped ? (int32_t)r->config.capacity : INT32_MAX;
    for (uint32_t k = 0; k < r->commodities; k++) view_commodity(b, k, &room, units, max, &n);
    return n;
}
