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

enum { QUIET_ROUNDS = 4000, SECOND_NS = 1000000000 };

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

static braid_err run_seed(drift_bench *b, uint32_t test, uint64_t seed, braid_error *error) {
    routing_instance instance = {0};
    routing_optimum best = {0};
    braid_err err = routing_f7_make(test, seed, ROUTING_EQUAL, 0, &instance, error);
    if (!err) err = routing_optimum_find(&instance, 1, &best, error);
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

// Reads "band,all" as a set of ways.
static bool read_told(drift_bench *b, const char *text) {
    while (*text != 0) {
        size_t length = strcspn(text, ",");
        uint32_t t = 0;
        for (; t < ROUTING_TOLDS; t++) {
            const char *name = routing_told_name((routing_told)t);
            if (strlen(name) == length && strncmp(name, text, length) == 0) break;
        }
        if (t == ROUTING_TOLDS) return false;
        b->told[t] = true;
        text += length + (text[length] == ',');
    }
    return true;
}

static int run(drift_bench *b, const char *tests, const char *told, const char *delay) {
    uint32_t d = 0;
    while (d < ROUTING_DELAYS && strcmp(routing_delay_name((routing_delay)d), delay) != 0) d++;
    if (d == ROUTING_DELAYS)
        return cli_complain(CLI_USAGE, "bench drift",
                            "--delay is lockstep, uniform, exponential or heavy-tailed, not '%.64s'", delay);
    b->settings.delay = (routing_delay)d;
    if (!read_told(b, told) || *told == 0)
        return cli_complain(CLI_USAGE, "bench drift", "--told is a list of all, smooth and band, not '%.64s'", told);
    for (const char *t = tests; *t != 0; t += t[1] == ',' ? 2 : 1) {
        if (*t < '1' || *t > '0' + DRIFT_TESTS || (t[1] != 0 && (t[1] != ',' || t[2] == 0)))
            return cli_complain(CLI_USAGE, "bench drift",
                                "--tests is a list of numbers from 1 to %d, like 1,3, not '%.64s'", DRIFT_TESTS, tests);
    }
    if (b->plot != NULL && tests[1] != 0)
        return cli_complain(CLI_USAGE, "bench drift", "--plot draws one test; --tests asks for '%.64s'", tests);
    for (const char *t = tests; *t != 0; t += t[1] == ',' ? 2 : 1) {
        int code = run_test(b, (uint32_t)(*t - '0'));
        if (code != CLI_OK) return code;
    }
    if (fflush(stdout) == 0 && !ferror(stdout)) return CLI_OK;
    return cli_complain(CLI_FAILED, "bench drift", "cannot write the results");
}

static uint32_t seconds_of(uint64_t ns) { return ns < SECOND_NS ? 1 : (uint32_t)(ns / SECOND_NS); }
static uint32_t ppm_of(double percent) { return (uint32_t)(percent * 10000 + 0.5); }

int bench_drift(int argc, char **argv) {
    drift_bench b = {.seeds = 20,
                     .settings = {.algorithm = ROUTER_BRAID, .limit_rounds = QUIET_ROUNDS, .gather = true}};
    uint64_t lasts = 600ull * SECOND_NS, look = 10ull * SECOND_NS, leg = SECOND_NS, sample = SECOND_NS;
    uint64_t patience = (uint64_t)measure_usual.patience;
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
    b.settings.slack = (int64_t)(slack * ROUTING_SCALE + 0.5);
    b.drift = (routing_drift){.rule = {.relative_ppm = ppm_of(band),
                                       .absolute = (int64_t)(least * ROUTING_SCALE + 0.5),
                                       .patience = (int64_t)patience},
                              .seconds = seconds_of(lasts),
                              .look_seconds = seconds_of(look),
                              .sample_seconds = seconds_of(sample),
                              .leg_seconds = seconds_of(leg),
                              .drift_ppm = ppm_of(drift),
                              .noise_ppm = ppm_of(noise),
                              .spike_ppm = ppm_of(spikes)};
    code = run(&b, tests, told, delay);
    options_close(&o);
    return code;
}
