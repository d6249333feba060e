// The routing problem as a planner sees it: data peer -> relay stage 1 -> ... -> relay stage S -> the same data peer.
#ifndef BRAID_PLAN_PROBLEM_H
#define BRAID_PLAN_PROBLEM_H

#include "plan/min_cost.h"

// A data peer has stage 0 and wants to send `capacity` units; a relay of stage 1 .. S carries at most `capacity`.
typedef struct plan_peer {
    uint32_t stage, capacity;
} plan_peer;

// From a peer to one of the next stage; the last stage's links lead to data peers.
typedef struct plan_link {
    uint32_t from, to;
    int64_t cost;  // of one unit
} plan_link;

// Both arrays are borrowed.
typedef struct plan_problem {
    const plan_peer *peer;
    const plan_link *link;
    uint32_t peers, links, stages;  // stages of relays
} plan_problem;

// Whether every link joins two neighbouring stages and every cost is within plan_min_cost's limits.
braid_err plan_check(const plan_problem *p, braid_error *error);

size_t plan_relaxed_bytes(const plan_problem *p);

// The cheapest way to send as many units as fit, at most `limit`, when a unit may come home to any data peer:
// with one data peer the optimum, with several a lower bound of it. flow[l]: units on link l. `memory` is scratch of
// plan_relaxed_bytes, aligned for int64_t.
braid_err plan_relaxed(const plan_problem *p, int64_t limit, void *memory, int64_t *flow, plan_answer *answer,
                       braid_error *error);

// The load of a link is units * cost. As many units as plan_relaxed sends, so that the heaviest link's load, `*worst`, is as small
// as it can be, and among all such flows the cheapest. A flow in which no load is above t exists exactly when one exists with
// room for t / cost whole units on each link, and if it exists for t, then for all above: t is found by halving, so this is
// exact for one data peer, and with several a lower bound. Otherwise as plan_relaxed.
braid_err plan_worst(const plan_problem *p, int64_t limit, void *memory, int64_t *flow, int64_t *worst,
                     plan_answer *answer, braid_error *error);

// Takes one unit off `flow` that leaves `source`: path[0] is the source, path[stages + 1] the data peer it ends at.
// Returns the number of peers written, stages + 2; 0: no unit leaves the source; fewer: the flow breaks off there.
uint32_t plan_take_path(const plan_problem *p, uint32_t source, int64_t *flow, uint32_t *path);

#endif
