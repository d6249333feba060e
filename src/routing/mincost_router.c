// The min-cost algorithm as one state machine (router_rules): memory layout, dispatch of messages,
// and the order of a tick. This file joins the ledger, labels and commits (mincost/) with maps and
// plans (plan/); docs/routing.md has a table of which mechanism runs when.
#include "routing/plan/mincost_planner.h"

#include "base/err.h"

#include <string.h>

// distances are advertised for so many delays after a unit was pushed or returned nearby
enum { BUILD_DELAYS = 16 };

static mincost_planner *planner_of(router *r) { return (mincost_planner *)r; }

static uint32_t commodities_of(const router_config *c) { return router_names_source(c, c->self) ? 1 : c->source_count; }

static uint32_t label_limit_of(const router_config *c) {
    if (c->algorithm == ROUTER_SWARM) return 0;
    return c->path_limit == 0 ? ROUTER_MAX_PATH : c->path_limit;
}

static size_t path_bytes(uint32_t limit) {
    return limit * (sizeof(int64_t) + sizeof(router_node)) + limit % 2 * sizeof(router_node);
}

// Nodes and costs of one label are adjacent.
static void assign_path_memory(mincost_label *label, uint32_t limit, char **steps) {
    label->at = (int64_t *)(void *)*steps;
    label->node = (router_node *)(void *)(label->at + limit);
    *steps += path_bytes(limit);
}

// Frequently read arrays come first and together: in a large simulation each page is cold.
static void lay_out(router *r, const router_config *config, router_arena *a) {
    size_t k = commodities_of(config), links = k * config->max_neighbours;
    uint32_t limit = label_limit_of(config);
    bool maps = mincost_has_map(config);
    mincost_commodity *commodity = router_arena_take(a, k * sizeof(mincost_commodity));
    bool *carries = router_arena_take(a, 2 * links * sizeof *carries);
    mincost_arc *arc = router_arena_take(a, 2 * links * sizeof *arc);
    mincost_sent_label *sent = router_arena_take(a, 2 * links * sizeof *sent);
    mincost_advert *advert = router_arena_take(a, 2 * links * sizeof *advert);
    mincost_upstream *up = router_arena_take(a, links * sizeof(mincost_upstream));
    mincost_downstream *down = router_arena_take(a, links * sizeof(mincost_downstream));
    router_arena_skip_zero(a);
    char *steps = router_arena_take(a, (2 * links + 2 * k) * path_bytes(limit));
    mincost_reservation *visit = router_arena_take(a, MINCOST_MAX_RESERVATIONS * sizeof *visit);
    mincost_removal *going = router_arena_take(a, MINCOST_MAX_RESERVATIONS * sizeof *going);
    mincost_map *map = maps ? mincost_map_lay_out(config, a) : NULL;
    uint32_t *way_word = maps ? router_arena_take(a, MINCOST_PATH_WORDS * sizeof *way_word) : NULL;
    bool plans = maps && router_names_source(config, config->self), shares = mincost_is_multi_source(config);
    void *planned = plans ? router_arena_take(a, shares ? multi_source_bytes() : mincost_single_source_bytes(config))
                          : NULL;
    if (r == NULL) return;
    mincost_planner *pl = planner_of(r);
    pl->map = map;
    pl->staged.path_word = way_word;
    if (plans && shares) pl->multi = multi_source_init(planned, config->objective);
    if (plans && !shares) pl->single = mincost_single_source_init(config, planned);
    pl->mc.upstream = up;
    pl->mc.downstream = down;
    pl->mc.arc = arc;
    pl->mc.sent = sent;
    pl->mc.advert = advert;
    pl->mc.carries = carries;
    pl->mc.commodity = commodity;
    pl->mc.commit.reservation = visit;
    pl->mc.commit.removal = going;
    pl->mc.label_limit = limit;
    pl->mc.path_memory = steps;
    for (size_t i = 0; i < k; i++) {
        assign_path_memory(&commodity[i].in, limit, &steps);
        assign_path_memory(&commodity[i].out, limit, &steps);
        for (int side = ROUTER_PREVIOUS; side <= ROUTER_NEXT; side++)
            for (uint32_t slot = 0; slot < config->max_neighbours; slot++)
                assign_path_memory(label_from(&pl->mc, (uint32_t)i, (router_side)side, slot), limit, &steps);
    }
}

