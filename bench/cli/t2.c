// braid-bench t2 and t3: training while relays crash (GWTF, Tables II and III), all systems on the
// same machines, lines and crashes.
#include "bench/cli/experiments.h"
#include "bench/cli/t2_inside.h"
#include "base/rng.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char examples_t2[] = "braid-bench t2\n"
                                  "braid-bench t2 --cell hom10 --cell het10 --repetitions 5 --account\n"
                                  "braid-bench t2 --iterations 25 --repetitions 25 --plot t2.svg --dump scenarios/\n";
static const char examples_t3[] = "braid-bench t3\n"
                                  "braid-bench t3 --cell hom10 --cell het10 --repetitions 5 --account\n"
                                  "braid-bench t3 --iterations 25 --repetitions 25 --plot t3.svg --dump scenarios/\n";

const char *const t2_cell_names[T2_CELLS] = {"hom0", "hom10", "hom20", "het0", "het10", "het20"};
const char *const t2_system_names[T2_SYSTEMS] = {"swarm", "gwtf", "braid"};
const char *const t2_placement_names[T2_PLACEMENTS] = {"braid", "gwtf", "stay"};

static t2_case case_of(const t2_bench *b, uint32_t cell, uint64_t seed) {
    return (t2_case){.model = b->model, .heterogeneous = cell >= T2_CHURNS, .churn = 10 * (cell % T2_CHURNS),
                     .iterations = (uint32_t)b->iterations, .links = b->links, .placement = b->placement, .best_stages = b->best_stages, .seed = seed};
}

// --- sums

static void add_iteration(t2_row *row, const sim_swarm_iteration *i, uint64_t needed_ns, const t2_account *account) {
    double seconds = (double)(i->end_ns - i->start_ns) / 1e9, per = i->microbatches;
    double needed = (double)needed_ns / 1e9, wasted = (double)(i->useful_ns + i->wasted_ns) / 1e9 - needed;
    figures_add(&row->microbatches, per);
    figures_add(&row->minutes, seconds / 60 / per);
    figures_add(&row->transfers, (double)i->transfer_ns / 60e9 / per);
    figures_add(&row->wasted, wasted / 60);
    figures_add(&row->repairs, i->repairs);
    figures_add(&row->crashes, i->crashes);
    row->needed_s += needed;
    row->wasted_s += wasted;
    row->lost_counted_s += (double)i->lost_counted_ns / 1e9;
    row->lost_held_s += (double)i->lost_held_ns / 1e9;
    row->iterations_s += seconds;
    row->oracle_s += (double)t2_oracle_ns(account) / 1e9 * per / (T2_DATA * T2_MICROBATCHES);
    row->fewer_s += (double)account->fewer_ns / 1e9;
    row->ways_s += (double)account->ways_ns / 1e9;
    row->exchange_s += (double)account->exchange_ns / 1e9;
    row->foresight_s += (double)account->foresight_ns / 1e9;
    row->kept_s += (double)account->kept_ns / 1e9;
    row->at_once_s += (double)account->at_once_ns / 1e9;
    row->placed_s += (double)account->placed_ns / 1e9;
    row->best_s += (double)account->best_ns / 1e9;
    row->at_once_kept_s += (double)account->at_once_kept_ns / 1e9;
}

static void add_run(t2_row *row, const t2_result *r) {
    row->runs++;
    row->hash = rng_seed(row->hash, r->report.hash);
    for (uint32_t i = 0; i < r->report.iterations; i++) {
        row->hash = rng_seed(row->hash, t2_oracle_ns(&r->account[i]));
        add_iteration(row, &r->report.iteration[i], r->needed_ns, &r->account[i]);
    }
}

// --- runs

typedef struct t2_progress {
    uint64_t done, all;
    const char *cell, *system;
} t2_progress;

static void show_progress(void *context, const sim_swarm_progress *now) {
    const t2_progress *p = context;
    fprintf(stderr, "\r\x1b[Krun %" PRIu64 " of %" PRIu64 " (%s, %s): iteration %" PRIu64 " of %" PRIu64, p->done + 1, p->all, p->cell,
            p->system, now->iteration, now->iterations);
    fflush(stderr);
}

static braid_err dump_scenario(const t2_bench *b, const t2_case *c, uint32_t cell, t2_system system, braid_error *error) {
    char path[4096], text[T2_TEXT];
    t2_describe(c, system, text);
    snprintf(path, sizeof path, "%.3900s/%s-%s-%" PRIu64 ".yaml", b->dump, t2_cell_names[cell], t2_system_names[system], c->seed);
    FILE *file = fopen(path, "w");
    if (file == NULL) return braid_fail(error, BRAID_IO, "cannot write %s: %s", path, strerror(errno));
    bool written = fputs(text, file) >= 0;
    if (fclose(file) == 0 && written) return BRAID_OK;
    return braid_fail(error, BRAID_IO, "cannot write %s: %s", path, strerror(errno));
}

static braid_err run_one(t2_bench *b, uint32_t cell, uint64_t seed, t2_system system, t2_progress *p, braid_error *error) {
    t2_case c = case_of(b, cell, seed);
    t2_result result;
    p->cell = t2_cell_names[cell];
    p->system = t2_system_names[system];
    sim_swarm_options how = {.check = SIM_CHECK_LIVENESS, .progress = isatty(STDERR_FILENO) ? show_progress : NULL, .context = p};
    braid_err err = b->dump != NULL ? dump_scenario(b, &c, cell, system, error) : BRAID_OK;
    if (!err) err = t2_run(&c, system, &how, &result, error);
    if (err) return err;
    if (result.report.failed) err = braid_fail(error, BRAID_STATE, "%s with %s: %s", p->cell, p->system, result.report.text);
    else add_run(&b->row[cell][system], &result);
    t2_result_close(&result);
    p->done++;
    return err;
}

