// Small drawings as SVG 1.1.
#ifndef BRAID_BENCH_CLI_PLOT_H
#define BRAID_BENCH_CLI_PLOT_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

// A mean as a bar, the worst as a whisker above it.
typedef struct plot_bar {
    double mean, worst;
    bool there;
} plot_bar;

// Groups of bars side by side, one bar a series. All borrowed.
typedef struct plot_bars {
    const char *title, *note, *unit;  // `unit`: of the vertical axis
    uint32_t groups, series;
    const char *const *group, *const *name;
    const plot_bar *bar;  // [groups][series]
} plot_bars;

// Replaces the file at `path`.
braid_err plot_bars_write(const plot_bars *plot, const char *path, braid_error *error);

#endif
