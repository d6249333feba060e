// Output of samples: cells of tables, bars of drawings, JSON.
#ifndef BRAID_BENCH_CLI_FIGURES_H
#define BRAID_BENCH_CLI_FIGURES_H

#include "bench/cli/plot.h"
#include "cli/figures.h"

// --- tables
// Prints a cell and a space; "-" where the sample is empty.
void figures_print_mean(const figures_sample *s, int width, int decimals);
void figures_print_worst(const figures_sample *s, int width, int decimals);
// Prints a warning if there were such runs.
void figures_print_over_capacity(uint32_t runs);

// --- drawings: the mean with the worst as whisker
plot_bar figures_bar(const figures_sample *s);
plot_bar figures_bar_above(const figures_sample *s);  // ratios, as percent above 1

// --- JSON
void figures_put_sample(json_out *o, const char *key, const figures_sample *s);
// with the deviation
void figures_put_spread(json_out *o, const char *key, const figures_sample *s);

#endif
