// The router in this peer: neighbours, capacity, link costs, and the choice of the next member for
// a microbatch (docs/protocol.md, Routing). No microbatch waits for the router, and the router
// never moves one that is under way.
#include "protocol/route/routing.h"

#include <string.h>

static const int64_t unknown_cost = 1000;  // of a link without any measurement: low, so that the link is tried
static const int64_t slack = 200;          // microseconds per link; smaller gains do not change the flow (ε-optimality)
static const double gwtf_temperature = 1.7 * 1000, gwtf_cooling = 0.95;
enum { SHORT_LABELS = 24, FEW_STAGES = 8, LATE_FACTOR = 2 };

static bool has_router_number(member_id id) { return id != 0 && id < (member_id)1 << 31; }

// ---- memory and start ---------------------------------------------------------------------------

_Static_assert((int)WIRE_MAX_MEMBERS <= (int)ROUTER_PLANNED_RELAYS, "data peers plan with all relays of any run");

// Rule N1: a data peer has all relays of the first and the last stage as neighbours, because a
// relay without one is useless.
static router_config config_of(const peer_run *run, member_kind kind, uint32_t sources) {
    uint32_t neighbours = kind == MEMBER_DATA ? WIRE_MAX_STAGE_MEMBERS : ROUTE_NEIGHBOURS;
    return (router_config){
        .algorithm = (router_algorithm)run->routing, .objective = (router_objective)run->objective, .self = 1, .capacity = run->microbatches, .source_count = sources,
        .max_neighbours = neighbours, .delay = (int64_t)TIMING_ROUTE_DELAY_NS, .gather = (int64_t)TIMING_ROUTE_GATHER_NS,
        .slack = slack, .plan_first = run->plan_first, .path_limit = run->stages <= FEW_STAGES ? SHORT_LABELS : 0, .weighted = true,
        .temperature = gwtf_temperature, .cooling = gwtf_cooling};
}

static bool has_routers(const peer_run *run) { return run->stages > 1 && run->routing < ROUTER_ALGORITHMS; }

static size_t router_bytes_for(const peer_run *run, const peer_config *config, uint32_t sources) {
    router_config c = config_of(run, config->kind, sources);
    if (config->kind == MEMBER_DATA) c.source[0] = c.self;
    return router_bytes(&c);
}

// The number of data peers may change during a run. A router with a single data peer has longer
// labels than one with several.
size_t route_bytes(const peer_run *run, const peer_config *config) {
    if (!has_routers(run)) return 0;
    size_t one = router_bytes_for(run, config, 1), many = router_bytes_for(run, config, ROUTER_MAX_SOURCES);
    return one > many ? one : many;
}

// Rule N3: the commodities are the data peers with the lowest numbers, at most ROUTER_MAX_SOURCES.
// Microbatches of other data peers use the fallback choice.
static uint64_t find_sources(const peer *p, router_peer *source, uint32_t *count) {
    uint64_t epoch = 1;
    *count = 0;
    for (uint32_t i = 0; i < p->cluster->member_count && *count < ROUTER_MAX_SOURCES; i++) {
        if (p->cluster->members[i].kind != MEMBER_DATA || !has_router_number(p->cluster->members[i].id)) continue;
        source[(*count)++] = (router_peer)p->cluster->members[i].id;
        epoch = rng_seed(epoch, p->cluster->members[i].id);
    }
    return epoch;
}

static bool is_source(const peer_routing *r, member_id id) {
    for (uint32_t i = 0; i < r->sources; i++)
        if (r->source[i] == id) return true;
    return false;
}

static uint32_t source_index(const peer_routing *r, member_id id) {
    uint32_t i = 0;
    while (i < r->sources && r->source[i] != id) i++;
    return i;
}

static void stop_router(peer *p) {
    peer_routing *r = p->routing;
    for (uint32_t i = 0; i < r->links; i++) route_view_closes(p, &r->link[i]);
    r->router = NULL;
    r->links = 0;
    r->epoch = 0;
    r->serves = false;
}

// ---- capacity (rule N2) -------------------------------------------------------------------------

// Compute time of one microbatch at a member, from its heartbeat; 0: not known.
uint64_t route_time_at(const peer *p, const cluster_member *m) {
    if (m->contact == NO_CONTACT) return p->microbatch->forward_ns + p->microbatch->backward_ns;
    const message_heartbeat *beat = &p->cluster->contacts[m->contact].beat;
    return beat->forward_ns + beat->backward_ns;
}

