// A swarm whose routing has become quiet, and then every link's cost drifts for some minutes. Each link's upstream peer
// samples its cost every now and then, with noise and now and then nonsense, and tells routing what src/routing/core/measure.h makes of it.
#ifndef BRAID_SIM_ROUTING_DRIFT_H
#define BRAID_SIM_ROUTING_DRIFT_H

#include "routing/core/measure.h"
#include "sim/routing.h"

enum {
    ROUTING_SECOND = 10 * ROUTING_ROUND,  // a message takes 100 ms
    ROUTING_MAX_DRIFT_SECONDS = 3600,
};

// What routing is told of a sample.
typedef enum routing_told {
    ROUTING_TOLD_ALL,     // the sample itself
    ROUTING_TOLD_SMOOTH,  // the smoothed cost, whenever it is another number
    ROUTING_TOLD_BAND,    // as measure_announce says
    ROUTING_TOLDS
} routing_told;
const char *routing_told_name(routing_told told);

typedef struct routing_drift {
    routing_told told;
    measure_rule rule;        // of ROUTING_TOLD_BAND
    uint32_t seconds;         // of drift, 1 .. ROUTING_MAX_DRIFT_SECONDS
    uint32_t look_seconds;    // between two comparisons with the optimum; a multiple of the next
    uint32_t plan_seconds;    // between two optima, and two countings of moves
    uint32_t sample_seconds;  // between two samples of a link
    uint32_t leg_seconds;     // a link's cost keeps its direction for so long
    // In a leg a cost goes evenly from c to c * (1 + u), u uniform in +-drift_ppm * sqrt(leg / 60 s): over a minute the same
    // spread for every length of a leg. It stays within half and twice what it was at first.
    uint32_t drift_ppm;
    uint32_t noise_ppm;  // standard deviation of a sample
    uint32_t spike_ppm;  // so many samples of a million are 20 times too long
} routing_drift;

// Ways of following the costs, all counted alike: at every plan, against the one before.
typedef enum routing_follower {
    ROUTING_FOLLOW_RUN,      // the routers
    ROUTING_FOLLOW_NEWS,     // the exact optimum of what routing was told, anew at each second: no router knows more
    ROUTING_FOLLOW_OPTIMUM,  // the exact optimum of the true costs
    ROUTING_FOLLOWERS
} routing_follower;

typedef struct routing_followed {
    double mean, worst;  // true cost over the optimum's of the moment, at each look
    uint64_t moved;      // units that changed their way, at least
    double *ratio;       // [looks], owned
} routing_followed;

typedef struct routing_drift_result {
    routing_result before;  // until it is quiet
    uint32_t looks;
    routing_followed follower[ROUTING_FOLLOWERS];
    uint64_t moved_rounds;  // as follower[RUN].moved, against the latest whole flow at every round
    uint64_t passing;       // rounds at whose end a change was under way: peers did not agree yet on some unit
    uint64_t told;          // costs that routing was told, each to both ends
    uint64_t messages, frames, bytes, over_capacity;
    double error;   // mean relative difference between a link's true cost and what routing was told of it
    uint64_t hash;  // of the whole run
} routing_drift_result;

// One data peer. BRAID_STATE: it did not become quiet within the settings' limit.
braid_err routing_run_drift(const routing_instance *instance, const routing_settings *settings,
                            const routing_drift *drift, int64_t units, routing_drift_result *out, braid_error *error);
void routing_drift_result_close(routing_drift_result *result);

#endif
