// Shared by the files of braid-bench t6.
#ifndef BRAID_BENCH_CLI_T6_INSIDE_H
#define BRAID_BENCH_CLI_T6_INSIDE_H

#include "bench/cli/figures.h"
#include "bench/training/t6.h"

typedef enum t6_arrangement { T6_DTFM, T6_JOINED, T6_TRADED, T6_ARRANGEMENTS } t6_arrangement;
extern const char *const t6_arrangement_names[T6_ARRANGEMENTS];

typedef enum t6_system { T6_PIPELINES, T6_SWARM, T6_GWTF, T6_BRAID, T6_OPTIMUM, T6_SYSTEMS } t6_system;
extern const char *const t6_system_names[T6_SYSTEMS];

// One system on one kind of arrangement, over all seeds.
typedef struct t6_row {
    uint32_t runs, whole, quiet, over_capacity;
    uint32_t no_slower;           // not slower than DT-FM's pipelines on DT-FM's arrangement
    figures_sample minutes;       // per microbatch
    figures_sample over_dtfm;     // `minutes` over DT-FM's
    figures_sample microbatches;  // per iteration
    figures_sample cost;          // seconds, the sum of d along a path
    figures_sample over_optimum;  // `cost` over the least for the arrangement
    figures_sample rounds, messages;
    uint64_t hash;
} t6_row;

typedef struct t6_bench {
    uint64_t seeds, first, seconds;
    bool json;
    const char *plot, *dump;
    t6_settings settings;
    routing_delay delay;
    uint32_t proven;  // proven optima, of all arrangements
    figures_sample trades;
    t6_row row[T6_ARRANGEMENTS][T6_SYSTEMS];
} t6_bench;

// The result of one seed, for the dump.
typedef struct t6_found {
    bool there;
    t6_time time;
    uint64_t messages, bytes, rounds;
    int64_t flow[T6_DATA * T6_PEERS * T6_WIDTH];
} t6_found;

// --- bench_t6_print.c
void t6_print(const t6_bench *b);
braid_err t6_plot(const t6_bench *b, braid_error *error);

// --- bench_t6_dump.c
// Instance and paths of one arrangement, in the form of routing_dump.
braid_err t6_dump_paths(const t6_bench *b, uint64_t seed, t6_arrangement arrangement, const routing_instance *instance,
                        const t6_found *found, braid_error *error);
// The network of a seed, and the duration of an iteration with each system on each arrangement: all
// that is needed to compute those times again. `found` [T6_ARRANGEMENTS][T6_SYSTEMS].
braid_err t6_dump_network(const t6_bench *b, uint64_t seed, const t6_world *world, const t6_found (*found)[T6_SYSTEMS],
                          braid_error *error);

#endif