static bool carries_stage_load(const peer *p, const cluster_member *m) {
    if (m->stage != p->stage || !member_answers(p, m->id)) return false;
    return m->contact == NO_CONTACT || p->cluster->contacts[m->contact].beat.ready != 0;
}

static uint64_t median_time(const peer *p) {
    uint64_t time[WIRE_MAX_STAGE_MEMBERS];
    uint32_t count = 0;
    for (uint32_t i = 0; i < p->cluster->member_count && count < WIRE_MAX_STAGE_MEMBERS; i++) {
        uint64_t t = carries_stage_load(p, &p->cluster->members[i]) ? route_time_at(p, &p->cluster->members[i]) : 0;
        if (t == 0) continue;
        uint32_t at = count++;
        for (; at > 0 && time[at - 1] > t; at--) time[at] = time[at - 1];
        time[at] = t;
    }
    return count == 0 ? 0 : time[(count - 1) / 2];
}

// Speed in 1/1024 of the median member. A time within half of the median counts as the median,
// because other load on a machine distorts it.
static uint64_t speed_of(uint64_t time, uint64_t median) {
    if (time == 0 || median == 0 || (time * 2 <= median * 3 && time * 3 >= median * 2)) return 1024;
    uint64_t speed = median * 1024 / time;
    return speed == 0 ? 1 : speed;
}

// The number of microbatches that this relay computes during one transfer on its cheapest link to
// the next stage.
static uint64_t computed_per_transfer(const peer *p) {
    uint64_t least = UINT64_MAX, own_us = (p->microbatch->forward_ns + p->microbatch->backward_ns) / MEASURE_UNIT_NS;
    for (uint32_t i = 0; i < p->routing->links; i++) {
        const route_link *l = &p->routing->link[i];
        if (l->up && l->measured.cost != 0 && route_is_next(p, l->member) && (uint64_t)l->measured.cost < least) least = (uint64_t)l->measured.cost;
    }
    if (least == UINT64_MAX || own_us == 0 || least <= own_us) return 0;
    return (least - own_us) / own_us;
}

// Rule N2. A data peer: the number of microbatches that it owns. A relay: its share of all
// microbatches, in proportion to the speeds of the members of its stage. If transfers take much
// longer than computing, the share is in proportion to slots, because a slot is taken until the
// gradient returns.
static uint32_t capacity_now(const peer *p) {
    if (p->stage == 0) {
        uint32_t mine = 0;
        for (uint32_t m = 0; m < p->run.microbatches; m++) mine += p->state.owner[m % p->run.slots] == p->me;
        return mine;
    }
    if (!p->routing->serves || p->leaving) return 0;
    uint64_t median = median_time(p), all = 0, mine = 0, meanwhile = computed_per_transfer(p);
    bool by_slots = meanwhile >= p->config.capacity;
    for (uint32_t i = 0; i < p->cluster->member_count; i++) {
        const cluster_member *m = &p->cluster->members[i];
        if (!carries_stage_load(p, m)) continue;
        uint64_t speed = by_slots ? m->capacity : speed_of(route_time_at(p, m), median);
        all += speed;
        if (m->id == p->me) mine = speed;
    }
    return all == 0 ? 0 : (uint32_t)((p->run.microbatches * mine + all - 1) / all);
}

static void update_capacity(peer *p) {
    peer_routing *r = p->routing;
    r->serves |= p->ready;
    uint32_t capacity = capacity_now(p);
    if (capacity == r->capacity) return;
    r->capacity = capacity;
    if (r->bound < capacity) r->bound = capacity;
    if (peer_breaks(p, PEER_MUTANT_ROUTES_TOO_MUCH) && p->stage > 0) capacity++;
    router_capacity(r->router, (int64_t)p->now, capacity);
    router_tick(r->router, (int64_t)p->now);
    route_flush(p);
}

// ---- neighbours ---------------------------------------------------------------------------------

bool route_is_next(const peer *p, member_id id) {
    const cluster_member *m = member_find(p, id);
    return m != NULL && m->stage == (p->stage + 1) % p->run.stages && m->stage != p->stage;
}

bool route_is_previous(const peer *p, member_id id) {
    const cluster_member *m = member_find(p, id);
    return m != NULL && !member_is_standby(m) && p->stage == (m->stage + 1) % p->run.stages && m->stage != p->stage;
}

