// braid: one peer's step. The counters are in braid_ledger.c, the labels in braid_label.c, the tokens in braid_token.c, the
// words to neighbours in braid_speak.c; of several data peers are braid_mode.c, braid_map.c and braid_draft.c.
#include "routing/mincost/mincost.h"

#include "base/err.h"

#include <string.h>

enum { BUILDING = 16 };  // delays after the last unit was pushed or handed back near by

static braid *self_of(router *r) { return (braid *)r; }

static uint32_t commodities_of(const router_config *c) { return router_names_source(c, c->self) ? 1 : c->source_count; }

static uint32_t label_limit_of(const router_config *c) {
    if (c->algorithm == ROUTER_SWARM) return 0;
    return c->path_limit == 0 ? ROUTER_MAX_PATH : c->path_limit;
}

static size_t steps_bytes(uint32_t limit) { return limit * (sizeof(int64_t) + sizeof(router_half)) + limit % 2 * sizeof(router_half); }

// The steps of one label lie together.
static void give_room(braid_label *label, uint32_t limit, char **steps) {
    label->at = (int64_t *)(void *)*steps;
    label->half = (router_half *)(void *)(label->at + limit);
    *steps += steps_bytes(limit);
}

// What is read most comes first, and together: in a large simulation each page of memory is far away.
static void lay_out(router *r, const router_config *config, arena *a) {
    size_t k = commodities_of(config), links = k * config->max_neighbours;
    uint32_t limit = label_limit_of(config);
    bool maps = braid_has_map(config);
    braid_commodity *commodity = arena_take(a, k * sizeof(braid_commodity));
    bool *carries = arena_take(a, 2 * links * sizeof *carries);
    braid_arc *arc = arena_take(a, 2 * links * sizeof *arc);
    braid_told *told = arena_take(a, 2 * links * sizeof *told);
    braid_advert *advert = arena_take(a, 2 * links * sizeof *advert);
    braid_up *up = arena_take(a, links * sizeof(braid_up));
    braid_down *down = arena_take(a, links * sizeof(braid_down));
    arena_need_no_zero(a);
    char *steps = arena_take(a, (2 * links + 2 * k) * steps_bytes(limit));
    braid_visit *visit = arena_take(a, BRAID_RESERVATIONS * sizeof *visit);
    braid_going *going = arena_take(a, BRAID_RESERVATIONS * sizeof *going);
    braid_map *map = maps ? braid_map_lay_out(config, a) : NULL;
    uint32_t *way_word = maps ? arena_take(a, BRAID_WAY_WORDS * sizeof *way_word) : NULL;
    bool plans = maps && router_names_source(config, config->self), shares = braid_shares(config);
    void *planned = plans ? arena_take(a, shares ? ways_bytes() : braid_map_lone_bytes(config)) : NULL;
    if (r == NULL) return;
    braid *b = self_of(r);
    b->map = map;
    b->way_word = way_word;
    if (plans && shares) b->ways = ways_init(planned, config->objective);
    if (plans && !shares) b->lone = braid_map_lone_init(config, planned);
    b->up = up;
    b->down = down;
    b->arc = arc;
    b->told = told;
    b->advert = advert;
    b->carries = carries;
    b->commodity = commodity;
    b->visit = visit;
    b->going = going;
    b->label_limit = limit;
    b->steps = steps;
    for (size_t i = 0; i < k; i++) {
        give_room(&commodity[i].in, limit, &steps);
        give_room(&commodity[i].out, limit, &steps);
        for (int side = ROUTER_PREVIOUS; side <= ROUTER_NEXT; side++)
            for (uint32_t slot = 0; slot < config->max_neighbours; slot++)
                give_room(label_from(b, (uint32_t)i, (router_side)side, slot), limit, &steps);
    }
}

