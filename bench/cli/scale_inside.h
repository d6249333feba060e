// Shared by the files of braid-bench scale.
#ifndef BRAID_BENCH_CLI_SCALE_INSIDE_H
#define BRAID_BENCH_CLI_SCALE_INSIDE_H

#include "bench/cli/experiments.h"
#include "bench/cli/figures.h"
#include "bench/routing/routing.h"

enum { SCALE_SIZES = 12 };

// One system in all swarms of one size.
typedef struct scale_row {
    uint32_t peers, runs, quiet, over_capacity;
    uint64_t links, units;
    figures_sample whole_rounds, near_rounds, last_move, ratio;
    figures_sample whole_messages, near_messages, messages, labels, frames, kilobytes;  // per peer
    figures_sample router_kib, run_kib;                                                 // per peer
    uint64_t events, hash;
    double seconds, setup_seconds, optimum_seconds;
} scale_row;

typedef struct scale_bench {
    uint64_t seeds, first, neighbours, demand;
    bool json, timing, system[BENCH_SYSTEMS];
    routing_settings settings;
    const char *plot, *dump;
    uint32_t sizes;
    scale_row row[SCALE_SIZES][BENCH_SYSTEMS];
} scale_bench;

// --- bench_scale_print.c
void scale_print_head(const scale_bench *b);
void scale_print_rows(const scale_bench *b, const scale_row row[BENCH_SYSTEMS]);
braid_err scale_plot(const scale_bench *b, braid_error *error);

#endif
