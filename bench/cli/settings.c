// Shared by the experiments with routing: the compared systems, and parsers of named options.
#include "bench/cli/experiments.h"

#include "cli/options.h"

// 120 of gwtf's iterations are 480 rounds: an iteration takes at least a query, an answer, a
// request and an answer.
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
