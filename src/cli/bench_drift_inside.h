// What the files of braid bench drift share.
#ifndef BRAID_CLI_BENCH_DRIFT_INSIDE_H
#define BRAID_CLI_BENCH_DRIFT_INSIDE_H

#include "sim/routing_drift.h"

enum { DRIFT_TESTS = 4 };  // F7's tests with one data peer

// Sums over the runs of one test and one way of telling costs.
typedef struct drift_row {
    uint32_t runs, over_capacity;
    double mean[ROUTING_FOLLOWERS], worst[ROUTING_FOLLOWERS];  // `worst`: of all looks
    double moved[ROUTING_FOLLOWERS], moved_rounds;
    double units, link_cost;  // of the optimum before the drift
    double told, messages, frames, bytes, passing, error;
    double *ratio[ROUTING_FOLLOWERS];  // [looks]
    uint64_t hash;
} drift_row;

typedef struct drift_bench {
    uint64_t seeds, first, relays, views, demand;
    bool json, told[ROUTING_TOLDS];
    const char *plot;
    routing_settings settings;
    routing_drift drift;
    uint32_t looks;
    drift_row row[ROUTING_TOLDS];
} drift_bench;

// Tables, or JSON, of one test.
void drift_print(const drift_bench *b, uint32_t test);
// Into the file b->plot.
braid_err drift_plot(const drift_bench *b, uint32_t test, braid_error *error);

#endif
