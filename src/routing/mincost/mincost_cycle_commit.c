// Two-phase commit along a negative cycle. LOCK passes round the cycle, reserves units at each peer
// and adds up the true cost. If it returns to its origin with a negative cost, COMMIT passes round
// and each peer applies its part; otherwise ABORT releases the reservations.
//
// There is no waiting for locks, hence no deadlock: a LOCK that cannot be reserved is aborted, and
// its origin backs off for a random time. Leases release reservations after a lost message.
#include "routing/mincost/mincost.h"

#include <string.h>

static bool same_token(router_token a, router_token c) { return a.origin == c.origin && a.serial == c.serial; }

mincost_reservation *mincost_find_reservation(mincost *mc, router_token token, uint32_t first) {
    EACH_OF(mc->commit.reservations, i) {
        mincost_reservation *v = &mc->commit.reservation[i];
        if (v->first == first && same_token(v->token, token)) return v;
    }
    return NULL;
}

static mincost_reservation *reservation_that_ends(mincost *mc, router_token token, uint32_t last) {
    EACH_OF(mc->commit.reservations, i) {
        mincost_reservation *v = &mc->commit.reservation[i];
        if (v->last == last && same_token(v->token, token)) return v;
    }
    return NULL;
}

static void back_off(mincost *mc) {
    int64_t delay = mc->r.config.delay;
    mc->commit.failures++;
    int64_t spread = 1 + 2 * (int64_t)(mc->commit.failures < 6 ? mc->commit.failures : 6);
    mc->commit.back_off_until = mc->r.now + delay + (int64_t)rng_below(&mc->r.random, (uint64_t)(spread * delay));
}

static void end_own(mincost *mc) {
    mc->commit.own_active = false;
    mc->commit.incoming = mc->commit.outgoing = 0;
    invalidate_sums(mc, mc->commit.own_commodity);
}

static bool is_own(const mincost *mc, router_token token) {
    return mc->commit.own_active && token.origin == mc->r.config.self && token.serial == mc->commit.serial;
}

// --- Phase 1: reservations -----------------------------------------------------------------------

static void hold_units(mincost *mc, const mincost_reservation *v, int32_t units) {
    int from = router_slot(&mc->r, ROUTER_NEXT, v->before), to = router_slot(&mc->r, ROUTER_PREVIOUS, v->after);
    if (v->entry == MINCOST_FROM_NEXT && from >= 0) downstream_of(mc, v->k, (uint32_t)from)->reserved += units;
    if (v->exit == MINCOST_TO_PREVIOUS && to >= 0) upstream_of(mc, v->k, (uint32_t)to)->reserved += units;
    int on = router_slot(&mc->r, ROUTER_NEXT, v->after);
    if (v->exit == MINCOST_TO_NEXT && on >= 0) downstream_of(mc, v->k, (uint32_t)on)->adding += units;
    if (v->adds) mc->commit.adding += units;
    if (v->drops) mc->commit.removing += units;
    mincost_invalidate(mc);
}

static void free_reservation(mincost *mc, const mincost_reservation *v) {
    mc->commit.reservations &= ~(1u << (v - mc->commit.reservation));
}

void mincost_end_removal(mincost *mc, const mincost_removal *g) {
    mc->commit.removals &= ~(1u << (g - mc->commit.removal));
}

static void release(mincost *mc, mincost_reservation *v) {
    hold_units(mc, v, -v->units);
    free_reservation(mc, v);
    int from = router_slot(&mc->r, ROUTER_NEXT, v->before);
    if (v->entry == MINCOST_FROM_NEXT && from >= 0) mincost_settle_returns(mc, v->k, (uint32_t)from);
}

// Bottleneck objective: one commit on a link at a time, because the next unit has another cost.
static bool is_open_for_commit(const mincost *mc, uint32_t slot) {
    int32_t held = 0;
    for (uint32_t k = 0; mc->minimise_bottleneck && k < mc->r.commodities; k++)
        held += downstream_of(mc, k, slot)->adding + downstream_of(mc, k, slot)->reserved;
    return held == 0;
}

