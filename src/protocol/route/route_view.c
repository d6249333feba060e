// The choice of a relay's neighbours in a stage with more members than a router may have: a partial
// view (routing/view/view.h; docs/protocol.md, Partial views). The log names all members, so gossip
// spreads estimates only: link costs and network coordinates. Between small stages there is no view
// and no gossip.
#include "routing/view/view.h"
#include "protocol/route/routing.h"

#include <string.h>

static const uint32_t longest_echo_us = 60 * 1000 * 1000;

_Static_assert((int)GOSSIP_KINDS == (int)VIEW_KIND_COUNT && (int)GOSSIP_SAMPLE == (int)VIEW_SAMPLE && (int)GOSSIP_CUT == (int)VIEW_CUT,
               "the wire's kinds of gossip are the view's");
_Static_assert((int)WIRE_MAX_VIEW_CARDS == (int)VIEW_DESCRIPTORS && (int)WIRE_VIEW_AXES == (int)VIEW_AXES, "a VIEW has room for a message of the view");

// ---- memory and start ---------------------------------------------------------------------------

static view_config config_of(const peer_run *run, member_id me, uint16_t stage, uint64_t seed) {
    return (view_config){.self = (router_peer)me, .stage = stage, .stages = (uint16_t)(run->stages - 1), .links = ROUTE_NEIGHBOURS,
                         .period = (int64_t)TIMING_VIEW_PERIOD_NS, .patience = (int64_t)TIMING_VIEW_TIMEOUT_NS, .seed = seed};
}

// Only relays have a view, and only relays are in it. Needs two adjacent relay stages.
size_t route_view_bytes(const peer_run *run, const peer_config *config) {
    if (config->kind == MEMBER_DATA || run->stages < 3 || run->routing >= ROUTER_ALGORITHMS) return 0;
    view_config c = config_of(run, 1, 1, 0);
    return view_bytes(&c);
}

void route_view_stop(peer *p) {
    peer_routing *r = p->routing;
    r->view = NULL;
    r->known_count = 0;
    r->crowded[ROUTER_PREVIOUS] = r->crowded[ROUTER_NEXT] = false;
}

static bool side_of(const peer *p, uint16_t stage, router_side *side) {
    *side = stage + 1 == p->stage ? ROUTER_PREVIOUS : stage == p->stage ? ROUTER_SAME : ROUTER_NEXT;
    return stage != 0 && (*side != ROUTER_NEXT || stage == p->stage + 1);
}

// Rule W4. Both ends of a link compute the same answer, because it depends on the sizes of both
// stages.
static bool is_crowded(const peer *p, uint16_t stage) {
    if (stage == 0 || stage >= p->run.stages) return false;
    return member_count_stage(p, stage) > ROUTE_NEIGHBOURS || member_count_stage(p, p->stage) > ROUTE_NEIGHBOURS;
}

static route_known *known_find(peer *p, member_id id) {
    for (uint32_t i = 0; i < p->routing->known_count; i++)
        if (p->routing->known[i].member == id) return &p->routing->known[i];
    return NULL;
}

// True for a relay that the view may choose or measure: a linked member of the own stage or of a
// crowded side.
static bool is_candidate(const peer *p, const cluster_member *m) {
    router_side side;
    if (m->contact == NO_CONTACT || m->id >= (member_id)1 << 31 || !side_of(p, m->stage, &side)) return false;
    if (p->cluster->contacts[m->contact].link != LINK_UP) return false;
    return side == ROUTER_SAME || p->routing->crowded[side];
}

static void remove_candidates(peer *p) {
    peer_routing *r = p->routing;
    for (uint32_t i = 0; i < r->known_count;) {
        const cluster_member *m = member_find(p, r->known[i].member);
        if (m != NULL && is_candidate(p, m)) {
            i++;
            continue;
        }
        view_gone(r->view, (int64_t)p->now, (router_peer)r->known[i].member);
        r->known[i] = r->known[--r->known_count];
    }
}

static void add_candidates(peer *p) {
    peer_routing *r = p->routing;
    for (uint32_t i = 0; i < p->cluster->member_count && r->known_count < ROUTE_MAX_KNOWN; i++) {
        const cluster_member *m = &p->cluster->members[i];
        if (!is_candidate(p, m) || known_find(p, m->id) != NULL) continue;
        r->known[r->known_count++] = (route_known){.member = m->id, .stage = m->stage};
        view_contact(r->view, (int64_t)p->now, (router_peer)m->id, m->stage);
    }
}