// For each commodity a tick says at most three things to a previous neighbour (a label, an advert, and that units go back) and three to
// a next one (cancelled, pushed or a bid, labelled); a quarter of the queue may wait already (router_receive). A death ends every visit,
// in two words, and what tokens hold may be said twice. With several data peers a new era is said to everybody, and one that restores a
// flow all counts; previous neighbours hear of the map; and a draft begins with all ways of a data peer, as a plan without one does.
static uint32_t queue_max(const router_config *c) {
    uint32_t eras = braid_shares(c) ? (2 + commodities_of(c)) * c->max_neighbours : 0, maps = braid_has_map(c) ? BRAID_MAP_AT_ONCE * c->max_neighbours : 0;
    uint32_t plans = braid_shares(c) || (braid_has_map(c) && router_names_source(c, c->self)) ? WAYS_MAX_UNITS : 0;
    return 8 * c->max_neighbours * commodities_of(c) + 5 * BRAID_RESERVATIONS + eras + maps + plans;
}

static braid_label emptied(braid_label label) { return (braid_label){.half = label.half, .at = label.at}; }

static void forget_up(braid *b, uint32_t k, uint32_t slot) {
    braid_up *u = up_of(b, k, slot);
    *u = (braid_up){.label = emptied(u->label)};
    *advert_of(b, k, ROUTER_PREVIOUS, slot) = (braid_advert){.distance = BRAID_NOWHERE};
    *told_of(b, k, ROUTER_PREVIOUS, slot) = (braid_told){.cost = BRAID_NOWHERE, .news_since = BRAID_NEVER_SINCE};
    b->commodity[k].arcs_known = false;
    recount(b, k);
}

static void forget_down(braid *b, uint32_t k, uint32_t slot) {
    int64_t head = INT64_MAX;  // a newcomer enters where the others are
    EACH_NEIGHBOUR(&b->r, ROUTER_NEXT, other) {
        int64_t time = down_of(b, k, other)->virtual_time;
        if (other != slot && time < head) head = time;
    }
    braid_down *d = down_of(b, k, slot);
    *d = (braid_down){.virtual_time = head == INT64_MAX ? 0 : head, .label = emptied(d->label)};
    *advert_of(b, k, ROUTER_NEXT, slot) = (braid_advert){.distance = BRAID_NOWHERE};
    *told_of(b, k, ROUTER_NEXT, slot) = (braid_told){.news_since = BRAID_NEVER_SINCE};
    b->commodity[k].arcs_known = false;
    recount(b, k);
}

static void braid_init(router *r) {
    braid *b = self_of(r);
    b->greedy = r->config.algorithm == ROUTER_SWARM;
    b->worst = r->config.objective == ROUTER_WORST && !b->greedy;
    b->serial = (uint32_t)rng_next(&r->random);
    b->back_off_until = b->speak_at = r->now;
    b->era_since = b->changed_since = r->now;
    b->placed_since = b->placed_at = b->repaired_since = b->repaired_at = BRAID_NEVER_SINCE;
    b->rests_since = r->now;
    b->open_since = b->spread_until = BRAID_NEVER_SINCE;
    b->tries = BRAID_TRIES;
    b->in_force = -1;
    for (uint32_t k = 0; k < r->commodities; k++) {
        braid_commodity *c = &b->commodity[k];
        c->stuck_since = c->deficit_since = BRAID_NEVER_SINCE;
        if (b->label_limit == 0) continue;
        c->in.half[0] = c->out.half[0] = 0;  // compared with the first that they become
        c->in.at[0] = c->out.at[0] = 0;
    }
}

// Adverts are for building: they rest when nothing is built near by (braid_speak.c).
static void builds(braid *b) { b->building_until = b->r.now + BUILDING * b->r.config.delay; }

static void link_up(router *r, router_side side, uint32_t slot) {
    builds(self_of(r));
    braid_stir(self_of(r));
    self_of(r)->settlings = 0;
    braid_mode_link_up(self_of(r), side, slot);
    braid_map_link_up(self_of(r), side);
    for (uint32_t k = 0; k < r->commodities; k++) {
        if (side == ROUTER_PREVIOUS) forget_up(self_of(r), k, slot);
        if (side == ROUTER_NEXT) forget_down(self_of(r), k, slot);
    }
    if (side == ROUTER_PREVIOUS) braid_begin_link_up(self_of(r), slot);
}

