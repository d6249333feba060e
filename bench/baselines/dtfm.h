// DT-FM's arrangement (Yuan et al., "Decentralized training of foundation models in heterogeneous
// environments", NeurIPS 2022): the assignment of peers to the stages of a static pipeline, found
// by a genetic search with global knowledge. A baseline for routing, for benchmarks and tests.
//
// Peers are split into groups of equal size, one group per stage. The cost of a split:
// - data parallel: the worst peer's sum of `exchange` to the others of its group;
// - pipeline: between two groups, the matching with the least largest link; over all groups, the
// order with the least sum of these (an open travelling salesman's path, exact by dynamic
// programming over subsets);
// - score = data parallel + 2 * pipeline (forward and backward).
#ifndef BRAID_BENCH_BASELINES_DTFM_H
#define BRAID_BENCH_BASELINES_DTFM_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    PLAN_DTFM_MAX_GROUPS = 12,
    PLAN_DTFM_MAX_WIDTH = 6,  // peers in a group
    PLAN_DTFM_MAX_POPULATION = 10000,
    PLAN_DTFM_POPULATION = 100,  // the public scheduler's value
    PLAN_DTFM_TRIALS = 4900,
};
#define PLAN_DTFM_MAX_COST ((int64_t)1 << 50)

// Both tables are borrowed, [peers][peers], 0 or more; only entries of different peers are used.
typedef struct plan_dtfm_problem {
    uint32_t groups, width;   // groups * width peers
    // one microbatch from a peer to one of the next stage, the same in both directions
    const int64_t *link;
    const int64_t *exchange;  // weights between two peers of one group; NULL: free of cost
    // The first `width` peers are data peers: always the first group, to which the pipeline returns
    // (a closed tour through all groups). Otherwise any group may be first, and the path is open.
    bool home;
} plan_dtfm_problem;

typedef struct plan_dtfm_settings {
    uint32_t population, trials;  // 0: the public scheduler's
    uint64_t seed;
} plan_dtfm_settings;

typedef struct plan_dtfm_answer {
    int64_t data_parallel, pipeline, score;
} plan_dtfm_answer;

// Bytes of scratch memory for a search; 0 when the problem or the settings are out of bounds.
size_t plan_dtfm_bytes(const plan_dtfm_problem *p, const plan_dtfm_settings *settings);

// stage[i]: peer i's group in the best order found, 0 .. groups - 1. `memory` is scratch of
// plan_dtfm_bytes, aligned for int64_t. The same seed gives the same answer. BRAID_LIMIT: out of
// bounds. BRAID_ARGUMENT: a negative cost, or one above PLAN_DTFM_MAX_COST.
braid_err plan_dtfm(const plan_dtfm_problem *p, const plan_dtfm_settings *settings, void *memory, uint32_t *stage,
                    plan_dtfm_answer *answer, braid_error *error);

// The cost of an arrangement with the stages in this order. `stage` must name each group `width`
// times.
plan_dtfm_answer plan_dtfm_cost(const plan_dtfm_problem *p, const uint32_t *stage);

size_t plan_dtfm_paths_bytes(const plan_dtfm_problem *p);

// The pipelines of an arrangement, one for each peer of the first group. path[k][s] is the peer of
// stage s in pipeline k; with `home` every pipeline ends at its first peer. Exact: the least sum
// over the stages of the largest link, and among those the least sum of links. Returns the first of
// the two.
int64_t plan_dtfm_paths(const plan_dtfm_problem *p, const uint32_t *stage, void *memory, uint32_t *path);

#endif
