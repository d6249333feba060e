// Decentralised routing as a message-driven state machine: which units of flow pass through this peer, from whom to whom.
//
// The graph is layered: data peer -> relays of stage 1 -> .. -> relays of stage S -> the same data peer. A *unit* is one
// microbatch of an iteration; sending it over a link costs the link's cost. A relay carries at most its capacity. The
// routers of all peers together send as many units as fit, as cheaply as the algorithm can (docs/routing.md).
//
// One peer's router is memory that the host provides. The host tells it what happens (a message, a neighbour that came
// or went, a cost) and when its time has come; after every such call it takes all messages out with router_next:
//
//     router_receive(r, now, &message);            // or router_tick, router_neighbour_*, router_cost, router_capacity
//     while (router_next(r, &out)) ...;            // always, before the next call: messages borrow the router's state
//     at = router_deadline(r);                     // call router_tick at that time or as soon after it as possible
//
// What the host must keep:
//   1. Messages of one link arrive in order, or not at all from some moment on (TCP). Then both ends hear
//      router_neighbour_gone, each at its own time, before router_neighbour_add makes a new link; nothing that was sent
//      on the old link arrives on the new one.
//   2. At one instant, messages first, then ticks: a router answers with one frame what came together.
//   3. A link's cost is the same at both ends, up to the time that news takes.
//
// Pure: no clock, allocation, file or global; random numbers from the seed; costs are integers. Times are in
// any one unit, the same for `now` and for `delay`.
#ifndef BRAID_ROUTING_ROUTER_H
#define BRAID_ROUTING_ROUTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    ROUTER_MAX_NEIGHBOURS = 2048,  // a side, and of the own stage: a lone data peer sees all of its two stages
    ROUTER_MAX_SOURCES = 8,        // data peers
    ROUTER_CROWD = 512,            // relays of a run whose ways data peers plan (router_config.relays)
    ROUTER_MAX_PATH = 40,          // halves of peers in a label
    ROUTER_MAX_CYCLE = 44,         // a label's path, closed, and the inner arc
    ROUTER_MAX_UNITS = 4096,       // a peer's capacity, a data peer's demand
    ROUTER_MAX_COST = 1 << 30,     // of a link
    ROUTER_LAZY = 6,               // router_config.lazy, usually
    ROUTER_FRAME_BYTES = 16,       // what a frame costs beside its messages
};

typedef uint32_t router_peer;  // the run's number of a peer, below 2^31; 0 is nobody

typedef enum router_algorithm { ROUTER_BRAID, ROUTER_GWTF, ROUTER_SWARM, ROUTER_ALGORITHMS } router_algorithm;

// What is to be smallest, once as many units are under way as fit (docs/routing.md).
typedef enum router_objective {
    ROUTER_SUM,    // the sum of units times costs over all links
    ROUTER_WORST,  // the heaviest link: the largest product of a link's units and its cost
    ROUTER_OBJECTIVES
} router_objective;

// Where a neighbour stands. With one relay stage the data peer is both PREVIOUS and NEXT: two links.
typedef enum router_side { ROUTER_PREVIOUS, ROUTER_NEXT, ROUTER_SAME, ROUTER_SIDES } router_side;

typedef struct router_config {
    router_algorithm algorithm;
    router_objective objective;  // of braid and gwtf
    router_peer self;
    uint32_t capacity;                       // a relay: units through it; a data peer: units it wants to send
    uint32_t source_count;                   // data peers of the run, in the same order at every peer
    router_peer source[ROUTER_MAX_SOURCES];  // if `self` is among them, this is a data peer
    uint32_t max_neighbours;                 // a side, 1..ROUTER_MAX_NEIGHBOURS
    uint64_t seed;                           // also tells a peer's lives apart: a new one after every restart
    int64_t delay;                           // a usual one-way message delay, > 0
    int64_t gather;  // waits so long after a message for others before it ticks; 0: same instant

    // braid
    int64_t slack;        // gains of less than this per link are left alone; costs that differ in it are exact
    int64_t hold;         // delays between two labels to the same neighbours (0: 2)
    int64_t lazy;         // delays that news of a way waits at most (0: ROUTER_LAZY, below 0: none)
    uint32_t path_limit;  // of labels, 2..ROUTER_MAX_PATH (0: ROUTER_MAX_PATH)
    bool plan_first;      // data peers plan their first ways on a map of the run; the same at every peer
    uint32_t relays;      // of the run, as far as is known: with more than ROUTER_CROWD nothing is planned, but by a lone data peer that is told so here

    // swarm
    bool weighted;  // stochastic wiring: the next peer by virtual time (a unit adds the link's cost); else the closest

    // gwtf
    double temperature;  // in units of cost (the paper's T = 1.7 times the host's scale of costs)
    double cooling;      // its factor after an accepted change (the paper's alpha = 0.95)
} router_config;

typedef struct router router;

router_peer router_self(const router *r);
// What router_init needs for this configuration; 0 when the configuration is out of its bounds.
size_t router_bytes(const router_config *config);
// `memory` is aligned to 16 and stays the caller's. The time of its first tick is `now`.
router *router_init(void *memory, const router_config *config, int64_t now);

// A link came up with counters at 0. False when the side is full, or it is there already.
bool router_neighbour_add(router *r, int64_t now, router_peer who, router_side side, int64_t cost);
// Its process or the link died, on every side. Harmless if it is not there.
void router_neighbour_gone(router *r, int64_t now, router_peer who);
// The link's cost is another one now.
void router_cost(router *r, int64_t now, router_peer who, router_side side, int64_t cost);
// A relay's capacity or a data peer's demand is another one now.
void router_capacity(router *r, int64_t now, uint32_t capacity);

