// braid-bench scale: the cost of routing for each peer as swarms grow, against the exact optimum on
// the same links.
#include "bench/cli/experiments.h"
#include "bench/optimum/optimum.h"
#include "bench/cli/scale_inside.h"
#include "cli/options.h"
#include "base/rng.h"
#include "bench/routing/routing_dump.h"
#include "bench/routing/scale.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char examples[] = "braid-bench scale --plot scale.svg\n"
                               "braid-bench scale --peers 100,1000 --seeds 5 --neighbours 8 --json\n"
                               "braid-bench scale --peers 100,316 --systems swarm,gwtf,braid --dump flows/\n";

enum { SCALE_MAX_PATH = 1024 };

// Processor time of this thread: other load of the machine does not count.
static double processor_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

// --- options

static bool read_sizes(scale_bench *b, const char *text) {
    uint32_t peers[SCALE_SIZES];
    option_numbers sizes = {.least = SCALE_STAGES + 1, .most = SCALE_MAX_RELAYS + 1, .room = SCALE_SIZES, .number = peers};
    if (!options_read_numbers("scale", "peers", text, &sizes)) return false;
    b->sizes = sizes.count;
    for (uint32_t i = 0; i < sizes.count; i++)
        for (uint32_t s = 0; s < BENCH_SYSTEMS; s++) b->row[i][s].peers = peers[i];
    return true;
}

// --- one swarm

static void add_result(scale_row *row, const routing_instance *instance, const routing_optimum *best,
                       const routing_result *r, double seconds) {
    double peers = instance->problem.peers;
    row->runs++;
    row->quiet += r->quiet;
    row->over_capacity += r->over_capacity > 0;
    row->links += instance->problem.links;
    row->units += (uint64_t)best->units;
    if (r->whole >= 0) {
        figures_add(&row->whole_rounds, (double)r->whole);
        figures_add(&row->whole_messages, (double)r->whole_messages / peers);
    }
    if (r->near >= 0) {
        figures_add(&row->near_rounds, (double)r->near);
        figures_add(&row->near_messages, (double)r->near_messages / peers);
    }
    if (r->end.placed) figures_add(&row->ratio, (double)r->end.paid / (double)best->cost);
    figures_add(&row->last_move, (double)r->last_move);
    figures_add(&row->messages, (double)r->messages / peers);
    figures_add(&row->labels, (double)r->by_kind[ROUTER_LABEL] / peers);
    figures_add(&row->frames, (double)r->frames / peers);
    figures_add(&row->kilobytes, (double)r->bytes / peers / 1000);
    figures_add(&row->router_kib, (double)r->router_bytes / peers / 1024);
    figures_add(&row->run_kib, (double)r->run_bytes / peers / 1024);
    row->events += r->events;
    row->seconds += seconds;
    row->hash = rng_seed(row->hash, r->hash);
}

static void note_seconds(void *at) { *(double *)at = processor_seconds(); }

static braid_err run_system(scale_bench *b, scale_row *row, uint32_t system, const routing_instance *instance, const routing_optimum *best,
                            routing_result *result, braid_error *error) {
    double begin = processor_seconds(), first_event = 0;
    routing_settings settings = b->settings;
    settings.algorithm = bench_systems[system].algorithm;
    if (settings.limit_rounds > bench_systems[system].limit_rounds) settings.limit_rounds = bench_systems[system].limit_rounds;
    settings.near_cost = best->cost + best->cost / 20;
    settings.begins = note_seconds;
    settings.whose = &first_event;
    braid_err err = routing_run(instance, &settings, best->units, result, error);
    if (err) return err;
    row->setup_seconds += first_event - begin;
    add_result(row, instance, best, result, processor_seconds() - first_event);
    return BRAID_OK;
}

static braid_err dump(const scale_bench *b, uint64_t seed, const routing_instance *instance, const routing_optimum *best,
                      const routing_result result[BENCH_SYSTEMS], braid_error *error) {
    routing_found found[BENCH_SYSTEMS + 1] = {{.system = "optimum", .flow = best->flow}};
    uint32_t count = 1;
    for (uint32_t s = 0; s < BENCH_SYSTEMS; s++) {
        const routing_result *r = &result[s];
        if (b->system[s]) found[count++] = (routing_found){bench_systems[s].name, r->flow, r->messages, r->bytes, (uint64_t)r->last_move};
    }
    char path[SCALE_MAX_PATH];
    int length = snprintf(path, sizeof path, "%s/scale-%" PRIu32 "-seed%" PRIu64 ".json", b->dump, instance->problem.peers, seed);
    if (length < 0 || (size_t)length >= sizeof path)
        return braid_fail(error, BRAID_LIMIT, "the path of --dump is longer than %zu bytes", sizeof path);
    return routing_dump(instance, found, count, path, error);
}

