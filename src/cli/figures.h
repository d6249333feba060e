// Shared output of verbs: samples and lines of JSON.
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
double figures_part(double sum, double count);  // 0 if `count` is 0
double figures_mean(const figures_sample *s);
double figures_deviation(const figures_sample *s);

// "1 seed", "2 seeds".
static inline const char *figures_s(uint64_t count) { return count == 1 ? "" : "s"; }

// --- JSON
void figures_put_hash(json_out *o, uint64_t hash);  // "trace_hash"
// Closes the object and prints it as a line; false if out of memory. Frees `o`.
bool figures_print_line(json_out *o);

#endif
