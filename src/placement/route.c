// The cheapest path of one session: dynamic programming over (layers done, peer of the last visit).
#include "placement/inside.h"

// Time of a visit by one of `bundle` sessions; layers: of one session.
static double visit_us(const placement_problem *p, const placement_plan *plan, uint32_t i, uint32_t layers,
                       placement_price price, uint32_t bundle) {
    if (price == PLACEMENT_ALONE) return layers * p->peer[i].layer_us;
    uint32_t load = plan->load[i];
    return (placement_busy_us(p, i, load + bundle * layers) - placement_busy_us(p, i, load)) / bundle;
}

// Layers that peer i holds when it takes [begin, end), too.
static uint32_t hull(const placement_plan *plan, uint32_t i, uint32_t begin, uint32_t end) {
    if (plan->begin[i] >= plan->end[i]) return end - begin;
    if (plan->begin[i] < begin) begin = plan->begin[i];
    if (plan->end[i] > end) end = plan->end[i];
    return end - begin;
}

// Extends the walk at peer i, which enters it at layer `begin` after peer `before`, to every end.
// More layers need more memory and time, so the first end that does not fit is the last.
static void visit(const placement_problem *p, const placement_plan *plan, uint32_t i, uint32_t begin, double cost,
                  uint32_t before, placement_price price, placement_work *w) {
    for (uint32_t end = begin + 1; end <= w->high[i]; end++) {
        w->steps++;
        uint32_t layers = hull(plan, i, begin, end);
        if (!placement_fits(p, i, layers, plan->load[i] + w->bundle * (end - begin))) return;
        double total = cost + visit_us(p, plan, i, end - begin, price, w->bundle);
        if (total >= w->cost[end][i]) continue;
        w->cost[end][i] = total;
        w->entered[end][i] = (uint8_t)begin;
        w->before[end][i] = (uint8_t)before;
    }
}

// True if the cheapest walk to (layer, j) has visited peer i.
static bool has_visited(const placement_work *w, uint32_t layer, uint32_t j, uint32_t i) {
    while (layer > 0) {
        if (j == i) return true;
        uint32_t next = w->before[layer][j];
        layer = w->entered[layer][j];
        j = next;
    }
    return false;
}

// The cheapest way to enter peer i at this layer. A walk that has visited the peer is left out, so
// paths visit a peer once; of the walks to one (layer, peer) only the cheapest is known, so the result
// can miss the optimum.
static double enter(const placement_problem *p, uint32_t origin, uint32_t i, uint32_t layer, uint32_t reached,
                    placement_work *w, uint32_t *before) {
    *before = i;
    if (layer == 0) return p->hop_us[origin][i];
    double best = PLACEMENT_NEVER;
    for (uint32_t k = 0; k < reached; k++) {
        uint32_t j = w->reached[k];
        double cost = w->cost[layer][j] + p->hop_us[j][i];
        if (j == i || cost >= best || has_visited(w, layer, j, i)) continue;
        best = cost;
        *before = j;
    }
    w->steps += reached;
    return best;
}

bool placement_read_path(const placement_problem *p, uint32_t origin, const placement_work *w, placement_path *out) {
    uint32_t layer = p->layers, last = 0, hops = 0;
    double best = PLACEMENT_NEVER;
    for (uint32_t i = 0; i < p->peers; i++) {
        double cost = w->cost[layer][i] + p->hop_us[i][origin];
        if (cost >= best) continue;
        best = cost;
        last = i;
    }
    out->hops = 0;
    if (best >= PLACEMENT_NEVER) return false;
    for (uint32_t at = last, l = layer; l > 0; hops++) {
        uint32_t next = w->before[l][at];
        l = w->entered[l][at];
        at = next;
    }
    if (hops > PLACEMENT_MAX_HOPS) return false;
    out->hops = (uint8_t)hops;
    for (uint32_t at = last; layer > 0;) {
        uint32_t begin = w->entered[layer][at], next = w->before[layer][at];
        out->visit[--hops] = (placement_visit){(uint8_t)at, (uint8_t)begin, (uint8_t)layer};
        layer = begin;
        at = next;
    }
    return true;
}

static bool search(const placement_problem *p, const placement_plan *plan, uint32_t session, placement_price price,
                   placement_work *w, placement_path *out) {
    uint32_t origin = p->origin[session];
    for (uint32_t l = 0; l <= p->layers; l++)
        for (uint32_t i = 0; i < p->peers; i++) w->cost[l][i] = PLACEMENT_NEVER;
    for (uint32_t l = 0; l < p->layers; l++) {
        uint32_t reached = 0;
        for (uint32_t i = 0; i < p->peers; i++) {
            if (w->cost[l][i] < PLACEMENT_NEVER) w->reached[reached++] = (uint8_t)i;
        }
        for (uint32_t i = 0; (l == 0 || reached > 0) && i < p->peers; i++) {
            if (l < w->low[i] || l >= w->high[i]) continue;
            uint32_t before;
            double cost = enter(p, origin, i, l, reached, w, &before);
            if (cost < PLACEMENT_NEVER) visit(p, plan, i, l, cost, before, price, w);
        }
    }
    return placement_read_path(p, origin, w, out);
}

bool placement_route_bundle(const placement_problem *p, const placement_plan *plan, uint32_t session, uint32_t bundle,
                            placement_price price, bool may_place, placement_work *w, placement_path *out) {
    w->bundle = bundle;
    for (uint32_t i = 0; i < p->peers; i++) {
        w->low[i] = may_place ? 0 : plan->begin[i];
        w->high[i] = may_place ? (uint8_t)p->layers : plan->end[i];
    }
    return search(p, plan, session, price, w, out);
}

bool placement_route(const placement_problem *p, const placement_plan *plan, uint32_t session, placement_price price,
                     bool may_place, placement_work *w, placement_path *out) {
    return placement_route_bundle(p, plan, session, 1, price, may_place, w, out);
}

static double path_us(const placement_problem *p, const placement_plan *plan, uint32_t session) {
    const placement_path *path = &plan->path[session];
    double total = 0;
    uint32_t at = p->origin[session];
    for (uint32_t h = 0; h < path->hops; h++) {
        uint32_t i = path->visit[h].peer, layers = (uint32_t)(path->visit[h].end - path->visit[h].begin);
        total += p->hop_us[at][i] + placement_busy_us(p, i, plan->load[i]) -
                 placement_busy_us(p, i, plan->load[i] - layers);
        at = i;
    }
    return total + p->hop_us[at][p->origin[session]];
}

// True if the session has another path now.
static bool reroute(const placement_problem *p, placement_plan *plan, uint32_t s, placement_work *w) {
    placement_path old = plan->path[s], path;
    double before = old.hops > 0 ? path_us(p, plan, s) : PLACEMENT_NEVER;
    placement_remove(plan, s);
    bool found = placement_route(p, plan, s, PLACEMENT_MARGINAL, false, w, &path);
    if (found) {
        placement_add(plan, s, &path);
        if (path_us(p, plan, s) < before * (1 - 1e-9)) return true;
        placement_remove(plan, s);
    }
    placement_add(plan, s, &old);
    return false;
}

void placement_route_all(const placement_problem *p, placement_plan *plan, uint32_t rounds, placement_work *w) {
    bool changed = true;
    for (uint32_t r = 0; r <= rounds && changed; r++) {
        changed = false;
        for (uint32_t s = 0; s < p->sessions; s++) changed |= reroute(p, plan, s, w);
    }
}
