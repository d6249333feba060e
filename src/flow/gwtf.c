// GWTF's flow algorithm as published (paper, section V-C): Request Flow builds units of flow from the sink back to the
// source, Request Change and Request Redirect improve them, with simulated annealing. docs/routing.md lists how each open
// point is read. A unit is a chain of places, one in each peer; the link between two places is owned by its upstream end
// and carries a turn that rises with each change, so that news of it can be told from old news.
#include "flow/inside.h"

#include <math.h>

enum {
    TOLD_UNITS = 14,   // units in an answer to a query
    TOLD_COSTS = 16,   // costs a side in it
    ITERATION = 4,     // delays: query, answer, request, answer
    CHECK_AFTER = 30,  // delays
    ITERATIONS = 120,  // refinements after the last change of neighbours; then a router only answers
    WORDS = 3 * TOLD_UNITS + 4 * TOLD_COSTS,
};

// Why: of REQUEST and ANSWER; of RELINK.
enum { FLOW, CHANGE, REDIRECT, REFUSED };
enum { ASK, ASK_YES, ASK_NO, UPSTREAM_IS, BROKEN_UP, BROKEN_DOWN, CHECK };

typedef enum place_state { FREE, ASKING, HELD, TAKING } place_state;

typedef struct place {
    place_state state;  // ASKING: for a unit; TAKING: another's place; HELD: the usual
    bool home;          // a data peer's: a unit ends here
    bool locked;        // its way on is being changed: `other` asked or is asked, or a redirect waits for `previous`
    bool giving;        // locked for a redirect to `other`
    bool doomed;        // to be dissolved when it is no longer locked
    uint8_t k;
    router_peer previous, next;  // 0: none yet
    uint32_t next_place, next_turn;
    uint32_t turn;      // of the link from upstream; never falls
    router_peer other;  // who is asked
    uint32_t other_place, other_turn;
    uint32_t seen_turn;  // the upstream that check_places knows, and when it is asked
    router_peer seen_previous;
    int64_t check_at;
    router_peer asked;  // giving: the owner of the link to me, when I asked
    int64_t cost;       // from here to the sink
} place;

typedef struct told {
    router_peer peer;  // 0: no answer yet
    uint32_t units, before, after;
    uint32_t word[WORDS];
} told;

typedef struct gwtf {
    router r;
    place *place;
    uint32_t places;
    int64_t *offer_cost;  // [commodity * max_neighbours + slot] of next neighbours
    uint32_t *offer_units;
    int64_t *said_cost;  // by previous neighbour
    uint32_t *said_units;
    told *told;  // of the own stage, by slot
    double temperature;
    uint32_t iterations;
    int64_t iteration_at, acts_at, judges_at;
} gwtf;

static gwtf *of(router *r) { return (gwtf *)r; }

// --- Places ------------------------------------------------------------------------------------------------------------

static uint32_t used(const gwtf *g, bool home) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < g->places; i++) n += g->place[i].state != FREE && g->place[i].home == home;
    return n;
}

static uint32_t room(const gwtf *g, bool home) {
    uint32_t n = used(g, home);
    return n < g->r.config.capacity ? g->r.config.capacity - n : 0;
}

static int take_place(gwtf *g, place_state state, uint32_t k, bool home) {
    if (room(g, home) == 0) return -1;
    for (uint32_t i = 0; i < g->places; i++) {
        place *p = &g->place[i];
        if (p->state != FREE) continue;
        *p = (place){.state = state, .home = home, .k = (uint8_t)k, .turn = p->turn};
        return (int)i;
    }
    return -1;
}

// Turns of the place's next unit lie above all that could still be under way.
static void free_place(place *p) { *p = (place){.turn = (p->turn | 0xffff) + 1}; }

static bool same_unit(const place *p, uint32_t turn) { return p->state != FREE && p->turn >> 16 == turn >> 16; }

static place *find_next(gwtf *g, router_peer next, uint32_t next_place, uint32_t turn) {
    for (uint32_t i = 0; i < g->places; i++) {
        place *p = &g->place[i];
        if (p->state != FREE && p->next == next && p->next_place == next_place && p->next_turn == turn) return p;
    }
    return NULL;
}

