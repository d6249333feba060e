// braid with several data peers: eras, in which planned ways are put in the place of the flow that there is.
//
// Cancelling one data peer's cycles at a time sticks where units of two data peers would have to change places. It is whole after some
// dozen rounds, always comes to rest, and mends whatever happens; but it is some percent dearer than need be. So data peers look for all
// ways together, on a map of the run (braid_map.c, ways.h), and put them in force in a draft (braid_draft.c): what was found before is
// kept, and is what hosts are told, until all planned ways are there. If that fails, or a peer that the kept flow needs is lost
// meanwhile, the kept flow comes back, and is mended.
//
// All must do the same. Eras tell: who finds that the next is due begins it and tells its neighbours; who hears of a later era than its
// own enters it and tells on. The eras of a span are about one flow, which begins with a draft or with a kept flow that comes back: what
// the two ends of a link say of its units counts only between two that are in the same span, however they came there.
#include "routing/plan/mincost_planner.h"

enum {
    // Delays.
    CALM = 50,      // nothing has happened at a data peer for so long before it asks for a draft ...
    MISSING = 150,  // ... if it has not all that it wants, for that may come yet
    SETTLED = 30,   // ... and the map has been the same for so long
    APART = 200,    // ... and the last draft was so long ago
    STILL = 80,     // no token is launched before the flow is kept ...
    OBJECT = 20,    // ... and data peers begin the draft so much later than anybody may object
    DRAFT = 80,     // all planned ways must be there, and so much later they are in force, likewise
    ALONE = 60,     // what data peers do together relays do by themselves so much later
};

// What an era is, by its number. Spans are drafts and kept flows in turn, and both go on without drafts.
typedef enum era_kind {
    ERA_RESTORED,  // from the flow that was kept: the first of an even span, so later than all before it
    ERA_DRAFT,     // the first of an odd span
    ERA_STILL,     // no tokens: what is under way ends
    ERA_PLAIN      // from the flow that there is
} era_kind;

static uint32_t span_of(uint32_t era) { return era / MINCOST_EPOCHS_PER_FLOW; }

static era_kind kind_of(uint32_t era) {
    if (era % MINCOST_EPOCHS_PER_FLOW == 0) return span_of(era) % 2 != 0 ? ERA_DRAFT : ERA_RESTORED;
    return era % 2 != 0 ? ERA_STILL : ERA_PLAIN;
}

static uint32_t next_of(uint32_t era, era_kind kind) {
    uint32_t span = span_of(era) + 1;
    if (kind == ERA_RESTORED) return (span + span % 2) * MINCOST_EPOCHS_PER_FLOW;
    if (kind == ERA_DRAFT) return (span + (span + 1) % 2) * MINCOST_EPOCHS_PER_FLOW;
    do era++;
    while (kind_of(era) != kind);
    return era / MINCOST_EPOCHS_PER_FLOW < span ? era : next_of(era - MINCOST_EPOCHS_PER_FLOW, ERA_RESTORED);  // a span is over: what there is goes on in the next even one
}

bool mincost_commits_paused(const mincost_planner *pl) { return pl->mc.phase.staged || kind_of(pl->epochs.epoch) == ERA_STILL; }

static void say(mincost_planner *pl, router_peer to) {
    outgoing *o = router_post(&pl->mc.r, to, ROUTER_QUERY);
    o->why = MINCOST_QUERY_EPOCH;
    o->cost = pl->epochs.epoch;
    o->units = pl->mc.phase.plan_attempts;
    o->taken_back = pl->epochs.plan;
}

// --- Entering an era ---------------------------------------------------------------------------------------------------

// What tokens would still have taken off, had all been at rest, must not be what I am said to carry.
static void keep_flow(mincost_planner *pl) {
    mincost_drop_reservations(&pl->mc);
    if (!pl->mc.r.is_source) mincost_fit_capacity(&pl->mc);
    for (uint32_t k = 0; k < pl->mc.r.commodities; k++) {
        EACH_NEIGHBOUR(&pl->mc.r, ROUTER_PREVIOUS, s) upstream_of(&pl->mc, k, s)->active = mincost_inflow(&pl->mc, k, s);
        EACH_NEIGHBOUR(&pl->mc.r, ROUTER_NEXT, s) downstream_of(&pl->mc, k, s)->active = downstream_of(&pl->mc, k, s)->units;
    }
}

