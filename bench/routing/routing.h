// Routing under a virtual clock: the routers of src/routing as the only code of every peer, the
// messages between them, and the view of a global observer. bench/optimum has the optimum for
// comparison.
#ifndef BRAID_BENCH_ROUTING_ROUTING_H
#define BRAID_BENCH_ROUTING_ROUTING_H

#include "base/err.h"
#include "routing/core/router.h"
#include "plan/problem.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    ROUTING_NAME = 16,
    ROUTING_ROUND = 1000,  // time of one message in lockstep; the mean of the other delays
    ROUTING_SCALE = 1000,  // cost 1 of an experiment's table in a router's integers
    // routing_settings.slack where costs are whole. With one data peer the result is optimal while
    // slack times the links of a cycle, at most 44, is below 1. With several there is no such
    // guarantee, and a larger slack saves messages.
    ROUTING_SLACK = ROUTING_SCALE / 50,
    ROUTING_SLACK_SHARED = ROUTING_SCALE / 20,
    ROUTING_TESTS = 6,     // tests of F7
};

// --- instances: peers sorted by name, so that their order in a list changes nothing

typedef struct routing_instance {
    plan_problem problem;  // owns its arrays; data peers first, costs in 1/ROUTING_SCALE
    char (*name)[ROUTING_NAME];
    uint32_t sources;
    uint64_t seed;
} routing_instance;

// F7's table (GWTF, Table V). A draw is a function of seed, test and the names that it is for.
typedef struct routing_f7 {
    uint32_t sources, relays, stages, capacity_low, capacity_high, cost_low, cost_high;
} routing_f7;
extern const routing_f7 routing_f7_tests[ROUTING_TESTS];

typedef enum routing_demand {
    ROUTING_EQUAL,  // every data peer sends the same number of units, as many as fit
    ROUTING_FREE    // every data peer offers all that fits
} routing_demand;

// Test 1 .. ROUTING_TESTS. `listing`: the order of its peers and links before they are sorted.
braid_err routing_f7_make(uint32_t test, uint64_t seed, routing_demand demand, uint64_t listing, routing_instance *out,
                          braid_error *error);
void routing_instance_close(routing_instance *instance);

// --- runs

typedef enum routing_delay {
    ROUTING_LOCKSTEP,     // every message takes one round
    ROUTING_UNIFORM,      // 0.5 .. 1.5 rounds
    ROUTING_EXPONENTIAL,  // mean 1 round
    ROUTING_HEAVY,        // Pareto, exponent 2, mean 1 round: the variance is infinite
    ROUTING_DELAYS
} routing_delay;
const char *routing_delay_name(routing_delay delay);
const char *routing_objective_name(router_objective objective);

typedef struct routing_settings {
    router_algorithm algorithm;
    router_objective objective;
    routing_delay delay;
    int64_t limit_rounds;  // the run ends then, or when no event is left
    int64_t slack;         // in 1/ROUTING_SCALE of cost
    int64_t hold;          // rounds; 0: the router's default
    int64_t lazy;          // router_config.lazy
    bool plan_first;       // router_config.plan_first
    uint32_t path_limit;   // 0: the router's default
    // wait a quarter of a round for more messages before a tick (never in lockstep)
    bool gather;
    // `near` is noted when all units have a path and cost at most this; 0: never
    int64_t near_cost;
    void (*begins)(void *whose);  // called by routing_run before the first event; may be NULL
    void *whose;
    // for large runs: the time between looks grows up to 3 % of the passed rounds, and `whole` and
    // `near` mean routing_sight.placed
    bool seldom;
                           // and `near` mean routing_sight.placed
} routing_settings;

// The flow as seen by an observer of all peers at once.
typedef struct routing_sight {
    int64_t units;    // units that leave a data peer and return to it
    int64_t cost;     // cost of these units, and of incomplete ones as far as they get
    int64_t worst;    // the heaviest load of a link: units, of all data peers, times cost
    int64_t paid;     // cost of all units that senders report
    bool whole;       // all units that should flow do, and no peer is above capacity
    bool placed;      // the same, except for the units that COMMITs in flight are moving
    // both ends of each link agree, and no unit of a peer lacks a sender or a receiver
    bool consistent;
} routing_sight;

enum { ROUTING_EARLY = 120 };  // the round of the early look

typedef struct routing_result {
    // the latest whole look until round ROUTING_EARLY, else the look at that round
    routing_sight early;
    // when quiet; for a run that never is, the latest whole look, else the last
    routing_sight end;
    bool quiet;                // no message in flight, no tick planned: nothing will change
    uint64_t over_capacity;    // changes after which a router reports more units than its capacity
    // rounds; `whole`: the first at which all units had a path, -1: never
    int64_t last_move, whole;
    uint64_t messages, frames, bytes, early_messages, whole_messages, events;
    uint64_t by_kind[ROUTER_KINDS];
    routing_sight whole_sight;  // the look at round `whole`
    int64_t near;        // like `whole`, for settings.near_cost
    uint64_t near_messages;
    // memory of the routers; largest size of all else that grows with the run
    uint64_t router_bytes, run_bytes;
    uint64_t hash;       // hash of every event of the run, in order
    int64_t *flow;       // [sources][links] at `end`, owned
} routing_result;

braid_err routing_run(const routing_instance *instance, const routing_settings *settings, int64_t units,
                      routing_result *out, braid_error *error);
void routing_result_close(routing_result *result);

// --- changes: deaths and joins in a swarm with quiet routing

typedef struct routing_change {
    const uint32_t *peer;  // relays of the instance, borrowed
    uint32_t count;
    // true: they join then; false: they die, and each neighbour notices it 1 to 3 rounds later
    bool join;
    // NULL, or the caller's [2][peers]: messages of each peer from the change until all is whole
    // again, and then until it is quiet
    uint64_t *said;
} routing_change;

// The instance without some peers.
braid_err routing_without(const routing_instance *instance, const routing_change *change, routing_instance *out,
                          braid_error *error);

// Runs until it is quiet, applies the change, and runs until it is quiet again. `after` counts
// rounds, messages and events from the change on, and stays empty if the run never became quiet
// before. With one data peer its demand becomes `units_after` after a join.
braid_err routing_run_change(const routing_instance *instance, const routing_settings *settings,
                             const routing_change *change, int64_t units_before, int64_t units_after,
                             routing_result *before, routing_result *after, braid_error *error);

#endif
