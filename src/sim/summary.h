// A summary of a simulated swarm's report for a user: the duration of iterations, the load of
// stages, and the bottleneck.
#ifndef BRAID_SIM_SUMMARY_H
#define BRAID_SIM_SUMMARY_H

#include "sim/scenario.h"
#include "sim/swarm.h"

// The bottleneck of an iteration.
typedef enum sim_limit {
    SIM_LIMIT_COMPUTE,   // the peers of a stage compute nearly all the time
    SIM_LIMIT_UP,        // the uplinks of a stage are full of tensors between stages
    SIM_LIMIT_DOWN,      // the downlinks of a stage are full of them
    SIM_LIMIT_CAPACITY,  // a stage cannot hold the microbatches that are under way
    SIM_LIMIT_DISTANCE,  // nothing is busy: microbatches are on their way
    SIM_LIMIT_SUMS,      // gradient sums and their results travel among the peers of a stage
    SIM_LIMIT_UPDATE,    // the peers of a stage add sums and apply the update
    SIM_LIMITS
} sim_limit;

enum { SIM_SUMMARY_TEXT = 512 };

typedef struct sim_stage_summary {
    uint32_t peers;         // members at the end, or until they left
    uint32_t capacity;      // capacity of all of them
    uint32_t microbatches;  // weight gradients that they added
    // shares of their time alive, on average: with a job, with a tensor going out, with one coming
    // in
    double busy, up, down;
    // Shares of the time with microbatches under way: for computing them, and for the lines to
    // carry their activations and gradients at full rate.
    double compute, need_up, need_down;
} sim_stage_summary;

typedef struct sim_summary {
    double mean_s, sd_s, worst_s;  // seconds of an iteration
    uint64_t worst;                // its index
    // parts of the mean: until all microbatches are computed; sums, results, update
    double pipeline_s, update_s;
    double tokens_per_s;
    double wasted;  // share of all compute for microbatches that did not count
    uint16_t stages;
    sim_stage_summary stage[SCENARIO_MAX_STAGES];
    sim_limit limit;
    uint16_t limit_stage;
    double limit_share;           // share of the time that the limit is about
    // one sentence with the bottleneck and its reason, a second one with a remedy
    char text[SIM_SUMMARY_TEXT];
} sim_summary;

const char *sim_limit_name(sim_limit limit);
// `report` is a report of `s`, has not failed and has at least one iteration.
void sim_summarise(const scenario *s, const sim_swarm_report *report, sim_summary *out);
// The peer of median speed among all relays, or among all data peers; the earlier name among
// equals. UINT32_MAX: there are none.
uint32_t sim_median_peer(const scenario *s, bool data);

#endif
