// Exact minimum-cost flow with integers and no tolerance. Benchmarks and tests compare routers with
// this optimum, which needs a global view.
#ifndef BRAID_PLAN_MIN_COST_H
#define BRAID_PLAN_MIN_COST_H

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

// Together these keep the sum of costs along every path within 64 bits.
enum { PLAN_MAX_NODES = 1 << 22, PLAN_MAX_ARCS = 1 << 27 };
#define PLAN_MAX_COST ((int64_t)1 << 38)

typedef struct plan_arc {
    uint32_t from, to;
    int64_t capacity, cost;  // at least 0; cost at most PLAN_MAX_COST
    int64_t flow;            // result of plan_min_cost
} plan_arc;

typedef struct plan_graph {
    uint32_t nodes, arcs, source, sink;
    plan_arc *arc;  // the caller's
} plan_graph;

typedef struct plan_answer {
    int64_t units, cost;
} plan_answer;

// Size of the scratch memory that plan_min_cost needs for a graph of this size.
size_t plan_min_cost_bytes(uint32_t nodes, uint32_t arcs);

// Sends as many units as possible from source to sink, at most `limit`, and among all such flows
// takes one of least cost. `memory` is scratch of plan_min_cost_bytes, aligned for int64_t.
// Successive shortest paths with potentials (Edmonds and Karp 1972): each augmentation follows a
// cheapest residual path, so every prefix is a cheapest flow too. BRAID_ARGUMENT: a negative cost
// or capacity, or an unknown node. BRAID_LIMIT: above the maxima.
braid_err plan_min_cost(plan_graph *g, int64_t limit, void *memory, plan_answer *answer, braid_error *error);

// The node potentials of the last successful plan_min_cost, while `memory` is kept. On every
// residual arc, cost + potential of `from` - potential of `to` is at least 0. A missing arc would
// have lowered the cost only if that sum is negative for it.
const int64_t *plan_min_cost_potential(const plan_graph *g, const void *memory);

#endif