// ---- link costs (rule W2) -----------------------------------------------------------------------

static uint32_t per_ms(int64_t bytes_per_s) {
    int64_t rate = bytes_per_s / 1000;
    return rate > UINT32_MAX ? UINT32_MAX : (uint32_t)rate;
}

static uint32_t rate_to(const measure_link *l) { return per_ms(measure_value(&l->rate[MEASURE_TO])); }

static uint32_t max_u32(uint32_t a, uint32_t b) { return a > b ? a : b; }

// The highest rate that this peer's outgoing transfers have reached, in bytes per millisecond; 0:
// none yet.
static uint32_t my_rate_out(const peer *p) {
    const peer_routing *r = p->routing;
    uint32_t most = 0;
    for (uint32_t i = 0; i < r->links; i++) most = max_u32(most, rate_to(&r->link[i].measured));
    for (uint32_t i = 0; i < r->known_count; i++) most = max_u32(most, rate_to(&r->known[i].measured));
    return most;
}

uint64_t route_uplink_rate(const peer *p) { return 1000 * (uint64_t)my_rate_out(p); }

static uint32_t my_rate_in(const peer *p) {
    uint32_t most = 0;
    for (uint32_t i = 0; i < p->routing->known_count; i++) most = max_u32(most, p->routing->known[i].rate_here);
    return most;
}

// The rate of a link without tensors: the slower of the rates that the two ends have reached on
// other links.
static int64_t guess_rate(const peer *p, const route_known *k) {
    bool before = k->stage + 1 == p->stage;
    if (before && k->rate_here > 0) return (int64_t)k->rate_here * 1000;
    uint32_t out = before ? k->rate_out : my_rate_out(p), in = before ? my_rate_in(p) : k->rate_in;
    return 1000 * (int64_t)(out == 0 || (in != 0 && in < out) ? in : out);
}

static int64_t own_compute_time(const peer *p) { return (int64_t)(p->microbatch->forward_ns + p->microbatch->backward_ns); }

static int64_t compute_time_at(const peer *p, member_id id) {
    const cluster_member *m = member_find(p, id);
    return m == NULL ? 0 : (int64_t)route_time_at(p, m);
}

// The cost that both routers use, if the two have a link. Otherwise the same formula with this
// peer's estimates.
static int64_t cost_of(peer *p, const route_known *k) {
    const route_link *l = route_find(p, k->member);
    if (l != NULL && l->told != 0 && k->stage + 1 == p->stage) return l->told;
    if (l != NULL && l->measured.cost != 0 && k->stage == p->stage + 1) return l->measured.cost;
    measure_link m = k->measured;
    m.guessed_rate = guess_rate(p, k);
    return measure_cost(&m, own_compute_time(p), compute_time_at(p, k->member), p->run.activation_bytes);
}

void route_view_opens(peer *p, route_link *l) {
    const route_known *k = known_find(p, l->member);
    if (k == NULL) return;
    l->measured = k->measured;
    l->measured.guessed_rate = guess_rate(p, k);
    measure_announce(&l->measured, NULL, (int64_t)p->now, own_compute_time(p), compute_time_at(p, l->member), p->run.activation_bytes);
}

void route_view_closes(peer *p, const route_link *l) {
    route_known *k = known_find(p, l->member);
    if (k == NULL) return;
    k->measured = l->measured;
    k->measured.cost = 0;
}

void route_view_look(peer *p) {
    peer_routing *r = p->routing;
    if (r->view == NULL) return;
    for (uint32_t i = 0; i < r->links; i++) {
        const route_known *k = known_find(p, r->link[i].member);
        if (k == NULL) continue;
        r->link[i].measured.guessed_rate = guess_rate(p, k);
        int64_t cost = cost_of(p, k);
        if (cost > 0) view_measured(r->view, (int64_t)p->now, (router_peer)k->member, cost);
    }
}

// ---- the view's neighbours ----------------------------------------------------------------------

