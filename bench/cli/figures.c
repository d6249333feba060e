#include "bench/cli/figures.h"

#include <stdio.h>

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
