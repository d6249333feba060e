// Stale routes: a received path is stale if it crosses another neighbour of this peer, and that
// neighbour itself reports a higher cost from there on. Without this rule a lost path would be
// passed on at ever higher costs (counting to infinity). Used with a single source in routers that
// settle labels.
#include "routing/mincost/mincost.h"

// The neighbour at that position of the path would send its current label. It would not under the
// rules of mincost_adverts.c: no useful gain, or a path that leads back to this peer (split
// horizon).
static bool would_report(const mincost *mc, const mincost_label *far, uint32_t place, bool next, uint32_t slot) {
    if (next && link_cost(mc, ROUTER_NEXT, slot) + far->at[place] >= sent_of(mc, 0, ROUTER_NEXT, slot)->floor)
        return false;
    router_peer self = mc->r.config.self;
    return !mincost_is_mature(mc) || mincost_find_node(far, next ? router_out(self) : router_in(self)) <= (int)place;
}

// The slot of the neighbour that the path crosses at `place` in the direction in which this peer
// would; -1: none.
static int neighbour_slot(const mincost *mc, const mincost_label *far, uint32_t place, bool *next) {
    router_peer over = router_owner(far->node[place]);
    *next = far->node[place] == router_in(over);
    return router_slot(&mc->r, *next ? ROUTER_NEXT : ROUTER_PREVIOUS, over);
}

// mincost_label.neighbour_steps: bit 0 marks it as computed, bit 31 stands for all later steps
enum { STEPS_KNOWN = 1, STEPS_REST = 31 };

// Bit i: step i crosses a neighbour. Few do, and each label is tested many times.
static uint32_t find_neighbour_steps(const mincost *mc, const mincost_label *far) {
    uint32_t steps = STEPS_KNOWN;
    bool next;
    for (uint32_t i = 1; i < far->length; i++)
        if (neighbour_slot(mc, far, i, &next) >= 0) steps |= 1u << (i < STEPS_REST ? i : STEPS_REST);
    return steps;
}

static bool is_stale_at(const mincost *mc, const mincost_label *far, uint32_t place) {
    bool next;
    int slot = neighbour_slot(mc, far, place, &next);
    if (slot < 0 || (!next && mincost_inflow(mc, 0, (uint32_t)slot) <= 0)) return false;
    if (!would_report(mc, far, place, next, (uint32_t)slot)) return false;
    const mincost_label *reported = label_from(mc, 0, next ? ROUTER_NEXT : ROUTER_PREVIOUS, (uint32_t)slot);
    return reported->length > 0 && reported->cost > far->at[place];
}

bool mincost_is_stale(const mincost *mc, mincost_label *far) {
    if (far->neighbour_steps == 0) far->neighbour_steps = find_neighbour_steps(mc, far);
#ifdef BRAID_CHECKED
    BRAID_ASSERT((find_neighbour_steps(mc, far) & ~far->neighbour_steps) == 0);
#endif
    EACH_OF(far->neighbour_steps & ~(uint32_t)STEPS_KNOWN, i) {
        uint32_t end = i < STEPS_REST ? i + 1 : far->length;
        for (uint32_t place = i; place < end; place++)
            if (place < far->length && is_stale_at(mc, far, place)) return true;
    }
    return false;
}
