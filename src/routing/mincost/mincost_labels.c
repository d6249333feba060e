// braid's labels: what the cheapest residual walk from each of my halves costs, and the negative cycle that shows when a
// neighbour's walk comes back to me.
#include "routing/mincost/mincost.h"

#include "base/err.h"

enum {
    STAYS = -2,     // walk.rank of the walk that ends where it begins
    LOOKED = 30,    // delays after the early ones before labels settle at all
    SETTLES = 40,   // delays that a label has been the same when it settles
    SETTLINGS = 4,  // ... so often for each label, while nothing changes here: then a negative cycle shows itself whole
    SETTLED = 8     // ... unless it is lower than this part of what one more unit is worth
};

// A walk that goes on from one of my halves over a link: its cost from there, and the far label it continues with.
typedef struct walk {
    int64_t cost;
    int64_t rank;            // among equals the least: -1 for the choice of last time, else the length
    const mincost_label *far;  // NULL: it ends here
    router_peer over;
} walk;

typedef struct search {
    mincost *mc;
    bool settled;  // labels settle here
    uint64_t mine;  // my bit in labels' owners
    int64_t epsilon;
    uint64_t watched;  // owners of the walks that could be contradicted
    int64_t best;  // cost of the most negative cycle so far
    router_half *cycle;
    uint32_t length;
} search;

int mincost_position_of(const mincost_label *label, router_half half) {
    for (uint32_t i = 0; i < label->length; i++) {
        if (label->node[i] == half) return (int)i;
    }
    return -1;
}

static void offer(walk *best, int64_t cost, const mincost_label *far, router_peer over, bool was_choice) {
    int64_t rank = was_choice ? -1 : (int64_t)far->length;
    if (cost > best->cost || (cost == best->cost && rank >= best->rank)) return;
    *best = (walk){cost, rank, far, over};
}

// A cycle: perhaps `start` (0: none), then `half`, then the far path up to where it is closed.
static void found_cycle(search *s, int64_t cost, router_half start, router_half half, const mincost_label *far,
                        int upto) {
    if (cost >= s->best) return;
    s->best = cost;
    s->length = 0;
    if (start != 0) s->cycle[s->length++] = start;
    s->cycle[s->length++] = half;
    for (int i = 0; i <= upto; i++) s->cycle[s->length++] = far->node[i];
}

// With one data peer and the sum of costs, once small gains have been looked for as long as that takes.
static bool can_settle(mincost *mc) {
    if (mc->minimise_bottleneck || mincost_is_multi_source(&mc->r.config)) return false;
    int64_t at = mincost_coarse_until(mc) + LOOKED * mc->r.config.delay;
    if (mc->r.now < at) router_want(&mc->r, at);  // others may have settled what they told me
    return mc->r.now >= at;
}

// A walk that one more unit would take does not settle.
static bool may_settle(const mincost *mc, const mincost_label *label) { return label->cost > -unit_value(mc) / SETTLED; }

static bool is_settled_enough(const mincost *mc) {
    return mc->settle_count >= SETTLINGS * (2 + mc->r.count[ROUTER_PREVIOUS] + mc->r.count[ROUTER_NEXT]);
}

// When it will have been the same for long.
static int64_t settles_at(const mincost *mc, const mincost_label *label) {
    if (!may_settle(mc, label) || is_settled_enough(mc)) return ROUTER_NEVER;
    return label->since + SETTLES * mc->r.config.delay;
}

// The walk leads over a neighbour that says by itself that it has become dearer from there: whoever told me has not heard of it yet, or will
// not, when it has settled.
static bool is_contradicted(search *s, mincost_label *far) {
    mincost *mc = s->mc;
    int64_t until = far->since + SETTLES * mc->r.config.delay;
    if (mc->r.now >= until) return false;
    if (settles_at(mc, far) != until) s->watched |= far->owner_bits;  // else a tick is wanted then in any case
    if (!mincost_is_stale(mc, far)) return false;
    router_want(&mc->r, until);
    s->watched |= far->owner_bits;
    return true;
}

// What a best walk goes on with, if it may be contradicted yet.
static void watch(search *s, const walk *best) {
    if (best->far != NULL && s->mc->r.now < best->far->since + SETTLES * s->mc->r.config.delay) s->watched |= best->far->owner_bits;
}

