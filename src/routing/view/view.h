// Partial view of a large stage by gossip: a bounded number of neighbours in the previous and next
// stage, and contacts among which better ones are found. The routers of router.h use its links.
//
// Peers exchange small samples of descriptors (view_descriptor: peer, stage, network coordinate, age). A
// coordinate (view_coordinate) lies in the space of link costs (Vivaldi, Dabek et al. 2004: three axes
// and a height). Each peer derives its own from measured costs, so that the cost to an unknown peer
// can be estimated. About half of a side's links are the cheapest *mutual* ones. A request is
// accepted if there is room, or in place of the most expensive link if it is cheaper by a margin.
// Both ends apply the rule, so the number of links is bounded at both. The other half are random
// links, which keep the swarm connected.
//
// The host provides the memory and passes events, as with a router:
//
//     view_receive(v, now, &message);      // or view_tick, view_contact, view_measured, view_carries, view_gone
//     while (view_next(v, &out)) ...;      // always, before the next call
//     while (view_changed(v, &change)) ..; // feed to router_neighbour_add / router_neighbour_gone
//     at = view_deadline(v);               // call view_tick then
//
// What the host must guarantee:
//   1. Messages between two peers arrive in order or not at all, also relative to their routers' messages.
//   2. It measures each peer that answers (REPLY, PONG): view_measured before view_receive of that message.
//   3. view_carries is up to date before every other call. A link with units is never removed, unless its
//      peer is gone. Only its upstream end, the owner of the count, decides that it has none.
//
// Pure: no clock, allocation, file or global state; random numbers come from the seed.
#ifndef BRAID_ROUTING_VIEW_H
#define BRAID_ROUTING_VIEW_H

#include "routing/core/router.h"

enum {
    VIEW_LINKS = 16,       // links on a side by default
    VIEW_NEAR = 12,        // contacts of a stage kept because they are cheap or not measured yet
    VIEW_ANY = 12,         // random contacts of a stage
    VIEW_DESCRIPTORS = 8,  // descriptors in a sample
    VIEW_AXES = 3,         // axes of a coordinate
    VIEW_MAX_AGE = 256,    // periods; older descriptors are dropped
    VIEW_SURE = 1000,      // scale of a coordinate's error: VIEW_SURE means no knowledge
};

// A network coordinate. The estimated cost between two is the distance of their points plus both
// heights.
typedef struct view_coordinate {
    int32_t at[VIEW_AXES], height;
    uint16_t error;  // relative, in 1/VIEW_SURE
} view_coordinate;

// A descriptor of a peer.
typedef struct view_descriptor {
    router_peer peer;
    uint16_t stage;
    uint16_t age;  // periods since the peer itself issued it
    view_coordinate place;
} view_descriptor;

typedef struct view_config {
    router_peer self;
    uint16_t stage, stages;  // 0: a data peer; relays stand in 1 .. stages
    uint32_t links;          // links on a side, 0: VIEW_LINKS; a data peer accepts all requests up to this number
    // the cheapest of them, 0: half; one is reserved for exchanges, the rest are random
    uint32_t close;
    uint32_t probes;  // contacts of a side measured in one period, 0: 2
    uint32_t margin;  // a newcomer must be cheaper by so many 1/1024, 0: 32
    // between refreshes while the view changes, > 0; up to 16 times that when it does not
    int64_t period;
    int64_t patience;  // timeout of an answer, > 0
    uint64_t seed;
} view_config;

typedef enum view_kind {
    VIEW_SAMPLE,  // some descriptors; asks for some
    VIEW_REPLY,   // answer to a sample
    VIEW_PING,    // measures a link
    VIEW_PONG,    // answer, with the limit for a link on that side
    VIEW_ASK,     // requests a link, at this cost
    VIEW_YES,     // the link exists
    VIEW_NO,      // refused at that cost
    VIEW_PART,    // downstream to upstream: asks to remove an unused link
    VIEW_CUT,     // the link is removed
    VIEW_KIND_COUNT
} view_kind;

typedef struct view_message {
    router_peer from, to;
    view_kind kind;
    uint8_t side;          // router_side of the receiver, as the sender sees it
    bool by_chance;        // ASK, YES, NO: a random link; PONG, REPLY: there is room for one
    uint8_t linked;        // bit s: the sender has the receiver as a neighbour on its side s
    int64_t cost;          // ASK, YES: of the link; PONG, REPLY, NO: upper limit for a link on that side
    view_descriptor card;  // the sender's own
    uint16_t length;       // descriptors in a SAMPLE or REPLY
    view_descriptor cards[VIEW_DESCRIPTORS];
} view_message;

typedef struct view_change {
    bool add;  // true: added; false: removed
    router_side side;
    router_peer peer;
    int64_t cost;
} view_change;

typedef struct view view;

// 0: the configuration is invalid.
size_t view_bytes(const view_config *config);
view *view_init(void *memory, const view_config *config, int64_t now);

// A peer known to the host (from the run's ticket, from discovery, or a data peer of the run).
void view_contact(view *v, int64_t now, router_peer peer, uint16_t stage);
// An existing link, from a time when stages were small; both ends adopt it when they begin to
// select. False: the side is full, or the peer is already a neighbour.
bool view_adopt(view *v, int64_t now, router_side side, router_peer peer, uint16_t stage, int64_t cost);
// The cost that a link with this peer would have.
void view_measured(view *v, int64_t now, router_peer peer, int64_t cost);
// Units that the router sends or receives over this link now; at least 1 while router_link_busy.
void view_carries(view *v, int64_t now, router_side side, router_peer peer, uint32_t units);
// The peer or its link died: it is no longer a neighbour (no change is reported) nor a contact.
void view_gone(view *v, int64_t now, router_peer peer);

void view_receive(view *v, int64_t now, const view_message *message);
void view_tick(view *v, int64_t now);
int64_t view_deadline(const view *v);
bool view_next(view *v, view_message *out);
bool view_changed(view *v, view_change *out);

uint32_t view_message_bytes(const view_message *message);

// --- What it holds

typedef struct view_link {
    router_peer peer;
    int64_t cost;
    bool by_chance;
    uint32_t units;
} view_link;

// Neighbours of a side: writes at most `max` and returns their number.
uint32_t view_links(const view *v, router_side side, view_link *links, uint32_t max);
// Estimated cost of a link between two coordinates.
int64_t view_guess(const view_coordinate *a, const view_coordinate *b);

#endif
