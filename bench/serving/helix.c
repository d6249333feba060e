// Helix's placement and request scheduling in our own version (arXiv 2406.01566): the placement of
// greatest maximum flow, where a peer's capacity is its rate of tokens, and requests that follow the
// flow by weighted round robin. Helix solves a mixed-integer program; this is a local search from
// Petals' placement with the same objective.
#include "base/rng.h"
#include "bench/serving/serving.h"
#include "plan/min_cost.h"

#include <stdlib.h>

enum { MOST_NODES = 2 * PLACEMENT_MAX_PEERS + 2, MOST_ARCS = PLACEMENT_MAX_PEERS * (PLACEMENT_MAX_PEERS + 3) };
static const int64_t no_limit = (int64_t)1 << 40;

typedef struct helix {
    const placement_problem *p;
    plan_arc arc[MOST_ARCS];
    uint32_t arcs;
    uint32_t sent[MOST_ARCS];  // sessions on the arc
    void *memory;
} helix;

static void add_arc(helix *h, uint32_t from, uint32_t to, int64_t capacity) {
    h->arc[h->arcs++] = (plan_arc){.from = from, .to = to, .capacity = capacity};
}

// Nodes 2i and 2i + 1 are the entry and exit of peer i. Returns the maximum flow in rows per second.
static int64_t flow(helix *h, const placement_plan *plan) {
    const placement_problem *p = h->p;
    uint32_t source = 2 * p->peers, sink = source + 1;
    h->arcs = 0;
    for (uint32_t i = 0; i < p->peers; i++) {
        if (plan->begin[i] >= plan->end[i]) continue;
        double rate = 1e6 / ((plan->end[i] - plan->begin[i]) * p->peer[i].row_us + 1e-3);
        add_arc(h, 2 * i, 2 * i + 1, rate < 1e9 ? (int64_t)rate : 1000000000);
        if (plan->begin[i] == 0) add_arc(h, source, 2 * i, no_limit);
        if (plan->end[i] == p->layers) add_arc(h, 2 * i + 1, sink, no_limit);
        for (uint32_t j = 0; j < p->peers; j++) {
            if (plan->begin[j] <= plan->end[i] && plan->end[i] < plan->end[j]) add_arc(h, 2 * i + 1, 2 * j, no_limit);
        }
    }
    plan_graph g = {.nodes = sink + 1, .arcs = h->arcs, .source = source, .sink = sink, .arc = h->arc};
    plan_answer answer;
    return plan_min_cost(&g, no_limit, h->memory, &answer, NULL) == BRAID_OK ? answer.units : 0;
}

// The arc out of `node` with the most flow per session, into a peer with room.
static uint32_t next_arc(const helix *h, const placement_plan *plan, uint32_t node, uint32_t layer) {
    uint32_t best = h->arcs;
    double most = 0;
    for (uint32_t a = 0; a < h->arcs; a++) {
        const plan_arc *arc = &h->arc[a];
        double weight = (double)arc->flow / (1 + h->sent[a]);
        if (arc->from != node || weight <= most) continue;
        uint32_t i = arc->to / 2;
        if (i < h->p->peers &&
            !placement_fits(h->p, i, (uint32_t)(plan->end[i] - plan->begin[i]), plan->load[i] + plan->end[i] - layer))
            continue;
        most = weight;
        best = a;
    }
    return best;
}

static bool follow(helix *h, const placement_plan *plan, placement_path *path) {
    uint32_t node = 2 * h->p->peers, layer = 0;
    for (path->hops = 0; layer < h->p->layers && path->hops < PLACEMENT_MAX_HOPS;) {
        uint32_t a = next_arc(h, plan, node, layer);
        if (a == h->arcs) return false;
        h->sent[a]++;
        uint32_t i = h->arc[a].to / 2;
        path->visit[path->hops++] = (placement_visit){(uint8_t)i, (uint8_t)layer, plan->end[i]};
        layer = plan->end[i];
        node = 2 * i + 1;
    }
    return layer == h->p->layers;
}

static void climb(helix *h, placement_plan *plan, uint32_t effort, rng *r) {
    int64_t best = flow(h, plan);
    for (uint32_t n = 0; n < effort; n++) {
        uint32_t i = (uint32_t)rng_below(r, h->p->peers);
        double room = 0.8 * h->p->peer[i].memory_bytes / h->p->layer_bytes;
        uint32_t most = room < h->p->layers ? (uint32_t)room : h->p->layers;
        if (most == 0) continue;
        uint8_t begin = plan->begin[i], end = plan->end[i];
        uint32_t layers = 1 + (uint32_t)rng_below(r, most);
        plan->begin[i] = (uint8_t)rng_below(r, h->p->layers - layers + 1);
        plan->end[i] = (uint8_t)(plan->begin[i] + layers);
        int64_t next = flow(h, plan);
        if (next >= best)
            best = next;
        else {
            plan->begin[i] = begin;
            plan->end[i] = end;
        }
    }
}

void serving_helix(const placement_problem *p, uint32_t effort, uint64_t seed, placement_plan *plan,
                   placement_work *work) {
    helix *h = calloc(1, sizeof *h);
    if (h != NULL) h->memory = malloc(plan_min_cost_bytes(MOST_NODES, MOST_ARCS));
    BRAID_ALLOCATED(h != NULL && h->memory != NULL, sizeof *h);
    h->p = p;
    rng r = {rng_seed(seed, 4)};
    serving_petals_place(p, plan);
    climb(h, plan, effort, &r);
    flow(h, plan);
    for (uint32_t s = 0; s < p->sessions; s++) {
        placement_path path;
        if (follow(h, plan, &path) || placement_route(p, plan, s, PLACEMENT_ALONE, false, work, &path))
            placement_add(plan, s, &path);
    }
    free(h->memory);
    free(h);
}