// They are about the span that ends, and a word about this one must not be put into one of them: it would go before the word
// that tells of the span, to who does not listen yet or begins anew afterwards.
static void forget_waiting_counts(mincost_planner *pl) {
    uint32_t left = 0;
    for (uint32_t i = 0; i < pl->mc.r.queue_count; i++) {
        if (!mincost_is_counting((router_kind)pl->mc.r.queue[i].kind)) pl->mc.r.queue[left++] = pl->mc.r.queue[i];
    }
    pl->mc.r.queue_count = left;
}

// The counters of both ends of each link begin anew: from nothing in a span that begins with a draft, else from what was kept, if I was
// in the draft that failed. Neither hears the other until it has done so (braid_mode_deaf).
static void begin_counts(mincost_planner *pl, bool from_nothing, bool from_kept) {
    forget_waiting_counts(pl);
    mincost_drop_reservations(&pl->mc);
    for (uint32_t k = 0; k < pl->mc.r.commodities; k++) {
        EACH_NEIGHBOUR(&pl->mc.r, ROUTER_PREVIOUS, s) {
            mincost_upstream *u = upstream_of(&pl->mc, k, s);
            u->returned = u->returned_acked = 0;
            if (from_nothing || from_kept) u->units = from_kept ? u->active : 0;
        }
        EACH_NEIGHBOUR(&pl->mc.r, ROUTER_NEXT, s) {
            mincost_downstream *d = downstream_of(&pl->mc, k, s);
            d->owed = 0;
            d->returned_done = 0;
            if (from_nothing || from_kept) d->units = from_kept ? d->active : 0;
        }
        pl->mc.commodity[k].blocked_since = pl->mc.commodity[k].deficit_since = MINCOST_NEVER;
        pl->mc.commodity[k].cancelled = false;
        invalidate_sums(&pl->mc, k);
    }
}

// Should one end of a link have kept nothing, both agree all the same.
static void say_counts(mincost_planner *pl) {
    for (uint32_t k = 0; k < pl->mc.r.commodities; k++) {
        EACH_NEIGHBOUR(&pl->mc.r, ROUTER_NEXT, s) {
            outgoing *o = router_post(&pl->mc.r, pl->mc.r.slot[ROUTER_NEXT][s].peer, ROUTER_FLOW);
            o->k = (uint8_t)k;
            o->why = MINCOST_RETURNED;
            o->units = (uint32_t)downstream_of(&pl->mc, k, s)->units;
        }
    }
}

// Whether the kept flow is what comes back here: also if I thought a moment ago that the draft is in force.
static bool kept_comes_back(const mincost_planner *pl, uint32_t era) {
    bool late = pl->epochs.epoch == next_of(pl->epochs.epoch - pl->epochs.epoch % MINCOST_EPOCHS_PER_FLOW, ERA_PLAIN) && pl->mc.r.now < pl->mc.phase.epoch_since + DRAFT * pl->mc.r.config.delay;
    return pl->epochs.has_active && span_of(era) == span_of(pl->epochs.epoch) + 1 && (pl->mc.phase.staged || late);
}

static void enter_span(mincost_planner *pl, uint32_t era, bool from_kept) {
    bool drafted = pl->mc.phase.staged;
    pl->mc.phase.staged = kind_of(era) == ERA_DRAFT;
    if (pl->mc.phase.staged && !drafted) keep_flow(pl);
    pl->epochs.staged_demand = (int32_t)pl->mc.r.config.capacity;
    pl->epochs.has_active = pl->mc.phase.staged;
    begin_counts(pl, span_of(era) % 2 != 0, from_kept);
    for (int side = ROUTER_PREVIOUS; side <= ROUTER_NEXT; side++) {
        EACH_NEIGHBOUR(&pl->mc.r, side, s) say(pl, pl->mc.r.slot[side][s].peer);
    }
    if (pl->mc.phase.staged && pl->mc.r.is_source) mincost_send_plan(pl);
    if (!pl->mc.phase.staged) say_counts(pl);
}

