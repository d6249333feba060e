// braid's tokens: reserve round a cycle (LOCK), apply it as a whole (COMMIT), or let go (ABORT). Nobody waits for a lock.
#include "routing/mincost/mincost.h"

#include <string.h>

static bool same(router_token a, router_token b) { return a.origin == b.origin && a.serial == b.serial; }

braid_visit *braid_find_visit(braid *b, router_token token, uint32_t first) {
    EACH_OF(b->visits, i) {
        braid_visit *v = &b->visit[i];
        if (v->first == first && same(v->token, token)) return v;
    }
    return NULL;
}

static braid_visit *visit_that_ends(braid *b, router_token token, uint32_t last) {
    EACH_OF(b->visits, i) {
        braid_visit *v = &b->visit[i];
        if (v->last == last && same(v->token, token)) return v;
    }
    return NULL;
}

static void back_off(braid *b) {
    int64_t delay = b->r.config.delay;
    b->failures++;
    int64_t spread = 1 + 2 * (int64_t)(b->failures < 6 ? b->failures : 6);
    b->back_off_until = b->r.now + delay + (int64_t)rng_below(&b->r.random, (uint64_t)(spread * delay));
}

static void forget_own(braid *b) {
    b->out = false;
    b->coming_in = b->coming_out = 0;
    recount(b, b->own_k);
}

static bool is_own(const braid *b, router_token token) {
    return b->out && token.origin == b->r.config.self && token.serial == b->serial;
}

// --- Reserving ---------------------------------------------------------------------------------------------------------

static void hold(braid *b, const braid_visit *v, int32_t units) {
    int from = router_slot(&b->r, ROUTER_NEXT, v->before), to = router_slot(&b->r, ROUTER_PREVIOUS, v->after);
    if (v->entry == BRAID_FROM_NEXT && from >= 0) down_of(b, v->k, (uint32_t)from)->reserved += units;
    if (v->exit == BRAID_TO_PREVIOUS && to >= 0) up_of(b, v->k, (uint32_t)to)->reserved += units;
    int on = router_slot(&b->r, ROUTER_NEXT, v->after);
    if (v->exit == BRAID_TO_NEXT && on >= 0) down_of(b, v->k, (uint32_t)on)->adding += units;
    if (v->adds) b->add += units;
    if (v->drops) b->drop += units;
    braid_stir(b);
}

static void end_visit(braid *b, const braid_visit *v) { b->visits &= ~(1u << (v - b->visit)); }

void braid_end_going(braid *b, const braid_going *g) { b->goings &= ~(1u << (g - b->going)); }

static void let_go(braid *b, braid_visit *v) {
    hold(b, v, -v->units);
    end_visit(b, v);
    int from = router_slot(&b->r, ROUTER_NEXT, v->before);
    if (v->entry == BRAID_FROM_NEXT && from >= 0) braid_take_back(b, v->k, (uint32_t)from);
}

// With the objective worst the next unit over a link costs something else: one token at a time.
static bool open_for_token(const braid *b, uint32_t slot) {
    int32_t held = 0;
    for (uint32_t k = 0; b->worst && k < b->r.commodities; k++)
        held += down_of(b, k, slot)->adding + down_of(b, k, slot)->reserved;
    return held == 0;
}

// Entry over the arc cycle[first - 1] -> cycle[first]; narrows v->units. False: not possible.
static bool enter(braid *b, braid_visit *v, int64_t *cost) {
    if (v->first == 0) return true;
    router_half from = v->cycle[v->first - 1], at = v->cycle[v->first];
    v->before = router_owner(from);
    if (from == router_out(v->before)) {
        v->entry = BRAID_FROM_PREVIOUS;
        return at == router_in(b->r.config.self) && router_slot(&b->r, ROUTER_PREVIOUS, v->before) >= 0;
    }
    v->entry = BRAID_FROM_NEXT;
    int slot = router_slot(&b->r, ROUTER_NEXT, v->before);
    if (at != router_out(b->r.config.self) || slot < 0 || !open_for_token(b, (uint32_t)slot)) return false;
    if (b->worst) *cost -= cost_of_less(b, ROUTER_NEXT, (uint32_t)slot);  // only who owns the count is sure of it
    v->units = least(v->units, braid_free_out(b, v->k, (uint32_t)slot));
    return v->units > 0;
}

