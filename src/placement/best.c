// Layers and paths planned together: insertion at marginal cost, then repeated removal and
// reinsertion of a part (large neighbourhood search: Shaw 1998).
#include "base/rng.h"
#include "placement/inside.h"

#include <string.h>

double placement_total_us(const placement_problem *p, const placement_plan *plan) {
    double total = 0;
    for (uint32_t i = 0; i < p->peers; i++) total += placement_busy_us(p, i, plan->load[i]);
    for (uint32_t s = 0; s < p->sessions; s++) {
        const placement_path *path = &plan->path[s];
        uint32_t at = p->origin[s];
        for (uint32_t h = 0; h < path->hops; h++) {
            total += p->hop_us[at][path->visit[h].peer];
            at = path->visit[h].peer;
        }
        total += path->hops > 0 ? p->hop_us[at][p->origin[s]] : PLACEMENT_UNSERVED;
    }
    return total;
}

// Peers hold the layers that paths use, and no other ones.
static void hold_used(const placement_problem *p, placement_plan *plan) {
    memset(plan->begin, 0, sizeof plan->begin);
    memset(plan->end, 0, sizeof plan->end);
    for (uint32_t s = 0; s < p->sessions; s++) placement_hold(plan, &plan->path[s]);
}

// Sessions of one origin without a path, from a random one on; at most `most`.
static uint32_t find_missing(const placement_problem *p, const placement_plan *plan, uint32_t most, rng *r,
                             uint16_t found[PLACEMENT_MAX_SESSIONS]) {
    uint32_t count = 0, start = (uint32_t)rng_below(r, p->sessions);
    for (uint32_t k = 0; k < p->sessions && count < most; k++) {
        uint32_t s = (start + k) % p->sessions;
        if (plan->path[s].hops == 0 && (count == 0 || p->origin[s] == p->origin[found[0]]))
            found[count++] = (uint16_t)s;
    }
    return count;
}

// Gives paths to sessions without one, bundle by bundle: a path has room for its whole bundle, so
// peers keep memory for caches. A bundle that fits nowhere is halved.
static void insert_missing(const placement_problem *p, placement_plan *plan, rng *r, placement_work *w) {
    uint16_t session[PLACEMENT_MAX_SESSIONS];
    uint32_t most = 1u << rng_below(r, 7), count;
    while ((count = find_missing(p, plan, most, r, session)) > 0) {
        placement_path path;
        while (count > 0 && !placement_route_bundle(p, plan, session[0], count, PLACEMENT_MARGINAL, true, w, &path)) {
            count /= 2;
            most = count;
        }
        if (count == 0) return;
        for (uint32_t k = 0; k < count; k++) placement_add(plan, session[k], &path);
        placement_hold(plan, &path);
    }
}

static bool visits(const placement_path *path, uint32_t peer) {
    for (uint32_t h = 0; h < path->hops; h++) {
        if (path->visit[h].peer == peer) return true;
    }
    return false;
}

static void remove_peer(const placement_problem *p, placement_plan *plan, uint32_t peer) {
    for (uint32_t s = 0; s < p->sessions; s++) {
        if (visits(&plan->path[s], peer)) placement_remove(plan, s);
    }
}

// Removes the sessions of a whole path's peers, of one to three peers, or some sessions alone.
static void remove_part(const placement_problem *p, placement_plan *plan, rng *r) {
    uint64_t kind = rng_below(r, 4), count = 1 + rng_below(r, kind == 0 ? p->sessions / 4 + 1 : 3);
    for (uint64_t k = 0; k < count; k++) {
        uint32_t s = (uint32_t)rng_below(r, p->sessions);
        placement_path path = plan->path[s];
        if (kind == 0)
            placement_remove(plan, s);
        else if (kind == 1 && path.hops > 0)
            remove_peer(p, plan, path.visit[rng_below(r, path.hops)].peer);
        for (uint32_t h = 0; kind > 1 && h < path.hops; h++) remove_peer(p, plan, path.visit[h].peer);
    }
    hold_used(p, plan);
}

// Routes sessions over the layers that are held: those that visited peer i, and a part of the others.
static void reroute_some(const placement_problem *p, placement_plan *plan, uint32_t i, rng *r, placement_work *w) {
    uint32_t some = 1 + p->sessions / 4, start = (uint32_t)rng_below(r, p->sessions);
    for (uint32_t k = 0; k < p->sessions; k++) {
        uint32_t s = (start + k) % p->sessions;
        if (k < some || visits(&plan->path[s], i)) placement_remove(plan, s);
    }
    for (uint32_t s = 0; s < p->sessions; s++) {
        placement_path path;
        if (plan->path[s].hops > 0) continue;
        if (placement_route(p, plan, s, PLACEMENT_MARGINAL, false, w, &path)) placement_add(plan, s, &path);
    }
}

