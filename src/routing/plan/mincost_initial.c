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
#include "routing/mincost/mincost.h"

enum {
    HEARD = 1,      // an advert: I have begun,
    FREE = 2,       // ... and nobody steers
    // Delays.
    SETTLED = 1,    // the map has been closed and the same for so long
    PATIENCE = 50,  // then units go on what is known of it
    SPREAD = 30,    // labels rest while planned ways are on their way
};

bool braid_waits(const braid *b) { return !b->begun && braid_plans_first(&b->r.config); }

void braid_begin(braid *b) {
    if (!braid_waits(b)) return;
    b->begun = true;
    braid_stir(b);
}

bool braid_begin_spreads(braid *b) {
    if (b->r.now >= b->spread_until) return false;
    router_want(&b->r, b->spread_until);
    return true;
}

static void spread(braid *b) {
    braid_begin(b);
    braid_placed_as_planned(b);
    b->spread_until = b->r.now + SPREAD * b->r.config.delay;
}

static void send_on(braid *b) {
    if (!b->sends) return;
    b->sends = braid_send_lone_ways(b);
    if (b->sends) router_want(&b->r, b->r.now + 1);
}

static void send_planned_alone(braid *b) {
    if (braid_map_draw_lone(b, false)) b->planned = lone_solve(b->lone);
    if (b->planned == 0) {
        braid_set_free(b);
        return;
    }
    spread(b);
    b->sends = true;
    send_on(b);
}

static void send_planned(braid *b) {
    braid_plan(b);
    if (b->planned == 0) {
        braid_begin(b);
        return;
    }
    b->plan = b->tried = b->planned;
    ways_enforce(b->ways);
    spread(b);
    braid_send_ways(b);
}

static bool is_open(const braid *b) {
    EACH_NEIGHBOUR(&b->r, ROUTER_NEXT, s) {
        if (has_room(advert_of(b, 0, ROUTER_NEXT, s))) return true;
    }
    return false;
}

// How long a data peer waits for the map: not for ever, once units could go without it; while none could (relays may not serve yet) a plan
// would be about nothing.
static int64_t waits_until(braid *b) {
    if (!is_open(b)) {
        b->open_since = BRAID_NEVER_SINCE;
        return ROUTER_NEVER;
    }
    if (b->open_since == BRAID_NEVER_SINCE) b->open_since = b->r.now;
    int64_t patience = b->open_since + PATIENCE * b->r.config.delay;
    int64_t settled = braid_map_changed_at(b) + SETTLED * b->r.config.delay;
    bool comes = b->r.now < settled || braid_map_closed(b);  // while news comes it is not looked through
    return comes && settled < patience ? settled : patience;
}

void braid_begin_tick(braid *b) {
    send_on(b);
    bool wants = b->r.config.capacity > 0 || braid_shares(&b->r.config);
    if (!b->r.is_source || !braid_waits(b) || !wants) return;
    if (!braid_maps(b)) {
        braid_set_free(b);
        return;
    }
    int64_t until = waits_until(b);
    if (b->r.now >= until && braid_shares(&b->r.config))
        send_planned(b);
    else if (b->r.now >= until)
        send_planned_alone(b);
    else if (until != ROUTER_NEVER)
        router_want(&b->r, until);
}

// Each previous neighbour listens to the adverts of some commodities, a data peer only to its own.
static void say_begun(braid *b, uint32_t previous) {
    for (uint32_t k = 0; k < b->r.commodities; k++) {
        braid_advert *said = advert_of(b, k, ROUTER_PREVIOUS, previous);
        said->scale = b->free ? FREE : HEARD;
        said->distance = BRAID_UNTOLD;
    }
}

void braid_set_free(braid *b) {
    braid_begin(b);
    if (!braid_is_steered(b)) return;
    b->free = true;
    braid_stir(b);
    EACH_NEIGHBOUR(&b->r, ROUTER_PREVIOUS, s) say_begun(b, s);
}

// Who came to me while I waited has not been told.
void braid_begin_receive(braid *b, const router_message *m) {
    bool frees = m->kind == ROUTER_LABEL || (m->kind == ROUTER_ADVERT && m->taken_back == FREE);
    if (frees && braid_is_steered(b)) braid_set_free(b);
    if (!braid_waits(b) || m->kind == ROUTER_MAP || (m->kind == ROUTER_ADVERT && m->taken_back != HEARD)) return;
    if (m->kind == ROUTER_WAY) spread(b);
    braid_begin(b);
    if (m->kind != ROUTER_ADVERT) return;
    EACH_NEIGHBOUR(&b->r, ROUTER_PREVIOUS, s) say_begun(b, s);
}

// With several data peers those ways are not in force as they were planned: the map says that they were cut here.
void braid_begin_differs(braid *b) {
    if (braid_begin_spreads(b)) braid_map_cut(b);
}

void braid_begin_link_up(braid *b, uint32_t previous) {
    if (b->begun && braid_plans_first(&b->r.config)) say_begun(b, previous);
}