static bool cross(braid *b, braid_visit *v, int64_t *cost) {
    router_half in = router_in(b->r.config.self), out = router_out(b->r.config.self);
    router_half at = v->cycle[v->first], next = v->last + 1 < v->length ? v->cycle[v->last + 1] : 0;
    if (next != in && next != out) return true;
    if (next == at) return false;
    v->last++;
    if (b->r.is_source) v->units = least(v->units, 1);  // the next one would cost something else
    v->adds = next == out;
    v->drops = next == in && !b->r.is_source;
    if (b->r.is_source) *cost += v->adds ? -worth_of_unit(b) : worth_of_unit(b);
    if (v->adds) v->units = least(v->units, braid_room(b));
    return v->units > 0;
}

static bool leave(braid *b, braid_visit *v, int64_t *cost) {
    if (v->last + 1 >= v->length) return true;
    router_half at = v->cycle[v->last], next = v->cycle[v->last + 1];
    v->after = router_owner(next);
    if (at == router_out(b->r.config.self)) {
        v->exit = BRAID_TO_NEXT;
        int slot = router_slot(&b->r, ROUTER_NEXT, v->after);
        if (slot < 0 || next != router_in(v->after) || !open_for_token(b, (uint32_t)slot)) return false;
        *cost += cost_of_more(b, (uint32_t)slot);
        return true;
    }
    v->exit = BRAID_TO_PREVIOUS;
    int slot = router_slot(&b->r, ROUTER_PREVIOUS, v->after);
    if (slot < 0 || next != router_out(v->after)) return false;
    if (!b->worst) *cost -= link_cost(b, ROUTER_PREVIOUS, (uint32_t)slot);
    v->units = least(v->units, braid_free_in(b, v->k, (uint32_t)slot));
    return v->units > 0;
}

static braid_visit *free_visit(braid *b) {
    int taken = __builtin_popcount(b->visits) + __builtin_popcount(b->goings);  // every removal may need a place in `going`
    return taken < BRAID_RESERVATIONS ? &b->visit[31 - __builtin_clz(~b->visits)] : NULL;
}

// Checks my visit that begins at `first` against the live state and reserves it; adds its true cost.
static braid_visit *reserve(braid *b, const braid_visit *wanted, int64_t *cost) {
    braid_visit *place = free_visit(b);
    if (place == NULL) return NULL;
    braid_visit v = *wanted;
    if (!enter(b, &v, cost) || !cross(b, &v, cost) || !leave(b, &v, cost)) return NULL;
    v.lease = b->r.now + (4 * (int64_t)v.length + 20) * b->r.config.delay;
    router_want(&b->r, v.lease);
    *place = v;
    b->visits |= 1u << (place - b->visit);
    hold(b, place, place->units);
    return place;
}

static void send_lock(braid *b, const braid_visit *v, int64_t cost) {
    outgoing *o = router_post(&b->r, v->after, ROUTER_LOCK);
    o->k = v->k;
    o->token = v->token;
    o->position = (uint16_t)(v->last + 1);
    o->extra = v->first;
    o->cost = cost;
    o->units = (uint32_t)v->units;
}

static void send_abort(braid *b, router_peer to, router_token token, uint32_t position, bool onwards) {
    outgoing *o = router_post(&b->r, to, ROUTER_ABORT);
    o->token = token;
    o->position = (uint16_t)position;
    o->why = onwards;
}

void braid_launch(braid *b, uint32_t k, const router_half *cycle, uint32_t length) {
    braid_visit wanted = {.token = {b->r.config.self, b->serial + 1},
                          .k = (uint8_t)k,
                          .length = (uint16_t)length,
                          .units = b->worst ? 1 : ROUTER_MAX_UNITS};
    for (uint32_t i = 0; i < length; i++) wanted.cycle[i] = cycle[i];
    int64_t cost = 0;
    const braid_visit *v = reserve(b, &wanted, &cost);
    if (v == NULL) {
        back_off(b);
        return;
    }
    b->serial++;
    b->out = true;
    b->own_k = (uint8_t)k;
    send_lock(b, v, cost);
}

// --- Walking on --------------------------------------------------------------------------------------------------------

static void note_going(braid *b, const braid_visit *v, uint32_t slot, int32_t units) {
    if (units == 0 || b->goings == UINT32_MAX) return;
    uint32_t i = (uint32_t)__builtin_ctz(~b->goings);
    b->goings |= 1u << i;
    b->going[i] = (braid_going){v->token, v->last, v->k, (uint16_t)slot, units};
    up_of(b, v->k, slot)->going += units;
    recount(b, v->k);
}