// Upper bound of queued messages. For each commodity a tick sends at most three messages to a
// previous neighbour (label, advert, return) and three to a next one (cancelled, pushed or bid,
// label). A quarter of the queue may be full already (router_receive). A death ends every
// reservation with two messages, and reserved units may be announced twice. With several data peers
// a new epoch goes to every neighbour, with all counts if it restores a flow. MAP messages, and all
// planned paths of a data peer, come on top.
static uint32_t queue_max(const router_config *c) {
    uint32_t eras = mincost_is_multi_source(c) ? (2 + commodities_of(c)) * c->max_neighbours : 0,
             maps = mincost_has_map(c) ? MINCOST_MAP_BURST * c->max_neighbours : 0;
    uint32_t plans = mincost_is_multi_source(c) || (mincost_has_map(c) && router_names_source(c, c->self))
                         ? MULTI_SOURCE_MAX_UNITS
                         : 0;
    return 8 * c->max_neighbours * commodities_of(c) + 5 * MINCOST_MAX_RESERVATIONS + eras + maps + plans;
}

static mincost_label emptied(mincost_label label) { return (mincost_label){.node = label.node, .at = label.at}; }

static void reset_upstream(mincost_planner *pl, uint32_t k, uint32_t slot) {
    mincost_upstream *u = upstream_of(&pl->mc, k, slot);
    *u = (mincost_upstream){.label = emptied(u->label)};
    *advert_of(&pl->mc, k, ROUTER_PREVIOUS, slot) = (mincost_advert){.distance = MINCOST_INFINITY};
    *sent_of(&pl->mc, k, ROUTER_PREVIOUS, slot) =
        (mincost_sent_label){.cost = MINCOST_INFINITY, .changed_since = MINCOST_NEVER};
    pl->mc.commodity[k].arcs_valid = false;
    invalidate_sums(&pl->mc, k);
}

static void reset_downstream(mincost_planner *pl, uint32_t k, uint32_t slot) {
    int64_t head = INT64_MAX;  // a new neighbour starts at the lowest virtual time
    EACH_NEIGHBOUR(&pl->mc.r, ROUTER_NEXT, other) {
        int64_t time = downstream_of(&pl->mc, k, other)->virtual_time;
        if (other != slot && time < head) head = time;
    }
    mincost_downstream *d = downstream_of(&pl->mc, k, slot);
    *d = (mincost_downstream){.virtual_time = head == INT64_MAX ? 0 : head, .label = emptied(d->label)};
    *advert_of(&pl->mc, k, ROUTER_NEXT, slot) = (mincost_advert){.distance = MINCOST_INFINITY};
    *sent_of(&pl->mc, k, ROUTER_NEXT, slot) = (mincost_sent_label){.changed_since = MINCOST_NEVER};
    pl->mc.commodity[k].arcs_valid = false;
    invalidate_sums(&pl->mc, k);
}

static void mincost_init(router *r) {
    mincost_planner *pl = planner_of(r);
    pl->mc.greedy = r->config.algorithm == ROUTER_SWARM;
    pl->mc.minimise_bottleneck = r->config.objective == ROUTER_BOTTLENECK && !pl->mc.greedy;
    pl->mc.commit.serial = (uint32_t)rng_next(&r->random);
    pl->mc.commit.back_off_until = pl->mc.updates.next_at = r->now;
    pl->mc.phase.epoch_since = pl->epochs.neighbours_changed_at = r->now;
    pl->mc.auction.first_placed_at = pl->mc.auction.last_placed_at = pl->mc.auction.repair_began_at =
        pl->mc.auction.repair_step_at = MINCOST_NEVER;
    pl->epochs.at_rest_since = r->now;
    pl->initial.open_since = pl->mc.phase.dispatch_until = MINCOST_NEVER;
    pl->mc.phase.plan_attempts = MINCOST_PLAN_ATTEMPTS;
    pl->staged.active_value = -1;
    for (uint32_t k = 0; k < r->commodities; k++) {
        mincost_commodity *c = &pl->mc.commodity[k];
        c->blocked_since = c->deficit_since = MINCOST_NEVER;
        if (pl->mc.label_limit == 0) continue;
        c->in.node[0] = c->out.node[0] = 0;  // compared with the first label computed
        c->in.at[0] = c->out.at[0] = 0;
    }
}