// Enters over the arc cycle[first - 1] -> cycle[first] and reduces v->units to what is free. False:
// impossible.
static bool enter(mincost *mc, mincost_reservation *v, int64_t *cost) {
    if (v->first == 0) return true;
    router_node from = v->cycle[v->first - 1], at = v->cycle[v->first];
    v->before = router_owner(from);
    if (from == router_out(v->before)) {
        v->entry = MINCOST_FROM_PREVIOUS;
        return at == router_in(mc->r.config.self) && router_slot(&mc->r, ROUTER_PREVIOUS, v->before) >= 0;
    }
    v->entry = MINCOST_FROM_NEXT;
    int slot = router_slot(&mc->r, ROUTER_NEXT, v->before);
    if (at != router_out(mc->r.config.self) || slot < 0 || !is_open_for_commit(mc, (uint32_t)slot)) return false;
    // only the owner of the count knows the cost exactly
    if (mc->minimise_bottleneck) *cost -= saved_cost(mc, ROUTER_NEXT, (uint32_t)slot);
    v->units = least(v->units, mincost_free_outflow(mc, v->k, (uint32_t)slot));
    return v->units > 0;
}

static bool cross(mincost *mc, mincost_reservation *v, int64_t *cost) {
    router_node in = router_in(mc->r.config.self), out = router_out(mc->r.config.self);
    router_node at = v->cycle[v->first], next = v->last + 1 < v->length ? v->cycle[v->last + 1] : 0;
    if (next != in && next != out) return true;
    if (next == at) return false;
    v->last++;
    if (mc->r.is_source) v->units = least(v->units, 1);  // the next unit has another cost
    v->adds = next == out;
    v->drops = next == in && !mc->r.is_source;
    if (mc->r.is_source) *cost += v->adds ? -unit_value(mc) : unit_value(mc);
    if (v->adds) v->units = least(v->units, mincost_room(mc));
    return v->units > 0;
}

static bool leave(mincost *mc, mincost_reservation *v, int64_t *cost) {
    if (v->last + 1 >= v->length) return true;
    router_node at = v->cycle[v->last], next = v->cycle[v->last + 1];
    v->after = router_owner(next);
    if (at == router_out(mc->r.config.self)) {
        v->exit = MINCOST_TO_NEXT;
        int slot = router_slot(&mc->r, ROUTER_NEXT, v->after);
        if (slot < 0 || next != router_in(v->after) || !is_open_for_commit(mc, (uint32_t)slot)) return false;
        *cost += added_cost(mc, (uint32_t)slot);
        return true;
    }
    v->exit = MINCOST_TO_PREVIOUS;
    int slot = router_slot(&mc->r, ROUTER_PREVIOUS, v->after);
    if (slot < 0 || next != router_out(v->after)) return false;
    if (!mc->minimise_bottleneck) *cost -= link_cost(mc, ROUTER_PREVIOUS, (uint32_t)slot);
    v->units = least(v->units, mincost_free_inflow(mc, v->k, (uint32_t)slot));
    return v->units > 0;
}

static mincost_reservation *find_free_reservation(mincost *mc) {
    // each removal may need an entry as well
    int taken = __builtin_popcount(mc->commit.reservations) + __builtin_popcount(mc->commit.removals);
    return taken < MINCOST_MAX_RESERVATIONS ? &mc->commit.reservation[31 - __builtin_clz(~mc->commit.reservations)]
                                            : NULL;
}

// Checks this peer's part of the cycle, which begins at `first`, against the current state and
// reserves it. Adds its true cost.
static mincost_reservation *reserve(mincost *mc, const mincost_reservation *wanted, int64_t *cost) {
    mincost_reservation *place = find_free_reservation(mc);
    if (place == NULL) return NULL;
    mincost_reservation v = *wanted;
    if (!enter(mc, &v, cost) || !cross(mc, &v, cost) || !leave(mc, &v, cost)) return NULL;
    v.lease = mc->r.now + (4 * (int64_t)v.length + 20) * mc->r.config.delay;
    router_want(&mc->r, v.lease);
    *place = v;
    mc->commit.reservations |= 1u << (place - mc->commit.reservation);
    hold_units(mc, place, place->units);
    return place;
}