static outgoing *relink(gwtf *g, router_peer to, uint8_t why, uint32_t at, uint32_t turn) {
    outgoing *o = router_post(&g->r, to, ROUTER_RELINK);
    o->why = why;
    o->position = (uint16_t)at;
    o->units = 0;
    o->taken_back = turn;
    return o;
}

// The unit through here is broken: both its halves are taken apart, to the source and to the sink.
static void dissolve(gwtf *g, place *p) {
    if (p->state == FREE) return;
    p->doomed = true;
    if (p->locked || p->state == ASKING || p->state == TAKING) return;
    if (p->previous != 0) relink(g, p->previous, BROKEN_UP, (uint32_t)(p - g->place), p->turn);
    if (p->next != 0) relink(g, p->next, BROKEN_DOWN, p->next_place, p->next_turn);
    free_place(p);
}

static int64_t cost_to(const gwtf *g, router_side side, router_peer peer) {
    int slot = router_slot(&g->r, side, peer);
    return slot < 0 ? -1 : g->r.slot[side][slot].cost;
}

// --- Request Flow ------------------------------------------------------------------------------------------------------

// My cheapest unpaired outflow to the sink of k; a data peer's sink is offered while it has room. -1: none.
static int cheapest_unpaired(const gwtf *g, uint32_t k) {
    int best = -1;
    for (uint32_t i = 0; i < g->places; i++) {
        const place *p = &g->place[i];
        if (p->state != HELD || p->giving || p->doomed || p->previous != 0 || p->k != k || p->home || g->r.is_source)
            continue;
        if (best < 0 || p->cost < g->place[best].cost) best = (int)i;
    }
    return best;
}

static uint32_t offered(const gwtf *g, uint32_t k, int64_t *cost) {
    *cost = 0;
    if (g->r.is_source) return room(g, true);
    int best = cheapest_unpaired(g, k);
    if (best < 0) return 0;
    *cost = g->place[best].cost;
    return 1;
}

static void post_offer(gwtf *g, uint32_t k, router_peer to, uint32_t units, int64_t cost) {
    outgoing *o = router_post(&g->r, to, ROUTER_OFFER);
    o->k = (uint8_t)k;
    o->units = units;
    o->cost = cost;
}

static void say_offers(gwtf *g) {
    for (uint32_t k = 0; k < g->r.commodities; k++) {
        int64_t cost;
        uint32_t units = offered(g, k, &cost);
        EACH_NEIGHBOUR(&g->r, ROUTER_PREVIOUS, slot) {
            uint32_t at = k * g->r.config.max_neighbours + slot;
            if (g->said_units[at] == units && g->said_cost[at] == cost) continue;
            g->said_units[at] = units;
            g->said_cost[at] = cost;
            post_offer(g, k, g->r.slot[ROUTER_PREVIOUS][slot].peer, units, cost);
        }
    }
}

// The cheapest offer of the next stage; false when there is none.
static bool best_offer(const gwtf *g, uint32_t *k, uint32_t *slot) {
    int64_t best = INT64_MAX;
    for (uint32_t i = 0; i < g->r.commodities; i++) {
        EACH_NEIGHBOUR(&g->r, ROUTER_NEXT, s) {
            uint32_t at = i * g->r.config.max_neighbours + s;
            int64_t cost = g->offer_cost[at] + g->r.slot[ROUTER_NEXT][s].cost;
            if (g->offer_units[at] == 0 || cost >= best) continue;
            best = cost;
            *k = i;
            *slot = s;
        }
    }
    return best < INT64_MAX;
}

static bool something_unpaired(const gwtf *g) {
    for (uint32_t i = 0; i < g->places; i++) {
        const place *p = &g->place[i];
        if (p->state != FREE && !p->home && (p->state != HELD || (p->previous == 0 && !g->r.is_source))) return true;
    }
    return false;
}