static void link_gone(router *r, router_peer peer) {
    braid *b = self_of(r);
    builds(b);
    braid_stir(b);
    b->settlings = 0;
    braid_repairs(b);
    braid_tokens_link_gone(b, peer);
    int previous = router_slot(r, ROUTER_PREVIOUS, peer), next = router_slot(r, ROUTER_NEXT, peer);
    bool kept = false, used = false;
    for (uint32_t k = 0; k < r->commodities; k++) {
        kept |= previous >= 0 && up_of(b, k, (uint32_t)previous)->kept > 0;
        kept |= next >= 0 && down_of(b, k, (uint32_t)next)->kept > 0;
        used |= next >= 0 && (b->drafts ? down_of(b, k, (uint32_t)next)->kept : down_of(b, k, (uint32_t)next)->out) > 0;
        if (previous >= 0) forget_up(b, k, (uint32_t)previous);
        if (next >= 0) forget_down(b, k, (uint32_t)next);
    }
    EACH_OF(b->goings, i) {
        if (previous >= 0 && b->going[i].slot == (uint32_t)previous) braid_end_going(b, &b->going[i]);
    }
    if (used) braid_map_cut(b);
    braid_map_link_gone(b, previous >= 0);
    braid_mode_link_gone(b, kept);
    braid_keep_capacity(b);
}

// --- Receiving ---------------------------------------------------------------------------------------------------------

static void on_label(braid *b, uint32_t k, const router_message *m, int previous, int next) {
    if (m->length > b->label_limit) return;
    router_side side = m->side == ROUTER_PREVIOUS ? ROUTER_NEXT : ROUTER_PREVIOUS;  // where it comes from
    int slot = side == ROUTER_NEXT ? next : previous;
    if (slot < 0 || (m->side != ROUTER_PREVIOUS && m->side != ROUTER_NEXT)) return;
    braid_label *label = label_from(b, k, side, (uint32_t)slot);
    const braid_label was = *label;
    if (m->side == ROUTER_NEXT && m->length == 1) {
        told_of(b, k, ROUTER_PREVIOUS, (uint32_t)previous)->floor = m->cost;
        b->commodity[k].news = BRAID_MAYBE_NEWS;
    }
    label->cost = m->cost;
    label->since = b->r.now;
    label->length = m->length;
    label->near = 0;
    label->owners = 0;
    for (uint32_t i = 0; i < m->length; i++) {
        label->owners |= router_bit(router_owner(m->u.step[i].half));
        label->half[i] = m->u.step[i].half;
        label->at[i] = m->u.step[i].cost;
    }
    braid_label_came(b, k, side, (uint32_t)slot, m->from, &was);
}

static void on_advert(braid *b, uint32_t k, const router_message *m, int next) {
    if (next < 0) return;
    b->commodity[k].advertised = false;
    braid_advert *advert = advert_of(b, k, ROUTER_NEXT, (uint32_t)next);
    advert->distance = m->cost;
    advert->room = (int32_t)m->units;
    braid_hear_scale(down_of(b, k, (uint32_t)next), m->taken_back);
}

// What is about one commodity's links and not about a token.
static void receive_about(braid *b, uint32_t k, const router_message *m, int previous, int next) {
    if (m->kind == ROUTER_LABEL) on_label(b, k, m, previous, next);
    if (m->kind == ROUTER_ADVERT) on_advert(b, k, m, next);
    if (m->kind == ROUTER_FLOW && previous >= 0) braid_on_flow(b, k, (uint32_t)previous, m);
    if (m->kind == ROUTER_WAY && previous >= 0) braid_on_way(b, k, (uint32_t)previous, m);
    if (m->kind == ROUTER_DENY && next >= 0) braid_on_deny(b, k, (uint32_t)next, m);
    bool places = m->kind == ROUTER_DENY || (m->kind == ROUTER_FLOW && m->why <= BRAID_CANCELLED);
    if (places) builds(b);
    if (places || (m->kind == ROUTER_FLOW && m->why == BRAID_BID)) braid_placed(b);
}

