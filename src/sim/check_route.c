// Rules for routing (docs/protocol.md, Routing). A relay's router never carries more than the
// capacity that it announced. Once the routers are silent, both ends of every link agree and every
// unit has a path.
#include "sim/inside.h"

#include "routing/core/router.h"

#include <stdlib.h>

static const uint64_t MILLISECOND = 1000000;
static const uint64_t SECOND = 1000000000;
enum { MAX_FLOWS = 512, MOST_WAITING = 30 };

// The units of one data peer, by link.
typedef struct flow_counts {
    uint32_t *sent, *taken;  // [from * nodes + to]
    bool whole;
} flow_counts;

static uint32_t node_of(const sim_cluster *s, member_id id) {
    uint32_t i = s->nodes;
    while (i > 0 && s->node[i - 1].view.member != id) i--;
    return i == 0 ? s->nodes : i - 1;
}

// Longer than any message takes, and than a peer needs to check its capacity again.
static uint64_t settle_ns(const sim_cluster *s) {
    uint64_t delay = (s->c->net.latency_ns + s->c->net.jitter_ns) * (s->c->net.asymmetric ? SIM_ASYMMETRY : 1);
    // a lost message is noticed at the next one, which may be lost too
    uint64_t until_missed = s->c->net.lost_permille ? 8 * SECOND : 0;
    return 600 * MILLISECOND + 2 * delay + until_missed;
}

static const sim_node *active_router(const sim_cluster *s, uint32_t node) {
    const sim_node *n = &s->node[node < s->nodes ? node : 0];
    return node < s->nodes && n->alive && n->view.member != 0 && n->view.routes ? n : NULL;
}

// Adds up the units of one node. False: an end of some link is not active, so the two ends need not
// agree.
static bool add_flows(sim_cluster *s, uint32_t node, member_id source, flow_counts *f) {
    peer_flow flow[MAX_FLOWS];
    const sim_node *n = &s->node[node];
    uint32_t count = peer_flows(n->peer, flow, MAX_FLOWS);
    for (uint32_t i = 0; i < count; i++) {
        if (flow[i].source != source || flow[i].units == 0) continue;
        uint32_t from = node_of(s, flow[i].from), to = node_of(s, flow[i].to);
        if ((flow[i].from != 0 && !sim_check_member_live(s, flow[i].from)) || (flow[i].to != 0 && !sim_check_member_live(s, flow[i].to)))
            sim_fail(s, "routing has settled, and %s has units from #%llu and to #%llu, which is no member any more", n->name, (unsigned long long)flow[i].from,
                     (unsigned long long)flow[i].to);
        if ((flow[i].from != 0 && !active_router(s, from)) || (flow[i].to != 0 && !active_router(s, to))) return false;
        if (flow[i].from != 0) f->taken[from * s->nodes + node] += flow[i].units;
        if (flow[i].to != 0) f->sent[node * s->nodes + to] += flow[i].units;
        if (n->view.stage > 0 && (flow[i].from == 0 || flow[i].to == 0)) f->whole = false;
    }
    return true;
}

static void check_source(sim_cluster *s, uint32_t data) {
    uint32_t pairs = s->nodes * s->nodes;
    uint32_t *counts = calloc(2 * (size_t)pairs, sizeof *counts);
    BRAID_ALLOCATED(counts, (2 * (size_t)pairs) * sizeof *counts);
    flow_counts sight = {counts, counts + pairs, true}, *f = &sight;
    bool there = true;
    for (uint32_t i = 0; i < s->nodes && there; i++)
        if (active_router(s, i)) there = add_flows(s, i, s->node[data].view.member, f);
    if (there && !f->whole && s->c->router.routing != ROUTER_GWTF)  // gwtf keeps paths that carry nothing
        sim_fail(s, "routing has settled, and a unit of %s has no path", s->node[data].name);
    for (uint32_t i = 0; there && i < pairs; i++)
        if (f->sent[i] != f->taken[i])
            sim_fail(s, "routing has settled, and of %s's units %s sends %u to %s, which counts %u", s->node[data].name, s->node[i / s->nodes].name, f->sent[i],
                     s->node[i % s->nodes].name, f->taken[i]);
    if (there) s->stats->route_checks++;
    free(counts);
}

