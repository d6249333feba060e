// Shared by the files that draw.
#ifndef BRAID_BENCH_CLI_PLOT_INSIDE_H
#define BRAID_BENCH_CLI_PLOT_INSIDE_H

#include "bench/cli/plot.h"

#include <stdio.h>

enum { PLOT_COLOURS = 6, PLOT_TICKS = 5 };

extern const char *const plot_colours[PLOT_COLOURS];

void plot_put_text(FILE *f, double x, double y, const char *anchor, int size, const char *text);
void plot_put_line(FILE *f, double x1, double y1, double x2, double y2, const char *colour);
// The distance of two ticks, so that PLOT_TICKS of them reach `most`.
double plot_tick_of(double most);
// NULL after an error.
FILE *plot_begin(const char *path, double width, double height, const char *title, braid_error *error);
braid_err plot_end(FILE *f, const char *path, braid_error *error);

#endif
