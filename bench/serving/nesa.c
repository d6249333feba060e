// Nesa's choice of nodes: eq. 18 of arXiv 2407.19401, with parameters from a genetic algorithm (eq. 19,
// 20). Node A_i is the one of least
//     sum over j < i of (D / B + L)^gamma + (G / C)^beta + (1 / (R + 1))^alpha.
// As printed, G is the free capacity, C the load and R = 1 - uptime, so loaded and unreliable nodes are
// preferred; `fixed` takes C / G, R = uptime, and the mean time of a token as the fitness.
//
// The paper leaves open: the blocks of a node (here: as many as fit in four fifths of its memory, the
// next ones of its chain), units (milliseconds, layers of free memory, utilisation), G / C without load
// (a utilisation of 1 % at least), population 16, 12 generations, parameters in (0, 3], mutation 10 %.
#include "base/rng.h"
#include "bench/serving/serving.h"

#include <math.h>
#include <string.h>

enum { POPULATION = 16, GENERATIONS = 12, PARAMETERS = 3 };

typedef struct candidate {
    double value[PARAMETERS], cost;  // gamma, beta, alpha
} candidate;

typedef struct nesa {
    const placement_problem *p;
    placement_plan *plan;
    bool fixed;
    const candidate *c;
    double sum;  // eq. 19
} nesa;

static double score(const nesa *n, uint32_t a, const placement_path *path, uint32_t origin) {
    const placement_problem *p = n->p;
    double sum = path->hops == 0 ? pow(p->hop_us[origin][a] / 1000, n->c->value[0]) : 0;
    for (uint32_t j = 0; j < path->hops; j++) sum += pow(p->hop_us[path->visit[j].peer][a] / 1000, n->c->value[0]);
    double busy = n->plan->load[a] * p->peer[a].row_us * p->rows_per_us;
    double held = n->plan->end[a] - n->plan->begin[a];
    double g = p->peer[a].memory_bytes / p->layer_bytes - held - n->plan->load[a] * p->cache_bytes / p->layer_bytes;
    double c = busy > 0.01 ? busy : 0.01;
    if (g < 0.01) g = 0.01;
    double r = n->fixed ? p->peer[a].uptime : 1 - p->peer[a].uptime;
    return sum + pow(n->fixed ? c / g : g / c, n->c->value[1]) + pow(1 / (r + 1), n->c->value[2]);
}

static bool visited(const placement_path *path, uint32_t a) {
    for (uint32_t h = 0; h < path->hops; h++) {
        if (path->visit[h].peer == a) return true;
    }
    return false;
}

// Layers that peer a would run from `layer` on; 0: none.
static uint32_t reach(const nesa *n, uint32_t a, uint32_t layer, bool place) {
    const placement_plan *plan = n->plan;
    if (!place) {
        if (layer < plan->begin[a] || layer >= plan->end[a]) return 0;
        uint32_t layers = plan->end[a] - layer, held = (uint32_t)(plan->end[a] - plan->begin[a]);
        return placement_fits(n->p, a, held, plan->load[a] + layers) ? layers : 0;
    }
    if (plan->end[a] > plan->begin[a]) return 0;
    uint32_t layers = (uint32_t)(0.8 * n->p->peer[a].memory_bytes / n->p->layer_bytes);
    return layers < n->p->layers - layer ? layers : n->p->layers - layer;
}

// A chain of nodes from the first layer on. False: no node is left for some layer.
static bool chain(nesa *n, uint32_t origin, bool place, placement_path *path) {
    path->hops = 0;
    for (uint32_t layer = 0; layer < n->p->layers;) {
        uint32_t best = PLACEMENT_MAX_PEERS, layers = 0;
        double least = INFINITY;
        for (uint32_t a = 0; a < n->p->peers; a++) {
            uint32_t run = visited(path, a) ? 0 : reach(n, a, layer, place);
            double value = run > 0 ? score(n, a, path, origin) : INFINITY;
            if (value >= least) continue;
            least = value;
            best = a;
            layers = run;
        }
        if (best == PLACEMENT_MAX_PEERS || path->hops == PLACEMENT_MAX_HOPS) return false;
        n->sum += least;
        path->visit[path->hops++] = (placement_visit){(uint8_t)best, (uint8_t)layer, (uint8_t)(layer + layers)};
        layer += layers;
    }
    return true;
}

// Chains until no node is left; then each session takes a chain over the nodes that hold its layers.
static void run(nesa *n) {
    placement_clear(n->plan);
    placement_path path;
    bool more = true;
    for (uint32_t k = 0; more && k < n->p->peers && n->p->sessions > 0; k++) {
        more = chain(n, n->p->origin[0], true, &path);
        placement_hold(n->plan, &path);
    }
    for (uint32_t s = 0; s < n->p->sessions; s++) {
        if (chain(n, n->p->origin[s], false, &path)) placement_add(n->plan, s, &path);
    }
}

static void evaluate(nesa *n, candidate *c) {
    placement_figures f;
    n->c = c;
    n->sum = 0;
    run(n);
    c->cost = n->sum;
    if (!n->fixed) return;
    bool valid = placement_measure(n->p, n->plan, &f, NULL) == BRAID_OK;
    c->cost = valid ? f.mean_us + 1e6 * (n->p->sessions - f.served) : 1e12;
}

// Roulette wheel: the probability is proportional to 1 / cost.
static const candidate *spin(const candidate *c, rng *r) {
    double total = 0;
    for (uint32_t k = 0; k < POPULATION; k++) total += 1 / c[k].cost;
    double at = rng_unit(r) * total;
    for (uint32_t k = 0; k < POPULATION; k++) {
        at -= 1 / c[k].cost;
        if (at <= 0) return &c[k];
    }
    return &c[POPULATION - 1];
}

static candidate child(const candidate *c, rng *r) {
    const candidate *a = spin(c, r), *b = spin(c, r);
    candidate next = {.cost = 0};
    double eta = rng_unit(r);
    for (uint32_t k = 0; k < PARAMETERS; k++) {
        next.value[k] = eta * a->value[k] + (1 - eta) * b->value[k];
        if (rng_below(r, 10) == 0) next.value[k] = 3 * (1 - rng_unit(r));
    }
    return next;
}

void serving_nesa(const placement_problem *p, bool fixed, uint64_t seed, placement_plan *plan, placement_work *work) {
    (void)work;
    rng r = {rng_seed(seed, 18)};
    candidate now[POPULATION], next[POPULATION], best = {.cost = INFINITY};
    nesa n = {.p = p, .plan = plan, .fixed = fixed};
    for (uint32_t k = 0; k < POPULATION; k++)
        for (uint32_t v = 0; v < PARAMETERS; v++) now[k].value[v] = 3 * (1 - rng_unit(&r));
    for (uint32_t g = 0; g < GENERATIONS; g++) {
        for (uint32_t k = 0; k < POPULATION; k++) {
            evaluate(&n, &now[k]);
            if (now[k].cost < best.cost) best = now[k];
        }
        for (uint32_t k = 0; k < POPULATION; k++) next[k] = child(now, &r);
        memcpy(now, next, sizeof now);
    }
    evaluate(&n, &best);
}
