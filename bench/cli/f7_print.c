// The output of braid-bench f7: tables, JSON lines, a drawing.
#include "bench/cli/f7_inside.h"
#include "bench/cli/plot.h"
#include "format/json.h"

#include <inttypes.h>
#include <stdio.h>

// --- tables

static bool gwtf_runs(const f7_bench *b) {
    bool runs = false;
    for (uint32_t s = 0; s < BENCH_SYSTEMS; s++) runs |= b->system[s] && bench_systems[s].algorithm == ROUTER_GWTF;
    return runs;
}

static bool by_worst(const f7_bench *b) { return b->settings.objective == ROUTER_BOTTLENECK; }

static void print_optimum(const f7_bench *b, uint32_t test) {
    const f7_test *a = &b->about[test - 1];
    bool several = routing_f7_tests[test - 1].sources > 1;
    double runs = (double)b->seeds;
    printf("on average %.1f units", a->units / runs);
    if (by_worst(b))
        printf(" and a load of %.2f on the heaviest link", a->least / runs);
    else
        printf(" at %.2f each", a->least / runs);
    printf(" in the %s (proven in %u of %" PRIu64 ")", a->proven == b->seeds ? "optimum" : "optimum or its bound",
           a->proven, b->seeds);
    if (several && by_worst(b) && a->proven < b->seeds) printf("; the bound is what it would be if any data peer were home");
#ifndef BRAID_HAVE_GLPK
    if (several && !by_worst(b))
        printf("; built without GLPK, the bound is what it would cost if any data peer were home");
#endif
    if (several && a->relaxed.count > 0)
        printf("; if any data peer were home: %.4f of it", figures_mean(&a->relaxed));
    printf("\n");
}

static void print_head(const f7_bench *b, uint32_t test) {
    const routing_f7 *t = &routing_f7_tests[test - 1];
    bool worst = by_worst(b);
    printf("F7 test %u: %u data peer%s, %u relays in %u stages, capacity %u..%u, link cost %u..%u; %" PRIu64
           " seed%s from %" PRIu64 "\n",
           test, t->sources,
           t->sources > 1 ? (b->demand == ROUTING_EQUAL ? "s with equal demands" : "s with free demands") : "",
           t->relays, t->stages, t->capacity_low, t->capacity_high - 1, t->cost_low, t->cost_high - 1, b->seeds, figures_s(b->seeds),
           b->first);
    print_optimum(b, test);
    if (gwtf_runs(b))
        printf("gwtf: the end is after 120 of its iterations, 480 rounds; round 120 is after 30 of them\n");
    printf("%-10s| %-30s | ", "", worst ? "heaviest / optimum at the end" : "cost / optimum at the end");
    if (worst) printf("%-13s | ", "cost of that");
    printf("%-23s | %-25s | %-38s |\n", "at round 120", "rounds until", "sent, per peer");
    printf("%-10s| %7s %7s %5s %8s | ", "", "mean", "worst", "whole", "optimal");
    if (worst) printf("%6s %6s | ", "mean", "worst");
    printf("%7s %8s %6s | %5s %6s %5s %6s | %6s %6s %7s %7s %8s | %s\n", "mean", "worst", "whole", "whole", "last",
           "worst", "quiet", "msgs", "worst", "at 120", "frames", "KB", "hash of the trace");
}

static void print_row(const f7_row *r, bool worst, const char *system) {
    printf("%-10s| %7.4f %7.4f %5u %8u | ", system, figures_mean(&r->end), r->end.worst, r->whole, r->optimal);
    if (worst) {
        figures_print_mean(&r->sum, 6, 3);
        figures_print_worst(&r->sum, 6, 3);
        printf("| ");
    }
    figures_print_mean(&r->early, 7, 4);
    figures_print_worst(&r->early, 8, 4);
    printf("%6u | ", r->early.count);
    figures_print_mean(&r->until_whole, 5, 0);
    printf("%6.0f %5.0f %6u | %6.0f %6.0f %7.0f %7.0f %8.1f | %016" PRIx64 "\n", figures_mean(&r->last_move),
           r->last_move.worst, r->quiet, figures_mean(&r->messages), r->messages.worst,
           figures_mean(&r->early_messages), figures_mean(&r->frames), figures_mean(&r->kilobytes), r->hash);
    figures_print_over_capacity(r->over_capacity);
    if (r->untidy > 0) printf("! %u runs became quiet although two peers disagree, or a unit has no way\n", r->untidy);
    if (r->below > 0) printf("! %u runs ended below the optimum: one of the two is wrong\n", r->below);
}

