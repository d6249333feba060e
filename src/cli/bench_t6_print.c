// What braid bench t6 shows: a table, JSON lines, a drawing.
#include "cli/bench_t6_inside.h"
#include "cli/plot.h"
#include "format/json.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

double t6_mean(const t6_sample *s) { return s->count == 0 ? 0 : s->sum / s->count; }

static double deviation(const t6_sample *s) {
    if (s->count < 2) return 0;
    double square = (s->squares - s->sum * s->sum / s->count) / (s->count - 1);
    return square > 0 ? sqrt(square) : 0;
}

// --- table

static void print_head(const t6_bench *b) {
    printf("T6: %d data peers with %u microbatches each, %d relays of capacity %u, %d stages; %" PRIu64
           " seeds from %" PRIu64 "\n",
           T6_DATA, b->settings.microbatches, T6_PEERS - T6_DATA, b->settings.capacity, T6_STAGES, b->seeds, b->first);
    printf("%s; %s exchange of weights; %s delays in routing; %u of %" PRIu64
           " optima proven; traded: after %.1f trades\n",
           b->settings.link == PIPELINE_PAIR ? "a link for each pair of peers" : "one link out of each peer",
           b->settings.weights ? "with the" : "without", routing_delay_name(b->delay), b->proven,
           b->seeds * T6_ARRANGEMENTS, t6_mean(&b->trades));
    printf("%-17s | %-27s | %-29s | %-24s | %-28s |\n", "", "min per microbatch", "time / dtfm's",
           "cost per microbatch, s", "routing");
    printf("%-8s %-8s | %6s %6s %6s %6s | %6s %6s %15s | %6s %7s %9s | %6s %6s %6s %7s | %s\n", "stages", "system",
           "mean", "sd", "worst", "per it", "mean", "worst", "no slower", "mean", "/ best", "worst", "whole", "quiet",
           "rounds", "msgs", "hash of all");
}

static void print_row(const t6_row *r, const char *arrangement, const char *system, bool routed) {
    printf("%-8s %-8s | %6.3f %6.3f %6.3f %6.2f | %6.3f %6.3f %7u of %4u | %6.1f ", arrangement, system,
           t6_mean(&r->minutes), deviation(&r->minutes), r->minutes.worst, t6_mean(&r->microbatches),
           t6_mean(&r->over_dtfm), r->over_dtfm.worst, r->no_slower, r->runs, t6_mean(&r->cost));
    if (r->over_optimum.count > 0)
        printf("%7.3f %9.3f | ", t6_mean(&r->over_optimum), r->over_optimum.worst);
    else
        printf("%7s %9s | ", "-", "-");
    if (routed)
        printf("%6u %6u %6.0f %7.0f | ", r->whole, r->quiet, t6_mean(&r->rounds), t6_mean(&r->messages));
    else
        printf("%6s %6s %6s %7s | ", "-", "-", "-", "-");
    printf("%016" PRIx64 "\n", r->hash);
    if (r->over_capacity > 0) printf("! in %u runs a peer carried more than its capacity\n", r->over_capacity);
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

static void put_sample(json_out *o, const char *key, const t6_sample *s) {
    json_out_open(o, key, '{');
    json_out_u64(o, "count", s->count);
    if (s->count > 0) {
        json_out_double(o, "mean", t6_mean(s));
        json_out_double(o, "deviation", deviation(s));
        json_out_double(o, "worst", s->worst);
    }
    json_out_close(o, '}');
}

static void print_json(const t6_bench *b, t6_arrangement a, t6_system s) {
    const t6_row *r = &b->row[a][s];
    json_out o = {0};
    char hash[17];
    snprintf(hash, sizeof hash, "%016" PRIx64, r->hash);
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
    if (a == T6_TRADED) put_sample(&o, "trades", &b->trades);
    put_sample(&o, "minutes_per_microbatch", &r->minutes);
    put_sample(&o, "time_over_dtfm", &r->over_dtfm);
    json_out_u64(&o, "no_slower_than_dtfm", r->no_slower);
    put_sample(&o, "microbatches", &r->microbatches);
    put_sample(&o, "cost_seconds", &r->cost);
    put_sample(&o, "cost_over_optimum", &r->over_optimum);
    json_out_u64(&o, "whole", r->whole);
    json_out_u64(&o, "over_capacity", r->over_capacity);
    if (is_routed(s)) {
        json_out_u64(&o, "quiet", r->quiet);
        put_sample(&o, "rounds_to_last_move", &r->rounds);
        put_sample(&o, "messages_per_peer", &r->messages);
    }
    json_out_string(&o, "trace_hash", hash);
    json_out_close(&o, '}');
    char *text = json_out_take(&o, NULL);
    if (text != NULL) printf("%s\n", text);
    free(text);
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
        for (t6_system s = 0; s < T6_SYSTEMS; s++) {
            const t6_sample *m = &b->row[a][s].minutes;
            bar[a * T6_SYSTEMS + s] = (plot_bar){t6_mean(m), m->worst, m->count > 0};
        }
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
