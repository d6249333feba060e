// GWTF's Tables II and III: training while relays crash and come back. A whole swarm in the simulator of swarm.h: the
// protocol itself, once as it is and twice as those do whom it is compared with. docs/results/t2-t3.md says what is read
// from the paper, and what is assumed.
#ifndef BRAID_BENCH_TRAINING_T2_H
#define BRAID_BENCH_TRAINING_T2_H

#include "sim/scenario.h"
#include "sim/swarm.h"

enum {
    T2_DATA = 2,
    T2_RELAYS = 16,
    T2_PEERS = T2_DATA + T2_RELAYS,
    T2_STAGES = 6,        // the data peers' stage counted
    T2_MICROBATCHES = 4,  // of each data peer
    T2_TEXT = 16384,      // bytes that a scenario's text fits into
    T2_SLOW_BPS = 50000000, T2_FAST_BPS = 500000000  // lines between places; the fast one inside a place
};

typedef enum t2_model { T2_LLAMA, T2_GPT, T2_MODELS } t2_model;
typedef enum t2_system { T2_SWARM, T2_GWTF, T2_BRAID, T2_SYSTEMS } t2_system;

typedef struct t2_case {
    t2_model model;
    bool heterogeneous;   // relays hold 1 .. 3 microbatches at once, else 4
    uint32_t churn;       // percent: who lives crashes, and who is dead comes back, in each iteration
    uint32_t iterations;
    uint64_t seed;        // of places, capacities and everybody's fate
} t2_case;

// The scenario as braid sim reads it. Places, capacities and fates are the same for all systems.
void t2_describe(const t2_case *c, t2_system system, char text[T2_TEXT]);

typedef struct t2_time {
    uint64_t ways_ns;      // until all microbatches are home
    uint64_t exchange_ns;  // of sums and results, behind that
} t2_time;

// The least time of an iteration without crashes that a search finds when it sees everything, for relays that stand as `stage`
// says ([peers of the scenario], SIM_SWARM_ABSENT: not there): the ways of all microbatches by pipeline.h, and behind them the
// exchange of sums and results at the full rate of the lines. BRAID_ARGUMENT: a stage has nobody.
braid_err t2_oracle(const scenario *s, const uint16_t *stage, t2_time *out, braid_error *error);

// When a peer is there, in the time of an iteration.
typedef struct t2_presence {
    uint16_t stage;              // SIM_SWARM_ABSENT: never
    int64_t from_ns, until_ns;   // INT64_MAX: to the end
    bool sum_dies;               // what it adds to its sum is of no use
} t2_presence;

// The same search by one who knows who comes and goes when: a relay may be on the way of each microbatch whose gradient it has passed on before
// it dies, unless its sum dies with it; or whose activation, and another one stands in on the way back (pipeline.h), at no cost but the room. Who
// carries does so from beginning to end. INT64_MAX: no such ways were found.
braid_err t2_foresight(const scenario *s, const t2_presence there[T2_PEERS], int64_t *ways_ns, braid_error *error);

// And by one who knows every line but learns of each who comes or goes in that moment, and plans anew at once all that is not on its way yet. It, too, is
// lenient: nothing is waited for or said, who stands in has the activation, who comes helps before it has the state, and what the dead had added is
// computed again on idle lines. `ways_ns`: with that; `kept_ns`: if no sum is ever lost. INT64_MAX: a stage had nobody.
braid_err t2_at_once(const scenario *s, const t2_presence there[T2_PEERS], int64_t *kept_ns, int64_t *ways_ns, braid_error *error);

// Where the time of an iteration went. The first four add up to it. What is beyond an oracle is less than nothing where that was beaten: a search is no
// bound, and knows nothing of who comes while the iteration lasts.
typedef struct t2_account {
    t2_time oracle;      // with all who were there when it began
    int64_t fewer_ns;    // that one needs so much more without those that died before CLOSE
    int64_t ways_ns;     // until CLOSE beyond that
    int64_t exchange_ns; // from CLOSE to FINAL beyond that
    // Of an oracle that knows who dies and who comes (t2_foresight), as early as if the iteration before had taken as long as its oracle: if sums die with
    // those who do before CLOSE, and if none is lost.
    uint64_t foresight_ns, kept_ns;
    // Of one that learns of it at once (t2_at_once), the same two.
    uint64_t at_once_ns, at_once_kept_ns;
} t2_account;

typedef struct t2_result {
    sim_swarm_report report;  // freed with sim_swarm_report_free
    uint64_t needed_ns;       // compute of an iteration's microbatches when each stage computes each once
    t2_account *account;      // [report.iterations], owned
} t2_result;

// A swarm that fails (report.failed) is no error.
braid_err t2_run(const t2_case *c, t2_system system, const sim_swarm_options *options, t2_result *out, braid_error *error);
void t2_result_close(t2_result *r);
uint64_t t2_oracle_ns(const t2_account *a);  // both its parts
uint64_t t2_lost_ns(const sim_swarm_iteration *i);  // both parts of what the dead had computed

#endif
