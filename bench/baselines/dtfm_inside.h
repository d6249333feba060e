// Shared by the files of the search; no other file includes it.
#ifndef BRAID_BENCH_BASELINES_DTFM_INSIDE_H
#define BRAID_BENCH_BASELINES_DTFM_INSIDE_H

#include "bench/baselines/dtfm.h"

enum { DTFM_MAX_PEERS = PLAN_DTFM_MAX_GROUPS * PLAN_DTFM_MAX_WIDTH };

// An arrangement by groups. Groups have no order yet, except that with `home` the first holds the
// data peers.
typedef struct dtfm_split {
    uint8_t member[PLAN_DTFM_MAX_GROUPS][PLAN_DTFM_MAX_WIDTH];
} dtfm_split;

// Scratch memory of a score, and of the subset table of orders.
typedef struct dtfm_scratch {
    int64_t between[PLAN_DTFM_MAX_GROUPS][PLAN_DTFM_MAX_GROUPS];  // least largest link
    int64_t *best;                                                // [1 << groups][groups]
} dtfm_scratch;

static inline uint32_t dtfm_peers(const plan_dtfm_problem *p) { return p->groups * p->width; }

// --- dtfm_score.c
// The least possible largest link of a matching between two groups.
int64_t dtfm_match(const plan_dtfm_problem *p, const uint8_t *a, const uint8_t *b);
// The exchange cost of the worst peer of one group.
int64_t dtfm_group_exchange(const plan_dtfm_problem *p, const uint8_t *member);
// Score, and the order of the groups when `order` is not NULL.
plan_dtfm_answer dtfm_score(const plan_dtfm_problem *p, const dtfm_split *split, dtfm_scratch *scratch, uint8_t *order);
dtfm_split dtfm_split_of(const plan_dtfm_problem *p, const uint32_t *stage);

#endif
