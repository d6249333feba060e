#include "sim/routes.h"

#include "plan/problem.h"

#include <stdlib.h>
#include <string.h>

static const double MINUTE_NS = 60e9;

static uint64_t least(uint64_t a, uint64_t b) { return a == 0 || (b != 0 && b < a) ? b : a; }

static uint64_t computing_ns(const scenario *s, uint32_t index, uint16_t stage) {
    return scenario_cost_ns(s, index, stage, WORK_FORWARD) + scenario_cost_ns(s, index, stage, WORK_BACKWARD);
}

// The cost of one unit between two peers, in microseconds, as routers measure it on idle lines:
// computing at both ends, the round trip, and the tensor over the slowest of both lines and the
// pair.
static int64_t cost_between(const scenario *s, uint32_t from, uint16_t stage, uint32_t to, uint16_t next) {
    scenario_link there, back;
    scenario_link_of(s, from, to, &there);
    scenario_link_of(s, to, from, &back);
    uint64_t ns = there.latency_ns + back.latency_ns + (there.jitter_ns + back.jitter_ns) / 2;
    ns += computing_ns(s, from, stage) + computing_ns(s, to, next);
    uint64_t bps = least(there.bps, least(s->machine[s->peer[from].machine].up_bps, s->machine[s->peer[to].machine].down_bps));
    return (int64_t)(ns / 2000 + (bps == 0 ? 0 : s->activation_bytes * 8 * 1000000 / bps));
}

// The flow at the end of a run in the form that the planner takes.
typedef struct planner_view {
    const scenario *s;
    const sim_swarm_report *report;
    uint32_t *index;      // [peers of the report]: in the scenario
    uint32_t *in, *out;   // [peers of the report]: units
    plan_peer *peer;      // [peers of the report]
    plan_link *link;
    plan_problem problem;
} planner_view;

static int64_t cost_of(const planner_view *g, uint32_t from, uint32_t to) {
    return cost_between(g->s, g->index[from], (uint16_t)g->peer[from].stage, g->index[to], (uint16_t)g->peer[to].stage);
}

static void view_close(planner_view *g) {
    free(g->index);
    free(g->in);
    free(g->out);
    free(g->peer);
    free(g->link);
}

// The optimum gets the same capacity as the swarm: a peer may exceed its capacity for a moment.
static void view_peers(planner_view *g) {
    const sim_swarm_report *r = g->report;
    for (uint32_t i = 0; i < r->peers; i++) {
        while (strcmp(g->s->peer[g->index[i]].name, r->peer[i].name) != 0) g->index[i]++;
        uint32_t carries = g->in[i] > g->out[i] ? g->in[i] : g->out[i], may = r->peer[i].route_capacity;
        bool there = r->peer[i].alive && r->peer[i].member;
        g->peer[i] = (plan_peer){r->peer[i].stage, !there ? 0 : carries > may ? carries : may};
    }
}

static void view_flows(planner_view *g) {
    for (uint32_t f = 0; f < g->report->flows; f++) {
        const sim_swarm_flow *flow = &g->report->flow[f];
        g->out[flow->from] += flow->units;
        g->in[flow->to] += flow->units;
    }
}

static bool view_links(planner_view *g) {
    uint32_t peers = g->report->peers, room = 0;
    for (uint32_t i = 0; i < peers; i++)
        for (uint32_t k = 0; k < peers; k++) {
            if (g->peer[k].stage != (g->peer[i].stage + 1) % g->s->stages || g->peer[i].capacity == 0 || g->peer[k].capacity == 0) continue;
            if (g->problem.links == room) {
                room = room ? 2 * room : 256;
                plan_link *more = realloc(g->link, room * sizeof *more);
                if (!more) return false;
                g->link = more;
            }
            g->link[g->problem.links++] = (plan_link){i, k, cost_of(g, i, k)};
        }
    return true;
}

static bool view_open(planner_view *g) {
    uint32_t peers = g->report->peers;
    g->index = calloc(peers, sizeof *g->index);
    g->in = calloc(peers, sizeof *g->in);
    g->out = calloc(peers, sizeof *g->out);
    g->peer = calloc(peers, sizeof *g->peer);
    if (!g->index || !g->in || !g->out || !g->peer) return false;
    view_flows(g);
    view_peers(g);
    bool seen = view_links(g);
    g->problem = (plan_problem){.peer = g->peer, .link = g->link, .peers = peers, .links = g->problem.links, .stages = g->s->stages - 1u};
    return seen;
}