// True if `other` is among the first ROUTE_NEIGHBOURS of its stage in a pseudo-random order that
// depends on `self` only.
static bool ranks_among_first(const peer *p, member_id self, const cluster_member *other) {
    uint64_t rank = rng_seed(self, other->id);
    uint32_t before = 0;
    for (uint32_t i = 0; i < p->cluster->member_count; i++) {
        const cluster_member *m = &p->cluster->members[i];
        if (m->stage == other->stage && m->id != self && rng_seed(self, m->id) < rank) before++;
    }
    return before < ROUTE_NEIGHBOURS;
}

// The algorithm gwtf also talks to members of its own stage. In a large stage both ends choose each
// other by member numbers alone.
static bool is_neighbour_in_stage(const peer *p, const cluster_member *m) {
    if (p->run.routing != ROUTER_GWTF || p->stage == 0) return false;
    return ranks_among_first(p, p->me, m) && ranks_among_first(p, m->id, member_find(p, p->me));
}

static bool is_neighbour(const peer *p, const cluster_member *m) {
    if (m->contact == NO_CONTACT || !has_router_number(m->id)) return false;
    if (m->stage == 0 && !is_source(p->routing, m->id)) return false;
    if (m->stage == p->stage) return is_neighbour_in_stage(p, m);
    if (!route_is_next(p, m->id) && !route_is_previous(p, m->id)) return false;
    return m->stage == 0 || p->stage == 0 || route_view_wants(p, m);
}

static bool link_is_up(const peer *p, member_id id) {
    const cluster_member *m = member_find(p, id);
    return m != NULL && m->contact != NO_CONTACT && p->cluster->contacts[m->contact].link == LINK_UP;
}

static void choose_neighbours(peer *p) {
    peer_routing *r = p->routing;
    for (uint32_t i = 0; i < r->links;) {
        const cluster_member *m = member_find(p, r->link[i].member);
        if (m != NULL && is_neighbour(p, m)) {
            i++;
            continue;
        }
        if (!peer_breaks(p, PEER_MUTANT_ROUTES_TO_THE_GONE)) route_link_close(p, &r->link[i]);
        route_view_closes(p, &r->link[i]);
        r->link[i] = r->link[--r->links];
    }
    for (uint32_t i = 0; i < p->cluster->member_count && r->links < ROUTE_MAX_LINKS; i++) {
        const cluster_member *m = &p->cluster->members[i];
        if (!is_neighbour(p, m) || route_find(p, m->id) != NULL) continue;
        r->link[r->links] = (route_link){.member = m->id};
        route_view_opens(p, &r->link[r->links++]);
    }
    for (uint32_t i = 0; i < r->links; i++) {
        route_link *l = &r->link[i];
        bool is_up = link_is_up(p, l->member);
        if (is_up && l->session == 0) route_link_open(p, l);
        if (!is_up && l->session != 0 && !peer_breaks(p, PEER_MUTANT_ROUTES_ACROSS_FALLS)) route_link_close(p, l);
    }
}

// Starts, restarts or stops the router. It restarts when this peer is another member, or when the
// data peers change (rule N3).
static void refresh_router(peer *p) {
    peer_routing *r = p->routing;
    router_peer source[ROUTER_MAX_SOURCES] = {0};
    uint32_t sources;
    uint64_t epoch = find_sources(p, source, &sources);
    epoch = rng_seed(epoch, p->run.routing);
    r->stale = false;
    if (r->router != NULL && router_self(r->router) != p->me) route_view_stop(p);
    if (r->router != NULL && (epoch != r->epoch || router_self(r->router) != p->me)) stop_router(p);
    bool takes_part = run_state_goes_on(&p->state) && !p->standby && has_routers(&p->run) && has_router_number(p->me) && sources > 0;
    r->sources = sources;
    for (uint32_t i = 0; i < sources; i++) r->source[i] = source[i];
    if (!takes_part || (p->stage == 0 && !is_source(r, p->me))) {
        route_view_stop(p);
        stop_router(p);
        return;
    }
    if (r->router == NULL) {
        r->epoch = epoch;
        r->serves = p->ready;
        router_config c = config_of(&p->run, p->config.kind, sources);
        for (uint32_t i = 0; i < sources; i++) c.source[i] = source[i];
        c.self = (router_peer)p->me;
        c.seed = rng_next(&p->random);
        BRAID_ASSERT(router_bytes(&c) <= route_bytes(&p->run, &p->config));
        r->router = router_init(r->memory, &c, (int64_t)p->now);
        r->capacity = r->bound = capacity_now(p);
        router_capacity(r->router, (int64_t)p->now, r->capacity);
    }
    uint32_t relays = 0;
    for (uint32_t i = 0; i < p->cluster->member_count; i++) relays += p->cluster->members[i].kind == MEMBER_RELAY;
    router_relays(r->router, (int64_t)p->now, relays);
    route_view_refresh(p);
    choose_neighbours(p);
}