static inline bool is_over_me(const search *s, const mincost_label *far) { return (far->owner_bits & s->mine) != 0; }

// No unit comes from that previous neighbour that could be taken off; for who has counted (braid_count). Only tokens reserve.
static bool is_shut(const mincost *mc, uint32_t k, uint32_t slot) {
    bool shut = !mc->carries[link_at(mc, k, ROUTER_PREVIOUS, slot)] || (mc->commit.reservations != 0 && mincost_free_inflow(mc, k, slot) <= 0);
#ifdef BRAID_CHECKED
    BRAID_ASSERT(shut == (mincost_free_inflow(mc, k, slot) <= 0));
#endif
    return shut;
}

// --- Arcs --------------------------------------------------------------------------------------------------------------

// `link`: what the arc itself costs.
static mincost_arc arc_with(const mincost *mc, const mincost_label *label, int64_t link) {
    bool ask = mc->minimise_bottleneck || (label->owner_bits & router_bit(mc->r.config.self)) != 0;
    bool settles = label->length > 1 && may_settle(mc, label);
    return (mincost_arc){ask ? MINCOST_RECOMPUTE : link + label->cost, settles ? label->since : ROUTER_NEVER};
}

static mincost_arc arc_now(const mincost *mc, uint32_t k, router_side side, uint32_t slot) {
    return arc_with(mc, label_from(mc, k, side, slot), side == ROUTER_NEXT ? link_cost(mc, side, slot) : -link_cost(mc, side, slot));
}

// Its label was `was`. What a link costs may be another number by now: then all arcs are put right before they are used (braid_follow_mean).
static void follow_arc(mincost *mc, uint32_t k, router_side side, uint32_t slot, const mincost_label *was) {
    mincost_arc *arc = arc_of(mc, k, side, slot);
    if (!mc->commodity[k].arcs_valid) return;
    *arc = arc->cost == MINCOST_RECOMPUTE ? arc_now(mc, k, side, slot) : arc_with(mc, label_from(mc, k, side, slot), arc->cost - was->cost);
}

// BRAID_CHECKED: what is known is still so.
static void check_arcs(const mincost *mc, uint32_t k, router_side side) {
#ifdef BRAID_CHECKED
    EACH_NEIGHBOUR(&mc->r, side, slot) {
        const mincost_arc now = arc_now(mc, k, side, slot), *arc = arc_of(mc, k, side, slot);
        BRAID_ASSERT(arc->cost == now.cost && arc->since == now.since);
    }
#endif
    (void)mc, (void)k, (void)side;
}

// Most steps change one label or none.
static void know_arcs(mincost *mc, uint32_t k, router_side side) {
    if (mc->commodity[k].arcs_valid)
        check_arcs(mc, k, side);
    else
        EACH_NEIGHBOUR(&mc->r, side, slot) {
            label_from(mc, k, side, slot)->neighbour_steps = 0;
            *arc_of(mc, k, side, slot) = arc_now(mc, k, side, slot);
        }
}

// --- Searching ---------------------------------------------------------------------------------------------------------

static inline bool is_dear(int64_t cost, const walk *direct, const walk *through) { return cost > direct->cost && cost > through->cost; }

// No arc that costs more is of use any more.
static inline int64_t dearest(const search *s, const walk *direct, const walk *through) {
    return (direct->cost > through->cost ? direct->cost : through->cost) - s->epsilon;
}

// One residual arc from `here` to a far half; `cost` is that of the walk over it. `direct` gathers walks from `here`, `through` those that
// my other half, with the inner arc of cost `inner` (BRAID_NOWHERE: shut), may put itself before.
static void consider(search *s, router_half here, router_half other, int64_t inner, int64_t cost,
                     mincost_label *far, router_peer over, bool was_choice, walk *direct, walk *through) {
    bool over_me = is_over_me(s, far);
    int at = over_me ? mincost_position_of(far, here) : -1;
    if (at == 1) return;  // forth and back over one link: a gain only while its two ends price it differently
    if (at >= 0) {
        found_cycle(s, cost - far->at[at], 0, here, far, at);
        return;
    }
    int closes = over_me ? mincost_position_of(far, other) : -1;
    if (closes < 0 && is_dear(cost, direct, through)) return;
    if (s->settled && is_contradicted(s, far)) return;
    offer(direct, cost, far, over, was_choice);
    if (closes < 0)
        offer(through, cost, far, over, was_choice);
    else if (inner < MINCOST_INFINITY)
        found_cycle(s, inner + cost - far->at[closes], other, here, far, closes);
}

