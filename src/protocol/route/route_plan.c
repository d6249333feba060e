// Planned paths of an iteration on slow links (docs/protocol.md, Slow links, S4). Peers advertise
// their links (route_linkstate.c), and data peers plan with them (routing/schedule/schedule.h). A
// plan binds no member: if the planned receiver is gone or has no slot for too long, the holder
// chooses another one (route_home.c, rule S5).
#include "protocol/route/routing.h"

#include <string.h>

// ---- memory -------------------------------------------------------------------------------------

static bool makes_plans(const peer_run *run, const peer_config *config) {
    return config->kind == MEMBER_DATA && run->routing == ROUTER_MINCOST && run->stages > 1 && run->stages <= SCHEDULE_MAX_STAGES &&
           run->microbatches <= SCHEDULE_MAX_WAYS;
}

size_t route_plan_bytes(const peer_run *run, const peer_config *config) {
    return makes_plans(run, config) ? sizeof(route_plan) + schedule_bytes() : 0;
}

_Static_assert((int)WIRE_MAX_AHEAD >= (int)SCHEDULE_MAX_STAGES, "a planned path names every stage but the first, and the owner");

// ---- the plan -----------------------------------------------------------------------------------

// The members of a plan in the order of their numbers; the planner names them by index.
typedef struct plan_peers {
    uint32_t count;
    const cluster_member *peer[SCHEDULE_MAX_PEERS];
} plan_peers;

static uint32_t index_of(const plan_peers *c, member_id who) {
    for (uint32_t i = 0; i < c->count; i++)
        if (c->peer[i]->id == who) return i;
    return SCHEDULE_MAX_PEERS;
}

static bool takes_part(const peer *p, const cluster_member *m) {
    if (member_is_standby(m) || !member_answers(p, m->id)) return false;
    if (m->kind == MEMBER_DATA) return true;
    return m->contact == NO_CONTACT || p->cluster->contacts[m->contact].beat.ready != 0;
}

static bool add_peers(const peer *p, schedule *s, plan_peers *c) {
    c->count = 0;
    for (uint32_t i = 0; i < p->cluster->member_count; i++) {
        const cluster_member *m = &p->cluster->members[i];
        if (!takes_part(p, m)) continue;
        if (schedule_peer_add(s, (schedule_peer){m->id, m->stage, m->capacity}) == SCHEDULE_MAX_PEERS) return false;
        c->peer[c->count++] = m;
    }
    return true;
}

static void add_hops(const peer *p, schedule *s, const plan_peers *c, uint32_t from, const message_lines *said) {
    for (uint32_t i = 0; i < said->count; i++) {
        uint32_t to = index_of(c, said->line[i].member);
        if (said->line[i].cost == 0 || to == SCHEDULE_MAX_PEERS || c->peer[to]->stage != (c->peer[from]->stage + 1) % p->run.stages) continue;
        schedule_line(s, from, to, said->line[i].cost);
    }
}

// Transfer times of all links, since any member may be a forwarder.
static void add_transfers(schedule *s, const plan_peers *c, uint32_t from, const message_lines *said) {
    for (uint32_t i = 0; i < said->count; i++) {
        uint32_t to = index_of(c, said->line[i].member);
        if (to != SCHEDULE_MAX_PEERS) schedule_tensor(s, from, to, said->line[i].way);
    }
}

static uint32_t wire_cost(int64_t us) { return us < WIRE_MAX_LINK_COST ? (uint32_t)us : WIRE_MAX_LINK_COST; }

static bool compute_plan(peer *p, route_plan *plan) {
    schedule *s = schedule_init(plan + 1, p->run.stages);
    plan_peers c;
    if (!add_peers(p, s, &c)) return false;
    for (uint32_t i = 0; i < c.count; i++) {
        const message_lines *said = route_linkstate_of(p, c.peer[i]->id);
        if (said == NULL) continue;
        add_hops(p, s, &c, i, said);
        add_transfers(s, &c, i, said);
    }
    schedule_pieces(s, route_pieces(p));
    for (uint32_t m = 0; m < p->run.microbatches; m++) {
        uint32_t home = index_of(&c, p->state.owner[m % p->run.slots]);
        if (home == SCHEDULE_MAX_PEERS || !schedule_way_add(s, home)) return false;
    }
    if (!schedule_search(s)) return false;
    int64_t began = (int64_t)((p->now - p->microbatch->iteration_ns) / MEASURE_UNIT_NS);
    for (uint32_t m = 0; m < p->run.microbatches; m++)
        for (uint32_t stage = 1; stage <= p->run.stages; stage++) {
            bool home = stage == p->run.stages;
            plan->way[m][stage] = (message_ahead){.member = (uint32_t)schedule_member(s, m, home ? 0 : stage),
                                                  .after_us = home ? 0 : wire_cost(schedule_leave(s, m, stage) + began),
                                                  .by = (uint32_t)schedule_carrier(s, m, stage, false),
                                                  .back_by = (uint32_t)schedule_carrier(s, m, stage, true)};
        }
    return true;
}

