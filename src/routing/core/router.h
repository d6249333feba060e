// Decentralised routing as a message-driven state machine: which units of flow pass through this
// peer, and between which neighbours.
//
// The graph is layered: data peer -> relays of stage 1 -> .. -> relays of stage S -> the same data
// peer. A *unit* is one microbatch of an iteration. Sending it over a link costs the link's cost. A
// relay carries at most its capacity. The routers of all peers together send as many units as fit,
// at the lowest cost that the algorithm can find (docs/routing.md).
//
// A router lives in memory that the host provides. The host passes events to it (messages,
// neighbours that come and go, costs) and calls router_tick at the deadline. After every such call
// it takes all outgoing messages with router_next:
//
//     router_receive(r, now, &message);            // or router_tick, router_neighbour_*, router_cost, router_capacity
//     while (router_next(r, &out)) ...;            // always, before the next call: messages borrow the router's state
//     at = router_deadline(r);                     // call router_tick at that time or as soon after it as possible
//
// What the host must guarantee:
//   1. Messages of one link arrive in order, or not at all from some moment on (TCP). In that case both
//      ends call router_neighbour_gone, each at its own time, before router_neighbour_add makes a new link.
//      Nothing that was sent on the old link arrives on the new one.
//   2. At one instant, messages are passed before ticks: a router answers messages that came together
//      with one frame.
//   3. Both ends of a link use the same cost, apart from the time that an update takes.
//
// Pure: no clock, allocation, file or global state. Random numbers come from the seed; costs are
// integers. Times may have any unit, the same for `now` and `delay`.
#ifndef BRAID_ROUTING_ROUTER_H
#define BRAID_ROUTING_ROUTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    // on a side and in the own stage: a single data peer sees all of its two stages
    ROUTER_MAX_NEIGHBOURS = 2048,
    ROUTER_MAX_SOURCES = 8,       // data peers
    ROUTER_PLANNED_RELAYS = 512,  // relays of a run that data peers plan for (router_config.relays)
    ROUTER_MAX_PATH = 40,         // split nodes on a label's path
    ROUTER_MAX_CYCLE = 44,        // a label's path, closed, and the inner arc
    ROUTER_MAX_UNITS = 4096,      // capacity of a peer, demand of a data peer
    ROUTER_MAX_COST = 1 << 30,    // highest cost of a link
    ROUTER_LAZY = 6,              // default of router_config.lazy
    ROUTER_FRAME_BYTES = 16,      // overhead of a frame
};

typedef uint32_t router_peer;  // number of a peer in the run, below 2^31; 0: none

typedef enum router_algorithm { ROUTER_MINCOST, ROUTER_GWTF, ROUTER_SWARM, ROUTER_ALGORITHMS } router_algorithm;

// The cost to minimise once as many units as possible are under way (docs/routing.md).
typedef enum router_objective {
    ROUTER_SUM,         // the sum over all links of units times cost
    ROUTER_BOTTLENECK,  // bottleneck: the largest product of a link's units and its cost
    ROUTER_OBJECTIVES
} router_objective;

// Position of a neighbour. With one relay stage the data peer is PREVIOUS and NEXT: two links.
typedef enum router_side { ROUTER_PREVIOUS, ROUTER_NEXT, ROUTER_SAME, ROUTER_SIDES } router_side;