static bool put_half(mincost_label *label, uint32_t i, router_half half, int64_t at) {
    bool another = label->node[i] != half || label->at[i] != at;
    label->node[i] = half;
    label->at[i] = at;
    return another;
}

static uint32_t far_length(const walk *w) { return w->far == NULL ? 0 : w->far->length; }

// A walk that gains nothing or grows too long is the empty one.
static bool is_label(const walk *w, int64_t cost, int64_t floor, uint32_t count, uint32_t limit) {
    return cost < floor && far_length(w) + count <= limit;
}

// `halves` with their costs `at`, then the walk's far path. True: it is another label than before.
static bool set_label(mincost_label *label, int64_t floor, uint32_t limit, const walk *w, const router_half *halves,
                      const int64_t *at, uint32_t count) {
    bool walks = is_label(w, at[0], floor, count, limit);
    uint32_t far = walks ? far_length(w) : 0, length = walks ? count + far : floor < 0;
    int64_t cost = walks ? at[0] : floor;
    bool another = label->cost != cost || label->length != length;
    label->cost = cost;
    label->length = length;
    label->owner_bits = router_bit(router_owner(halves[0])) | (far > 0 ? w->far->owner_bits : 0);
    if (!walks) return put_half(label, 0, halves[0], floor) || another;
    for (uint32_t i = 0; i < count; i++) another |= put_half(label, i, halves[i], at[i]);
    for (uint32_t i = 0; i < far; i++) another |= put_half(label, count + i, w->far->node[i], w->far->at[i]);
    return another;
}

// The label of one half: its own best walk, or, over the inner arc, the other half's (which may be empty: a data peer
// gains by one more unit before anybody knows its way). True: it is another one than before.
static bool choose_label(mincost_label *label, int64_t floor, uint32_t limit, router_half here, router_half other,
                         const walk *direct, const walk *through, int64_t inner) {
    int64_t cost = is_label(direct, direct->cost, floor, 1, limit) ? direct->cost : floor;
    if (inner >= MINCOST_INFINITY || inner + through->cost >= cost)
        return set_label(label, floor, limit, direct, &here, &direct->cost, 1);
    router_half halves[2] = {here, other};
    int64_t at[2] = {inner + through->cost, through->cost};
    return set_label(label, floor, limit, through, halves, at, 2);
}

// Cheaper than rng_seed, and good where only equal or not matters.
static uint64_t fold(uint64_t hash, uint64_t value) {
    hash = (hash ^ value) * 0x9e3779b97f4a7c15u;
    return hash ^ hash >> 32;
}

uint64_t mincost_label_hash(const mincost_label *label) {
    if (label->length == 0) return 0;
    uint64_t hash = rng_seed(label->length, (uint64_t)label->cost);
    for (uint32_t i = 0; i < label->length; i++)
        hash = fold(fold(hash, (uint64_t)label->at[i]), label->node[i]);
    return hash | 1;
}

// --- Settling ----------------------------------------------------------------------------------------------------------

static bool settles(mincost *mc, int64_t at) {
    if (mc->r.now < at) {
        router_want(&mc->r, at);
        return false;
    }
    mc->settle_count++;
    return true;
}

static int64_t own_settles_at(const mincost *mc, const mincost_commodity *c) {
    int64_t in = c->in.cost < c->in_floor ? settles_at(mc, &c->in) : ROUTER_NEVER;
    int64_t out = c->out.cost < c->out_floor ? settles_at(mc, &c->out) : ROUTER_NEVER;
    return in < out ? in : out;
}

