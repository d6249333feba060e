// Shared by the two files of braid-bench repair.
#ifndef BRAID_BENCH_CLI_REPAIR_INSIDE_H
#define BRAID_BENCH_CLI_REPAIR_INSIDE_H

#include "base/err.h"
#include "bench/training/repair.h"

#include <stdio.h>

enum { REPAIR_LEADER_ROW = SIM_LOSS_PHASES, REPAIR_ROWS, REPAIR_RULES = 12 };

typedef struct repair_values {
    double *value;
    size_t count, room;
} repair_values;

typedef struct repair_row {
    repair_values seconds, units;  // ascending, once all are there
    // losses without a repair: another peer had the result, or it did not count
    uint32_t unneeded;
} repair_row;

typedef struct repair_bench {
    uint64_t seeds, first, capacity;
    double hours;
    const char *plot;
    bool json;
    repair_row row[2][REPAIR_ROWS];  // connections reset; machine dies
    uint64_t deaths[REPAIR_VICTIMS][2];
    detection_result detection[DETECTION_LINES][REPAIR_RULES];
} repair_bench;

extern const detection_rule repair_rules[REPAIR_RULES];

double repair_percentile(const repair_values *v, double percent);
void repair_print_table(const repair_bench *b);
void repair_print_json(const repair_bench *b);
braid_err repair_plot(const repair_bench *b, braid_error *error);

#endif