static void send_lock(mincost *mc, const mincost_reservation *v, int64_t cost) {
    router_outgoing *o = router_post(&mc->r, v->after, ROUTER_LOCK);
    o->k = v->k;
    o->token = v->token;
    o->position = (uint16_t)(v->last + 1);
    o->extra = v->first;
    o->cost = cost;
    o->units = (uint32_t)v->units;
}

static void send_abort(mincost *mc, router_peer to, router_token token, uint32_t position, bool forward) {
    router_outgoing *o = router_post(&mc->r, to, ROUTER_ABORT);
    o->token = token;
    o->position = (uint16_t)position;
    o->why = forward;
}

void mincost_begin_commit(mincost *mc, uint32_t k, const router_node *cycle, uint32_t length) {
    mincost_reservation wanted = {.token = {mc->r.config.self, mc->commit.serial + 1},
                                  .k = (uint8_t)k,
                                  .length = (uint16_t)length,
                                  .units = mc->minimise_bottleneck ? 1 : ROUTER_MAX_UNITS};
    for (uint32_t i = 0; i < length; i++) wanted.cycle[i] = cycle[i];
    int64_t cost = 0;
    const mincost_reservation *v = reserve(mc, &wanted, &cost);
    if (v == NULL) {
        back_off(mc);
        return;
    }
    mc->commit.serial++;
    mc->commit.own_active = true;
    mc->commit.own_commodity = (uint8_t)k;
    send_lock(mc, v, cost);
}

// --- Phase 2: commit -----------------------------------------------------------------------------

static void note_removal(mincost *mc, const mincost_reservation *v, uint32_t slot, int32_t units) {
    if (units == 0 || mc->commit.removals == UINT32_MAX) return;
    uint32_t i = (uint32_t)__builtin_ctz(~mc->commit.removals);
    mc->commit.removals |= 1u << i;
    mc->commit.removal[i] = (mincost_removal){v->token, v->last, v->k, (uint16_t)slot, units};
    upstream_of(mc, v->k, slot)->removing += units;
    invalidate_sums(mc, v->k);
}

static void remove_outflow(mincost *mc, const mincost_reservation *v, int32_t units) {
    uint32_t slot = (uint32_t)router_slot(&mc->r, ROUTER_NEXT, v->before);
    downstream_of(mc, v->k, slot)->units -= units;
    invalidate_sums(mc, v->k);
    router_outgoing *o = mincost_post_flow(mc, v->k, slot, MINCOST_APPLIED);
    o->token = v->token;
    o->position = (uint16_t)(v->first - 1);
}

static void send_commit(mincost *mc, const mincost_reservation *v, int32_t units) {
    router_outgoing *o = router_post(&mc->r, v->after, ROUTER_COMMIT);
    o->k = v->k;
    o->token = v->token;
    o->position = (uint16_t)(v->last + 1);
    o->extra = (uint32_t)units;
    o->why = v->exit == MINCOST_TO_NEXT;
    if (v->exit != MINCOST_TO_NEXT) return;
    const mincost_downstream *d = downstream_of(mc, v->k, (uint32_t)router_slot(&mc->r, ROUTER_NEXT, v->after));
    o->units = (uint32_t)d->units;
    o->taken_back = d->returned_done;
}

// Applies this peer's part as a whole and passes the COMMIT on. The death of a link has
// released its reservations, so the slots exist.
static void apply_commit(mincost *mc, mincost_reservation *place, int32_t units) {
    mincost_reservation v = *place;
    hold_units(mc, place, -place->units);
    free_reservation(mc, place);
    if (v.exit == MINCOST_TO_NEXT)
        downstream_of(mc, v.k, (uint32_t)router_slot(&mc->r, ROUTER_NEXT, v.after))->units += units;
    invalidate_sums(mc, v.k);
    if (v.exit == MINCOST_TO_PREVIOUS)
        note_removal(mc, &v, (uint32_t)router_slot(&mc->r, ROUTER_PREVIOUS, v.after), units);
    if (v.entry == MINCOST_FROM_NEXT) {
        remove_outflow(mc, &v, units);
        mincost_settle_returns(mc, v.k, (uint32_t)router_slot(&mc->r, ROUTER_NEXT, v.before));
    }
    if (v.exit == MINCOST_ENDS)
        end_own(mc);
    else
        send_commit(mc, &v, units);
}

