// How good the routers' flow is in a simulated run: what it costs by the scenario's own figures, beside the cheapest flow over
// all links between neighbouring stages. And what was said to find it.
#ifndef BRAID_SIM_ROUTES_H
#define BRAID_SIM_ROUTES_H

#include "sim/scenario.h"
#include "sim/swarm.h"

typedef struct sim_routes {
    double wanted;              // units that the data peers wish to send
    double units;               // that have a way through all stages; 0: nobody routes
    double cost_ms;             // of a way, on average
    double least_ms;            // ... in the cheapest flow of as many units; with several data peers a bound of it
    uint32_t choosers;          // relays that chose their neighbours by gossip
    double view_messages, view_bytes;    // that each of these sent of it in a minute
    double route_messages, route_bytes;  // and each peer of routing
} sim_routes;

// What one unit costs between two peers, in microseconds, as routers measure it when nobody else uses the lines: computing at
// both ends, the way there and back, the tensor over the slowest of both lines and the pair.
int64_t sim_routes_cost(const scenario *s, uint32_t from, uint32_t to);

// `report` is of `s`, at its end or after an iteration.
braid_err sim_routes_look(const scenario *s, const sim_swarm_report *report, sim_routes *out, braid_error *error);

// The mean of what was seen at several times, but for what was said: that is of the newest look.
typedef struct sim_routes_mean {
    uint32_t looks;
    sim_routes sum;
} sim_routes_mean;

void sim_routes_add(sim_routes_mean *mean, const sim_routes *one);
sim_routes sim_routes_of(const sim_routes_mean *mean);

#endif