static void take_off_out(braid *b, const braid_visit *v, int32_t units) {
    uint32_t slot = (uint32_t)router_slot(&b->r, ROUTER_NEXT, v->before);
    down_of(b, v->k, slot)->out -= units;
    recount(b, v->k);
    outgoing *o = braid_say_flow(b, v->k, slot, BRAID_APPLIED);
    o->token = v->token;
    o->position = (uint16_t)(v->first - 1);
}

static void send_commit(braid *b, const braid_visit *v, int32_t units) {
    outgoing *o = router_post(&b->r, v->after, ROUTER_COMMIT);
    o->k = v->k;
    o->token = v->token;
    o->position = (uint16_t)(v->last + 1);
    o->extra = (uint32_t)units;
    o->why = v->exit == BRAID_TO_NEXT;
    if (v->exit != BRAID_TO_NEXT) return;
    const braid_down *d = down_of(b, v->k, (uint32_t)router_slot(&b->r, ROUTER_NEXT, v->after));
    o->units = (uint32_t)d->out;
    o->taken_back = d->denied_done;
}

// Applies my visit as a whole and passes the COMMIT on. A visit whose link died was let go before this could be called.
static void apply(braid *b, braid_visit *place, int32_t units) {
    braid_visit v = *place;
    hold(b, place, -place->units);
    end_visit(b, place);
    if (v.exit == BRAID_TO_NEXT) down_of(b, v.k, (uint32_t)router_slot(&b->r, ROUTER_NEXT, v.after))->out += units;
    recount(b, v.k);
    if (v.exit == BRAID_TO_PREVIOUS) note_going(b, &v, (uint32_t)router_slot(&b->r, ROUTER_PREVIOUS, v.after), units);
    if (v.entry == BRAID_FROM_NEXT) {
        take_off_out(b, &v, units);
        braid_take_back(b, v.k, (uint32_t)router_slot(&b->r, ROUTER_NEXT, v.before));
    }
    if (v.exit == BRAID_ENDS)
        forget_own(b);
    else
        send_commit(b, &v, units);
}

// My token is home, and every peer on the cycle has reserved.
static void commit_own(braid *b, braid_visit *last, int32_t units) {
    braid_visit *first = braid_find_visit(b, last->token, 0);
    b->failures = 0;
    if (last->adds) b->add -= last->units;  // from now on the unit to come counts as load
    last->adds = false;
    if (last->entry == BRAID_FROM_PREVIOUS)
        b->coming_in = units;
    else
        b->coming_out = units;
    apply(b, first, units);
}

static bool lock_good(const braid *b, const router_message *m) {
    if (m->length < 3 || m->length > ROUTER_MAX_CYCLE || m->position == 0 || m->position >= m->length) return false;
    if (m->token.origin == 0 || router_owner(m->u.cycle[0]) != m->token.origin || m->units == 0) return false;
    return m->u.cycle[0] == m->u.cycle[m->length - 1] && router_owner(m->u.cycle[m->position]) == b->r.config.self &&
           router_owner(m->u.cycle[m->position - 1]) == m->from;
}

// It is my own token, on the cycle and with no more than I sent it off with.
static bool comes_home(braid *b, const braid_visit *last) {
    const braid_visit *first = is_own(b, last->token) ? braid_find_visit(b, last->token, 0) : NULL;
    return first != NULL && first->k == last->k && first->length == last->length && first->units >= last->units &&
           memcmp(first->cycle, last->cycle, last->length * sizeof *last->cycle) == 0;
}

void braid_on_lock(braid *b, const router_message *m) {
    int k = router_commodity(&b->r, m->source);
    if (k < 0 || !lock_good(b, m) || braid_find_visit(b, m->token, m->position) != NULL) return;
    braid_visit wanted = {.token = m->token,
                          .k = (uint8_t)k,
                          .first = m->position,
                          .last = m->position,
                          .length = m->length,
                          .units = (int32_t)m->units};
    for (uint32_t i = 0; i < m->length; i++) wanted.cycle[i] = m->u.cycle[i];
    int64_t cost = m->cost;
    braid_visit *v = b->drafts ? NULL : reserve(b, &wanted, &cost);  // whose sender's draft is over already
    if (v != NULL && v->exit != BRAID_ENDS) {
        send_lock(b, v, cost);
        return;
    }
    if (v != NULL && cost < 0 && comes_home(b, v)) {
        commit_own(b, v, v->units);
        return;
    }
    if (v != NULL) let_go(b, v);
    send_abort(b, m->from, m->token, m->position, false);
}