// Reports the units on each link to the view, since a link with units must stay (rule W4).
static void report_units(peer *p) {
    peer_routing *r = p->routing;
    router_unit unit[ROUTE_MAX_UNITS];
    uint32_t count = r->router == NULL ? 0 : router_units(r->router, unit, ROUTE_MAX_UNITS);
    if (count > ROUTE_MAX_UNITS) count = ROUTE_MAX_UNITS;
    for (uint32_t i = 0; i < r->links; i++) {
        const route_known *k = known_find(p, r->link[i].member);
        router_side side;
        if (k == NULL || !side_of(p, k->stage, &side) || side == ROUTER_SAME) continue;
        router_peer other = (router_peer)k->member;
        uint32_t units = r->router != NULL && router_link_busy(r->router, side, other);
        for (uint32_t u = 0; u < count; u++)
            if ((side == ROUTER_NEXT ? unit[u].downstream : unit[u].upstream) == other) units += unit[u].count;
        view_carries(r->view, (int64_t)p->now, side, other, units);
    }
}

// Rule W4: when a side becomes crowded, the present links become the links of the view.
static void adopt_links(peer *p, router_side side) {
    peer_routing *r = p->routing;
    for (uint32_t i = 0; i < r->links; i++) {
        const route_link *l = &r->link[i];
        const route_known *k = l->up ? known_find(p, l->member) : NULL;
        router_side its;
        if (k == NULL || !side_of(p, k->stage, &its) || its != side) continue;
        view_adopt(r->view, (int64_t)p->now, side, (router_peer)k->member, k->stage, cost_of(p, k));
    }
}

void route_view_refresh(peer *p) {
    peer_routing *r = p->routing;
    if (route_view_bytes(&p->run, &p->config) == 0) return;
    bool was[2] = {r->crowded[ROUTER_PREVIOUS], r->crowded[ROUTER_NEXT]};
    r->crowded[ROUTER_PREVIOUS] = is_crowded(p, (uint16_t)(p->stage - 1));
    r->crowded[ROUTER_NEXT] = is_crowded(p, (uint16_t)(p->stage + 1));
    if (!r->crowded[ROUTER_PREVIOUS] && !r->crowded[ROUTER_NEXT]) {
        route_view_stop(p);
        return;
    }
    if (r->view == NULL) {
        view_config c = config_of(&p->run, p->me, p->stage, rng_next(&p->random));
        r->view = view_init(r->view_memory, &c, (int64_t)p->now);
    }
    bool stale = p->config.view_mutant == PEER_VIEW_GROWS_STALE && p->state.iteration >= 5;
    if (!stale) remove_candidates(p);
    if (!stale) add_candidates(p);
    for (int side = 0; side < 2; side++)
        if (r->crowded[side] && !was[side]) adopt_links(p, (router_side)side);
    report_units(p);
}

bool route_view_wants(const peer *p, const cluster_member *m) {
    const peer_routing *r = p->routing;
    router_side side;
    if (!side_of(p, m->stage, &side) || side == ROUTER_SAME) return false;
    if (!r->crowded[side]) return true;
    view_link link[ROUTE_NEIGHBOURS];
    uint32_t count = view_links(r->view, side, link, ROUTE_NEIGHBOURS);
    for (uint32_t i = 0; i < count; i++)
        if (link[i].peer == m->id) return true;
    return false;
}

// ---- VIEW messages (rules W1, W5) ---------------------------------------------------------------

static uint32_t clock_us(const peer *p) { return (uint32_t)(p->now / 1000) | 1; }

static bool is_request(uint8_t kind) { return kind == GOSSIP_SAMPLE || kind == GOSSIP_PING; }
static bool is_reply(uint8_t kind) { return kind == GOSSIP_REPLY || kind == GOSSIP_PONG; }

static message_place place_out(const view_coordinate *place) {
    message_place out = {.height = place->height, .error = place->error};
    memcpy(out.at, place->at, sizeof out.at);
    return out;
}

static view_coordinate place_in(const message_place *place) {
    view_coordinate in = {.height = place->height, .error = place->error};
    memcpy(in.at, place->at, sizeof in.at);
    return in;
}