static bool request_flow(gwtf *g) {
    uint32_t k, slot;
    if (something_unpaired(g) || !best_offer(g, &k, &slot)) return false;
    int at = take_place(g, ASKING, k, false);
    if (at < 0) return false;
    place *p = &g->place[at];
    p->other = g->r.slot[ROUTER_NEXT][slot].peer;
    outgoing *o = router_post(&g->r, p->other, ROUTER_REQUEST);
    o->why = FLOW;
    o->k = (uint8_t)k;
    o->position = (uint16_t)at;
    o->cost = g->offer_cost[k * g->r.config.max_neighbours + slot];
    return true;
}

static outgoing *answer(gwtf *g, const router_message *m, uint8_t why) {
    outgoing *o = router_post(&g->r, m->from, ROUTER_ANSWER);
    o->why = why;
    o->position = m->position;
    return o;
}

static void on_request_flow(gwtf *g, const router_message *m, uint32_t k, int previous) {
    int at = g->r.is_source ? take_place(g, HELD, k, true) : cheapest_unpaired(g, k);
    if (previous < 0 || at < 0 || g->place[at].cost > m->cost) {
        if (previous >= 0 && g->r.is_source && at >= 0) free_place(&g->place[at]);
        answer(g, m, REFUSED);
        if (previous >= 0) {
            int64_t cost;
            uint32_t units = offered(g, k, &cost);
            post_offer(g, k, m->from, units, cost);
        }
        return;
    }
    place *p = &g->place[at];
    p->previous = m->from;
    p->turn++;
    outgoing *o = answer(g, m, FLOW);
    o->cost = p->cost;
    o->units = (uint32_t)at;
    o->taken_back = p->turn;
}

static void on_flow_answer(gwtf *g, const router_message *m, place *p) {
    int64_t cost = cost_to(g, ROUTER_NEXT, m->from);
    p->state = HELD;
    p->next = m->from;
    p->next_place = m->units;
    p->next_turn = m->taken_back;
    p->cost = m->cost + cost;
    p->other = 0;
    if (p->doomed) dissolve(g, p);
}

// --- Request Change and Request Redirect -------------------------------------------------------------------------------

typedef struct candidate {
    int64_t gain;  // what the sum of costs would change by
    uint32_t kind;
    place *mine;                 // CHANGE
    uint32_t slot, their_place;  // of whom; his place
    uint32_t k;
    router_peer before, after;  // his unit's neighbours
    uint64_t tie;
} candidate;

static bool movable(const place *p) { return p->state == HELD && !p->home && !p->locked && !p->doomed && p->next != 0; }

static void query(gwtf *g) {
    EACH_NEIGHBOUR(&g->r, ROUTER_SAME, slot) {
        g->told[slot].peer = 0;
        router_post(&g->r, g->r.slot[ROUTER_SAME][slot].peer, ROUTER_QUERY);
    }
}

static void compose_costs(const gwtf *g, router_side side, uint32_t *word, uint32_t *length, uint32_t *count) {
    *count = 0;
    EACH_NEIGHBOUR(&g->r, side, slot) {
        if (*count == TOLD_COSTS) break;
        word[(*length)++] = g->r.slot[side][slot].peer;
        word[(*length)++] = (uint32_t)g->r.slot[side][slot].cost;
        (*count)++;
    }
}

// My units (place and commodity, where from, where to), then the costs of my links.
static void compose_units(const gwtf *g, router_message *out) {
    uint32_t length = 0, before, after;
    out->units = 0;
    for (uint32_t i = 0; i < g->places && out->units < TOLD_UNITS; i++) {
        const place *p = &g->place[i];
        if (!movable(p)) continue;
        out->u.word[length++] = i << 8 | p->k;
        out->u.word[length++] = p->previous;
        out->u.word[length++] = p->next;
        out->units++;
    }
    compose_costs(g, ROUTER_PREVIOUS, out->u.word, &length, &before);
    compose_costs(g, ROUTER_NEXT, out->u.word, &length, &after);
    out->length = (uint16_t)length;
    out->position = (uint16_t)before;
    out->taken_back = after;
}

static void on_units(gwtf *g, const router_message *m, int same) {
    if (m->units > TOLD_UNITS || m->position > TOLD_COSTS || m->taken_back > TOLD_COSTS) return;
    told *t = &g->told[same];
    t->units = m->units;
    t->before = m->position;
    t->after = m->taken_back;
    t->peer = m->from;
    for (uint32_t i = 0; i < 3 * t->units + 2 * (t->before + t->after); i++) t->word[i] = m->u.word[i];
}

