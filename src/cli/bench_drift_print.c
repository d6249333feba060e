// The tables and JSON of braid bench drift.
#include "cli/bench_drift_inside.h"

#include "cli/figures.h"
#include "cli/plot.h"
#include "format/json.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static void print_row(const drift_bench *b, const drift_row *r, const char *name) {
    double runs = r->runs, minutes = b->drift.seconds / 60.0 * runs;
    printf("%-7s|", name);
    for (uint32_t f = 0; f < ROUTING_FOLLOW_OPTIMUM; f++) printf(" %6.4f %6.4f", r->mean[f] / runs, r->worst[f]);
    printf(" | %7.2f", r->moved_rounds / minutes);
    for (uint32_t f = 0; f < ROUTING_FOLLOWERS; f++) printf(" %7.2f", r->moved[f] / minutes);
    printf(" | %7.2f %6.1f%% | %7.1f %7.1f %7.1f | %6.2f%% | %016" PRIx64 "\n", r->told / minutes,
           100 * r->error / runs, r->messages / minutes, r->frames / minutes, r->bytes / minutes / 1000,
           100 * r->passing / (minutes * 60 * ROUTING_SECOND / ROUTING_ROUND), r->hash);
    figures_print_over_capacity(r->over_capacity);
}

// Of a row that was run; all rows are about the same instances.
static const drift_row *any_row(const drift_bench *b) {
    uint32_t t = 0;
    while (t + 1 < ROUTING_TOLDS && b->row[t].runs == 0) t++;
    return &b->row[t];
}

static void print_table(const drift_bench *b, uint32_t test) {
    char wide[96] = "", every[16];
    snprintf(every, sizeof every, "per %us", b->drift.plan_seconds);
    if (b->views > 0 || b->demand < 100 || b->relays != routing_f7_tests[test - 1].relays)
        snprintf(wide, sizeof wide, " with %" PRIu64 " relays, views of %" PRIu64 ", demand %" PRIu64 " %%", b->relays,
                 b->views, b->demand);
    printf("drift on F7 test %u%s, %s delays: %g %% a minute in legs of %u s; a sample every %u s, with %g %% of "
           "noise, %g %% of them nonsense;\n",
           test, wide, routing_delay_name(b->settings.delay), b->drift.drift_ppm / 1e4, b->drift.leg_seconds,
           b->drift.sample_seconds, b->drift.noise_ppm / 1e4, b->drift.spike_ppm / 1e4);
    printf("band %g %% + %g for %g s, slack %g; %" PRIu64 " seed%s from %" PRIu64 ", %u s each; %.1f units of flow, a "
           "link in use costs %.1f\n",
           b->drift.rule.relative_ppm / 1e4, (double)b->drift.rule.absolute / ROUTING_SCALE,
           (double)b->drift.rule.patience / 1e9, (double)b->settings.slack / ROUTING_SCALE, b->seeds, figures_s(b->seeds), b->first,
           b->drift.seconds, any_row(b)->units / any_row(b)->runs, any_row(b)->link_cost / any_row(b)->runs);
    printf("%-7s| %-27s | %-31s | %-16s | %-23s | %-7s |\n", "", "true cost / optimum", "units moved a minute",
           "told of a link", "per peer and minute", "moves");
    printf("%-7s| %-13s %-13s | %7s %7s %7s %7s | %7s %7s | %7s %7s %7s | %7s | %s\n", "told", "braid", "best of told",
           "braid", every, "best", "optimum", "a min", "wrong", "msgs", "frames", "KB", "pass", "hash of the traces");
    for (uint32_t t = 0; t < ROUTING_TOLDS; t++)
        if (b->row[t].runs > 0) print_row(b, &b->row[t], routing_told_name((routing_told)t));
    printf("\n");
}

static void put_settings(json_out *o, const drift_bench *b, uint32_t test) {
    json_out_string(o, "experiment", "drift");
    json_out_u64(o, "test", test);
    json_out_string(o, "delay", routing_delay_name(b->settings.delay));
    json_out_u64(o, "relays", b->relays);
    json_out_u64(o, "views", b->views);
    json_out_u64(o, "demand_percent", b->demand);
    json_out_u64(o, "first_seed", b->first);
    json_out_u64(o, "seconds", b->drift.seconds);
    json_out_u64(o, "leg_seconds", b->drift.leg_seconds);
    json_out_u64(o, "sample_seconds", b->drift.sample_seconds);
    json_out_double(o, "drift_per_minute", b->drift.drift_ppm / 1e6);
    json_out_double(o, "noise", b->drift.noise_ppm / 1e6);
    json_out_double(o, "spikes", b->drift.spike_ppm / 1e6);
    json_out_double(o, "band", b->drift.rule.relative_ppm / 1e6);
    json_out_double(o, "band_least", (double)b->drift.rule.absolute / ROUTING_SCALE);
    json_out_double(o, "patience_s", (double)b->drift.rule.patience / 1e9);
    json_out_double(o, "slack", (double)b->settings.slack / ROUTING_SCALE);
}

