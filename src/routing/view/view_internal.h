// State that the files of a view share. Private to src/routing/view.
#ifndef BRAID_ROUTING_VIEW_INTERNAL_H
#define BRAID_ROUTING_VIEW_INTERNAL_H

#include "base/rng.h"
#include "routing/view/view.h"

enum {
    VIEW_CONTACTS = VIEW_NEAR + VIEW_ANY,
    VIEW_TRIED_WORDS = 16,     // 1,024 bits a stage: peers measured and found too expensive
    VIEW_OUT = 64,             // messages of one call
    VIEW_CHANGES = 16,         // changes of one call
    VIEW_MISSES = 2,           // unanswered requests until a contact is dropped
    VIEW_SLOWEST = 4,          // periods are stretched to 2^4
    VIEW_LIMIT_PERIODS = 256,  // validity of a received limit
    VIEW_UNCHANGED = 8,        // refreshes without a change until the period doubles
    VIEW_NEIGHBOUR_SIDES = 2,
};

#define VIEW_UNKNOWN  ((int64_t)-1)
#define VIEW_ANY_COST ((int64_t)ROUTER_MAX_COST)

typedef struct view_contact_entry {
    view_descriptor card;
    int64_t born;   // local time at which the peer issued it
    int64_t cost;   // VIEW_UNKNOWN: not measured
    int64_t limit;  // upper cost of a close link there; valid until `limit_until`
    int64_t limit_until;
    bool no_chance;      // no room for a random link there; valid as long
    int64_t not_before;  // no request before this time
    int64_t pinged;      // time of an unanswered PING; -1: none
    uint32_t misses;
} view_contact_entry;

typedef struct view_neighbour {
    view_descriptor card;
    int64_t born, cost;
    bool up;  // true: the link exists; false: a request is pending
    bool by_chance;
    uint32_t units;
    int64_t since;       // up or pending since
    int64_t kept_until;  // not removed before this time
    int64_t parting;     // time of a pending PART; -1: none
    int64_t spoken;      // time of the last sample sent there
} view_neighbour;

typedef struct view_waiting {
    router_peer to;
    view_kind kind;
    uint8_t side;
    bool by_chance;
    int64_t cost;
} view_waiting;

// Contacts of a stage; the first VIEW_NEAR places hold the near ones. Free: peer 0.
typedef struct view_group {
    view_contact_entry contact[VIEW_CONTACTS];
    uint64_t tried[VIEW_TRIED_WORDS];
    uint32_t tried_count;
} view_group;

struct view {
    view_config config;
    rng random;
    int64_t now, deadline;
    uint32_t level, unchanged, turn;
    view_coordinate place;
    router_peer measured;  // the peer that the host measured just now
    int64_t measured_cost;
    view_descriptor partner;  // receiver of the sample that is being sent
    view_group group[ROUTER_SIDES];
    view_neighbour *neighbour[VIEW_NEIGHBOUR_SIDES];
    uint32_t neighbours[VIEW_NEIGHBOUR_SIDES];
    view_waiting out[VIEW_OUT];
    uint32_t out_count, out_next;
    view_change change[VIEW_CHANGES];
    uint32_t change_count, change_next;
};

static inline router_side view_opposite(router_side side) {
    return side == ROUTER_PREVIOUS ? ROUTER_NEXT : ROUTER_PREVIOUS;
}
// The stage on this side.
static inline uint16_t view_stage_at(const view *v, router_side side) {
    uint16_t s = v->config.stage, last = v->config.stages;
    if (side == ROUTER_SAME) return s;
    if (side == ROUTER_NEXT) return s == last ? 0 : (uint16_t)(s + 1);
    return s == 0 ? last : (uint16_t)(s - 1);
}
static inline bool view_is_source(const view *v) { return v->config.stage == 0; }

// --- view_coordinate.c
void view_place_learn(view_coordinate *mine, const view_coordinate *other, int64_t cost, rng *random);
bool view_place_known(const view_coordinate *place);
bool view_place_sane(const view_coordinate *place);

// --- view_contacts.c
view_contact_entry *view_contact_find(view *v, router_side side, router_peer peer);
// Known or estimated cost of a link there; 0: unknown.
int64_t view_contact_rank(const view *v, const view_contact_entry *c);
// A descriptor arrived.
void view_contact_learn(view *v, const view_descriptor *card);
// Returns a former neighbour to the contacts.
void view_contact_return(view *v, router_side side, const view_neighbour *b);
void view_contact_forget(view *v, router_side side, view_contact_entry *c, bool tried);
void view_contact_measured(view *v, router_side side, view_contact_entry *c, int64_t cost);
void view_contact_expire(view *v);
view_descriptor view_own_card(const view *v);
uint16_t view_age(const view *v, int64_t born);
// Descriptors for `to`: half of them near it, half at random.
uint16_t view_contact_sample(view *v, const view_descriptor *to, view_descriptor *cards);

// --- view_links.c
view_neighbour *view_neighbour_find(view *v, router_side side, router_peer peer);
void view_neighbour_seek(view *v, router_side side);
void view_neighbour_trim(view *v, router_side side);
void view_neighbour_expire(view *v, router_side side);
void view_neighbour_drop(view *v, router_side side, view_neighbour *b, bool tell_host);
int64_t view_neighbour_limit(const view *v, router_side side);
bool view_neighbour_chance(const view *v, router_side side);
void view_neighbour_on_ask(view *v, router_side side, const view_message *m);
void view_neighbour_on_yes(view *v, router_side side, const view_message *m);
void view_neighbour_on_no(view *v, router_side side, const view_message *m);
void view_neighbour_on_part(view *v, router_side side, const view_message *m);
void view_neighbour_on_cut(view *v, router_side side, const view_message *m);
void view_neighbour_check(view *v, const view_message *m);

// --- view.c
void view_post(view *v, router_peer to, view_kind kind, router_side side, int64_t cost, bool by_chance);
void view_report(view *v, bool add, router_side side, const view_neighbour *b);
void view_quicken(view *v, bool at_once);

#endif