static int64_t told_cost(const uint32_t *word, uint32_t count, router_peer peer) {
    for (uint32_t i = 0; i < count; i++) {
        if (word[2 * i] == peer) return word[2 * i + 1];
    }
    return -1;
}

static void better(gwtf *g, candidate *best, candidate c) {
    c.tie = rng_next(&g->r.random);
    if (best->kind == REFUSED || c.gain < best->gain || (c.gain == best->gain && c.tie < best->tie)) *best = c;
}

// A unit of mine goes where his goes, and his where mine goes.
static void try_changes(gwtf *g, const told *t, candidate *best, candidate c) {
    const uint32_t *after = t->word + 3 * t->units + 2 * t->before;
    int64_t mine_there = cost_to(g, ROUTER_NEXT, c.after), his_now = told_cost(after, t->after, c.after);
    for (uint32_t i = 0; i < g->places; i++) {
        place *p = &g->place[i];
        if (!movable(p) || p->k != c.k || p->next == c.after) continue;
        int64_t his_there = told_cost(after, t->after, p->next), mine_now = cost_to(g, ROUTER_NEXT, p->next);
        if (mine_there < 0 || his_now < 0 || his_there < 0 || mine_now < 0) continue;
        c.kind = CHANGE;
        c.mine = p;
        c.gain = mine_there + his_there - mine_now - his_now;
        better(g, best, c);
    }
}

// I take his place in his unit.
static void try_redirect(gwtf *g, const told *t, candidate *best, candidate c) {
    const uint32_t *before = t->word + 3 * t->units, *after = before + 2 * t->before;
    int64_t in = cost_to(g, ROUTER_PREVIOUS, c.before), out = cost_to(g, ROUTER_NEXT, c.after);
    int64_t his_in = told_cost(before, t->before, c.before), his_out = told_cost(after, t->after, c.after);
    if (c.before == 0 || in < 0 || out < 0 || his_in < 0 || his_out < 0) return;
    c.kind = REDIRECT;
    c.gain = in + out - his_in - his_out;
    better(g, best, c);
}

static candidate best_candidate(gwtf *g) {
    candidate best = {.kind = REFUSED};
    bool spare = room(g, false) > 0;
    EACH_NEIGHBOUR(&g->r, ROUTER_SAME, slot) {
        const told *t = &g->told[slot];
        if (t->peer == 0) continue;
        for (uint32_t i = 0; i < t->units; i++) {
            candidate c = {.slot = slot,
                           .their_place = t->word[3 * i] >> 8,
                           .k = t->word[3 * i] & 255,
                           .before = t->word[3 * i + 1],
                           .after = t->word[3 * i + 2]};
            try_changes(g, t, &best, c);
            if (spare) try_redirect(g, t, &best, c);
        }
    }
    return best;
}

static bool accepts(gwtf *g, int64_t gain) {
    return gain < 0 || (g->temperature > 0 && exp(-(double)gain / g->temperature) > rng_unit(&g->r.random));
}

static void judge(gwtf *g) {
    candidate c = best_candidate(g);
    if (c.kind == REFUSED || !accepts(g, c.gain)) return;
    place *p = c.mine;
    if (c.kind == REDIRECT) {
        int at = take_place(g, TAKING, c.k, false);
        if (at < 0) return;
        p = &g->place[at];
        p->turn++;
    }
    p->locked = true;
    p->other = g->r.slot[ROUTER_SAME][c.slot].peer;
    p->other_place = c.their_place;
    outgoing *o = router_post(&g->r, p->other, ROUTER_REQUEST);
    o->why = (uint8_t)c.kind;
    o->k = (uint8_t)c.k;
    o->position = (uint16_t)(p - g->place);
    o->units = c.their_place;
    o->taken_back = p->turn;
    o->cost = c.gain;
    o->token = (router_token){c.after, c.before};
}

