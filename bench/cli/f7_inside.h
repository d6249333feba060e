// Shared by the files of braid-bench f7.
#ifndef BRAID_BENCH_CLI_F7_INSIDE_H
#define BRAID_BENCH_CLI_F7_INSIDE_H

#include "bench/cli/experiments.h"
#include "bench/cli/figures.h"
#include "bench/routing/routing.h"

// One system under one kind of delay on all instances of one test.
typedef struct f7_row {
    uint32_t runs, whole, optimal, quiet, below, over_capacity, untidy;
    // Cost over the optimum at the end, and at round ROUTING_EARLY if all units had a path.
    figures_sample end, early;
    // ROUTER_BOTTLENECK: cost over that of the cheapest flow with the least bottleneck
    figures_sample sum;
    figures_sample until_whole, last_move;                       // rounds
    figures_sample messages, early_messages, frames, kilobytes;  // per peer
    uint64_t events, hash;
} f7_row;

// Known values of a test's instances; sums over seeds.
typedef struct f7_test {
    double units, least;  // `least`: the optimum's cost a unit or heaviest load
    uint32_t proven;
    figures_sample relaxed;  // relaxed bound over optimum
} f7_test;

typedef struct f7_bench {
    uint64_t seeds, first, seconds, listing;
    bool test[ROUTING_TESTS], delay[ROUTING_DELAYS], system[BENCH_SYSTEMS], json;
    routing_demand demand;
    routing_settings settings;  // its objective also judges all systems
    const char *plot, *dump;
    f7_test about[ROUTING_TESTS];
    f7_row row[ROUTING_TESTS][ROUTING_DELAYS][BENCH_SYSTEMS];
} f7_bench;

// --- bench_f7_print.c
void f7_print(const f7_bench *b, uint32_t test);
braid_err f7_plot(const f7_bench *b, braid_error *error);

#endif