static int run(t2_bench *b) {
    braid_error error = {0};
    t2_progress p = {0};
    uint32_t systems = 0;
    if (!cli_can_fill(b->verb, "dump", b->dump) || !cli_can_write(b->verb, "plot", b->plot)) return CLI_FAILED;
    for (uint32_t i = 0; i < T2_SYSTEMS; i++) systems += b->system[i];
    for (uint32_t cell = 0; cell < T2_CELLS; cell++) p.all += b->wanted[cell] * b->repetitions * systems;
    for (uint32_t cell = 0; cell < T2_CELLS; cell++)
        for (uint64_t i = 0; i < b->repetitions && b->wanted[cell]; i++)
            for (t2_system system = 0; system < T2_SYSTEMS; system++)
                if (b->system[system] && run_one(b, cell, b->first + i, system, &p, &error))
                    return cli_complain(CLI_FAILED, b->verb, "seed %" PRIu64 ": %s", b->first + i, error.text);
    if (isatty(STDERR_FILENO)) fprintf(stderr, "\r\x1b[K");
    t2_print(b);
    if (b->plot != NULL && t2_plot(b, &error)) return cli_complain(CLI_FAILED, b->verb, "%s", error.text);
    return CLI_OK;
}

// --- options

static bool read_cells(t2_bench *b) {
    for (uint32_t cell = 0; cell < T2_CELLS; cell++) b->wanted[cell] = b->cells.count == 0;
    for (uint32_t i = 0; i < b->cells.count; i++) {
        uint32_t cell = 0;
        while (cell < T2_CELLS && strcmp(b->cells.item[i], t2_cell_names[cell]) != 0) cell++;
        if (cell == T2_CELLS) {
            cli_complain(CLI_USAGE, b->verb, "--cell is hom0, hom10, hom20, het0, het10 or het20, not '%.64s'", b->cells.item[i]);
            return false;
        }
        b->wanted[cell] = true;
    }
    return true;
}

static int bench(t2_bench *b, const char *summary, const char *examples, int argc, char **argv) {
    option table[] = {
        {"repetitions", OPTION_COUNT, &b->repetitions, .help = "how many swarms in each cell", .min = 1, .max = 1e6},
        {"first", OPTION_COUNT, &b->first, .help = "the first one's seed", .max = 1e15},
        {"iterations", OPTION_COUNT, &b->iterations, .help = "of each swarm", .min = 1, .max = SCENARIO_MAX_ITERATIONS},
        {"cell", OPTION_LIST, &b->cells, .unit = "CELL", .fallback = "all",
         .help = "hom or het, for relays that hold 4 or 1 to 3 microbatches, and the churn in percent: hom0, hom10, hom20, het0, "
                 "het10, het20"},
        {"systems", OPTION_TEXT, &b->systems, .unit = "LIST", .help = "which of swarm, gwtf and braid, separated by commas"},
        {"links", OPTION_TEXT, &b->links_name, .unit = "CODEC", .help = "codec of activations and gradients: fp32, bf16, int8 or int4"},
        {"placement", OPTION_TEXT, &b->placement_name, .unit = "RULE", .help = "how the system braid places joiners: braid, stay (without later moves), or gwtf for the most used stage"},
        {"account", OPTION_SWITCH, &b->account, .help = "says, too, where the seconds went that an oracle would not have needed"},
        {"best-stages", OPTION_SWITCH, &b->best_stages, .help = "says, too, how long planned iterations would be with all relays in their best stages"},
        {"json", OPTION_SWITCH, &b->json, .help = "one JSON object a row instead of a table, always with the account"},
        {"plot", OPTION_TEXT, &b->plot, .unit = "FILE.svg", .help = "draws the time per microbatch"},
        {"dump", OPTION_TEXT, &b->dump, .unit = "DIR", .help = "writes every scenario for braid sim"},
    };
    options o = {.verb = b->verb, .summary = summary, .examples = examples, .table = table, .count = sizeof table / sizeof *table};
    int code = CLI_OK;
    if (!options_parse(&o, argc, argv, &code)) return code;
    uint32_t links = 0;
    uint32_t placement = 0;
    bool good = options_read_choice(b->verb, "placement", b->placement_name, t2_placement_names, T2_PLACEMENTS, &placement) &&
                options_read_choice(b->verb, "links", b->links_name, tensor_codec_names, TENSOR_CODECS, &links) &&
                options_read_set(b->verb, "systems", b->systems, t2_system_names, T2_SYSTEMS, b->system) && read_cells(b);
    b->links = (tensor_codec)links;
    b->placement = (t2_placement)placement;
    code = good ? run(b) : CLI_USAGE;
    options_close(&o);
    return code;
}

int bench_t2(int argc, char **argv) {
    t2_bench b = {.verb = "t2", .model = T2_LLAMA, .links_name = "fp32", .placement_name = "braid", .systems = "swarm,gwtf,braid", .repetitions = 1, .first = 1, .iterations = 10};
    return bench(&b, "Measures training while relays crash and come back, with a LLaMA-like model.", examples_t2, argc, argv);
}

int bench_t3(int argc, char **argv) {
    t2_bench b = {.verb = "t3", .model = T2_GPT, .links_name = "fp32", .placement_name = "braid", .systems = "swarm,gwtf,braid", .repetitions = 1, .first = 1, .iterations = 10};
    return bench(&b, "Measures training while relays crash and come back, with a GPT-like model.", examples_t3, argc, argv);
}
