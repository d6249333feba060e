// What the experiments of braid bench, and braid sim, share to show their figures: samples, cells of tables, bars of
// drawings, lines of JSON.
#ifndef BRAID_CLI_FIGURES_H
#define BRAID_CLI_FIGURES_H

#include "cli/plot.h"
#include "format/json.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct figures_sample {
    uint32_t count;
    double sum, squares, worst;
} figures_sample;

void figures_add(figures_sample *s, double value);
double figures_part(double sum, double count);  // 0 of nothing
double figures_mean(const figures_sample *s);
double figures_deviation(const figures_sample *s);

// --- tables
// A cell and a space; "-" where the sample is empty.
void figures_print_mean(const figures_sample *s, int width, int decimals);
void figures_print_worst(const figures_sample *s, int width, int decimals);
// "1 seed" is one, "2 seeds" are several.
static inline const char *figures_s(uint64_t count) { return count == 1 ? "" : "s"; }
// A line of warning if there were such runs.
void figures_print_over_capacity(uint32_t runs);

// --- drawings: the mean with the worst as whisker
plot_bar figures_bar(const figures_sample *s);
plot_bar figures_bar_above(const figures_sample *s);  // of ratios, as percent above 1

// --- JSON
void figures_put_sample(json_out *o, const char *key, const figures_sample *s);
void figures_put_spread(json_out *o, const char *key, const figures_sample *s);  // with the deviation
void figures_put_hash(json_out *o, uint64_t hash);                               // "trace_hash"
// Closes the object and prints it as a line; false if memory ran out. Ends `o`.
bool figures_print_line(json_out *o);

#endif
