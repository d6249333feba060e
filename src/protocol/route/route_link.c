// Links between routers: sessions, frames, and router messages as parts of ROUTE (docs/protocol.md,
// Routing, N4).
#include "protocol/route/routing.h"

#include <string.h>

// The largest path cost that is accepted from a peer. Sums of two such costs still fit into a
// ROUTE.
#define MAX_COST (WIRE_MAX_ROUTE_COST / 2)

static const uint32_t longest_echo_us = 60 * 1000 * 1000;

route_link *route_find(peer *p, member_id id) {
    for (uint32_t i = 0; i < p->routing->links; i++)
        if (p->routing->link[i].member == id) return &p->routing->link[i];
    return NULL;
}

void route_link_close(peer *p, route_link *l) {
    p->routing->next_clock_ns = 0;
    if (l->up) router_neighbour_gone(p->routing->router, (int64_t)p->now, (router_peer)l->member);
    l->up = l->broken = false;
    l->heard = l->sent = l->got = l->told = 0;
    l->session = 0;
    memset(l->home, 0, sizeof l->home);
    memset(l->home_sent, 0, sizeof l->home_sent);
}

void route_link_open(peer *p, route_link *l) {
    route_link_close(p, l);
    l->session = (uint32_t)rng_next(&p->random) | 1;
    route_send_clock(p, l);
}

// ---- frames out ---------------------------------------------------------------------------------

static uint32_t clock_us(const peer *p) { return (uint32_t)(p->now / 1000) | 1; }

message_route *route_frame_begin(peer *p, const route_link *l) {
    message_route *frame = &peer_compose(p, MESSAGE_ROUTE)->u.route;
    frame->session = l->session;
    frame->heard = l->heard;
    frame->sequence = l->sent;
    frame->epoch = p->routing->epoch;
    frame->cost = route_is_next(p, l->member) ? (uint32_t)route_cost_of(l) : 0;
    frame->sent_us = clock_us(p);
    if (l->their_ns != 0) {
        frame->echo_us = l->their_us;
        frame->held_us = (uint32_t)((p->now - l->their_ns) / 1000);
    }
    return frame;
}

// Sends p->core.scratch. A frame with parts that cannot be sent leaves a gap at the other end, so a
// new session must begin.
void route_frame_send(peer *p, route_link *l) {
    message_route *frame = &p->core.scratch.u.route;
    if (frame->parts > 0) frame->sequence = ++l->sent;
    bool sent = peer_send_member(p, l->member, 0);
    if (!sent && frame->parts > 0) l->broken = true;
    l->last_frame_ns = p->now;
    p->routing->next_clock_ns = 0;
}

void route_send_clock(peer *p, route_link *l) {
    route_frame_begin(p, l);
    route_frame_send(p, l);
}

static bool cost_in_range(int64_t cost) { return cost >= -MAX_COST && cost <= MAX_COST; }

enum { ONLY_ON_THE_WIRE = ROUTE_FLOW_OF_BID - ROUTE_FLOW };  // kinds of parts that exist on the wire only: variants of one router message

static uint8_t kind_on_the_wire(const router_message *m) {
    if (m->kind == ROUTER_FLOW && m->token.origin != 0) return ROUTE_FLOW_OF_TOKEN;
    if (m->kind == ROUTER_FLOW && m->cost != 0) return ROUTE_FLOW_OF_BID;
    if (m->kind == ROUTER_ADVERT && m->scale != 0) return ROUTE_ADVERT_OF_LOADS;
    return (uint8_t)(m->kind <= ROUTER_FLOW ? m->kind : m->kind + ONLY_ON_THE_WIRE);
}

static uint32_t words_of(const router_message *m) {
    switch (m->kind) {
    case ROUTER_LABEL: return 3u * m->length;
    case ROUTER_ADVERT: case ROUTER_FLOW: case ROUTER_DENY: case ROUTER_COMMIT: case ROUTER_ABORT: return 0;
    default: return m->length;
    }
}

static void put_words(const router_message *m, uint32_t *word) {
    switch (m->kind) {
    case ROUTER_LABEL:
        for (uint32_t i = 0; i < m->length; i++) {
            uint64_t cost = (uint64_t)m->u.step[i].cost;
            word[3 * i] = m->u.step[i].half;
            word[3 * i + 1] = (uint32_t)cost;
            word[3 * i + 2] = (uint32_t)(cost >> 32);
        }
        return;
    case ROUTER_LOCK: memcpy(word, m->u.cycle, m->length * sizeof *word); return;
    default: memcpy(word, m->u.word, words_of(m) * sizeof *word); return;
    }
}

