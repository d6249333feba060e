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
    rng random;    // its delays, whatever happens elsewhere
} routing_wire;

typedef struct routing_node {
    router *router;
    uint32_t capacity;
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
    // --- routing_look.c
    int64_t *sent, *taken;  // [sources][links] as the sender and as the receiver of a link say
    int64_t *previous;      // `sent` at the last look
    router_unit *seen;      // scratch
    uint32_t seen_capacity;
} routing_net;

// --- routing_net.c: routers, links, memory. After a failed open, close is still right.
braid_err routing_net_open(routing_net *n, const routing_instance *instance, const routing_settings *settings,
                           int64_t units, routing_result *out, braid_error *error);
void routing_net_close(routing_net *n);
// Ends the run; the first failure counts.
void routing_net_fail(routing_net *n, braid_err code, const char *format, ...) __attribute__((format(printf, 3, 4)));

// --- routing_look.c
// Looks at all peers at the end of a round.
void routing_look(routing_net *n, int64_t round);
// Keeps the flow of the last look for the result.
void routing_look_end(routing_net *n);

#endif
