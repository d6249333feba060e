// braid-bench f7: routing systems on GWTF's flow tests, all on the same instances, against the
// optimum.
#include "bench/cli/experiments.h"
#include "bench/optimum/optimum.h"
#include "bench/cli/f7_inside.h"
#include "cli/options.h"
#include "base/rng.h"
#include "bench/routing/routing_dump.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char examples[] = "braid-bench f7 --seeds 20\n"
                               "braid-bench f7 --tests 1,3 --delays exponential,heavy-tailed\n"
                               "braid-bench f7 --tests 1,2,3,4 --objective worst\n"
                               "braid-bench f7 --seeds 100 --plot f7.svg --dump flows/\n";

enum { F7_MAX_PATH = 1024 };

// --- options

static bool read_sets(f7_bench *b, const char *tests, const char *delays, const char *systems, const char *demand,
                      const char *objective) {
    static const char *const numbers[ROUTING_TESTS] = {"1", "2", "3", "4", "5", "6"};
    static const char *const demands[] = {"equal", "free"};
    const char *delay[ROUTING_DELAYS];
    uint32_t free_demand = 0;
    for (uint32_t i = 0; i < ROUTING_DELAYS; i++) delay[i] = routing_delay_name((routing_delay)i);
    if (!options_read_set("f7", "tests", tests, numbers, ROUTING_TESTS, b->test) ||
        !options_read_set("f7", "delays", delays, delay, ROUTING_DELAYS, b->delay) ||
        !bench_read_systems("f7", systems, b->system) ||
        !options_read_choice("f7", "demand", demand, demands, 2, &free_demand) ||
        !bench_read_objective("f7", objective, &b->settings.objective) || !bench_may_plan("f7", &b->settings))
        return false;
    b->demand = free_demand ? ROUTING_FREE : ROUTING_EQUAL;
    return true;
}

// --- one instance

static bool by_worst(const f7_bench *b) { return b->settings.objective == ROUTER_BOTTLENECK; }

// The value of a flow by the objective.
static int64_t value_of(const f7_bench *b, const routing_sight *s) { return by_worst(b) ? s->worst : s->cost; }

static double least_of(const routing_optimum *best) { return best->proven ? (double)best->cost : best->bound; }

// The average cost of a microbatch, or the heaviest load of a link, over that of the optimum, both
// as far as they are known.
static double ratio_of(const f7_bench *b, const routing_sight *s, const routing_optimum *best) {
    if (by_worst(b)) return (double)s->worst / least_of(best);
    return (double)s->cost / (double)s->units / (least_of(best) / (double)best->units);
}

static void add_result(const f7_bench *b, f7_row *row, const routing_instance *instance, const routing_optimum *best,
                       const routing_result *r) {
    double peers = instance->problem.peers;
    bool whole = r->end.whole;
    row->untidy += r->quiet && !r->end.consistent;
    row->runs++;
    row->whole += whole;
    row->quiet += r->quiet;
    row->optimal += whole && best->proven && value_of(b, &r->end) == best->cost;
    row->below += whole && (double)value_of(b, &r->end) < least_of(best) - 0.5;
    row->over_capacity += r->over_capacity > 0;
    if (r->end.units > 0) figures_add(&row->end, ratio_of(b, &r->end, best));
    if (by_worst(b) && whole) figures_add(&row->sum, (double)r->end.cost / (double)best->sum);
    if (r->early.whole) figures_add(&row->early, ratio_of(b, &r->early, best));
    if (r->whole >= 0) figures_add(&row->until_whole, (double)r->whole);
    figures_add(&row->last_move, (double)r->last_move);
    figures_add(&row->messages, (double)r->messages / peers);
    figures_add(&row->early_messages, (double)r->early_messages / peers);
    figures_add(&row->frames, (double)r->frames / peers);
    figures_add(&row->kilobytes, (double)r->bytes / peers / 1000);
    row->events += r->events;
    row->hash = rng_seed(row->hash, r->hash);
}

