// Optima of routing instances: exact with one data peer; with several, an integer program for GLPK.
#ifndef BRAID_BENCH_OPTIMUM_OPTIMUM_H
#define BRAID_BENCH_OPTIMUM_OPTIMUM_H

#include "bench/routing/routing.h"

typedef struct routing_optimum {
    int64_t units;
    // a lower bound: the relaxed cost (a unit may end at any data peer), or the linear program's
    double bound;
    int64_t relaxed;  // cost when a unit may end at any data peer
    int64_t cost;     // cost of the best integer flow known; the optimum when `proven`
    bool proven;
    int64_t sum;    // sum of costs of the flow of `relaxed`: ROUTER_BOTTLENECK takes the cheapest
    int64_t *flow;  // [sources][links] of that flow, owned; NULL when there is none
} routing_optimum;

// One data peer: exact. Several: an integer program, at most `seconds` of GLPK; without GLPK only
// the bound.
braid_err routing_optimum_find(const routing_instance *instance, uint32_t seconds, routing_optimum *out,
                               braid_error *error);
// The same for ROUTER_BOTTLENECK: `bound`, `relaxed` and `cost` are loads of the heaviest link.
// Several data peers: integer programs with rising limits of the load, each at most `seconds`.
braid_err routing_optimum_worst(const routing_instance *instance, uint32_t seconds, routing_optimum *out,
                                braid_error *error);
void routing_optimum_close(routing_optimum *optimum);

#endif
