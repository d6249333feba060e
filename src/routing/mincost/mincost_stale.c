// braid's labels: whether a walk that a neighbour tells of leads over other neighbours, who know better.
#include "routing/mincost/mincost.h"

// Whether a neighbour at that place of the walk would say what it is there: not a walk that is no use to me, nor one that comes back to me.
static bool would_say(const mincost *mc, const mincost_label *far, uint32_t place, bool next, uint32_t slot) {
    if (next && link_cost(mc, ROUTER_NEXT, slot) + far->at[place] >= sent_of(mc, 0, ROUTER_NEXT, slot)->floor) return false;
    router_peer self = mc->r.config.self;
    return !mincost_is_mature(mc) || mincost_find_node(far, next ? router_out(self) : router_in(self)) <= (int)place;
}

// The slot of the neighbour over which the walk goes at that place, if it goes the way that I would; -1: there is none.
static int near_slot(const mincost *mc, const mincost_label *far, uint32_t place, bool *next) {
    router_peer over = router_owner(far->node[place]);
    *next = far->node[place] == router_in(over);
    return router_slot(&mc->r, *next ? ROUTER_NEXT : ROUTER_PREVIOUS, over);
}

enum { NEAR_KNOWN = 1, NEAR_REST = 31 };  // bits of braid_label.near: no step is the first, and all from there on are one

// Bit i: step i does. Few do, and a label is looked at again and again.
static uint32_t find_near(const mincost *mc, const mincost_label *far) {
    uint32_t near = NEAR_KNOWN;
    bool next;
    for (uint32_t i = 1; i < far->length; i++)
        if (near_slot(mc, far, i, &next) >= 0) near |= 1u << (i < NEAR_REST ? i : NEAR_REST);
    return near;
}

static bool is_contradicted_at(const mincost *mc, const mincost_label *far, uint32_t place) {
    bool next;
    int slot = near_slot(mc, far, place, &next);
    if (slot < 0 || (!next && mincost_inflow(mc, 0, (uint32_t)slot) <= 0)) return false;
    if (!would_say(mc, far, place, next, (uint32_t)slot)) return false;
    const mincost_label *says = label_from(mc, 0, next ? ROUTER_NEXT : ROUTER_PREVIOUS, (uint32_t)slot);
    return says->length > 0 && says->cost > far->at[place];
}

bool mincost_is_stale(const mincost *mc, mincost_label *far) {
    if (far->neighbour_steps == 0) far->neighbour_steps = find_near(mc, far);
#ifdef BRAID_CHECKED
    BRAID_ASSERT((find_near(mc, far) & ~far->neighbour_steps) == 0);
#endif
    EACH_OF(far->neighbour_steps & ~(uint32_t)NEAR_KNOWN, i) {
        uint32_t end = i < NEAR_REST ? i + 1 : far->length;
        for (uint32_t place = i; place < end; place++)
            if (place < far->length && is_contradicted_at(mc, far, place)) return true;
    }
    return false;
}
