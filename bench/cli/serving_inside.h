// Shared by the files of braid-bench serving.
#ifndef BRAID_BENCH_CLI_SERVING_INSIDE_H
#define BRAID_BENCH_CLI_SERVING_INSIDE_H

#include "bench/cli/figures.h"
#include "bench/serving/serving.h"

enum { SERVING_SHOWN = 3 };  // nesa, petals and braid in Table 2

typedef struct serving_bench {
    uint64_t seeds, first, effort, seconds, peers, layers;
    bool json, details;
} serving_bench;

// `mean_ms`, `hops` and `ratio`: of swarms where every session is served.
typedef struct serving_row {
    uint32_t sessions, served, whole, near;
    figures_sample mean_ms, hops, ratio;
} serving_row;

typedef struct serving_rows {
    serving_row row[SERVING_SYSTEMS];
    uint32_t programs, proven;
    figures_sample optimal;  // ratio of braid to each proven optimum
} serving_rows;

void serving_print_swarm(uint64_t seed, const placement_problem *p, const placement_figures *f, double reference);
void serving_print_routing(const serving_bench *b, const serving_rows *rows);
void serving_print_cases_head(const serving_bench *b);
// figures and plans of the shown systems
void serving_print_case(const serving_bench *b, const serving_n2 *c, const placement_figures *f,
                        const placement_plan *plan);
void serving_print_scale_head(const serving_bench *b);
void serving_print_scale(const serving_bench *b, uint64_t seed, const serving_scale *s);

#endif
