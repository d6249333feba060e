#include "plan/min_cost.h"

#include <inttypes.h>
#include <stdbool.h>

// Residual arc 2a follows arc a, residual arc 2a + 1 reverses it.
typedef struct search {
    plan_graph *g;
    int64_t *distance;   // distance from the source in reduced costs; FAR: not reached
    int64_t *potential;  // node potentials: the reduced cost of every residual arc is at least 0
    uint32_t *first;     // first[v] .. first[v + 1]: the residual arcs out of v, in `list`
    uint32_t *list;
    uint32_t *via;    // the residual arc by which the search reached a node
    uint32_t *heap;   // nodes ordered by distance
    uint32_t *place;  // position of a node in the heap; NOWHERE, DONE
    uint32_t waiting;
} search;

#define FAR     INT64_MAX
#define NOWHERE UINT32_MAX
#define DONE    (UINT32_MAX - 1)

size_t plan_min_cost_bytes(uint32_t nodes, uint32_t arcs) {
    return (size_t)nodes * (2 * sizeof(int64_t) + 4 * sizeof(uint32_t)) + (size_t)arcs * 2 * sizeof(uint32_t) +
           sizeof(uint32_t);
}

static uint32_t residual_from(const search *s, uint32_t r) {
    const plan_arc *a = &s->g->arc[r / 2];
    return r % 2 == 0 ? a->from : a->to;
}

static uint32_t residual_to(const search *s, uint32_t r) { return residual_from(s, r ^ 1u); }

static int64_t residual_room(const search *s, uint32_t r) {
    const plan_arc *a = &s->g->arc[r / 2];
    return r % 2 == 0 ? a->capacity - a->flow : a->flow;
}

static int64_t residual_cost(const search *s, uint32_t r) {
    const plan_arc *a = &s->g->arc[r / 2];
    int64_t cost = r % 2 == 0 ? a->cost : -a->cost;
    return cost + s->potential[residual_from(s, r)] - s->potential[residual_to(s, r)];
}

// Equal distances are ordered by node number, so that the result is deterministic.
static bool heap_before(const search *s, uint32_t a, uint32_t b) {
    if (s->distance[a] != s->distance[b]) return s->distance[a] < s->distance[b];
    return a < b;
}

static void heap_put(search *s, uint32_t at, uint32_t node) {
    s->heap[at] = node;
    s->place[node] = at;
}

static void heap_up(search *s, uint32_t node) {
    uint32_t at = s->place[node];
    while (at > 0 && heap_before(s, node, s->heap[(at - 1) / 2])) {
        heap_put(s, at, s->heap[(at - 1) / 2]);
        at = (at - 1) / 2;
    }
    heap_put(s, at, node);
}

static uint32_t heap_take(search *s) {
    uint32_t least = s->heap[0], node = s->heap[--s->waiting], at = 0;
    s->place[least] = DONE;
    if (s->waiting == 0) return least;
    for (;;) {
        uint32_t child = 2 * at + 1;
        if (child >= s->waiting) break;
        if (child + 1 < s->waiting && heap_before(s, s->heap[child + 1], s->heap[child])) child++;
        if (!heap_before(s, s->heap[child], node)) break;
        heap_put(s, at, s->heap[child]);
        at = child;
    }
    heap_put(s, at, node);
    return least;
}

static void reach(search *s, uint32_t node, int64_t distance, uint32_t via) {
    if (s->place[node] == DONE || distance >= s->distance[node]) return;
    s->distance[node] = distance;
    s->via[node] = via;
    if (s->place[node] == NOWHERE) s->place[node] = s->waiting++;
    heap_up(s, node);
}