typedef struct router_config {
    router_algorithm algorithm;
    router_objective objective;  // what mincost and gwtf minimise
    router_peer self;
    uint32_t capacity;                       // a relay: units through it; a data peer: units it wants to send
    uint32_t source_count;                   // data peers of the run, in the same order at every peer
    router_peer source[ROUTER_MAX_SOURCES];  // if `self` is among them, this is a data peer
    uint32_t max_neighbours;                 // most neighbours on a side, 1..ROUTER_MAX_NEIGHBOURS
    uint64_t seed;  // must differ after every restart: it also separates the incarnations of a peer
    int64_t delay;  // typical one-way message delay, > 0
    // time between a message and the tick, to collect further messages; 0: same instant
    int64_t gather;

    // mincost
    // epsilon: smaller gains per link are ignored; cost differences of that size do no harm
    int64_t slack;
    int64_t hold;         // hold-down between two labels to the same neighbours, in delays (0: 2)
    int64_t lazy;         // longest delay of a label update, in delays (0: ROUTER_LAZY, below 0: none)
    uint32_t path_limit;  // longest path of a label, 2..ROUTER_MAX_PATH (0: ROUTER_MAX_PATH)
    // data peers compute an initial plan on a map of the run; the same at every peer
    bool plan_first;
    // relays of the run as far as known. Above ROUTER_PLANNED_RELAYS nothing is planned, except by a single
    // data peer that is given the number here.
    uint32_t relays;

    // swarm
    // stochastic wiring: choose by virtual time, to which a unit adds the link's cost; else choose
    // the cheapest link
    bool weighted;

    // gwtf
    double temperature;  // the paper's T = 1.7 times the host's scale of costs, in units of cost
    double cooling;      // factor after an accepted change (the paper's alpha = 0.95)
} router_config;

typedef struct router router;

router_peer router_self(const router *r);
// Bytes that router_init needs for this configuration; 0: the configuration is invalid.
size_t router_bytes(const router_config *config);
// `memory` is aligned to 16 and stays owned by the caller. The first tick is due at `now`.
router *router_init(void *memory, const router_config *config, int64_t now);

// A link came up with all counters at 0. False: the side is full, or the neighbour is already
// there.
bool router_neighbour_add(router *r, int64_t now, router_peer peer, router_side side, int64_t cost);
// The peer or its link died, on every side. No effect for an unknown peer.
void router_neighbour_gone(router *r, int64_t now, router_peer peer);
// The link has a new cost.
void router_cost(router *r, int64_t now, router_peer peer, router_side side, int64_t cost);
// A relay's capacity or a data peer's demand has changed.
void router_capacity(router *r, int64_t now, uint32_t capacity);

// The run has this many relays now (router_config.relays).
void router_relays(router *r, int64_t now, uint32_t relays);

// --- Messages ------------------------------------------------------------------------------------

// clang-format off
#define ROUTER_MESSAGES(X)                                                                \
    X(LABEL, "label")     /* mincost: distance label of a split node, with its path */    \
    X(ADVERT, "advert")   /* mincost, swarm: distance to the sink, and room */            \
    X(FLOW, "flow")       /* mincost: number of units on the link */                      \
    X(DENY, "deny")       /* mincost, swarm: units returned */                            \
    X(LOCK, "lock")       /* mincost: phase 1 of a cycle, reserve */                      \
    X(COMMIT, "commit")   /* mincost: phase 2, apply */                                   \
    X(ABORT, "abort")     /* mincost: phase 2, release */                                 \
    X(WAY, "way")         /* mincost: units on the link, and the rest of their path */    \
    X(MAP, "map")         /* mincost: entries of the map; downstream: a cycle proposal */ \
    X(OFFER, "offer")     /* gwtf: unpaired outflow; swarm: a unit */                     \
    X(REQUEST, "request") /* gwtf: Request Flow, Change, Redirect */                      \
    X(ANSWER, "answer")   /* gwtf: answer to a request */                                 \
    X(QUERY, "query")     /* gwtf: asks for units; mincost: announces an epoch */         \
    X(UNITS, "units")     /* gwtf: answer to a query */                                   \
    X(RELINK, "relink")   /* gwtf: a link between places has another end now */
// clang-format on

typedef enum router_kind {
#define X(name, text) ROUTER_##name,
    ROUTER_MESSAGES(X)
#undef X
        ROUTER_KINDS
} router_kind;

