// Whether a link could be taken away without anybody noticing.
#include "routing/mincost/mincost.h"

static bool crossed(const braid *b, router_peer peer) {
    EACH_OF(b->visits, i) {
        if (b->visit[i].before == peer || b->visit[i].after == peer) return true;
    }
    return false;
}

bool braid_link_busy(const router *r, router_side side, router_peer peer) {
    const braid *b = (const braid *)r;
    int slot = router_slot(r, side, peer);
    if (slot < 0) return false;
    for (uint32_t k = 0; k < r->commodities; k++) {
        const braid_up *u = up_of(b, k, (uint32_t)slot);
        const braid_down *d = down_of(b, k, (uint32_t)slot);
        if (side == ROUTER_NEXT && (d->out != 0 || d->owed != 0 || d->reserved != 0 || (b->drafts && d->kept != 0)))
            return true;
        if (side == ROUTER_PREVIOUS && (u->in != 0 || u->reserved != 0 || u->going != 0 || (b->drafts && u->kept != 0)))
            return true;
    }
    return crossed(b, peer);
}