// Dijkstra's algorithm until the sink is settled; false when the sink is unreachable.
static bool find_path(search *s) {
    const plan_graph *g = s->g;
    for (uint32_t v = 0; v < g->nodes; v++) {
        s->distance[v] = FAR;
        s->place[v] = NOWHERE;
    }
    s->waiting = 0;
    reach(s, g->source, 0, 0);
    while (s->waiting > 0) {
        uint32_t v = heap_take(s);
        if (v == g->sink) break;
        for (uint32_t i = s->first[v]; i < s->first[v + 1]; i++) {
            uint32_t r = s->list[i];
            if (residual_room(s, r) > 0) reach(s, residual_to(s, r), s->distance[v] + residual_cost(s, r), r);
        }
    }
    if (s->place[g->sink] != DONE) return false;
    int64_t least = s->distance[g->sink];
    for (uint32_t v = 0; v < g->nodes; v++)
        s->potential[v] += s->place[v] == DONE && s->distance[v] < least ? s->distance[v] : least;
    return true;
}

static void augment(search *s, int64_t most, plan_answer *answer) {
    const plan_graph *g = s->g;
    for (uint32_t v = g->sink; v != g->source; v = residual_from(s, s->via[v])) {
        int64_t room = residual_room(s, s->via[v]);
        if (room < most) most = room;
    }
    for (uint32_t v = g->sink; v != g->source; v = residual_from(s, s->via[v])) {
        plan_arc *a = &g->arc[s->via[v] / 2];
        int64_t sign = s->via[v] % 2 == 0 ? 1 : -1;
        a->flow += sign * most;
        answer->cost += sign * most * a->cost;
    }
    answer->units += most;
}

static braid_err check(plan_graph *g, braid_error *error) {
    if (g->nodes > PLAN_MAX_NODES || g->arcs > PLAN_MAX_ARCS)
        return braid_fail(error, BRAID_LIMIT, "a graph of %u nodes and %u arcs; at most %d and %d are planned",
                          g->nodes, g->arcs, PLAN_MAX_NODES, PLAN_MAX_ARCS);
    if (g->source >= g->nodes || g->sink >= g->nodes || g->source == g->sink)
        return braid_fail(error, BRAID_ARGUMENT, "source %u and sink %u must be two of the %u nodes", g->source,
                          g->sink, g->nodes);
    for (uint32_t i = 0; i < g->arcs; i++) {
        plan_arc *a = &g->arc[i];
        a->flow = 0;
        if (a->from < g->nodes && a->to < g->nodes && a->capacity >= 0 && a->cost >= 0 && a->cost <= PLAN_MAX_COST)
            continue;
        return braid_fail(error, BRAID_ARGUMENT,
                          "arc %u (%u to %u, capacity %" PRId64 ", cost %" PRId64
                          ") needs nodes below %u, a capacity of 0 or more and a cost from 0 to %" PRId64,
                          i, a->from, a->to, a->capacity, a->cost, g->nodes, PLAN_MAX_COST);
    }
    return BRAID_OK;
}

static void open_search(search *s, plan_graph *g, void *memory) {
    uint32_t nodes = g->nodes, arcs = g->arcs;
    s->g = g;
    s->distance = memory;
    s->potential = s->distance + nodes;
    s->first = (uint32_t *)(s->potential + nodes);
    s->list = s->first + nodes + 1;
    s->via = s->list + (size_t)arcs * 2;
    s->heap = s->via + nodes;
    s->place = s->heap + nodes;
    for (uint32_t v = 0; v < nodes; v++) s->potential[v] = 0;
    for (uint32_t v = 0; v <= nodes; v++) s->first[v] = 0;
    for (uint32_t r = 0; r < 2 * arcs; r++) s->first[residual_from(s, r)]++;
    for (uint32_t v = 1; v <= nodes; v++) s->first[v] += s->first[v - 1];
    for (uint32_t r = 2 * arcs; r-- > 0;) s->list[--s->first[residual_from(s, r)]] = r;
}

braid_err plan_min_cost(plan_graph *g, int64_t limit, void *memory, plan_answer *answer, braid_error *error) {
    *answer = (plan_answer){0};
    braid_err err = check(g, error);
    if (err) return err;
    search s;
    open_search(&s, g, memory);
    while (answer->units < limit && find_path(&s)) augment(&s, limit - answer->units, answer);
    return BRAID_OK;
}

const int64_t *plan_min_cost_potential(const plan_graph *g, const void *memory) {
    return (const int64_t *)memory + g->nodes;  // the layout of open_search
}