// Adverts of distances serve placement, so they rest when nothing is placed nearby
// (mincost_adverts.c).
static void extend_adverts(mincost_planner *pl) {
    pl->mc.updates.adverts_until = pl->mc.r.now + BUILD_DELAYS * pl->mc.r.config.delay;
}

static void link_up(router *r, router_side side, uint32_t slot) {
    mincost_planner *pl = planner_of(r);
    extend_adverts(pl);
    mincost_invalidate(&pl->mc);
    pl->mc.settle_count = 0;
    mincost_epoch_link_up(pl, side, slot);
    mincost_map_link_up(pl, side);
    for (uint32_t k = 0; k < r->commodities; k++) {
        if (side == ROUTER_PREVIOUS) reset_upstream(pl, k, slot);
        if (side == ROUTER_NEXT) reset_downstream(pl, k, slot);
    }
    if (side == ROUTER_PREVIOUS) mincost_initial_link_up(pl, slot);
}

static void link_gone(router *r, router_peer peer) {
    mincost_planner *pl = planner_of(r);
    extend_adverts(pl);
    mincost_invalidate(&pl->mc);
    pl->mc.settle_count = 0;
    mincost_note_repair(&pl->mc);
    mincost_commit_link_gone(&pl->mc, peer);
    int previous = router_slot(r, ROUTER_PREVIOUS, peer), next = router_slot(r, ROUTER_NEXT, peer);
    bool kept = false, used = false;
    for (uint32_t k = 0; k < r->commodities; k++) {
        kept |= previous >= 0 && upstream_of(&pl->mc, k, (uint32_t)previous)->active > 0;
        kept |= next >= 0 && downstream_of(&pl->mc, k, (uint32_t)next)->active > 0;
        used |= next >= 0 && (pl->mc.phase.staged ? downstream_of(&pl->mc, k, (uint32_t)next)->active
                                                  : downstream_of(&pl->mc, k, (uint32_t)next)->units) > 0;
        if (previous >= 0) reset_upstream(pl, k, (uint32_t)previous);
        if (next >= 0) reset_downstream(pl, k, (uint32_t)next);
    }
    EACH_OF(pl->mc.commit.removals, i) {
        if (previous >= 0 && pl->mc.commit.removal[i].slot == (uint32_t)previous)
            mincost_end_removal(&pl->mc, &pl->mc.commit.removal[i]);
    }
    if (used) mincost_note_cut(&pl->mc);
    mincost_map_link_gone(pl, previous >= 0);
    mincost_epoch_link_gone(pl, kept);
    mincost_enforce_capacity(&pl->mc);
}

// --- Receiving -----------------------------------------------------------------------------------

static void on_label(mincost_planner *pl, uint32_t k, const router_message *m, int previous, int next) {
    if (m->length > pl->mc.label_limit) return;
    // side of the sender
    router_side side = m->side == ROUTER_PREVIOUS ? ROUTER_NEXT : ROUTER_PREVIOUS;
    int slot = side == ROUTER_NEXT ? next : previous;
    if (slot < 0 || (m->side != ROUTER_PREVIOUS && m->side != ROUTER_NEXT)) return;
    mincost_label *label = label_from(&pl->mc, k, side, (uint32_t)slot);
    const mincost_label was = *label;
    if (m->side == ROUTER_NEXT && m->length == 1) {
        sent_of(&pl->mc, k, ROUTER_PREVIOUS, (uint32_t)previous)->floor = m->cost;
        pl->mc.commodity[k].updates = MINCOST_UPDATES_UNKNOWN;
    }
    label->cost = m->cost;
    label->since = pl->mc.r.now;
    label->length = m->length;
    label->neighbour_steps = 0;
    label->owner_bits = 0;
    for (uint32_t i = 0; i < m->length; i++) {
        label->owner_bits |= router_bit(router_owner(m->u.step[i].half));
        label->node[i] = m->u.step[i].half;
        label->at[i] = m->u.step[i].cost;
    }
    mincost_label_received(&pl->mc, k, side, (uint32_t)slot, m->from, &was);
}

