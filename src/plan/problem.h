// The routing problem of the planners: data peer -> relay stage 1 -> ... -> relay stage S -> the
// same data peer.
#ifndef BRAID_PLAN_PROBLEM_H
#define BRAID_PLAN_PROBLEM_H

#include "plan/min_cost.h"

// A data peer has stage 0 and wants to send `capacity` units; a relay of stage 1 .. S carries at
// most `capacity`.
typedef struct plan_peer {
    uint32_t stage, capacity;
} plan_peer;

// A link from a peer to a peer of the next stage; links of the last stage lead to data peers.
typedef struct plan_link {
    uint32_t from, to;
    int64_t cost;  // per unit
} plan_link;

// Both arrays are borrowed.
typedef struct plan_problem {
    const plan_peer *peer;
    const plan_link *link;
    uint32_t peers, links, stages;  // `stages`: of relays only
} plan_problem;

// True if every link joins two neighbouring stages and every cost is within the limits of
// plan_min_cost.
braid_err plan_check(const plan_problem *p, braid_error *error);

size_t plan_relaxed_bytes(const plan_problem *p);

// The cheapest way to send as many units as fit, at most `limit`, when a unit may return to any
// data peer. That is the optimum for one data peer and a lower bound for several. flow[l]: units on
// link l. `memory` is scratch of plan_relaxed_bytes, aligned for int64_t.
braid_err plan_relaxed(const plan_problem *p, int64_t limit, void *memory, int64_t *flow, plan_answer *answer,
                       braid_error *error);

// The bottleneck optimum: as many units as plan_relaxed sends, with the smallest possible load
// `*worst` of the heaviest link, and among those flows a cheapest one. The load of a link is units
// * cost. A flow with all loads at most t exists exactly when a flow exists with t / cost whole
// units of room on each link; feasibility is monotonic in t, so bisection finds the smallest t.
// That is exact for one data peer and a lower bound for several. Otherwise as plan_relaxed.
braid_err plan_worst(const plan_problem *p, int64_t limit, void *memory, int64_t *flow, int64_t *worst,
                     plan_answer *answer, braid_error *error);

// Removes one unit that leaves `source` from `flow`. path[0] is the source, path[stages + 1] the
// data peer where it ends. Returns the number of peers written, stages + 2; 0: no unit leaves the
// source; fewer: the flow is broken there.
uint32_t plan_take_path(const plan_problem *p, uint32_t source, int64_t *flow, uint32_t *path);

#endif
