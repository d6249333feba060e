// braid-bench churn: a settled swarm of F7 loses or gains relays. Rounds and messages until all
// units have a path again, and until the new optimum, compared with a fresh start of the remaining
// swarm.
#include "bench/cli/experiments.h"
#include "bench/cli/figures.h"
#include "cli/options.h"
#include "base/rng.h"
#include "format/json.h"
#include "bench/optimum/optimum.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { CHANGES = 3, CHURN_TESTS = 4, CHURN_MAX_PEERS = 16, CHURN_ROUNDS = 16000 };

static const struct churn_kind {
    const char *name;
    double share;  // share of all relays; 0: one relay
    bool join;
} kinds[CHANGES] = {{"one dies", 0, false}, {"10 % die", 0.1, false}, {"one joins", 0, true}};

static const char examples[] = "braid-bench churn --seeds 20\n"
                               "braid-bench churn --tests 1,2,3,4 --delay exponential --json\n"
                               "braid-bench churn --objective worst\n";

typedef struct churn_row {
    uint32_t runs, whole, optimal, quiet, over_capacity;
    double whole_rounds, whole_messages, whole_ratio;  // sums over runs that recovered all units
    double last_rounds, messages;                      // sums over all runs
    double fresh_rounds, fresh_messages;
    uint64_t hash;
} churn_row;

typedef struct churn_bench {
    uint64_t seeds, first;
    bool json;
    routing_settings settings;
    churn_row row[CHANGES];
} churn_bench;

static bool leaves_a_way(const routing_instance *i, const routing_change *change) {
    for (uint32_t stage = 1; stage <= i->problem.stages; stage++) {
        uint32_t left = 0;
        for (uint32_t p = 0; p < i->problem.peers; p++) {
            bool gone = false;
            for (uint32_t c = 0; c < change->count; c++) gone |= change->peer[c] == p;
            left += i->problem.peer[p].stage == stage && !gone;
        }
        if (left == 0) return false;
    }
    return true;
}

// Draws different relays until every stage keeps one.
static void draw_change(const routing_instance *i, const struct churn_kind *kind, rng *r, uint32_t *peer,
                        routing_change *change) {
    uint32_t relays = i->problem.peers - i->sources;
    *change = (routing_change){.peer = peer, .join = kind->join};
    change->count = kind->share > 0 ? (uint32_t)lround(kind->share * relays) : 1;
    do {
        for (uint32_t c = 0; c < change->count; c++) {
            bool again = true;
            while (again) {
                peer[c] = i->sources + (uint32_t)rng_below(r, relays);
                again = false;
                for (uint32_t d = 0; d < c; d++) again |= peer[d] == peer[c];
            }
        }
    } while (!leaves_a_way(i, change));
}

// A swarm that starts in the state after the change, and sends as much as fits.
static braid_err fresh_start(const churn_bench *b, const routing_instance *instance, int64_t units, routing_result *out,
                             braid_error *error) {
    ((plan_peer *)(uintptr_t)instance->problem.peer)[0].capacity = (uint32_t)units;
    return routing_run(instance, &b->settings, units, out, error);
}

static bool by_worst(const churn_bench *b) { return b->settings.objective == ROUTER_BOTTLENECK; }

static int64_t value_of(const churn_bench *b, const routing_sight *s) { return by_worst(b) ? s->worst : s->cost; }

static braid_err find_optimum(const churn_bench *b, const routing_instance *i, routing_optimum *out, braid_error *error) {
    return by_worst(b) ? routing_optimum_worst(i, 1, out, error) : routing_optimum_find(i, 1, out, error);
}

static void add_run(const churn_bench *b, churn_row *row, const routing_instance *i, const routing_optimum *best,
                    const routing_result *before, const routing_result *after, const routing_result *fresh) {
    double peers = i->problem.peers;
    row->runs++;
    row->quiet += before->quiet && after->quiet && fresh->quiet;
    row->over_capacity += before->over_capacity + after->over_capacity > 0;
    row->optimal += after->end.consistent && after->end.whole && value_of(b, &after->end) == best->cost;
    row->last_rounds += (double)after->last_move;
    row->messages += (double)after->messages / peers;
    row->fresh_rounds += (double)fresh->last_move;
    row->fresh_messages += (double)fresh->messages / peers;
    row->hash = rng_seed(rng_seed(row->hash, before->hash), rng_seed(after->hash, fresh->hash));
    if (after->whole < 0) return;
    row->whole++;
    row->whole_rounds += (double)after->whole;
    row->whole_messages += (double)after->whole_messages / peers;
    row->whole_ratio += (double)value_of(b, &after->whole_sight) / (double)best->cost;
}

