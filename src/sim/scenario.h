// The input of `braid sim`: a user's peers, links, model and faults, read from a file
// (docs/simulator.md) and resolved. Groups become single peers, places become latencies, the model
// becomes bytes and operations. The engine is swarm.h.
//
// Units: times in nanoseconds of virtual time, which begins at 0 when the first peers start; rates
// in bits per second (a megabit is 10^6 bits); sizes in bytes; compute in floating-point operations
// (a multiplication and an addition are two).
#ifndef BRAID_SIM_SCENARIO_H
#define BRAID_SIM_SCENARIO_H

#include "base/err.h"
#include "routing/core/router.h"
#include "model/config.h"
#include "tensor/codec.h"
#include "wire/limits.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    SCENARIO_MAX_PEERS = WIRE_MAX_MEMBERS,
    SCENARIO_MAX_DATA_PEERS = ROUTER_MAX_SOURCES,
    SCENARIO_MAX_STAGE_PEERS = WIRE_MAX_STAGE_MEMBERS,  // peers that name this stage
    SCENARIO_MAX_STAGES = WIRE_MAX_STAGES,
    SCENARIO_MAX_MICROBATCHES = WIRE_MAX_MICROBATCHES,  // total of all data peers in one iteration
    SCENARIO_MAX_ITERATIONS = 10000,
    SCENARIO_MAX_MACHINES = 512,
    SCENARIO_MAX_CORES = 1024,
    SCENARIO_MAX_OVERRIDES = 1024,
    SCENARIO_MAX_PARTITIONS = 64,
    SCENARIO_MAX_EVENTS = 4096,  // events of a churn trace
    SCENARIO_MAX_NAME = 32,      // length with the zero byte
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
    // operations for one microbatch: forward, input gradient, weight gradient
    double forward_flops, backward_flops, weight_flops;
    double loss_flops;       // stage 0: final norm, head and loss, with the gradient of their input
} scenario_stage;

// A machine. Its peers share its cores: with more computing threads than cores all slow down alike.
// They share its line to the world, each direction fairly among all transfers. Peers of one machine
// reach each other without the line.
typedef struct scenario_machine {
    char name[SCENARIO_MAX_NAME];
    double cores;                // may be a fraction, for a measured machine with other users
    uint16_t place;              // index for place_* (places.h), or SCENARIO_NOWHERE
    uint64_t up_bps, down_bps;   // 0: no limit
    uint64_t latency_ns;         // latency of the line, added one way to each link that crosses it
} scenario_machine;

typedef struct scenario_peer {
    // unique; the peer's random numbers depend on seed and name alone
    char name[SCENARIO_MAX_NAME];
    char group[SCENARIO_MAX_NAME];  // name of its entry in the file; its own name when alone
    bool data;                      // a data peer (stage 0), else a relay
    uint16_t stage;                 // SCENARIO_ANY_STAGE: the leader places it
    uint32_t capacity;              // microbatches held at once, 1 ..
    bool carries_nothing;           // does not forward tensors of others
    // index into scenario.machine; most peers have a machine of their own
    uint32_t machine;
    uint32_t threads;               // cores in use while it computes, 1 .. its machine's
    uint64_t forward_ns;            // for one microbatch; 0: from `flops` (scenario_cost_ns)
    // data peers: final norm, head and loss, with the gradient of their input; 0: from `flops`
    uint64_t loss_ns;
    uint64_t backward_ns;           // input gradient; 0: from `flops`
    uint64_t weight_ns;             // weight gradient; 0: from `flops`
    // reducing and applying its whole stage, once an iteration; 0: from its parameters
    uint64_t update_ns;
    // processor time for an arriving message, besides its jobs; 0: none
    uint64_t message_ns;
    // processor time for 10^6 bytes of payload in or out (copies, encryption); 0: none
    uint64_t megabyte_ns;
    double flops;                   // operations per second, always > 0
    // start of its process; UINT64_MAX: only a churn event starts it
    uint64_t start_ns;
} scenario_peer;

// The path from one peer to another; the reverse path may differ.
typedef struct scenario_link {
    uint64_t latency_ns;  // one way; scenario_link_of adds the lines of both machines
    // longest extra delay of a message, uniform; messages never overtake each other
    uint64_t jitter_ns;
    // rate of this pair alone, besides the limits of both machines' lines; 0: no limit
    uint64_t bps;
} scenario_link;

// Link properties that a file sets for certain pairs; the last one that fits a pair counts.
typedef struct scenario_override {
    scenario_set from, to;  // both directions when !one_way
    bool one_way;
    bool has_latency, has_jitter, has_bps;
    scenario_link link;     // each field that is set replaces the whole latency, jitter or rate
} scenario_override;

// A partition: nothing arrives from `from` at `to` while it lasts, nor in the other direction when
// !one_way. Links do not break by themselves: the peers notice the silence.
typedef struct scenario_partition {
    scenario_set from, to;
    bool one_way;
    uint64_t start_ns, stop_ns;  // stop: UINT64_MAX never ends
} scenario_partition;

typedef enum scenario_event_kind {
    SCENARIO_CRASH,   // its machine dies: the others notice only the silence
    SCENARIO_KILL,    // its process dies: the kernel closes its links at once
    SCENARIO_LEAVE,   // asked to leave: it finishes its work first
    SCENARIO_PAUSE,   // paused; its links stay up
    SCENARIO_RESUME,
    SCENARIO_JOIN,    // starts, or restarts with the same identity
    SCENARIO_EVENT_KINDS
} scenario_event_kind;

