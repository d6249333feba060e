// braid-bench churn-trace: a recorded trace of spot machines, replayed with T2's model: goodput of
// each system, beside restarts from a checkpoint at the best interval.
#include "bench/cli/experiments.h"
#include "bench/cli/figures.h"
#include "bench/cli/plot.h"
#include "bench/training/churn_trace.h"
#include "cli/options.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SYSTEMS = 4, STARTS = 3, INTERVALS = 60, PER_ITERATION = T2_DATA * T2_MICROBATCHES };

typedef struct row_system {
    const char *name;
    t2_system system;
    t2_placement placement;
} row_system;

static const row_system systems[SYSTEMS] = {
    {"swarm", T2_SWARM, T2_PLACE_CAPACITY},
    {"gwtf", T2_GWTF, T2_PLACE_CAPACITY},
    {"braid, no moves", T2_BRAID, T2_PLACE_STAY},
    {"braid", T2_BRAID, T2_PLACE_GAIN},
};
static const char *const names[SYSTEMS] = {"swarm", "gwtf", "stay", "braid"};

typedef struct row {
    bool wanted;
    sim_swarm_report report;
    double possible;  // iterations of the oracle until the last FINAL
} row;

typedef struct restart_row {
    double start_s, interval_min, iterations, possible;
} restart_row;

typedef struct trace_bench {
    const char *path, *plot, *capacity, *systems;
    uint64_t seed, hours;
    bool json;
    churn_trace trace;
    uint64_t end_ns;
    churn_span span[CHURN_TRACE_MAX_EVENTS + 1];
    uint32_t spans;
    row row[SYSTEMS];
    restart_row restart[STARTS];
} trace_bench;

static const char examples[] = "braid-bench churn-trace --trace churn-g4dn.csv\n"
                               "braid-bench churn-trace --trace churn-g4dn.csv --hours 2 --systems braid --json\n"
                               "braid-bench churn-trace --trace churn-g4dn.csv --plot churn-trace.svg\n";

static double goodput(const row *r) { return r->possible == 0 ? 0 : 100 * r->report.iterations / r->possible; }

// --- runs

static void show_progress(void *context, const sim_swarm_progress *now) {
    fprintf(stderr, "\r\x1b[K%s: iteration %" PRIu64 ", %.2f h, %u machines", (const char *)context, now->iteration,
            (double)now->virtual_ns / 3600e9, now->peers - T2_DATA);
    fflush(stderr);
}

static braid_err run_system(trace_bench *b, const t2_case *shape, uint32_t i, braid_error *error) {
    t2_case c = *shape;
    row *r = &b->row[i];
    c.placement = systems[i].placement;
    sim_swarm_options how = {.check = SIM_CHECK_LIVENESS,
                             .progress = isatty(STDERR_FILENO) ? show_progress : NULL,
                             .context = (void *)(uintptr_t)systems[i].name};
    braid_err err = churn_trace_run(&b->trace, &c, systems[i].system, b->end_ns, &how, &r->report, error);
    if (err) return err;
    if (r->report.failed) return braid_fail(error, BRAID_STATE, "%s: %s", systems[i].name, r->report.text);
    uint64_t last_ns = r->report.iterations > 0 ? r->report.iteration[r->report.iterations - 1].end_ns : 0;
    r->possible = churn_trace_possible(b->span, b->spans, 0, last_ns);
    return BRAID_OK;
}

// The best interval, in minutes, for each time that a restart takes beside the fetch of the state.
static void run_restarts(trace_bench *b) {
    static const double start_s[STARTS] = {0, 60, 300};
    double possible = churn_trace_possible(b->span, b->spans, 0, b->end_ns);
    for (uint32_t i = 0; i < STARTS; i++) {
        b->restart[i] = (restart_row){.start_s = start_s[i], .possible = possible};
        for (uint32_t minutes = 0; minutes < INTERVALS; minutes++) {
            const churn_restart r = {(uint64_t)minutes * 60000000000u, (uint64_t)(start_s[i] * 1e9)};
            double done = churn_trace_restart(b->span, b->spans, &r, b->end_ns);
            if (done <= b->restart[i].iterations) continue;
            b->restart[i].iterations = done;
            b->restart[i].interval_min = minutes;
        }
    }
}

// --- output