// What has settled stays true whatever becomes of the walk: any costs of halves do, if no arc shows a gain against them.
static void settle_side(mincost *mc, uint32_t k, router_side side) {
    mincost_arc *arcs = arc_of(mc, k, side, 0);
    EACH_NEIGHBOUR(&mc->r, side, slot) {
        mincost_arc *arc = &arcs[slot];
        if (arc->since == ROUTER_NEVER || is_settled_enough(mc)) continue;
        if (!settles(mc, arc->since + SETTLES * mc->r.config.delay)) continue;
        label_from(mc, k, side, slot)->length = 1;
        arc->since = ROUTER_NEVER;
    }
}

static void settle_own(mincost *mc, mincost_commodity *c) {
    if (c->in.cost < c->in_floor && settles(mc, settles_at(mc, &c->in))) c->in_floor = c->in.cost;
    if (c->out.cost < c->out_floor && settles(mc, settles_at(mc, &c->out))) c->out_floor = c->out.cost;
}

// A label of mine before it was looked for anew, and what goes on from it then.
typedef struct former {
    int64_t cost;
    uint32_t length;
    uint64_t hash;
    router_peer choice;
} former;

// It costs the same and goes the same way, and of the rest of the way less is known: nobody needs to hear of that. As much that is known
// is another way.
static bool only_settled(const mincost *mc, const mincost_label *label, router_peer choice, const former *was) {
    if (label->cost != was->cost || label->length >= was->length) return false;
    return label->cost > -unit_value(mc) / SETTLED && (label->length == 1 || choice == was->choice);
}

// Its hash, and since when it has been what it is. True: it only settled.
static bool note(const mincost *mc, mincost_label *label, uint64_t *hash, router_peer choice, const former *was, bool settled) {
    *hash = mincost_label_hash(label);
    if (*hash == was->hash) return false;
    if (settled && only_settled(mc, label, choice, was)) return true;
    label->since = mc->r.now;
    return false;
}

// Who was told the label before passes for told.
static void note_in(mincost *mc, uint32_t k, const former *was, bool settled) {
    mincost_commodity *c = &mc->commodity[k];
    if (!note(mc, &c->in, &c->in_hash, c->in_next_hop, was, settled)) return;
    EACH_NEIGHBOUR(&mc->r, ROUTER_PREVIOUS, p) {
        mincost_sent_label *t = sent_of(mc, k, ROUTER_PREVIOUS, p);
        if (t->hash != was->hash) continue;
        t->hash = c->in_hash;
        t->has_path = c->in.length > 1;
    }
}

static void note_out(mincost *mc, uint32_t k, const former *was, bool settled) {
    mincost_commodity *c = &mc->commodity[k];
    if (!note(mc, &c->out, &c->out_hash, c->out_next_hop, was, settled)) return;
    EACH_NEIGHBOUR(&mc->r, ROUTER_NEXT, n) {
        mincost_sent_label *t = sent_of(mc, k, ROUTER_NEXT, n);
        if (t->hash != was->hash) continue;
        t->hash = c->out_hash;
        t->has_path = c->out.length > 1;
    }
}

// The same would be chosen again: of walks that cost the same none has lost what put it before the others.
static bool is_kept(router_peer was, const walk *direct, const walk *through) { return direct->over == was || through->over != was; }

static void keep_best(mincost_search_cache *found, router_side side, const walk *direct, const walk *through) {
    found->best[side].direct = direct->over;
    found->best[side].direct_cost = direct->cost;
    found->best[side].through = through->over;
    found->best[side].through_cost = through->cost;
}