static void link_on(gwtf *g, place *p, router_peer next, uint32_t next_place, uint32_t turn, int64_t tail) {
    p->next = next;
    p->next_place = next_place;
    p->next_turn = turn;
    p->cost = tail + cost_to(g, ROUTER_NEXT, next);
    relink(g, next, UPSTREAM_IS, next_place, turn);
}

// The link from here to p's next place is another peer's now.
static void give_link(gwtf *g, const place *p, router_peer owner) {
    if (p->next == 0) return;
    relink(g, p->next, UPSTREAM_IS, p->next_place, p->next_turn + 1)->token.origin = owner;
}

static place *asked_place(gwtf *g, const router_message *m, uint32_t k) {
    if (m->units >= g->places) return NULL;
    place *p = &g->place[m->units];
    return movable(p) && p->k == k && p->next == m->token.origin ? p : NULL;
}

// Two that want the same change of each other ask at the same time: the one with the lower number has its way.
static place *asked_change(gwtf *g, const router_message *m, uint32_t k) {
    if (m->units >= g->places) return NULL;
    place *p = &g->place[m->units];
    bool crossed = p->state == HELD && p->locked && !p->giving && p->other == m->from &&
                   p->other_place == m->position && m->from < g->r.config.self;
    p->locked &= !crossed;
    p = asked_place(g, m, k);
    g->place[m->units].locked |= crossed;
    return p;
}

// He wants my unit's next peer b for his, and offers his own, a. Checked again against what holds here now.
static void on_request_change(gwtf *g, const router_message *m, uint32_t k) {
    place *p = asked_change(g, m, k);
    router_peer a = m->u.word[0];
    int64_t to_a = cost_to(g, ROUTER_NEXT, a);
    if (p == NULL || to_a < 0 || a == p->next) {
        answer(g, m, REFUSED);
        return;
    }
    int64_t to_b = cost_to(g, ROUTER_NEXT, p->next);
    int64_t gain = (int64_t)m->u.word[4] - (int64_t)m->u.word[3] + to_a - to_b;
    if (gain > m->cost) {
        answer(g, m, REFUSED);
        return;
    }
    outgoing *o = answer(g, m, CHANGE);
    o->token.origin = p->next;
    o->units = p->next_place;
    o->taken_back = p->next_turn;
    o->cost = p->cost - to_b;
    give_link(g, p, m->from);
    link_on(g, p, a, m->u.word[1], m->u.word[2] + 1, m->u.word[5]);
}

// He wants my place in a unit: its previous peer, who owns the link to me, decides.
static void on_request_redirect(gwtf *g, const router_message *m, uint32_t k) {
    place *p = asked_place(g, m, k);
    if (p == NULL || p->previous == 0 || p->previous != m->token.serial) {
        answer(g, m, REFUSED);
        return;
    }
    p->locked = p->giving = true;
    p->other = m->from;
    p->other_place = m->position;
    p->other_turn = m->taken_back;
    p->asked = p->previous;
    outgoing *o = relink(g, p->previous, ASK, (uint32_t)(p - g->place), p->turn);
    o->token = (router_token){m->from, m->position};
    o->units = 0;
    o->extra = m->taken_back;
}

static void unlock(gwtf *g, place *p) {
    p->locked = p->giving = false;
    p->other = p->asked = 0;
    if (p->doomed) dissolve(g, p);
}

static void refuse_redirect(gwtf *g, place *p) {
    outgoing *o = router_post(&g->r, p->other, ROUTER_ANSWER);
    o->why = REFUSED;
    o->position = (uint16_t)p->other_place;
    unlock(g, p);
}

static void on_ask(gwtf *g, const router_message *m, int next) {
    place *p = find_next(g, m->from, m->position, m->taken_back);
    bool yes = next >= 0 && p != NULL && !p->locked && !p->doomed && p->state == HELD &&
               router_slot(&g->r, ROUTER_NEXT, m->token.origin) >= 0;
    relink(g, m->from, yes ? ASK_YES : ASK_NO, m->position, m->taken_back);
    if (!yes) return;
    p->next = m->token.origin;
    p->next_place = m->token.serial;
    p->next_turn = m->u.word[0];
    relink(g, p->next, UPSTREAM_IS, p->next_place, p->next_turn);
}

