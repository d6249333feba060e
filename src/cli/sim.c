// braid sim: predicts a swarm's behaviour before machines for it are bought or rented.
#include "cli/cli.h"
#include "cli/figures.h"
#include "cli/options.h"
#include "cli/sim_inside.h"
#include "format/quantity.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char examples[] = "braid sim examples/sim/home.yaml\n"
                               "braid sim home.yaml --iterations 50 --seed 3\n"
                               "braid sim home.yaml --trace home.json      # open it at https://ui.perfetto.dev\n"
                               "braid sim home.yaml --advise --quality 1\n"
                               "braid sim home.yaml --no-plan-join --json\n";

enum { CHANCE_SEEDS = 5 };

static int complain_failed(const sim_swarm_report *report) {
    if (report->replay[0] != 0)
        return cli_complain(CLI_FAILED, "sim", "the swarm failed: %s\nto reproduce it: %s", report->text,
                            report->replay);
    return cli_complain(CLI_FAILED, "sim", "the swarm failed: %s", report->text);
}

// ---- one more peer

static braid_err try_plan(const sim_flags *f, sim_result *r, uint16_t stage, uint32_t like, braid_error *error) {
    const scenario *s = r->s;
    scenario *more = NULL;
    sim_swarm_report report = {0};
    char what[96];
    sim_plan *plan = &r->plan[r->plans];
    if (scenario_with_one_more(s, like, stage, &more, NULL) != BRAID_OK) return BRAID_OK;  // the stage is full
    snprintf(what, sizeof what, "%s with one more peer in stage %s", s->name, s->stage[stage].name);
    braid_err code = sim_run_swarm(f, more, what, NULL, NULL, &report, error);
    if (code == BRAID_OK) {
        *plan = (sim_plan){.stage = stage, .like = like, .failed = report.failed || report.iterations == 0};
        r->plans++;
    }
    if (code == BRAID_OK && !plan->failed) {
        sim_summary summary;
        sim_summarise(more, &report, &summary);
        plan->mean_s = summary.mean_s;
        plan->tokens_per_s = summary.tokens_per_s;
        plan->change = summary.mean_s / r->summary.mean_s - 1;
    }
    sim_swarm_report_free(&report);
    scenario_free(more);
    return code;
}

static bool has_chance(const scenario *s) {
    bool comes_back = s->churn.rejoin > 0 && s->churn.event_count > 0;
    return s->churn.crash > 0 || comes_back || s->churn.sessions != SESSIONS_NONE || s->resets > 0;
}

// Estimates how much of a plan's effect may be chance: repeats the unchanged swarm with other
// seeds.
static braid_err try_seeds(const sim_flags *f, sim_result *r, braid_error *error) {
    scenario *other = malloc(sizeof *other);
    if (other == NULL) return braid_fail(error, BRAID_MEMORY, "out of memory");
    braid_err code = BRAID_OK;
    figures_sample means = {0};
    figures_add(&means, r->summary.mean_s);
    for (uint32_t i = 1; i < CHANCE_SEEDS && code == BRAID_OK; i++) {
        sim_swarm_report report = {0};
        sim_summary summary;
        char what[96];
        *other = *r->s;  // its events are borrowed
        other->seed = r->s->seed + i;
        snprintf(what, sizeof what, "%s with seed %" PRIu64, other->name, other->seed);
        code = sim_run_swarm(f, other, what, NULL, NULL, &report, error);
        if (code == BRAID_OK && !report.failed && report.iterations > 0) {
            sim_summarise(other, &report, &summary);
            figures_add(&means, summary.mean_s);
        }
        sim_swarm_report_free(&report);
    }
    r->chance = (sim_chance){CHANCE_SEEDS, CHANCE_SEEDS - means.count, figures_mean(&means), figures_deviation(&means)};
    free(other);
    return code;
}

// Best first, failed ones last, equals by stage.
static int compare_plans(const void *a, const void *b) {
    const sim_plan *x = a, *y = b;
    if (x->failed != y->failed) return x->failed ? 1 : -1;
    if (x->mean_s < y->mean_s) return -1;
    if (x->mean_s > y->mean_s) return 1;
    return (x->stage > y->stage) - (x->stage < y->stage);
}

static braid_err try_plans(const sim_flags *f, sim_result *r, braid_error *error) {
    braid_err code = BRAID_OK;
    for (uint16_t stage = 0; stage < r->s->stages && code == BRAID_OK; stage++) {
        uint32_t like = sim_median_peer(r->s, stage == 0);
        if (like != UINT32_MAX) code = try_plan(f, r, stage, like, error);
    }
    qsort(r->plan, r->plans, sizeof *r->plan, compare_plans);
    return code == BRAID_OK && r->plans > 0 && has_chance(r->s) ? try_seeds(f, r, error) : code;
}

