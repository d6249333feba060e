// The quality of the routers' flow in a simulated run: its cost by the scenario's own figures,
// beside the cheapest flow over all links between neighbouring stages, and the messages that it
// took.
#ifndef BRAID_SIM_ROUTES_H
#define BRAID_SIM_ROUTES_H

#include "sim/scenario.h"
#include "sim/swarm.h"

typedef struct sim_routes {
    double wanted;              // units that the data peers want to send
    double units;               // units with a path through all stages; 0: there are no routers
    double cost_ms;             // average cost of a path
    // the same in the cheapest flow of as many units; with several data peers a lower bound
    double least_ms;
    uint32_t choosers;          // relays with a partial view, which gossip maintains
    double view_messages, view_bytes;    // gossip sent by each of these in a minute
    double route_messages, route_bytes;  // routing messages sent by each peer in a minute
} sim_routes;

// `report` is a report of `s`, at its end or after an iteration.
braid_err sim_routes_look(const scenario *s, const sim_swarm_report *report, sim_routes *out, braid_error *error);

// The mean of several looks. Message counts are those of the newest look.
typedef struct sim_routes_mean {
    uint32_t looks;
    sim_routes sum;
} sim_routes_mean;

void sim_routes_add(sim_routes_mean *mean, const sim_routes *one);
sim_routes sim_routes_of(const sim_routes_mean *mean);

#endif