// The run has so many relays now (router_config.relays).
void router_relays(router *r, int64_t now, uint32_t relays);

// --- Messages ----------------------------------------------------------------------------------------------------------

#define ROUTER_MESSAGES(X)                                                                    \
    X(LABEL, "label")     /* braid: the cheapest residual walk from my half, with its path */ \
    X(ADVERT, "advert")   /* braid, swarm: how far home is through me, and my room */         \
    X(FLOW, "flow")       /* braid: how many units I send you now */                          \
    X(DENY, "deny")       /* braid, swarm: units that I hand back */                          \
    X(LOCK, "lock")       /* braid: reserve on a cycle */                                     \
    X(COMMIT, "commit")   /* braid: apply the cycle */                                        \
    X(ABORT, "abort")     /* braid: release it */                                             \
    X(WAY, "way")         /* braid: units that I send you now, and where they go on */        \
    X(MAP, "map")         /* braid: what peers can carry, and what their links cost; a hint */ \
    X(OFFER, "offer")     /* gwtf: my unpaired outflows; swarm: a unit */                     \
    X(REQUEST, "request") /* gwtf: Request Flow, Change, Redirect */                          \
    X(ANSWER, "answer")   /* gwtf: to a request */                                            \
    X(QUERY, "query")     /* gwtf: which units have you? */                                   \
    X(UNITS, "units")     /* gwtf: these */                                                   \
    X(RELINK, "relink")   /* gwtf: your unit comes from, or goes to, another peer now */

typedef enum router_kind {
#define X(name, text) ROUTER_##name,
    ROUTER_MESSAGES(X)
#undef X
        ROUTER_KINDS
} router_kind;

// A peer is two halves: where units come in, and where they go out.
typedef uint32_t router_half;
static inline router_half router_in(router_peer who) { return who * 2; }
static inline router_half router_out(router_peer who) { return who * 2 + 1; }
static inline router_peer router_owner(router_half half) { return half / 2; }

typedef struct router_step {
    router_half half;
    int64_t cost;  // from here on
} router_step;

typedef struct router_token {
    router_peer origin;
    uint32_t serial;
} router_token;

// One part of a frame. Small and of fixed size; `kind` says which fields count (router_message_bytes is what an encoding
// of those takes). Hosts need `from`, `to`, `joined` and `kind` only.
typedef struct router_message {
    router_peer from, to;
    router_kind kind;
    bool joined;          // travels in the same frame as the message before it: same `to`, same arrival
    uint8_t side;         // LABEL: router_side of the receiver, as the sender sees it
    uint8_t why;          // FLOW, REQUEST, ANSWER, RELINK: see the algorithm
    uint16_t position;    // LOCK, COMMIT, ABORT: on the cycle; WAY: units that go it
    uint16_t length;      // of steps, of the cycle or in words
    router_peer source;   // whose units
    int64_t cost;         // LABEL, ADVERT, LOCK
    uint32_t units;       // room, absolute count, or number of units
    uint32_t taken_back;  // FLOW, WAY, COMMIT: handed-back units taken note of, in total; ADVERT: the scale of loads, or that the sender has begun
    router_token token;   // LOCK, COMMIT, ABORT, FLOW
    union {
        router_step step[ROUTER_MAX_PATH];    // LABEL
        router_half cycle[ROUTER_MAX_CYCLE];  // LOCK
        uint32_t word[4 * ROUTER_MAX_PATH];   // WAY: the peers behind the receiver; MAP: entries (braid_map.c), or a hint (braid_steer.c); gwtf
    } u;
} router_message;

// Bytes of its encoding, ROUTER_FRAME_BYTES included unless `joined`.
uint32_t router_message_bytes(const router_message *message);
const char *router_kind_name(router_kind kind);

// For hosts of very many routers: asks for the memory that the next message or tick will need; some time later for what a message from that
// peer, or a tick, will.
void router_foresee(const router *r, router_peer from);  // from 0: a tick
void router_foresee_message(const router *r, router_peer from);
void router_foresee_tick(const router *r);
// A message from `message->from` arrived. One from nobody that is a neighbour, or that makes no sense, is ignored.
void router_receive(router *r, int64_t now, const router_message *message);
void router_tick(router *r, int64_t now);
// When router_tick is wanted; INT64_MAX: never, unless something comes.
int64_t router_deadline(const router *r);
// The next message to send, grouped into frames; false when there is none.
bool router_next(router *r, router_message *out);

// --- What passes here --------------------------------------------------------------------------------------------------

typedef struct router_unit {
    router_peer source;      // whose units
    router_peer upstream;    // 0: they start here, or (in a relay, for a while) nobody sends them
    router_peer downstream;  // 0: they end here, or (in a relay, for a while) have no way yet
    uint32_t count;
} router_unit;

// Fills `units` and returns how many there are (at most `max` are written). A relay pairs what comes in with what goes
// out; a data peer lists what it sends (upstream 0), then what came home (downstream 0).
uint32_t router_units(const router *r, router_unit *units, uint32_t max);
// Whether units, debts or reservations are on this link: then it must not be taken away. At the upstream end false means that
// the other end has none either, but for what is on its way there and will be understood. gwtf: always.
bool router_link_busy(const router *r, router_side side, router_peer peer);
// Units carried now, counting reservations; never above capacity, except as docs/routing.md says.
uint32_t router_load(const router *r);
// Another number, never 0, whenever what router_units and router_load say may have changed; begins anew with router_init.
uint64_t router_moves(const router *r);
// Nothing here is under way: no reservation, no unit without a way, no debt. (Says nothing about messages in flight.)
bool router_settled(const router *r);

#endif