static void on_advert(mincost_planner *pl, uint32_t k, const router_message *m, int next) {
    if (next < 0) return;
    pl->mc.commodity[k].adverts_sent = false;
    mincost_advert *advert = advert_of(&pl->mc, k, ROUTER_NEXT, (uint32_t)next);
    advert->distance = m->cost;
    advert->room = (int32_t)m->units;
    mincost_on_scale(downstream_of(&pl->mc, k, (uint32_t)next), m->scale);
}

// Messages about one commodity's links, except those of commits.
static void receive_commodity(mincost_planner *pl, uint32_t k, const router_message *m, int previous, int next) {
    if (m->kind == ROUTER_LABEL) on_label(pl, k, m, previous, next);
    if (m->kind == ROUTER_ADVERT) on_advert(pl, k, m, next);
    if (m->kind == ROUTER_FLOW && previous >= 0) mincost_on_flow(&pl->mc, k, (uint32_t)previous, m);
    if (m->kind == ROUTER_WAY && previous >= 0) mincost_on_path(pl, k, (uint32_t)previous, m);
    if (m->kind == ROUTER_DENY && next >= 0) mincost_on_deny(&pl->mc, k, (uint32_t)next, m);
    bool places = m->kind == ROUTER_DENY || (m->kind == ROUTER_FLOW && m->why <= MINCOST_CANCELLED);
    if (places) extend_adverts(pl);
    if (places || (m->kind == ROUTER_FLOW && m->why == MINCOST_BID)) mincost_note_placed(&pl->mc);
}

static void receive(router *r, const router_message *m, int previous, int next, int same) {
    (void)same;
    mincost_planner *pl = planner_of(r);
    int k = router_commodity(r, m->source);
    if (mincost_is_counting(m->kind) && mincost_epoch_ignores(pl, previous, next)) return;
    mincost_initial_receive(pl, m);
    if (m->kind == ROUTER_LOCK) mincost_on_lock(&pl->mc, m);
    if (m->kind == ROUTER_COMMIT) mincost_on_commit(&pl->mc, m, previous, next);
    if (m->kind == ROUTER_COMMIT || m->kind == ROUTER_FLOW || m->kind == ROUTER_DENY) pl->mc.settle_count = 0;
    if (m->kind == ROUTER_ABORT) mincost_on_abort(&pl->mc, m);
    // A MAP from downstream holds entries, one from upstream a cycle proposal.
    if (m->kind == ROUTER_MAP && next >= 0) mincost_on_map(pl, m);
    if (m->kind == ROUTER_MAP && previous >= 0) mincost_on_proposal(pl, m);
    if (m->kind == ROUTER_QUERY && m->why == MINCOST_QUERY_EPOCH)
        mincost_on_epoch(pl, m, previous, next);
    else if (k >= 0)
        receive_commodity(pl, (uint32_t)k, m, previous, next);
    // these change no counter
    if (m->kind == ROUTER_LABEL || m->kind == ROUTER_ADVERT || m->kind == ROUTER_MAP) return;
    mincost_invalidate(&pl->mc);
    mincost_enforce_capacity(&pl->mc);
}
// --- Ticks ---------------------------------------------------------------------------------------

static void search_cycles(mincost_planner *pl) {
    for (uint32_t k = 0; k < pl->mc.r.commodities; k++) {
        router_node cycle[ROUTER_MAX_CYCLE];
        uint32_t length = mincost_update_labels(&pl->mc, k, cycle);
        if (length == 0) continue;
        if (!pl->mc.commit.own_active && pl->mc.r.now >= pl->mc.commit.back_off_until)
            mincost_begin_commit(&pl->mc, k, cycle, length);
        pl->mc.commit.cycle_waiting = true;
    }
}