// ---- the verb

static int show(const sim_flags *f, sim_result *r) {
    braid_error error = {0};
    sim_summarise(r->s, r->report, &r->summary);
    if (!f->json) sim_print_result(r);
    fflush(stdout);
    if (f->plan && try_plans(f, r, &error) != BRAID_OK) return cli_complain(CLI_FAILED, "sim", "%s", error.text);
    if (!f->json && f->plan) sim_print_plans(r);
    if (f->json && !sim_print_json(r)) return cli_complain(CLI_FAILED, "sim", "out of memory");
    return CLI_OK;
}

static int advise(const sim_flags *f, const scenario *s) {
    braid_error error = {0};
    if (f->json)
        return cli_complain(CLI_USAGE, "sim",
                            "--advise prints a table and has no form for --json: leave one of them out");
    sim_print_head(s);
    fflush(stdout);
    return sim_advise(f, s, &error) == BRAID_OK ? CLI_OK : cli_complain(CLI_FAILED, "sim", "%s", error.text);
}

static int simulate(const sim_flags *f, scenario *s) {
    braid_error error = {0};
    sim_swarm_report report = {0};
    sim_routes_mean routes = {0};
    if (!f->json) sim_print_head(s);
    fflush(stdout);
    if (sim_run_swarm(f, s, s->name, f->trace, &routes, &report, &error) != BRAID_OK)
        return cli_complain(CLI_FAILED, "sim", "%s", error.text);
    int code = CLI_OK;
    sim_result *result = calloc(1, sizeof *result);
    if (result == NULL)
        code = cli_complain(CLI_FAILED, "sim", "out of memory");
    else if (report.failed)
        code = complain_failed(&report);
    else if (report.iterations == 0)
        code = cli_complain(CLI_FAILED, "sim", "no iteration was completed");
    else {
        *result = (sim_result){.s = s, .report = &report, .routes = sim_routes_of(&routes)};
        code = show(f, result);
    }
    free(result);
    sim_swarm_report_free(&report);
    return code;
}

static int load_and_simulate(const options *o, sim_flags *f) {
    scenario *s = NULL;
    braid_error error = {0};
    f->path = o->given[0];
    if (scenario_load(f->path, &s, &error) != BRAID_OK) return cli_complain(CLI_USAGE, "sim", "%s", error.text);
    if (option_is_set(o, "seed")) s->seed = f->seed;
    if (option_is_set(o, "iterations")) s->iterations = (uint32_t)f->iterations;
    int code = f->advise ? advise(f, s) : simulate(f, s);
    scenario_free(s);
    return code;
}

int cli_sim(int argc, char **argv) {
    sim_flags f = {.plan = true, .quality = 0.3};
    option table[] = {
        {"seed", OPTION_COUNT, &f.seed, .help = "seed, instead of the scenario's", .fallback = "", .max = 9e15},
        {"iterations", OPTION_COUNT, &f.iterations, .help = "number of iterations, instead of the scenario's",
         .fallback = "", .min = 1, .max = SCENARIO_MAX_ITERATIONS},
        {"plan-join", OPTION_SWITCH, &f.plan,
         .help = "simulate again with one more peer in each stage, and show the gain", .fallback = "yes"},
        {"advise", OPTION_SWITCH, &f.advise,
         .help = "simulate each form of tensors and sums instead, and advise the cheapest one"},
        {"quality", OPTION_REAL, &f.quality, .unit = "PERCENT",
         .help = "--advise: how much higher the held-out loss may be", .fallback = "0.3", .min = 0, .max = 100},
        {"trace", OPTION_TEXT, &f.trace, .unit = "FILE",
         .help = "write a timeline for Perfetto (https://ui.perfetto.dev)"},
        {"check", OPTION_SWITCH, &f.check, .help = "check every protocol invariant after every event; slower"},
        {"json", OPTION_SWITCH, &f.json, .help = "print one JSON object instead of tables"},
    };
    options o = {
        .verb = "sim",
        .arguments = "SCENARIO.yaml",
        .summary = "Simulates a swarm: the time of an iteration, its bottleneck, and the gain from one more peer.",
        .examples = examples,
        .table = table,
        .count = sizeof table / sizeof *table,
        .min_given = 1,
        .max_given = 1};
    int code = CLI_OK;
    if (!options_parse(&o, argc, argv, &code)) return code;
    code = load_and_simulate(&o, &f);
    options_close(&o);
    return code;
}
