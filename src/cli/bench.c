// braid bench NAME ...: finds the experiment and calls it.
#include "cli/bench.h"

#include "cli/options.h"
#include "format/suggest.h"

#include <stdio.h>
#include <string.h>

typedef struct experiment {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *help;
} experiment;

static const experiment experiments[] = {
    {"f7", bench_f7, "routing: swarm, gwtf and braid against the optimum (GWTF, Table V and Figure 7)"},
    {"t2", bench_t2, "training while relays crash, against swarm and gwtf (GWTF, Table II)"},
    {"t3", bench_t3, "the same with a GPT-like model (GWTF, Table III)"},
    {"t6", bench_t6, "time per microbatch against DT-FM's arrangement (GWTF, Table VI)"},
    {"churn", bench_churn, "routing: what it takes to repair when relays die or join"},
    {"drift", bench_drift, "routing: how it follows link costs that drift, without flapping"},
    {"views", bench_views, "routing: what it costs that peers know only some neighbours, chosen by gossip"},
    {"scale", bench_scale, "routing: what it costs each peer, from 100 peers to 10,000"},
    {"repair", bench_repair, "how long it takes until a microbatch goes on when a peer died, and how soon that is noticed"},
    {"keep", bench_keep, "what it costs that a whole stage dies: shadows, copies or an erasure code of its state"},
    {"step", bench_step, "computing: whole training steps on this machine, and where their time goes"},
    {"generate", bench_generate, "computing: how fast and how well a checkpoint reads a text, with weights in fp32 and in int8"},
};

enum { EXPERIMENTS = sizeof experiments / sizeof *experiments };

static void print_help(FILE *out) {
    fprintf(out, "Usage: braid bench EXPERIMENT [FLAGS]\n\nRuns an experiment: in a simulator, the same for the same "
                 "seeds, or on this machine.\n\nExperiments:\n");
    for (size_t i = 0; i < EXPERIMENTS; i++) fprintf(out, "  %-8s %s\n", experiments[i].name, experiments[i].help);
    fprintf(out, "\n'braid bench EXPERIMENT --help' shows its flags and examples.\n");
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
    const char *names[EXPERIMENTS];
    for (size_t i = 0; i < EXPERIMENTS; i++) {
        names[i] = experiments[i].name;
        if (strcmp(argv[1], names[i]) == 0) return experiments[i].run(argc - 1, argv + 1);
    }
    const char *near = suggest_name(argv[1], names, EXPERIMENTS);
    if (near != NULL)
        return cli_complain(CLI_USAGE, "bench", "unknown experiment '%.64s'; did you mean '%s'?", argv[1], near);
    return cli_complain(CLI_USAGE, "bench", "unknown experiment '%.64s'; 'braid bench --help' lists them", argv[1]);
}

// 120 of gwtf's iterations are 480 rounds: an iteration is at least a query, an answer, a request and an answer.
enum { GWTF_ROUNDS = 480, OTHER_ROUNDS = 16000 };

const bench_system bench_systems[BENCH_SYSTEMS] = {
    {"swarm", ROUTER_SWARM, OTHER_ROUNDS},
    {"gwtf", ROUTER_GWTF, GWTF_ROUNDS},
    {"braid", ROUTER_MINCOST, OTHER_ROUNDS},
};

bool bench_read_systems(const char *verb, const char *text, bool system[BENCH_SYSTEMS]) {
    const char *names[BENCH_SYSTEMS];
    for (uint32_t i = 0; i < BENCH_SYSTEMS; i++) names[i] = bench_systems[i].name;
    return options_read_set(verb, "systems", text, names, BENCH_SYSTEMS, system);
}

bool bench_read_delay(const char *verb, const char *text, routing_delay *delay) {
    const char *names[ROUTING_DELAYS];
    uint32_t choice = 0;
    for (uint32_t i = 0; i < ROUTING_DELAYS; i++) names[i] = routing_delay_name((routing_delay)i);
    bool good = options_read_choice(verb, "delay", text, names, ROUTING_DELAYS, &choice);
    *delay = (routing_delay)choice;
    return good;
}

bool bench_read_objective(const char *verb, const char *text, router_objective *objective) {
    const char *names[ROUTER_OBJECTIVES];
    uint32_t choice = 0;
    for (uint32_t i = 0; i < ROUTER_OBJECTIVES; i++) names[i] = routing_objective_name((router_objective)i);
    bool good = options_read_choice(verb, "objective", text, names, ROUTER_OBJECTIVES, &choice);
    *objective = (router_objective)choice;
    return good;
}

bool bench_may_plan(const char *verb, const routing_settings *settings) {
    if (!settings->plan_first || settings->objective == ROUTER_SUM) return true;
    cli_complain(CLI_USAGE, verb, "--plan-first is for the objective sum; leave one of the two out");
    return false;
}