// `smaller`: the instance without the changing peers.
static braid_err run_change(churn_bench *b, uint32_t k, const routing_instance *full, const routing_instance *smaller,
                            const routing_change *change, braid_error *error) {
    routing_optimum all = {0}, less = {0};
    routing_result before = {0}, after = {0}, fresh = {0};
    braid_err err = find_optimum(b, full, &all, error);
    if (!err) err = find_optimum(b, smaller, &less, error);
    const routing_optimum *first = change->join ? &less : &all, *then = change->join ? &all : &less;
    if (!err) err = routing_run_change(full, &b->settings, change, first->units, then->units, &before, &after, error);
    const routing_instance *left = change->join ? full : smaller;
    if (!err) err = fresh_start(b, left, then->units, &fresh, error);
    if (!err) add_run(b, &b->row[k], left, then, &before, &after, &fresh);
    routing_result_close(&before);
    routing_result_close(&after);
    routing_result_close(&fresh);
    routing_optimum_close(&all);
    routing_optimum_close(&less);
    return err;
}

static braid_err run_seed(churn_bench *b, uint32_t test, uint64_t seed, uint32_t k, braid_error *error) {
    routing_instance full = {0}, smaller = {0};
    routing_change change;
    uint32_t peer[CHURN_MAX_PEERS];
    braid_err err = routing_f7_make(test, seed, ROUTING_EQUAL, 0, &full, error);
    if (err) return err;
    rng r = {rng_seed(rng_seed(full.seed, 5), k)};
    draw_change(&full, &kinds[k], &r, peer, &change);
    err = routing_without(&full, &change, &smaller, error);
    if (!err) err = run_change(b, k, &full, &smaller, &change, error);
    routing_instance_close(&smaller);
    routing_instance_close(&full);
    return err;
}

static void print_row(const churn_row *r, const char *name) {
    double whole = figures_part(r->whole_messages, r->whole), end = figures_part(r->messages, r->runs);
    double fresh = figures_part(r->fresh_messages, r->runs);
    printf("%-10s| %3u/%-3u %6.0f %6.1f %8.1f%% %8.3f | %3u/%-3u %6.0f %6.1f %8.1f%% | %6.0f %6.1f | %3u/%-3u | "
           "%016" PRIx64 "\n",
           name, r->whole, r->runs, figures_part(r->whole_rounds, r->whole), whole, 100 * figures_part(whole, fresh),
           figures_part(r->whole_ratio, r->whole), r->optimal, r->runs, figures_part(r->last_rounds, r->runs), end,
           100 * figures_part(end, fresh), figures_part(r->fresh_rounds, r->runs), fresh, r->quiet, r->runs, r->hash);
    figures_print_over_capacity(r->over_capacity);
}

static void print_table(const churn_bench *b, uint32_t test) {
    printf("churn on F7 test %u%s, %s delays; %" PRIu64 " seed%s from %" PRIu64 "; messages per peer\n", test,
           by_worst(b) ? " for the heaviest link" : "", routing_delay_name(b->settings.delay), b->seeds, figures_s(b->seeds), b->first);
    printf("%-10s| %-40s | %-32s | %-13s | %-7s |\n", "", "whole again", "at the new optimum", "fresh start", "quiet");
    printf("%-10s| %7s %6s %6s %9s %8s | %7s %6s %6s %9s | %6s %6s | %7s | %s\n", "", "runs", "rounds", "msgs",
           "of fresh", by_worst(b) ? "load/opt" : "cost/opt", "runs", "rounds", "msgs", "of fresh", "rounds", "msgs", "runs",
           "hash of the traces");
    for (uint32_t k = 0; k < CHANGES; k++) print_row(&b->row[k], kinds[k].name);
    printf("\n");
}

static void print_json(const churn_bench *b, uint32_t test, uint32_t k) {
    const churn_row *r = &b->row[k];
    json_out o = {0};
    json_out_open(&o, NULL, '{');
    json_out_string(&o, "experiment", "churn");
    json_out_u64(&o, "test", test);
    json_out_string(&o, "delay", routing_delay_name(b->settings.delay));
    if (by_worst(b)) json_out_string(&o, "objective", "worst");
    json_out_string(&o, "change", kinds[k].name);
    json_out_u64(&o, "first_seed", b->first);
    json_out_u64(&o, "runs", r->runs);
    json_out_u64(&o, "whole", r->whole);
    json_out_u64(&o, "optimal", r->optimal);
    json_out_u64(&o, "quiet", r->quiet);
    json_out_u64(&o, "over_capacity", r->over_capacity);
    json_out_double(&o, "rounds_until_whole", figures_part(r->whole_rounds, r->whole));
    json_out_double(&o, "messages_until_whole", figures_part(r->whole_messages, r->whole));
    json_out_double(&o, "ratio_when_whole", figures_part(r->whole_ratio, r->whole));
    json_out_double(&o, "rounds_until_optimal", figures_part(r->last_rounds, r->runs));
    json_out_double(&o, "messages", figures_part(r->messages, r->runs));
    json_out_double(&o, "fresh_rounds", figures_part(r->fresh_rounds, r->runs));
    json_out_double(&o, "fresh_messages", figures_part(r->fresh_messages, r->runs));
    figures_put_hash(&o, r->hash);
    figures_print_line(&o);
}