static void on_ask_answer(gwtf *g, const router_message *m, bool yes) {
    if (m->position >= g->places) return;
    place *p = &g->place[m->position];
    if (!same_unit(p, m->taken_back) || !p->giving || p->asked != m->from) return;
    if (!yes) {
        refuse_redirect(g, p);
        return;
    }
    if (router_slot(&g->r, ROUTER_SAME, p->other) < 0) {  // he died meanwhile: so does the unit, from both sides
        if (p->next != 0) relink(g, p->next, BROKEN_DOWN, p->next_place, p->next_turn);
    } else {
        outgoing *o = router_post(&g->r, p->other, ROUTER_ANSWER);
        o->why = REDIRECT;
        o->position = (uint16_t)p->other_place;
        o->token = (router_token){p->next, m->from};
        o->units = p->next_place;
        o->taken_back = p->next_turn;
        o->cost = p->next == 0 ? 0 : p->cost - cost_to(g, ROUTER_NEXT, p->next);
        give_link(g, p, p->other);
    }
    free_place(p);
}

static bool take_previous(gwtf *g, place *p, router_peer peer) {
    bool alive = router_slot(&g->r, ROUTER_PREVIOUS, peer) >= 0;
    p->previous = alive ? peer : 0;
    return alive;
}

static void on_answer(gwtf *g, const router_message *m) {
    if (m->position >= g->places) return;
    place *p = &g->place[m->position];
    if (p->state == FREE || p->other != m->from || p->giving) return;
    if (m->why == REFUSED && (p->state == ASKING || (p->state == TAKING && p->previous == 0))) {
        free_place(p);
        return;
    }
    if (p->state == ASKING) {
        on_flow_answer(g, m, p);
        return;
    }
    p->doomed |= p->state == TAKING && m->why == REFUSED;
    p->state = HELD;
    if (m->why != REFUSED) {
        g->temperature *= g->r.config.cooling;
        if (m->why == CHANGE) give_link(g, p, m->from);
        if (m->why == REDIRECT && p->previous == 0) p->doomed = !take_previous(g, p, m->token.serial);
        if (router_slot(&g->r, ROUTER_NEXT, m->token.origin) >= 0) {
            link_on(g, p, m->token.origin, m->units, m->taken_back + 1, m->cost);
        } else {  // it died meanwhile
            p->next = 0;
            p->doomed = true;
        }
    }
    unlock(g, p);
}

// --- Links -------------------------------------------------------------------------------------------------------------

// The new owner of the link to me says so, and the old one too: either may die before its word arrives.
static void on_upstream_is(gwtf *g, const router_message *m) {
    if (m->position >= g->places) return;
    place *p = &g->place[m->position];
    router_peer owner = m->token.origin != 0 ? m->token.origin : m->from;
    if (!same_unit(p, m->taken_back) || m->taken_back < p->turn) {
        if (owner == m->from) relink(g, m->from, BROKEN_UP, m->position, m->taken_back);
        return;
    }
    bool alive = router_slot(&g->r, ROUTER_PREVIOUS, owner) >= 0;
    p->turn = m->taken_back;
    p->previous = alive ? owner : 0;
    if (p->doomed || !alive) dissolve(g, p);
}

static void on_relink(gwtf *g, const router_message *m, int next) {
    if (m->why == ASK) on_ask(g, m, next);
    if (m->why == CHECK && find_next(g, m->from, m->position, m->taken_back) == NULL)
        relink(g, m->from, BROKEN_DOWN, m->position, m->taken_back);
    if (m->why == ASK_YES || m->why == ASK_NO) on_ask_answer(g, m, m->why == ASK_YES);
    if (m->why == UPSTREAM_IS) on_upstream_is(g, m);
    if (m->why == BROKEN_UP) {
        place *p = find_next(g, m->from, m->position, m->taken_back);
        if (p == NULL) return;
        p->next = 0;
        dissolve(g, p);
    }
    if (m->why == BROKEN_DOWN && m->position < g->places) {
        place *p = &g->place[m->position];
        if (!same_unit(p, m->taken_back) || m->taken_back < p->turn) return;
        p->previous = 0;
        dissolve(g, p);
    }
}

