// braid-bench atom: ATOM's figures 14, 15 and 16 from data sheets.
#include "bench/cli/experiments.h"
#include "bench/training/atom.h"
#include "cli/figures.h"
#include "cli/options.h"

#include <stdio.h>
#include <string.h>

enum { NETWORKS = 3, BATCH = 256 };
#define MEGABIT 125000.0

static const struct {
    const char *name;
    double bytes_s;
} networks[NETWORKS] = {{"400 Mbit/s", 400 * MEGABIT}, {"800 Mbit/s", 800 * MEGABIT}, {"local", 12.5e9}};

static const char examples[] = "braid-bench atom\n"
                               "braid-bench atom --json\n";

static bool put_row(const atom_model *m, const atom_device *d, const char *network, atom_policy policy, atom_result r) {
    json_out o = {0};
    json_out_open(&o, NULL, '{');
    json_out_string(&o, "figure", "14");
    json_out_string(&o, "model", m->name);
    json_out_string(&o, "device", d->name);
    json_out_string(&o, "network", network);
    json_out_string(&o, "policy", atom_policy_names[policy]);
    json_out_double(&o, "seconds", r.seconds);
    json_out_double(&o, "utilisation", r.utilisation);
    json_out_bool(&o, "fits", r.fits);
    return figures_print_line(&o);
}

static void print_time(atom_result r) {
    if (r.seconds == 0)
        printf(" %9s %4s", "-", "");
    else
        printf(" %8.2f%s %3.0f%%", r.seconds, r.fits ? " " : "*", 100 * r.utilisation);
}

static void print_head(const atom_device *d) {
    printf("%s: seconds of a mini-batch per GPU, and utilisation\n%-8s", d->name, "model");
    for (int n = 0; n < NETWORKS; n++) printf(" | gpipe %-10s pipedream   ", networks[n].name);
    printf(" |           swap    Algorithm 1\n");
}

static bool show_time(const atom_model *m, const atom_device *d, int network, atom_policy policy, bool lines) {
    bool pipe = network < NETWORKS;
    atom_result r = atom_time(m, d, policy, pipe ? networks[network].bytes_s : 1);
    if (lines) return put_row(m, d, pipe ? networks[network].name : "any", policy, r);
    print_time(r);
    return true;
}

static bool show_row(const atom_model *m, const atom_device *d, bool lines) {
    bool fine = true;
    if (!lines) printf("%-8s", m->name);
    for (int n = 0; n <= NETWORKS; n++) {
        atom_policy first = n < NETWORKS ? ATOM_GPIPE : ATOM_SWAP, end = n < NETWORKS ? ATOM_SWAP : ATOM_POLICIES;
        if (!lines) printf(" |");
        for (atom_policy p = first; p < end; p++) fine = fine && show_time(m, d, n, p, lines);
    }
    if (!lines) printf("\n");
    return fine;
}

static bool figure_14(bool lines) {
    bool fine = true;
    for (int d = 0; d < ATOM_DEVICES; d++) {
        if (!lines) print_head(&atom_devices[d]);
        for (int m = 0; m < ATOM_MODELS; m++) fine = fine && show_row(&atom_models[m], &atom_devices[d], lines);
        if (!lines) printf("\n");
    }
    return fine;
}

static bool put_total(const atom_model *m, uint32_t servers, const char *network, atom_policy policy, atom_total t) {
    json_out o = {0};
    json_out_open(&o, NULL, '{');
    json_out_string(&o, "figure", "16");
    json_out_string(&o, "model", m->name);
    json_out_u64(&o, "servers", servers);
    json_out_string(&o, "network", network);
    json_out_string(&o, "policy", atom_policy_names[policy]);
    json_out_double(&o, "seconds", t.seconds);
    json_out_double(&o, "reduction_s", t.reduction_s);
    return figures_print_line(&o);
}

static bool figure_16(bool lines) {
    const atom_model *m = &atom_models[3];
    if (!lines)
        printf("GPT-3 %s, %d mini-batches and their reduction at 800 Mbit/s: seconds (of it the reduction)\n%-10s "
               "%-12s %18s %18s %18s\n",
               m->name, BATCH, "servers", "network", "gpipe", "pipedream", "swap");
    for (uint32_t servers = 2; servers <= ATOM_DEVICES; servers++)
        for (int n = 0; n < NETWORKS; n++) {
            if (!lines) printf("%-10u %-12s", servers, networks[n].name);
            for (atom_policy p = ATOM_GPIPE; p <= ATOM_SWAP; p++) {
                atom_total t = atom_global_batch(m, servers, p, networks[n].bytes_s, 800 * MEGABIT, BATCH);
                if (!lines)
                    printf(" %10.0f (%4.0f)", t.seconds, t.reduction_s);
                else if (!put_total(m, servers, networks[n].name, p, t))
                    return false;
            }
            if (!lines) printf("\n");
        }
    return true;
}

int bench_atom(int argc, char **argv) {
    bool lines = false;
    option table[] = {{"json", OPTION_SWITCH, &lines, .help = "print a JSON object a line"}};
    options o = {.verb = "atom",
                 .arguments = "",
                 .summary = "Pipelines over a network against machines that swap a whole model (ATOM, Figures 14 to "
                            "16), from data sheets.",
                 .examples = examples,
                 .table = table,
                 .count = sizeof table / sizeof *table};
    int code = CLI_OK;
    if (!options_parse(&o, argc, argv, &code)) return code;
    if (!figure_14(lines) || !figure_16(lines))
        code = cli_complain(CLI_FAILED, "atom", "out of memory");
    else if (!lines)
        printf("\n*: a stage does not fit into the GPU's memory. -: Algorithm 1 finds no partition, or one with "
               "neighbours that do not fit together.\n");
    options_close(&o);
    return code;
}
