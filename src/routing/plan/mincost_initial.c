// The initial plan of a run (router_config.plan_first).
//
// Units that search for paths one after the other end on expensive ones, which cycles improve
// slowly. With plan_first, data peers wait until their map is complete (mincost_map.c), plan all
// paths on it and send each unit with its whole path (mincost_staged.c). No active flow has to be
// saved yet. All data peers have the same map and compute the same plan. Units that do not fit are
// returned and search for a path as without a plan. Afterwards a single source re-optimises
// (mincost_reoptimise.c); with several data peers cycles are cancelled.
//
// A router waits until it has started. A data peer starts when it sends its units. A relay starts
// with the first unit, or when a neighbour has started. Until then it sends maps and adverts only.
// A peer that joins a started run is told so by the first advert and plans nothing.
#include "routing/plan/mincost_planner.h"

enum {
    ADVERT_STARTED = 1,        // flag in an ADVERT: the sender has started
    ADVERT_DECENTRALISED = 2,  // flag in an ADVERT: started, and no data peer re-optimises
    // Delays.
    MAP_STABLE = 1,    // the map was complete and stable for so long
    MAP_TIMEOUT = 50,  // afterwards units start with the paths known
    DISPATCH = 30,     // labels are held while planned units are under way
};

static void start_dispatch(mincost_planner *pl) {
    mincost_start(&pl->mc);
    mincost_skip_auction(&pl->mc);
    pl->mc.phase.dispatch_until = pl->mc.r.now + DISPATCH * pl->mc.r.config.delay;
}

static void dispatch_more(mincost_planner *pl) {
    if (!pl->initial.dispatching) return;
    pl->initial.dispatching = mincost_send_single_plan(pl);
    if (pl->initial.dispatching) router_want(&pl->mc.r, pl->mc.r.now + 1);
}

static void dispatch_single(mincost_planner *pl) {
    if (mincost_map_load_single(pl, false)) pl->staged.plan = single_source_solve(pl->single);
    if (pl->staged.plan == 0) {
        mincost_decentralise(pl);
        return;
    }
    start_dispatch(pl);
    pl->initial.dispatching = true;
    dispatch_more(pl);
}

static void dispatch_multi(mincost_planner *pl) {
    mincost_plan(pl);
    if (pl->staged.plan == 0) {
        mincost_start(&pl->mc);
        return;
    }
    pl->epochs.plan = pl->staged.tried = pl->staged.plan;
    multi_source_activate(pl->multi);
    start_dispatch(pl);
    mincost_send_plan(pl);
}

static bool has_open_link(const mincost_planner *pl) {
    EACH_NEIGHBOUR(&pl->mc.r, ROUTER_NEXT, s) {
        if (has_room(advert_of(&pl->mc, 0, ROUTER_NEXT, s))) return true;
    }
    return false;
}

// Time at which a data peer plans. It waits for a complete map, but not longer than MAP_TIMEOUT
// once units could leave. While no relay has room a plan would be useless.
static int64_t plan_time(mincost_planner *pl) {
    if (!has_open_link(pl)) {
        pl->initial.open_since = MINCOST_NEVER;
        return ROUTER_NEVER;
    }
    if (pl->initial.open_since == MINCOST_NEVER) pl->initial.open_since = pl->mc.r.now;
    int64_t patience = pl->initial.open_since + MAP_TIMEOUT * pl->mc.r.config.delay;
    int64_t settled = mincost_map_changed_at(pl) + MAP_STABLE * pl->mc.r.config.delay;
    // the map is not examined while it still changes
    bool may_complete = pl->mc.r.now < settled || mincost_map_complete(pl);
    return may_complete && settled < patience ? settled : patience;
}

void mincost_initial_tick(mincost_planner *pl) {
    dispatch_more(pl);
    bool wants = pl->mc.r.config.capacity > 0 || mincost_is_multi_source(&pl->mc.r.config);
    if (!pl->mc.r.is_source || !mincost_is_waiting(&pl->mc) || !wants) return;
    if (!mincost_map_usable(pl)) {
        mincost_decentralise(pl);
        return;
    }
    int64_t until = plan_time(pl);
    if (pl->mc.r.now >= until && mincost_is_multi_source(&pl->mc.r.config))
        dispatch_multi(pl);
    else if (pl->mc.r.now >= until)
        dispatch_single(pl);
    else if (until != ROUTER_NEVER)
        router_want(&pl->mc.r, until);
}

// Neighbours listen to the adverts of different commodities, a data peer only to its own; so all
// are sent.
static void advertise_started(mincost_planner *pl, uint32_t previous) {
    for (uint32_t k = 0; k < pl->mc.r.commodities; k++) {
        mincost_advert *sent = advert_of(&pl->mc, k, ROUTER_PREVIOUS, previous);
        sent->scale = pl->mc.phase.decentralised ? ADVERT_DECENTRALISED : ADVERT_STARTED;
        sent->distance = MINCOST_RESEND;
    }
}

void mincost_decentralise(mincost_planner *pl) {
    mincost_start(&pl->mc);
    if (!mincost_is_centralised(&pl->mc)) return;
    pl->mc.phase.decentralised = true;
    mincost_invalidate(&pl->mc);
    EACH_NEIGHBOUR(&pl->mc.r, ROUTER_PREVIOUS, s) advertise_started(pl, s);
}

// Neighbours that came while this router waited have not been told.
void mincost_initial_receive(mincost_planner *pl, const router_message *m) {
    bool decentralises = m->kind == ROUTER_LABEL || (m->kind == ROUTER_ADVERT && m->scale == ADVERT_DECENTRALISED);
    if (decentralises && mincost_is_centralised(&pl->mc)) mincost_decentralise(pl);
    if (!mincost_is_waiting(&pl->mc) || m->kind == ROUTER_MAP ||
        (m->kind == ROUTER_ADVERT && m->scale != ADVERT_STARTED))
        return;
    if (m->kind == ROUTER_WAY) start_dispatch(pl);
    mincost_start(&pl->mc);
    if (m->kind != ROUTER_ADVERT) return;
    EACH_NEIGHBOUR(&pl->mc.r, ROUTER_PREVIOUS, s) advertise_started(pl, s);
}

void mincost_initial_link_up(mincost_planner *pl, uint32_t previous) {
    if (pl->mc.phase.started && mincost_plans_first(&pl->mc.r.config)) advertise_started(pl, previous);
}
