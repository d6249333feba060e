// GWTF refinement: which Request Change or Request Redirect to make, with simulated annealing.
#include "routing/gwtf/gwtf.h"

typedef struct gwtf_candidate {
    int64_t gain;  // change of the objective
    uint32_t kind;
    gwtf_place *mine;            // own unit of a GWTF_CHANGE
    uint32_t slot, their_place;  // slot of the other peer, and its place
    uint32_t k;
    router_peer before, after;  // neighbours of the other peer's unit
    uint64_t tie;
} gwtf_candidate;

void gwtf_query(gwtf *g) {
    EACH_NEIGHBOUR(&g->r, ROUTER_SAME, slot) {
        g->reported[slot].peer = 0;
        router_post(&g->r, g->r.slot[ROUTER_SAME][slot].peer, ROUTER_QUERY);
    }
}

static void compose_costs(const gwtf *g, router_side side, uint32_t *word, uint32_t *length, uint32_t *count) {
    *count = 0;
    EACH_NEIGHBOUR(&g->r, side, slot) {
        if (*count == GWTF_REPORTED_COSTS) break;
        word[(*length)++] = g->r.slot[side][slot].peer;
        word[(*length)++] = (uint32_t)g->r.slot[side][slot].cost;
        (*count)++;
    }
}

// Own units (place and commodity, previous, next), then the costs of own links.
void gwtf_compose_units(const gwtf *g, router_message *out) {
    uint32_t length = 0, before, after;
    out->units = 0;
    for (uint32_t i = 0; i < g->places && out->units < GWTF_REPORTED_UNITS; i++) {
        const gwtf_place *p = &g->place[i];
        if (!gwtf_movable(p)) continue;
        out->u.word[length++] = i << 8 | p->k;
        out->u.word[length++] = p->previous;
        out->u.word[length++] = p->next;
        out->units++;
    }
    compose_costs(g, ROUTER_PREVIOUS, out->u.word, &length, &before);
    compose_costs(g, ROUTER_NEXT, out->u.word, &length, &after);
    out->length = (uint16_t)length;
    out->position = (uint16_t)before;
    out->turn = after;
}

void gwtf_on_units(gwtf *g, const router_message *m, int same) {
    if (m->units > GWTF_REPORTED_UNITS || m->position > GWTF_REPORTED_COSTS || m->turn > GWTF_REPORTED_COSTS) return;
    gwtf_peer_units *t = &g->reported[same];
    t->units = m->units;
    t->before = m->position;
    t->after = m->turn;
    t->peer = m->from;
    for (uint32_t i = 0; i < 3 * t->units + 2 * (t->before + t->after); i++) t->word[i] = m->u.word[i];
}

static int64_t reported_cost(const uint32_t *word, uint32_t count, router_peer peer) {
    for (uint32_t i = 0; i < count; i++) {
        if (word[2 * i] == peer) return word[2 * i + 1];
    }
    return -1;
}

int64_t gwtf_gain(const gwtf *g, int64_t a, int64_t b, int64_t old_a, int64_t old_b) {
    if (g->r.config.objective == ROUTER_SUM) return a + b - old_a - old_b;
    return (a > b ? a : b) - (old_a > old_b ? old_a : old_b);
}

static void keep_better(gwtf *g, gwtf_candidate *best, gwtf_candidate c) {
    c.tie = rng_next(&g->r.random);
    if (best->kind == GWTF_REFUSED || c.gain < best->gain || (c.gain == best->gain && c.tie < best->tie)) *best = c;
}

