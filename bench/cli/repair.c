// braid-bench repair: one death in a simulated swarm, in many runs. The time until the lost work is
// repaired, in seconds and in units of one round trip plus the lost computing; and the delay of the
// failure detector against its false alarms.
#include "bench/cli/experiments.h"
#include "bench/cli/repair_inside.h"
#include "cli/options.h"

#include <stdlib.h>
#include <unistd.h>

static const char examples[] = "braid-bench repair\n"
                               "braid-bench repair --seeds 100 --json\n"
                               "braid-bench repair --seeds 100 --plot repair.svg\n";

static void value_add(repair_values *v, double value) {
    if (v->count == v->room) {
        v->room = v->room ? 2 * v->room : 256;
        v->value = realloc(v->value, v->room * sizeof *v->value);
        BRAID_ALLOCATED(v->value, v->room * sizeof *v->value);
    }
    v->value[v->count++] = value;
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double repair_percentile(const repair_values *v, double percent) { return v->count ? v->value[(size_t)((double)(v->count - 1) * percent / 100 + 0.5)] : 0; }

static void row_add(repair_row *row, double seconds, double unit_s) {
    value_add(&row->seconds, seconds);
    value_add(&row->units, seconds / unit_s);
}

static void add_losses(repair_bench *b, const repair_case *c, const sim_report *report) {
    double round_trip_s = (double)repair_round_trip_ns(c) / 1e9;
    const sim_stats *stats = &report->stats;
    b->deaths[c->victim][c->silent] += stats->crashes;
    if (c->victim == REPAIR_OF_LEADER) {
        if (stats->leader_deaths) row_add(&b->row[c->silent][REPAIR_LEADER_ROW], (double)stats->leaderless_ns / 1e9 / stats->leader_deaths, round_trip_s);
        return;
    }
    for (uint32_t i = 0; i < stats->losses; i++) {
        const sim_loss *loss = &stats->loss[i];
        repair_row *row = &b->row[c->silent][loss->phase];
        if ((c->victim == REPAIR_OF_DATA) != (loss->phase == SIM_LOSS_OWNER)) continue;
        if (loss->repaired) row_add(row, (double)loss->repair_ns / 1e9, round_trip_s + (double)loss->lost_ns / 1e9);
        else row->unneeded++;
    }
}

static int run_deaths(repair_bench *b) {
    bool progress = isatty(STDERR_FILENO) != 0;
    for (uint64_t s = 0; s < b->seeds; s++) {
        if (progress) fprintf(stderr, "\rseed %llu of %llu ", (unsigned long long)s + 1, (unsigned long long)b->seeds);
        for (int victim = 0; victim < REPAIR_VICTIMS; victim++)
            for (uint32_t i = 0; i < 2 * repair_moments((repair_victim)victim); i++) {
                repair_case c = {.victim = (repair_victim)victim, .moment = i / 2, .silent = i % 2, .capacity = (uint32_t)b->capacity, .seed = b->first + s};
                sim_report report;
                repair_run(&c, &report);
                if (report.failed) return cli_complain(CLI_FAILED, "repair", "seed %llu: %s", (unsigned long long)c.seed, report.text);
                add_losses(b, &c, &report);
            }
    }
    if (progress) fprintf(stderr, "\r\x1b[K");
    for (int silent = 0; silent < 2; silent++)
        for (int r = 0; r < REPAIR_ROWS; r++) {
            repair_row *row = &b->row[silent][r];
            if (row->seconds.count == 0) continue;
            qsort(row->seconds.value, row->seconds.count, sizeof(double), ascending);
            qsort(row->units.value, row->units.count, sizeof(double), ascending);
        }
    return CLI_OK;
}

static void run_detection(repair_bench *b) {
    for (int line = 0; line < DETECTION_LINES; line++)
        for (int i = 0; i < REPAIR_RULES; i++) detection_run((detection_line)line, &repair_rules[i], b->first, b->hours, &b->detection[line][i]);
}

static int run(repair_bench *b) {
    if (!cli_can_write("repair", "plot", b->plot)) return CLI_FAILED;
    int code = run_deaths(b);
    if (code != CLI_OK) return code;
    run_detection(b);
    if (b->json) repair_print_json(b);
    else repair_print_table(b);
    braid_error error = {0};
    if (b->plot != NULL && repair_plot(b, &error)) return cli_complain(CLI_FAILED, "repair", "%s", error.text);
    return CLI_OK;
}

int bench_repair(int argc, char **argv) {
    static repair_bench b;
    b = (repair_bench){.seeds = 40, .capacity = 4, .hours = 200};
    option table[] = {
        {"seeds", OPTION_COUNT, &b.seeds, .help = "runs of each kind of death, at each of its moments", .min = 1, .max = 1e5},
        {"first", OPTION_COUNT, &b.first, .help = "the first seed", .max = 1e15},
        {"capacity", OPTION_COUNT, &b.capacity, .help = "microbatches that a relay holds at once; 4: all slots of a stage are in use", .min = 1, .max = WIRE_MAX_MICROBATCHES},
        {"hours", OPTION_REAL, &b.hours, .help = "simulated hours of heartbeats for each rule", .min = 1, .max = 1e5},
        {"plot", OPTION_TEXT, &b.plot, .unit = "FILE", .help = "draw the repairs as an SVG", .fallback = "no drawing"},
        {"json", OPTION_SWITCH, &b.json, .help = "one JSON object a row instead of tables"},
    };
    options o = {.verb = "repair",
                 .summary = "Measures how long it takes to repair what a death took, and how soon it is noticed.",
                 .examples = examples,
                 .table = table,
                 .count = sizeof table / sizeof *table};
    int code = CLI_OK;
    if (!options_parse(&o, argc, argv, &code)) return code;
    code = run(&b);
    for (int i = 0; i < 2 * REPAIR_ROWS; i++) {
        free(b.row[i / REPAIR_ROWS][i % REPAIR_ROWS].seconds.value);
        free(b.row[i / REPAIR_ROWS][i % REPAIR_ROWS].units.value);
    }
    options_close(&o);
    return code;
}
