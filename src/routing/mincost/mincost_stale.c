// braid's labels: whether a walk that a neighbour tells of leads over other neighbours, who know better.
#include "routing/mincost/mincost.h"

// Whether a neighbour at that place of the walk would say what it is there: not a walk that is no use to me, nor one that comes back to me.
static bool would_say(const braid *b, const braid_label *far, uint32_t place, bool next, uint32_t slot) {
    if (next && link_cost(b, ROUTER_NEXT, slot) + far->at[place] >= told_of(b, 0, ROUTER_NEXT, slot)->floor) return false;
    router_peer self = b->r.config.self;
    return !braid_mature(b) || braid_find_half(far, next ? router_out(self) : router_in(self)) <= (int)place;
}

// The slot of the neighbour over which the walk goes at that place, if it goes the way that I would; -1: there is none.
static int near_slot(const braid *b, const braid_label *far, uint32_t place, bool *next) {
    router_peer over = router_owner(far->half[place]);
    *next = far->half[place] == router_in(over);
    return router_slot(&b->r, *next ? ROUTER_NEXT : ROUTER_PREVIOUS, over);
}

enum { NEAR_KNOWN = 1, NEAR_REST = 31 };  // bits of braid_label.near: no step is the first, and all from there on are one

// Bit i: step i does. Few do, and a label is looked at again and again.
static uint32_t find_near(const braid *b, const braid_label *far) {
    uint32_t near = NEAR_KNOWN;
    bool next;
    for (uint32_t i = 1; i < far->length; i++)
        if (near_slot(b, far, i, &next) >= 0) near |= 1u << (i < NEAR_REST ? i : NEAR_REST);
    return near;
}

static bool is_contradicted_at(const braid *b, const braid_label *far, uint32_t place) {
    bool next;
    int slot = near_slot(b, far, place, &next);
    if (slot < 0 || (!next && braid_in(b, 0, (uint32_t)slot) <= 0)) return false;
    if (!would_say(b, far, place, next, (uint32_t)slot)) return false;
    const braid_label *says = label_from(b, 0, next ? ROUTER_NEXT : ROUTER_PREVIOUS, (uint32_t)slot);
    return says->length > 0 && says->cost > far->at[place];
}

bool braid_contradicted(const braid *b, braid_label *far) {
    if (far->near == 0) far->near = find_near(b, far);
#ifdef BRAID_CHECKED
    BRAID_ASSERT((find_near(b, far) & ~far->near) == 0);
#endif
    EACH_OF(far->near & ~(uint32_t)NEAR_KNOWN, i) {
        uint32_t end = i < NEAR_REST ? i + 1 : far->length;
        for (uint32_t place = i; place < end; place++)
            if (place < far->length && is_contradicted_at(b, far, place)) return true;
    }
    return false;
}
