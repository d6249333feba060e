// Shared by the files of a routing run; no other file includes it.
#ifndef BRAID_BENCH_ROUTING_ROUTING_INSIDE_H
#define BRAID_BENCH_ROUTING_ROUTING_INSIDE_H

#include "base/rng.h"
#include "bench/routing/blocks.h"
#include "sim/queue.h"
#include "bench/routing/routing.h"

// One direction between two peers: messages arrive in the order in which they were sent.
typedef struct routing_wire {
    int64_t last;  // arrival of the newest frame
    rng random;    // source of its delays, independent of other wires
} routing_wire;

// The long part of a message (a label, a cycle). Equal messages to sixteen neighbours share one
// text.
typedef struct routing_text {
    uint32_t readers;  // messages in flight that refer to it
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

// A peer's unit as last seen: its incoming and outgoing links; UINT32_MAX: none.
typedef struct routing_seen {
    uint32_t source;  // 0-based
    uint32_t in, out;
    uint32_t count;
    bool sends;  // no other peer sends it to this one
} routing_seen;

typedef struct routing_node {
    router *router;
    int64_t armed;    // time of the next tick; INT64_MAX: never
    int64_t ticked;   // time of the latest tick
    uint64_t moves;   // router_moves at the last collection
    uint32_t capacity;
    bool away;        // dead, or not joined yet
    bool unseen;      // `seen` may be stale
    uint32_t widest;  // largest number of neighbours on one side
    uint32_t seen_count, seen_room;
    routing_seen *seen;  // [seen_count], owned
} routing_node;

_Static_assert(sizeof(routing_node) <= ROUTING_BLOCK_GRAIN, "a line of the cache");

typedef struct routing_net {
    const routing_instance *instance;
    const routing_settings *settings;
    routing_result *out;
    braid_error *error;
    bool failed;
    uint32_t peers, wires;
    routing_node *node;
    void *routers;         // memory of all routers
    uint32_t *first_wire;  // [peers + 1]: its wires by rising receiver
    uint32_t *wire_to;
    routing_wire *wire;
    // [wires] the sender died and the receiver knows it: nothing more arrives
    bool *fallen;
    routing_blocks blocks;     // flights and texts
    routing_text *spoken;  // the newest text, if it is still in flight
    router_message said, heard;  // scratch: the message that leaves, and the one that arrives
    const routing_text *read;  // text of `heard`, while it is in flight
    // by time * 2; + 1 for ticks, which come after the messages of their instant
    sim_queue queue;
    int64_t now, units;    // units that should flow
    int64_t start;         // begin of the count of rounds
    uint64_t *said_by;     // routing_change.said, from the change on
    size_t router_bytes;   // memory of all routers
    int64_t moving;        // units of the COMMITs in flight
    // --- routing_look.c
    int64_t look;              // time of the next look
    bool touched;              // the flow may have changed since the last look
    uint32_t *first_link;      // [peers + 1]
    int64_t *sent, *taken;     // [sources][links] by the report of the sender and of the receiver
    // part of these that comes from a data peer; part of that known to the receiver
    int64_t *real, *arrived;
    int64_t *previous, *kept;  // `real` at the last look, and at the last whole look
    routing_sight latest, last_whole;
    router_unit *units_of;  // scratch: the units that one router reports
    uint32_t units_room;
} routing_net;

// --- routing_net.c: routers, links, memory. After a failed open, close is still right.
braid_err routing_net_open(routing_net *n, const routing_instance *instance, const routing_settings *settings,
                           const routing_change *late, int64_t units, routing_result *out, braid_error *error);
void routing_net_close(routing_net *n);
// Starts a relay that was away, with all its present neighbours.
void routing_net_arrive(routing_net *n, uint32_t peer);
// Records the memory use of the run.
void routing_net_account(routing_net *n);
// Ends the run; the first failure counts.
void routing_net_fail(routing_net *n, braid_err code, const char *format, ...) __attribute__((format(printf, 3, 4)));

// --- routing_post.c: messages in flight
// The kind of the host's notice to `to` that `from` is gone.
enum { ROUTING_NOTICE = ROUTER_KINDS };
// Sends all messages that `peer` has ready.
void routing_post(routing_net *n, uint32_t peer);
// Each neighbour notices independently that `peer` is gone.
void routing_notice_death(routing_net *n, uint32_t peer);
// Ends a flight: its message for a router, valid until the next call; NULL if it never arrives.
const router_message *routing_arrival(routing_net *n, routing_flight *flight);
void routing_drop(routing_net *n, routing_flight *flight);

// Adds a value to the hash of the trace.
static inline void routing_fold(routing_net *n, uint64_t value) { n->out->hash = rng_mix(n->out->hash ^ value) + 0x9e3779b97f4a7c15u; }

// --- routing_run.c
// Collects a router's messages, load and next tick. Called after every call of a router.
void routing_collect(routing_net *n, uint32_t peer);
// Runs until the run is quiet or at its limit.
void routing_events(routing_net *n);
void routing_drain(routing_net *n);

// --- routing_look.c
// Looks at all peers at the end of every round before `at`, or of some of them (settings.seldom).
void routing_look_until(routing_net *n, int64_t at);
void routing_look(routing_net *n, int64_t round);
// Keeps the flow of the last look for the result.
void routing_look_end(routing_net *n);

#endif
