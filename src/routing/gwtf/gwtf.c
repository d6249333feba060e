// GWTF's flow algorithm as published (paper, section V-C): Request Flow builds units of flow from
// the sink back to the source. Request Change and Request Redirect improve them with simulated
// annealing. docs/routing.md lists how each open point of the paper is read.
#include "routing/gwtf/gwtf.h"

static void link_gone(router *r, router_peer peer) {
    gwtf *g = gwtf_of(r);
    for (uint32_t i = 0; i < g->places; i++) {
        if (g->place[i].state != GWTF_FREE) gwtf_place_lost(g, &g->place[i], peer);
    }
    g->iterations = 0;
}

static void link_up(router *r, router_side side, uint32_t slot) {
    gwtf *g = gwtf_of(r);
    g->iterations = 0;
    if (side == ROUTER_SAME) g->reported[slot].peer = 0;
    for (uint32_t k = 0; k < r->commodities; k++) {
        uint32_t at = k * r->config.max_neighbours + slot;
        if (side == ROUTER_NEXT) g->offer_units[at] = 0;
        if (side == ROUTER_PREVIOUS) g->sent_units[at] = 0;
        if (side == ROUTER_PREVIOUS) g->sent_cost[at] = 0;
    }
}

static void receive(router *r, const router_message *m, int previous, int next, int same) {
    gwtf *g = gwtf_of(r);
    if (m->cost < -GWTF_MAX_COST || m->cost > GWTF_MAX_COST) return;
    int k = router_commodity(r, m->source);
    if (m->kind == ROUTER_OFFER && next >= 0 && k >= 0) {
        uint32_t at = (uint32_t)k * r->config.max_neighbours + (uint32_t)next;
        g->offer_units[at] = m->units;
        g->offer_cost[at] = m->cost;
    }
    if (m->kind == ROUTER_QUERY && same >= 0) router_post(r, m->from, ROUTER_UNITS);
    if (m->kind == ROUTER_UNITS && same >= 0) gwtf_on_units(g, m, same);
    if (m->kind == ROUTER_RELINK) gwtf_on_relink(g, m, next);
    if (m->kind == ROUTER_ANSWER) gwtf_on_answer(g, m);
    if (m->kind != ROUTER_REQUEST || k < 0) return;
    if (m->why == GWTF_FLOW) gwtf_on_request_flow(g, m, (uint32_t)k, previous);
    if (m->why == GWTF_CHANGE) gwtf_on_request_change(g, m, (uint32_t)k);
    if (m->why == GWTF_REDIRECT) gwtf_on_request_redirect(g, m, (uint32_t)k);
}

// Each peer acts once in an iteration, at a random moment drawn anew. Peers in lockstep would find
// the same places locked in every iteration. The last action's answers must be in before the next
// action.
static int64_t next_act(gwtf *g) {
    int64_t length = GWTF_ITERATION * g->r.config.delay, answered = g->r.now + length / 2;
    g->iteration_at += length;
    int64_t at = g->iteration_at + (int64_t)rng_below(&g->r.random, (uint64_t)length);
    return at > answered ? at : answered;
}

static void tick(router *r) {
    gwtf *g = gwtf_of(r);
    if (r->now >= g->judges_at) {
        gwtf_judge(g);
        g->judges_at = ROUTER_NEVER;
    }
    if (g->again) gwtf_request_flow(g);
    g->again = false;
    if (r->now >= g->acts_at && g->iterations < GWTF_ITERATIONS) {
        g->iterations++;
        g->acted_at = r->now;
        g->acts_at = next_act(g);
        if (!gwtf_request_flow(g) && !r->is_source) {
            gwtf_query(g);
            g->judges_at = r->now + GWTF_ITERATION / 2 * r->config.delay;
        }
    }
    gwtf_say_offers(g);
    gwtf_check_places(g);
    router_want(r, g->judges_at);
    if (g->iterations < GWTF_ITERATIONS) router_want(r, g->acts_at);
}

static bool compose(router *r, const router_outgoing *from, router_message *out) {
    const gwtf *g = gwtf_of(r);
    if (from->kind == ROUTER_UNITS) gwtf_compose_units(g, out);
    if (from->kind == ROUTER_RELINK && from->why == GWTF_ASK) {
        out->length = 1;
        out->u.word[0] = from->extra;
    }
    if (from->kind != ROUTER_REQUEST || from->why != GWTF_CHANGE) return true;
    const gwtf_place *p = &g->place[from->position];
    int64_t now = gwtf_cost(g, ROUTER_NEXT, p->next), then = gwtf_cost(g, ROUTER_NEXT, from->token.origin);
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
    gwtf *g = gwtf_of(r);
    g->temperature = r->config.temperature;
    g->iteration_at = r->now;
    g->acts_at = r->now + (int64_t)rng_below(&r->random, (uint64_t)(GWTF_ITERATION * r->config.delay));
    g->judges_at = ROUTER_NEVER;
    for (uint32_t i = 0; i < g->places; i++)  // differ from those of an earlier incarnation
        g->place[i].turn = (uint32_t)rng_next(&r->random) & 0xffff0000;
}

static void lay_out(router *r, const router_config *config, router_arena *a) {
    uint32_t commodities = config->source_count, links = commodities * config->max_neighbours;
    uint32_t places = 2 * config->capacity;
    gwtf_place *place_ = router_arena_take(a, places * sizeof(gwtf_place));
    int64_t *offer_cost = router_arena_take(a, links * sizeof(int64_t)),
            *sent_cost = router_arena_take(a, links * sizeof(int64_t));
    uint32_t *offer_units = router_arena_take(a, links * sizeof(uint32_t)),
             *sent_units = router_arena_take(a, links * sizeof(uint32_t));
    gwtf_peer_units *reported_ = router_arena_take(a, config->max_neighbours * sizeof(gwtf_peer_units));
    if (r == NULL) return;
    gwtf *g = gwtf_of(r);
    g->place = place_;
    g->places = places;
    g->offer_cost = offer_cost;
    g->sent_cost = sent_cost;
    g->offer_units = offer_units;
    g->sent_units = sent_units;
    g->reported = reported_;
}

// A tick: offers to all previous neighbours and queries to the own stage. A death: three messages
// for each place.
static uint32_t queue_max(const router_config *c) {
    return (c->source_count + 2) * c->max_neighbours + 8 * c->capacity + 64;
}

static uint32_t units(const router *r, router_unit *units, uint32_t max) {
    const gwtf *g = (const gwtf *)r;
    uint32_t n = 0;
    for (uint32_t i = 0; i < g->places; i++) {
        const gwtf_place *p = &g->place[i];
        if (p->state != GWTF_HELD || (p->previous == 0 && p->next == 0)) continue;
        router_add_unit(units, max, &n, (router_unit){r->source[p->k], p->previous, p->next, 1});
    }
    return n;
}

static uint32_t load(const router *r) { return gwtf_used((const gwtf *)r, false); }

static bool settled(const router *r) {
    const gwtf *g = (const gwtf *)r;
    for (uint32_t i = 0; i < g->places; i++) {
        const gwtf_place *p = &g->place[i];
        if (p->locked || p->doomed || p->state == GWTF_ASKING || p->state == GWTF_TAKING) return false;
    }
    return true;
}

// Another peer may request a unit at any time.
static bool link_busy(const router *r, router_side side, router_peer peer) {
    (void)r, (void)side, (void)peer;
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
                                 .link_busy = link_busy,
                                 .settled = settled,
                                 .queue_max = queue_max};