typedef struct scenario_event {
    uint64_t at_ns;
    uint32_t peer;
    scenario_event_kind kind;
} scenario_event;

typedef enum scenario_sessions { SESSIONS_NONE, SESSIONS_EXPONENTIAL, SESSIONS_WEIBULL } scenario_sessions;

// Churn of relays, and of data peers by name, except the leader. The kinds may be combined. An
// event without effect, such as a crash of a dead peer, is ignored.
typedef struct scenario_churn {
    scenario_set subjects;             // peers subject to `crash`, `rejoin` and `sessions`
    // in each iteration, for each living and each dead relay: 0 .. 1, at a uniform moment
    double crash, rejoin;
    // a crash or the end of a session is a SCENARIO_KILL, else a SCENARIO_CRASH
    bool kill;
    bool keeps_last;              // a death that would take the last state of a stage is delayed
    scenario_sessions sessions;   // distribution of the time that a relay stays
    uint64_t session_mean_ns;
    double session_shape;         // Weibull's; 1 is exponential
    uint64_t away_mean_ns;        // mean time away after a session (exponential); 0: for ever
    uint32_t event_count;
    scenario_event *event;        // owned; by time, then by their order in the file
} scenario_churn;

typedef enum scenario_compute { COMPUTE_MODEL, COMPUTE_KERNELS } scenario_compute;

// The rule that finds the next peer of a microbatch: a router (router_algorithm), or the cheapest
// live peer with room.
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
    uint32_t microbatches;         // total of all data peers in an iteration
    scenario_routing routing;
    router_objective objective;
    bool plan_first;               // routing by mincost: data peers plan the first paths
    // recovery: restart; a microbatch that breaks on the backward pass begins again at its data
    // peer
    uint8_t placement;  // peer_placement
    bool restarts;
    // kernels: the real CPU kernels on a tiny model; times follow the cost model all the same
    scenario_compute compute;
    model_config model;
    uint32_t sequences, tokens;    // shape of one microbatch
    // largest share of a line that state may take while the run goes on; 0: as in a real run
    uint32_t upload_percent;
    bool reproducible;             // exact sums: 8 bytes an element in the reduction, else 4
    bool byte_sums;                // fast mode: sums and results in one byte a value
    tensor_links links;
    uint64_t activation_bytes;     // a microbatch's tensor between two stages as it is sent, the mean of both directions
    uint16_t stages;               // including stage 0, 1 ..
    scenario_stage stage[SCENARIO_MAX_STAGES];
    uint32_t peers, data_peers;    // data peers first, then relays, each in the order of the file
    scenario_peer peer[SCENARIO_MAX_PEERS];
    uint32_t machines;
    scenario_machine machine[SCENARIO_MAX_MACHINES];
    scenario_link link;            // link of pairs without an override
    // for each connection, per hour: it breaks though both ends live, and is dialed again
    double resets;
    uint32_t overrides, partitions;
    scenario_override override[SCENARIO_MAX_OVERRIDES];
    scenario_partition partition[SCENARIO_MAX_PARTITIONS];
    scenario_churn churn;
} scenario;

// Changes the form of tensors, sums and results.
void scenario_set_codecs(scenario *s, tensor_links links, bool byte_sums);
// Bytes of a stage's sums and results together, as one member sends them to another.
uint64_t scenario_exchanged_bytes(const scenario *s, uint16_t number);

// Reads and checks a file, and the files that it names (a run's description, a churn trace).
// BRAID_CONFIG, BRAID_IO: "file:line:column: key ...", and the remedy. *out is freed with
// scenario_free; NULL after an error.
braid_err scenario_load(const char *path, scenario **out, braid_error *error);
// The same from text; `origin` names it in messages. Files are relative to `base_dir`; NULL: the
// text may name no files.
braid_err scenario_parse(const char *text, size_t length, const char *origin, const char *base_dir, scenario **out,
                         braid_error *error);
void scenario_free(scenario *s);

// The link between two different peers: overrides, else one machine, else the places of both, else
// the scenario's.
void scenario_link_of(const scenario *s, uint32_t from, uint32_t to, scenario_link *out);
// True if a partition blocks messages from `from` to `to` at `now_ns`.
bool scenario_cut(const scenario *s, uint32_t from, uint32_t to, uint64_t now_ns);
// The start of that partition; UINT64_MAX: there is none.
uint64_t scenario_cut_since(const scenario *s, uint32_t from, uint32_t to, uint64_t now_ns);

typedef enum scenario_work { WORK_FORWARD, WORK_LOSS, WORK_BACKWARD, WORK_WEIGHT } scenario_work;
// Computing time of peer `peer` for one microbatch as a member of stage `index` with all its
// threads.
uint64_t scenario_cost_ns(const scenario *s, uint32_t peer, uint16_t index, scenario_work work);

// A copy with one more peer, "one-more", for stage `index`. It is like peer `like` in speed, room,
// place, line, links and churn, but on a machine of its own. For stage 0 it is a data peer, like a
// data peer, and the microbatches are divided anew; else a relay, like a relay. BRAID_LIMIT when
// there is no room.
braid_err scenario_with_one_more(const scenario *s, uint32_t like, uint16_t index, scenario **out, braid_error *error);

// The data peer that leads: the first by name.
uint32_t scenario_leader(const scenario *s);

static inline bool scenario_set_has(const scenario_set *set, uint32_t index) {
    return (set->word[index / 64] >> (index % 64) & 1) != 0;
}

#endif
