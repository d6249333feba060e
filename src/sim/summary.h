// What a simulated swarm's report means to a person: how long iterations take, how busy stages are, and what holds them up.
#ifndef BRAID_SIM_SUMMARY_H
#define BRAID_SIM_SUMMARY_H

#include "sim/scenario.h"
#include "sim/swarm.h"

// What holds an iteration up most.
typedef enum sim_limit {
    SIM_LIMIT_COMPUTE,   // a stage's peers compute nearly all the time
    SIM_LIMIT_UP,        // a stage's lines are full of tensors between stages: sent
    SIM_LIMIT_DOWN,      // and received
    SIM_LIMIT_CAPACITY,  // a stage cannot hold the microbatches that are under way
    SIM_LIMIT_DISTANCE,  // nobody is busy: microbatches are on their way
    SIM_LIMIT_SUMS,      // gradients' sums and their results travel among the peers of a stage
    SIM_LIMIT_UPDATE,    // a stage's peers add, and apply the update
    SIM_LIMITS
} sim_limit;

enum { SIM_SUMMARY_TEXT = 512 };

typedef struct sim_stage_summary {
    uint32_t peers;         // members of it at the end or until they went
    uint32_t capacity;      // theirs together
    uint32_t microbatches;  // weight gradients that they added
    double busy, up, down;  // shares of their time alive, on average: with a job, a tensor on its way out, in
    // Shares of the time in which microbatches are under way: computing them, and what the lines need at least to carry
    // their activations and gradients.
    double compute, need_up, need_down;
} sim_stage_summary;

typedef struct sim_summary {
    double mean_s, sd_s, worst_s;  // of an iteration
    uint64_t worst;                // which
    double pipeline_s, update_s;   // of the mean: until all microbatches are computed; sums, results, update
    double tokens_per_s;
    double wasted;  // share of all compute of microbatches that did not count
    uint16_t stages;
    sim_stage_summary stage[SCENARIO_MAX_STAGES];
    sim_limit limit;
    uint16_t limit_stage;
    double limit_share;           // of the time that the limit is about
    char text[SIM_SUMMARY_TEXT];  // one sentence: what holds it up, and why; a second one: what would help
} sim_summary;

const char *sim_limit_name(sim_limit limit);
// `report` is of `s`, has not failed and has at least one iteration.
void sim_summarise(const scenario *s, const sim_swarm_report *report, sim_summary *out);
// The peer whose speed is in the middle of all relays (of all data peers), the earlier name among equals; UINT32_MAX: there
// are none.
uint32_t sim_median_peer(const scenario *s, bool data);

#endif
