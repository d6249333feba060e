// What the files of a routing run share. Nothing outside src/sim includes it.
#ifndef BRAID_SIM_ROUTING_INSIDE_H
#define BRAID_SIM_ROUTING_INSIDE_H

#include "base/rng.h"
#include "sim/blocks.h"
#include "sim/queue.h"
#include "sim/routing.h"

// One direction between two peers: messages arrive in the order in which they were sent.
typedef struct routing_wire {
    int64_t last;  // arrival of the newest frame
    rng random;    // its delays, whatever happens elsewhere
} routing_wire;

// What is long in a message (a label, a cycle). Who tells sixteen neighbours the same sends one of these.
typedef struct routing_text {
    uint32_t readers;  // messages in flight that have it
    uint32_t bytes;
    uint64_t hash;
    char of[];  // the beginning of router_message.u
} routing_text;

// A message in flight.
typedef struct routing_flight {
    char head[offsetof(router_message, u)];
    routing_text *text;  // NULL: its kind has none
    uint32_t wire;
} routing_flight;

// A peer's unit as it was seen: the links by which it comes and goes, UINT32_MAX: none.
typedef struct routing_seen {
    uint32_t source;  // 0-based
    uint32_t in, out;
    uint32_t count;
    bool sends;  // nobody sends it to this peer
} routing_seen;

typedef struct routing_node {
    router *router;
    int64_t armed;    // when its next tick is due; INT64_MAX: never
    int64_t ticked;   // when its latest one was
    uint64_t moves;   // of the router (router_moves), when it was collected last
    uint32_t capacity;
    bool away;        // dead, or not here yet
    bool unseen;      // what it carries may be something else than `seen`
    uint32_t widest;  // neighbours on one side, at most
    uint32_t seen_count, seen_room;
    routing_seen *seen;  // [seen_count], owned
} routing_node;

_Static_assert(sizeof(routing_node) <= SIM_BLOCK_GRAIN, "a line of the cache");

typedef struct routing_net {
    const routing_instance *instance;
    const routing_settings *settings;
    routing_result *out;
    braid_error *error;
    bool failed;
    uint32_t peers, wires;
    routing_node *node;
    void *routers;         // memory of all of them
    uint32_t *first_wire;  // [peers + 1]: its wires by rising receiver
    uint32_t *wire_to;
    routing_wire *wire;
    bool *fallen;          // [wires] the sender died and the receiver knows: nothing more arrives
    sim_blocks blocks;     // flights and texts
    routing_text *spoken;  // the newest text, if it still flies
    router_message said, heard;  // scratch: the message that leaves, the one that arrives
    const routing_text *read;  // the text in it, as long as that flies
    sim_queue queue;       // by time * 2; + 1 for ticks, which come after the messages of their instant
    int64_t now, units;    // units that should flow
    int64_t start;         // rounds are counted from here
    uint64_t *said_by;     // routing_change.said, from the change on
    size_t router_bytes;   // of all routers
    int64_t moving;        // units of the COMMITs in flight
    // --- routing_look.c
    int64_t look;              // time of the next look
    bool touched;              // somebody's units, or what commits move, may be others than at the last look
    uint32_t *first_link;      // [peers + 1]
    int64_t *sent, *taken;     // [sources][links] as the sender and as the receiver of a link say
    int64_t *real, *arrived;   // of that, what comes from a data peer; and what of it the receiver knows
    int64_t *previous, *kept;  // `real` at the last look, and at the last that was whole
    routing_sight latest, last_whole;
    router_unit *units_of;  // scratch: what one router says
    uint32_t units_room;
} routing_net;

// --- routing_net.c: routers, links, memory. After a failed open, close is still right.
// `late`: relays that are away for now, or NULL.
braid_err routing_net_open(routing_net *n, const routing_instance *instance, const routing_settings *settings,
                           const routing_change *late, int64_t units, routing_result *out, braid_error *error);
void routing_net_close(routing_net *n);
// One that was away begins anew, with all its neighbours that are there.
void routing_net_arrive(routing_net *n, uint32_t peer);
// What the run took of memory.
void routing_net_account(routing_net *n);
// Ends the run; the first failure counts.
void routing_net_fail(routing_net *n, braid_err code, const char *format, ...) __attribute__((format(printf, 3, 4)));

// --- routing_post.c: messages in flight
// Kinds of what the host itself says to `to`: `from` is gone; the link from `from` has another cost.
enum { ROUTING_NOTICE = ROUTER_KINDS, ROUTING_TOLD };
// The wire between two peers; first_wire[from + 1]: they have none.
uint32_t routing_wire_between(const routing_net *n, uint32_t from, uint32_t to);
// Puts a message into flight.
void routing_deliver(routing_net *n, int64_t at, uint32_t wire, const router_message *m);
// All that `peer` has to say.
void routing_post(routing_net *n, uint32_t peer);
// Each neighbour notices by itself that `peer` is gone.
void routing_mourn(routing_net *n, uint32_t peer);
// A flight ends: its message as a router takes it, good until the next one; NULL if it never arrives.
const router_message *routing_arrival(routing_net *n, routing_flight *flight);
void routing_drop(routing_net *n, routing_flight *flight);

// Into the hash of the trace.
static inline void routing_fold(routing_net *n, uint64_t value) { n->out->hash = rng_mix(n->out->hash ^ value) + 0x9e3779b97f4a7c15u; }

// --- routing_run.c
// After every call of a router: its messages, its load, its next tick.
void routing_collect(routing_net *n, uint32_t peer);
// Until the run is quiet or at its limit.
void routing_events(routing_net *n);
// All that happens until then, which becomes the time it is; without looks.
void routing_events_until(routing_net *n, int64_t until);
void routing_drain(routing_net *n);

// --- routing_look.c
// Looks at all peers at the end of every round before `at`, or of some of them (settings.seldom).
void routing_look_until(routing_net *n, int64_t at);
void routing_look(routing_net *n, int64_t round);
// Keeps the flow of the last look for the result.
void routing_look_end(routing_net *n);

#endif
