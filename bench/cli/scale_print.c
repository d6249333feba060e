// The output of braid-bench scale: a table, JSON lines, a drawing.
#include "bench/cli/scale_inside.h"
#include "bench/cli/plot.h"
#include "format/json.h"
#include "bench/routing/scale.h"

#include <inttypes.h>
#include <stdio.h>
#include <sys/resource.h>

// Memory of the process so far; the exact figure of a size needs a process of its own.
static double resident_kib(void) {
    struct rusage use;
    return getrusage(RUSAGE_SELF, &use) == 0 ? (double)use.ru_maxrss : 0;
}

static bool is_compared(const scale_bench *b) {
    uint32_t systems = 0;
    for (uint32_t s = 0; s < BENCH_SYSTEMS; s++) systems += b->system[s];
    return systems > 1;
}

void scale_print_head(const scale_bench *b) {
    if (b->json) return;
    printf("routing in growing swarms: relays in %d stages, %" PRIu64 " neighbours a side, demand %" PRIu64
           " %% of the narrowest stage, %s delays, path limit %u; %" PRIu64 " seed%s from %" PRIu64 "; per peer\n",
           SCALE_STAGES, b->neighbours, b->demand, routing_delay_name(b->settings.delay), b->settings.path_limit,
           b->seeds, figures_s(b->seeds), b->first);
    if (is_compared(b)) printf("%-5s ", "");
    printf("%6s %7s %6s | %-12s | %-12s | %-40s | %-8s | %-11s | ", "", "", "", "whole", "within 5 %",
           "until it is quiet", "", "memory, KiB");
    if (b->timing) printf("%-46s | ", "simulator");
    printf("\n");
    if (is_compared(b)) printf("%-5s ", "");
    printf("%6s %7s %6s | %6s %5s | %6s %5s | %6s %5s %6s %6s %7s %5s | %8s | %6s %4s | ", "peers", "links", "units",
           "rounds", "msgs", "rounds", "msgs", "rounds", "msgs", "labels", "frames", "KB", "quiet", "cost/opt",
           "router", "run");
    if (b->timing) printf("%9s %7s %5s %9s %12s | ", "events", "seconds", "M/s", "set up, s", "optimum, s");
    printf("hash of the trace\n");
}

static void print_pair(const figures_sample *rounds, const figures_sample *messages) {
    figures_print_mean(rounds, 6, 0);
    figures_print_mean(messages, 5, 0);
    printf("| ");
}

static void print_table_row(const scale_bench *b, const scale_row *r, uint32_t system) {
    if (is_compared(b)) printf("%-5s ", bench_systems[system].name);
    printf("%6u %7.0f %6.0f | ", r->peers, (double)r->links / r->runs, (double)r->units / r->runs);
    print_pair(&r->whole_rounds, &r->whole_messages);
    print_pair(&r->near_rounds, &r->near_messages);
    printf("%6.0f %5.0f %6.0f %6.0f %7.1f %2u/%-2u | ", figures_mean(&r->last_move), figures_mean(&r->messages),
           figures_mean(&r->labels), figures_mean(&r->frames), figures_mean(&r->kilobytes), r->quiet, r->runs);
    figures_print_mean(&r->ratio, 8, 4);
    printf("| %6.1f %4.1f | ", figures_mean(&r->router_kib), figures_mean(&r->run_kib));
    if (b->timing)
        printf("%9" PRIu64 " %7.2f %5.2f %9.2f %12.2f | ", r->events, r->seconds, (double)r->events / r->seconds / 1e6,
               r->setup_seconds, r->optimum_seconds);
    printf("%016" PRIx64 "\n", r->hash);
    figures_print_over_capacity(r->over_capacity);
}