// ---- costs --------------------------------------------------------------------------------------

int64_t route_hop_cost(const route_link *l) { return l->hop_cost != 0 ? l->hop_cost : route_cost_of(l); }
int64_t route_cost_of(const route_link *l) { return l->measured.cost != 0 ? l->measured.cost : unknown_cost; }

// A tensor that waited behind another one on this link started when that one was accepted. The wait
// is no property of the link.
void route_taken(peer *p, member_id to, uint64_t bytes, uint64_t sent_ns) {
    route_link *l = route_find(p, to);
    if (l == NULL) return;
    bool waited = l->taken_ns > sent_ns;
    measure_transfer(&l->measured, MEASURE_TO, bytes, (int64_t)(p->now - (waited ? l->taken_ns : sent_ns)), !waited);
    l->taken_ns = p->now;
}

// Rule N5: a link without tensors so far gets the rate of this peer's link with the most similar
// round trip. If its own round trip is longer, the rate is reduced in proportion, by at most half.
static int64_t guess_rate(const peer_routing *r, const route_link *of) {
    int64_t trip = measure_value(&of->measured.round_trip), best = 0, rate = 0;
    if (trip == 0) return 0;
    for (uint32_t i = 0; i < r->links; i++) {
        const measure_link *known = &r->link[i].measured;
        int64_t theirs = measure_value(&known->round_trip), bytes = measure_value(&known->rate[MEASURE_TO]);
        if (theirs == 0 || bytes == 0) continue;
        int64_t apart = theirs > trip ? theirs - trip : trip - theirs;
        if (rate != 0 && apart >= best) continue;
        best = apart;
        rate = bytes;
        if (theirs < trip) rate = theirs * 2 > trip ? bytes / 1024 * (theirs * 1024 / trip) : bytes / 2;
    }
    return rate;
}

static bool measured(const measure_link *l) { return measure_value(&l->rate[MEASURE_TO]) != 0 || measure_value(&l->rate[MEASURE_FROM]) != 0; }

static void update_costs(peer *p) {
    peer_routing *r = p->routing;
    int64_t mine = (int64_t)(p->microbatch->forward_ns + p->microbatch->backward_ns);
    for (uint32_t i = 0; i < r->links; i++) {
        route_link *l = &r->link[i];
        const cluster_member *m = member_find(p, l->member);
        if (!l->up || m == NULL || !route_is_next(p, l->member)) continue;
        int64_t theirs = (int64_t)route_time_at(p, m);
        if (!measured(&l->measured) && r->view == NULL) l->measured.guessed_rate = guess_rate(r, l);
        bool changed = measure_announce(&l->measured, NULL, (int64_t)p->now, mine, theirs, p->run.activation_bytes);
        l->hop_cost = l->measured.cost == 0 ? 0 : route_best_hop(p, l);
        if (!changed) continue;
        router_cost(r->router, (int64_t)p->now, (router_peer)l->member, ROUTER_NEXT, l->measured.cost);
        route_send_clock(p, l);
    }
}

// ---- time ---------------------------------------------------------------------------------------

void route_tick(peer *p) {
    peer_routing *r = p->routing;
    route_view_tick(p);
    if (r->stale || (r->router != NULL && p->me == 0)) refresh_router(p);
    if (r->router == NULL) return;
    if (p->now >= r->updated_ns + TIMING_ROUTE_UPDATE_NS || (!r->serves && p->ready)) {
        r->updated_ns = p->now;
        update_capacity(p);
        route_view_look(p);
        update_costs(p);
        route_tell(p);
        route_home_advertise(p);
        route_probe_tick(p);
        route_linkstate_advertise(p);
    }
    route_links_tick(p);
    if (r->bound > r->capacity) {
        uint32_t load = router_load(r->router);
        if (load < r->bound) r->bound = load > r->capacity ? load : r->capacity;
    }
    if (router_deadline(r->router) <= (int64_t)p->now) {
        router_tick(r->router, (int64_t)p->now);
        route_flush(p);
    }
    if (router_deadline(r->router) != INT64_MAX) peer_wake_at(p, (uint64_t)router_deadline(r->router));
    peer_wake_at(p, r->updated_ns + TIMING_ROUTE_UPDATE_NS);
}

