// What `braid sim` simulates: a user's peers, links, model and troubles, read from a file (docs/simulator.md) and resolved:
// groups are single peers, places are latencies, the model is bytes and operations. Nothing here runs anything; the engine
// is swarm.h.
//
// Units: times in nanoseconds of virtual time, which begins at 0 when the first peers start; rates in bits per second
// (a megabit is 10^6 bits); sizes in bytes; compute in floating-point operations (a multiplication and an addition are two).
#ifndef BRAID_SIM_SCENARIO_H
#define BRAID_SIM_SCENARIO_H

#include "base/err.h"
#include "routing/core/router.h"
#include "model/config.h"
#include "wire/limits.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    SCENARIO_MAX_PEERS = WIRE_MAX_MEMBERS,
    SCENARIO_MAX_DATA_PEERS = ROUTER_MAX_SOURCES,
    SCENARIO_MAX_STAGE_PEERS = WIRE_MAX_STAGE_MEMBERS,  // named for one stage
    SCENARIO_MAX_STAGES = WIRE_MAX_STAGES,
    SCENARIO_MAX_MICROBATCHES = WIRE_MAX_MICROBATCHES,  // of all data peers, in one iteration
    SCENARIO_MAX_ITERATIONS = 10000,
    SCENARIO_MAX_MACHINES = 512,
    SCENARIO_MAX_CORES = 1024,
    SCENARIO_MAX_OVERRIDES = 1024,
    SCENARIO_MAX_PARTITIONS = 64,
    SCENARIO_MAX_EVENTS = 4096,  // of a churn trace
    SCENARIO_MAX_NAME = 32,      // with its zero byte
    SCENARIO_SET_WORDS = SCENARIO_MAX_PEERS / 64,
    SCENARIO_ANY_STAGE = 0xffff,  // a relay that the leader places
    SCENARIO_NOWHERE = 0xffff,    // a peer without a place
};

// Peers by index: bit i % 64 of word i / 64.
typedef struct scenario_set {
    uint64_t word[SCENARIO_SET_WORDS];
} scenario_set;

typedef struct scenario_stage {
    char name[SCENARIO_MAX_NAME];  // "0", "1", .. unless the file names it
    uint32_t blocks;
    uint64_t parameters;     // elements
    uint32_t tensors;        // parameter tensors
    double forward_flops, backward_flops, weight_flops;  // of one microbatch: forward, input gradient, weight gradient
    double loss_flops;       // stage 0: final norm, head and loss, with the gradient of their input
} scenario_stage;

// Where peers run: they share its cores (when more threads compute than there are cores, all slow down alike) and its line
// to the world, each way fairly among all transfers. Peers of one machine reach each other without the line.
typedef struct scenario_machine {
    char name[SCENARIO_MAX_NAME];
    double cores;                // of a measured machine that others use too: with a fraction
    uint16_t place;              // index for place_* (places.h), SCENARIO_NOWHERE
    uint64_t up_bps, down_bps;   // 0: without limit
    uint64_t latency_ns;         // of the line, added one way to each link that crosses it
} scenario_machine;

typedef struct scenario_peer {
    char name[SCENARIO_MAX_NAME];   // unique; the peer's random numbers follow from seed and name alone
    char group[SCENARIO_MAX_NAME];  // name of the entry that it came from; its own name when alone
    bool data;                      // a data peer (stage 0), else a relay
    uint16_t stage;                 // SCENARIO_ANY_STAGE: wherever the leader puts it
    uint32_t capacity;              // microbatches it holds at once, 1 ..
    bool carries_nothing;           // of others' tensors
    uint32_t machine;               // index into scenario.machine; every peer has one, most have it for themselves
    uint32_t threads;               // cores it uses while it computes, 1 .. its machine's
    uint64_t forward_ns;            // of one microbatch, 0: from `flops` (scenario_cost_ns knows)
    uint64_t loss_ns;               // data peers: final norm, head and loss, with the gradient of their input; 0: from `flops`
    uint64_t backward_ns;           // input gradient, 0: from `flops`
    uint64_t weight_ns;             // weight gradient, 0: from `flops`
    uint64_t update_ns;             // reducing its whole stage and applying it, once an iteration; 0: from its parameters
    uint64_t message_ns;            // processor time to handle one message that arrives, beside its jobs; 0: none
    uint64_t megabyte_ns;           // and for each 10^6 bytes of payload that arrive or leave (copies, encryption); 0: none
    double flops;                   // operations per second that it reaches, > 0 always
    uint64_t start_ns;              // when its process starts; UINT64_MAX: only a churn event starts it
} scenario_peer;

// A way from one peer to another; the way back may differ.
typedef struct scenario_link {
    uint64_t latency_ns;  // one way; scenario_link_of adds both machines' lines
    uint64_t jitter_ns;   // a message takes up to so much longer, uniformly; messages never overtake each other
    uint64_t bps;         // of this pair of peers alone, beside the limits of both machines' lines; 0: without limit
} scenario_link;

// Set by a file for certain pairs; the last one that fits a pair counts.
typedef struct scenario_override {
    scenario_set from, to;  // both ways when !one_way
    bool one_way;
    bool has_latency, has_jitter, has_bps;
    scenario_link link;     // its fields that are set replace the whole latency, jitter or rate
} scenario_override;

// Nothing arrives from `from` at `to` while it lasts, nor the other way when !one_way. Links do not fall by themselves: the
// peers notice the silence.
typedef struct scenario_partition {
    scenario_set from, to;
    bool one_way;
    uint64_t start_ns, stop_ns;  // stop: UINT64_MAX never ends
} scenario_partition;

