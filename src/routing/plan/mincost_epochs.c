// Epochs: how several data peers replace the active flow by a planned one, consistently in all
// peers.
//
// Cancelling the cycles of one data peer at a time gets stuck where units of two data peers would
// have to swap places. The result is complete and stable, and some percent too expensive. So data
// peers plan all paths together on the map of the run (mincost_map.c, multi_source.h) and stage the
// plan (mincost_staged.c). This is make before break: the active flow is saved and stays visible to
// hosts until all planned paths exist. If staging fails, or a peer of the active flow is lost
// meanwhile, the active flow is restored and repaired.
//
// Epochs keep all peers in step. A peer for which the next epoch is due enters it and announces it
// to its neighbours. A peer that receives a later epoch than its own enters it and announces it in
// turn. All epochs with the same *flow version* count units of one flow, which begins with a staged
// plan or with a restored flow. The two ends of a link ignore each other's counts unless both are
// in the same flow version.
#include "routing/plan/mincost_planner.h"

enum {
    // Delays.
    REST_DELAYS = 50,  // a data peer asks for a plan after nothing has moved for this long,
    // or this long if demand is unmet, because units may still find paths,
    INCOMPLETE_REST_DELAYS = 150,
    MAP_STABLE = 30,      // the map must have been stable for this long,
    PLAN_INTERVAL = 200,  // and the last staged plan must be this long ago
    PAUSE = 80,           // commits are paused this long before the active flow is saved
    OBJECTION = 20,       // data peers wait this much longer, so that any peer can object
    STAGING = 80,         // time for all planned paths to exist; the plan becomes active OBJECTION later
    RELAY_EXTRA = 60,     // relays do on their own, this much later, what data peers should have done
};

// Kind of an epoch, by its number. Flow versions alternate between staged plans and restored flows.
// Both continue as plain epochs.
typedef enum epoch_kind {
    // the saved flow is restored: first epoch of an even flow version, so later than all before it
    EPOCH_RESTORED,
    EPOCH_STAGED,  // a plan is staged: first epoch of an odd flow version
    EPOCH_PAUSED,  // commits are paused, and those under way end
    EPOCH_PLAIN    // the flow continues
} epoch_kind;

static uint32_t flow_version_of(uint32_t epoch) { return epoch / MINCOST_EPOCHS_PER_FLOW; }

static epoch_kind kind_of(uint32_t epoch) {
    if (epoch % MINCOST_EPOCHS_PER_FLOW == 0) return flow_version_of(epoch) % 2 != 0 ? EPOCH_STAGED : EPOCH_RESTORED;
    return epoch % 2 != 0 ? EPOCH_PAUSED : EPOCH_PLAIN;
}

static uint32_t next_epoch(uint32_t epoch, epoch_kind kind) {
    uint32_t flow_version = flow_version_of(epoch) + 1;
    if (kind == EPOCH_RESTORED) return (flow_version + flow_version % 2) * MINCOST_EPOCHS_PER_FLOW;
    if (kind == EPOCH_STAGED) return (flow_version + (flow_version + 1) % 2) * MINCOST_EPOCHS_PER_FLOW;
    do epoch++;
    while (kind_of(epoch) != kind);
    // the flow version is used up: its flow goes on in the next even one
    return epoch / MINCOST_EPOCHS_PER_FLOW < flow_version ? epoch
                                                          : next_epoch(epoch - MINCOST_EPOCHS_PER_FLOW, EPOCH_RESTORED);
}

bool mincost_commits_paused(const mincost_planner *pl) {
    return pl->mc.phase.staged || kind_of(pl->epochs.epoch) == EPOCH_PAUSED;
}

static void send_epoch(mincost_planner *pl, router_peer to) {
    router_outgoing *o = router_post(&pl->mc.r, to, ROUTER_QUERY);
    o->why = MINCOST_QUERY_EPOCH;
    o->epoch = pl->epochs.epoch;
    o->attempts = pl->mc.phase.plan_attempts;
    o->plan = pl->epochs.plan;
}

// --- Entering an epoch ---------------------------------------------------------------------------

// Gives up units that reservations would still have removed, so that the saved flow respects the
// capacity.
static void save_active_flow(mincost_planner *pl) {
    mincost_drop_reservations(&pl->mc);
    if (!pl->mc.r.is_source) mincost_fit_capacity(&pl->mc);
    for (uint32_t k = 0; k < pl->mc.r.commodities; k++) {
        EACH_NEIGHBOUR(&pl->mc.r, ROUTER_PREVIOUS, s)
            upstream_of(&pl->mc, k, s)->active = mincost_inflow(&pl->mc, k, s);
        EACH_NEIGHBOUR(&pl->mc.r, ROUTER_NEXT, s)
            downstream_of(&pl->mc, k, s)->active = downstream_of(&pl->mc, k, s)->units;
    }
}

