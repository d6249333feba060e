#include "plan/problem.h"

#include <inttypes.h>
#include <stdbool.h>

// Each peer is two nodes, in and out; a relay's inner arc holds its capacity. One source and one
// sink are connected to all data peers, so that a unit may return to any data peer.
static uint32_t half_in(uint32_t peer) { return 2 * peer; }
static uint32_t half_out(uint32_t peer) { return 2 * peer + 1; }

static uint32_t arcs_of(const plan_problem *p) { return p->links + 2 * p->peers; }
static uint32_t nodes_of(const plan_problem *p) { return 2 * p->peers + 2; }

braid_err plan_check(const plan_problem *p, braid_error *error) {
    for (uint32_t i = 0; i < p->peers; i++) {
        if (p->peer[i].stage > p->stages)
            return braid_fail(error, BRAID_ARGUMENT, "peer %u is in stage %u of %u", i, p->peer[i].stage, p->stages);
    }
    for (uint32_t l = 0; l < p->links; l++) {
        const plan_link *k = &p->link[l];
        if (k->from >= p->peers || k->to >= p->peers)
            return braid_fail(error, BRAID_ARGUMENT, "link %u joins peers %u and %u, but there are only %u", l, k->from,
                              k->to, p->peers);
        uint32_t next = p->peer[k->from].stage == p->stages ? 0 : p->peer[k->from].stage + 1;
        if (p->peer[k->to].stage != next)
            return braid_fail(error, BRAID_ARGUMENT, "link %u leads from stage %u to stage %u instead of %u", l,
                              p->peer[k->from].stage, p->peer[k->to].stage, next);
        if (k->cost < 0 || k->cost > PLAN_MAX_COST)
            return braid_fail(error, BRAID_ARGUMENT, "link %u costs %" PRId64 "; from 0 to %" PRId64 " is allowed", l,
                              k->cost, PLAN_MAX_COST);
    }
    return BRAID_OK;
}

size_t plan_relaxed_bytes(const plan_problem *p) {
    return arcs_of(p) * sizeof(plan_arc) + plan_min_cost_bytes(nodes_of(p), arcs_of(p));
}

// Each link's capacity: the number of units with a load of at most `most`.
static void fill_arcs(const plan_problem *p, int64_t most, plan_arc *arc) {
    uint32_t source = 2 * p->peers, sink = source + 1;
    for (uint32_t l = 0; l < p->links; l++) {
        const plan_link *k = &p->link[l];
        int64_t a = p->peer[k->from].capacity, b = p->peer[k->to].capacity, room = a < b ? a : b;
        if (k->cost > 0 && most / k->cost < room) room = most / k->cost;
        arc[l] = (plan_arc){half_out(k->from), half_in(k->to), room, k->cost, 0};
    }
    for (uint32_t i = 0; i < p->peers; i++) {
        int64_t room = p->peer[i].capacity;
        bool data = p->peer[i].stage == 0;
        arc[p->links + 2 * i] = data ? (plan_arc){source, half_out(i), room, 0, 0}
                                     : (plan_arc){half_in(i), half_out(i), room, 0, 0};
        // A relay needs only one arc; its second one stays empty.
        arc[p->links + 2 * i + 1] = (plan_arc){half_in(i), sink, data ? room : 0, 0, 0};
    }
}

static braid_err check_size(const plan_problem *p, braid_error *error) {
    if (p->peers > PLAN_MAX_NODES / 4 || p->links > PLAN_MAX_ARCS / 2)
        return braid_fail(error, BRAID_LIMIT, "%u peers and %u links; at most %d and %d are planned", p->peers,
                          p->links, PLAN_MAX_NODES / 4, PLAN_MAX_ARCS / 2);
    return plan_check(p, error);
}

static braid_err cheapest(const plan_problem *p, int64_t most, int64_t limit, void *memory, int64_t *flow,
                          plan_answer *answer, braid_error *error) {
    plan_arc *arc = memory;
    fill_arcs(p, most, arc);
    plan_graph g = {nodes_of(p), arcs_of(p), 2 * p->peers, 2 * p->peers + 1, arc};
    braid_err err = plan_min_cost(&g, limit, arc + g.arcs, answer, error);
    for (uint32_t l = 0; !err && l < p->links; l++) flow[l] = arc[l].flow;
    return err;
}

braid_err plan_relaxed(const plan_problem *p, int64_t limit, void *memory, int64_t *flow, plan_answer *answer,
                       braid_error *error) {
    *answer = (plan_answer){0};
    braid_err err = check_size(p, error);
    return err ? err : cheapest(p, INT64_MAX, limit, memory, flow, answer, error);
}

static int64_t heaviest(const plan_problem *p, const int64_t *flow) {
    int64_t most = 0;
    for (uint32_t l = 0; l < p->links; l++)
        if (flow[l] * p->link[l].cost > most) most = flow[l] * p->link[l].cost;
    return most;
}

braid_err plan_worst(const plan_problem *p, int64_t limit, void *memory, int64_t *flow, int64_t *worst,
                     plan_answer *answer, braid_error *error) {
    braid_err err = plan_relaxed(p, limit, memory, flow, answer, error);
    int64_t units = answer->units, low = 0, high = err ? 0 : heaviest(p, flow);
    while (!err && low < high) {  // low - 1 is infeasible, and high is feasible
        int64_t middle = low + (high - low) / 2;
        err = cheapest(p, middle, units, memory, flow, answer, error);
        if (!err && answer->units == units)
            high = heaviest(p, flow);
        else
            low = middle + 1;
    }
    *worst = high;
    return err ? err : cheapest(p, high, units, memory, flow, answer, error);
}

uint32_t plan_take_path(const plan_problem *p, uint32_t source, int64_t *flow, uint32_t *path) {
    uint32_t at = source, length = 0;
    for (uint32_t hop = 0; hop <= p->stages; hop++) {
        uint32_t l = 0;
        while (l < p->links && !(p->link[l].from == at && flow[l] > 0)) l++;
        if (l == p->links) return length;
        if (length == 0) path[length++] = source;
        flow[l]--;
        at = p->link[l].to;
        path[length++] = at;
    }
    return length;
}