// A peer is split into two nodes of the residual graph: units enter at one and leave at the other.
typedef uint32_t router_node;
static inline router_node router_in(router_peer owner) { return owner * 2; }
static inline router_node router_out(router_peer owner) { return owner * 2 + 1; }
static inline router_peer router_owner(router_node node) { return node / 2; }

typedef struct router_step {
    router_node half;
    int64_t cost;  // cost from this node to the end of the path
} router_step;

typedef struct router_token {
    router_peer origin;
    uint32_t serial;
} router_token;

// A message, which is one part of a frame, of fixed size. `kind` determines which fields are used
// (router_message_bytes is the size of their encoding). Hosts need `from`, `to`, `joined` and
// `kind` only.
typedef struct router_message {
    router_peer from, to;
    router_kind kind;
    bool joined;          // travels in the same frame as the message before it: same `to`, same arrival
    uint8_t side;         // LABEL: router_side of the receiver, as the sender sees it
    uint8_t why;          // FLOW, REQUEST, ANSWER, RELINK: reason, see the algorithm
    uint16_t position;    // LOCK, COMMIT, ABORT: on the cycle
    uint16_t on_path;     // WAY: units on the path
    uint16_t length;      // number of steps, cycle nodes or words
    router_peer source;   // data peer that owns the units
    int64_t cost;         // LABEL, ADVERT, LOCK
    uint32_t units;       // room, absolute count, or number of units
    uint32_t taken_back;  // FLOW, WAY, COMMIT: returned units acknowledged, in total
    uint32_t scale;       // ADVERT: scale of loads (bottleneck), or whether the sender has started
    uint32_t turn;        // gwtf: turn of a link, or a number of costs
    uint64_t epoch;       // QUERY
    uint32_t plan;        // QUERY: number of the plan of an epoch
    uint32_t attempts;    // QUERY: attempts left in an epoch
    router_token token;   // LOCK, COMMIT, ABORT, FLOW
    union {
        router_step step[ROUTER_MAX_PATH];    // LABEL
        router_node cycle[ROUTER_MAX_CYCLE];  // LOCK
        // WAY: peers behind the receiver; MAP: entries, or a cycle proposal; gwtf
        uint32_t word[4 * ROUTER_MAX_PATH];
    } u;
} router_message;

// Bytes of the encoding, with ROUTER_FRAME_BYTES unless `joined`.
uint32_t router_message_bytes(const router_message *message);
const char *router_kind_name(router_kind kind);

// Handles a message. One from a peer that is no neighbour, or with impossible contents, is ignored.
void router_receive(router *r, int64_t now, const router_message *message);
void router_tick(router *r, int64_t now);
// Time of the next tick; INT64_MAX: none until an event.
int64_t router_deadline(const router *r);
// The next message to send, grouped into frames; false: there is none.
bool router_next(router *r, router_message *out);

// --- The flow ------------------------------------------------------------------------------------

typedef struct router_unit {
    router_peer source;    // data peer that owns the units
    router_peer upstream;  // 0: the units start here, or (briefly, in a relay) their sender is gone
    // 0: the units end here, or (briefly, in a relay) they have no path yet
    router_peer downstream;
    uint32_t count;
} router_unit;

// Writes at most `max` entries and returns their number. A relay pairs inflow with outflow. A data
// peer lists what it sends (upstream 0), then what has returned to it (downstream 0).
uint32_t router_units(const router *r, router_unit *units, uint32_t max);
// The link carries units, debts or reservations and must not be removed. At the upstream end, false
// implies the same for the other end, apart from messages on their way, which it will handle. gwtf:
// always true.
bool router_link_busy(const router *r, router_side side, router_peer peer);
// Units carried now, with reservations; never above the capacity, with the exceptions in
// docs/routing.md.
uint32_t router_load(const router *r);
// A number, never 0, that changes whenever router_units or router_load may have changed. It
// restarts with router_init.
uint64_t router_moves(const router *r);
// Nothing is under way here: no reservation, no unit without a path, no debt. Says nothing about
// messages in flight.
bool router_settled(const router *r);

#endif