static void place_lost(gwtf *g, place *p, router_peer peer) {
    bool broken = p->previous == peer || p->next == peer;
    if (p->giving && p->asked == peer) refuse_redirect(g, p);
    if (p->previous == peer) p->previous = 0;
    if (p->next == peer) p->next = 0;
    if (p->other == peer && !p->giving) {
        if (p->state == ASKING || p->state == TAKING) {
            bool linked = p->previous != 0;
            p->state = HELD;
            p->doomed = true;
            if (!linked) {
                free_place(p);
                return;
            }
        }
        p->doomed = true;  // whether it made the change, nobody can say
        unlock(g, p);
        return;
    }
    if (broken) dissolve(g, p);
}

static void link_gone(router *r, router_peer peer) {
    gwtf *g = of(r);
    for (uint32_t i = 0; i < g->places; i++) {
        if (g->place[i].state != FREE) place_lost(g, &g->place[i], peer);
    }
    g->iterations = 0;
}

static void link_up(router *r, router_side side, uint32_t slot) {
    gwtf *g = of(r);
    g->iterations = 0;
    if (side == ROUTER_SAME) g->told[slot].peer = 0;
    for (uint32_t k = 0; k < r->commodities; k++) {
        uint32_t at = k * r->config.max_neighbours + slot;
        if (side == ROUTER_NEXT) g->offer_units[at] = 0;
        if (side == ROUTER_PREVIOUS) g->said_units[at] = 0;
        if (side == ROUTER_PREVIOUS) g->said_cost[at] = 0;
    }
}

// --- Steps -------------------------------------------------------------------------------------------------------------

static void receive(router *r, const router_message *m, int previous, int next, int same) {
    gwtf *g = of(r);
    int k = router_commodity(r, m->source);
    if (m->kind == ROUTER_OFFER && next >= 0 && k >= 0) {
        uint32_t at = (uint32_t)k * r->config.max_neighbours + (uint32_t)next;
        g->offer_units[at] = m->units;
        g->offer_cost[at] = m->cost;
    }
    if (m->kind == ROUTER_QUERY && same >= 0) router_post(r, m->from, ROUTER_UNITS);
    if (m->kind == ROUTER_UNITS && same >= 0) on_units(g, m, same);
    if (m->kind == ROUTER_RELINK) on_relink(g, m, next);
    if (m->kind == ROUTER_ANSWER) on_answer(g, m);
    if (m->kind != ROUTER_REQUEST || k < 0) return;
    if (m->why == FLOW) on_request_flow(g, m, (uint32_t)k, previous);
    if (m->why == CHANGE) on_request_change(g, m, (uint32_t)k);
    if (m->why == REDIRECT) on_request_redirect(g, m, (uint32_t)k);
}

// News of a link's new owner may die with who should have told it. So some time after a place got another upstream peer,
// that peer is asked once whether the link is its own; who knows nothing of it answers that it is broken.
static void check_places(gwtf *g) {
    for (uint32_t i = 0; i < g->places; i++) {
        place *p = &g->place[i];
        if (p->state != HELD || p->previous == 0) continue;
        if (p->seen_turn != p->turn || p->seen_previous != p->previous) {
            p->seen_turn = p->turn;
            p->seen_previous = p->previous;
            p->check_at = g->r.now + CHECK_AFTER * g->r.config.delay;
        }
        if (g->r.now >= p->check_at) {
            relink(g, p->previous, CHECK, i, p->turn);
            p->check_at = ROUTER_NEVER;
        }
        router_want(&g->r, p->check_at);
    }
}

// Once in each iteration, at a random moment of it, but not before the last act's answers can be there.
static int64_t next_act(gwtf *g) {
    int64_t length = ITERATION * g->r.config.delay;
    g->iteration_at += length;
    int64_t at = g->iteration_at + (int64_t)rng_below(&g->r.random, (uint64_t)length);
    return at > g->r.now + length ? at : g->r.now + length;
}