static braid_err dump(const f7_bench *b, uint32_t test, uint64_t seed, routing_delay delay,
                      const routing_instance *instance, const routing_found *found, uint32_t count,
                      braid_error *error) {
    char path[F7_MAX_PATH];
    int length = snprintf(path, sizeof path, "%s/f7-test%" PRIu32 "-seed%" PRIu64 "-%s.json", b->dump, test, seed,
                          routing_delay_name(delay));
    if (length < 0 || (size_t)length >= sizeof path)
        return braid_fail(error, BRAID_LIMIT, "the path of --dump is longer than %zu bytes", sizeof path);
    return routing_dump(instance, found, count, path, error);
}

static braid_err run_systems(f7_bench *b, uint32_t test, uint64_t seed, routing_delay delay,
                             const routing_instance *instance, const routing_optimum *best, braid_error *error) {
    routing_result result[BENCH_SYSTEMS] = {0};
    routing_found found[BENCH_SYSTEMS + 1];
    uint32_t count = 0;
    braid_err err = BRAID_OK;
    if (best->flow != NULL)
        found[count++] = (routing_found){best->proven ? "optimum" : "best known", best->flow, 0, 0, 0};
    for (uint32_t s = 0; s < BENCH_SYSTEMS && !err; s++) {
        if (!b->system[s]) continue;
        routing_settings settings = b->settings;
        settings.algorithm = bench_systems[s].algorithm;
        if (settings.slack == 0) settings.slack = instance->sources > 1 ? ROUTING_SLACK_SHARED : ROUTING_SLACK;
        settings.limit_rounds = bench_systems[s].limit_rounds;
        settings.delay = delay;
        err = routing_run(instance, &settings, best->units, &result[s], error);
        if (err) break;
        add_result(b, &b->row[test - 1][delay][s], instance, best, &result[s]);
        found[count++] = (routing_found){bench_systems[s].name, result[s].flow, result[s].messages, result[s].bytes,
                                         (uint64_t)result[s].last_move};
    }
    if (!err && b->dump != NULL) err = dump(b, test, seed, delay, instance, found, count, error);
    for (uint32_t s = 0; s < BENCH_SYSTEMS; s++) routing_result_close(&result[s]);
    return err;
}

static braid_err run_instance(f7_bench *b, uint32_t test, uint64_t seed, braid_error *error) {
    routing_instance instance = {0};
    routing_optimum best = {0};
    braid_err err = routing_f7_make(test, seed, b->demand, b->listing, &instance, error);
    if (!err && by_worst(b)) err = routing_optimum_worst(&instance, (uint32_t)b->seconds, &best, error);
    if (!err && !by_worst(b)) err = routing_optimum_find(&instance, (uint32_t)b->seconds, &best, error);
    if (!err) {
        f7_test *t = &b->about[test - 1];
        t->units += (double)best.units;
        t->least += least_of(&best) / (by_worst(b) ? 1 : (double)best.units) / ROUTING_SCALE;
        t->proven += best.proven;
        if (best.proven) figures_add(&t->relaxed, (double)best.relaxed / (double)best.cost);
    }
    for (uint32_t d = 0; d < ROUTING_DELAYS && !err; d++)
        if (b->delay[d]) err = run_systems(b, test, seed, (routing_delay)d, &instance, &best, error);
    routing_optimum_close(&best);
    routing_instance_close(&instance);
    return err;
}

static braid_err run_test(f7_bench *b, uint32_t test, braid_error *error) {
    bool progress = isatty(STDERR_FILENO) != 0;
    braid_err err = BRAID_OK;
    for (uint64_t i = 0; i < b->seeds && !err; i++) {
        if (progress) fprintf(stderr, "\rtest %" PRIu32 ", seed %" PRIu64 " of %" PRIu64 " ", test, i + 1, b->seeds);
        err = run_instance(b, test, b->first + i, error);
    }
    if (progress) fprintf(stderr, "\r\x1b[K");
    return err;
}

static int run(f7_bench *b) {
    braid_error error = {0};
    if (!cli_can_fill("f7", "dump", b->dump) || !cli_can_write("f7", "plot", b->plot)) return CLI_FAILED;
    for (uint32_t test = 1; test <= ROUTING_TESTS; test++) {
        if (!b->test[test - 1]) continue;
        if (run_test(b, test, &error)) return cli_complain(CLI_FAILED, "f7", "test %u: %s", test, error.text);
        f7_print(b, test);
        fflush(stdout);
    }
    if (b->plot != NULL && f7_plot(b, &error)) return cli_complain(CLI_FAILED, "f7", "%s", error.text);
    return CLI_OK;
}