void braid_on_commit(braid *b, const router_message *m, int previous, int next) {
    braid_visit *v = braid_find_visit(b, m->token, m->position);
    int k = v != NULL ? v->k : router_commodity(&b->r, m->source);
    bool forward = m->why != 0;
    if (k < 0 || (forward ? previous : next) < 0) return;
    if (v != NULL) {
        int32_t units = least((int32_t)m->u.word[0], v->units);
        if (v->before != m->from || forward != (v->entry == BRAID_FROM_PREVIOUS)) return;
        if (forward && !braid_on_counts(b, (uint32_t)k, (uint32_t)previous, m->units, m->taken_back)) return;
        apply(b, v, units);
        return;
    }
    // Late: the reservation is gone. The cycle is cut here, and repair mends the cut.
    if (forward) {
        int32_t before = braid_in(b, (uint32_t)k, (uint32_t)previous);
        if (!braid_on_counts(b, (uint32_t)k, (uint32_t)previous, m->units, m->taken_back)) return;
        braid_hand_back_overflow(b, (uint32_t)k, (uint32_t)previous,
                                 braid_in(b, (uint32_t)k, (uint32_t)previous) - before);
        return;
    }
    outgoing *o = braid_say_flow(b, (uint32_t)k, (uint32_t)next, BRAID_REFUSED);
    o->token = m->token;
    o->position = (uint16_t)(m->position - 1);
}

// --- Letting go --------------------------------------------------------------------------------------------------------

static void abort_backwards(braid *b, braid_visit *place) {
    braid_visit v = *place;
    let_go(b, place);
    if (v.first != 0) {
        send_abort(b, v.before, v.token, v.first, false);
    } else if (is_own(b, v.token)) {
        forget_own(b);
        back_off(b);
    }
}

static void abort_onwards(braid *b, braid_visit *place) {
    braid_visit v = *place;
    let_go(b, place);
    if (v.exit != BRAID_ENDS)
        send_abort(b, v.after, v.token, v.last + 1u, true);
    else if (is_own(b, v.token))
        forget_own(b);
}

void braid_on_abort(braid *b, const router_message *m) {
    if (m->why) {
        braid_visit *v = braid_find_visit(b, m->token, m->position);
        if (v != NULL && v->before == m->from) abort_onwards(b, v);
        return;
    }
    braid_visit *v = m->position > 0 ? visit_that_ends(b, m->token, m->position - 1u) : NULL;
    if (v != NULL && v->after == m->from) abort_backwards(b, v);
}

// Tokens whose next hop died are aborted backwards, whose previous hop died, onwards. What the dead link held is
// forgotten by the caller.
void braid_tokens_link_gone(braid *b, router_peer peer) {
    EACH_OF(b->visits, i) {
        braid_visit *v = &b->visit[i];
        if (v->before == peer)
            abort_onwards(b, v);
        else if (v->after == peer)
            abort_backwards(b, v);
    }
}

void braid_expire(braid *b) {
    EACH_OF(b->visits, i) {
        braid_visit *v = &b->visit[i];
        if (b->r.now < v->lease) {
            router_want(&b->r, v->lease);
            continue;
        }
        bool own = is_own(b, v->token);
        let_go(b, v);
        if (own) forget_own(b);
    }
}

// Nobody will hear of them again.
void braid_drop_tokens(braid *b) {
    EACH_OF(b->visits, i) hold(b, &b->visit[i], -b->visit[i].units);
    EACH_OF(b->goings, g) {
        up_of(b, b->going[g].k, b->going[g].slot)->going -= b->going[g].units;
        recount(b, b->going[g].k);
    }
    b->visits = b->goings = 0;
    forget_own(b);
}

// What came in too much cannot go back, because tokens that are to take it off hold it.
void braid_let_in_go(braid *b, uint32_t k, int32_t units) {
    EACH_OF(b->visits, i) {
        braid_visit *v = &b->visit[i];
        if (units <= 0 || v->k != k || v->exit != BRAID_TO_PREVIOUS) continue;
        bool own = is_own(b, v->token);
        units -= v->units;
        abort_onwards(b, v);
        if (own) forget_own(b);
    }
}

// What came in cannot go back, because tokens hold it, and the rest of the room is promised to tokens: as if the leases of
// as many of those were over.
void braid_give_way(braid *b) {
    EACH_OF(b->visits, i) {
        braid_visit *v = &b->visit[i];
        if (!v->adds || braid_room(b) >= 0) continue;
        bool own = is_own(b, v->token);
        let_go(b, v);
        if (own) forget_own(b);
    }
}
