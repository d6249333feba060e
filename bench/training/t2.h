// GWTF's Tables II and III: training while relays crash and rejoin. A whole swarm in the simulator
// of swarm.h, with the protocol itself in one configuration as it is and in two that imitate the
// baselines. docs/results/t2-t3.md says which values are from the paper, and which are assumed.
#ifndef BRAID_BENCH_TRAINING_T2_H
#define BRAID_BENCH_TRAINING_T2_H

#include "sim/scenario.h"
#include "sim/swarm.h"

enum {
    T2_DATA = 2,
    T2_RELAYS = 16,
    T2_PEERS = T2_DATA + T2_RELAYS,
    T2_STAGES = 6,        // including the data peers' stage
    T2_MICROBATCHES = 4,  // microbatches of each data peer
    T2_TEXT = 16384,      // buffer size for a scenario's text
    // lines between places; the fast one inside a place
    T2_SLOW_BPS = 50000000, T2_FAST_BPS = 500000000
};

typedef enum t2_model { T2_LLAMA, T2_GPT, T2_MODELS } t2_model;
typedef enum t2_system { T2_SWARM, T2_GWTF, T2_BRAID, T2_SYSTEMS } t2_system;

// How joiners get their stage: see peer_placement.
typedef enum t2_placement { T2_PLACE_GAIN, T2_PLACE_CAPACITY, T2_PLACE_STAY, T2_PLACEMENTS } t2_placement;

typedef struct t2_case {
    t2_model model;
    bool heterogeneous;   // relays hold 1 .. 3 microbatches at once, else 4
    // percent: probability in each iteration that a living relay crashes, and that a dead one
    // rejoins
    uint32_t churn;
    uint32_t iterations;
    t2_placement placement;  // of braid; the baselines have GWTF's
    tensor_codec links;   // of activations and gradients
    bool best_stages;     // the account has placed_ns and best_ns
    uint64_t seed;        // seed of places, capacities and deaths
} t2_case;

// The scenario as braid sim reads it. Places, capacities and deaths are the same for all systems.
void t2_describe(const t2_case *c, t2_system system, char text[T2_TEXT]);
// The same with `relays` relays of these names, and without random churn, in a buffer of `room` bytes.
void t2_describe_relays(const t2_case *c, t2_system system, const char (*names)[SCENARIO_MAX_NAME], uint32_t relays,
                        char *text, size_t room);

typedef struct t2_time {
    uint64_t ways_ns;      // until all microbatches are done
    uint64_t exchange_ns;  // exchange of sums and results, after that
} t2_time;

// The least time of an iteration without crashes that a search with global knowledge finds, for
// relays in the stages of `stage` ([peers of the scenario], SIM_SWARM_ABSENT: not there). The paths
// of all microbatches are timed by pipeline.h; the exchange of sums and results follows at the full
// rate of the lines. BRAID_ARGUMENT: a stage is empty.
braid_err t2_oracle(const scenario *s, const uint16_t *stage, t2_time *out, braid_error *error);

// The time of an iteration by the search of paths alone, for relays in the stages of `stage`, and for
// the same relays in the best stages that a search of single moves and trades finds.
braid_err t2_best_stages(const scenario *s, const uint16_t *stage, uint64_t *now_ns, uint64_t *best_ns, braid_error *error);

// The presence of a peer, in the time of an iteration.
typedef struct t2_presence {
    uint16_t stage;              // SIM_SWARM_ABSENT: never
    int64_t from_ns, until_ns;   // INT64_MAX: to the end
    bool sum_dies;               // contributions to its sum are lost
} t2_presence;

// The same search with knowledge of all later deaths and arrivals. A relay may be on the path of
// each microbatch that it sends on backward before it dies, unless its sum is lost. If it sends
// only the activation on, another relay replaces it on the backward pass (pipeline.h), at no cost
// but the room. Forwarders stay from beginning to end. INT64_MAX: no such paths were found.
braid_err t2_foresight(const scenario *s, const t2_presence there[T2_PEERS], int64_t *ways_ns, braid_error *error);

// The same with knowledge of every line, but of deaths and arrivals only when they happen; it then
// plans all unsettled paths again. It is lenient: no message or timeout takes time, a replacement
// has the activation, a joiner helps before it has the state, and lost sums are computed again on
// idle lines. `ways_ns`: with that; `kept_ns`: if no sum is ever lost. INT64_MAX: a stage was
// empty.
braid_err t2_at_once(const scenario *s, const t2_presence there[T2_PEERS], int64_t *kept_ns, int64_t *ways_ns, braid_error *error);

// Parts of the time of an iteration; the first four add up to it. A part beyond an oracle is
// negative if that oracle was beaten: a search is no bound, and knows nothing of later arrivals.
typedef struct t2_account {
    t2_time oracle;      // with all peers that were there at the start
    int64_t fewer_ns;    // the oracle's extra time without the peers that died before CLOSE
    int64_t ways_ns;     // until CLOSE, beyond that
    int64_t exchange_ns;  // from CLOSE to FINAL, beyond that
    // An oracle that foresees deaths and arrivals (t2_foresight), at the moments that would follow
    // if the iteration before had taken as long as its oracle: if peers that die before CLOSE lose
    // their sums, and if no sum is lost.
    uint64_t foresight_ns, kept_ns;
    // An oracle that learns of them when they happen (t2_at_once), the same two.
    uint64_t at_once_ns, at_once_kept_ns;
    uint64_t placed_ns, best_ns;  // t2_best_stages; 0: not asked for
} t2_account;

typedef struct t2_result {
    sim_swarm_report report;  // freed with sim_swarm_report_free
    // compute of an iteration's microbatches when each stage computes each once
    uint64_t needed_ns;
    t2_account *account;      // [report.iterations], owned
} t2_result;

// A swarm that fails (report.failed) is no error.
braid_err t2_run(const t2_case *c, t2_system system, const sim_swarm_options *options, t2_result *out, braid_error *error);
void t2_result_close(t2_result *r);
uint64_t t2_oracle_ns(const t2_account *a);  // both parts
uint64_t t2_lost_ns(const sim_swarm_iteration *i);  // compute that the dead peers lost, both parts

#endif