// `request_us`: the clock of the request that a reply answers.
static void send_view(peer *p, const view_message *m, uint32_t request_us) {
    const route_known *k = known_find(p, m->to);
    if (k == NULL) return;
    message_view *v = &peer_compose(p, MESSAGE_VIEW)->u.view;
    v->kind = (uint8_t)m->kind;
    v->linked = m->linked;
    v->place = place_out(&m->card.place);
    if (m->kind != VIEW_SAMPLE) v->side = m->side;
    if (is_reply(v->kind) || (m->kind >= VIEW_ASK && m->kind <= VIEW_NO)) {
        v->by_chance = m->by_chance;
        v->cost = (uint32_t)m->cost;
    }
    if (is_request(v->kind) || is_reply(v->kind)) {
        v->clock_us = is_request(v->kind) ? clock_us(p) : 0;
        v->echo_us = is_reply(v->kind) ? request_us : 0;
        v->rate_out = my_rate_out(p);
        v->rate_in = my_rate_in(p);
        const route_link *l = route_find(p, k->member);
        v->rate_here = rate_to(l != NULL ? &l->measured : &k->measured);
    }
    v->cards = m->length;
    for (uint16_t i = 0; i < m->length; i++)
        v->card[i] = (message_card){.member = m->cards[i].peer, .age = m->cards[i].age, .place = place_out(&m->cards[i].place)};
    peer_send_member(p, k->member, 0);
}

static void send_queued(peer *p, uint32_t request_us) {
    view_message out;
    view_change change;
    while (view_next(p->routing->view, &out)) send_view(p, &out, request_us);
    while (view_changed(p->routing->view, &change)) p->routing->stale = true;
}

static bool within_rate_limit(peer *p, route_known *k) {
    uint64_t from = p->now > TIMING_VIEW_BURST_NS ? p->now - TIMING_VIEW_BURST_NS : 0;
    if (k->paid_ns < from) k->paid_ns = from;
    if (k->paid_ns > p->now) return false;
    k->paid_ns += TIMING_VIEW_SPACING_NS;
    return true;
}

static void record_measurements(peer *p, route_known *k, const message_view *v) {
    if (is_request(v->kind) || is_reply(v->kind)) {
        k->rate_out = v->rate_out;
        k->rate_in = v->rate_in;
        k->rate_here = v->rate_here;
    }
    uint32_t round_trip_us = clock_us(p) - v->echo_us;
    if (!is_reply(v->kind) || v->echo_us == 0 || round_trip_us >= longest_echo_us) return;
    measure_round_trip(&k->measured, (int64_t)round_trip_us * 1000);
    int64_t cost = cost_of(p, k);
    if (cost > 0) view_measured(p->routing->view, (int64_t)p->now, (router_peer)k->member, cost);
}

static void add_descriptor(peer *p, view_message *m, const message_card *card) {
    const route_known *k = known_find(p, card->member);
    if (k == NULL) return;
    m->cards[m->length++] = (view_descriptor){.peer = card->member, .stage = k->stage, .age = card->age, .place = place_in(&card->place)};
}

void on_view(peer *p, const message *msg) {
    const message_view *v = &msg->u.view;
    peer_routing *r = p->routing;
    route_known *k = r->view == NULL ? NULL : known_find(p, msg->sender);
    if (k == NULL || !within_rate_limit(p, k)) return;
    report_units(p);
    record_measurements(p, k, v);
    view_message m = {.from = (router_peer)k->member, .to = (router_peer)p->me, .kind = (view_kind)v->kind, .side = v->side,
                      .by_chance = v->by_chance, .linked = v->linked, .cost = v->cost};
    if (v->kind == GOSSIP_SAMPLE) m.side = ROUTER_SAME;
    m.card = (view_descriptor){.peer = m.from, .stage = k->stage, .place = place_in(&v->place)};
    for (uint16_t i = 0; i < v->cards; i++) add_descriptor(p, &m, &v->card[i]);
    view_receive(r->view, (int64_t)p->now, &m);
    send_queued(p, v->clock_us);
}

void route_view_tick(peer *p) {
    peer_routing *r = p->routing;
    if (r->view == NULL || p->config.view_mutant == PEER_VIEW_SLEEPS) return;
    if (view_deadline(r->view) <= (int64_t)p->now) {
        report_units(p);
        view_tick(r->view, (int64_t)p->now);
        send_queued(p, 0);
    }
    peer_wake_at(p, (uint64_t)view_deadline(r->view));
}
