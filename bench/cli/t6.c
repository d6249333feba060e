// braid-bench t6: routing against DT-FM's arrangement (GWTF, Table VI), on the same machines and
// links.
#include "bench/cli/experiments.h"
#include "bench/optimum/optimum.h"
#include "bench/cli/t6_inside.h"
#include "cli/options.h"
#include "base/rng.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char examples[] = "braid-bench t6 --seeds 20\n"
                               "braid-bench t6 --microbatches 4 --link peer\n"
                               "braid-bench t6 --seeds 100 --plot t6.svg --dump flows/\n";

// 120 of gwtf's iterations are 480 rounds, as in bench f7.
enum { GWTF_ROUNDS = 480, OTHER_ROUNDS = 16000 };

const char *const t6_arrangement_names[T6_ARRANGEMENTS] = {"DT-FM", "joined", "traded"};
const char *const t6_system_names[T6_SYSTEMS] = {"dtfm", "swarm", "gwtf", "braid", "optimum"};

// --- one system on one arrangement

typedef struct trial {
    const t6_world *world;
    uint32_t stage[T6_PEERS], of[T6_PEERS];
    routing_instance instance;
    routing_optimum best;
} trial;

static braid_err route(const t6_bench *b, const trial *t, t6_system system, t6_row *row, t6_found *found,
                       braid_error *error) {
    static const router_algorithm algorithms[T6_SYSTEMS] = {
        [T6_SWARM] = ROUTER_SWARM, [T6_GWTF] = ROUTER_GWTF, [T6_BRAID] = ROUTER_MINCOST};
    routing_settings settings = {.algorithm = algorithms[system],
                                 .delay = b->delay,
                                 .limit_rounds = system == T6_GWTF ? GWTF_ROUNDS : OTHER_ROUNDS,
                                 .slack = ROUTING_SCALE / 20,
                                 .gather = true};
    routing_result r;
    braid_err err = routing_run(&t->instance, &settings, t->best.units, &r, error);
    if (err) return err;
    memcpy(found->flow, r.flow, (size_t)T6_DATA * t->instance.problem.links * sizeof *r.flow);
    found->messages = r.messages;
    found->bytes = r.bytes;
    found->rounds = (uint64_t)r.last_move;
    row->quiet += r.quiet;
    row->over_capacity += r.over_capacity > 0;
    row->hash = rng_seed(row->hash, r.hash);
    routing_result_close(&r);
    return BRAID_OK;
}

static braid_err find_flow(const t6_bench *b, const trial *t, t6_system system, t6_row *row, t6_found *found,
                           braid_error *error) {
    if (system == T6_PIPELINES) return t6_dtfm_flow(t->world, t->stage, &t->instance, t->of, found->flow, error);
    if (system != T6_OPTIMUM) return route(b, t, system, row, found, error);
    memcpy(found->flow, t->best.flow, (size_t)T6_DATA * t->instance.problem.links * sizeof *found->flow);
    return BRAID_OK;
}

static int64_t cost_of(const trial *t, const int64_t *flow) {
    const plan_problem *p = &t->instance.problem;
    int64_t cost = 0;
    for (uint32_t c = 0; c < T6_DATA * p->links; c++) cost += flow[c] * p->link[c % p->links].cost;
    return cost;
}

// --- sums

static double minutes_of(const t6_found *f) {
    return (double)f->time.iteration_ns / 60e9 / (double)f->time.microbatches;
}