static bool has_plan(const peer *p) { return p->routing->plan != NULL && p->routing->plan->planned == p->state.iteration + 1 && p->routing->plan->found; }

void route_plan_ahead(peer *p, uint32_t m) {
    route_plan *plan = p->routing->plan;
    inflight_microbatch *h = &p->microbatch->inflight[m];
    if (plan == NULL || m >= p->run.microbatches || h->ahead_count > 0) return;
    if (plan->planned != p->state.iteration + 1) {
        plan->planned = p->state.iteration + 1;
        plan->found = p->cluster->member_count <= SCHEDULE_MAX_PEERS && compute_plan(p, plan);
    }
    if (!plan->found) return;
    for (uint32_t stage = 1; stage <= p->run.stages; stage++) h->ahead[h->ahead_count++] = plan->way[m][stage];
}

member_id route_plan_back(const peer *p, uint32_t m, member_id to) {
    const message_ahead *way = has_plan(p) && m < p->run.microbatches ? p->routing->plan->way[m] : NULL;
    return way != NULL && way[p->run.stages - 1].member == to ? way[p->run.stages].back_by : 0;
}

// Departure times count from the beginning of the iteration. A member that was admitted later does
// not know it, and sends at once.
static bool was_member_at_start(const peer *p) { return p->me < (p->state.has_final ? p->state.final.index : p->state.run_index); }

uint64_t route_plan_time(const peer *p, const inflight_microbatch *h) {
    return h->ahead_count > 0 && was_member_at_start(p) ? p->microbatch->iteration_ns + (uint64_t)h->ahead[0].after_us * MEASURE_UNIT_NS : 0;
}

// Rules S4 and S5. A microbatch never leaves before its planned time: a free slot or link may
// belong to another one that is still on its way. After that time it waits for the planned member
// while waiting is cheaper than the best other path, there and back.
static bool waits_for_planned(const peer *p, const inflight_microbatch *h, const route_link *l, uint32_t source, member_id other, int64_t other_time) {
    uint64_t since = h->on.state == SEND_WAITING ? h->on.waiting_since_ns : p->now, from = route_plan_time(p, h);
    if (p->now < from) return true;
    const pick_peer *f = pick_known(&p->microbatch->flow, l->member);
    bool room = f != NULL && f->can_take && f->free_slots > 0;
    if (f == NULL || room || other == 0 || l->home[source] == 0) return false;
    int64_t waited = (int64_t)((p->now - (since > from ? since : from)) / MEASURE_UNIT_NS);
    int64_t on = route_time_by(p, l, source), longer = 2 * (other_time - on);
    return waited < (longer > on ? longer : on);
}

member_id route_pick_planned(peer *p, uint32_t m, uint32_t source, bool *wait) {
    inflight_microbatch *h = &p->microbatch->inflight[m];
    int64_t time = 0;
    if (p->stage == 0) route_plan_ahead(p, m);
    member_id other = route_pick_by_time(p, m, source, &time), wanted = h->ahead_count == 0 ? 0 : h->ahead[0].member;
    const route_link *l = wanted == 0 ? NULL : route_find(p, wanted);
    const pick_peer *f = l == NULL || !l->up || !route_is_next(p, wanted) ? NULL : pick_known(&p->microbatch->flow, wanted);
    if (f == NULL || !f->reachable || h->on.tried_count > 0) return other;
    *wait = waits_for_planned(p, h, l, source, other, time);
    if (*wait) return 0;
    return pick_is_usable(f, h->on.tried, h->on.tried_count) ? wanted : other;
}