static void tick(router *r) {
    mincost_planner *pl = planner_of(r);
    mincost_expire_reservations(&pl->mc);
    mincost_initial_tick(pl);
    if (!pl->mc.phase.staged) mincost_balance(&pl->mc);
    mincost_update_mean(&pl->mc);
    mincost_epoch_tick(pl);
    pl->mc.mature = mincost_compute_mature(&pl->mc);
    mincost_map_tick(pl);
    pl->mc.commit.cycle_waiting = false;
    if (pl->mc.minimise_bottleneck) mincost_update_scale(&pl->mc);
    if (mincost_is_centralised(&pl->mc))
        mincost_reoptimise(pl);
    else if (!pl->mc.greedy && !mincost_commits_paused(pl) && !mincost_is_waiting(&pl->mc))
        search_cycles(pl);
    if (pl->mc.commit.cycle_waiting && r->now < pl->mc.commit.back_off_until)
        router_want(r, pl->mc.commit.back_off_until);
    if (pl->mc.phase.staged) return;
    if (r->now >= pl->mc.updates.next_at) {
        mincost_send_updates(&pl->mc);
    } else {
        router_want(r, pl->mc.updates.next_at);
        mincost_send_urgent(&pl->mc);
    }
    mincost_ledger_deadlines(&pl->mc);
}

// --- Messages and the flow for hosts -------------------------------------------------------------

static void compose_label(const mincost_planner *pl, const router_outgoing *from, router_message *out) {
    if (from->extra == MINCOST_SEND_EMPTY) return;
    const mincost_commodity *c = &pl->mc.commodity[from->k];
    const mincost_label *label = from->side == ROUTER_PREVIOUS ? &c->in : &c->out;
    out->cost = label->cost;
    out->length = (uint16_t)label->length;
    for (uint32_t i = 0; i < label->length; i++) out->u.step[i] = (router_step){label->node[i], label->at[i]};
}

static bool compose(router *r, const router_outgoing *from, router_message *out) {
    mincost_planner *pl = planner_of(r);
    if (from->kind == ROUTER_LABEL) compose_label(pl, from, out);
    if (from->kind == ROUTER_COMMIT) out->u.word[0] = from->extra;
    if (from->kind == ROUTER_MAP && mincost_is_proposal(from))
        mincost_compose_proposal(pl, from, out);
    else if (from->kind == ROUTER_MAP)
        mincost_map_compose(pl, from, out);
    if (from->kind == ROUTER_WAY) mincost_compose_path(pl, from, out);
    if (from->kind != ROUTER_LOCK) return true;
    const mincost_reservation *v = mincost_find_reservation(&pl->mc, from->token, from->extra);
    if (v == NULL) return false;  // aborted before it was sent
    out->length = v->length;
    memcpy(out->u.cycle, v->cycle, v->length * sizeof(router_node));
    return true;
}

static uint32_t load(const router *r) {
    const mincost_planner *pl = (const mincost_planner *)r;
    return (uint32_t)(pl->mc.phase.staged ? mincost_active_load(&pl->mc)
                                          : mincost_load(&pl->mc) + pl->mc.commit.adding);
}

// The host does not see a staged plan.
static bool settled(const router *r) {
    const mincost_planner *pl = (const mincost_planner *)r;
    return pl->mc.phase.staged || mincost_is_settled(&pl->mc);
}

const router_rules mincost_rules = {.state_bytes = sizeof(mincost_planner),
                                    .lay_out = lay_out,
                                    .init = mincost_init,
                                    .receive = receive,
                                    .tick = tick,
                                    .link_up = link_up,
                                    .link_gone = link_gone,
                                    .compose = compose,
                                    .units = mincost_units,
                                    .load = load,
                                    .link_busy = mincost_link_busy,
                                    .settled = settled,
                                    .queue_max = queue_max};
