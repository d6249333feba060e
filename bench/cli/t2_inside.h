// Shared by the files of braid-bench t2 and t3.
#ifndef BRAID_BENCH_CLI_T2_INSIDE_H
#define BRAID_BENCH_CLI_T2_INSIDE_H

#include "bench/cli/figures.h"
#include "cli/options.h"
#include "bench/training/t2.h"

enum { T2_CHURNS = 3, T2_CELLS = 2 * T2_CHURNS };

extern const char *const t2_cell_names[T2_CELLS];  // hom0 .. het20
extern const char *const t2_system_names[T2_SYSTEMS];

extern const char *const t2_placement_names[T2_PLACEMENTS];

// One system in one cell, over all repetitions. A sample is an iteration.
typedef struct t2_row {
    uint32_t runs;
    figures_sample minutes;       // per microbatch
    figures_sample microbatches;  // per iteration
    figures_sample transfers;     // minutes of activations and gradients on lines, per microbatch
    // minutes of compute that did not count or was repeated, per iteration
    figures_sample wasted;
    figures_sample repairs, crashes;
    double needed_s, wasted_s;        // compute of all iterations
    // part of `wasted` that relays lost by dying: work already added, and not yet added
    double lost_counted_s, lost_held_s;
    // time of all iterations, and the oracle's for as many microbatches
    double iterations_s, oracle_s;
    double fewer_s, ways_s, exchange_s;  // the difference between the two, by cause (t2_account)
    // an oracle that foresees deaths and arrivals; and one that also loses no sums
    double foresight_s, kept_s;
    // the same for an oracle that learns of them when they happen
    double at_once_s, at_once_kept_s;
    double placed_s, best_s;  // planned iterations: as placed, and with relays in their best stages
    uint64_t hash;
} t2_row;

typedef struct t2_bench {
    const char *verb;  // "bench t2"
    t2_model model;
    uint64_t repetitions, first, iterations;
    bool json, account, best_stages;
    const char *plot, *dump;
    option_list cells;
    const char *systems;
    bool system[T2_SYSTEMS];
    const char *links_name;
    tensor_codec links;
    const char *placement_name;
    t2_placement placement;  // of braid
    bool wanted[T2_CELLS];
    t2_row row[T2_CELLS][T2_SYSTEMS];
} t2_bench;

// --- bench_t2_print.c
void t2_print(const t2_bench *b);
braid_err t2_plot(const t2_bench *b, braid_error *error);

#endif