// ---- choice of the next member (rule N6) --------------------------------------------------------

static void reset_shares(peer *p) {
    peer_routing *r = p->routing;
    if (r->iteration == p->state.iteration) return;
    r->iteration = p->state.iteration;
    for (uint32_t i = 0; i < r->links; i++)
        for (uint32_t k = 0; k < ROUTER_MAX_SOURCES; k++) r->link[i].share[k] = 0;
}

// True if the queue at `f` is so much longer than another one that waiting there costs more than a
// detour.
static bool queue_is_too_long(const peer *p, const pick_peer *f, const inflight_microbatch *h) {
    for (uint32_t i = 0; i < p->microbatch->flow.count; i++) {
        const pick_peer *other = &p->microbatch->flow.peer[i];
        if (!pick_is_usable(other, h->on.tried, h->on.tried_count)) continue;
        if (pick_wait_ns(f) > LATE_FACTOR * pick_wait_ns(other)) return true;
    }
    return false;
}

// Rule N9. The member of the next stage on this machine, if it has a free slot; 0: none.
static member_id pick_on_this_machine(const peer *p, const inflight_microbatch *h) {
    for (uint32_t i = 0; i < p->microbatch->flow.count; i++) {
        const pick_peer *next = &p->microbatch->flow.peer[i];
        if (member_shares_machine(p, next->member) && pick_is_usable(next, h->on.tried, h->on.tried_count)) return next->member;
    }
    return 0;
}

member_id route_pick(peer *p, uint32_t m, bool *wait) {
    peer_routing *r = p->routing;
    const inflight_microbatch *h = &p->microbatch->inflight[m];
    member_id beside = pick_on_this_machine(p, h);
    if (beside != 0) return beside;
    uint32_t k = r->router == NULL ? ROUTER_MAX_SOURCES : source_index(r, h->owner);
    if (k >= r->sources || k >= ROUTER_MAX_SOURCES) return 0;
    reset_shares(p);
    if (route_by_time(p)) {
        member_id soonest = route_pick_planned(p, m, k, wait);
        if (soonest != 0 || *wait) return soonest;
    }
    router_unit unit[ROUTE_MAX_UNITS];
    uint32_t units = router_units(r->router, unit, ROUTE_MAX_UNITS);
    if (units > ROUTE_MAX_UNITS) units = ROUTE_MAX_UNITS;
    uint64_t count[ROUTE_MAX_LINKS] = {0};
    for (uint32_t i = 0; i < units; i++) {
        const route_link *l = unit[i].source == h->owner && unit[i].downstream != 0 ? route_find(p, unit[i].downstream) : NULL;
        if (l != NULL) count[l - r->link] += unit[i].count;
    }
    route_link *best = NULL;
    for (uint32_t i = 0; i < r->links; i++) {
        route_link *l = &r->link[i];
        const pick_peer *f = count[i] == 0 ? NULL : pick_find(&p->microbatch->flow, l->member);
        if (f == NULL || !pick_is_usable(f, h->on.tried, h->on.tried_count) || queue_is_too_long(p, f, h)) continue;
        // the neighbour that is furthest behind its share of units; ties by member number
        uint64_t here = (l->share[k] + 1u) * (best == NULL ? 0 : count[best - r->link]);
        uint64_t there = best == NULL ? 1 : (best->share[k] + 1u) * count[i];
        if (here < there || (here == there && l->member < best->member)) best = l;
    }
    return best == NULL ? 0 : best->member;
}

void route_sent(peer *p, uint32_t m, member_id to, bool by_unit) {
    peer_routing *r = p->routing;
    route_link *l = route_find(p, to);
    uint32_t k = source_index(r, p->microbatch->inflight[m].owner);
    if (l != NULL && k < r->sources) l->share[k]++;
    if (by_unit) r->routed++;
    else r->unrouted++;
}