static uint32_t look(mincost *mc, uint32_t k, mincost_search_cache *found, router_half cycle[ROUTER_MAX_CYCLE]) {
    mincost_commodity *c = &mc->commodity[k];
    router_half in = router_in(mc->r.config.self), out = router_out(mc->r.config.self);
    int64_t minus = mc->r.is_source ? unit_value(mc) : 0, plus = -minus;
    if (!found->room || (mc->r.is_source && !mincost_wants_augmenting_path(mc))) plus = MINCOST_INFINITY;
    search s = {mc, found->settled, router_bit(mc->r.config.self), found->epsilon, 0, 0, cycle, 0};
    const former in_was = {c->in.cost, c->in.length, c->in_hash, c->in_next_hop};
    const former out_was = {c->out.cost, c->out.length, c->out_hash, c->out_next_hop};
    walk out_direct = {.cost = c->out_floor, .rank = STAYS}, out_through = out_direct;
    walk in_direct = {.cost = c->in_floor, .rank = STAYS}, in_through = in_direct;
    const mincost_arc *next = arc_of(mc, k, ROUTER_NEXT, 0), *previous = arc_of(mc, k, ROUTER_PREVIOUS, 0);
    const bool *feeds = &mc->carries[link_at(mc, k, ROUTER_PREVIOUS, 0)];
    EACH_NEIGHBOUR(&mc->r, ROUTER_NEXT, slot) {
        if (next[slot].cost > dearest(&s, &out_direct, &out_through)) continue;  // most of them
        router_peer peer = mc->r.slot[ROUTER_NEXT][slot].peer;
        mincost_label *far = &downstream_of(mc, k, slot)->label;
        int64_t cost = added_cost(mc, slot) + far->cost + s.epsilon;
        consider(&s, out, in, plus, cost, far, peer, peer == c->out_next_hop, &out_direct, &out_through);
    }
    EACH_NEIGHBOUR(&mc->r, ROUTER_PREVIOUS, slot) {
        // What is in the cache says no to most of them, before the link itself is read.
        if (!feeds[slot] || previous[slot].cost > dearest(&s, &in_direct, &in_through) || is_shut(mc, k, slot)) continue;
        router_peer peer = mc->r.slot[ROUTER_PREVIOUS][slot].peer;
        mincost_label *far = &upstream_of(mc, k, slot)->label;
        int64_t cost = -saved_cost(mc, ROUTER_PREVIOUS, slot) + far->cost + s.epsilon;
        consider(&s, in, out, minus, cost, far, peer, peer == c->in_next_hop, &in_direct, &in_through);
    }
    c->out_next_hop = out_direct.over;
    c->in_next_hop = in_direct.over;
    // A walk from O over O -> I continues with I's own walk, and the other way round.
    uint32_t limit = mc->r.config.path_limit;
    bool another_out = choose_label(&c->out, c->out_floor, limit, out, in, &out_direct, &in_through, minus);
    bool another_in = choose_label(&c->in, c->in_floor, limit, in, out, &in_direct, &out_through, plus);
    if (another_in || another_out) c->updates = MINCOST_UPDATES_UNKNOWN;
    if (another_in) note_in(mc, k, &in_was, s.settled);
    if (another_out) note_out(mc, k, &out_was, s.settled);
    found->known = s.length == 0 && is_kept(in_was.choice, &in_direct, &in_through) && is_kept(out_was.choice, &out_direct, &out_through);
    keep_best(found, ROUTER_NEXT, &out_direct, &out_through);
    keep_best(found, ROUTER_PREVIOUS, &in_direct, &in_through);
    const walk *best[] = {&out_direct, &out_through, &in_direct, &in_through};
    for (size_t i = 0; i < sizeof best / sizeof *best; i++) watch(&s, best[i]);
    found->watched = s.watched;
    return s.length;
}

// --- What need not be looked for again ---------------------------------------------------------------------------------

// As they were found last time, with the same that there is now.
static bool is_calm(const mincost *mc, const mincost_search_cache *was, const mincost_search_cache *now) {
    return was->known && mc->r.now < was->until && was->room == now->room && was->settled == now->settled && was->mature == now->mature &&
           was->settle_count == now->settle_count && was->epsilon == now->epsilon;
}

static uint32_t look_anew(mincost *mc, uint32_t k, mincost_search_cache *now, router_half cycle[ROUTER_MAX_CYCLE]) {
    mincost_commodity *c = &mc->commodity[k];
    int64_t others = mc->r.deadline, own = ROUTER_NEVER;
    mc->r.deadline = ROUTER_NEVER;
    know_arcs(mc, k, ROUTER_NEXT);
    know_arcs(mc, k, ROUTER_PREVIOUS);
    c->arcs_valid = true;
    mincost_update_sums(mc, k);
    if (now->settled) settle_side(mc, k, ROUTER_NEXT);
    if (now->settled) settle_side(mc, k, ROUTER_PREVIOUS);
    int64_t neighbours = mc->r.deadline;
    if (now->settled) settle_own(mc, c);
    if (mc->r.deadline < others) others = mc->r.deadline;  // that of labels which may be others in a moment
    mc->r.deadline = neighbours;
    uint32_t length = look(mc, k, now, cycle);
    if (now->settled) own = own_settles_at(mc, c);
    now->until = mc->r.deadline < own ? mc->r.deadline : own;
    now->known &= mc->settle_count == now->settle_count && !mc->minimise_bottleneck && !mc->r.is_source;  // what links cost there depends on more
    router_want(&mc->r, others);
    return length;
}

