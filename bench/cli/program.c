// The experiments of braid-bench.
#include "bench/cli/experiments.h"

#include <stddef.h>

static const cli_verb experiments[] = {
    {"f7", bench_f7, "routing: swarm, gwtf and braid against the optimum (GWTF, Table V and Figure 7)"},
    {"f5", bench_f5, "the stage of joining peers: five rules against the optimum (GWTF, Table IV and Figure 5)"},
    {"t2", bench_t2, "training while relays crash, against swarm and gwtf (GWTF, Table II)"},
    {"t3", bench_t3, "the same with a GPT-like model (GWTF, Table III)"},
    {"t6", bench_t6, "time per microbatch against DT-FM's arrangement (GWTF, Table VI)"},
    {"churn", bench_churn, "routing: what it takes to repair when relays die or join"},
    {"churn-trace", bench_churn_trace, "training on machines that come and go as a trace says, beside restarts from a checkpoint"},
    {"views", bench_views, "routing: what it costs that peers know only some neighbours, chosen by gossip"},
    {"scale", bench_scale, "routing: what it costs each peer, from 100 peers to 10,000"},
    {"repair", bench_repair, "time until a microbatch goes on after a peer died, and until the death is noticed"},
    {"keep", bench_keep, "what it costs that a whole stage dies: shadows, copies or an erasure code of its state"},
    {"atom", bench_atom, "pipelines against machines that swap a whole model (ATOM, Figures 14 to 16)"},
    {"serving", bench_serving, "serving: placement and routing of sessions against the optimum, Nesa, Petals and Helix"},
    {"up", cli_up, "real peers: as braid up, where swarm.routing may also be the baseline swarm"},
    {"node", cli_node, "a real peer: as braid node, with the same addition"},
    {"train", cli_train, "one process, to compare with: as braid train"},
    {NULL, NULL, NULL},
};

const cli_program cli_this_program = {
    .kind = "experiment",
    .usage = "Usage: braid-bench EXPERIMENT [FLAGS]\n\nRuns an experiment in a simulator, the same figures for the same seeds, or real peers with a baseline.\n\n"
             "Experiments:\n",
    .closing = "\n'braid-bench EXPERIMENT --help' shows its flags and examples; 'braid-bench --version' the version.\n",
    .verb = experiments,
};