static void print_table(const trace_bench *b) {
    uint32_t least = UINT32_MAX, most = 0;
    for (uint32_t i = 0; i < b->spans; i++) {
        if (b->span[i].live < least) least = b->span[i].live;
        if (b->span[i].live > most) most = b->span[i].live;
    }
    printf("churn-trace: %.2f h, %u to %u machines at once (%s), %d data peers, %d microbatches an iteration, seed "
           "%" PRIu64 "\n",
           (double)b->end_ns / 3600e9, least, most, b->capacity, T2_DATA, PER_ITERATION, b->seed);
    printf("%-34s %12s %10s %9s %8s %8s %14s\n", "", "microbatches", "goodput, %", "repairs", "joins", "crashes",
           "delayed deaths");
    printf("%-34s %12.0f %10.1f\n", "live machines (oracle)", PER_ITERATION * b->restart[0].possible, 100.0);
    for (uint32_t i = 0; i < STARTS; i++) {
        char name[64];
        snprintf(name, sizeof name, "restart in %.0f s + state, every %.0f min", b->restart[i].start_s,
                 b->restart[i].interval_min);
        printf("%-34s %12.0f %10.1f\n", name, PER_ITERATION * b->restart[i].iterations,
               100 * b->restart[i].iterations / b->restart[i].possible);
    }
    for (uint32_t i = 0; i < SYSTEMS; i++) {
        const sim_swarm_report *r = &b->row[i].report;
        if (!b->row[i].wanted) continue;
        printf("%-34s %12u %10.1f %9" PRIu64 " %8" PRIu64 " %8" PRIu64 " %5u, %6.0f s\n", systems[i].name,
               PER_ITERATION * r->iterations, goodput(&b->row[i]), r->repairs, r->joins, r->crashes, r->delayed,
               (double)r->delayed_ns / 1e9);
    }
}

static void print_json(const trace_bench *b) {
    for (uint32_t i = 0; i < STARTS; i++) {
        json_out o = {0};
        json_out_open(&o, NULL, '{');
        json_out_string(&o, "experiment", "churn-trace");
        json_out_string(&o, "system", "restart");
        json_out_double(&o, "start_s", b->restart[i].start_s);
        json_out_double(&o, "interval_min", b->restart[i].interval_min);
        json_out_double(&o, "iterations", b->restart[i].iterations);
        json_out_double(&o, "goodput", b->restart[i].iterations / b->restart[i].possible);
        figures_print_line(&o);
    }
    for (uint32_t i = 0; i < SYSTEMS; i++) {
        const sim_swarm_report *r = &b->row[i].report;
        json_out o = {0};
        if (!b->row[i].wanted) continue;
        json_out_open(&o, NULL, '{');
        json_out_string(&o, "experiment", "churn-trace");
        json_out_string(&o, "system", names[i]);
        json_out_u64(&o, "seed", b->seed);
        json_out_u64(&o, "iterations", r->iterations);
        json_out_double(&o, "goodput", goodput(&b->row[i]) / 100);
        json_out_u64(&o, "repairs", r->repairs);
        json_out_u64(&o, "delayed_deaths", r->delayed);
        json_out_double(&o, "delayed_s", (double)r->delayed_ns / 1e9);
        figures_put_hash(&o, r->hash);
        figures_print_line(&o);
    }
}

// --- the drawing

static double per_minute(uint64_t iteration_ns) { return PER_ITERATION * 60e9 / (double)iteration_ns; }

static void add_oracle(const trace_bench *b, plot_step *live, plot_step *pace) {
    for (uint32_t i = 0; i < b->spans; i++) {
        double at = (double)b->span[i].from_ns / 3600e9;
        live[i] = (plot_step){at, b->span[i].live};
        pace[i] = (plot_step){at, per_minute(b->span[i].iteration_ns)};
    }
}

static plot_line line_of(const trace_bench *b, uint32_t system, plot_step *step) {
    const sim_swarm_report *r = &b->row[system].report;
    for (uint32_t i = 0; i < r->iterations; i++)
        step[i] = (plot_step){(double)r->iteration[i].start_ns / 3600e9,
                              per_minute(r->iteration[i].end_ns - r->iteration[i].start_ns)};
    return (plot_line){systems[system].name, step, r->iterations};
}

