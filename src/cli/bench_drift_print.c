// The tables and JSON of braid bench drift.
#include "cli/bench_drift_inside.h"

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
    if (r->over_capacity > 0) printf("! in %u runs a peer carried more than its capacity\n", r->over_capacity);
}

static double units_of(const drift_bench *b) {
    for (uint32_t t = 0; t < ROUTING_TOLDS; t++)
        if (b->row[t].runs > 0) return b->row[t].units / b->row[t].runs;
    return 0;
}

static void print_table(const drift_bench *b, uint32_t test) {
    printf("drift on F7 test %u, %s delays: %g %% a minute in legs of %u s, samples with %g %% of noise, %g %% of them "
           "nonsense;\n",
           test, routing_delay_name(b->settings.delay), b->drift.drift_ppm / 1e4, b->drift.leg_seconds,
           b->drift.noise_ppm / 1e4, b->drift.spike_ppm / 1e4);
    printf("band %g %% + %g for %g s, slack %g; %" PRIu64 " seeds from %" PRIu64 ", %u s each, %.1f units of flow\n",
           b->drift.rule.relative_ppm / 1e4, (double)b->drift.rule.absolute / ROUTING_SCALE,
           (double)b->drift.rule.patience / 1e9, (double)b->settings.slack / ROUTING_SCALE, b->seeds, b->first,
           b->drift.seconds, units_of(b));
    printf("%-7s| %-27s | %-31s | %-16s | %-23s | %-7s |\n", "", "true cost / optimum", "units moved a minute",
           "told of a link", "per peer and minute", "moves");
    printf("%-7s| %-13s %-13s | %7s %7s %7s %7s | %7s %7s | %7s %7s %7s | %7s | %s\n", "told", "braid", "best of told",
           "braid", "each s", "best", "optimum", "a min", "wrong", "msgs", "frames", "KB", "pass",
           "hash of the traces");
    for (uint32_t t = 0; t < ROUTING_TOLDS; t++)
        if (b->row[t].runs > 0) print_row(b, &b->row[t], routing_told_name((routing_told)t));
    printf("\n");
}

static void put_settings(json_out *o, const drift_bench *b, uint32_t test) {
    json_out_string(o, "experiment", "drift");
    json_out_u64(o, "test", test);
    json_out_string(o, "delay", routing_delay_name(b->settings.delay));
    json_out_u64(o, "first_seed", b->first);
    json_out_u64(o, "seconds", b->drift.seconds);
    json_out_u64(o, "leg_seconds", b->drift.leg_seconds);
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
    char hash[17];
    snprintf(hash, sizeof hash, "%016" PRIx64, r->hash);
    json_out_open(&o, NULL, '{');
    put_settings(&o, b, test);
    json_out_string(&o, "told", routing_told_name((routing_told)t));
    json_out_u64(&o, "runs", r->runs);
    json_out_double(&o, "units", r->units / runs);
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
    json_out_string(&o, "trace_hash", hash);
    json_out_close(&o, '}');
    char *text = json_out_take(&o, NULL);
    if (text != NULL) printf("%s\n", text);
    free(text);
}

void drift_print(const drift_bench *b, uint32_t test) {
    for (uint32_t t = 0; b->json && t < ROUTING_TOLDS; t++)
        if (b->row[t].runs > 0) print_json(b, test, t);
    if (!b->json) print_table(b, test);
    fflush(stdout);
}
