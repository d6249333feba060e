// braid profile: what each layer of a run costs on this machine, for `braid plan --whole`.
#include "train/profile.h"

#include "cli/cli.h"
#include "cli/options.h"
#include "format/quantity.h"

#include <stdio.h>

static const char examples[] = "braid profile RUN.yaml --out machine.json\n"
                               "braid profile RUN.yaml --state-dir /mnt/ssd --threads 2 --out machine.json\n"
                               "braid plan RUN.yaml --whole --profile machine.json --max-memory 2G\n";

enum { MOST_THREADS = 1024, MOST_REPS = 101 };

static void print_rate(const char *what, double rate) {
    char text[QUANTITY_TEXT];
    if (rate > 0) printf("%-28s %s/s\n", what, quantity_size_text((uint64_t)rate, text));
}

static void print_profile(const train_profile *p) {
    char text[QUANTITY_TEXT];
    printf("Microbatches of %u x %u tokens, %u thread%s.\n\n", p->sequences, p->tokens, p->threads,
           p->threads == 1 ? "" : "s");
    printf("part         parameters  forward ms  backward ms\n");
    for (uint32_t i = 0; i < p->items; i++) {
        char name[16];
        snprintf(name, sizeof name, i == 0 ? "embedding" : i + 1 == p->items ? "head" : "layer %u", i - 1);
        printf("%-12s %10s %11.2f %12.2f\n", name, quantity_count_text((double)p->item[i].parameters, text),
               1e3 * p->item[i].forward_s, 1e3 * p->item[i].backward_s);
    }
    printf("\n%-28s %s\n", "activations at a boundary", quantity_size_text(p->activation_bytes, text));
    printf("%-28s %s\n", "work area of a layer", quantity_size_text(p->work_bytes, text));
    print_rate("copying in memory", p->memory_bytes_s);
    print_rate("reading the state file", p->read_bytes_s);
    print_rate("writing the state file", p->write_bytes_s);
    if (p->read_bytes_s > 0 && !p->direct) printf("The file system has no direct I/O, so the page cache takes part.\n");
}

int cli_profile(int argc, char **argv) {
    uint64_t threads = 1, reps = 5;
    const char *out = NULL, *directory = NULL;
    option table[] = {
        {"out", OPTION_TEXT, &out, .unit = "FILE", .help = "keep the figures as JSON, for braid plan --whole"},
        {"state-dir", OPTION_TEXT, &directory, .unit = "DIR", .help = "also measure reading and writing a file there"},
        {"threads", OPTION_COUNT, &threads, .help = "compute threads", .min = 1, .max = MOST_THREADS},
        {"reps", OPTION_COUNT, &reps, .help = "repetitions of each measurement; the median counts", .min = 1,
         .max = MOST_REPS},
    };
    options o = {
        .verb = "profile",
        .arguments = "RUN.yaml",
        .summary = "Measures time and memory of each layer of a run, and the rates of this machine's memory and disk.",
        .examples = examples,
        .table = table,
        .count = sizeof table / sizeof *table,
        .min_given = 1,
        .max_given = 1};
    static run_config run;  // too large for the stack
    train_profile profile;
    braid_error error = {0};
    int code = CLI_OK;
    if (!options_parse(&o, argc, argv, &code)) return code;
    if (cli_load_run(o.given[0], NULL, &run, &error)) {
        code = cli_complain(CLI_USAGE, "profile", "%s", error.text);
    } else if (profile_measure(&run, (unsigned)threads, (uint32_t)reps, directory, &profile, &error) ||
               (out && profile_write(&profile, out, &error))) {
        code = cli_complain(CLI_FAILED, "profile", "%s", error.text);
    } else {
        print_profile(&profile);
        if (out) printf("\nWritten to %s.\n", out);
    }
    options_close(&o);
    return code;
}