static route_part part_of(const router_message *m) {
    route_part p = {.kind = kind_on_the_wire(m), .words = (uint16_t)words_of(m)};
    if (m->kind == ROUTER_MAP) return p;
    bool others = m->kind > ROUTER_MAP, query = m->kind == ROUTER_QUERY;
    bool counts = m->kind == ROUTER_FLOW || m->kind == ROUTER_COMMIT;
    bool token = others || p.kind == ROUTE_FLOW_OF_TOKEN || (m->kind >= ROUTER_LOCK && m->kind <= ROUTER_ABORT);
    bool cost = (others && !query) || m->kind == ROUTER_LABEL || m->kind == ROUTER_ADVERT || m->kind == ROUTER_LOCK || p.kind == ROUTE_FLOW_OF_BID;
    if (m->kind == ROUTER_LABEL) p.side = m->side;
    if (others || counts || m->kind == ROUTER_ABORT) p.why = m->why;
    if (m->kind != ROUTER_ABORT) p.source = m->source;
    if (m->kind != ROUTER_LABEL && m->kind != ROUTER_ABORT && !query) p.units = m->units;
    if (counts) p.taken_back = m->taken_back;
    if (p.kind == ROUTE_ADVERT_OF_LOADS) p.scale = m->scale;
    if (others && !query) p.turn = m->turn;
    if (query) {
        p.epoch = (route_epoch){m->epoch, m->plan, m->attempts};
    }
    if (cost) p.cost = m->cost;
    if (m->kind == ROUTER_COMMIT) p.moved = m->u.word[0];
    if (m->kind == ROUTER_WAY) {
        p.taken_back = m->taken_back;
        p.on_path = m->on_path;
    }
    if (token) {
        p.token = (route_token){m->token.origin, m->token.serial, m->position};
    }
    return p;
}

void route_flush(peer *p) {
    router_message out;
    route_link *to = NULL;
    message_route *frame = NULL;
    uint32_t words = 0;
    while (router_next(p->routing->router, &out)) {
        route_link *l = route_find(p, out.to);
        if (l == NULL || !l->up || l->broken) continue;
        bool fits = l == to && frame->parts < WIRE_MAX_ROUTE_PARTS && words + words_of(&out) <= WIRE_MAX_ROUTE_WORDS;
        if (!fits) {
            if (to != NULL) route_frame_send(p, to);
            to = l;
            frame = route_frame_begin(p, l);
            words = 0;
        }
        frame->part[frame->parts] = part_of(&out);
        put_words(&out, frame->word + words);
        if (!route_part_good(&frame->part[frame->parts], frame->word + words)) {
            p->routing->next_clock_ns = 0;
            l->broken = true;  // numbers out of range: begin a new session without them
            frame->part[frame->parts] = (route_part){0};
            continue;
        }
        frame->parts++;
        words += words_of(&out);
    }
    if (to != NULL) route_frame_send(p, to);
}

// ---- frames in ----------------------------------------------------------------------------------

static router_kind kind_of(uint8_t part) {
    if (part == ROUTE_FLOW_OF_TOKEN || part == ROUTE_FLOW_OF_BID) return ROUTER_FLOW;
    if (part == ROUTE_ADVERT_OF_LOADS) return ROUTER_ADVERT;
    return (router_kind)(part <= ROUTE_FLOW ? part : part - ONLY_ON_THE_WIRE);
}

// Decodes one part. False: a correct router never sends it.
static bool message_of(const route_part *part, const uint32_t *word, router_message *m) {
    memset(m, 0, sizeof *m);  // a part may have fewer words than its kind defines
    m->kind = kind_of(part->kind);
    m->side = part->side;
    m->why = part->why;
    m->position = part->token.position;
    m->on_path = part->on_path;
    m->source = part->source;
    m->cost = part->cost;
    m->units = part->units;
    m->taken_back = part->taken_back;
    m->scale = part->scale;
    m->turn = part->turn;
    m->epoch = part->epoch.number;
    m->plan = part->epoch.plan;
    m->attempts = part->epoch.attempts;
    m->token = (router_token){part->token.origin, part->token.serial};
    m->length = part->words;
    if (!cost_in_range(part->cost)) return false;
    if (part->kind == ROUTE_COMMIT) m->u.word[0] = part->moved;
    else if (part->kind == ROUTE_LOCK) memcpy(m->u.cycle, word, part->words * sizeof *word);
    else if (part->kind != ROUTE_LABEL) memcpy(m->u.word, word, part->words * sizeof *word);
    if (part->kind != ROUTE_LABEL) return true;
    m->length = (uint16_t)(part->words / 3);
    for (uint32_t i = 0; i < m->length; i++) {
        m->u.step[i] = (router_step){word[3 * i], (int64_t)((uint64_t)word[3 * i + 2] << 32 | word[3 * i + 1])};
        if (!cost_in_range(m->u.step[i].cost)) return false;
    }
    return true;
}

