// braid bench drift: the costs of a settled swarm's links drift; how close routing stays to the optimum of the moment, and
// how many units it moves and messages it sends for that.
#include "cli/bench_drift_inside.h"

#include "base/rng.h"
#include "cli/bench.h"
#include "cli/options.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { QUIET_ROUNDS = 40000, SECOND_NS = 1000000000 };

static const char examples[] = "braid bench drift --seeds 10\n"
                               "braid bench drift --tests 1 --told band --band 10 --leg 60s\n"
                               "braid bench drift --tests 3 --plot drift.svg\n";

static braid_err open_rows(drift_bench *b) {
    b->looks = b->drift.seconds / b->drift.look_seconds;
    for (uint32_t t = 0; t < ROUTING_TOLDS; t++) {
        for (uint32_t f = 0; f < ROUTING_FOLLOWERS; f++) {
            b->row[t].ratio[f] = calloc(b->looks + 1, sizeof(double));
            if (b->row[t].ratio[f] == NULL) return BRAID_MEMORY;
        }
    }
    return BRAID_OK;
}

static void close_rows(drift_bench *b) {
    for (uint32_t t = 0; t < ROUTING_TOLDS; t++)
        for (uint32_t f = 0; f < ROUTING_FOLLOWERS; f++) free(b->row[t].ratio[f]);
    memset(b->row, 0, sizeof b->row);
}

static void add_run(drift_row *row, const routing_instance *i, const routing_drift_result *r,
                    const routing_optimum *best) {
    double peers = i->problem.peers, links = i->problem.stages + 1;
    row->runs++;
    row->units += (double)best->units;
    row->link_cost += (double)best->cost / (double)best->units / links / ROUTING_SCALE;
    for (uint32_t f = 0; f < ROUTING_FOLLOWERS; f++) {
        const routing_followed *followed = &r->follower[f];
        row->mean[f] += followed->mean;
        if (followed->worst > row->worst[f]) row->worst[f] = followed->worst;
        row->moved[f] += (double)followed->moved;
        for (uint32_t l = 0; l < r->looks; l++) row->ratio[f][l] += followed->ratio[l];
    }
    row->moved_rounds += (double)r->moved_rounds;
    row->told += (double)r->told / i->problem.links;
    row->messages += (double)r->messages / peers;
    row->frames += (double)r->frames / peers;
    row->bytes += (double)r->bytes / peers;
    row->passing += (double)r->passing;
    row->error += r->error;
    row->over_capacity += r->over_capacity > 0;
    row->hash = rng_seed(row->hash, r->hash);
}

// As F7 has it, or with more relays, partial views and less demand.
static braid_err make_instance(const drift_bench *b, uint32_t test, uint64_t seed, routing_instance *out,
                               routing_optimum *best, braid_error *error) {
    routing_f7 table = routing_f7_tests[test - 1];
    table.relays = (uint32_t)b->relays;
    braid_err err = routing_f7_draw(&table, rng_seed(seed, test), ROUTING_EQUAL, 0, out, error);
    if (!err && b->views > 0) err = routing_thin(out, (uint32_t)b->views, error);
    plan_peer *source = (plan_peer *)(uintptr_t)out->problem.peer;
    if (!err) source->capacity = (uint32_t)(source->capacity * b->demand / 100);
    if (!err) err = routing_optimum_find(out, 1, best, error);
    if (!err && best->units == 0) err = braid_fail(error, BRAID_ARGUMENT, "nothing can flow");
    return err;
}

static braid_err run_seed(drift_bench *b, uint32_t test, uint64_t seed, braid_error *error) {
    routing_instance instance = {0};
    routing_optimum best = {0};
    braid_err err = make_instance(b, test, seed, &instance, &best, error);
    for (uint32_t t = 0; t < ROUTING_TOLDS && !err; t++) {
        if (!b->told[t]) continue;
        routing_drift drift = b->drift;
        drift.told = (routing_told)t;
        routing_drift_result result;
        err = routing_run_drift(&instance, &b->settings, &drift, best.units, &result, error);
        if (!err) add_run(&b->row[t], &instance, &result, &best);
        if (!err) routing_drift_result_close(&result);
    }
    routing_optimum_close(&best);
    routing_instance_close(&instance);
    return err;
}