static void put_row(json_out *o, const scale_bench *b, const scale_row *r, uint32_t system) {
    json_out_string(o, "experiment", "scale");
    json_out_string(o, "system", bench_systems[system].name);
    json_out_u64(o, "peers", r->peers);
    json_out_u64(o, "neighbours", b->neighbours);
    json_out_u64(o, "demand_percent", b->demand);
    json_out_string(o, "delay", routing_delay_name(b->settings.delay));
    json_out_u64(o, "path_limit", b->settings.path_limit);
    json_out_u64(o, "first_seed", b->first);
    json_out_u64(o, "runs", r->runs);
    json_out_double(o, "links", (double)r->links / r->runs);
    json_out_double(o, "units", (double)r->units / r->runs);
    json_out_u64(o, "quiet", r->quiet);
    json_out_u64(o, "over_capacity", r->over_capacity);
    figures_put_sample(o, "ratio", &r->ratio);
    figures_put_sample(o, "rounds_until_whole", &r->whole_rounds);
    figures_put_sample(o, "messages_until_whole", &r->whole_messages);
    figures_put_sample(o, "rounds_until_near", &r->near_rounds);
    figures_put_sample(o, "messages_until_near", &r->near_messages);
    figures_put_sample(o, "rounds_to_last_move", &r->last_move);
    figures_put_sample(o, "messages_per_peer", &r->messages);
    figures_put_sample(o, "labels_per_peer", &r->labels);
    figures_put_sample(o, "frames_per_peer", &r->frames);
    figures_put_sample(o, "kilobytes_per_peer", &r->kilobytes);
    figures_put_sample(o, "router_kib_per_peer", &r->router_kib);
    figures_put_sample(o, "run_kib_per_peer", &r->run_kib);
    json_out_u64(o, "events", r->events);
    figures_put_hash(o, r->hash);
    if (!b->timing) return;
    json_out_double(o, "seconds", r->seconds);
    json_out_double(o, "events_per_second", (double)r->events / r->seconds);
    json_out_double(o, "setup_seconds", r->setup_seconds);
    json_out_double(o, "optimum_seconds", r->optimum_seconds);
    json_out_double(o, "resident_kib", resident_kib());
}

static void print_json_row(const scale_bench *b, const scale_row *r, uint32_t system) {
    json_out o = {0};
    json_out_open(&o, NULL, '{');
    put_row(&o, b, r, system);
    figures_print_line(&o);
}

void scale_print_rows(const scale_bench *b, const scale_row row[BENCH_SYSTEMS]) {
    for (uint32_t s = 0; s < BENCH_SYSTEMS; s++) {
        if (!b->system[s]) continue;
        if (b->json)
            print_json_row(b, &row[s], s);
        else
            print_table_row(b, &row[s], s);
    }
}

braid_err scale_plot(const scale_bench *b, braid_error *error) {
    static const char *const name[] = {"until whole", "until within 5 % of the optimum", "until quiet"};
    enum { SERIES = sizeof name / sizeof *name };
    char label[SCALE_SIZES * BENCH_SYSTEMS][40];
    const char *group[SCALE_SIZES * BENCH_SYSTEMS];
    plot_bar bar[SCALE_SIZES * BENCH_SYSTEMS * SERIES];
    uint32_t groups = 0;
    for (uint32_t i = 0; i < b->sizes * BENCH_SYSTEMS; i++) {
        uint32_t s = i % BENCH_SYSTEMS;
        const scale_row *r = &b->row[i / BENCH_SYSTEMS][s];
        if (!b->system[s]) continue;
        snprintf(label[groups], sizeof label[groups], "%s%s%u peers", is_compared(b) ? bench_systems[s].name : "", is_compared(b) ? ", " : "", r->peers);
        group[groups] = label[groups];
        bar[groups * SERIES] = figures_bar(&r->whole_messages);
        bar[groups * SERIES + 1] = figures_bar(&r->near_messages);
        bar[groups++ * SERIES + 2] = figures_bar(&r->messages);
    }
    plot_bars p = {.title = "Routing in growing swarms: what each peer sends",
                   .note = "bar: mean over the seeds, whisker: worst",
                   .unit = "messages per peer",
                   .groups = groups,
                   .series = SERIES,
                   .group = group,
                   .name = name,
                   .bar = bar};
    return plot_bars_write(&p, b->plot, error);
}
