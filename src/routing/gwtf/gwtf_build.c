// GWTF Request Flow: units of flow are built from the sink back to the source.
#include "routing/gwtf/gwtf.h"

// The cheapest unpaired outflow towards the sink of k; -1: none. A data peer offers its sink while
// it has room.
static int cheapest_unpaired(const gwtf *g, uint32_t k) {
    int best = -1;
    for (uint32_t i = 0; i < g->places; i++) {
        const gwtf_place *p = &g->place[i];
        if (p->state != GWTF_HELD || p->giving || p->doomed || p->previous != 0 || p->k != k || p->home ||
            g->r.is_source)
            continue;
        if (best < 0 || p->cost < g->place[best].cost) best = (int)i;
    }
    return best;
}

static uint32_t offered(const gwtf *g, uint32_t k, int64_t *cost) {
    *cost = 0;
    if (g->r.is_source) return gwtf_room(g, true);
    int best = cheapest_unpaired(g, k);
    if (best < 0) return 0;
    *cost = g->place[best].cost;
    return 1;
}

static void post_offer(gwtf *g, uint32_t k, router_peer to, uint32_t units, int64_t cost) {
    router_outgoing *o = router_post(&g->r, to, ROUTER_OFFER);
    o->k = (uint8_t)k;
    o->units = units;
    o->cost = cost;
}

void gwtf_say_offers(gwtf *g) {
    for (uint32_t k = 0; k < g->r.commodities; k++) {
        int64_t cost;
        uint32_t units = offered(g, k, &cost);
        EACH_NEIGHBOUR(&g->r, ROUTER_PREVIOUS, slot) {
            uint32_t at = k * g->r.config.max_neighbours + slot;
            if (g->sent_units[at] == units && g->sent_cost[at] == cost) continue;
            g->sent_units[at] = units;
            g->sent_cost[at] = cost;
            post_offer(g, k, g->r.slot[ROUTER_PREVIOUS][slot].peer, units, cost);
        }
    }
}

static bool is_asked(const gwtf *g, router_peer peer) {
    for (uint32_t i = 0; i < g->places; i++) {
        if (g->place[i].state == GWTF_ASKING && g->place[i].other == peer) return true;
    }
    return false;
}

// The cheapest offer of the next stage, ties by lot; false: there is none.
static bool best_offer(gwtf *g, uint32_t *k, uint32_t *slot) {
    uint64_t lot = 0;
    int64_t best = INT64_MAX;
    for (uint32_t i = 0; i < g->r.commodities; i++) {
        EACH_NEIGHBOUR(&g->r, ROUTER_NEXT, s) {
            uint32_t at = i * g->r.config.max_neighbours + s;
            int64_t cost = g->offer_cost[at] + g->r.slot[ROUTER_NEXT][s].cost;
            if (g->offer_units[at] == 0 || cost > best || is_asked(g, g->r.slot[ROUTER_NEXT][s].peer)) continue;
            uint64_t drawn = rng_next(&g->r.random);
            if (cost == best && drawn <= lot) continue;
            lot = drawn;
            best = cost;
            *k = i;
            *slot = s;
        }
    }
    return best < INT64_MAX;
}

// The relay waits for its unpaired outflow to be requested, or for an answer.
static bool is_busy(const gwtf *g) {
    for (uint32_t i = 0; i < g->places; i++) {
        const gwtf_place *p = &g->place[i];
        if (p->state != GWTF_FREE && !p->home && (p->state != GWTF_HELD || p->previous == 0)) return true;
    }
    return false;
}

static bool request_one(gwtf *g) {
    uint32_t k, slot;
    if ((!g->r.is_source && is_busy(g)) || !best_offer(g, &k, &slot)) return false;
    int at = gwtf_take(g, GWTF_ASKING, k, false);
    if (at < 0) return false;
    gwtf_place *p = &g->place[at];
    p->other = g->r.slot[ROUTER_NEXT][slot].peer;
    router_outgoing *o = router_post(&g->r, p->other, ROUTER_REQUEST);
    o->why = GWTF_FLOW;
    o->k = (uint8_t)k;
    o->position = (uint16_t)at;
    o->cost = g->offer_cost[k * g->r.config.max_neighbours + slot];
    return true;
}

bool gwtf_request_flow(gwtf *g) {
    bool asks = false;
    while (request_one(g)) asks = true;
    return asks;
}

void gwtf_on_request_flow(gwtf *g, const router_message *m, uint32_t k, int previous) {
    if (previous < 0) return;
    int at = g->r.is_source ? gwtf_take(g, GWTF_HELD, k, true) : cheapest_unpaired(g, k);
    if (at < 0 || g->place[at].cost > m->cost) {
        if (g->r.is_source && at >= 0) gwtf_free(&g->place[at]);
        gwtf_answer(g, m, GWTF_REFUSED);
        int64_t cost;
        uint32_t units = offered(g, k, &cost);
        post_offer(g, k, m->from, units, cost);
        return;
    }
    gwtf_place *p = &g->place[at];
    p->previous = m->from;
    p->turn++;
    router_outgoing *o = gwtf_answer(g, m, GWTF_FLOW);
    o->cost = p->cost;
    o->units = (uint32_t)at;
    o->turn = p->turn;
}

void gwtf_on_flow_answer(gwtf *g, const router_message *m, gwtf_place *p) {
    int64_t cost = gwtf_cost(g, ROUTER_NEXT, m->from);
    p->state = GWTF_HELD;
    p->next = m->from;
    p->next_place = m->units;
    p->next_turn = m->turn;
    p->cost = m->cost + cost;
    p->other = 0;
    if (p->doomed) gwtf_dissolve(g, p);
}