static void add_found(t6_row *row, const trial *t, const t6_found *found, const t6_found *dtfm, t6_system system) {
    double per = (double)found->time.microbatches, cost = (double)cost_of(t, found->flow);
    row->runs++;
    row->hash = rng_seed(rng_seed(row->hash, (uint64_t)found->time.iteration_ns), (uint64_t)cost_of(t, found->flow));
    row->whole += found->time.microbatches == (uint32_t)t->best.units;
    figures_add(&row->microbatches, per);
    if (found->time.microbatches == 0) return;
    figures_add(&row->minutes, minutes_of(found));
    figures_add(&row->over_dtfm, minutes_of(found) / minutes_of(dtfm));
    // Compared without division, so that equal times are equal.
    row->no_slower += found->time.iteration_ns * (int64_t)dtfm->time.microbatches <=
                      dtfm->time.iteration_ns * (int64_t)found->time.microbatches;
    figures_add(&row->cost, cost / per / ROUTING_SCALE);
    double least = t->best.proven ? (double)t->best.cost : t->best.bound;
    if (found->time.microbatches == (uint32_t)t->best.units) figures_add(&row->over_optimum, cost / least);
    if (system == T6_PIPELINES || system == T6_OPTIMUM) return;
    figures_add(&row->rounds, (double)found->rounds);
    figures_add(&row->messages, (double)found->messages / T6_PEERS);
}

// --- one seed

static braid_err arrange(t6_bench *b, const t6_world *world, t6_arrangement arrangement, uint32_t *stage,
                         braid_error *error) {
    plan_dtfm_answer answer;
    if (arrangement == T6_DTFM) return t6_arrange_dtfm(world, stage, &answer, error);
    if (arrangement == T6_TRADED)
        figures_add(&b->trades, t6_arrange_traded(world, stage));
    else
        t6_arrange_joined(stage);
    return BRAID_OK;
}

// DT-FM's pipelines belong to its own arrangement.
static bool has_row(const trial *t, t6_arrangement arrangement, t6_system system) {
    if (system == T6_PIPELINES) return arrangement == T6_DTFM;
    return system != T6_OPTIMUM || t->best.flow != NULL;
}

static braid_err run_arrangement(t6_bench *b, uint64_t seed, t6_arrangement a, trial *t, t6_found (*found)[T6_SYSTEMS],
                                 braid_error *error) {
    braid_err err = arrange(b, t->world, a, t->stage, error);
    if (!err) err = t6_instance(t->world, t->stage, &t->instance, t->of, error);
    if (!err) err = routing_optimum_find(&t->instance, (uint32_t)b->seconds, &t->best, error);
    b->proven += t->best.proven;
    for (t6_system s = 0; s < T6_SYSTEMS && !err; s++) {
        t6_found *f = &found[a][s];
        f->there = has_row(t, a, s);
        if (!f->there) continue;
        err = find_flow(b, t, s, &b->row[a][s], f, error);
        if (!err) err = t6_time_of(t->world, t->stage, &t->instance, t->of, f->flow, &f->time, error);
        if (!err) add_found(&b->row[a][s], t, f, &found[T6_DTFM][T6_PIPELINES], s);
    }
    if (!err && b->dump != NULL) err = t6_dump_paths(b, seed, a, &t->instance, found[a], error);
    routing_optimum_close(&t->best);
    routing_instance_close(&t->instance);
    return err;
}

static braid_err run_seed(t6_bench *b, uint64_t seed, braid_error *error) {
    t6_world world;
    t6_found(*found)[T6_SYSTEMS] = calloc(T6_ARRANGEMENTS, sizeof *found);
    if (found == NULL) return braid_fail(error, BRAID_MEMORY, "no memory for T6's flows");
    t6_world_make(seed, &b->settings, &world);
    braid_err err = BRAID_OK;
    for (t6_arrangement a = 0; a < T6_ARRANGEMENTS && !err; a++) {
        trial t = {.world = &world};
        err = run_arrangement(b, seed, a, &t, found, error);
    }
    if (!err && b->dump != NULL) err = t6_dump_network(b, seed, &world, (const t6_found(*)[T6_SYSTEMS])found, error);
    free(found);
    return err;
}

