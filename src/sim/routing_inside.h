// What the files of a routing run share. Nothing outside src/sim includes it.
#ifndef BRAID_SIM_ROUTING_INSIDE_H
#define BRAID_SIM_ROUTING_INSIDE_H

#include "base/rng.h"
#include "sim/queue.h"
#include "sim/routing.h"

// One direction between two peers: messages arrive in the order in which they were sent.
typedef struct routing_wire {
    uint32_t from, to;
    int64_t last;  // arrival of the newest frame
    bool fallen;   // the sender died and the receiver knows: nothing more arrives
    rng random;    // its delays, whatever happens elsewhere
} routing_wire;

typedef struct routing_node {
    router *router;
    uint32_t capacity;
    uint32_t widest;  // neighbours on one side, at most
    bool away;       // dead, or not here yet
    int64_t armed;   // when its next tick is due; INT64_MAX: never
    int64_t ticked;  // when its latest one was
} routing_node;

typedef struct routing_net {
    const routing_instance *instance;
    const routing_settings *settings;
    routing_result *out;
    braid_error *error;
    bool failed;
    uint32_t peers, wires;
    routing_node *node;
    routing_wire *wire;    // by sender, then receiver
    uint32_t *first_wire;  // [peers + 1]
    sim_queue queue;       // by time * 2; + 1 for ticks, which come after the messages of their instant
    int64_t now, units;    // units that should flow
    int64_t start;         // rounds are counted from here
    // --- routing_look.c
    int64_t *sent, *taken;     // [sources][links] as the sender and as the receiver of a link say
    int64_t *real, *arrived;   // of that, what comes from a data peer; and what of it the receiver knows
    int64_t *previous, *kept;  // `real` at the last look, and at the last that was whole
    routing_sight last_whole;
    router_unit *seen;  // scratch
    uint32_t seen_capacity;
} routing_net;

// --- routing_net.c: routers, links, memory. After a failed open, close is still right.
// `late`: relays that are away for now, or NULL.
braid_err routing_net_open(routing_net *n, const routing_instance *instance, const routing_settings *settings,
                           const routing_change *late, int64_t units, routing_result *out, braid_error *error);
void routing_net_close(routing_net *n);
// One that was away begins anew, with all its neighbours that are there.
void routing_net_arrive(routing_net *n, uint32_t peer);
// Ends the run; the first failure counts.
void routing_net_fail(routing_net *n, braid_err code, const char *format, ...) __attribute__((format(printf, 3, 4)));

// --- routing_run.c
// Kinds of what the host itself says to `to`: `from` is gone; the link from `from` has another cost.
enum { ROUTING_NOTICE = ROUTER_KINDS, ROUTING_TOLD };
routing_wire *routing_wire_between(const routing_net *n, uint32_t from, uint32_t to);
// After every call of a router: its messages, its load, its next tick.
void routing_collect(routing_net *n, routing_node *node);
// Puts a message into the queue.
void routing_deliver(routing_net *n, int64_t at, const router_message *m);
// Until the run is quiet or at its limit.
void routing_events(routing_net *n);
// All that happens until then, which becomes the time it is; without looks.
void routing_events_until(routing_net *n, int64_t until);
void routing_drain(routing_net *n);

// --- routing_look.c
// Looks at all peers at the end of a round.
void routing_look(routing_net *n, int64_t round);
// Keeps the flow of the last look for the result.
void routing_look_end(routing_net *n);

#endif
