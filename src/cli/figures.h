// What verbs share to show figures: samples and lines of JSON.
#ifndef BRAID_CLI_FIGURES_H
#define BRAID_CLI_FIGURES_H

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

// "1 seed" is one, "2 seeds" are several.
static inline const char *figures_s(uint64_t count) { return count == 1 ? "" : "s"; }

// --- JSON
void figures_put_hash(json_out *o, uint64_t hash);  // "trace_hash"
// Closes the object and prints it as a line; false if memory ran out. Ends `o`.
bool figures_print_line(json_out *o);

#endif
