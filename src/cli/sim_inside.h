// Shared by the files of `braid sim`.
#ifndef BRAID_CLI_SIM_INSIDE_H
#define BRAID_CLI_SIM_INSIDE_H

#include "sim/routes.h"
#include "sim/scenario.h"
#include "sim/summary.h"
#include "sim/swarm.h"

#include <stdint.h>

typedef struct sim_flags {
    const char *path, *trace;
    uint64_t seed, iterations;
    bool json, plan, check, advise;
    double quality;  // with `advise`: percent
} sim_flags;

// One more peer, in one stage.
typedef struct sim_plan {
    uint16_t stage;
    uint32_t like;  // a peer of the scenario
    bool failed;    // that swarm did not complete; the other figures are unknown
    double mean_s;  // seconds per iteration
    double tokens_per_s;
    double change;  // relative change of the mean: -0.2 is a fifth less
} sim_plan;

// Times of the unchanged swarm with other seeds, if peers or connections are random.
typedef struct sim_chance {
    uint32_t seeds;        // including the scenario's own; 0: nothing is random, or it was not requested
    uint32_t failed;       // number of seeds with which the swarm failed
    double mean_s, sd_s;   // seconds per iteration: mean and deviation of the seeds
} sim_chance;

typedef struct sim_result {
    const scenario *s;
    const sim_swarm_report *report;
    sim_summary summary;
    sim_routes routes;
    uint32_t plans;
    sim_plan plan[SCENARIO_MAX_STAGES];  // best first
    sim_chance chance;
} sim_result;

// Whether the unchanged swarm may take as long with another seed: the plan's effect may then be
// chance.
static inline bool sim_within_chance(const sim_chance *c, const sim_plan *p) {
    double away_s = p->mean_s - c->mean_s;
    return c->seeds > 0 && !p->failed && away_s <= 2 * c->sd_s && -away_s <= 2 * c->sd_s;
}

// --- sim_run.c
// BRAID_OK: the swarm completed or failed; `error` receives other errors.
braid_err sim_run_swarm(const sim_flags *f, const scenario *s, const char *what, const char *trace, sim_routes_mean *routes,
                        sim_swarm_report *report, braid_error *error);

// --- sim_advise.c
braid_err sim_advise(const sim_flags *flags, const scenario *s, braid_error *error);

// --- sim_print.c
void sim_print_head(const scenario *s);
void sim_print_result(const sim_result *r);
void sim_print_plans(const sim_result *r);

// --- sim_json.c
// Writes one object on one line. False: out of memory.
bool sim_print_json(const sim_result *r);

#endif