// Gives one peer another range at random, or moves one of its ends, and routes all sessions over the
// layers that are held.
static void shift_peer(const placement_problem *p, placement_plan *plan, rng *r, placement_work *w) {
    uint32_t i = (uint32_t)rng_below(r, p->peers), most = 0;
    while (most < p->layers && placement_fits(p, i, most + 1, 0)) most++;
    if (most == 0) return;
    uint32_t begin = plan->begin[i], end = plan->end[i];
    uint32_t step = 1 + (uint32_t)rng_below(r, 4), kind = (uint32_t)rng_below(r, 6);
    if (begin >= end || kind == 0) {
        uint32_t layers = 1 + (uint32_t)rng_below(r, most);
        begin = (uint32_t)rng_below(r, p->layers - layers + 1);
        end = begin + layers;
    } else {
        if (kind == 1 || kind == 3) begin = begin > step ? begin - step : 0;
        if (kind == 2 || kind == 4) begin += step;
        if (kind == 1 || kind == 5) end = end > step ? end - step : 0;
        if (kind == 2 || kind == 3) end = end + step < p->layers ? end + step : p->layers;
    }
    if (end > p->layers || end <= begin || end - begin > most) return;
    plan->begin[i] = (uint8_t)begin;
    plan->end[i] = (uint8_t)end;
    reroute_some(p, plan, i, r, w);
    hold_used(p, plan);
}

// The objective of the search: token time of all sessions, and layers to fetch at `fetch_us` each.
static double objective(const placement_problem *p, const placement_plan *plan, double fetch_us,
                        const placement_plan *from) {
    double total = placement_total_us(p, plan);
    for (uint32_t i = 0; fetch_us > 0 && i < p->peers; i++)
        total += fetch_us * p->sessions * placement_fetched(from, plan, i);
    return total;
}

static void search(const placement_problem *p, double fetch_us, uint32_t effort, uint64_t seed, placement_plan *plan,
                   placement_work *w) {
    rng r = {seed};
    double best = objective(p, plan, fetch_us, &w->from);
    w->best = *plan;
    for (uint32_t n = 0; n < effort; n++) {
        w->saved = *plan;
        if (n % 2 == 1)
            shift_peer(p, plan, &r, w);
        else
            remove_part(p, plan, &r);
        insert_missing(p, plan, &r, w);
        if (n % 4 == 0) {
            placement_route_all(p, plan, 0, w);
            hold_used(p, plan);
        }
        double next = objective(p, plan, fetch_us, &w->from);
        // record-to-record travel (Dueck 1993): a slightly worse plan may lead to a better one
        double slack = next < PLACEMENT_UNSERVED ? 0.02 * (1 - (double)n / effort) : 0;
        if (next > best * (1 + slack)) *plan = w->saved;
        if (next >= best) continue;
        best = next;
        w->best = *plan;
    }
    *plan = w->best;
}

void placement_plan_best(const placement_problem *p, uint32_t effort, uint64_t seed, placement_plan *plan,
                         placement_work *w) {
    rng r = {seed};
    insert_missing(p, plan, &r, w);
    hold_used(p, plan);
    if (p->sessions > 0) search(p, 0, effort, rng_seed(seed, 1), plan, w);
    placement_route_all(p, plan, 3, w);
    hold_used(p, plan);
}

void placement_rebalance(const placement_problem *p, double fetch_us, uint32_t effort, uint64_t seed,
                         placement_plan *plan, placement_work *w) {
    rng r = {seed};
    w->from = *plan;
    placement_route_all(p, plan, 3, w);
    insert_missing(p, plan, &r, w);
    hold_used(p, plan);
    if (p->sessions > 0) search(p, fetch_us, effort, rng_seed(seed, 1), plan, w);
}

void placement_fill_spare(const placement_problem *p, placement_plan *plan) {
    for (uint32_t i = 0; i < p->peers; i++) {
        if (plan->begin[i] < plan->end[i]) continue;
        uint32_t layers = 0;
        while (layers < p->layers && placement_fits(p, i, layers + 1, layers + 1)) layers++;
        if (layers == 0) continue;
        uint32_t start = placement_choose_start(p, plan, i, layers);
        plan->begin[i] = (uint8_t)start;
        plan->end[i] = (uint8_t)(start + layers);
    }
}
