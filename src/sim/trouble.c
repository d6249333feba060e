// Faults of peers that stay alive: slow computing, pauses, cuts, clock jumps and requests to leave;
// and joiners that come at a certain moment of an iteration.
#include "sim/inside.h"

static const uint64_t SECOND = 1000000000;

static bool may_leave(const sim_cluster *s, const sim_trouble *t, uint32_t node) { return t->for_ns > 0 || sim_crash_may_leave(s, node); }

static bool concerns(const sim_cluster *s, const sim_trouble *t, uint32_t node) {
    const sim_node *n = &s->node[node];
    if (!n->alive || n->paused_until_ns > s->now) return false;
    switch (t->kind) {
    case SIM_SLOW:
    case SIM_PAUSE: return n->config.kind != MEMBER_DATA;
    // A start would wait for it. A removed peer may exit at once, though its stage is then empty.
    case SIM_DRAIN: return n->config.kind != MEMBER_DATA && s->checker.started && sim_check_member_live(s, n->view.member);
    case SIM_CUT:
    case SIM_CUT_ONE_WAY: return (s->c->leader_deaths || !n->config.leader) && s->checker.started;
    case SIM_CLOCK_JUMPS: return true;
    case SIM_PAUSE_DATA: return n->config.kind == MEMBER_DATA && !n->config.leader;
    case SIM_DRAIN_DATA: return n->config.kind == MEMBER_DATA && !n->config.leader && s->checker.started && n->view.member != 0 && may_leave(s, t, node);
    case SIM_PAUSE_LEADER: return n->view.leads;
    // it may have been deposed when it is about to end the run
    default: return n->config.leader && n->view.leads && may_leave(s, t, node);
    }
}

static void drain(sim_cluster *s, uint32_t node, uint64_t away_ns) {
    event e = {.kind = EVENT_DRAIN};
    s->node[node].away_ns = away_ns;
    s->node[node].asked_to_leave = true;
    if (s->node[node].config.leader) s->checker.drained = true;
    sim_step(s, node, &e);
}

// Later peers get a side, too.
static void partition_begin(sim_cluster *s, const sim_trouble *t) {
    s->stats->fault_count[t->kind]++;
    s->partition.side = rng_next(&s->random);
    s->partition.until_ns = s->now + t->for_ns;
    if (s->partition.until_ns > s->partition.over_ns) s->partition.over_ns = s->partition.until_ns;
    s->partition.one_way = t->kind == SIM_PARTITION_ONE_WAY;
    for (uint32_t i = 0; i < s->nodes; i++)
        if (s->partition.side >> i & 1) sim_trace(s, i, "XX %s", sim_trouble_name(t->kind));
}

uint64_t sim_trouble_cut_until(const sim_cluster *s, uint32_t from, uint32_t to) {
    bool here = s->partition.side >> from & 1, there = s->partition.side >> to & 1;
    if (s->partition.until_ns <= s->now || here == there || (s->partition.one_way && there)) return 0;
    return s->partition.until_ns;
}

// A second cut or pause never shortens the first: events were delayed until the end of the first
// one.
static void extend(uint64_t *until_ns, uint64_t end_ns) {
    if (*until_ns < end_ns) *until_ns = end_ns;
}

void sim_trouble_begin(sim_cluster *s, uint32_t index) {
    const sim_trouble *t = &s->c->trouble[index];
    if (t->kind == SIM_PARTITION || t->kind == SIM_PARTITION_ONE_WAY) {
        if (s->checker.started) partition_begin(s, t);
        return;
    }
    uint32_t candidates[SIM_MAX_NODES], count = 0;
    for (uint32_t i = 0; i < s->nodes; i++)
        if (concerns(s, t, i)) candidates[count++] = i;
    if (count == 0) return;
    uint32_t node = candidates[rng_below(&s->random, count)];
    sim_node *n = &s->node[node];
    uint64_t until_ns = s->now + t->for_ns;
    s->stats->fault_count[t->kind]++;
    sim_trace(s, node, "XX %s", sim_trouble_name(t->kind));
    switch (t->kind) {
    case SIM_SLOW:
        n->slow_until_ns = until_ns;
        n->slow_factor = t->factor;
        break;
    case SIM_DRAIN:
    case SIM_DRAIN_DATA:
    case SIM_DRAIN_LEADER: drain(s, node, t->for_ns); break;
    case SIM_CUT:
        extend(&n->sends_cut_until_ns, until_ns);
        extend(&n->receives_cut_until_ns, until_ns);
        break;
    case SIM_CUT_ONE_WAY: extend(t->factor % 2 ? &n->sends_cut_until_ns : &n->receives_cut_until_ns, until_ns); break;
    case SIM_CLOCK_JUMPS: n->clock_ahead_ns += t->for_ns; break;
    default: extend(&n->paused_until_ns, until_ns);
    }
}

uint64_t sim_trouble_paused_until(const sim_cluster *s, uint32_t node) {
    const sim_node *n = &s->node[node];
    return n->alive && n->paused_until_ns > s->now ? n->paused_until_ns : 0;
}

bool sim_trouble_defers(sim_cluster *s, sim_item *item) {
    uint64_t until = sim_trouble_paused_until(s, item->node);
    if (!until) return false;
    if (!item->arrived_ns) item->arrived_ns = s->now;
    sim_item_put(s, until, item);
    return true;
}

void sim_trouble_arrivals(sim_cluster *s, uint8_t kind) {
    for (uint32_t i = 0; i < s->c->arrivals; i++) {
        if (s->arrival_done[i] || s->c->arrival[i].kind != kind || s->checker.version < s->c->arrival[i].iteration) continue;
        s->arrival_done[i] = true;
        sim_item *item = sim_item_new(ITEM_START, 0, 0);
        item->from = SIM_MAX_NODES;
        sim_item_put(s, s->now, item);
    }
}

void sim_trouble_plan(sim_cluster *s) {
    for (uint32_t i = 0; i < s->c->troubles; i++) {
        sim_item *item = sim_item_new(ITEM_TROUBLE, 0, 0);
        item->from = i;
        sim_item_put(s, SECOND + s->c->trouble[i].at_ns, item);
    }
}
