// braid bench NAME ...: selects the measurement and calls it.
#include "cli/bench.h"

#include "cli/cli.h"
#include "format/suggest.h"

#include <stdio.h>
#include <string.h>

static const cli_verb measurements[] = {
    {"step", bench_step, "time of whole training steps on this machine, part by part"},
    {"generate", bench_generate, "speed and loss of a checkpoint on a text, with fp32 and with int8 weights"},
    {"serve", bench_serve, "speed of a service with many texts at once"},
};
enum { MEASUREMENTS = sizeof measurements / sizeof *measurements };

static const char *const moved[] = {"f7", "churn", "t2", "t3", "t6", "views", "scale", "repair", "keep"};
enum { MOVED = sizeof moved / sizeof *moved };

static void print_help(FILE *out) {
    fprintf(out, "Usage: braid bench NAME [FLAGS]\n\nMeasures how fast this machine computes.\n\nMeasurements:\n");
    for (size_t i = 0; i < MEASUREMENTS; i++) fprintf(out, "  %-8s %s\n", measurements[i].name, measurements[i].help);
    fprintf(out, "\n'braid bench NAME --help' shows its flags and examples. Experiments in a simulator: braid-bench --help.\n");
}

static int unknown(const char *text) {
    const char *names[MEASUREMENTS];
    for (size_t i = 0; i < MEASUREMENTS; i++) names[i] = measurements[i].name;
    const char *near = suggest_name(text, names, MEASUREMENTS);
    if (near != NULL)
        return cli_complain(CLI_USAGE, "bench", "unknown measurement '%.64s'; did you mean '%s'?", text, near);
    return cli_complain(CLI_USAGE, "bench", "unknown measurement '%.64s'; 'braid bench --help' lists them", text);
}

int cli_bench(int argc, char **argv) {
    if (argc < 2) {
        print_help(stderr);
        return CLI_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "help") == 0) {
        print_help(stdout);
        return CLI_OK;
    }
    for (size_t i = 0; i < MEASUREMENTS; i++)
        if (strcmp(argv[1], measurements[i].name) == 0) return measurements[i].run(argc - 1, argv + 1);
    for (size_t i = 0; i < MOVED; i++)
        if (strcmp(argv[1], moved[i]) == 0)
            return cli_complain(CLI_USAGE, "bench", "%s moved to the program braid-bench: run 'braid-bench %s' with the same flags",
                                moved[i], moved[i]);
    return unknown(argv[1]);
}
