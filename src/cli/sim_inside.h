// What the files of `braid sim` share.
#ifndef BRAID_CLI_SIM_INSIDE_H
#define BRAID_CLI_SIM_INSIDE_H

#include "sim/routes.h"
#include "sim/scenario.h"
#include "sim/summary.h"
#include "sim/swarm.h"

#include <stdint.h>

// One more peer, in one stage.
typedef struct sim_plan {
    uint16_t stage;
    uint32_t like;  // a peer of the scenario
    bool failed;    // that swarm did not come to its end; the rest is not known
    double mean_s;  // of an iteration
    double tokens_per_s;
    double change;  // of the mean, a share: -0.2 is a fifth less
} sim_plan;

typedef struct sim_result {
    const scenario *s;
    const sim_swarm_report *report;
    sim_summary summary;
    sim_routes routes;
    uint32_t plans;
    sim_plan plan[SCENARIO_MAX_STAGES];  // best first
} sim_result;

// --- sim_print.c
void sim_print_head(const scenario *s);
void sim_print_result(const sim_result *r);
void sim_print_plans(const sim_result *r);

// --- sim_json.c
// One object, in one line. False: out of memory.
bool sim_print_json(const sim_result *r);

#endif
