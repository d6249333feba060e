#include "cli/figures.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

void figures_add(figures_sample *s, double value) {
    s->sum += value;
    s->squares += value * value;
    if (s->count == 0 || value > s->worst) s->worst = value;
    s->count++;
}

double figures_part(double sum, double count) { return count > 0 ? sum / count : 0; }

double figures_mean(const figures_sample *s) { return figures_part(s->sum, s->count); }

double figures_deviation(const figures_sample *s) {
    if (s->count < 2) return 0;
    double square = (s->squares - s->sum * s->sum / s->count) / (s->count - 1);
    return square > 0 ? sqrt(square) : 0;
}

// --- JSON

void figures_put_hash(json_out *o, uint64_t hash) {
    char text[17];
    snprintf(text, sizeof text, "%016" PRIx64, hash);
    json_out_string(o, "trace_hash", text);
}

bool figures_print_line(json_out *o) {
    json_out_close(o, '}');
    char *text = json_out_take(o, NULL);
    bool written = text != NULL;
    if (written) printf("%s\n", text);
    free(text);
    return written;
}