static void enter(mincost_planner *pl, uint32_t era, uint32_t tries, uint32_t plan) {
    if (era > MINCOST_LAST_EPOCH) era = MINCOST_LAST_EPOCH;  // somebody made eras up; it is one without drafts
    if (era == pl->epochs.epoch && era != 0) return;
    bool begins = era == 0 || span_of(era) != span_of(pl->epochs.epoch), from_kept = begins && kept_comes_back(pl, era);
    if (era != 0) mincost_start(&pl->mc);  // somebody has drafted
    pl->epochs.epoch = era;
    pl->mc.phase.plan_attempts = tries;
    pl->epochs.plan = plan;
    pl->mc.phase.epoch_since = pl->mc.r.now;
    pl->epochs.announce = !begins;
    router_want(&pl->mc.r, pl->mc.r.now + pl->mc.r.config.delay);  // to see when the next is due
    if (begins) {
        enter_span(pl, era, from_kept);
    } else if (pl->mc.phase.staged) {
        pl->mc.phase.staged = false;
        if (pl->mc.r.is_source && pl->staged.plan == plan && plan != 0) {
            multi_source_activate(pl->multi);
            pl->staged.tried = plan;
            pl->staged.attempts = 0;
        }
    }
    if (!pl->mc.r.is_source) mincost_fit_capacity(&pl->mc);
}

// Who has said that it knows need not hear of it; by now most of those have.
static void tell(mincost_planner *pl) {
    if (!pl->epochs.announce) return;
    pl->epochs.announce = false;
    EACH_NEIGHBOUR(&pl->mc.r, ROUTER_PREVIOUS, s) {
        if (upstream_of(&pl->mc, 0, s)->epoch < pl->epochs.epoch) say(pl, pl->mc.r.slot[ROUTER_PREVIOUS][s].peer);
    }
    EACH_NEIGHBOUR(&pl->mc.r, ROUTER_NEXT, s) {
        if (downstream_of(&pl->mc, 0, s)->epoch < pl->epochs.epoch) say(pl, pl->mc.r.slot[ROUTER_NEXT][s].peer);
    }
}

// --- When the next is due ----------------------------------------------------------------------------------------------

static bool is_due(mincost_planner *pl, int64_t since, int64_t delays) {
    int64_t at = since + delays * pl->mc.r.config.delay;
    if (pl->mc.r.now >= at) return true;
    router_want(&pl->mc.r, at);
    return false;
}

// Nothing is under way here, and what leaves a data peer comes home; in a draft all that is planned.
static bool at_rest(const mincost_planner *pl) {
    if (!mincost_is_settled(&pl->mc)) return false;
    if (!pl->mc.r.is_source) return true;
    int32_t out = mincost_total_out(&pl->mc, 0);
    return out == mincost_total_in(&pl->mc, 0) && (!pl->mc.phase.staged || (pl->staged.plan == pl->epochs.plan && out == mincost_planned_units(pl)));
}

static void fail(mincost_planner *pl, era_kind kind) { enter(pl, next_of(pl->epochs.epoch, kind), pl->mc.phase.plan_attempts > 0 ? pl->mc.phase.plan_attempts - 1 : 0, 0); }

// A data peer: whether nothing has happened for so long that it may think of a draft.
static bool is_calm(mincost_planner *pl) {
    int32_t out = mincost_total_out(&pl->mc, 0);
    bool rests = at_rest(pl), all = out == (int32_t)pl->mc.r.config.capacity;
    if (!rests || !pl->epochs.at_rest || out != pl->epochs.rested_units) pl->epochs.at_rest_since = pl->mc.r.now;
    pl->epochs.at_rest = rests;
    pl->epochs.rested_units = out;
    int64_t since = pl->epochs.at_rest_since > pl->mc.phase.epoch_since ? pl->epochs.at_rest_since : pl->mc.phase.epoch_since;
    return rests && is_due(pl, since, all ? CALM : MISSING) && is_due(pl, mincost_map_changed_at(pl), SETTLED);
}

// Each map is tried so often, for others may have had another one, or been busy.
static bool wants_draft(mincost_planner *pl) {
    mincost_plan(pl);
    if (pl->staged.plan != pl->staged.tried) {
        pl->staged.tried = pl->staged.plan;
        pl->staged.attempts = pl->staged.plan != 0 && pl->staged.worthwhile ? MINCOST_PLAN_ATTEMPTS : 0;
    }
    return pl->staged.attempts > 0;
}

static void tick_plain(mincost_planner *pl) {
    if (!pl->mc.r.is_source || pl->map == NULL || pl->mc.r.config.relays > MINCOST_MULTI_SOURCE_RELAYS || !is_calm(pl)) return;
    if (!wants_draft(pl)) {
        if (pl->mc.phase.plan_attempts > 0) enter(pl, next_of(pl->epochs.epoch, ERA_PLAIN), 0, 0);
        return;
    }
    if (span_of(pl->epochs.epoch) > 0 && !is_due(pl, pl->mc.phase.epoch_since, APART)) return;
    pl->staged.attempts--;
    enter(pl, next_of(pl->epochs.epoch, ERA_STILL), pl->mc.phase.plan_attempts, pl->staged.plan);
}