typedef enum scenario_event_kind {
    SCENARIO_CRASH,   // its machine dies without a word: the others notice the silence
    SCENARIO_KILL,    // its process dies: the kernel closes its links at once
    SCENARIO_LEAVE,   // is asked to leave: finishes what it holds, then goes
    SCENARIO_PAUSE,   // stands still; its links stay
    SCENARIO_RESUME,
    SCENARIO_JOIN,    // starts, or starts again with the same identity
    SCENARIO_EVENT_KINDS
} scenario_event_kind;

typedef struct scenario_event {
    uint64_t at_ns;
    uint32_t peer;
    scenario_event_kind kind;
} scenario_event;

typedef enum scenario_sessions { SESSIONS_NONE, SESSIONS_EXPONENTIAL, SESSIONS_WEIBULL } scenario_sessions;

// Of relays, and of data peers that are named, but the leader. The kinds may be combined; events that ask for what is already so (a crash of
// a dead peer) change nothing.
typedef struct scenario_churn {
    scenario_set who;             // whom `crash`, `rejoin` and `sessions` befall
    double crash, rejoin;         // each iteration, of each living and of each dead relay: 0 .. 1, at a uniform moment of it
    bool kill;                    // who crashes or ends a session dies as by SCENARIO_KILL, else as by SCENARIO_CRASH
    scenario_sessions sessions;   // how long a relay stays
    uint64_t session_mean_ns;
    double session_shape;         // Weibull's; 1 is exponential
    uint64_t away_mean_ns;        // then it is away so long (exponential), 0: for ever
    uint32_t event_count;
    scenario_event *event;        // owned; by time, then by their order in the file
} scenario_churn;

typedef enum scenario_compute { COMPUTE_MODEL, COMPUTE_KERNELS } scenario_compute;

// How a microbatch finds its next peer: by a router (router_algorithm), or the cheapest live one that has room.
typedef enum scenario_routing {
    ROUTING_BRAID = ROUTER_MINCOST,
    ROUTING_GWTF = ROUTER_GWTF,
    ROUTING_SWARM = ROUTER_SWARM,
    ROUTING_CHEAPEST = ROUTER_ALGORITHMS,  // no router at all
    ROUTINGS
} scenario_routing;

typedef struct scenario {
    char name[SCENARIO_MAX_NAME];
    uint64_t seed;
    uint32_t iterations;
    uint32_t microbatches;         // of an iteration, all data peers together
    scenario_routing routing;
    router_objective objective;
    bool plan_first;               // of braid: data peers plan their first ways
    bool restarts;                 // recovery: restart; what breaks on the way back begins again at its data peer
    scenario_compute compute;      // kernels: the real CPU kernels on a tiny model; times are the cost model's all the same
    model_config model;
    uint32_t sequences, tokens;    // of one microbatch
    uint32_t upload_percent;       // most of a line that state may take while the run goes on; 0: as in a real run
    bool reproducible;             // exact sums: 8 bytes an element travel in the reduction, else 4
    uint64_t activation_bytes;     // of one microbatch between two stages
    uint16_t stages;               // stage 0 included, 1 ..
    scenario_stage stage[SCENARIO_MAX_STAGES];
    uint32_t peers, data_peers;    // data peers first, then relays, each in the order of the file
    scenario_peer peer[SCENARIO_MAX_PEERS];
    uint32_t machines;
    scenario_machine machine[SCENARIO_MAX_MACHINES];
    scenario_link link;            // of pairs about which nothing else is said
    double resets;                 // of each connection, an hour: it falls though both ends live, and is dialed again
    uint32_t overrides, partitions;
    scenario_override override[SCENARIO_MAX_OVERRIDES];
    scenario_partition partition[SCENARIO_MAX_PARTITIONS];
    scenario_churn churn;
} scenario;

// Reads and checks a file, and the files that it names (a run's description, a churn trace). BRAID_CONFIG, BRAID_IO:
// "file:line:column: key ...", and the mend. *out is freed with scenario_free; NULL when it failed.
braid_err scenario_load(const char *path, scenario **out, braid_error *error);
// The same from text; `origin` names it in messages. Files are taken relative to `base_dir`; NULL: they may not be named.
braid_err scenario_parse(const char *text, size_t length, const char *origin, const char *base_dir, scenario **out,
                         braid_error *error);
void scenario_free(scenario *s);

// The way between two different peers: overrides, else one machine, else the places of both, else the scenario's.
void scenario_link_of(const scenario *s, uint32_t from, uint32_t to, scenario_link *out);
// Nothing gets from `from` to `to` at `now_ns`.
bool scenario_cut(const scenario *s, uint32_t from, uint32_t to, uint64_t now_ns);
// And since when, UINT64_MAX: something gets there.
uint64_t scenario_cut_since(const scenario *s, uint32_t from, uint32_t to, uint64_t now_ns);

typedef enum scenario_work { WORK_FORWARD, WORK_LOSS, WORK_BACKWARD, WORK_WEIGHT } scenario_work;
// How long peer `who` computes for one microbatch when it is a member of stage `index` and has its threads for itself.
uint64_t scenario_cost_ns(const scenario *s, uint32_t who, uint16_t index, scenario_work work);

// A copy with one more peer, "one-more", for stage `index`: like peer `like` in speed, room, place, line, links and churn, but on a
// machine of its own. A data peer for stage 0, like a data peer (the microbatches are shared out anew), else a relay, like a
// relay. BRAID_LIMIT when there is no room.
braid_err scenario_with_one_more(const scenario *s, uint32_t like, uint16_t index, scenario **out, braid_error *error);

// The data peer that leads: the first by name.
uint32_t scenario_leader(const scenario *s);

static inline bool scenario_set_has(const scenario_set *set, uint32_t who) {
    return (set->word[who / 64] >> (who % 64) & 1) != 0;
}

#endif