// Queued counts belong to the flow version that ends. A newer count must not be merged into one of
// them: it would overtake the announcement of the epoch and be ignored or reset.
static void drop_queued_counts(mincost_planner *pl) {
    uint32_t left = 0;
    for (uint32_t i = 0; i < pl->mc.r.queue_count; i++) {
        if (!mincost_is_counting((router_kind)pl->mc.r.queue[i].kind)) pl->mc.r.queue[left++] = pl->mc.r.queue[i];
    }
    pl->mc.r.queue_count = left;
}

// Resets the counters of all links: to 0 if a plan is staged or follows one, or to the saved flow
// if this peer was part of the staged plan. Each end ignores the other one until both have done so
// (mincost_epoch_ignores).
static void reset_counts(mincost_planner *pl, bool from_nothing, bool restore) {
    drop_queued_counts(pl);
    mincost_drop_reservations(&pl->mc);
    for (uint32_t k = 0; k < pl->mc.r.commodities; k++) {
        EACH_NEIGHBOUR(&pl->mc.r, ROUTER_PREVIOUS, s) {
            mincost_upstream *u = upstream_of(&pl->mc, k, s);
            u->returned = u->returned_acked = 0;
            if (from_nothing || restore) u->units = restore ? u->active : 0;
        }
        EACH_NEIGHBOUR(&pl->mc.r, ROUTER_NEXT, s) {
            mincost_downstream *d = downstream_of(&pl->mc, k, s);
            d->owed = 0;
            d->returned_done = 0;
            if (from_nothing || restore) d->units = restore ? d->active : 0;
        }
        pl->mc.commodity[k].blocked_since = pl->mc.commodity[k].deficit_since = MINCOST_NEVER;
        pl->mc.commodity[k].cancelled = false;
        invalidate_sums(&pl->mc, k);
    }
}

// Sends all counts, so that both ends agree even if one of them had saved nothing.
static void send_counts(mincost_planner *pl) {
    for (uint32_t k = 0; k < pl->mc.r.commodities; k++) {
        EACH_NEIGHBOUR(&pl->mc.r, ROUTER_NEXT, s) {
            router_outgoing *o = router_post(&pl->mc.r, pl->mc.r.slot[ROUTER_NEXT][s].peer, ROUTER_FLOW);
            o->k = (uint8_t)k;
            o->why = MINCOST_RETURNED;
            o->units = (uint32_t)downstream_of(&pl->mc, k, s)->units;
        }
    }
}

// The saved flow is restored here. This includes a peer that had activated the staged plan a moment
// ago.
static bool restores_active(const mincost_planner *pl, uint32_t epoch) {
    bool late = pl->epochs.epoch ==
                    next_epoch(pl->epochs.epoch - pl->epochs.epoch % MINCOST_EPOCHS_PER_FLOW, EPOCH_PLAIN) &&
                pl->mc.r.now < pl->mc.phase.epoch_since + STAGING * pl->mc.r.config.delay;
    return pl->epochs.has_active && flow_version_of(epoch) == flow_version_of(pl->epochs.epoch) + 1 &&
           (pl->mc.phase.staged || late);
}

static void enter_flow_version(mincost_planner *pl, uint32_t epoch, bool restore) {
    bool was_staged = pl->mc.phase.staged;
    pl->mc.phase.staged = kind_of(epoch) == EPOCH_STAGED;
    if (pl->mc.phase.staged && !was_staged) save_active_flow(pl);
    pl->epochs.staged_demand = (int32_t)pl->mc.r.config.capacity;
    pl->epochs.has_active = pl->mc.phase.staged;
    reset_counts(pl, flow_version_of(epoch) % 2 != 0, restore);
    for (int side = ROUTER_PREVIOUS; side <= ROUTER_NEXT; side++) {
        EACH_NEIGHBOUR(&pl->mc.r, side, s) send_epoch(pl, pl->mc.r.slot[side][s].peer);
    }
    if (pl->mc.phase.staged && pl->mc.r.is_source) mincost_send_plan(pl);
    if (!pl->mc.phase.staged) send_counts(pl);
}

