// Reports of the flow, for the user and for the checks of the simulator.
#include "protocol/route/routing.h"

// 0: no tensor was sent to the next stage yet.
static uint64_t transfer_time(const peer *p) {
    const peer_routing *r = p->routing;
    int64_t most = 0;
    for (uint32_t i = 0; i < r->links; i++) {
        int64_t rate = measure_value(&r->link[i].measured.rate[MEASURE_TO]);
        if (route_is_next(p, r->link[i].member) && rate > most) most = rate;
    }
    uint64_t bytes = peer_tensor_bytes(&p->run, PHASE_FORWARD) + peer_tensor_bytes(&p->run, PHASE_BACKWARD);
    return most > 0 ? (uint64_t)((double)bytes * 1e9 / (double)most) : 0;
}

void route_look(const peer *p, peer_view *view) {
    const peer_routing *r = p->routing;
    view->placement.compute_ns = p->microbatch->forward_ns + p->microbatch->backward_ns;
    view->placement.transfer_ns = transfer_time(p);
    view->routes = r->router != NULL;
    view->routed = r->routed;
    view->unrouted = r->unrouted;
    view->route_changes = r->changes;
    if (r->router == NULL) return;
    view->route_units = router_load(r->router);
    view->route_capacity = r->capacity;
    view->route_bound = r->bound;
    view->route_settled = router_settled(r->router);
    view->route_waits = router_deadline(r->router) != INT64_MAX;
    view->route_linked = !r->stale;
    for (uint32_t i = 0; i < r->links; i++) view->route_linked &= r->link[i].up;
}

static uint32_t cost_to(const peer_routing *r, member_id id) {
    for (uint32_t i = 0; i < r->links; i++)
        if (r->link[i].member == id) return (uint32_t)route_cost_of(&r->link[i]);
    return 0;
}

uint32_t peer_flows(const peer *p, peer_flow *out, uint32_t capacity) {
    const peer_routing *r = p->routing;
    router_unit unit[ROUTE_MAX_UNITS];
    uint32_t count = r->router == NULL ? 0 : router_units(r->router, unit, ROUTE_MAX_UNITS);
    if (count > ROUTE_MAX_UNITS) count = ROUTE_MAX_UNITS;
    for (uint32_t i = 0; i < count && i < capacity; i++)
        out[i] = (peer_flow){unit[i].source, unit[i].upstream, unit[i].downstream, unit[i].count, cost_to(r, unit[i].downstream)};
    return count;
}

// Flows from here: one entry for each data peer and next peer.
static uint32_t gather_flows(const peer *p, peer_flow *out) {
    peer_flow all[ROUTE_MAX_UNITS];
    uint32_t count = peer_flows(p, all, ROUTE_MAX_UNITS), kept = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t at = 0;
        while (at < kept && (out[at].source != all[i].source || out[at].to != all[i].to)) at++;
        if (all[i].to == 0 || at == ROUTE_MAX_FLOWS) continue;
        if (at == kept) out[kept++] = (peer_flow){.source = all[i].source, .to = all[i].to, .cost = all[i].cost};
        out[at].units += all[i].units;
    }
    return kept;
}

void route_tell(peer *p) {
    peer_routing *r = p->routing;
    bool rests = router_settled(r->router) && router_deadline(r->router) == INT64_MAX;
    peer_flow now[ROUTE_MAX_FLOWS];
    uint32_t flows = gather_flows(p, now);
    uint64_t shape = 1, all = 1;
    for (uint32_t i = 0; i < flows; i++) {
        shape = rng_seed(rng_seed(rng_seed(shape, now[i].source), now[i].to), now[i].units);
        all = rng_seed(rng_seed(all, shape), now[i].cost);
    }
    if (shape != r->shape) r->changes++;
    r->shape = shape;
    if (all == r->told || (flows == 0 && r->told == 0)) return;
    if (r->told_ns == 0) r->told_ns = p->now;
    uint64_t wait = !rests ? TIMING_ROUTE_TELL_RESTLESS_NS : r->told == 0 ? 0 : TIMING_ROUTE_TELL_NS;
    if (p->now < r->told_ns + wait) return;
    r->told = all;
    r->told_ns = p->now;
    for (uint32_t i = 0; i < flows; i++) r->flow[i] = now[i];
    tell t = {.kind = TELL_FLOWS, .member = p->me, .id = p->config.self, .stage = p->stage, .iteration = p->state.iteration,
              .flow = r->flow, .flows = flows, .changes = r->changes};
    peer_tell(p, &t);
}