// The number of units with a path is the smallest number between any two stages. A path costs the
// sum of the average link costs, because some units may be moving and be counted in one stage only.
static void measure_flows(const planner_view *g, sim_routes *out) {
    uint64_t passes[SCENARIO_MAX_STAGES] = {0};  // into each stage
    double cost[SCENARIO_MAX_STAGES] = {0};
    for (uint32_t f = 0; f < g->report->flows; f++) {
        const sim_swarm_flow *flow = &g->report->flow[f];
        uint32_t stage = g->peer[flow->to].stage;
        passes[stage] += flow->units;
        cost[stage] += (double)flow->units * (double)cost_of(g, flow->from, flow->to) / 1e3;
    }
    uint64_t least_units = passes[0];
    for (uint16_t stage = 0; stage < g->s->stages; stage++) {
        if (passes[stage] < least_units) least_units = passes[stage];
        if (passes[stage] > 0) out->cost_ms += cost[stage] / (double)passes[stage];
    }
    out->units = (double)least_units;
}

static braid_err find_cheapest(planner_view *g, sim_routes *out, braid_error *error) {
    plan_answer answer = {0};
    void *memory = malloc(plan_relaxed_bytes(&g->problem));
    int64_t *flow = calloc(g->problem.links, sizeof *flow);
    braid_err code = memory && flow ? plan_relaxed(&g->problem, (int64_t)out->units, memory, flow, &answer, error) : braid_fail(error, BRAID_MEMORY, "no memory for the cheapest routes");
    free(memory);
    free(flow);
    if (code == BRAID_OK && answer.units > 0) out->least_ms = (double)answer.cost / 1e3 / (double)answer.units;
    return code;
}

static void gossip(const sim_swarm_report *r, sim_routes *out) {
    double chose = 0, routed = 0;
    for (uint32_t i = 0; i < r->peers; i++) {
        const sim_swarm_peer *p = &r->peer[i];
        routed += (double)p->up_ns / MINUTE_NS;
        out->route_messages += (double)p->route_messages;
        out->route_bytes += (double)p->route_bytes;
        if (p->view_messages == 0) continue;
        out->choosers++;
        chose += (double)p->up_ns / MINUTE_NS;
        out->view_messages += (double)p->view_messages;
        out->view_bytes += (double)p->view_bytes;
    }
    if (chose > 0) out->view_messages /= chose;
    if (chose > 0) out->view_bytes /= chose;
    if (routed > 0) out->route_messages /= routed;
    if (routed > 0) out->route_bytes /= routed;
}

braid_err sim_routes_look(const scenario *s, const sim_swarm_report *report, sim_routes *out, braid_error *error) {
    *out = (sim_routes){0};
    gossip(report, out);
    planner_view g = {.s = s, .report = report};
    braid_err code = BRAID_OK;
    if (!view_open(&g)) code = braid_fail(error, BRAID_MEMORY, "no memory for the swarm's links");
    for (uint32_t i = 0; code == BRAID_OK && i < report->peers; i++)
        if (g.peer[i].stage == 0 && report->peer[i].alive) out->wanted += report->peer[i].route_capacity;
    if (code == BRAID_OK) measure_flows(&g, out);
    if (code == BRAID_OK && out->units > 0) code = find_cheapest(&g, out, error);
    view_close(&g);
    return code;
}

void sim_routes_add(sim_routes_mean *mean, const sim_routes *one) {
    sim_routes sum = mean->sum;
    mean->sum = *one;
    mean->sum.wanted += sum.wanted;
    mean->sum.units += sum.units;
    mean->sum.cost_ms += sum.cost_ms;
    mean->sum.least_ms += sum.least_ms;
    mean->looks++;
}

sim_routes sim_routes_of(const sim_routes_mean *mean) {
    sim_routes all = mean->sum;
    if (mean->looks == 0) return all;
    all.wanted /= mean->looks;
    all.units /= mean->looks;
    all.cost_ms /= mean->looks;
    all.least_ms /= mean->looks;
    return all;
}
