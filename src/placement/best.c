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

static void insert(const placement_problem *p, placement_plan *plan, uint32_t session, placement_work *w) {
    placement_path path;
    if (!placement_route(p, plan, session, PLACEMENT_MARGINAL, true, w, &path)) return;
    placement_add(plan, session, &path);
    placement_hold(plan, &path);
}

static void insert_missing(const placement_problem *p, placement_plan *plan, rng *r, placement_work *w) {
    uint32_t count = 0;
    for (uint32_t s = 0; s < p->sessions; s++) {
        if (plan->path[s].hops == 0) w->order[count++] = (uint16_t)s;
    }
    for (uint32_t n = count; n > 0; n--) {
        uint32_t k = (uint32_t)rng_below(r, n);
        insert(p, plan, w->order[k], w);
        w->order[k] = w->order[n - 1];
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

// Removes the sessions of one to three peers, or some sessions alone.
static void remove_part(const placement_problem *p, placement_plan *plan, rng *r) {
    if (p->sessions > 1 && rng_below(r, 3) == 0) {
        uint64_t count = 1 + rng_below(r, p->sessions / 4 + 1);
        for (uint64_t k = 0; k < count; k++) placement_remove(plan, (uint32_t)rng_below(r, p->sessions));
    } else {
        uint64_t count = 1 + rng_below(r, 3);
        for (uint64_t k = 0; k < count; k++) {
            const placement_path *path = &plan->path[rng_below(r, p->sessions)];
            if (path->hops > 0) remove_peer(p, plan, path->visit[rng_below(r, path->hops)].peer);
        }
    }
    hold_used(p, plan);
}

// What the search makes small: token time of all sessions, and layers to fetch at `fetch_us` each.
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
        remove_part(p, plan, &r);
        insert_missing(p, plan, &r, w);
        double next = objective(p, plan, fetch_us, &w->from);
        // record-to-record travel (Dueck 1993): a slightly worse plan may lead to a better one
        double slack = 0.02 * (1 - (double)n / effort);
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

void placement_rebalance(const placement_problem *p, double fetch_us, uint32_t effort, uint64_t seed, placement_plan *plan,
                         placement_work *w) {
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