static void print_tables(const f7_bench *b, uint32_t test) {
    print_head(b, test);
    for (uint32_t d = 0; d < ROUTING_DELAYS; d++) {
        if (!b->delay[d]) continue;
        printf("%s delays\n", routing_delay_name((routing_delay)d));
        for (uint32_t s = 0; s < BENCH_SYSTEMS; s++)
            if (b->system[s]) print_row(&b->row[test - 1][d][s], by_worst(b), bench_systems[s].name);
    }
    printf("\n");
}

// --- JSON

static void print_json(const f7_bench *b, uint32_t test, routing_delay delay, uint32_t system) {
    const f7_row *r = &b->row[test - 1][delay][system];
    json_out o = {0};
    json_out_open(&o, NULL, '{');
    json_out_string(&o, "experiment", "f7");
    json_out_u64(&o, "test", test);
    json_out_string(&o, "demand", b->demand == ROUTING_EQUAL ? "equal" : "free");
    json_out_string(&o, "delay", routing_delay_name(delay));
    json_out_string(&o, "system", bench_systems[system].name);
    json_out_u64(&o, "first_seed", b->first);
    json_out_u64(&o, "runs", r->runs);
    json_out_u64(&o, "optima_proven", b->about[test - 1].proven);
    bool worst = by_worst(b);
    if (worst) json_out_string(&o, "objective", "worst");
    json_out_double(&o, worst ? "optimal_load" : "optimum_per_unit", b->about[test - 1].least / (double)b->seeds);
    json_out_u64(&o, "whole", r->whole);
    json_out_u64(&o, "optimal", r->optimal);
    json_out_u64(&o, "below_optimum", r->below);
    json_out_u64(&o, "over_capacity", r->over_capacity);
    json_out_u64(&o, "untidy", r->untidy);
    json_out_u64(&o, "quiet", r->quiet);
    figures_put_sample(&o, "ratio", &r->end);
    figures_put_sample(&o, "ratio_at_120", &r->early);
    if (worst) figures_put_sample(&o, "sum_ratio", &r->sum);
    figures_put_sample(&o, "rounds_until_whole", &r->until_whole);
    figures_put_sample(&o, "rounds_to_last_move", &r->last_move);
    figures_put_sample(&o, "messages_per_peer", &r->messages);
    figures_put_sample(&o, "messages_per_peer_at_120", &r->early_messages);
    figures_put_sample(&o, "frames_per_peer", &r->frames);
    figures_put_sample(&o, "kilobytes_per_peer", &r->kilobytes);
    json_out_u64(&o, "events", r->events);
    figures_put_hash(&o, r->hash);
    figures_print_line(&o);
}

void f7_print(const f7_bench *b, uint32_t test) {
    if (!b->json) {
        print_tables(b, test);
        return;
    }
    for (uint32_t d = 0; d < ROUTING_DELAYS; d++)
        for (uint32_t s = 0; b->delay[d] && s < BENCH_SYSTEMS; s++)
            if (b->system[s]) print_json(b, test, (routing_delay)d, s);
}

// --- drawing: one group of bars for each test and kind of delay

braid_err f7_plot(const f7_bench *b, braid_error *error) {
    char label[ROUTING_TESTS * ROUTING_DELAYS][32];
    const char *group[ROUTING_TESTS * ROUTING_DELAYS], *name[BENCH_SYSTEMS];
    plot_bar bar[ROUTING_TESTS * ROUTING_DELAYS * BENCH_SYSTEMS];
    plot_bars p = {.title = by_worst(b) ? "F7: load of the heaviest link above the optimum"
                                        : "F7: cost per microbatch above the optimum",
                   .note = "bar: mean over the seeds, whisker: worst; gwtf after 480 rounds, the others once quiet",
                   .unit = "% above the optimum",
                   .group = group,
                   .name = name,
                   .bar = bar};
    for (uint32_t s = 0; s < BENCH_SYSTEMS; s++)
        if (b->system[s]) name[p.series++] = bench_systems[s].name;
    for (uint32_t t = 0; t < ROUTING_TESTS; t++)
        for (uint32_t d = 0; b->test[t] && d < ROUTING_DELAYS; d++) {
            if (!b->delay[d]) continue;
            snprintf(label[p.groups], sizeof label[0], "test %u, %s", t + 1, routing_delay_name((routing_delay)d));
            group[p.groups] = label[p.groups];
            uint32_t at = p.groups++ * p.series;
            for (uint32_t s = 0; s < BENCH_SYSTEMS; s++)
                if (b->system[s]) bar[at++] = figures_bar_above(&b->row[t][d][s].end);
        }
    return plot_bars_write(&p, b->plot, error);
}
