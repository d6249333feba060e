// The mean cost of this peer's links, which scales all thresholds, and epsilon: gains that are ignored.
#include "routing/mincost/mincost.h"

// Percent of the mean link cost, for each link of a cycle.
enum {
    COARSE = 8,  // several data peers, while a staged plan may still come
    LARGE = 8,   // a single source, for MINCOST_COARSE_DELAYS: large changes would undo earlier small ones
};

int64_t mincost_coarse_epsilon(const mincost *mc) {
    int64_t share = 0;
    if (!mincost_is_multi_source(&mc->r.config))
        share = mc->r.now < mincost_coarse_until(mc) ? LARGE : 0;
    else if (mc->phase.plan_attempts > 0 && mc->r.config.relays <= MINCOST_MULTI_SOURCE_RELAYS)
        share = COARSE;
    return mc->r.config.slack + mc->mean_cost * share / 100;
}

int64_t mincost_mean_cost(const mincost *mc) {
    int64_t sum = 0, links = 0;
    for (int side = ROUTER_PREVIOUS; side <= ROUTER_NEXT; side++) {
        EACH_NEIGHBOUR(&mc->r, side, s) {
            sum += link_cost(mc, (router_side)side, s);
            links++;
        }
    }
    return links == 0 || sum < links ? 1 : sum / links;
}

void mincost_update_mean(mincost *mc) {
    if (!mc->r.terms_changed) return;
    mc->r.terms_changed = false;
    mincost_invalidate(mc);
    for (uint32_t k = 0; k < mc->r.commodities; k++) mc->commodity[k].arcs_valid = false;
    int64_t mean = mincost_mean_cost(mc);
    if (mean != mc->mean_cost) mc->settle_count = 0;
    mc->mean_cost = mean;
}