// The own LOCK has returned: every peer on the cycle has reserved.
static void commit_own(mincost *mc, mincost_reservation *last, int32_t units) {
    mincost_reservation *first = mincost_find_reservation(mc, last->token, 0);
    mc->commit.failures = 0;
    // the unit to come counts as load from now on
    if (last->adds) mc->commit.adding -= last->units;
    last->adds = false;
    if (last->entry == MINCOST_FROM_PREVIOUS)
        mc->commit.incoming = units;
    else
        mc->commit.outgoing = units;
    apply_commit(mc, first, units);
}

static bool lock_is_valid(const mincost *mc, const router_message *m) {
    if (m->length < 3 || m->length > ROUTER_MAX_CYCLE || m->position == 0 || m->position >= m->length) return false;
    if (m->token.origin == 0 || router_owner(m->u.cycle[0]) != m->token.origin || m->units == 0) return false;
    return m->u.cycle[0] == m->u.cycle[m->length - 1] && router_owner(m->u.cycle[m->position]) == mc->r.config.self &&
           router_owner(m->u.cycle[m->position - 1]) == m->from;
}

// The LOCK is an own one, with the cycle it was sent with and no more units.
static bool completes_own(mincost *mc, const mincost_reservation *last) {
    const mincost_reservation *first = is_own(mc, last->token) ? mincost_find_reservation(mc, last->token, 0) : NULL;
    return first != NULL && first->k == last->k && first->length == last->length && first->units >= last->units &&
           memcmp(first->cycle, last->cycle, last->length * sizeof *last->cycle) == 0;
}

void mincost_on_lock(mincost *mc, const router_message *m) {
    int k = router_commodity(&mc->r, m->source);
    if (k < 0 || !lock_is_valid(mc, m) || mincost_find_reservation(mc, m->token, m->position) != NULL) return;
    mincost_reservation wanted = {.token = m->token,
                                  .k = (uint8_t)k,
                                  .first = m->position,
                                  .last = m->position,
                                  .length = m->length,
                                  .units = (int32_t)m->units};
    for (uint32_t i = 0; i < m->length; i++) wanted.cycle[i] = m->u.cycle[i];
    int64_t cost = m->cost;
    // staged: its sender has already left the staged plan
    mincost_reservation *v = mc->phase.staged ? NULL : reserve(mc, &wanted, &cost);
    if (v != NULL && v->exit != MINCOST_ENDS) {
        send_lock(mc, v, cost);
        return;
    }
    if (v != NULL && cost < 0 && completes_own(mc, v)) {
        commit_own(mc, v, v->units);
        return;
    }
    if (v != NULL) release(mc, v);
    send_abort(mc, m->from, m->token, m->position, false);
}

void mincost_on_commit(mincost *mc, const router_message *m, int previous, int next) {
    mincost_reservation *v = mincost_find_reservation(mc, m->token, m->position);
    int k = v != NULL ? v->k : router_commodity(&mc->r, m->source);
    bool forward = m->why != 0;
    if (k < 0 || (forward ? previous : next) < 0) return;
    if (v != NULL) {
        int32_t units = least((int32_t)m->u.word[0], v->units);
        if (v->before != m->from || forward != (v->entry == MINCOST_FROM_PREVIOUS)) return;
        if (forward && !mincost_accept_counts(mc, (uint32_t)k, (uint32_t)previous, m->units, m->taken_back)) return;
        apply_commit(mc, v, units);
        return;
    }
    // The reservation has expired. The cycle is interrupted here and the ledger repairs the rest.
    if (forward) {
        int32_t before = mincost_inflow(mc, (uint32_t)k, (uint32_t)previous);
        if (!mincost_accept_counts(mc, (uint32_t)k, (uint32_t)previous, m->units, m->taken_back)) return;
        mincost_return_overflow(mc, (uint32_t)k, (uint32_t)previous,
                                mincost_inflow(mc, (uint32_t)k, (uint32_t)previous) - before);
        return;
    }
    router_outgoing *o = mincost_post_flow(mc, (uint32_t)k, (uint32_t)next, MINCOST_REFUSED);
    o->token = m->token;
    o->position = (uint16_t)(m->position - 1);
}