static int run(t6_bench *b) {
    braid_error error = {0};
    bool progress = isatty(STDERR_FILENO) != 0;
    if (!cli_can_fill("t6", "dump", b->dump) || !cli_can_write("t6", "plot", b->plot)) return CLI_FAILED;
    for (uint64_t i = 0; i < b->seeds; i++) {
        if (progress) fprintf(stderr, "\rseed %" PRIu64 " of %" PRIu64 " ", i + 1, b->seeds);
        if (run_seed(b, b->first + i, &error))
            return cli_complain(CLI_FAILED, "t6", "seed %" PRIu64 ": %s", b->first + i, error.text);
    }
    if (progress) fprintf(stderr, "\r\x1b[K");
    t6_print(b);
    if (b->plot != NULL && t6_plot(b, &error)) return cli_complain(CLI_FAILED, "t6", "%s", error.text);
    return CLI_OK;
}

// --- options

static bool settle(t6_bench *b, uint64_t microbatches, uint64_t capacity, const char *link, const char *delay) {
    static const char *const links[] = {"pair", "peer"};
    uint32_t peer = 0;
    if (!options_read_choice("t6", "link", link, links, 2, &peer)) return false;
    if (capacity < microbatches) {
        cli_complain(CLI_USAGE, "t6",
                     "with --capacity %" PRIu64 " a relay cannot hold the %" PRIu64
                     " microbatches of a pipeline; --capacity is at least --microbatches",
                     capacity, microbatches);
        return false;
    }
    b->settings.microbatches = (uint32_t)microbatches;
    b->settings.capacity = (uint32_t)capacity;
    b->settings.link = peer ? PIPELINE_PEER : PIPELINE_PAIR;
    return bench_read_delay("t6", delay, &b->delay);
}

int bench_t6(int argc, char **argv) {
    t6_bench b = {.seeds = 100, .seconds = 60};
    uint64_t microbatches = 3, capacity = 4;
    const char *link = "pair", *delay = "lockstep";
    option table[] = {
        {"seeds", OPTION_COUNT, &b.seeds, .help = "how many swarms", .min = 1, .max = 1e6},
        {"first", OPTION_COUNT, &b.first, .help = "the first seed", .max = 1e15},
        {"microbatches", OPTION_COUNT, &microbatches, .help = "of each data peer in an iteration", .min = 1,
         .max = T6_MAX_MICROBATCHES},
        {"capacity", OPTION_COUNT, &capacity, .help = "microbatches that a relay holds at once", .min = 1, .max = 1000},
        {"link", OPTION_TEXT, &link, .unit = "pair|peer",
         .help = "each pair of peers has a link of its own, or each peer one link for all that it sends"},
        {"weights", OPTION_SWITCH, &b.settings.weights,
         .help = "ends an iteration with the exchange of weights, which DT-FM then counts too"},
        {"delay", OPTION_TEXT, &delay, .unit = "KIND",
         .help = "routing messages take: lockstep, uniform, exponential or heavy-tailed; mean always one round"},
        {"solver-time", OPTION_COUNT, &b.seconds, .help = "seconds for the optimum of one arrangement", .min = 1,
         .max = 86400},
        {"json", OPTION_SWITCH, &b.json, .help = "one JSON object a row instead of a table"},
        {"plot", OPTION_TEXT, &b.plot, .unit = "FILE.svg", .help = "draws the time per microbatch"},
        {"dump", OPTION_TEXT, &b.dump, .unit = "DIR",
         .help = "writes every network, every system's paths and the times (JSON)"},
    };
    options o = {.verb = "t6",
                 .summary = "Measures the time per microbatch against DT-FM's arrangement: 3 data peers, 15 relays.",
                 .examples = examples,
                 .table = table,
                 .count = sizeof table / sizeof *table};
    int code = CLI_OK;
    if (!options_parse(&o, argc, argv, &code)) return code;
    code = settle(&b, microbatches, capacity, link, delay) ? run(&b) : CLI_USAGE;
    options_close(&o);
    return code;
}
