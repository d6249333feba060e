// Random serving swarms.
#include "base/rng.h"
#include "bench/serving/serving.h"

#include <math.h>

enum { MOST_SITES = 4, MOST_ORIGINS = 8 };

const char *serving_system_name(serving_system system) {
    static const char *const name[] = {"nesa", "nesa-fixed", "petals", "helix", "braid"};
    return name[system];
}

static void make_hops(placement_problem *p, rng *r) {
    double x[PLACEMENT_MAX_PEERS], y[PLACEMENT_MAX_PEERS], site_x[MOST_SITES], site_y[MOST_SITES];
    uint32_t sites = 2 + (uint32_t)rng_below(r, MOST_SITES - 1);
    for (uint32_t k = 0; k < sites; k++) {
        site_x[k] = rng_unit(r) * 60;
        site_y[k] = rng_unit(r) * 60;
    }
    for (uint32_t i = 0; i < p->peers; i++) {
        uint32_t k = (uint32_t)rng_below(r, sites);
        x[i] = site_x[k] + rng_unit(r) * 6;
        y[i] = site_y[k] + rng_unit(r) * 6;
    }
    for (uint32_t i = 0; i < p->peers; i++)
        for (uint32_t j = 0; j < p->peers; j++) {
            double dx = x[i] - x[j], dy = y[i] - y[j];
            p->hop_us[i][j] = i == j ? 0 : 1000 + 1000 * sqrt(dx * dx + dy * dy);
        }
}

static void make_peers(placement_problem *p, rng *r) {
    double rows = 0;
    for (uint32_t i = 0; i < p->peers; i++) {
        double speed = pow(4, rng_unit(r) * 2 - 1);
        p->peer[i] = (placement_peer){.layer_us = 1000 / speed,
                                      .row_us = 300 / speed,
                                      .memory_bytes = (6 + (double)rng_below(r, 19)) * p->layers / SERVING_LAYERS,
                                      .uptime = 0.8 + 0.2 * rng_unit(r)};
        rows += 1 / p->peer[i].row_us;
    }
    p->rows_per_us = (0.05 + 0.3 * rng_unit(r)) * rows / (p->layers * (double)p->sessions);
}

void serving_make(uint64_t seed, uint32_t peers, uint32_t layers, placement_problem *p) {
    rng r = {rng_seed(seed, 34)};
    uint32_t random = SERVING_LEAST_PEERS + (uint32_t)rng_below(&r, SERVING_MOST_PEERS - SERVING_LEAST_PEERS + 1);
    *p = (placement_problem){
        .peers = peers > 0 ? peers : random, .layers = layers, .layer_bytes = 1, .cache_bytes = 1.0 / 52};
    p->sessions = p->peers;
    make_hops(p, &r);
    make_peers(p, &r);
    uint8_t origin[MOST_ORIGINS];
    uint32_t origins = 1 + p->peers / 20;
    for (uint32_t k = 0; k < origins; k++) origin[k] = (uint8_t)rng_below(&r, p->peers);
    for (uint32_t s = 0; s < p->sessions; s++) p->origin[s] = origin[rng_below(&r, origins)];
}

void serving_plan(serving_system system, const placement_problem *p, uint32_t effort, uint64_t seed,
                  placement_plan *plan, placement_work *work) {
    placement_clear(plan);
    switch (system) {
    case SERVING_NESA:
    case SERVING_NESA_FIXED: serving_nesa(p, system == SERVING_NESA_FIXED, seed, plan, work); break;
    case SERVING_PETALS: serving_petals(p, plan, work); break;
    case SERVING_HELIX: serving_helix(p, effort / 10, seed, plan, work); break;
    case SERVING_BRAID:
    case SERVING_SYSTEMS: placement_plan_best(p, effort, seed, plan, work); break;
    }
}
