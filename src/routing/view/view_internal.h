// What the files of a view share. Only src/routing/view/ includes it.
#ifndef BRAID_ROUTING_VIEW_INSIDE_H
#define BRAID_ROUTING_VIEW_INSIDE_H

#include "base/rng.h"
#include "routing/view/view.h"

enum {
    VIEW_CONTACTS = VIEW_NEAR + VIEW_ANY,
    VIEW_TRIED_WORDS = 16,     // 1,024 bits a stage remember who was measured and found too dear
    VIEW_OUT = 64,             // messages of one call
    VIEW_CHANGES = 16,         // changes of one call
    VIEW_MISSES = 2,           // unanswered questions until a contact is forgotten
    VIEW_SLOWEST = 4,          // periods are stretched to 2^4
    VIEW_LIMIT_PERIODS = 256,  // how long somebody's word about what it takes is believed
    VIEW_CALM = 8,             // refreshes without a change until they are stretched once more
    VIEW_NEIGHBOUR_SIDES = 2,
};

#define VIEW_UNKNOWN  ((int64_t)-1)
#define VIEW_ANY_COST ((int64_t)ROUTER_MAX_COST)

typedef struct contact {
    view_card card;
    int64_t born;   // when its peer said so, by my clock
    int64_t cost;   // VIEW_UNKNOWN: not measured
    int64_t limit;  // what it takes for a close link; counts until `limit_until`
    int64_t limit_until;
    bool no_chance;      // has no room for a link by chance; counts as long
    int64_t not_before;  // nothing is asked of it until then
    int64_t pinged;      // when a PING left that is unanswered; -1: none
    uint32_t misses;
} contact;

typedef struct bond {
    view_card card;
    int64_t born, cost;
    bool up;  // else it has only been asked
    bool by_chance;
    uint32_t units;
    int64_t since;       // up or asked
    int64_t kept_until;  // not given up before
    int64_t parting;     // when a PART left; -1: none
    int64_t spoken;      // when a sample went there
} bond;

typedef struct view_waiting {
    router_peer to;
    view_kind kind;
    uint8_t side;
    bool by_chance;
    int64_t cost;
} view_waiting;

// The first VIEW_NEAR places of a stage's contacts are the near ones. Empty: peer 0.
typedef struct view_group {
    contact contact[VIEW_CONTACTS];
    uint64_t tried[VIEW_TRIED_WORDS];
    uint32_t tried_count;
} view_group;

struct view {
    view_config config;
    rng random;
    int64_t now, deadline;
    uint32_t level, calm, turn;
    view_place place;
    router_peer measured;  // whom the host measured just now
    int64_t measured_cost;
    view_card partner;  // of the sample that is leaving
    view_group group[ROUTER_SIDES];
    bond *bond[VIEW_NEIGHBOUR_SIDES];
    uint32_t bonds[VIEW_NEIGHBOUR_SIDES];
    view_waiting out[VIEW_OUT];
    uint32_t out_count, out_next;
    view_change change[VIEW_CHANGES];
    uint32_t change_count, change_next;
};

static inline router_side view_opposite(router_side side) {
    return side == ROUTER_PREVIOUS ? ROUTER_NEXT : ROUTER_PREVIOUS;
}
// The stage that stands on this side.
static inline uint16_t view_stage_at(const view *v, router_side side) {
    uint16_t s = v->config.stage, last = v->config.stages;
    if (side == ROUTER_SAME) return s;
    if (side == ROUTER_NEXT) return s == last ? 0 : (uint16_t)(s + 1);
    return s == 0 ? last : (uint16_t)(s - 1);
}
static inline bool view_is_source(const view *v) { return v->config.stage == 0; }

// --- view_place.c
void view_place_learn(view_place *mine, const view_place *other, int64_t cost, rng *random);
bool view_place_known(const view_place *place);
bool view_place_sane(const view_place *place);

// --- view_contacts.c
contact *view_contact_find(view *v, router_side side, router_peer peer);
// What a link there would cost as far as it is known; 0 for a stranger.
int64_t view_contact_rank(const view *v, const contact *c);
// A card came in that is `age` periods old.
void view_contact_learn(view *v, const view_card *card);
// Puts somebody back whom I know well.
void view_contact_return(view *v, router_side side, const bond *b);
void view_contact_forget(view *v, router_side side, contact *c, bool tried);
void view_contact_measured(view *v, router_side side, contact *c, int64_t cost);
void view_contact_expire(view *v);
view_card view_own_card(const view *v);
uint16_t view_age(const view *v, int64_t born);
// Cards for `to`: half those that lie close to it, half by chance.
uint16_t view_contact_sample(view *v, const view_card *to, view_card *cards);

// --- view_links.c
bond *view_bond_find(view *v, router_side side, router_peer peer);
void view_bond_seek(view *v, router_side side);
void view_bond_trim(view *v, router_side side);
void view_bond_expire(view *v, router_side side);
void view_bond_drop(view *v, router_side side, bond *b, bool tell_host);
int64_t view_bond_limit(const view *v, router_side side);
bool view_bond_chance(const view *v, router_side side);
void view_bond_on_ask(view *v, router_side side, const view_message *m);
void view_bond_on_yes(view *v, router_side side, const view_message *m);
void view_bond_on_no(view *v, router_side side, const view_message *m);
void view_bond_on_part(view *v, router_side side, const view_message *m);
void view_bond_on_cut(view *v, router_side side, const view_message *m);
void view_bond_check(view *v, const view_message *m);

// --- view.c
void view_post(view *v, router_peer to, view_kind kind, router_side side, int64_t cost, bool by_chance);
void view_tell(view *v, bool add, router_side side, const bond *b);
void view_stir(view *v, bool at_once);

#endif
