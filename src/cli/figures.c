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

// --- tables

static void print_cell(const figures_sample *s, double value, int width, int decimals) {
    if (s->count > 0)
        printf("%*.*f ", width, decimals, value);
    else
        printf("%*s ", width, "-");
}

void figures_print_mean(const figures_sample *s, int width, int decimals) {
    print_cell(s, figures_mean(s), width, decimals);
}

void figures_print_worst(const figures_sample *s, int width, int decimals) { print_cell(s, s->worst, width, decimals); }

void figures_print_over_capacity(uint32_t runs) {
    if (runs > 0) printf("! in %u runs a peer carried more than its capacity\n", runs);
}

// --- drawings

plot_bar figures_bar(const figures_sample *s) { return (plot_bar){figures_mean(s), s->worst, s->count > 0}; }

plot_bar figures_bar_above(const figures_sample *s) {
    return (plot_bar){(figures_mean(s) - 1) * 100, (s->worst - 1) * 100, s->count > 0};
}

// --- JSON

static void put_sample(json_out *o, const char *key, const figures_sample *s, bool deviation) {
    json_out_open(o, key, '{');
    json_out_u64(o, "count", s->count);
    if (s->count > 0) {
        json_out_double(o, "mean", figures_mean(s));
        if (deviation) json_out_double(o, "deviation", figures_deviation(s));
        json_out_double(o, "worst", s->worst);
    }
    json_out_close(o, '}');
}

void figures_put_sample(json_out *o, const char *key, const figures_sample *s) { put_sample(o, key, s, false); }

void figures_put_spread(json_out *o, const char *key, const figures_sample *s) { put_sample(o, key, s, true); }

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
