// The output of braid-bench t6: a table, JSON lines, a drawing.
#include "bench/cli/t6_inside.h"
#include "bench/cli/plot.h"
#include "format/json.h"

#include <inttypes.h>
#include <stdio.h>

// --- table

static void print_head(const t6_bench *b) {
    printf("T6: %d data peers with %u microbatches each, %d relays of capacity %u, %d stages; %" PRIu64
           " seed%s from %" PRIu64 "\n",
           T6_DATA, b->settings.microbatches, T6_PEERS - T6_DATA, b->settings.capacity, T6_STAGES, b->seeds, figures_s(b->seeds),
           b->first);
    printf("%s; %s exchange of weights; %s delays in routing; %u of %" PRIu64
           " optima proven; traded: after %.1f trades\n",
           b->settings.link == PIPELINE_PAIR ? "a link for each pair of peers" : "one link out of each peer",
           b->settings.weights ? "with the" : "without", routing_delay_name(b->delay), b->proven,
           b->seeds * T6_ARRANGEMENTS, figures_mean(&b->trades));
    printf("%-17s | %-27s | %-29s | %-24s | %-28s |\n", "", "min per microbatch", "time / dtfm's",
           "cost per microbatch, s", "routing");
    printf("%-8s %-8s | %6s %6s %6s %6s | %6s %6s %15s | %6s %7s %9s | %6s %6s %6s %7s | %s\n", "stages", "system",
           "mean", "sd", "worst", "per it", "mean", "worst", "no slower", "mean", "/ best", "worst", "whole", "quiet",
           "rounds", "msgs", "hash of all");
}

static void print_row(const t6_row *r, const char *arrangement, const char *system, bool routed) {
    printf("%-8s %-8s | %6.3f %6.3f %6.3f %6.2f | %6.3f %6.3f %7u of %4u | %6.1f ", arrangement, system,
           figures_mean(&r->minutes), figures_deviation(&r->minutes), r->minutes.worst, figures_mean(&r->microbatches),
           figures_mean(&r->over_dtfm), r->over_dtfm.worst, r->no_slower, r->runs, figures_mean(&r->cost));
    figures_print_mean(&r->over_optimum, 7, 3);
    figures_print_worst(&r->over_optimum, 9, 3);
    printf("| ");
    if (routed)
        printf("%6u %6u %6.0f %7.0f | ", r->whole, r->quiet, figures_mean(&r->rounds), figures_mean(&r->messages));
    else
        printf("%6s %6s %6s %7s | ", "-", "-", "-", "-");
    printf("%016" PRIx64 "\n", r->hash);
    figures_print_over_capacity(r->over_capacity);
}

static bool is_routed(t6_system s) { return s != T6_PIPELINES && s != T6_OPTIMUM; }

static void print_table(const t6_bench *b) {
    print_head(b);
    for (t6_arrangement a = 0; a < T6_ARRANGEMENTS; a++)
        for (t6_system s = 0; s < T6_SYSTEMS; s++)
            if (b->row[a][s].runs > 0)
                print_row(&b->row[a][s], t6_arrangement_names[a], t6_system_names[s], is_routed(s));
}

// --- JSON

static void print_json(const t6_bench *b, t6_arrangement a, t6_system s) {
    const t6_row *r = &b->row[a][s];
    json_out o = {0};
    json_out_open(&o, NULL, '{');
    json_out_string(&o, "experiment", "t6");
    json_out_string(&o, "stages", t6_arrangement_names[a]);
    json_out_string(&o, "system", t6_system_names[s]);
    json_out_u64(&o, "microbatches_each", b->settings.microbatches);
    json_out_u64(&o, "capacity", b->settings.capacity);
    json_out_string(&o, "link", b->settings.link == PIPELINE_PAIR ? "pair" : "peer");
    json_out_bool(&o, "weights", b->settings.weights);
    json_out_string(&o, "delay", routing_delay_name(b->delay));
    json_out_u64(&o, "first_seed", b->first);
    json_out_u64(&o, "runs", r->runs);
    if (a == T6_TRADED) figures_put_spread(&o, "trades", &b->trades);
    figures_put_spread(&o, "minutes_per_microbatch", &r->minutes);
    figures_put_spread(&o, "time_over_dtfm", &r->over_dtfm);
    json_out_u64(&o, "no_slower_than_dtfm", r->no_slower);
    figures_put_spread(&o, "microbatches", &r->microbatches);
    figures_put_spread(&o, "cost_seconds", &r->cost);
    figures_put_spread(&o, "cost_over_optimum", &r->over_optimum);
    json_out_u64(&o, "whole", r->whole);
    json_out_u64(&o, "over_capacity", r->over_capacity);
    if (is_routed(s)) {
        json_out_u64(&o, "quiet", r->quiet);
        figures_put_spread(&o, "rounds_to_last_move", &r->rounds);
        figures_put_spread(&o, "messages_per_peer", &r->messages);
    }
    figures_put_hash(&o, r->hash);
    figures_print_line(&o);
}

void t6_print(const t6_bench *b) {
    if (!b->json) {
        print_table(b);
        return;
    }
    for (t6_arrangement a = 0; a < T6_ARRANGEMENTS; a++)
        for (t6_system s = 0; s < T6_SYSTEMS; s++)
            if (b->row[a][s].runs > 0) print_json(b, a, s);
}

// --- drawing

braid_err t6_plot(const t6_bench *b, braid_error *error) {
    const char *group[T6_ARRANGEMENTS];
    char label[T6_ARRANGEMENTS][32];
    plot_bar bar[T6_ARRANGEMENTS * T6_SYSTEMS];
    for (t6_arrangement a = 0; a < T6_ARRANGEMENTS; a++) {
        snprintf(label[a], sizeof label[a], "stages: %s", t6_arrangement_names[a]);
        group[a] = label[a];
        for (t6_system s = 0; s < T6_SYSTEMS; s++) bar[a * T6_SYSTEMS + s] = figures_bar(&b->row[a][s].minutes);
    }
    plot_bars p = {.title = "T6: time per microbatch",
                   .note = "bar: mean over the seeds, whisker: worst; gwtf after 480 rounds, the others once quiet",
                   .unit = "minutes per microbatch",
                   .groups = T6_ARRANGEMENTS,
                   .series = T6_SYSTEMS,
                   .group = group,
                   .name = t6_system_names,
                   .bar = bar};
    return plot_bars_write(&p, b->plot, error);
}