static void take_parts(peer *p, route_link *l, const message_route *frame) {
    uint32_t words = 0, session = l->session;
    for (uint32_t i = 0; i < frame->parts && l->up && l->session == session && !l->broken; i++) {
        const route_part *part = &frame->part[i];
        router_message m;
        if (part->kind == ROUTE_HOME) {
            if (cost_in_range(part->cost)) route_home_heard(p, l, part);
        } else if (message_of(part, frame->word + words, &m)) {
            m.from = (router_peer)l->member;
            m.to = (router_peer)p->me;
            m.joined = i > 0;
            router_receive(p->routing->router, (int64_t)p->now, &m);
            route_flush(p);
        }
        words += part->words;
    }
}

static void update_cost(peer *p, route_link *l, uint32_t cost) {
    if (cost == 0 || cost == l->told) return;
    l->told = cost;
    router_cost(p->routing->router, (int64_t)p->now, (router_peer)l->member, ROUTER_PREVIOUS, cost);
}

static void bring_up(peer *p, route_link *l, const message_route *frame) {
    router *r = p->routing->router;
    router_peer other = (router_peer)l->member;
    l->up = true;
    l->heard = frame->session;
    l->told = frame->cost;
    const cluster_member *m = member_find(p, l->member);
    if (m->stage == p->stage) router_neighbour_add(r, (int64_t)p->now, other, ROUTER_SAME, 1);
    if (route_is_next(p, l->member)) router_neighbour_add(r, (int64_t)p->now, other, ROUTER_NEXT, route_cost_of(l));
    if (frame->cost != 0 && route_is_previous(p, l->member)) router_neighbour_add(r, (int64_t)p->now, other, ROUTER_PREVIOUS, frame->cost);
    route_send_clock(p, l);  // the other end may wait for this peer's session
}

// Round trip time without the delay at the other end.
static void measure_clock(peer *p, route_link *l, const message_route *frame) {
    uint32_t round_trip_us = clock_us(p) - frame->echo_us - frame->held_us;
    if (frame->echo_us != 0 && round_trip_us < longest_echo_us) measure_round_trip(&l->measured, (int64_t)round_trip_us * 1000);
    l->their_us = frame->sent_us;
    l->their_ns = p->now;
}

void on_route(peer *p, const message *msg) {
    const message_route *frame = &msg->u.route;
    route_link *l = p->routing->router == NULL ? NULL : route_find(p, msg->sender);
    if (l == NULL || l->session == 0 || frame->epoch != p->routing->epoch || frame->session == 0) return;
    measure_clock(p, l, frame);
    bool same = l->up && l->heard == frame->session;
    if (frame->heard == 0) {  // it does not know this session: the other end restarted, or the answer is still under way
        if (l->up && !same) route_link_open(p, l);
        l->heard = frame->session;
        route_send_clock(p, l);
        return;
    }
    if (frame->heard != l->session) return;  // for an earlier session of this end
    if (!l->up) bring_up(p, l, frame);
    else if (!same) return;
    update_cost(p, l, frame->cost);
    if (peer_breaks(p, PEER_MUTANT_ROUTES_ACROSS_FALLS) && frame->parts > 0) l->got = frame->sequence - 1;
    bool gap = frame->sequence - l->got > (frame->parts > 0 ? 1u : 0u) && (int32_t)(frame->sequence - l->got) > 0;
    if (gap) {
        route_link_open(p, l);
        return;
    }
    if (frame->parts == 0 || frame->sequence != l->got + 1) return;
    l->got++;
    take_parts(p, l, frame);
}

// ---- time ---------------------------------------------------------------------------------------

static uint64_t link_due(const route_link *l) { return l->last_frame_ns + (l->up ? TIMING_ROUTE_CLOCK_NS : TIMING_REPEAT_NS); }

void route_links_tick(peer *p) {
    peer_routing *r = p->routing;
    if (p->now >= r->next_clock_ns) {
        uint64_t first = UINT64_MAX;
        for (uint32_t i = 0; i < r->links; i++) {
            route_link *l = &r->link[i];
            if (l->session == 0) continue;
            if (l->broken) route_link_open(p, l);
            if (link_due(l) <= p->now) route_send_clock(p, l);
            if (link_due(l) < first) first = link_due(l);
        }
        r->next_clock_ns = first;
    }
    peer_wake_at(p, r->next_clock_ns);
}
