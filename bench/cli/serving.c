// braid-bench serving: placement and routing of serving sessions.
#include "bench/cli/experiments.h"
#include "bench/cli/serving_inside.h"
#include "cli/options.h"

#include <stdlib.h>

enum { BOUND_ROUNDS = 400, MOST_FOR_GLPK = 12 };

static const char examples[] = "braid-bench serving\n"
                               "braid-bench serving --part table2\n"
                               "braid-bench serving --part scale --seeds 1\n"
                               "braid-bench serving --seeds 10 --peers 5 --layers 8 --seconds 60 --json\n";

typedef struct memory {
    placement_problem p;
    placement_plan plan[SERVING_SYSTEMS];
    placement_work work;
} memory;

static void add_system(serving_row *row, const placement_problem *p, const placement_figures *f, double reference) {
    row->sessions += p->sessions;
    row->served += f->served;
    if (f->served < p->sessions) return;
    row->whole++;
    figures_add(&row->mean_ms, f->mean_us / 1000);
    figures_add(&row->hops, f->hops);
    figures_add(&row->ratio, f->mean_us / reference);
    if (reference > 0 && f->mean_us <= 1.03 * reference) row->near++;
}

// The reference is the larger one of the two bounds, or the proven optimum.
static braid_err find_reference(const serving_bench *b, memory *m, double known_us, serving_rows *rows,
                                double *reference, braid_error *error) {
    *reference = placement_bound(&m->p, known_us, BOUND_ROUNDS, &m->work);
    if (b->seconds == 0 || m->p.peers > MOST_FOR_GLPK) return BRAID_OK;
    serving_optimum o;
    braid_err err = serving_optimum_find(&m->p, (uint32_t)b->seconds, &o, error);
    if (err || !o.ran) return err;
    rows->programs++;
    if (o.proven) {
        rows->proven++;
        figures_add(&rows->optimal, known_us / o.mean_us);
    }
    if (o.bound_us > *reference) *reference = o.bound_us;
    return BRAID_OK;
}

static braid_err run_seed(const serving_bench *b, uint64_t seed, memory *m, serving_rows *rows, braid_error *error) {
    placement_figures f[SERVING_SYSTEMS];
    serving_make(seed, (uint32_t)b->peers, (uint32_t)b->layers, &m->p);
    for (int s = 0; s < SERVING_SYSTEMS; s++) {
        serving_plan((serving_system)s, &m->p, (uint32_t)b->effort, seed, &m->plan[s], &m->work);
        braid_err err = placement_measure(&m->p, &m->plan[s], &f[s], error);
        if (err) return err;
    }
    double reference;
    const placement_figures *ours = &f[SERVING_BRAID];
    double known = ours->served == m->p.sessions ? ours->mean_us : 1e9;
    braid_err err = find_reference(b, m, known, rows, &reference, error);
    if (err) return err;
    for (int s = 0; s < SERVING_SYSTEMS; s++) add_system(&rows->row[s], &m->p, &f[s], reference);
    if (b->details) serving_print_swarm(seed, &m->p, f, reference);
    return BRAID_OK;
}

static braid_err run_routing(const serving_bench *b, memory *m, braid_error *error) {
    serving_rows rows = {0};
    braid_err err = BRAID_OK;
    for (uint64_t k = 0; k < b->seeds && !err; k++) err = run_seed(b, b->first + k, m, &rows, error);
    if (!err) serving_print_routing(b, &rows);
    return err;
}

static braid_err run_case(const serving_bench *b, const serving_n2 *c, memory *m, braid_error *error) {
    static const serving_system shown[SERVING_SHOWN] = {SERVING_NESA, SERVING_PETALS, SERVING_BRAID};
    placement_figures f[SERVING_SHOWN];
    serving_n2_make(c, &m->p);
    for (uint32_t s = 0; s < SERVING_SHOWN; s++) {
        serving_plan(shown[s], &m->p, (uint32_t)b->effort, b->first, &m->plan[s], &m->work);
        braid_err err = placement_measure(&m->p, &m->plan[s], &f[s], error);
        if (err) return err;
    }
    serving_print_case(b, c, f, m->plan);
    return BRAID_OK;
}

