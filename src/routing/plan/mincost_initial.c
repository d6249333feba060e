// braid: the first ways are planned, if the run wants that (router_config.plan_first).
//
// Units that look for their ways one after the other end on costly ones, and cycles mend that bit by bit; with several data peers a draft
// does so later. Here data peers wait until their map (braid_map.c) names everybody, plan all ways on it (ways.h, or lone.h of one that is
// alone), and send each unit with its whole way (braid_draft.c): there is no flow yet that would have to be kept. All data peers have the same map, and find the same
// ways. What does not fit goes back and looks for another way, as without a plan, and cycles mend what was planned at an old cost: with one
// data peer those that it finds itself (braid_steer.c).
//
// A router waits until it has begun: a data peer has sent its units; a relay has got one, or heard that others have begun. While it waits
// it tells maps and adverts. Who comes to one that has begun is told so, and plans nothing; and if nobody steers, that, too.
#include "routing/plan/mincost_planner.h"

enum {
    HEARD = 1,      // an advert: I have begun,
    FREE = 2,       // ... and nobody steers
    // Delays.
    SETTLED = 1,    // the map has been closed and the same for so long
    PATIENCE = 50,  // then units go on what is known of it
    SPREAD = 30,    // labels rest while planned ways are on their way
};

static void spread(mincost_planner *pl) {
    mincost_start(&pl->mc);
    mincost_skip_auction(&pl->mc);
    pl->mc.phase.dispatch_until = pl->mc.r.now + SPREAD * pl->mc.r.config.delay;
}

static void send_on(mincost_planner *pl) {
    if (!pl->initial.dispatching) return;
    pl->initial.dispatching = mincost_send_single_plan(pl);
    if (pl->initial.dispatching) router_want(&pl->mc.r, pl->mc.r.now + 1);
}

static void send_planned_alone(mincost_planner *pl) {
    if (mincost_map_load_single(pl, false)) pl->staged.plan = single_source_solve(pl->single);
    if (pl->staged.plan == 0) {
        mincost_decentralise(pl);
        return;
    }
    spread(pl);
    pl->initial.dispatching = true;
    send_on(pl);
}

static void send_planned(mincost_planner *pl) {
    mincost_plan(pl);
    if (pl->staged.plan == 0) {
        mincost_start(&pl->mc);
        return;
    }
    pl->epochs.plan = pl->staged.tried = pl->staged.plan;
    multi_source_activate(pl->multi);
    spread(pl);
    mincost_send_plan(pl);
}

static bool is_open(const mincost_planner *pl) {
    EACH_NEIGHBOUR(&pl->mc.r, ROUTER_NEXT, s) {
        if (has_room(advert_of(&pl->mc, 0, ROUTER_NEXT, s))) return true;
    }
    return false;
}

// How long a data peer waits for the map: not for ever, once units could go without it; while none could (relays may not serve yet) a plan
// would be about nothing.
static int64_t waits_until(mincost_planner *pl) {
    if (!is_open(pl)) {
        pl->initial.open_since = MINCOST_NEVER;
        return ROUTER_NEVER;
    }
    if (pl->initial.open_since == MINCOST_NEVER) pl->initial.open_since = pl->mc.r.now;
    int64_t patience = pl->initial.open_since + PATIENCE * pl->mc.r.config.delay;
    int64_t settled = mincost_map_changed_at(pl) + SETTLED * pl->mc.r.config.delay;
    bool comes = pl->mc.r.now < settled || mincost_map_complete(pl);  // while news comes it is not looked through
    return comes && settled < patience ? settled : patience;
}

void mincost_initial_tick(mincost_planner *pl) {
    send_on(pl);
    bool wants = pl->mc.r.config.capacity > 0 || mincost_is_multi_source(&pl->mc.r.config);
    if (!pl->mc.r.is_source || !mincost_is_waiting(&pl->mc) || !wants) return;
    if (!mincost_map_usable(pl)) {
        mincost_decentralise(pl);
        return;
    }
    int64_t until = waits_until(pl);
    if (pl->mc.r.now >= until && mincost_is_multi_source(&pl->mc.r.config))
        send_planned(pl);
    else if (pl->mc.r.now >= until)
        send_planned_alone(pl);
    else if (until != ROUTER_NEVER)
        router_want(&pl->mc.r, until);
}

// Each previous neighbour listens to the adverts of some commodities, a data peer only to its own.
static void say_begun(mincost_planner *pl, uint32_t previous) {
    for (uint32_t k = 0; k < pl->mc.r.commodities; k++) {
        mincost_advert *said = advert_of(&pl->mc, k, ROUTER_PREVIOUS, previous);
        said->scale = pl->mc.phase.decentralised ? FREE : HEARD;
        said->distance = MINCOST_RESEND;
    }
}

void mincost_decentralise(mincost_planner *pl) {
    mincost_start(&pl->mc);
    if (!mincost_is_centralised(&pl->mc)) return;
    pl->mc.phase.decentralised = true;
    mincost_invalidate(&pl->mc);
    EACH_NEIGHBOUR(&pl->mc.r, ROUTER_PREVIOUS, s) say_begun(pl, s);
}

// Who came to me while I waited has not been told.
void mincost_initial_receive(mincost_planner *pl, const router_message *m) {
    bool frees = m->kind == ROUTER_LABEL || (m->kind == ROUTER_ADVERT && m->taken_back == FREE);
    if (frees && mincost_is_centralised(&pl->mc)) mincost_decentralise(pl);
    if (!mincost_is_waiting(&pl->mc) || m->kind == ROUTER_MAP || (m->kind == ROUTER_ADVERT && m->taken_back != HEARD)) return;
    if (m->kind == ROUTER_WAY) spread(pl);
    mincost_start(&pl->mc);
    if (m->kind != ROUTER_ADVERT) return;
    EACH_NEIGHBOUR(&pl->mc.r, ROUTER_PREVIOUS, s) say_begun(pl, s);
}

void mincost_initial_link_up(mincost_planner *pl, uint32_t previous) {
    if (pl->mc.phase.started && mincost_plans_first(&pl->mc.r.config)) say_begun(pl, previous);
}