// If every stage has room for all units that the data peers want to send, all of them are sent.
static void check_demand(sim_cluster *s) {
    uint64_t room[WIRE_MAX_STAGES] = {0}, demand = 0, sent = 0;
    for (uint32_t i = 0; i < s->nodes; i++) {
        const sim_node *n = active_router(s, i);
        if (n == NULL) continue;
        room[n->view.stage] += n->view.route_capacity;
        if (n->view.stage == 0) demand += n->view.route_capacity;
        if (n->view.stage == 0) sent += n->view.route_units;
        if (n->view.route_units > n->view.route_capacity && s->c->router.routing != ROUTER_GWTF)
            sim_fail(s, "routing has settled, and %s carries %u units of %u", n->name, n->view.route_units, n->view.route_capacity);
    }
    for (uint16_t i = 1; i < s->c->stages; i++)
        if (room[i] < demand) return;
    if (sent < demand && s->c->router.routing == ROUTER_MINCOST) sim_fail(s, "routing has settled, and %llu of %llu units are sent where there is room for all", (unsigned long long)sent, (unsigned long long)demand);
}

// True if every router is reachable, knows its neighbours, and these are active.
static bool all_reachable(const sim_cluster *s) {
    if (s->partition.over_ns + SECOND > s->now) return false;
    for (uint32_t i = 0; i < s->nodes; i++) {
        const sim_node *n = &s->node[i];
        if (n->view.member == 0 || !n->view.routes) {
            if (n->alive && n->view.member != 0) return false;
            continue;
        }
        if (!n->alive && sim_check_member_live(s, n->view.member)) return false;
        if (n->alive && n->view.log_position < s->checker.committed) return false;
        uint64_t cut = n->sends_cut_until_ns > n->receives_cut_until_ns ? n->sends_cut_until_ns : n->receives_cut_until_ns;
        if (n->alive && (!n->view.route_linked || n->paused_until_ns + SECOND > s->now || cut + SECOND > s->now)) return false;
    }
    return true;
}

static void check_settled_routes(sim_cluster *s) {
    sim_checker *k = &s->checker;
    if (s->now - k->route_message_ns < settle_ns(s) || k->route_check_ns > k->route_message_ns) return;
    if (!all_reachable(s)) {
        k->route_message_ns = s->now;  // there will be more messages
        return;
    }
    for (uint32_t i = 0; i < s->nodes; i++) {
        const sim_node *n = active_router(s, i);
        if (n == NULL) continue;
        bool silent = s->now - k->route_message_ns > MOST_WAITING * SECOND;
        if (n->view.route_waits && silent) sim_fail(s, "no routing message was sent for more than %d s, and %s still waits", MOST_WAITING, n->name);
        if (n->view.route_waits) return;
    }
    for (uint32_t i = 0; i < s->nodes; i++) {
        const sim_node *n = active_router(s, i);
        if (n != NULL && !n->view.route_settled) sim_fail(s, "routing has settled, and %s has an operation under way", n->name);
    }
    k->route_check_ns = s->now;
    for (uint32_t i = 0; i < s->nodes && !sim_failed(s); i++)
        if (active_router(s, i) && s->node[i].view.stage == 0) check_source(s, i);
    if (!sim_failed(s)) check_demand(s);
}

// Units without reserved slots, which may exceed the capacity until their microbatches complete.
// (gwtf gives nothing up when its capacity falls.)
static uint32_t units_carried(const sim_node *n) {
    peer_flow flow[MAX_FLOWS];
    uint32_t count = peer_flows(n->peer, flow, MAX_FLOWS), units = 0;
    for (uint32_t i = 0; i < count; i++) units += flow[i].units;
    return units;
}

void sim_check_route(sim_cluster *s, uint32_t node) {
    const sim_node *n = &s->node[node];
    const peer_view *v = &n->view;
    sim_watch *w = &s->checker.watch[node];
    if (v->routes && v->stage > 0 && v->route_units > v->route_bound && units_carried(n) > v->route_bound && s->c->router.routing != ROUTER_GWTF)
        sim_fail(s, "the router of %s carries %u units of %u", n->name, units_carried(n), v->route_bound);
    if (v->route_changes != w->route_changes || v->routes != w->routes) s->checker.route_message_ns = s->now;
    w->route_changes = v->route_changes;
    w->routes = v->routes;
    if (!sim_failed(s)) check_settled_routes(s);
}

void sim_check_route_sent(sim_cluster *s, const message *msg) {
    if (msg->u.route.parts > 0) s->checker.route_message_ns = s->now;
}