static void receive(router *r, const router_message *m, int previous, int next, int same) {
    (void)same;
    braid *b = self_of(r);
    int k = router_commodity(r, m->source);
    if (braid_is_count(m->kind) && braid_mode_deaf(b, previous, next)) return;
    braid_begin_receive(b, m);
    if (m->kind == ROUTER_LOCK) braid_on_lock(b, m);
    if (m->kind == ROUTER_COMMIT) braid_on_commit(b, m, previous, next);
    if (m->kind == ROUTER_COMMIT || m->kind == ROUTER_FLOW || m->kind == ROUTER_DENY) b->settlings = 0;
    if (m->kind == ROUTER_ABORT) braid_on_abort(b, m);
    if (m->kind == ROUTER_MAP && next >= 0) braid_on_map(b, m);
    if (m->kind == ROUTER_MAP && previous >= 0) braid_on_hint(b, m);
    if (m->kind == ROUTER_QUERY && m->why == BRAID_ERA)
        braid_mode_heard(b, m, previous, next);
    else if (k >= 0)
        receive_about(b, (uint32_t)k, m, previous, next);
    if (m->kind == ROUTER_LABEL || m->kind == ROUTER_ADVERT || m->kind == ROUTER_MAP) return;  // those change no counter
    braid_stir(b);
    braid_keep_capacity(b);
}
// --- Ticks -------------------------------------------------------------------------------------------------------------

static void look_for_cycles(braid *b) {
    for (uint32_t k = 0; k < b->r.commodities; k++) {
        router_half cycle[ROUTER_MAX_CYCLE];
        uint32_t length = braid_labels(b, k, cycle);
        if (length == 0) continue;
        if (!b->out && b->r.now >= b->back_off_until) braid_launch(b, k, cycle, length);
        b->cycle_waits = true;
    }
}

static void tick(router *r) {
    braid *b = self_of(r);
    braid_expire(b);
    braid_begin_tick(b);
    if (!b->drafts) braid_balance(b);
    braid_follow_mean(b);
    braid_mode_tick(b);
    b->mature = braid_is_mature(b);
    braid_map_tick(b);
    b->cycle_waits = false;
    if (b->worst) braid_follow_scale(b);
    if (braid_is_steered(b)) braid_steer(b);
    else if (!b->greedy && !braid_still(b) && !braid_waits(b)) look_for_cycles(b);
    if (b->cycle_waits && r->now < b->back_off_until) router_want(r, b->back_off_until);
    if (b->drafts) return;
    if (r->now >= b->speak_at) {
        braid_speak(b);
    } else {
        router_want(r, b->speak_at);
        braid_warn(b);
    }
    braid_ledger_deadlines(b);
}

// --- Messages and views ------------------------------------------------------------------------------------------------

static void compose_label(const braid *b, const outgoing *from, router_message *out) {
    if (from->extra == BRAID_NO_GAIN) return;
    const braid_commodity *c = &b->commodity[from->k];
    const braid_label *label = from->side == ROUTER_PREVIOUS ? &c->in : &c->out;
    out->cost = label->cost;
    out->length = (uint16_t)label->length;
    for (uint32_t i = 0; i < label->length; i++) out->u.step[i] = (router_step){label->half[i], label->at[i]};
}

static bool compose(router *r, const outgoing *from, router_message *out) {
    braid *b = self_of(r);
    if (from->kind == ROUTER_LABEL) compose_label(b, from, out);
    if (from->kind == ROUTER_COMMIT) out->u.word[0] = from->extra;
    if (from->kind == ROUTER_MAP && braid_is_hint(from)) braid_compose_hint(b, from, out);
    else if (from->kind == ROUTER_MAP) braid_map_compose(b, from, out);
    if (from->kind == ROUTER_WAY) braid_compose_way(b, from, out);
    if (from->kind != ROUTER_LOCK) return true;
    const braid_visit *v = braid_find_visit(b, from->token, from->extra);
    if (v == NULL) return false;  // aborted before it left
    out->length = v->length;
    memcpy(out->u.cycle, v->cycle, v->length * sizeof(router_half));
    return true;
}

static uint32_t load(const router *r) {
    const braid *b = (const braid *)r;
    return (uint32_t)(b->drafts ? braid_kept_load(b) : braid_load(b) + b->add);
}

bool braid_settled(const braid *b) {
    const router *r = &b->r;
    if (b->out || b->visits != 0 || b->goings != 0) return false;
    if (!r->is_source && braid_room(b) < 0) return false;
    for (uint32_t k = 0; k < r->commodities; k++) {
        if (!r->is_source && braid_excess(b, k) != 0) return false;
        EACH_NEIGHBOUR(r, ROUTER_NEXT, slot) {
            if (down_of(b, k, slot)->owed != 0) return false;
        }
        EACH_NEIGHBOUR(r, ROUTER_PREVIOUS, slot) {
            if (up_of(b, k, slot)->denied != up_of(b, k, slot)->denied_ack) return false;
        }
    }
    return true;
}