static int run_test(drift_bench *b, uint32_t test) {
    braid_error error = {0};
    bool progress = isatty(STDERR_FILENO) != 0;
    braid_err err = open_rows(b);
    if (err) braid_fail(&error, err, "out of memory");
    for (uint64_t s = 0; s < b->seeds && !err; s++) {
        if (progress) fprintf(stderr, "\rtest %" PRIu32 ", seed %" PRIu64 " of %" PRIu64 " ", test, s + 1, b->seeds);
        err = run_seed(b, test, b->first + s, &error);
    }
    if (progress) fprintf(stderr, "\r\x1b[K");
    if (!err) drift_print(b, test);
    if (!err && b->plot != NULL) err = drift_plot(b, test, &error);
    close_rows(b);
    return err ? cli_complain(CLI_FAILED, "bench drift", "test %u: %s", test, error.text) : CLI_OK;
}

static int run(drift_bench *b, const char *tests, const char *told, const char *delay) {
    static const char *const numbers[DRIFT_TESTS] = {"1", "2", "3", "4"};
    const char *ways[ROUTING_TOLDS];
    bool wanted[DRIFT_TESTS];
    uint32_t count = 0;
    for (uint32_t i = 0; i < ROUTING_TOLDS; i++) ways[i] = routing_told_name((routing_told)i);
    if (!bench_read_delay("bench drift", delay, &b->settings.delay) ||
        !options_read_set("bench drift", "told", told, ways, ROUTING_TOLDS, b->told) ||
        !options_read_set("bench drift", "tests", tests, numbers, DRIFT_TESTS, wanted))
        return CLI_USAGE;
    for (uint32_t i = 0; i < DRIFT_TESTS; i++) count += wanted[i];
    if (b->plot != NULL && count > 1)
        return cli_complain(CLI_USAGE, "bench drift", "--plot draws one test; --tests asks for '%.64s'", tests);
    if (!cli_can_write("bench drift", "plot", b->plot)) return CLI_FAILED;
    for (uint32_t test = 1; test <= DRIFT_TESTS; test++) {
        int code = wanted[test - 1] ? run_test(b, test) : CLI_OK;
        if (code != CLI_OK) return code;
    }
    return CLI_OK;
}

static uint32_t seconds_of(uint64_t ns) { return ns < SECOND_NS ? 1 : (uint32_t)(ns / SECOND_NS); }
static uint32_t ppm_of(double percent) { return (uint32_t)(percent * 10000 + 0.5); }

