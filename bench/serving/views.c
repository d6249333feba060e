// Growing swarms: each view of bounded size plans its own sessions, so a peer's cost is flat.
#include "base/rng.h"
#include "bench/serving/serving.h"

#include <math.h>
#include <stdlib.h>

typedef struct place {
    double x, y, speed, memory;
} place;

static int by_x(const void *a, const void *b) {
    double x = ((const place *)a)->x, y = ((const place *)b)->x;
    return (x > y) - (x < y);
}

static int by_y(const void *a, const void *b) {
    double x = ((const place *)a)->y, y = ((const place *)b)->y;
    return (x > y) - (x < y);
}

static void make_view(const place *at, uint32_t count, rng *r, placement_problem *p) {
    *p = (placement_problem){
        .peers = count, .layers = SERVING_LAYERS, .sessions = count, .layer_bytes = 1, .cache_bytes = 1.0 / 52};
    double rows = 0;
    for (uint32_t i = 0; i < count; i++) {
        p->peer[i] = (placement_peer){1000 / at[i].speed, 300 / at[i].speed, at[i].memory, 1};
        rows += at[i].speed / 300;
        for (uint32_t j = 0; j < count; j++) {
            double dx = at[i].x - at[j].x, dy = at[i].y - at[j].y;
            p->hop_us[i][j] = i == j ? 0 : 1000 + 1000 * sqrt(dx * dx + dy * dy);
        }
        p->origin[i] = (uint8_t)rng_below(r, 2);
    }
    p->rows_per_us = 0.2 * rows / (SERVING_LAYERS * (double)count);
}

static void add_view(const placement_problem *p, uint32_t effort, uint64_t seed, placement_plan *plan,
                     placement_work *w, serving_scale *out) {
    placement_figures f;
    placement_clear(plan);
    placement_plan_best(p, effort, seed, plan, w);
    braid_error error;
    braid_err err = placement_measure(p, plan, &f, &error);
    BRAID_ASSERT(err == BRAID_OK);
    out->views++;
    out->sessions += p->sessions;
    out->served += f.served;
    out->mean_us += f.mean_us * f.served;
}

// Cuts the plane into columns of equal numbers of peers, and each column into views.
static void run_views(place *at, uint32_t peers, uint32_t effort, uint64_t seed, placement_problem *p,
                      placement_plan *plan, placement_work *w, serving_scale *out) {
    rng r = {rng_seed(seed, 1)};
    uint32_t views = (peers + SERVING_VIEW - 1) / SERVING_VIEW, columns = (uint32_t)sqrt(views);
    qsort(at, peers, sizeof *at, by_x);
    for (uint32_t c = 0; c < columns; c++) {
        uint32_t begin = (uint32_t)((uint64_t)peers * c / columns),
                 end = (uint32_t)((uint64_t)peers * (c + 1) / columns);
        qsort(at + begin, end - begin, sizeof *at, by_y);
        uint32_t rows = (end - begin + SERVING_VIEW - 1) / SERVING_VIEW;
        for (uint32_t k = 0; k < rows; k++) {
            uint32_t low = begin + (end - begin) * k / rows, high = begin + (end - begin) * (k + 1) / rows;
            make_view(at + low, high - low, &r, p);
            add_view(p, effort, rng_next(&r), plan, w, out);
        }
    }
}

braid_err serving_scale_run(uint32_t peers, uint32_t effort, uint64_t seed, serving_scale *out, braid_error *error) {
    place *at = malloc(peers * sizeof *at);
    placement_problem *p = malloc(sizeof *p);
    placement_plan *plan = malloc(sizeof *plan);
    placement_work *w = calloc(1, sizeof *w);
    *out = (serving_scale){.peers = peers};
    bool allocated = at != NULL && p != NULL && plan != NULL && w != NULL;
    if (allocated) {
        rng r = {rng_seed(seed, peers)};
        double side = 4 * sqrt(peers);
        for (uint32_t i = 0; i < peers; i++)
            at[i] = (place){rng_unit(&r) * side, rng_unit(&r) * side, pow(4, rng_unit(&r) * 2 - 1),
                            6 + (double)rng_below(&r, 19)};
        run_views(at, peers, effort, seed, p, plan, w, out);
        if (out->served > 0) out->mean_us /= out->served;
        out->steps = (double)w->steps / peers;
    }
    free(at);
    free(p);
    free(plan);
    free(w);
    return allocated ? BRAID_OK : braid_fail(error, BRAID_MEMORY, "no memory for a swarm of %u peers", peers);
}