static bool has_that_plan(mincost_planner *pl) {
    mincost_plan(pl);
    return pl->staged.plan == pl->epochs.plan;
}

static void tick_still(mincost_planner *pl) {
    if (pl->mc.r.is_source && !has_that_plan(pl)) {
        fail(pl, ERA_PLAIN);
        return;
    }
    if (!is_due(pl, pl->mc.phase.epoch_since, STILL)) return;
    if (!at_rest(pl))
        fail(pl, ERA_PLAIN);
    else if (pl->mc.r.is_source && is_due(pl, pl->mc.phase.epoch_since, STILL + OBJECT))
        enter(pl, next_of(pl->epochs.epoch, ERA_DRAFT), pl->mc.phase.plan_attempts, pl->epochs.plan);
    else if (!pl->mc.r.is_source && is_due(pl, pl->mc.phase.epoch_since, STILL + OBJECT + ALONE))
        fail(pl, ERA_PLAIN);
}

// All do so by themselves.
static void end_draft(mincost_planner *pl) {
    uint32_t plan = pl->epochs.plan;
    enter(pl, next_of(pl->epochs.epoch, ERA_PLAIN), 0, plan);
    pl->epochs.announce = false;
}

static void tick_draft(mincost_planner *pl) {
    int32_t may = (int32_t)pl->mc.r.config.capacity;
    if (pl->mc.r.is_source ? may != pl->epochs.staged_demand : mincost_active_load(&pl->mc) > may)
        fail(pl, ERA_RESTORED);
    else if (!is_due(pl, pl->mc.phase.epoch_since, DRAFT))
        return;
    else if (!at_rest(pl))
        fail(pl, ERA_RESTORED);
    else if (is_due(pl, pl->mc.phase.epoch_since, DRAFT + OBJECT))
        end_draft(pl);
}

void mincost_epoch_tick(mincost_planner *pl) {
    if (!mincost_is_multi_source(&pl->mc.r.config)) {
        if (pl->mc.r.now < mincost_coarse_until(&pl->mc)) router_want(&pl->mc.r, mincost_coarse_until(&pl->mc));
        return;
    }
    if (pl->mc.r.count[ROUTER_PREVIOUS] + pl->mc.r.count[ROUTER_NEXT] == 0) {
        if (pl->epochs.epoch != 0) enter(pl, 0, MINCOST_PLAN_ATTEMPTS, 0);  // whoever comes says what era it is
    } else if (pl->mc.phase.staged) {
        tick_draft(pl);
    } else if (mincost_commits_paused(pl)) {
        tick_still(pl);
    } else {
        tick_plain(pl);
    }
    tell(pl);
}

void mincost_epoch_link_up(mincost_planner *pl, router_side side, uint32_t slot) {
    pl->epochs.neighbours_changed_at = pl->mc.r.now;
    if (pl->epochs.epoch > 0) say(pl, pl->mc.r.slot[side][slot].peer);
}

// `kept`: units of the kept flow were on its links.
void mincost_epoch_link_gone(mincost_planner *pl, bool kept) {
    pl->epochs.neighbours_changed_at = pl->mc.r.now;
    if (pl->mc.phase.staged && kept) fail(pl, ERA_RESTORED);
}

void mincost_on_epoch(mincost_planner *pl, const router_message *m, int previous, int next) {
    if (!mincost_is_multi_source(&pl->mc.r.config) || (previous < 0 && next < 0) || m->cost < 0 || m->cost > MINCOST_LAST_EPOCH ||
        m->units > MINCOST_PLAN_ATTEMPTS || m->taken_back > MINCOST_LAST_PLAN)
        return;
    if (m->cost > pl->epochs.epoch) enter(pl, (uint32_t)m->cost, m->units, m->taken_back);
    if (previous >= 0) upstream_of(&pl->mc, 0, (uint32_t)previous)->epoch = (uint32_t)m->cost;
    if (next >= 0) downstream_of(&pl->mc, 0, (uint32_t)next)->epoch = (uint32_t)m->cost;
}

// What it says of units is about another flow.
bool mincost_epoch_ignores(const mincost_planner *pl, int previous, int next) {
    if (previous < 0 && next < 0) return false;
    uint32_t heard = previous >= 0 ? upstream_of(&pl->mc, 0, (uint32_t)previous)->epoch : downstream_of(&pl->mc, 0, (uint32_t)next)->epoch;
    return span_of(heard) < span_of(pl->epochs.epoch);
}
