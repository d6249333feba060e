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

// A value over time: from `at` on it is `value`, until the next step.
typedef struct plot_step {
    double at, value;
} plot_step;

typedef struct plot_line {
    const char *name;
    const plot_step *step;
    uint32_t steps;
} plot_line;

// Lines of steps over one axis of time, one panel above another. All borrowed.
typedef struct plot_panel {
    const char *unit;  // of its vertical axis
    const plot_line *line;
    uint32_t lines;
} plot_panel;

typedef struct plot_steps {
    const char *title, *note, *unit;  // `unit`: of the axis of time
    double end;                       // of the axis of time
    const plot_panel *panel;
    uint32_t panels;
} plot_steps;

// Replace the file at `path`.
braid_err plot_steps_write(const plot_steps *plot, const char *path, braid_error *error);
braid_err plot_bars_write(const plot_bars *plot, const char *path, braid_error *error);

#endif
