// braid-bench keep: a stage dies with all its members, in many runs. The length of the rollback and
// the time to recover, when standbys, copies or an erasure code keep the stage's state.
#include "bench/cli/experiments.h"
#include "bench/cli/figures.h"
#include "cli/options.h"
#include "bench/training/keep.h"

#include <stdio.h>

enum { MOST_LENGTHS = 8 };

typedef struct keep_row {
    figures_sample megabytes, longer_percent, back, lost_s, lost_iterations;
    uint32_t went_back;
} keep_row;

typedef struct keep_bench {
    uint64_t parameters, checkpoint_every, spare, seeds;
    uint32_t length[MOST_LENGTHS], lengths;
    bool whole_share, json;
} keep_bench;

static const char examples[] = "braid-bench keep\n"
                               "braid-bench keep --whole-share\n"
                               "braid-bench keep --seconds 1,5 --parameters 1000000 --checkpoint-every 100\n";

static void run_row(const keep_bench *b, uint32_t seconds, keep_way way, keep_row *row) {
    *row = (keep_row){0};
    for (uint64_t seed = 1; seed <= b->seeds; seed++) {
        keep_case c = {.parameters = b->parameters, .iteration_s = seconds, .checkpoint_every = (uint32_t)b->checkpoint_every,
                       .spare = (uint32_t)b->spare, .whole_share = b->whole_share, .seed = seed};
        keep_result r;
        keep_run(&c, way, &r);
        figures_add(&row->megabytes, r.bytes / 1e6);
        figures_add(&row->longer_percent, r.longer_s * 100 / seconds);
        figures_add(&row->back, r.back);
        figures_add(&row->lost_s, r.lost_s);
        figures_add(&row->lost_iterations, r.lost_s / seconds);
        row->went_back += r.back > 0;
    }
}

static void print_head(const keep_bench *b) {
    printf("a stage of %.1f million parameters dies %llu time%s; a checkpoint every %llu iteration%s; %llu holder%s of its state died with it\n", (double)b->parameters / 1e6,
           (unsigned long long)b->seeds, figures_s(b->seeds), (unsigned long long)b->checkpoint_every, figures_s(b->checkpoint_every), (unsigned long long)b->spare, figures_s(b->spare));
    printf("%-9s %-7s| %9s %9s | %9s | %15s | %18s | %15s\n", "", "", "MB an", "longer by", "goes back", "versions back", "seconds lost", "iterations lost");
    printf("%-9s %-7s| %9s %9s | %9s | %7s %7s | %8s %9s | %7s %7s\n", "iteration", "way", "iteration", "%", "%", "mean", "worst", "mean", "worst", "mean", "worst");
}

static void print_row(const keep_bench *b, uint32_t seconds, keep_way way, const keep_row *row) {
    printf("%7u s %-7s| ", seconds, keep_way_name(way));
    figures_print_mean(&row->megabytes, 9, 0);
    figures_print_mean(&row->longer_percent, 9, 1);
    printf("| %9.1f | ", row->went_back * 100.0 / (double)b->seeds);
    figures_print_mean(&row->back, 7, 2);
    figures_print_worst(&row->back, 7, 0);
    printf("| ");
    figures_print_mean(&row->lost_s, 8, 1);
    figures_print_worst(&row->lost_s, 9, 1);
    printf("| ");
    figures_print_mean(&row->lost_iterations, 7, 2);
    figures_print_worst(&row->lost_iterations, 7, 2);
    printf("\n");
}

static void print_json(const keep_bench *b, uint32_t seconds, keep_way way, const keep_row *row) {
    json_out o = {0};
    json_out_open(&o, NULL, '{');
    json_out_string(&o, "experiment", "keep");
    json_out_string(&o, "way", keep_way_name(way));
    json_out_u64(&o, "iteration_s", seconds);
    json_out_u64(&o, "parameters", b->parameters);
    json_out_u64(&o, "deaths", b->seeds);
    json_out_u64(&o, "went_back", row->went_back);
    figures_put_sample(&o, "megabytes_an_iteration", &row->megabytes);
    figures_put_sample(&o, "longer_percent", &row->longer_percent);
    figures_put_sample(&o, "versions_back", &row->back);
    figures_put_sample(&o, "lost_s", &row->lost_s);
    figures_print_line(&o);
}

static void run(const keep_bench *b) {
    if (!b->json) print_head(b);
    for (uint32_t i = 0; i < b->lengths; i++)
        for (int way = 0; way < KEEP_WAYS; way++) {
            keep_row row;
            run_row(b, b->length[i], (keep_way)way, &row);
            if (b->json) print_json(b, b->length[i], (keep_way)way, &row);
            else print_row(b, b->length[i], (keep_way)way, &row);
        }
}

int bench_keep(int argc, char **argv) {
    keep_bench b = {.parameters = 37748736, .checkpoint_every = 10, .spare = 1, .seeds = 10000};
    const char *seconds = "10,30,100,300";
    option table[] = {
        {"parameters", OPTION_COUNT, &b.parameters, .help = "of the stage; unless it is given three layers of width 1024, as in T2", .min = 1, .max = 1e11},
        {"seconds", OPTION_TEXT, &seconds, .unit = "LIST", .help = "how long iterations take"},
        {"checkpoint-every", OPTION_COUNT, &b.checkpoint_every, .help = "iterations from one checkpoint to the next", .min = 1, .max = 1e6},
        {"spare", OPTION_COUNT, &b.spare, .help = "so many holders of the state die with the stage, and there are so many more", .max = KEEP_MOST_SPARE},
        {"seeds", OPTION_COUNT, &b.seeds, .help = "deaths of a stage, each with other places", .min = 1, .max = 1e7},
        {"whole-share", OPTION_SWITCH, &b.whole_share, .help = "copies and codes use a quarter of each holder's line all the time, not only as much as shadows need"},
        {"json", OPTION_SWITCH, &b.json, .help = "one JSON object a row instead of a table"},
    };
    options o = {.verb = "keep",
                 .summary = "Measures what it costs that a stage dies, when shadows, copies or an erasure code keep its state.",
                 .examples = examples,
                 .table = table,
                 .count = sizeof table / sizeof *table};
    int code = CLI_OK;
    if (!options_parse(&o, argc, argv, &code)) return code;
    option_numbers numbers = {.least = 1, .most = 100000, .room = MOST_LENGTHS, .number = b.length};
    code = options_read_numbers("keep", "seconds", seconds, &numbers) ? CLI_OK : CLI_USAGE;
    b.lengths = numbers.count;
    if (code == CLI_OK) run(&b);
    options_close(&o);
    return code;
}