// An own unit and the other peer's unit swap their next peers.
static void try_changes(gwtf *g, const gwtf_peer_units *t, gwtf_candidate *best, gwtf_candidate c) {
    const uint32_t *after = t->word + 3 * t->units + 2 * t->before;
    int64_t mine_there = gwtf_cost(g, ROUTER_NEXT, c.after), his_now = reported_cost(after, t->after, c.after);
    for (uint32_t i = 0; i < g->places; i++) {
        gwtf_place *p = &g->place[i];
        if (!gwtf_movable(p) || p->k != c.k || p->next == c.after) continue;
        int64_t his_there = reported_cost(after, t->after, p->next), mine_now = gwtf_cost(g, ROUTER_NEXT, p->next);
        if (mine_there < 0 || his_now < 0 || his_there < 0 || mine_now < 0) continue;
        c.kind = GWTF_CHANGE;
        c.mine = p;
        c.gain = gwtf_gain(g, mine_there, his_there, mine_now, his_now);
        keep_better(g, best, c);
    }
}

// This peer takes the other peer's place in its unit.
static void try_redirect(gwtf *g, const gwtf_peer_units *t, gwtf_candidate *best, gwtf_candidate c) {
    const uint32_t *before = t->word + 3 * t->units, *after = before + 2 * t->before;
    int64_t in = gwtf_cost(g, ROUTER_PREVIOUS, c.before), out = gwtf_cost(g, ROUTER_NEXT, c.after);
    int64_t his_in = reported_cost(before, t->before, c.before), his_out = reported_cost(after, t->after, c.after);
    if (c.before == 0 || in < 0 || out < 0 || his_in < 0 || his_out < 0) return;
    c.kind = GWTF_REDIRECT;
    c.gain = gwtf_gain(g, in, out, his_in, his_out);
    keep_better(g, best, c);
}

static gwtf_candidate best_candidate(gwtf *g) {
    gwtf_candidate best = {.kind = GWTF_REFUSED};
    bool has_room = gwtf_room(g, false) > 0;
    EACH_NEIGHBOUR(&g->r, ROUTER_SAME, slot) {
        const gwtf_peer_units *t = &g->reported[slot];
        if (t->peer == 0) continue;
        for (uint32_t i = 0; i < t->units; i++) {
            gwtf_candidate c = {.slot = slot,
                                .their_place = t->word[3 * i] >> 8,
                                .k = t->word[3 * i] & 255,
                                .before = t->word[3 * i + 1],
                                .after = t->word[3 * i + 2]};
            if (c.k >= g->r.commodities) continue;  // the data peer is unknown
            try_changes(g, t, &best, c);
            if (has_room) try_redirect(g, t, &best, c);
        }
    }
    return best;
}

// True with probability exp(-x), x >= 0, by comparisons alone (von Neumann 1951). Unlike exp() this
// gives the same bits everywhere.
static bool draw_exponential(rng *r, double x) {
    for (; x > 0; x -= 1) {
        double last = x < 1 ? x : 1;
        bool even = true;
        for (double next = rng_unit(r); next < last; next = rng_unit(r)) {
            last = next;
            even = !even;
        }
        if (!even) return false;
    }
    return true;
}

static bool accepts(gwtf *g, int64_t gain) {
    bool ending = g->iterations > GWTF_ITERATIONS - GWTF_FINAL_ITERATIONS;
    return gain < 0 || (!ending && g->temperature > 0 && draw_exponential(&g->r.random, (double)gain / g->temperature));
}

void gwtf_judge(gwtf *g) {
    gwtf_candidate c = best_candidate(g);
    if (c.kind == GWTF_REFUSED || !accepts(g, c.gain)) return;
    gwtf_place *p = c.mine;
    if (c.kind == GWTF_REDIRECT) {
        int at = gwtf_take(g, GWTF_TAKING, c.k, false);
        if (at < 0) return;
        p = &g->place[at];
        p->turn++;
    }
    p->locked = true;
    p->other = g->r.slot[ROUTER_SAME][c.slot].peer;
    p->other_place = c.their_place;
    router_outgoing *o = router_post(&g->r, p->other, ROUTER_REQUEST);
    o->why = (uint8_t)c.kind;
    o->k = (uint8_t)c.k;
    o->position = (uint16_t)(p - g->place);
    o->units = c.their_place;
    o->turn = p->turn;
    o->cost = c.gain;
    o->token = (router_token){c.after, c.before};
}