static void enter_epoch(mincost_planner *pl, uint32_t epoch, uint32_t tries, uint32_t plan) {
    // an invented number; epochs from there on are plain
    if (epoch > MINCOST_LAST_EPOCH) epoch = MINCOST_LAST_EPOCH;
    if (epoch == pl->epochs.epoch && epoch != 0) return;
    bool new_version = epoch == 0 || flow_version_of(epoch) != flow_version_of(pl->epochs.epoch),
         restore = new_version && restores_active(pl, epoch);
    if (epoch != 0) mincost_start(&pl->mc);  // another data peer has staged a plan
    pl->epochs.epoch = epoch;
    pl->mc.phase.plan_attempts = tries;
    pl->epochs.plan = plan;
    pl->mc.phase.epoch_since = pl->mc.r.now;
    pl->epochs.announce = !new_version;
    // to check when the next epoch is due
    router_want(&pl->mc.r, pl->mc.r.now + pl->mc.r.config.delay);
    if (new_version) {
        enter_flow_version(pl, epoch, restore);
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

// Announces the epoch to neighbours that have not announced it themselves; most have by now.
static void announce(mincost_planner *pl) {
    if (!pl->epochs.announce) return;
    pl->epochs.announce = false;
    EACH_NEIGHBOUR(&pl->mc.r, ROUTER_PREVIOUS, s) {
        if (upstream_of(&pl->mc, 0, s)->epoch < pl->epochs.epoch)
            send_epoch(pl, pl->mc.r.slot[ROUTER_PREVIOUS][s].peer);
    }
    EACH_NEIGHBOUR(&pl->mc.r, ROUTER_NEXT, s) {
        if (downstream_of(&pl->mc, 0, s)->epoch < pl->epochs.epoch) send_epoch(pl, pl->mc.r.slot[ROUTER_NEXT][s].peer);
    }
}

// --- When the next epoch is due ------------------------------------------------------------------

static bool is_due(mincost_planner *pl, int64_t since, int64_t delays) {
    int64_t at = since + delays * pl->mc.r.config.delay;
    if (pl->mc.r.now >= at) return true;
    router_want(&pl->mc.r, at);
    return false;
}

// Nothing is under way here, and all units that leave a data peer return to it; of a staged plan
// all planned units.
static bool is_at_rest(const mincost_planner *pl) {
    if (!mincost_is_settled(&pl->mc)) return false;
    if (!pl->mc.r.is_source) return true;
    int32_t out = mincost_total_out(&pl->mc, 0);
    return out == mincost_total_in(&pl->mc, 0) &&
           (!pl->mc.phase.staged || (pl->staged.plan == pl->epochs.plan && out == mincost_planned_units(pl)));
}

static void abandon(mincost_planner *pl, epoch_kind kind) {
    enter_epoch(pl, next_epoch(pl->epochs.epoch, kind),
                pl->mc.phase.plan_attempts > 0 ? pl->mc.phase.plan_attempts - 1 : 0, 0);
}

// Nothing has moved at this data peer for long enough to consider a plan.
static bool is_idle(mincost_planner *pl) {
    int32_t out = mincost_total_out(&pl->mc, 0);
    bool rests = is_at_rest(pl), all = out == (int32_t)pl->mc.r.config.capacity;
    if (!rests || !pl->epochs.at_rest || out != pl->epochs.rested_units) pl->epochs.at_rest_since = pl->mc.r.now;
    pl->epochs.at_rest = rests;
    pl->epochs.rested_units = out;
    int64_t since = pl->epochs.at_rest_since > pl->mc.phase.epoch_since ? pl->epochs.at_rest_since
                                                                        : pl->mc.phase.epoch_since;
    return rests && is_due(pl, since, all ? REST_DELAYS : INCOMPLETE_REST_DELAYS) &&
           is_due(pl, mincost_map_changed_at(pl), MAP_STABLE);
}

// Each map is tried MINCOST_PLAN_ATTEMPTS times, because other peers may have had another map or
// been busy.
static bool wants_staged_plan(mincost_planner *pl) {
    mincost_plan(pl);
    if (pl->staged.plan != pl->staged.tried) {
        pl->staged.tried = pl->staged.plan;
        pl->staged.attempts = pl->staged.plan != 0 && pl->staged.worthwhile ? MINCOST_PLAN_ATTEMPTS : 0;
    }
    return pl->staged.attempts > 0;
}

static void tick_plain(mincost_planner *pl) {
    if (!pl->mc.r.is_source || pl->map == NULL || pl->mc.r.config.relays > MINCOST_MULTI_SOURCE_RELAYS || !is_idle(pl))
        return;
    if (!wants_staged_plan(pl)) {
        if (pl->mc.phase.plan_attempts > 0) enter_epoch(pl, next_epoch(pl->epochs.epoch, EPOCH_PLAIN), 0, 0);
        return;
    }
    if (flow_version_of(pl->epochs.epoch) > 0 && !is_due(pl, pl->mc.phase.epoch_since, PLAN_INTERVAL)) return;
    pl->staged.attempts--;
    enter_epoch(pl, next_epoch(pl->epochs.epoch, EPOCH_PAUSED), pl->mc.phase.plan_attempts, pl->staged.plan);
}

static bool has_plan(mincost_planner *pl) {
    mincost_plan(pl);
    return pl->staged.plan == pl->epochs.plan;
}

static void tick_paused(mincost_planner *pl) {
    if (pl->mc.r.is_source && !has_plan(pl)) {
        abandon(pl, EPOCH_PLAIN);
        return;
    }
    if (!is_due(pl, pl->mc.phase.epoch_since, PAUSE)) return;
    if (!is_at_rest(pl))
        abandon(pl, EPOCH_PLAIN);
    else if (pl->mc.r.is_source && is_due(pl, pl->mc.phase.epoch_since, PAUSE + OBJECTION))
        enter_epoch(pl, next_epoch(pl->epochs.epoch, EPOCH_STAGED), pl->mc.phase.plan_attempts, pl->epochs.plan);
    else if (!pl->mc.r.is_source && is_due(pl, pl->mc.phase.epoch_since, PAUSE + OBJECTION + RELAY_EXTRA))
        abandon(pl, EPOCH_PLAIN);
}

// No announcement is needed: all peers activate the plan by the clock.
static void activate_staged(mincost_planner *pl) {
    uint32_t plan = pl->epochs.plan;
    enter_epoch(pl, next_epoch(pl->epochs.epoch, EPOCH_PLAIN), 0, plan);
    pl->epochs.announce = false;
}

static void tick_staged(mincost_planner *pl) {
    int32_t may = (int32_t)pl->mc.r.config.capacity;
    if (pl->mc.r.is_source ? may != pl->epochs.staged_demand : mincost_active_load(&pl->mc) > may)
        abandon(pl, EPOCH_RESTORED);
    else if (!is_due(pl, pl->mc.phase.epoch_since, STAGING))
        return;
    else if (!is_at_rest(pl))
        abandon(pl, EPOCH_RESTORED);
    else if (is_due(pl, pl->mc.phase.epoch_since, STAGING + OBJECTION))
        activate_staged(pl);
}

void mincost_epoch_tick(mincost_planner *pl) {
    if (!mincost_is_multi_source(&pl->mc.r.config)) {
        if (pl->mc.r.now < mincost_coarse_until(&pl->mc)) router_want(&pl->mc.r, mincost_coarse_until(&pl->mc));
        return;
    }
    if (pl->mc.r.count[ROUTER_PREVIOUS] + pl->mc.r.count[ROUTER_NEXT] == 0) {
        // a new neighbour will announce its epoch
        if (pl->epochs.epoch != 0) enter_epoch(pl, 0, MINCOST_PLAN_ATTEMPTS, 0);
    } else if (pl->mc.phase.staged) {
        tick_staged(pl);
    } else if (mincost_commits_paused(pl)) {
        tick_paused(pl);
    } else {
        tick_plain(pl);
    }
    announce(pl);
}

void mincost_epoch_link_up(mincost_planner *pl, router_side side, uint32_t slot) {
    pl->epochs.neighbours_changed_at = pl->mc.r.now;
    if (pl->epochs.epoch > 0) send_epoch(pl, pl->mc.r.slot[side][slot].peer);
}

// `active`: the link carried units of the active flow.
void mincost_epoch_link_gone(mincost_planner *pl, bool active) {
    pl->epochs.neighbours_changed_at = pl->mc.r.now;
    if (pl->mc.phase.staged && active) abandon(pl, EPOCH_RESTORED);
}

void mincost_on_epoch(mincost_planner *pl, const router_message *m, int previous, int next) {
    if (!mincost_is_multi_source(&pl->mc.r.config) || (previous < 0 && next < 0) || m->epoch > MINCOST_LAST_EPOCH ||
        m->attempts > MINCOST_PLAN_ATTEMPTS || m->plan > MINCOST_LAST_PLAN)
        return;
    if (m->epoch > pl->epochs.epoch) enter_epoch(pl, (uint32_t)m->epoch, m->attempts, m->plan);
    if (previous >= 0) upstream_of(&pl->mc, 0, (uint32_t)previous)->epoch = (uint32_t)m->epoch;
    if (next >= 0) downstream_of(&pl->mc, 0, (uint32_t)next)->epoch = (uint32_t)m->epoch;
}

// The neighbour's counts belong to an older flow version.
bool mincost_epoch_ignores(const mincost_planner *pl, int previous, int next) {
    if (previous < 0 && next < 0) return false;
    uint32_t announced = previous >= 0 ? upstream_of(&pl->mc, 0, (uint32_t)previous)->epoch
                                       : downstream_of(&pl->mc, 0, (uint32_t)next)->epoch;
    return flow_version_of(announced) < flow_version_of(pl->epochs.epoch);
}
