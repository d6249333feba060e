// braid-bench f5: the stage of joining peers (GWTF, Table IV and Figure 5).
#include "bench/cli/experiments.h"
#include "bench/cli/figures.h"
#include "bench/routing/f5.h"
#include "cli/options.h"

#include <inttypes.h>
#include <stdio.h>

typedef struct f5_row {
    figures_sample improvement, messages, kilobytes;
} f5_row;

typedef struct f5_bench {
    uint64_t seeds, first;
    bool json;
    const char *plot;
    f5_row row[F5_TESTS][F5_SYSTEMS];
} f5_bench;

static const char examples[] = "braid-bench f5\n"
                               "braid-bench f5 --json --first 7 --seeds 1\n"
                               "braid-bench f5 --seeds 20 --plot f5.svg\n";

static double mean_of(const figures_sample *s) { return figures_mean(s); }

static double of_optimum(const f5_bench *b, uint32_t test, uint32_t system) {
    double best = mean_of(&b->row[test][F5_OPTIMUM].improvement);
    return best == 0 ? 0 : mean_of(&b->row[test][system].improvement) / best;
}

static braid_err run_test(f5_bench *b, uint32_t test, braid_error *error) {
    for (uint64_t seed = b->first; seed < b->first + b->seeds; seed++)
        for (uint32_t system = 0; system < F5_SYSTEMS; system++) {
            f5_row *row = &b->row[test][system];
            f5_result r;
            braid_err err = f5_run(test + 1, seed, (f5_system)system, &r, error);
            if (err) return err;
            figures_add(&row->improvement, (double)(r.before - r.after) / (double)r.before);
            figures_add(&row->messages, (double)r.messages / F5_JOINERS);
            figures_add(&row->kilobytes, (double)r.bytes / F5_JOINERS / 1000);
        }
    return BRAID_OK;
}

static void print_json(const f5_bench *b, uint32_t test, uint32_t system) {
    const f5_row *row = &b->row[test][system];
    json_out o = {0};
    json_out_open(&o, NULL, '{');
    json_out_string(&o, "experiment", "f5");
    json_out_u64(&o, "test", test + 1);
    json_out_string(&o, "system", f5_system_name((f5_system)system));
    json_out_u64(&o, "first", b->first);
    json_out_u64(&o, "seeds", b->seeds);
    json_out_double(&o, "improvement", mean_of(&row->improvement));
    json_out_double(&o, "of_optimum", of_optimum(b, test, system));
    figures_put_spread(&o, "improvement_spread", &row->improvement);
    json_out_double(&o, "messages_a_joiner", mean_of(&row->messages));
    json_out_double(&o, "kilobytes_a_joiner", mean_of(&row->kilobytes));
    figures_print_line(&o);
}

static void print_row(const f5_bench *b, uint32_t test, uint32_t system) {
    const f5_row *row = &b->row[test][system];
    printf("%4u %-9s ", test + 1, f5_system_name((f5_system)system));
    figures_print_mean(&row->improvement, 11, 3);
    printf("%10.3f ", of_optimum(b, test, system));
    figures_print_mean(&row->messages, 10, 0);
    figures_print_mean(&row->kilobytes, 8, 1);
    printf("\n");
}

static braid_err plot(const f5_bench *b, braid_error *error) {
    static const char *const group[] = {"test 1", "test 2", "test 3", "test 4", "test 5"};
    const char *name[F5_SYSTEMS];
    plot_bar bar[F5_TESTS * F5_SYSTEMS];
    for (uint32_t s = 0; s < F5_SYSTEMS; s++) name[s] = f5_system_name((f5_system)s);
    for (uint32_t t = 0; t < F5_TESTS; t++)
        for (uint32_t s = 0; s < F5_SYSTEMS; s++) bar[t * F5_SYSTEMS + s] = figures_bar(&b->row[t][s].improvement);
    plot_bars p = {.title = "20 joining peers: improvement of the flow's cost",
                   .note = "bar: mean over the seeds, whisker: largest; higher is better",
                   .unit = "(before - after) / before",
                   .groups = F5_TESTS,
                   .series = F5_SYSTEMS,
                   .group = group,
                   .name = name,
                   .bar = bar};
    return plot_bars_write(&p, b->plot, error);
}

static int run(f5_bench *b) {
    braid_error error = {0};
    if (!cli_can_write("f5", "plot", b->plot)) return CLI_FAILED;
    if (!b->json)
        printf("f5: %d peers, %d joiners one after another; %" PRIu64 " seed%s from %" PRIu64
               "\n%-4s %-9s %11s %10s %10s %8s\n",
               F5_PEERS, F5_JOINERS, b->seeds, figures_s(b->seeds), b->first, "test", "system", "improvement",
               "of optimum", "messages", "KB");
    for (uint32_t test = 0; test < F5_TESTS; test++) {
        if (run_test(b, test, &error)) return cli_complain(CLI_FAILED, "f5", "test %u: %s", test + 1, error.text);
        for (uint32_t system = 0; system < F5_SYSTEMS; system++) {
            if (b->json)
                print_json(b, test, system);
            else
                print_row(b, test, system);
        }
        fflush(stdout);
    }
    if (b->plot != NULL && plot(b, &error)) return cli_complain(CLI_FAILED, "f5", "%s", error.text);
    return CLI_OK;
}

int bench_f5(int argc, char **argv) {
    f5_bench b = {.seeds = 1, .first = 1};
    option table[] = {
        {"seeds", OPTION_COUNT, &b.seeds, .help = "runs of each test", .min = 1, .max = 1000},
        {"first", OPTION_COUNT, &b.first, .help = "the first seed", .max = 1e15},
        {"json", OPTION_SWITCH, &b.json, .help = "one JSON object a row instead of a table"},
        {"plot", OPTION_TEXT, &b.plot, .unit = "FILE.svg", .help = "draws the improvements"},
    };
    options o = {.verb = "f5",
                 .summary = "Measures what the stage of a joining peer is worth, by several rules.",
                 .examples = examples,
                 .table = table,
                 .count = sizeof table / sizeof *table};
    int code = CLI_OK;
    if (!options_parse(&o, argc, argv, &code)) return code;
    code = run(&b);
    options_close(&o);
    return code;
}