// BRAID_CHECKED: it is looked for all the same.
static void check_calm(mincost *mc, uint32_t k, mincost_search_cache *now, router_half *cycle) {
#ifdef BRAID_CHECKED
    const mincost_commodity *c = &mc->commodity[k], was = *c;
    uint32_t length = look_anew(mc, k, now, cycle);
    BRAID_ASSERT(length == 0 && now->known && now->until == was.calm.until && c->in_hash == was.in_hash && c->out_hash == was.out_hash);
    BRAID_ASSERT(c->in_next_hop == was.in_next_hop && c->out_next_hop == was.out_next_hop);
#endif
    (void)mc, (void)k, (void)now, (void)cycle;
}

uint32_t mincost_update_labels(mincost *mc, uint32_t k, router_half cycle[ROUTER_MAX_CYCLE]) {
    mincost_commodity *c = &mc->commodity[k];
    mincost_search_cache now = {.settled = can_settle(mc), .room = mincost_room(mc) >= 1, .mature = mincost_is_mature(mc), .settle_count = mc->settle_count, .epsilon = epsilon_of(mc)};
    if (is_calm(mc, &c->cache, &now)) {
        check_calm(mc, k, &now, cycle);
        router_want(&mc->r, c->cache.until);
        return 0;
    }
    uint32_t length = look_anew(mc, k, &now, cycle);
    c->cache = now;
    return length;
}

// Whether a walk that goes on with the label could be one of the best, or close a cycle.
static bool may_count(const mincost *mc, uint32_t k, router_side side, uint32_t slot, const mincost_label *label) {
    const mincost_search_cache *c = &mc->commodity[k].cache;
    router_peer self = mc->r.config.self;
    if (side == ROUTER_PREVIOUS && is_shut(mc, k, slot)) return false;
    int64_t arc = arc_of(mc, k, side, slot)->cost;
    int64_t most_cost = c->best[side].direct_cost > c->best[side].through_cost ? c->best[side].direct_cost : c->best[side].through_cost;
    if (arc != MINCOST_RECOMPUTE) return arc + c->epsilon <= most_cost;
    int64_t cost = (side == ROUTER_NEXT ? 1 : -1) * link_cost(mc, side, slot) + label->cost + c->epsilon;
    if (cost <= most_cost) return true;
    int here = mincost_find_node(label, side == ROUTER_NEXT ? router_out(self) : router_in(self));
    if (here >= 0) return here != 1 && cost < label->at[here];
    return mincost_find_node(label, side == ROUTER_NEXT ? router_in(self) : router_out(self)) >= 0;
}

void mincost_label_received(mincost *mc, uint32_t k, router_side side, uint32_t slot, router_peer peer, const mincost_label *was) {
    mincost_search_cache *c = &mc->commodity[k].cache;
    const mincost_label *label = label_from(mc, k, side, slot);
    follow_arc(mc, k, side, slot, was);
    if (!c->known) return;
    c->known = peer != c->best[side].direct && peer != c->best[side].through && !may_count(mc, k, side, slot, label);
    if (!c->known || !c->settled) return;
    // What does not settle is looked at again when it is contradicted no more, if it is considered at all, and that depends on the others.
    int64_t at = settles_at(mc, label);
    bool settle = at != ROUTER_NEVER && settles_at(mc, was) != ROUTER_NEVER;
    bool wanted = was->length > 1 && was->since + SETTLES * mc->r.config.delay <= c->until;
    c->known = settle && !wanted && (c->watched & router_bit(peer)) == 0;
    if (label->length > 1 && at < c->until) c->until = at;
}
