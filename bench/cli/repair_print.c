// Tables, JSON and the drawing of braid-bench repair.
#include "bench/cli/repair_inside.h"
#include "bench/cli/figures.h"
#include "protocol/core/timing.h"

#include <string.h>

const detection_rule repair_rules[REPAIR_RULES] = {{.phi = 1}, {.phi = 2}, {.phi = 3}, {.phi = 4}, {.phi = 6}, {.phi = 8}, {.phi = 12},
                                                   {.silence_ns = 2 * TIMING_S}, {.silence_ns = 5 * TIMING_S}, {.silence_ns = 10 * TIMING_S}, {.silence_ns = 20 * TIMING_S}, {.phi = 0}};

static const char *row_name(int row) { return row == REPAIR_LEADER_ROW ? "leader" : sim_loss_name((sim_loss_phase)row); }

static const char *how_name(int silent) { return silent ? "without a word" : "connections reset"; }

static void print_rows(const repair_bench *b, int silent) {
    for (int i = 0; i < REPAIR_ROWS; i++) {
        const repair_row *r = &b->row[silent][i];
        printf("%-18s| %-12s| %6zu %8u | %8.3f %8.3f | %8.2f %8.2f\n", how_name(silent), row_name(i), r->seconds.count, r->unneeded, repair_percentile(&r->seconds, 50),
               repair_percentile(&r->seconds, 99), repair_percentile(&r->units, 50), repair_percentile(&r->units, 99));
    }
}

static void rule_name(const detection_rule *rule, char *text, size_t capacity) {
    if (rule->phi > 0) snprintf(text, capacity, "phi %g", rule->phi);
    else if (rule->silence_ns > 0) snprintf(text, capacity, "silence %g s", (double)rule->silence_ns / 1e9);
    else snprintf(text, capacity, "expelled");
}

void repair_print_table(const repair_bench *b) {
    printf("%llu seed%s from %llu: deaths of %llu relays, %llu data peers, %llu leaders\n", (unsigned long long)b->seeds, figures_s(b->seeds), (unsigned long long)b->first,
           (unsigned long long)(b->deaths[REPAIR_OF_RELAY][0] + b->deaths[REPAIR_OF_RELAY][1]), (unsigned long long)(b->deaths[REPAIR_OF_DATA][0] + b->deaths[REPAIR_OF_DATA][1]),
           (unsigned long long)(b->deaths[REPAIR_OF_LEADER][0] + b->deaths[REPAIR_OF_LEADER][1]));
    printf("a unit: one round trip over the slowest link, plus the computing that was lost and done again\n\n");
    printf("%-18s| %-12s| %6s %8s | %17s | %17s\n", "", "", "", "not", "seconds", "units");
    printf("%-18s| %-12s| %6s %8s | %8s %8s | %8s %8s\n", "how it died", "phase", "lost", "needed", "median", "p99", "median", "p99");
    print_rows(b, 0);
    print_rows(b, 1);
    printf("\n%-14s| %-14s| %8s %8s | %s\n", "line", "suspected at", "mean s", "p99 s", "false alarms an hour");
    for (int line = 0; line < DETECTION_LINES; line++)
        for (int i = 0; i < REPAIR_RULES; i++) {
            char name[32];
            const detection_result *r = &b->detection[line][i];
            rule_name(&repair_rules[i], name, sizeof name);
            printf("%-14s| %-14s| %8.2f %8.2f | %.3f\n", detection_line_name((detection_line)line), name, r->mean_s, r->p99_s, r->false_an_hour);
        }
}

static void json_row(const repair_bench *b, int silent, int i) {
    const repair_row *r = &b->row[silent][i];
    json_out o = {0};
    json_out_open(&o, NULL, '{');
    json_out_string(&o, "experiment", "repair");
    json_out_string(&o, "death", how_name(silent));
    json_out_string(&o, "phase", row_name(i));
    json_out_u64(&o, "seeds", b->seeds);
    json_out_u64(&o, "lost", r->seconds.count);
    json_out_u64(&o, "not_needed", r->unneeded);
    json_out_double(&o, "median_s", repair_percentile(&r->seconds, 50));
    json_out_double(&o, "p99_s", repair_percentile(&r->seconds, 99));
    json_out_double(&o, "median_units", repair_percentile(&r->units, 50));
    json_out_double(&o, "p99_units", repair_percentile(&r->units, 99));
    figures_print_line(&o);
}

void repair_print_json(const repair_bench *b) {
    for (int i = 0; i < 2 * REPAIR_ROWS; i++) json_row(b, i / REPAIR_ROWS, i % REPAIR_ROWS);
    for (int i = 0; i < DETECTION_LINES * REPAIR_RULES; i++) {
        char name[32];
        const detection_result *r = &b->detection[i / REPAIR_RULES][i % REPAIR_RULES];
        rule_name(&repair_rules[i % REPAIR_RULES], name, sizeof name);
        json_out o = {0};
        json_out_open(&o, NULL, '{');
        json_out_string(&o, "experiment", "detection");
        json_out_string(&o, "line", detection_line_name((detection_line)(i / REPAIR_RULES)));
        json_out_string(&o, "rule", name);
        json_out_double(&o, "mean_s", r->mean_s);
        json_out_double(&o, "p99_s", r->p99_s);
        json_out_double(&o, "false_alarms_an_hour", r->false_an_hour);
        figures_print_line(&o);
    }
}

braid_err repair_plot(const repair_bench *b, braid_error *error) {
    plot_bar bar[REPAIR_ROWS * 2];
    const char *group[REPAIR_ROWS], *const name[2] = {how_name(0), how_name(1)};
    for (int i = 0; i < REPAIR_ROWS; i++) {
        group[i] = row_name(i);
        for (int silent = 0; silent < 2; silent++) {
            const repair_row *r = &b->row[silent][i];
            bar[2 * i + silent] = (plot_bar){repair_percentile(&r->seconds, 50), repair_percentile(&r->seconds, 99), r->seconds.count > 0};
        }
    }
    const plot_bars plot = {.title = "From a death until what it took is there again", .note = "bars: median; whiskers: 99th percentile", .unit = "seconds",
                            .groups = REPAIR_ROWS, .series = 2, .group = group, .name = name, .bar = bar};
    return plot_bars_write(&plot, b->plot, error);
}
