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

// What the swarm as it is takes with other seeds, where peers or connections go by chance.
typedef struct sim_chance {
    uint32_t seeds;        // the scenario's own included; 0: nothing is left to chance, or nobody asked
    uint32_t failed;       // of these, without an end
    double mean_s, sd_s;   // of an iteration's mean
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

// The swarm as it is might take as long, with another seed: what the plan brings may be chance.
static inline bool sim_within_chance(const sim_chance *c, const sim_plan *p) {
    double away_s = p->mean_s - c->mean_s;
    return c->seeds > 0 && !p->failed && away_s <= 2 * c->sd_s && -away_s <= 2 * c->sd_s;
}

// --- sim_print.c
void sim_print_head(const scenario *s);
void sim_print_result(const sim_result *r);
void sim_print_plans(const sim_result *r);

// --- sim_json.c
// One object, in one line. False: out of memory.
bool sim_print_json(const sim_result *r);

#endif
