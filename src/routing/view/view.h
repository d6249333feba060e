// What one peer knows of the swarm, refreshed by gossip: a bounded number of neighbours before and behind its stage, and
// the contacts among whom it finds better ones. Its links are what the routers of router.h route over.
//
// Peers exchange small samples of cards (who, stage, place, age). A place is a coordinate in the space of link costs
// (Vivaldi, Dabek et al. 2004: three axes and a height) that each peer works out from what it measures, so that a stranger's
// cost can be guessed before it is measured. About half of a side's links are the cheapest *mutual* ones: whoever asks is
// taken when there is room, or in the place of the dearest one if he is cheaper by a margin, at both ends alike, so that
// the number of links is bounded at both. The other half are links to peers met by chance, which keep the swarm in one piece.
//
// Memory that the host provides; events in, messages and changes of links out, as with a router:
//
//     view_receive(v, now, &message);      // or view_tick, view_contact, view_measured, view_carries, view_gone
//     while (view_next(v, &out)) ...;      // always, before the next call
//     while (view_changed(v, &change)) ..; // feed to router_neighbour_add / router_neighbour_gone
//     at = view_deadline(v);               // call view_tick then
//
// What the host must keep:
//   1. Messages between two peers arrive in order or not at all, also relative to their routers' messages.
//   2. It measures whoever answers (REPLY, PONG): view_measured before the view_receive of that message.
//   3. view_carries is up to date before every other call. A link with units is never given up, unless its peer is gone; only
//      its upstream end, who owns the count, decides that it has none.
//
// Pure: no clock, allocation, file or global; random numbers from the seed.
#ifndef BRAID_ROUTING_VIEW_H
#define BRAID_ROUTING_VIEW_H

#include "routing/core/router.h"

enum {
    VIEW_LINKS = 16,     // a side, unless configured otherwise
    VIEW_NEAR = 12,      // contacts of a stage kept because they are cheap or still unknown
    VIEW_ANY = 12,       // contacts of a stage kept by chance
    VIEW_CARDS = 8,      // in a sample
    VIEW_AXES = 3,       // of a place
    VIEW_MAX_AGE = 256,  // periods; older cards are thrown away
    VIEW_SURE = 1000,    // scale of a place's error: VIEW_SURE is total ignorance
};

// Where a peer lies: the guessed cost between two is the distance of their points plus both heights.
typedef struct view_place {
    int32_t at[VIEW_AXES], height;
    uint16_t error;  // relative, in 1/VIEW_SURE
} view_place;

// What is known about somebody.
typedef struct view_card {
    router_peer peer;
    uint16_t stage;
    uint16_t age;  // periods since the peer itself said so
    view_place place;
} view_card;

typedef struct view_config {
    router_peer self;
    uint16_t stage, stages;  // 0: a data peer; relays stand in 1 .. stages
    uint32_t links;          // a side, 0: VIEW_LINKS. A data peer takes whoever asks up to this
    uint32_t close;          // of them the cheapest, 0: half; the rest less one by chance; one is for exchanges
    uint32_t probes;         // contacts a side measured in one period, 0: 2
    uint32_t margin;         // a newcomer must be cheaper by this many 1/1024, 0: 32
    int64_t period;          // between two refreshes while the view changes, > 0; up to 16 times that when it does not
    int64_t patience;        // without an answer for so long, there will be none; > 0
    uint64_t seed;
} view_config;

#define VIEW_KINDS(X)                                                                   \
    X(SAMPLE, "sample") /* some cards; tell me some */                                  \
    X(REPLY, "reply")   /* these */                                                     \
    X(PING, "ping")     /* how far are you? */                                          \
    X(PONG, "pong")     /* so far, and this is what a link of mine may cost */          \
    X(ASK, "ask")       /* be my neighbour; the link costs so much */                   \
    X(YES, "yes")       /* we are neighbours */                                         \
    X(NO, "no")         /* not at that cost */                                          \
    X(PART, "part")     /* downstream to upstream: give this link up if it is unused */ \
    X(CUT, "cut")       /* we are no neighbours */

typedef enum view_kind {
#define X(name, text) VIEW_##name,
    VIEW_KINDS(X)
#undef X
        VIEW_KIND_COUNT
} view_kind;

typedef struct view_message {
    router_peer from, to;
    view_kind kind;
    uint8_t side;     // of the receiver, as the sender sees it (router_side)
    bool by_chance;   // ASK, YES, NO: the link is not one of the cheapest; PONG, REPLY: there is room for such a one
    uint8_t linked;   // bit s: the sender has the receiver as a neighbour on its side s
    int64_t cost;     // ASK, YES: of the link; PONG, REPLY, NO: what a link on that side may cost at most
    view_card card;   // the sender's own
    uint16_t length;  // cards in a SAMPLE or REPLY
    view_card cards[VIEW_CARDS];
} view_message;

typedef struct view_change {
    bool add;  // else it is a neighbour no more
    router_side side;
    router_peer peer;
    int64_t cost;
} view_change;

typedef struct view view;

// 0 when the configuration is out of its bounds.
size_t view_bytes(const view_config *config);
view *view_init(void *memory, const view_config *config, int64_t now);

// Somebody whom the host heard of (the run's ticket, discovery, the run's data peers).
void view_contact(view *v, int64_t now, router_peer peer, uint16_t stage);
// A neighbour already, and I am its: both ends say so when they begin to choose, of links from a time when nobody had to.
// False: the side is full, or it is one.
bool view_adopt(view *v, int64_t now, router_side side, router_peer peer, uint16_t stage, int64_t cost);
// What a link with this peer would cost.
void view_measured(view *v, int64_t now, router_peer peer, int64_t cost);
// Units that the router sends over, or takes from, this link now; at least 1 while router_link_busy.
void view_carries(view *v, int64_t now, router_side side, router_peer peer, uint32_t units);
// Its process or the link died: it is a neighbour no more (no change is reported) and no contact.
void view_gone(view *v, int64_t now, router_peer peer);

void view_receive(view *v, int64_t now, const view_message *message);
void view_tick(view *v, int64_t now);
int64_t view_deadline(const view *v);
bool view_next(view *v, view_message *out);
bool view_changed(view *v, view_change *out);

uint32_t view_message_bytes(const view_message *message);
const char *view_kind_name(view_kind kind);

// --- What it holds

typedef struct view_link {
    router_peer peer;
    int64_t cost;
    bool by_chance;
    uint32_t units;
} view_link;

// Neighbours of a side; fills at most `max` and returns how many there are.
uint32_t view_links(const view *v, router_side side, view_link *links, uint32_t max);
view_place view_where(const view *v);
// Guessed cost of a link between two places.
int64_t view_guess(const view_place *a, const view_place *b);

#endif