static int run_test(churn_bench *b, uint32_t test) {
    braid_error error = {0};
    bool progress = isatty(STDERR_FILENO) != 0;
    memset(b->row, 0, sizeof b->row);
    for (uint64_t s = 0; s < b->seeds; s++) {
        if (progress) fprintf(stderr, "\rtest %" PRIu32 ", seed %" PRIu64 " of %" PRIu64 " ", test, s + 1, b->seeds);
        for (uint32_t k = 0; k < CHANGES; k++)
            if (run_seed(b, test, b->first + s, k, &error))
                return cli_complain(CLI_FAILED, "churn", "test %u: %s", test, error.text);
    }
    if (progress) fprintf(stderr, "\r\x1b[K");
    for (uint32_t k = 0; b->json && k < CHANGES; k++) print_json(b, test, k);
    if (!b->json) print_table(b, test);
    return CLI_OK;
}

static int run(churn_bench *b, const char *tests, const char *delay, const char *objective) {
    static const char *const numbers[CHURN_TESTS] = {"1", "2", "3", "4"};
    bool wanted[CHURN_TESTS];
    if (!bench_read_delay("churn", delay, &b->settings.delay) ||
        !bench_read_objective("churn", objective, &b->settings.objective) || !bench_may_plan("churn", &b->settings) ||
        !options_read_set("churn", "tests", tests, numbers, CHURN_TESTS, wanted))
        return CLI_USAGE;
    for (uint32_t test = 1; test <= CHURN_TESTS; test++) {
        int code = wanted[test - 1] ? run_test(b, test) : CLI_OK;
        if (code != CLI_OK) return code;
    }
    return CLI_OK;
}

int bench_churn(int argc, char **argv) {
    churn_bench b = {
        .seeds = 100,
        .settings = {
            .algorithm = ROUTER_MINCOST, .limit_rounds = CHURN_ROUNDS, .slack = ROUTING_SLACK, .gather = true}};
    uint64_t hold = 0, lazy = ROUTER_LAZY;
    const char *tests = "1,3", *delay = "lockstep", *objective = "sum";
    option table[] = {
        {"tests", OPTION_TEXT, &tests, .unit = "LIST", .help = "which of F7's tests 1 to 4, separated by commas"},
        {"seeds", OPTION_COUNT, &b.seeds, .help = "instances of each test", .min = 1, .max = 1e6},
        {"first", OPTION_COUNT, &b.first, .help = "the first seed", .max = 1e15},
        {"delay", OPTION_TEXT, &delay, .unit = "KIND",
         .help = "how long messages take: lockstep, uniform, exponential or heavy-tailed; mean always one round"},
        {"objective", OPTION_TEXT, &objective, .unit = "sum|worst",
         .help = "what is to be smallest: the sum of costs, or the heaviest link (units times cost)"},
        {"hold", OPTION_COUNT, &hold, .help = "rounds between two labels to one neighbour, 0: the default",
         .max = 1000},
        {"lazy", OPTION_COUNT, &lazy, .help = "rounds that news of a way waits at most", .max = 1000},
        {"plan-first", OPTION_SWITCH, &b.settings.plan_first, .help = "the first ways are planned, on a map of the run"},
        {"json", OPTION_SWITCH, &b.json, .help = "one JSON object a row instead of tables"},
    };
    options o = {.verb = "churn",
                 .summary = "Measures what routing needs to repair itself when relays die or join.",
                 .examples = examples,
                 .table = table,
                 .count = sizeof table / sizeof *table};
    int code = CLI_OK;
    if (!options_parse(&o, argc, argv, &code)) return code;
    b.settings.hold = (int64_t)hold;
    b.settings.lazy = lazy == 0 ? -1 : (int64_t)lazy;
    code = run(&b, tests, delay, objective);
    options_close(&o);
    return code;
}