static braid_err run_seed(scale_bench *b, scale_row row[BENCH_SYSTEMS], uint64_t seed, braid_error *error) {
    scale_spec spec = {row[0].peers - 1, (uint32_t)b->neighbours, (uint32_t)b->demand, seed};
    routing_instance instance;
    braid_err err = scale_make(&spec, &instance, error);
    if (err) return err;
    routing_optimum best = {0};
    routing_result result[BENCH_SYSTEMS] = {0};
    double begin = processor_seconds();
    err = routing_optimum_find(&instance, 1, &best, error);
    double seconds = processor_seconds() - begin;
    for (uint32_t s = 0; s < BENCH_SYSTEMS && !err; s++) {
        if (!b->system[s]) continue;
        row[s].optimum_seconds += seconds;
        err = run_system(b, &row[s], s, &instance, &best, &result[s], error);
    }
    if (!err && b->dump != NULL) err = dump(b, seed, &instance, &best, result, error);
    for (uint32_t s = 0; s < BENCH_SYSTEMS; s++) routing_result_close(&result[s]);
    routing_optimum_close(&best);
    routing_instance_close(&instance);
    return err;
}

static int run(scale_bench *b) {
    braid_error error = {0};
    bool progress = isatty(STDERR_FILENO) != 0;
    if (!cli_can_fill("scale", "dump", b->dump) || !cli_can_write("scale", "plot", b->plot)) return CLI_FAILED;
    scale_print_head(b);
    for (uint32_t i = 0; i < b->sizes; i++) {
        scale_row *row = b->row[i];
        for (uint64_t s = 0; s < b->seeds; s++) {
            if (progress)
                fprintf(stderr, "\r%" PRIu32 " peers, seed %" PRIu64 " of %" PRIu64 " ", row[0].peers, s + 1, b->seeds);
            if (run_seed(b, row, b->first + s, &error))
                return cli_complain(CLI_FAILED, "scale", "%u peers: %s", row[0].peers, error.text);
        }
        if (progress) fprintf(stderr, "\r\x1b[K");
        scale_print_rows(b, row);
        fflush(stdout);
    }
    if (b->plot != NULL && scale_plot(b, &error)) return cli_complain(CLI_FAILED, "scale", "%s", error.text);
    return CLI_OK;
}

int bench_scale(int argc, char **argv) {
    scale_bench b = {.seeds = 1,
                     .neighbours = 16,
                     .demand = 90,
                     .settings = {.gather = true, .seldom = true}};
    uint64_t limit = 2000, path_limit = 24, hold = 0;
    double slack = 0.05;
    const char *sizes = "100,316,1000,3162,10000", *delay = "lockstep", *systems = "braid";
    option table[] = {
        {"peers", OPTION_TEXT, &sizes, .unit = "LIST", .help = "sizes of the swarms, separated by commas"},
        {"seeds", OPTION_COUNT, &b.seeds, .help = "swarms of each size", .min = 1, .max = 1000},
        {"first", OPTION_COUNT, &b.first, .help = "the first seed", .max = 1e15},
        {"neighbours", OPTION_COUNT, &b.neighbours, .help = "of a relay in each of the two next stages, at most",
         .min = 2, .max = SCALE_MAX_NEIGHBOURS},
        {"demand", OPTION_COUNT, &b.demand, .help = "percent of what fits through the narrowest stage", .min = 1,
         .max = 100},
        {"systems", OPTION_TEXT, &systems, .unit = "LIST", .help = "which of swarm, gwtf (at most 480 rounds) and braid"},
        {"delay", OPTION_TEXT, &delay, .unit = "KIND",
         .help = "how long messages take: lockstep, uniform, exponential or heavy-tailed; mean always one round"},
        {"limit-rounds", OPTION_COUNT, &limit, .help = "ends a run that is not quiet by then", .min = 1, .max = 1e6},
        {"path-limit", OPTION_COUNT, &path_limit, .help = "longest path in a label", .min = 2, .max = ROUTER_MAX_PATH},
        {"hold", OPTION_COUNT, &hold, .help = "rounds between two labels to one neighbour, 0: the default",
         .max = 1000},
        {"plan-first", OPTION_SWITCH, &b.settings.plan_first, .help = "braid: the first ways are planned, on a map of the run"},
        {"slack", OPTION_REAL, &slack, .help = "cost per link below which a gain is left alone", .max = 1000},
        {"json", OPTION_SWITCH, &b.json, .help = "one JSON object a row instead of a table"},
        {"timing", OPTION_SWITCH, &b.timing, .help = "show how fast the simulator was; differs from run to run"},
        {"plot", OPTION_TEXT, &b.plot, .unit = "FILE.svg", .help = "draws the messages per peer"},
        {"dump", OPTION_TEXT, &b.dump, .unit = "DIR", .help = "writes every instance and every system's paths (JSON)"},
    };
    options o = {.verb = "scale",
                 .summary = "Measures what routing costs each peer, from small swarms to large ones.",
                 .examples = examples,
                 .table = table,
                 .count = sizeof table / sizeof *table};
    int code = CLI_OK;
    if (!options_parse(&o, argc, argv, &code)) return code;
    b.settings.limit_rounds = (int64_t)limit;
    b.settings.path_limit = (uint32_t)path_limit;
    b.settings.hold = (int64_t)hold;
    b.settings.slack = (int64_t)(slack * ROUTING_SCALE + 0.5);
    bool good = read_sizes(&b, sizes) && bench_read_systems("scale", systems, b.system) && bench_read_delay("scale", delay, &b.settings.delay);
    code = good ? run(&b) : CLI_USAGE;
    options_close(&o);
    return code;
}