int bench_f7(int argc, char **argv) {
    f7_bench *b = calloc(1, sizeof *b);
    if (b == NULL) return cli_complain(CLI_FAILED, "f7", "out of memory");
    b->seeds = 100;
    b->seconds = 60;
    uint64_t hold = 0, lazy = ROUTER_LAZY, path_limit = 0;
    double slack = 0;
    bool gather = true, plan_first = false;
    const char *tests = "1,2,3,4,5,6", *delays = "lockstep", *systems = "swarm,gwtf,braid", *demand = "equal";
    const char *objective = "sum";
    option table[] = {
        {"tests", OPTION_TEXT, &tests, .unit = "LIST", .help = "which of the tests 1 to 6, separated by commas"},
        {"seeds", OPTION_COUNT, &b->seeds, .help = "instances of each test", .min = 1, .max = 1e6},
        {"first", OPTION_COUNT, &b->first, .help = "the first seed", .max = 1e15},
        {"systems", OPTION_TEXT, &systems, .unit = "LIST", .help = "which of swarm, gwtf and braid"},
        {"delays", OPTION_TEXT, &delays, .unit = "LIST",
         .help = "how long messages take: lockstep, uniform, exponential, heavy-tailed; mean always one round"},
        {"demand", OPTION_TEXT, &demand, .unit = "equal|free",
         .help = "several data peers: each sends its share, or as much as fits"},
        {"objective", OPTION_TEXT, &objective, .unit = "sum|worst",
         .help = "what is to be smallest: the sum of costs, or the heaviest link (units times cost)"},
        {"json", OPTION_SWITCH, &b->json, .help = "one JSON object a row instead of tables"},
        {"plot", OPTION_TEXT, &b->plot, .unit = "FILE.svg", .help = "draws the costs above the optimum"},
        {"dump", OPTION_TEXT, &b->dump, .unit = "DIR", .help = "writes every instance and every system's paths (JSON)"},
        {"hold", OPTION_COUNT, &hold, .help = "braid: rounds between two labels to one neighbour, 0: its default",
         .max = 1000},
        {"lazy", OPTION_COUNT, &lazy, .help = "braid: rounds that news of a way waits at most",
         .max = 1000},
        {"plan-first", OPTION_SWITCH, &plan_first, .help = "braid: the first ways are planned, on a map of the run"},
        {"path-limit", OPTION_COUNT, &path_limit, .help = "braid: longest path in a label, 0: its default",
         .max = ROUTER_MAX_PATH},
        {"slack", OPTION_REAL, &slack, .help = "braid: cost per link below which a gain is left alone, 0: 0.02, several data peers 0.05",
         .max = 1000},
        {"gather", OPTION_SWITCH, &gather, .help = "jittered delays: wait a quarter round for what else comes",
         .fallback = "yes"},
        {"solver-time", OPTION_COUNT, &b->seconds, .help = "seconds for the optimum of one instance of tests 5 and 6",
         .min = 1, .max = 86400},
        {"listing", OPTION_COUNT, &b->listing, .help = "lists peers in another order: nothing may change", .max = 1e15},
    };
    options o = {.verb = "f7",
                 .summary = "Measures routing on GWTF's flow tests: cost over the optimum, rounds, messages.",
                 .examples = examples,
                 .table = table,
                 .count = sizeof table / sizeof *table};
    int code = CLI_OK;
    if (options_parse(&o, argc, argv, &code)) {
        b->settings = (routing_settings){.slack = (int64_t)(slack * ROUTING_SCALE + 0.5),
                                         .hold = (int64_t)hold,
                                         .lazy = lazy == 0 ? -1 : (int64_t)lazy,
                                         .plan_first = plan_first,
                                         .path_limit = (uint32_t)path_limit,
                                         .gather = gather};
        code = read_sets(b, tests, delays, systems, demand, objective) ? run(b) : CLI_USAGE;
        options_close(&o);
    }
    free(b);
    return code;
}