static void print_json(const drift_bench *b, uint32_t test, uint32_t t) {
    static const char *const names[ROUTING_FOLLOWERS] = {"braid", "best_of_told", "optimum"};
    const drift_row *r = &b->row[t];
    double runs = r->runs, minutes = b->drift.seconds / 60.0 * runs;
    json_out o = {0};
    json_out_open(&o, NULL, '{');
    put_settings(&o, b, test);
    json_out_string(&o, "told", routing_told_name((routing_told)t));
    json_out_u64(&o, "runs", r->runs);
    json_out_double(&o, "units", r->units / runs);
    json_out_double(&o, "cost_of_a_link_in_use", r->link_cost / runs);
    json_out_u64(&o, "over_capacity", r->over_capacity);
    for (uint32_t f = 0; f < ROUTING_FOLLOWERS; f++) {
        json_out_open(&o, names[f], '{');
        json_out_double(&o, "ratio_mean", r->mean[f] / runs);
        json_out_double(&o, "ratio_worst", r->worst[f]);
        json_out_double(&o, "moved_per_minute", r->moved[f] / minutes);
        json_out_open(&o, "ratio", '[');
        for (uint32_t l = 0; l < b->looks; l++) json_out_double(&o, NULL, r->ratio[f][l] / runs);
        json_out_close(&o, ']');
        json_out_close(&o, '}');
    }
    json_out_double(&o, "moved_per_minute_every_round", r->moved_rounds / minutes);
    json_out_double(&o, "told_per_link_and_minute", r->told / minutes);
    json_out_double(&o, "told_wrong", r->error / runs);
    json_out_double(&o, "messages_per_peer_and_minute", r->messages / minutes);
    json_out_double(&o, "frames_per_peer_and_minute", r->frames / minutes);
    json_out_double(&o, "bytes_per_peer_and_minute", r->bytes / minutes);
    json_out_double(&o, "rounds_in_passing", r->passing / (minutes * 60 * ROUTING_SECOND / ROUTING_ROUND));
    figures_put_hash(&o, r->hash);
    figures_print_line(&o);
}

void drift_print(const drift_bench *b, uint32_t test) {
    for (uint32_t t = 0; b->json && t < ROUTING_TOLDS; t++)
        if (b->row[t].runs > 0) print_json(b, test, t);
    if (!b->json) print_table(b, test);
    fflush(stdout);
}

braid_err drift_plot(const drift_bench *b, uint32_t test, braid_error *error) {
    static const char *const names[] = {"told all", "told smooth", "told with a band", "optimum of what is told"};
    enum { CURVES = sizeof names / sizeof *names };
    double *x = calloc((size_t)b->looks * (CURVES + 1), sizeof *x), *y = x + b->looks;
    if (x == NULL || b->looks < 2) {
        free(x);
        return braid_fail(error, BRAID_ARGUMENT, "a plot needs two looks at least, not %u", b->looks);
    }
    const char *name[CURVES];
    plot_lines p = {.title = "Costs that drift: cost per microbatch above the optimum of the moment",
                    .unit = "% above the optimum",
                    .across = "seconds",
                    .points = b->looks,
                    .name = name,
                    .x = x,
                    .y = y};
    for (uint32_t l = 0; l < b->looks; l++) x[l] = (double)(l + 1) * b->drift.look_seconds;
    for (uint32_t c = 0; c < CURVES; c++) {
        const drift_row *r = &b->row[c < ROUTING_TOLDS ? c : ROUTING_TOLD_BAND];
        const double *ratio = r->ratio[c < ROUTING_TOLDS ? ROUTING_FOLLOW_RUN : ROUTING_FOLLOW_NEWS];
        if (r->runs == 0) continue;
        for (uint32_t l = 0; l < b->looks; l++) y[p.series * b->looks + l] = (ratio[l] / r->runs - 1) * 100;
        name[p.series++] = names[c];
    }
    char note[128];
    snprintf(note, sizeof note, "F7 test %" PRIu32 ", mean of %" PRIu64 " seed%s; %g %% a minute, %g %% of noise", test,
             b->seeds, figures_s(b->seeds), b->drift.drift_ppm / 1e4, b->drift.noise_ppm / 1e4);
    p.note = note;
    braid_err err = plot_lines_write(&p, b->plot, error);
    free(x);
    return err;
}