// --- Aborts and leases ---------------------------------------------------------------------------

static void abort_backward(mincost *mc, mincost_reservation *place) {
    mincost_reservation v = *place;
    release(mc, place);
    if (v.first != 0) {
        send_abort(mc, v.before, v.token, v.first, false);
    } else if (is_own(mc, v.token)) {
        end_own(mc);
        back_off(mc);
    }
}

static void abort_forward(mincost *mc, mincost_reservation *place) {
    mincost_reservation v = *place;
    release(mc, place);
    if (v.exit != MINCOST_ENDS)
        send_abort(mc, v.after, v.token, v.last + 1u, true);
    else if (is_own(mc, v.token))
        end_own(mc);
}

void mincost_on_abort(mincost *mc, const router_message *m) {
    if (m->why) {
        mincost_reservation *v = mincost_find_reservation(mc, m->token, m->position);
        if (v != NULL && v->before == m->from) abort_forward(mc, v);
        return;
    }
    mincost_reservation *v = m->position > 0 ? reservation_that_ends(mc, m->token, m->position - 1u) : NULL;
    if (v != NULL && v->after == m->from) abort_backward(mc, v);
}

// Aborts a commit backward after the death of its next hop, and forward after that of its previous one. The
// caller clears the state of the dead link.
void mincost_commit_link_gone(mincost *mc, router_peer peer) {
    EACH_OF(mc->commit.reservations, i) {
        mincost_reservation *v = &mc->commit.reservation[i];
        if (v->before == peer)
            abort_forward(mc, v);
        else if (v->after == peer)
            abort_backward(mc, v);
    }
}

void mincost_expire_reservations(mincost *mc) {
    EACH_OF(mc->commit.reservations, i) {
        mincost_reservation *v = &mc->commit.reservation[i];
        if (mc->r.now < v->lease) {
            router_want(&mc->r, v->lease);
            continue;
        }
        bool own = is_own(mc, v->token);
        release(mc, v);
        if (own) end_own(mc);
    }
}

// No ABORT is sent: all peers drop their reservations at the same change of flow version.
void mincost_drop_reservations(mincost *mc) {
    EACH_OF(mc->commit.reservations, i) hold_units(mc, &mc->commit.reservation[i], -mc->commit.reservation[i].units);
    EACH_OF(mc->commit.removals, g) {
        upstream_of(mc, mc->commit.removal[g].k, mc->commit.removal[g].slot)->removing -= mc->commit.removal[g].units;
        invalidate_sums(mc, mc->commit.removal[g].k);
    }
    mc->commit.reservations = mc->commit.removals = 0;
    end_own(mc);
}

// Surplus inflow cannot be returned because commits have reserved it for removal: abort them.
void mincost_release_inflow(mincost *mc, uint32_t k, int32_t units) {
    EACH_OF(mc->commit.reservations, i) {
        mincost_reservation *v = &mc->commit.reservation[i];
        if (units <= 0 || v->k != k || v->exit != MINCOST_TO_PREVIOUS) continue;
        bool own = is_own(mc, v->token);
        units -= v->units;
        abort_forward(mc, v);
        if (own) end_own(mc);
    }
}

// Surplus inflow is reserved and the remaining room is promised to commits: release as many of
// those as needed, as if their leases had expired.
void mincost_release_additions(mincost *mc) {
    EACH_OF(mc->commit.reservations, i) {
        mincost_reservation *v = &mc->commit.reservation[i];
        if (!v->adds || mincost_room(mc) >= 0) continue;
        bool own = is_own(mc, v->token);
        release(mc, v);
        if (own) end_own(mc);
    }
}