int bench_drift(int argc, char **argv) {
    drift_bench b = {.seeds = 20,
                     .settings = {.algorithm = ROUTER_MINCOST, .limit_rounds = QUIET_ROUNDS, .gather = true}};
    b.relays = routing_f7_tests[0].relays;
    b.demand = 100;
    uint64_t lasts = 600ull * SECOND_NS, look = 10ull * SECOND_NS, plan = SECOND_NS, leg = SECOND_NS,
             sample = SECOND_NS;
    uint64_t hold = 0, patience = (uint64_t)measure_usual.patience;
    double drift = 20, noise = 10, spikes = 1, band = measure_usual.relative_ppm / 1e4, slack = 0.1;
    double least = (double)measure_usual.absolute / ROUTING_SCALE;
    const char *tests = "1,3", *delay = "lockstep", *told = "all,smooth,band";
    option table[] = {
        {"tests", OPTION_TEXT, &tests, .unit = "LIST", .help = "which of F7's tests 1 to 4, separated by commas"},
        {"seeds", OPTION_COUNT, &b.seeds, .help = "instances of each test", .min = 1, .max = 1e6},
        {"first", OPTION_COUNT, &b.first, .help = "the first seed", .max = 1e15},
        {"told", OPTION_TEXT, &told, .unit = "LIST",
         .help = "what routing hears: all samples, each smooth cost, or costs that left their band"},
        {"delay", OPTION_TEXT, &delay, .unit = "KIND",
         .help = "how long messages take: lockstep, uniform, exponential or heavy-tailed; mean always 100 ms"},
        {"lasts", OPTION_DURATION, &lasts, .help = "how long costs drift", .min = 1, .max = ROUTING_MAX_DRIFT_SECONDS},
        {"look", OPTION_DURATION, &look, .help = "time between two comparisons with the optimum", .min = 1,
         .max = ROUTING_MAX_DRIFT_SECONDS},
        {"plan", OPTION_DURATION, &plan, .help = "time between two optima; a look is at one of them", .min = 1,
         .max = ROUTING_MAX_DRIFT_SECONDS},
        {"relays", OPTION_COUNT, &b.relays, .help = "how many, shared by the stages", .min = 10, .max = 4000},
        {"views", OPTION_COUNT, &b.views, .help = "neighbours that a relay knows in the next stage, 0: all",
         .max = ROUTER_MAX_NEIGHBOURS},
        {"demand", OPTION_COUNT, &b.demand, .unit = "PERCENT", .help = "of what fits through the narrowest stage",
         .min = 1, .max = 100},
        {"drift", OPTION_REAL, &drift, .unit = "PERCENT", .help = "how far a link's cost goes in a minute", .max = 100},
        {"leg", OPTION_DURATION, &leg, .help = "how long a link's cost keeps its direction", .min = 1,
         .max = ROUTING_MAX_DRIFT_SECONDS},
        {"sample", OPTION_DURATION, &sample, .help = "time between two samples of a link", .min = 1,
         .max = ROUTING_MAX_DRIFT_SECONDS},
        {"noise", OPTION_REAL, &noise, .unit = "PERCENT", .help = "standard deviation of a sample", .max = 100},
        {"spikes", OPTION_REAL, &spikes, .unit = "PERCENT", .help = "samples that are 20 times too long", .max = 100},
        {"band", OPTION_REAL, &band, .unit = "PERCENT", .help = "a cost inside is not told again", .max = 100},
        {"band-least", OPTION_REAL, &least, .unit = "COST", .help = "added to the band", .max = 1000},
        {"patience", OPTION_DURATION, &patience, .help = "how long a cost must be outside", .max = 3600},
        {"slack", OPTION_REAL, &slack, .unit = "COST", .help = "cost per link below which a gain is left alone",
         .max = 1000},
        {"hold", OPTION_COUNT, &hold, .help = "rounds between two labels to one neighbour, 0: the default",
         .max = 1000},
        {"json", OPTION_SWITCH, &b.json, .help = "one JSON object a row instead of tables"},
        {"plot", OPTION_TEXT, &b.plot, .unit = "FILE.svg",
         .help = "draws one test's costs above the optimum over time"},
    };
    options o = {.verb = "bench drift",
                 .summary = "Measures how routing follows link costs that drift.",
                 .examples = examples,
                 .table = table,
                 .count = sizeof table / sizeof *table};
    int code = CLI_OK;
    if (!options_parse(&o, argc, argv, &code)) return code;
    b.settings.hold = (int64_t)hold;
    b.settings.slack = (int64_t)(slack * ROUTING_SCALE + 0.5);
    b.drift = (routing_drift){.rule = {.relative_ppm = ppm_of(band),
                                       .absolute = (int64_t)(least * ROUTING_SCALE + 0.5),
                                       .patience = (int64_t)patience},
                              .seconds = seconds_of(lasts),
                              .look_seconds = seconds_of(look),
                              .plan_seconds = seconds_of(plan),
                              .sample_seconds = seconds_of(sample),
                              .leg_seconds = seconds_of(leg),
                              .drift_ppm = ppm_of(drift),
                              .noise_ppm = ppm_of(noise),
                              .spike_ppm = ppm_of(spikes)};
    code = run(&b, tests, told, delay);
    options_close(&o);
    return code;
}