static braid_err run_table2(const serving_bench *b, memory *m, braid_error *error) {
    static const uint32_t batch[] = {1, 32, 64}, context[] = {64, 1024};
    braid_err err = BRAID_OK;
    serving_print_cases_head(b);
    for (uint32_t k = 0; k < 48 && !err; k++) {
        // Mixtral fits on no peer anyway, and SmolLM2 on each
        serving_n2 c = {.small_shares = k < 12 || k >= 36,
                        .model = k < 24   ? SERVING_LLAMA_3_8B
                                 : k < 36 ? SERVING_MIXTRAL_8X7B
                                          : SERVING_SMOLLM2_135M,
                        .slow_link = k / 6 % 2 == 1,
                        .batch = batch[k / 2 % 3],
                        .context = context[k % 2]};
        err = run_case(b, &c, m, error);
    }
    return err;
}

static braid_err run_scale(const serving_bench *b, braid_error *error) {
    static const uint32_t size[] = {100, 1000, 10000};
    braid_err err = BRAID_OK;
    serving_print_scale_head(b);
    for (uint32_t k = 0; k < 3; k++)
        for (uint64_t n = 0; n < b->seeds && !err; n++) {
            serving_scale s;
            err = serving_scale_run(size[k], (uint32_t)b->effort, b->first + n, &s, error);
            if (!err) serving_print_scale(b, b->first + n, &s);
        }
    return err;
}

static int run(const serving_bench *b, uint32_t part) {
    braid_error error;
    memory *m = calloc(1, sizeof *m);
    braid_err err = m == NULL ? braid_fail(&error, BRAID_MEMORY, "no memory for the search") : BRAID_OK;
    if (!err) err = part == 0 ? run_routing(b, m, &error) : part == 1 ? run_table2(b, m, &error) : run_scale(b, &error);
    free(m);
    if (err) cli_complain(CLI_FAILED, "serving", "%s", error.text);
    return err ? CLI_FAILED : CLI_OK;
}

int bench_serving(int argc, char **argv) {
    static const char *const parts[] = {"routing", "table2", "scale"};
    serving_bench b = {.seeds = 100, .effort = 2000, .layers = SERVING_LAYERS};
    const char *part = "routing";
    option table[] = {
        {"part", OPTION_TEXT, &part, .unit = "NAME",
         .help = "routing (random swarms against the optimum), table2 (Nesa's Table 2) or scale"},
        {"seeds", OPTION_COUNT, &b.seeds, .help = "random swarms", .min = 1, .max = 1e6},
        {"first", OPTION_COUNT, &b.first, .help = "the first seed", .max = 1e15},
        {"effort", OPTION_COUNT, &b.effort, .help = "steps of the search", .max = 1e7},
        {"peers", OPTION_COUNT, &b.peers, .help = "of each random swarm; 0: 6 to 60", .max = SERVING_MOST_PEERS},
        {"layers", OPTION_COUNT, &b.layers, .help = "of the model of random swarms; memory is scaled with them",
         .min = 1, .max = PLACEMENT_MAX_LAYERS},
        {"seconds", OPTION_COUNT, &b.seconds,
         .help = "time limit of each integer program, for swarms of up to 12 peers; 0: none is solved", .max = 86400},
        {"details", OPTION_SWITCH, &b.details, .help = "one line a swarm, too"},
        {"json", OPTION_SWITCH, &b.json, .help = "one JSON object a row instead of a table"},
    };
    options o = {
        .verb = "serving",
        .summary = "Compares placement and routing of serving sessions with the optimum, Nesa, Petals and Helix.",
        .examples = examples,
        .table = table,
        .count = sizeof table / sizeof *table};
    int code = CLI_OK;
    if (!options_parse(&o, argc, argv, &code)) return code;
    uint32_t choice = 0;
    code = options_read_choice("serving", "part", part, parts, 3, &choice) ? run(&b, choice) : CLI_USAGE;
    options_close(&o);
    return code;
}
