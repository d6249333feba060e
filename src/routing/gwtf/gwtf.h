// GWTF's flow algorithm, for comparison: the state of one peer. docs/routing.md lists how each open
// point of the paper is read.
//
// A unit of flow is a chain of places, one in each peer that it passes. The upstream end owns the
// link between two places. The link has a turn number that rises with each change, so that late
// messages are recognised.
#ifndef BRAID_ROUTING_GWTF_H
#define BRAID_ROUTING_GWTF_H

#include "routing/core/router_internal.h"

enum {
    GWTF_ITERATION = 4,  // four delays: query, answer, request, answer
    // refinements after the last change of neighbours; afterwards a router only answers
    GWTF_ITERATIONS = 120,
    GWTF_FINAL_ITERATIONS = 6,  // the last of them accept no increase, to end in a steady state
    GWTF_REPORTED_UNITS = 14,   // units in an answer to a query
    GWTF_REPORTED_COSTS = 16,   // link costs of each side in it
    GWTF_REPORTED_WORDS = 3 * GWTF_REPORTED_UNITS + 4 * GWTF_REPORTED_COSTS,
};

// above the cost of any path; sums of a few do not overflow
#define GWTF_MAX_COST ((int64_t)1 << 50)

// router_message.why of REQUEST and ANSWER; of RELINK.
enum { GWTF_FLOW, GWTF_CHANGE, GWTF_REDIRECT, GWTF_REFUSED };
enum {
    GWTF_ASK,
    GWTF_ASK_YES,
    GWTF_ASK_NO,
    GWTF_UPSTREAM_IS,
    GWTF_BROKEN_UP,
    GWTF_BROKEN_DOWN,
    GWTF_CHECK,
    GWTF_CHECK_LATER
};

// ASKING: requests a unit; TAKING: requests the place of another peer; HELD: part of a unit.
typedef enum gwtf_state { GWTF_FREE, GWTF_ASKING, GWTF_HELD, GWTF_TAKING } gwtf_state;

typedef struct gwtf_place {
    gwtf_state state;
    bool home;  // a data peer's place where a unit ends
    // its next link is being changed: `other` is asked or asks, or a redirect waits for `previous`
    bool locked;
    bool giving;  // locked for a redirect to `other`
    bool doomed;  // the unit is dissolved once the place is unlocked
    uint8_t k;
    router_peer previous, next;  // 0: none yet
    uint32_t next_place, next_turn;
    uint32_t turn;      // turn of the link from upstream; never falls
    router_peer other;  // the peer asked
    uint32_t other_place, other_turn;
    uint32_t seen_turn;  // upstream peer known to gwtf_check_places, and when it is asked
    router_peer seen_previous;
    int64_t check_at;
    router_peer asked;  // giving: the owner of the incoming link when it was asked
    int64_t cost;       // cost from here to the sink
} gwtf_place;

// Answer of a peer of the own stage to a query.
typedef struct gwtf_peer_units {
    router_peer peer;  // 0: no answer yet
    uint32_t units, before, after;
    uint32_t word[GWTF_REPORTED_WORDS];
} gwtf_peer_units;

typedef struct gwtf {
    router r;
    gwtf_place *place;
    uint32_t places;
    int64_t *offer_cost;  // [commodity * max_neighbours + slot] of next neighbours
    uint32_t *offer_units;
    int64_t *sent_cost;  // last offer sent to each previous neighbour
    uint32_t *sent_units;
    gwtf_peer_units *reported;  // answers of peers of the own stage, by slot
    double temperature;
    uint32_t iterations;
    int64_t iteration_at, acted_at, acts_at, judges_at;
    bool again;  // a request was refused early enough for another one in this iteration
} gwtf;

extern const router_rules gwtf_rules;

static inline gwtf *gwtf_of(router *r) { return (gwtf *)r; }

// --- gwtf_place.c
uint32_t gwtf_used(const gwtf *g, bool home);
uint32_t gwtf_room(const gwtf *g, bool home);
// -1: no room.
int gwtf_take(gwtf *g, gwtf_state state, uint32_t k, bool home);
void gwtf_free(gwtf_place *p);
bool gwtf_same_unit(const gwtf_place *p, uint32_t turn);
gwtf_place *gwtf_find_next(gwtf *g, router_peer next, uint32_t next_place, uint32_t turn);
bool gwtf_movable(const gwtf_place *p);
// Cost of the link to a neighbour; -1: it is none.
int64_t gwtf_cost(const gwtf *g, router_side side, router_peer peer);
router_outgoing *gwtf_relink(gwtf *g, router_peer to, uint8_t why, uint32_t at, uint32_t turn);
// Takes a broken unit apart in both directions, to the source and to the sink.
void gwtf_dissolve(gwtf *g, gwtf_place *p);

// --- gwtf_build.c: Request Flow
void gwtf_say_offers(gwtf *g);
// A relay requests one unit, a data peer one of each neighbour that offers any. False: nothing to
// request.
bool gwtf_request_flow(gwtf *g);
void gwtf_on_request_flow(gwtf *g, const router_message *m, uint32_t k, int previous);
void gwtf_on_flow_answer(gwtf *g, const router_message *m, gwtf_place *p);

// --- gwtf_refine.c: choice of a Change or Redirect
// What a move gains that puts two links with costs `a` and `b` in the place of two with `old_a` and `old_b`: below 0 if it is good.
int64_t gwtf_gain(const gwtf *g, int64_t a, int64_t b, int64_t old_a, int64_t old_b);
void gwtf_query(gwtf *g);
void gwtf_compose_units(const gwtf *g, router_message *out);
void gwtf_on_units(gwtf *g, const router_message *m, int same);
void gwtf_judge(gwtf *g);

// --- gwtf_change.c: carrying it out
router_outgoing *gwtf_answer(gwtf *g, const router_message *m, uint8_t why);
void gwtf_on_request_change(gwtf *g, const router_message *m, uint32_t k);
void gwtf_on_request_redirect(gwtf *g, const router_message *m, uint32_t k);
void gwtf_on_ask(gwtf *g, const router_message *m, int next);
void gwtf_on_ask_answer(gwtf *g, const router_message *m, bool yes);
void gwtf_on_answer(gwtf *g, const router_message *m);
void gwtf_refuse_redirect(gwtf *g, gwtf_place *p);
void gwtf_unlock(gwtf *g, gwtf_place *p);

// --- gwtf_link.c: changes and ends of links
void gwtf_on_relink(gwtf *g, const router_message *m, int next);
void gwtf_place_lost(gwtf *g, gwtf_place *p, router_peer peer);
void gwtf_check_places(gwtf *g);

#endif
