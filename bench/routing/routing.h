// Routing under a virtual clock: the routers of src/flow/ as the only code of every peer, the messages between them, and
// what a global observer sees. bench/optimum/ has the optimum they are measured against.
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
    // routing_settings.slack where costs are whole. With one data peer the end is the optimum while slack times a cycle's links
    // is below 1, and a cycle has up to 44 of these. With prices it is no theorem anyhow, and less slack costs messages.
    ROUTING_SLACK = ROUTING_SCALE / 50,
    ROUTING_SLACK_SHARED = ROUTING_SCALE / 20,
    ROUTING_TESTS = 6,     // of F7
};

// --- instances: who takes part, sorted by name, so that the order in which peers are listed changes nothing

typedef struct routing_instance {
    plan_problem problem;  // its arrays are owned by the instance; data peers first, costs in 1/ROUTING_SCALE
    char (*name)[ROUTING_NAME];
    uint32_t sources;
    uint64_t seed;
} routing_instance;

// F7's table (GWTF, Table V). A draw is a function of seed, test and the names it is for.
typedef struct routing_f7 {
    uint32_t sources, relays, stages, capacity_low, capacity_high, cost_low, cost_high;
} routing_f7;
extern const routing_f7 routing_f7_tests[ROUTING_TESTS];

typedef enum routing_demand {
    ROUTING_EQUAL,  // every data peer wants the same number of units, as many as fit
    ROUTING_FREE    // every data peer would send all that fits
} routing_demand;

// Test 1 .. ROUTING_TESTS. `listing`: the order in which its peers and links are written down before they are sorted.
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
    int64_t limit_rounds;  // the run ends then, or when nothing is under way any more
    int64_t slack;         // in 1/ROUTING_SCALE of cost
    int64_t hold;          // rounds, 0: the router's default
    int64_t lazy;          // router_config.lazy
    bool plan_first;       // router_config.plan_first
    uint32_t path_limit;   // 0: the router's default
    bool gather;           // wait a quarter of a round for what else may come before a tick (never in lockstep)
    int64_t near_cost;     // `near` is noted when all units have a way and cost at most this; 0: never
    void (*begins)(void *whose);  // of routing_run: NULL, or called when all is set up and the first event is next
    void *whose;
    bool seldom;           // large runs: looks come after ever more rounds, up to 3 % of those that passed, and `whole`
                           // and `near` mean routing_sight.placed
} routing_settings;

// The flow as an observer sees it who looks at all peers at once.
typedef struct routing_sight {
    int64_t units;    // that leave a data peer and come home to it
    int64_t cost;     // of those, and of what leaves and does not come home, as far as it comes
    int64_t worst;    // the heaviest load of a link: units, of all data peers, times cost
    int64_t paid;     // cost of what the senders of all links say they send
    bool whole;       // all units that should flow do, and no peer is above capacity
    bool placed;      // the same, but for as many units as commits under way are moving just now
    bool consistent;  // both ends of each link agree, and no peer has a unit that comes from or goes to nobody
} routing_sight;

enum { ROUTING_EARLY = 120 };  // the round of the early look

typedef struct routing_result {
    routing_sight early;       // the latest until round ROUTING_EARLY that was whole, else the one then
    routing_sight end;         // once quiet; of a run that never is, the latest that was whole, else the last
    bool quiet;                // no message, nothing planned: it will never move again
    uint64_t over_capacity;    // changes after which a router said that it carries more than it can
    int64_t last_move, whole;  // rounds; `whole`: the first at which all units had a way, -1: never
    uint64_t messages, frames, bytes, early_messages, whole_messages, events;
    uint64_t by_kind[ROUTER_KINDS];
    routing_sight whole_sight;  // then
    int64_t near;        // as `whole`, for settings.near_cost
    uint64_t near_messages;
    uint64_t router_bytes, run_bytes;  // memory of the routers; of all else that grows with the run, at its most
    uint64_t hash;       // of every event of the run, in order
    int64_t *flow;       // [sources][links] at `end`, owned
} routing_result;

braid_err routing_run(const routing_instance *instance, const routing_settings *settings, int64_t units,
                      routing_result *out, braid_error *error);
void routing_result_close(routing_result *result);

// --- changes: what a swarm that has become quiet does when peers go or come

typedef struct routing_change {
    const uint32_t *peer;  // relays of the instance, borrowed
    uint32_t count;
    bool
        join;  // they are away until then; else they die without a word, and each neighbour notices 1 to 3 rounds later
    uint64_t *said;  // NULL, or [2][peers], the caller's: messages of each peer from the change on, until all is whole
                     // again, then until it is quiet
} routing_change;

// The instance without some peers.
braid_err routing_without(const routing_instance *instance, const routing_change *change, routing_instance *out,
                          braid_error *error);

// A run until it is quiet, the change, and what follows until it is quiet again: `after` counts rounds, messages and
// events from the change on, and stays empty when the run before it never became quiet. With one data peer its demand follows to `units_after` when somebody joins.
braid_err routing_run_change(const routing_instance *instance, const routing_settings *settings,
                             const routing_change *change, int64_t units_before, int64_t units_after,
                             routing_result *before, routing_result *after, braid_error *error);

#endif
