// The model of a token's time, and plans.
#include "placement/placement.h"

#include <string.h>

static bool is_size(double value) { return value >= 0 && value <= PLACEMENT_MAX_VALUE; }

static braid_err check_peer(const placement_problem *p, uint32_t i, braid_error *error) {
    const placement_peer *peer = &p->peer[i];
    if (!is_size(peer->layer_us) || !is_size(peer->row_us) || !is_size(peer->memory_bytes) || !(peer->uptime >= 0) ||
        peer->uptime > 1)
        return braid_fail(error, BRAID_ARGUMENT, "peer %u of the placement has a time, memory or uptime out of range",
                          i);
    for (uint32_t j = 0; j < p->peers; j++) {
        if (!is_size(p->hop_us[i][j]))
            return braid_fail(error, BRAID_ARGUMENT, "the time of the hop from peer %u to peer %u is out of range", i,
                              j);
    }
    return BRAID_OK;
}

braid_err placement_check(const placement_problem *p, braid_error *error) {
    if (p->peers == 0 || p->peers > PLACEMENT_MAX_PEERS || p->layers == 0 || p->layers > PLACEMENT_MAX_LAYERS ||
        p->sessions > PLACEMENT_MAX_SESSIONS)
        return braid_fail(error, BRAID_LIMIT, "a placement has 1 to %d peers, 1 to %d layers and at most %d sessions",
                          PLACEMENT_MAX_PEERS, PLACEMENT_MAX_LAYERS, PLACEMENT_MAX_SESSIONS);
    if (!is_size(p->layer_bytes) || !is_size(p->cache_bytes) || !is_size(p->rows_per_us))
        return braid_fail(error, BRAID_ARGUMENT,
                          "bytes of a layer, bytes of a cache or the rate of rows are out of range");
    for (uint32_t s = 0; s < p->sessions; s++) {
        if (p->origin[s] >= p->peers)
            return braid_fail(error, BRAID_ARGUMENT, "session %u begins at peer %u of %u", s, p->origin[s], p->peers);
    }
    braid_err err = BRAID_OK;
    for (uint32_t i = 0; i < p->peers && !err; i++) err = check_peer(p, i, error);
    return err;
}

static double utilisation(const placement_problem *p, uint32_t peer, uint32_t load) {
    return load * p->peer[peer].row_us * p->rows_per_us;
}

double placement_busy_us(const placement_problem *p, uint32_t peer, uint32_t load) {
    return load * p->peer[peer].layer_us / (1 - utilisation(p, peer, load));
}

bool placement_fits(const placement_problem *p, uint32_t peer, uint32_t layers, uint32_t load) {
    return layers * p->layer_bytes + load * p->cache_bytes <= p->peer[peer].memory_bytes &&
           utilisation(p, peer, load) <= PLACEMENT_MAX_BUSY;
}

void placement_clear(placement_plan *plan) { memset(plan, 0, sizeof *plan); }

void placement_add(placement_plan *plan, uint32_t session, const placement_path *path) {
    plan->path[session] = *path;
    for (uint32_t h = 0; h < path->hops; h++)
        plan->load[path->visit[h].peer] += (uint32_t)(path->visit[h].end - path->visit[h].begin);
}

void placement_remove(placement_plan *plan, uint32_t session) {
    placement_path *path = &plan->path[session];
    for (uint32_t h = 0; h < path->hops; h++)
        plan->load[path->visit[h].peer] -= (uint32_t)(path->visit[h].end - path->visit[h].begin);
    path->hops = 0;
}

void placement_hold(placement_plan *plan, const placement_path *path) {
    for (uint32_t h = 0; h < path->hops; h++) {
        const placement_visit *v = &path->visit[h];
        bool holds = plan->begin[v->peer] < plan->end[v->peer];
        if (!holds || v->begin < plan->begin[v->peer]) plan->begin[v->peer] = v->begin;
        if (!holds || v->end > plan->end[v->peer]) plan->end[v->peer] = v->end;
    }
}

// Adds a session's visits to `load` and the times of its hops to `hops_us`.
static braid_err measure_path(const placement_problem *p, const placement_plan *plan, uint32_t s, uint32_t *load,
                              double *hops_us, braid_error *error) {
    const placement_path *path = &plan->path[s];
    uint32_t layer = 0, at = p->origin[s];
    if (path->hops > PLACEMENT_MAX_HOPS) return braid_fail(error, BRAID_STATE, "session %u has too many hops", s);
    for (uint32_t h = 0; h < path->hops; h++) {
        const placement_visit *v = &path->visit[h];
        if (v->peer >= p->peers || v->begin != layer || v->end <= v->begin || v->begin < plan->begin[v->peer] ||
            v->end > plan->end[v->peer])
            return braid_fail(error, BRAID_STATE, "hop %u of session %u leads to layers that peer %u does not hold", h,
                              s, v->peer);
        for (uint32_t g = 0; g < h; g++) {
            if (path->visit[g].peer == v->peer)
                return braid_fail(error, BRAID_STATE, "session %u visits peer %u twice", s, v->peer);
        }
        load[v->peer] += (uint32_t)(v->end - v->begin);
        *hops_us += p->hop_us[at][v->peer];
        layer = v->end;
        at = v->peer;
    }
    if (layer != p->layers) return braid_fail(error, BRAID_STATE, "the path of session %u ends at layer %u", s, layer);
    *hops_us += p->hop_us[at][p->origin[s]];
    return BRAID_OK;
}

static braid_err measure_peers(const placement_problem *p, const placement_plan *plan, const uint32_t *load,
                               double *total, placement_figures *out, braid_error *error) {
    for (uint32_t i = 0; i < p->peers; i++) {
        uint32_t layers = plan->end[i] > plan->begin[i] ? (uint32_t)(plan->end[i] - plan->begin[i]) : 0;
        if (plan->end[i] > p->layers || load[i] != plan->load[i] || !placement_fits(p, i, layers, load[i]))
            return braid_fail(error, BRAID_STATE, "peer %u cannot hold %u layers at a load of %u", i, layers, load[i]);
        double busy = utilisation(p, i, load[i]);
        if (busy > out->busiest) out->busiest = busy;
        *total += placement_busy_us(p, i, load[i]);
    }
    return BRAID_OK;
}

braid_err placement_measure(const placement_problem *p, const placement_plan *plan, placement_figures *out,
                            braid_error *error) {
    uint32_t load[PLACEMENT_MAX_PEERS] = {0};
    double total = 0, hops = 0;
    *out = (placement_figures){0};
    braid_err err = BRAID_OK;
    for (uint32_t s = 0; s < p->sessions && !err; s++) {
        if (plan->path[s].hops == 0) continue;
        out->served++;
        hops += plan->path[s].hops;
        err = measure_path(p, plan, s, load, &total, error);
    }
    if (!err) err = measure_peers(p, plan, load, &total, out, error);
    if (err || out->served == 0) return err;
    out->mean_us = total / out->served;
    out->hops = hops / out->served;
    return BRAID_OK;
}
