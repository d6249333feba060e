// Shared by the files of braid-bench views.
#ifndef BRAID_BENCH_CLI_VIEWS_INSIDE_H
#define BRAID_BENCH_CLI_VIEWS_INSIDE_H

#include "bench/cli/figures.h"
#include "bench/routing/views.h"

enum { VIEWS_SIZES = 8, VIEWS_NEAR_PERCENT = 3 };

// All swarms of one size and kind of costs.
typedef struct views_row {
    uint32_t relays;
    views_costs costs;
    uint32_t runs, quiet, whole, over_capacity, most_links, one_sided;
    uint64_t units, links, all_links;
    figures_sample views, braid,
        // best on the links / optimum over all; braid / best on the links; braid / optimum
        product;
    // the last three per peer
    figures_sample gossip_rounds, gossip_messages, gossip_kilobytes, gossip_changes;
    // until the cost is at most VIEWS_NEAR_PERCENT above the optimum
    figures_sample near_rounds, near_messages;
    figures_sample whole_messages, messages, kilobytes, last_move;
    uint64_t hash;
} views_row;

typedef struct views_bench {
    uint64_t seeds, first, sources, links, close, probes, demand, gossip_rounds;
    double loss;
    bool json;
    const char *plot;
    routing_settings routing;
    uint32_t sizes, kinds;
    uint32_t size[VIEWS_SIZES];
    views_costs kind[VIEWS_COSTS];
    views_row row[VIEWS_COSTS][VIEWS_SIZES];
    // --- the loss of one relay
    bool crash;
    views_distances distances;
} views_bench;

// --- bench_views_print.c
void views_print_head(const views_bench *b);
void views_print_row(const views_bench *b, const views_row *row);
void views_print_distances(const views_bench *b, const views_row *row);
braid_err views_plot(const views_bench *b, braid_error *error);

#endif