// Of a draft the host knows nothing.
static bool settled(const router *r) {
    const braid *b = (const braid *)r;
    return b->drafts || braid_settled(b);
}

// --- Memory that will be needed ----------------------------------------------------------------------------------------

static void foresee(const router *r, bool tick) {
    const braid *b = (const braid *)r;
    foresee_bytes(b->commodity, tick ? sizeof(braid_commodity) : offsetof(braid_commodity, in));
    for (int side = ROUTER_PREVIOUS; side <= ROUTER_NEXT && tick && !b->greedy; side++) {
        if (!r->in_order[side]) foresee_bytes(r->order[side], r->count[side] * sizeof *r->order[side]);
        foresee_bytes(arc_of(b, 0, (router_side)side, 0), r->count[side] * sizeof(braid_arc));
    }
}

// Most labels have few steps. `label`: the two of mine, then those of the links (link_at), as lay_out puts them.
static void foresee_steps(const braid *b, size_t label) {
    const char *steps = b->steps + label * steps_bytes(b->label_limit);
    __builtin_prefetch(steps);
    __builtin_prefetch(steps + b->label_limit * sizeof(int64_t));
}

// Most of the links that a search for walks will consider.
static void foresee_search(const braid *b, router_side side) {
    const braid_calm *calm = &b->commodity[0].calm;
    const braid_arc *arc = arc_of(b, 0, side, 0);
    int64_t most_cost = calm->best[side].direct_cost - calm->slack;
    for (uint32_t slot = 0; slot < b->r.count[side]; slot++) {
        if (arc[slot].cost > most_cost || (side == ROUTER_PREVIOUS && !b->carries[slot])) continue;
        foresee_bytes(label_from(b, 0, side, slot), sizeof(braid_label));
        __builtin_prefetch(&b->r.slot[side][slot]);
        foresee_steps(b, 2 + link_at(b, 0, side, slot));
    }
}

static void foresee_tick(const router *r) {
    const braid *b = (const braid *)r;
    const braid_commodity *c = &b->commodity[0];
    bool calm = c->calm.known && r->now < c->calm.until;
    if (!calm && b->label_limit > 0) {
        foresee_steps(b, 0);
        foresee_steps(b, 1);
        foresee_search(b, ROUTER_PREVIOUS);
        foresee_search(b, ROUTER_NEXT);
    }
    if (calm && c->news != BRAID_MAYBE_NEWS && r->now < c->hush_until) return;
    foresee_bytes(r->slot[ROUTER_PREVIOUS], r->count[ROUTER_PREVIOUS] * sizeof(neighbour));
    foresee_bytes(told_of(b, 0, ROUTER_PREVIOUS, 0), r->count[ROUTER_PREVIOUS] * sizeof(braid_told));
    for (int side = ROUTER_PREVIOUS; side <= ROUTER_NEXT && !c->advertised; side++)
        foresee_bytes(advert_of(b, 0, (router_side)side, 0), r->count[side] * sizeof(braid_advert));
}

_Static_assert(offsetof(braid_up, label) == 0 && offsetof(braid_down, label) == 0, "a link begins with its label");

// What of the link itself a label or an advert changes.
static void foresee_link(const router *r, router_side side, uint32_t slot) {
    const braid *b = (const braid *)r;
    foresee_bytes(label_from(b, 0, side, slot), sizeof(braid_label));
    __builtin_prefetch(arc_of(b, 0, side, slot));
    if (b->label_limit > 0) foresee_steps(b, 2 + link_at(b, 0, side, slot));
}

const router_rules braid_rules = {.state_bytes = sizeof(braid),
                                  .lay_out = lay_out,
                                  .init = braid_init,
                                  .receive = receive,
                                  .tick = tick,
                                  .link_up = link_up,
                                  .link_gone = link_gone,
                                  .compose = compose,
                                  .units = braid_view,
                                  .load = load,
                                  .settled = settled,
                                  .queue_max = queue_max,
                                  .foresee = foresee,
                                  .foresee_tick = foresee_tick,
                                  .foresee_link = foresee_link};
