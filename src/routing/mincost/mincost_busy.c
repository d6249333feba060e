// Whether a link carries units, debts or reservations, so that a partial view must not remove it.
#include "routing/mincost/mincost.h"

static bool is_on_reservation(const mincost *mc, router_peer peer) {
    EACH_OF(mc->commit.reservations, i) {
        if (mc->commit.reservation[i].before == peer || mc->commit.reservation[i].after == peer) return true;
    }
    return false;
}

bool mincost_link_busy(const router *r, router_side side, router_peer peer) {
    const mincost *mc = (const mincost *)r;
    int slot = router_slot(r, side, peer);
    if (slot < 0) return false;
    for (uint32_t k = 0; k < r->commodities; k++) {
        const mincost_upstream *u = upstream_of(mc, k, (uint32_t)slot);
        const mincost_downstream *d = downstream_of(mc, k, (uint32_t)slot);
        if (side == ROUTER_NEXT &&
            (d->units != 0 || d->owed != 0 || d->reserved != 0 || (mc->phase.staged && d->active != 0)))
            return true;
        if (side == ROUTER_PREVIOUS &&
            (u->units != 0 || u->reserved != 0 || u->removing != 0 || (mc->phase.staged && u->active != 0)))
            return true;
    }
    return is_on_reservation(mc, peer);
}