static braid_err plot(const trace_bench *b, braid_error *error) {
    size_t all = 2 * (size_t)b->spans, used = all;
    for (uint32_t i = 0; i < SYSTEMS; i++) all += b->row[i].report.iterations;
    plot_step *step = calloc(all + 1, sizeof *step);
    if (step == NULL) return braid_fail(error, BRAID_MEMORY, "no memory for the drawing");
    add_oracle(b, step, step + b->spans);
    plot_line live = {"live machines", step, b->spans},
              pace[SYSTEMS + 1] = {{"live machines could", step + b->spans, b->spans}};
    uint32_t paces = 1;
    for (uint32_t i = 0; i < SYSTEMS; i++) {
        if (!b->row[i].wanted) continue;
        pace[paces++] = line_of(b, i, step + used);
        used += b->row[i].report.iterations;
    }
    const plot_panel panel[] = {{"machines", &live, 1}, {"microbatches / min", pace, paces}};
    const plot_steps p = {
        .title = "A trace of spot machines: live machines and throughput",
        .unit = "hours",
        .note =
            "Throughput of each iteration, from FINAL to FINAL; 'live machines could': the oracle's, without deaths",
        .end = (double)b->end_ns / 3600e9,
        .panel = panel,
        .panels = 2};
    braid_err err = plot_steps_write(&p, b->plot, error);
    free(step);
    return err;
}

static braid_err run_all(trace_bench *b, bool heterogeneous, braid_error *error) {
    braid_err err = churn_trace_read(b->path, &b->trace, error);
    if (err) return err;
    b->end_ns = b->trace.end_ns;
    if (b->hours > 0 && b->hours * 3600000000000u < b->end_ns) b->end_ns = b->hours * 3600000000000u;
    t2_case c = {.heterogeneous = heterogeneous, .iterations = SCENARIO_MAX_ITERATIONS, .seed = b->seed};
    err = churn_trace_spans(&b->trace, &c, b->end_ns, b->span, &b->spans, error);
    if (!err) run_restarts(b);
    for (uint32_t i = 0; i < SYSTEMS && !err; i++)
        if (b->row[i].wanted) err = run_system(b, &c, i, error);
    if (isatty(STDERR_FILENO)) fprintf(stderr, "\r\x1b[K");
    return err;
}

static int run(trace_bench *b) {
    static const char *const capacities[] = {"hom", "het"};
    braid_error error = {0};
    uint32_t capacity = 0;
    bool wanted[SYSTEMS];
    if (b->path == NULL)
        return cli_complain(CLI_USAGE, "churn-trace", "--trace FILE is missing: lines MILLISECONDS,add|remove,NAME");
    if (!options_read_choice("churn-trace", "capacity", b->capacity, capacities, 2, &capacity) ||
        !options_read_set("churn-trace", "systems", b->systems, names, SYSTEMS, wanted))
        return CLI_USAGE;
    if (!cli_can_write("churn-trace", "plot", b->plot)) return CLI_FAILED;
    for (uint32_t i = 0; i < SYSTEMS; i++) b->row[i].wanted = wanted[i];
    braid_err err = run_all(b, capacity == 1, &error);
    if (!err && b->json) print_json(b);
    if (!err && !b->json) print_table(b);
    if (!err && b->plot != NULL) err = plot(b, &error);
    for (uint32_t i = 0; i < SYSTEMS; i++) sim_swarm_report_free(&b->row[i].report);
    return err ? cli_complain(CLI_FAILED, "churn-trace", "%s", error.text) : CLI_OK;
}

int bench_churn_trace(int argc, char **argv) {
    trace_bench *b = calloc(1, sizeof *b);
    if (b == NULL) return cli_complain(CLI_FAILED, "churn-trace", "no memory");
    b->seed = 1;
    b->capacity = "het";
    b->systems = "swarm,gwtf,stay,braid";
    option table[] = {
        {"trace", OPTION_TEXT, &b->path, .unit = "FILE.csv", .help = "lines MILLISECONDS,add|remove,NAME"},
        {"systems", OPTION_TEXT, &b->systems, .unit = "LIST",
         .help = "which of swarm, gwtf, stay (braid without moves) and braid, separated by commas"},
        {"capacity", OPTION_TEXT, &b->capacity, .unit = "hom|het", .help = "relays hold 4, or 1 to 3 microbatches"},
        {"hours", OPTION_COUNT, &b->hours, .help = "of the trace, 0: all", .max = 10000},
        {"seed", OPTION_COUNT, &b->seed, .help = "of places and capacities", .max = 1e15},
        {"json", OPTION_SWITCH, &b->json, .help = "one JSON object a row instead of a table"},
        {"plot", OPTION_TEXT, &b->plot, .unit = "FILE.svg", .help = "draws live machines and throughput"},
    };
    options o = {.verb = "churn-trace",
                 .summary = "Replays a trace of machines that come and go, with T2's model: goodput over what the live "
                            "machines could have done.",
                 .examples = examples,
                 .table = table,
                 .count = sizeof table / sizeof *table};
    int code = CLI_OK;
    if (options_parse(&o, argc, argv, &code)) {
        code = run(b);
        options_close(&o);
    }
    free(b);
    return code;
}