static void tick(router *r) {
    gwtf *g = of(r);
    if (r->now >= g->judges_at) {
        judge(g);
        g->judges_at = ROUTER_NEVER;
    }
    if (r->now >= g->acts_at && g->iterations < ITERATIONS) {
        g->iterations++;
        g->acts_at = next_act(g);
        if (!request_flow(g) && !r->is_source) {
            query(g);
            g->judges_at = r->now + ITERATION / 2 * r->config.delay;
        }
    }
    say_offers(g);
    check_places(g);
    router_want(r, g->judges_at);
    if (g->iterations < ITERATIONS) router_want(r, g->acts_at);
}

static bool compose(router *r, const outgoing *from, router_message *out) {
    const gwtf *g = of(r);
    if (from->kind == ROUTER_UNITS) compose_units(g, out);
    if (from->kind == ROUTER_RELINK && from->why == ASK) out->u.word[0] = from->extra;
    if (from->kind != ROUTER_REQUEST || from->why != CHANGE) return true;
    const place *p = &g->place[from->position];
    int64_t now = cost_to(g, ROUTER_NEXT, p->next), then = cost_to(g, ROUTER_NEXT, from->token.origin);
    out->u.word[0] = p->next;
    out->u.word[1] = p->next_place;
    out->u.word[2] = p->next_turn;
    out->u.word[3] = (uint32_t)now;
    out->u.word[4] = (uint32_t)then;
    out->u.word[5] = (uint32_t)(p->cost - now);
    out->length = 6;
    return true;
}

static void gwtf_init(router *r) {
    gwtf *g = of(r);
    g->temperature = r->config.temperature;
    g->iteration_at = r->now;
    g->acts_at = r->now + (int64_t)rng_below(&r->random, (uint64_t)(ITERATION * r->config.delay));
    g->judges_at = ROUTER_NEVER;
    for (uint32_t i = 0; i < g->places; i++)  // unlike those of an earlier life
        g->place[i].turn = (uint32_t)rng_next(&r->random) & 0xffff0000;
}

static void lay_out(router *r, const router_config *config, arena *a) {
    uint32_t commodities = config->source_count, links = commodities * config->max_neighbours;
    uint32_t places = 2 * config->capacity;
    place *place_ = arena_take(a, places * sizeof(place));
    int64_t *offer_cost = arena_take(a, links * sizeof(int64_t)), *said_cost = arena_take(a, links * sizeof(int64_t));
    uint32_t *offer_units = arena_take(a, links * sizeof(uint32_t)),
             *said_units = arena_take(a, links * sizeof(uint32_t));
    told *told_ = arena_take(a, config->max_neighbours * sizeof(told));
    if (r == NULL) return;
    gwtf *g = of(r);
    g->place = place_;
    g->places = places;
    g->offer_cost = offer_cost;
    g->said_cost = said_cost;
    g->offer_units = offer_units;
    g->said_units = said_units;
    g->told = told_;
}

// A tick: offers to all previous, queries to the own stage; a death: three words for each place.
static uint32_t queue_max(const router_config *c) {
    return (c->source_count + 2) * c->max_neighbours + 8 * c->capacity + 64;
}

static uint32_t units(const router *r, router_unit *units, uint32_t max) {
    const gwtf *g = (const gwtf *)r;
    uint32_t n = 0;
    for (uint32_t i = 0; i < g->places; i++) {
        const place *p = &g->place[i];
        if (p->state != HELD || (p->previous == 0 && p->next == 0)) continue;
        router_add_unit(units, max, &n, (router_unit){r->source[p->k], p->previous, p->next, 1});
    }
    return n;
}

static uint32_t load(const router *r) { return used((const gwtf *)r, false); }

static bool settled(const router *r) {
    const gwtf *g = (const gwtf *)r;
    for (uint32_t i = 0; i < g->places; i++) {
        const place *p = &g->place[i];
        if (p->locked || p->doomed || p->state == ASKING || p->state == TAKING) return false;
    }
    return true;
}

const router_rules gwtf_rules = {.state_bytes = sizeof(gwtf),
                                 .lay_out = lay_out,
                                 .init = gwtf_init,
                                 .receive = receive,
                                 .tick = tick,
                                 .link_up = link_up,
                                 .link_gone = link_gone,
                                 .compose = compose,
                                 .units = units,
                                 .load = load,
                                 .settled = settled,
                                 .queue_max = queue_max};
