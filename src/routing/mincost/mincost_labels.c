// Distance labels and negative cycles (distributed Bellman-Ford on the residual graph, Klein 1967).
//
// The label of a split node is its cheapest residual path with the cost from each node on it. Each
// peer sends its in node's label to previous neighbours, and its out node's label to next
// neighbours that it sends units to. A received path that contains an own node closes a cycle. If
// its cost is negative the peer starts a commit (mincost_cycle_commit.c).
//
// Damping: a label that has not changed for SETTLE_DELAYS settles. Its cost then stays valid as a
// node potential without a path to show for it, until a cheaper path is found. Node potentials need
// no path: they prove optimality as long as no arc has a negative reduced cost.
#include "routing/mincost/mincost.h"

#include "base/err.h"

enum {
    RANK_EMPTY = -2,     // rank of the empty path
    SEARCH_DELAYS = 30,  // after mincost_coarse_until, before the first label settles
    SETTLE_DELAYS = 40,  // age at which a label settles
    // per label, while nothing changes here: afterwards paths stay complete, so that cycles show
    MAX_SETTLES = 4,
    // labels below -(unit value / UNIT_SHARE) lead to a unit without a path and do not settle
    UNIT_SHARE = 8
};

// A residual path from an own node over one link, continued with the label received there.
typedef struct label_path {
    int64_t cost;
    int64_t rank;              // lower wins among equal costs: -1 for the previous next hop, else the length
    const mincost_label *far;  // NULL: the empty path
    router_peer over;
} label_path;

typedef struct label_search {
    mincost *mc;
    bool settled;   // labels may settle
    uint64_t mine;  // router_bit of this peer
    int64_t epsilon;
    uint64_t watched;  // owners of labels that may turn a considered path stale
    int64_t best;      // cost of the most negative cycle so far
    router_node *cycle;
    uint32_t length;
} label_search;

int mincost_position_of(const mincost_label *label, router_node half) {
    for (uint32_t i = 0; i < label->length; i++) {
        if (label->node[i] == half) return (int)i;
    }
    return -1;
}

static void offer_path(label_path *best, int64_t cost, const mincost_label *far, router_peer over, bool was_next_hop) {
    int64_t rank = was_next_hop ? -1 : (int64_t)far->length;
    if (cost > best->cost || (cost == best->cost && rank >= best->rank)) return;
    *best = (label_path){cost, rank, far, over};
}

// Records a cycle: `start` (0: none), `half`, then the far path up to position `upto`.
static void note_cycle(label_search *s, int64_t cost, router_node start, router_node half, const mincost_label *far,
                       int upto) {
    if (cost >= s->best) return;
    s->best = cost;
    s->length = 0;
    if (start != 0) s->cycle[s->length++] = start;
    s->cycle[s->length++] = half;
    for (int i = 0; i <= upto; i++) s->cycle[s->length++] = far->node[i];
}

// Single source with the sum objective, once small gains had enough time to be found.
static bool can_settle(mincost *mc) {
    if (mc->minimise_bottleneck || mincost_is_multi_source(&mc->r.config)) return false;
    int64_t at = mincost_coarse_until(mc) + SEARCH_DELAYS * mc->r.config.delay;
    // neighbours may have settled the labels they sent
    if (mc->r.now < at) router_want(&mc->r, at);
    return mc->r.now >= at;
}

// A path that would serve one more unit does not settle.
static bool may_settle(const mincost *mc, const mincost_label *label) {
    return label->cost > -unit_value(mc) / UNIT_SHARE;
}

static bool settles_exhausted(const mincost *mc) {
    return mc->settle_count >= MAX_SETTLES * (2 + mc->r.count[ROUTER_PREVIOUS] + mc->r.count[ROUTER_NEXT]);
}

// The time at which the label will have been unchanged for long enough.
static int64_t settle_time(const mincost *mc, const mincost_label *label) {
    if (!may_settle(mc, label) || settles_exhausted(mc)) return ROUTER_NEVER;
    return label->since + SETTLE_DELAYS * mc->r.config.delay;
}

// The path crosses a neighbour that reports a higher cost from there on. Its sender does not know
// this yet, or never will if that label has settled.
static bool is_path_stale(label_search *s, mincost_label *far) {
    mincost *mc = s->mc;
    int64_t until = far->since + SETTLE_DELAYS * mc->r.config.delay;
    if (mc->r.now >= until) return false;
    // otherwise a tick is due then anyway
    if (settle_time(mc, far) != until) s->watched |= far->owner_bits;
    if (!mincost_is_stale(mc, far)) return false;
    router_want(&mc->r, until);
    s->watched |= far->owner_bits;
    return true;
}

// Watches the owners of a best path that may still turn stale.
static void watch_path(label_search *s, const label_path *best) {
    if (best->far != NULL && s->mc->r.now < best->far->since + SETTLE_DELAYS * s->mc->r.config.delay)
        s->watched |= best->far->owner_bits;
}

static inline bool visits_self(const label_search *s, const mincost_label *far) {
    return (far->owner_bits & s->mine) != 0;
}

// The previous neighbour sends no unit that could be removed. Requires mincost_update_sums. Only
// commits reserve units.
static bool is_arc_closed(const mincost *mc, uint32_t k, uint32_t slot) {
    bool closed = !mc->carries[link_at(mc, k, ROUTER_PREVIOUS, slot)] ||
                  (mc->commit.reservations != 0 && mincost_free_inflow(mc, k, slot) <= 0);
#ifdef BRAID_CHECKED
    BRAID_ASSERT(closed == (mincost_free_inflow(mc, k, slot) <= 0));
#endif
    return closed;
}

// --- Arcs ----------------------------------------------------------------------------------------

// `link`: cost of the arc alone.
static mincost_arc make_arc(const mincost *mc, const mincost_label *label, int64_t link) {
    bool ask = mc->minimise_bottleneck || (label->owner_bits & router_bit(mc->r.config.self)) != 0;
    bool settles = label->length > 1 && may_settle(mc, label);
    return (mincost_arc){ask ? MINCOST_RECOMPUTE : link + label->cost, settles ? label->since : ROUTER_NEVER};
}

static mincost_arc current_arc(const mincost *mc, uint32_t k, router_side side, uint32_t slot) {
    return make_arc(mc, label_from(mc, k, side, slot),
                    side == ROUTER_NEXT ? link_cost(mc, side, slot) : -link_cost(mc, side, slot));
}

// Updates the cached arc after the label changed from `was`. A changed link cost is handled by
// mincost_update_mean, which invalidates all arcs.
static void update_arc(mincost *mc, uint32_t k, router_side side, uint32_t slot, const mincost_label *was) {
    mincost_arc *arc = arc_of(mc, k, side, slot);
    if (!mc->commodity[k].arcs_valid) return;
    *arc = arc->cost == MINCOST_RECOMPUTE ? current_arc(mc, k, side, slot)
                                          : make_arc(mc, label_from(mc, k, side, slot), arc->cost - was->cost);
}

// BRAID_CHECKED: the cached arcs are correct.
static void check_arcs(const mincost *mc, uint32_t k, router_side side) {
#ifdef BRAID_CHECKED
    EACH_NEIGHBOUR(&mc->r, side, slot) {
        const mincost_arc now = current_arc(mc, k, side, slot), *arc = arc_of(mc, k, side, slot);
        BRAID_ASSERT(arc->cost == now.cost && arc->since == now.since);
    }
#endif
    (void)mc, (void)k, (void)side;
}

// Recomputes the cached arcs only after an invalidation: most steps change one label or none.
static void refresh_arcs(mincost *mc, uint32_t k, router_side side) {
    if (mc->commodity[k].arcs_valid)
        check_arcs(mc, k, side);
    else
        EACH_NEIGHBOUR(&mc->r, side, slot) {
            label_from(mc, k, side, slot)->neighbour_steps = 0;
            *arc_of(mc, k, side, slot) = current_arc(mc, k, side, slot);
        }
}

// --- Relaxation ----------------------------------------------------------------------------------

static inline bool is_dominated(int64_t cost, const label_path *direct, const label_path *through) {
    return cost > direct->cost && cost > through->cost;
}

// Arcs with a higher cost cannot improve either path.
static inline int64_t cost_bound(const label_search *s, const label_path *direct, const label_path *through) {
    return (direct->cost > through->cost ? direct->cost : through->cost) - s->epsilon;
}

// Relaxes one residual arc from own node `here` to a far node. `cost` is that of the path over it.
// `direct` collects paths that start at `here`. `through` collects paths that start at the other
// own node and cross the inner arc of cost `inner` (MINCOST_INFINITY: closed).
static void relax_arc(label_search *s, router_node here, router_node other, int64_t inner, int64_t cost,
                      mincost_label *far, router_peer over, bool was_next_hop, label_path *direct,
                      label_path *through) {
    bool over_self = visits_self(s, far);
    int at = over_self ? mincost_position_of(far, here) : -1;
    // back and forth over one link is a gain only while its ends disagree about the cost
    if (at == 1) return;
    if (at >= 0) {
        note_cycle(s, cost - far->at[at], 0, here, far, at);
        return;
    }
    int closes = over_self ? mincost_position_of(far, other) : -1;
    if (closes < 0 && is_dominated(cost, direct, through)) return;
    if (s->settled && is_path_stale(s, far)) return;
    offer_path(direct, cost, far, over, was_next_hop);
    if (closes < 0)
        offer_path(through, cost, far, over, was_next_hop);
    else if (inner < MINCOST_INFINITY)
        note_cycle(s, inner + cost - far->at[closes], other, here, far, closes);
}

static bool put_node(mincost_label *label, uint32_t i, router_node half, int64_t at) {
    bool changed = label->node[i] != half || label->at[i] != at;
    label->node[i] = half;
    label->at[i] = at;
    return changed;
}

static uint32_t far_length(const label_path *w) { return w->far == NULL ? 0 : w->far->length; }

// A path without gain, or one that is too long, becomes the empty label.
static bool is_label(const label_path *w, int64_t cost, int64_t floor, uint32_t count, uint32_t limit) {
    return cost < floor && far_length(w) + count <= limit;
}

// Sets the label to `halves` with their costs `at`, followed by the far path. True: it has changed.
static bool set_label(mincost_label *label, int64_t floor, uint32_t limit, const label_path *w,
                      const router_node *halves, const int64_t *at, uint32_t count) {
    bool has_path = is_label(w, at[0], floor, count, limit);
    uint32_t far = has_path ? far_length(w) : 0, length = has_path ? count + far : floor < 0;
    int64_t cost = has_path ? at[0] : floor;
    bool changed = label->cost != cost || label->length != length;
    label->cost = cost;
    label->length = length;
    label->owner_bits = router_bit(router_owner(halves[0])) | (far > 0 ? w->far->owner_bits : 0);
    if (!has_path) return put_node(label, 0, halves[0], floor) || changed;
    for (uint32_t i = 0; i < count; i++) changed |= put_node(label, i, halves[i], at[i]);
    for (uint32_t i = 0; i < far; i++) changed |= put_node(label, count + i, w->far->node[i], w->far->at[i]);
    return changed;
}

// Chooses the label of one node: its own best path, or, over the inner arc, that of the other node.
// The latter may be empty: a data peer gains by one more unit before any path is known. True: it
// has changed.
static bool choose_label(mincost_label *label, int64_t floor, uint32_t limit, router_node here, router_node other,
                         const label_path *direct, const label_path *through, int64_t inner) {
    int64_t cost = is_label(direct, direct->cost, floor, 1, limit) ? direct->cost : floor;
    if (inner >= MINCOST_INFINITY || inner + through->cost >= cost)
        return set_label(label, floor, limit, direct, &here, &direct->cost, 1);
    router_node halves[2] = {here, other};
    int64_t at[2] = {inner + through->cost, through->cost};
    return set_label(label, floor, limit, through, halves, at, 2);
}

// Cheaper than rng_seed, and sufficient for equality tests.
static uint64_t fold(uint64_t hash, uint64_t value) {
    hash = (hash ^ value) * 0x9e3779b97f4a7c15u;
    return hash ^ hash >> 32;
}

uint64_t mincost_label_hash(const mincost_label *label) {
    if (label->length == 0) return 0;
    uint64_t hash = rng_seed(label->length, (uint64_t)label->cost);
    for (uint32_t i = 0; i < label->length; i++) hash = fold(fold(hash, (uint64_t)label->at[i]), label->node[i]);
    return hash | 1;
}

// --- Settling ------------------------------------------------------------------------------------

static bool settle_due(mincost *mc, int64_t at) {
    if (mc->r.now < at) {
        router_want(&mc->r, at);
        return false;
    }
    mc->settle_count++;
    return true;
}

static int64_t own_settle_time(const mincost *mc, const mincost_commodity *c) {
    int64_t in = c->in.cost < c->in_floor ? settle_time(mc, &c->in) : ROUTER_NEVER;
    int64_t out = c->out.cost < c->out_floor ? settle_time(mc, &c->out) : ROUTER_NEVER;
    return in < out ? in : out;
}

// A settled cost stays valid without its path: any node potentials do, while no arc shows a gain.
static void settle_received(mincost *mc, uint32_t k, router_side side) {
    mincost_arc *arcs = arc_of(mc, k, side, 0);
    EACH_NEIGHBOUR(&mc->r, side, slot) {
        mincost_arc *arc = &arcs[slot];
        if (arc->since == ROUTER_NEVER || settles_exhausted(mc)) continue;
        if (!settle_due(mc, arc->since + SETTLE_DELAYS * mc->r.config.delay)) continue;
        label_from(mc, k, side, slot)->length = 1;
        arc->since = ROUTER_NEVER;
    }
}

static void settle_own(mincost *mc, mincost_commodity *c) {
    if (c->in.cost < c->in_floor && settle_due(mc, settle_time(mc, &c->in))) c->in_floor = c->in.cost;
    if (c->out.cost < c->out_floor && settle_due(mc, settle_time(mc, &c->out))) c->out_floor = c->out.cost;
}

// A label and its next hop before a search.
typedef struct previous_label {
    int64_t cost;
    uint32_t length;
    uint64_t hash;
    router_peer choice;
} previous_label;

// Same cost and next hop, but a shorter known path: neighbours need no update. A path of equal
// length is a different path.
static bool only_path_forgotten(const mincost *mc, const mincost_label *label, router_peer choice,
                                const previous_label *was) {
    if (label->cost != was->cost || label->length >= was->length) return false;
    return label->cost > -unit_value(mc) / UNIT_SHARE && (label->length == 1 || choice == was->choice);
}

// Updates hash and age of a label. True: it only lost a settled part of its path.
static bool note_label(const mincost *mc, mincost_label *label, uint64_t *hash, router_peer choice,
                       const previous_label *was, bool settled) {
    *hash = mincost_label_hash(label);
    if (*hash == was->hash) return false;
    if (settled && only_path_forgotten(mc, label, choice, was)) return true;
    label->since = mc->r.now;
    return false;
}

// Neighbours that received the label before count as up to date.
static void note_in(mincost *mc, uint32_t k, const previous_label *was, bool settled) {
    mincost_commodity *c = &mc->commodity[k];
    if (!note_label(mc, &c->in, &c->in_hash, c->in_next_hop, was, settled)) return;
    EACH_NEIGHBOUR(&mc->r, ROUTER_PREVIOUS, p) {
        mincost_sent_label *t = sent_of(mc, k, ROUTER_PREVIOUS, p);
        if (t->hash != was->hash) continue;
        t->hash = c->in_hash;
        t->has_path = c->in.length > 1;
    }
}

static void note_out(mincost *mc, uint32_t k, const previous_label *was, bool settled) {
    mincost_commodity *c = &mc->commodity[k];
    if (!note_label(mc, &c->out, &c->out_hash, c->out_next_hop, was, settled)) return;
    EACH_NEIGHBOUR(&mc->r, ROUTER_NEXT, n) {
        mincost_sent_label *t = sent_of(mc, k, ROUTER_NEXT, n);
        if (t->hash != was->hash) continue;
        t->hash = c->out_hash;
        t->has_path = c->out.length > 1;
    }
}

// A new search would choose the same next hop: no path of equal cost lost its priority.
static bool keeps_next_hop(router_peer was, const label_path *direct, const label_path *through) {
    return direct->over == was || through->over != was;
}

static void cache_best(mincost_search_cache *found, router_side side, const label_path *direct,
                       const label_path *through) {
    found->best[side].direct = direct->over;
    found->best[side].direct_cost = direct->cost;
    found->best[side].through = through->over;
    found->best[side].through_cost = through->cost;
}

static uint32_t search_labels(mincost *mc, uint32_t k, mincost_search_cache *found,
                              router_node cycle[ROUTER_MAX_CYCLE]) {
    mincost_commodity *c = &mc->commodity[k];
    router_node in = router_in(mc->r.config.self), out = router_out(mc->r.config.self);
    int64_t minus = mc->r.is_source ? unit_value(mc) : 0, plus = -minus;
    if (!found->room || (mc->r.is_source && !mincost_wants_augmenting_path(mc))) plus = MINCOST_INFINITY;
    label_search s = {mc, found->settled, router_bit(mc->r.config.self), found->epsilon, 0, 0, cycle, 0};
    const previous_label in_was = {c->in.cost, c->in.length, c->in_hash, c->in_next_hop};
    const previous_label out_was = {c->out.cost, c->out.length, c->out_hash, c->out_next_hop};
    label_path out_direct = {.cost = c->out_floor, .rank = RANK_EMPTY}, out_through = out_direct;
    label_path in_direct = {.cost = c->in_floor, .rank = RANK_EMPTY}, in_through = in_direct;
    const mincost_arc *next = arc_of(mc, k, ROUTER_NEXT, 0), *previous = arc_of(mc, k, ROUTER_PREVIOUS, 0);
    const bool *carries = &mc->carries[link_at(mc, k, ROUTER_PREVIOUS, 0)];
    EACH_NEIGHBOUR(&mc->r, ROUTER_NEXT, slot) {
        if (next[slot].cost > cost_bound(&s, &out_direct, &out_through)) continue;  // most arcs
        router_peer peer = mc->r.slot[ROUTER_NEXT][slot].peer;
        mincost_label *far = &downstream_of(mc, k, slot)->label;
        int64_t cost = added_cost(mc, slot) + far->cost + s.epsilon;
        relax_arc(&s, out, in, plus, cost, far, peer, peer == c->out_next_hop, &out_direct, &out_through);
    }
    EACH_NEIGHBOUR(&mc->r, ROUTER_PREVIOUS, slot) {
        // The cached arc rejects most neighbours before the link itself is read.
        if (!carries[slot] || previous[slot].cost > cost_bound(&s, &in_direct, &in_through) ||
            is_arc_closed(mc, k, slot))
            continue;
        router_peer peer = mc->r.slot[ROUTER_PREVIOUS][slot].peer;
        mincost_label *far = &upstream_of(mc, k, slot)->label;
        int64_t cost = -saved_cost(mc, ROUTER_PREVIOUS, slot) + far->cost + s.epsilon;
        relax_arc(&s, in, out, minus, cost, far, peer, peer == c->in_next_hop, &in_direct, &in_through);
    }
    c->out_next_hop = out_direct.over;
    c->in_next_hop = in_direct.over;
    // The path of one node over the inner arc continues with the direct path of the other node.
    uint32_t limit = mc->r.config.path_limit;
    bool out_changed = choose_label(&c->out, c->out_floor, limit, out, in, &out_direct, &in_through, minus);
    bool in_changed = choose_label(&c->in, c->in_floor, limit, in, out, &in_direct, &out_through, plus);
    if (in_changed || out_changed) c->updates = MINCOST_UPDATES_UNKNOWN;
    if (in_changed) note_in(mc, k, &in_was, s.settled);
    if (out_changed) note_out(mc, k, &out_was, s.settled);
    found->known = s.length == 0 && keeps_next_hop(in_was.choice, &in_direct, &in_through) &&
                   keeps_next_hop(out_was.choice, &out_direct, &out_through);
    cache_best(found, ROUTER_NEXT, &out_direct, &out_through);
    cache_best(found, ROUTER_PREVIOUS, &in_direct, &in_through);
    const label_path *best[] = {&out_direct, &out_through, &in_direct, &in_through};
    for (size_t i = 0; i < sizeof best / sizeof *best; i++) watch_path(&s, best[i]);
    found->watched = s.watched;
    return s.length;
}

// --- Cached searches -----------------------------------------------------------------------------

// The inputs are those of the last search, so its result is still valid.
static bool is_cached(const mincost *mc, const mincost_search_cache *was, const mincost_search_cache *now) {
    return was->known && mc->r.now < was->until && was->room == now->room && was->settled == now->settled &&
           was->mature == now->mature && was->settle_count == now->settle_count && was->epsilon == now->epsilon;
}

static uint32_t run_search(mincost *mc, uint32_t k, mincost_search_cache *now, router_node cycle[ROUTER_MAX_CYCLE]) {
    mincost_commodity *c = &mc->commodity[k];
    int64_t others = mc->r.deadline, own = ROUTER_NEVER;
    mc->r.deadline = ROUTER_NEVER;
    refresh_arcs(mc, k, ROUTER_NEXT);
    refresh_arcs(mc, k, ROUTER_PREVIOUS);
    c->arcs_valid = true;
    mincost_update_sums(mc, k);
    if (now->settled) settle_received(mc, k, ROUTER_NEXT);
    if (now->settled) settle_received(mc, k, ROUTER_PREVIOUS);
    int64_t neighbours = mc->r.deadline;
    if (now->settled) settle_own(mc, c);
    // the deadline of own labels may move below
    if (mc->r.deadline < others) others = mc->r.deadline;
    mc->r.deadline = neighbours;
    uint32_t length = search_labels(mc, k, now, cycle);
    if (now->settled) own = own_settle_time(mc, c);
    now->until = mc->r.deadline < own ? mc->r.deadline : own;
    // there a link's cost depends on further state
    now->known &= mc->settle_count == now->settle_count && !mc->minimise_bottleneck && !mc->r.is_source;
    router_want(&mc->r, others);
    return length;
}

// BRAID_CHECKED: searches anyway and compares.
static void check_cache(mincost *mc, uint32_t k, mincost_search_cache *now, router_node *cycle) {
#ifdef BRAID_CHECKED
    const mincost_commodity *c = &mc->commodity[k], was = *c;
    uint32_t length = run_search(mc, k, now, cycle);
    BRAID_ASSERT(length == 0 && now->known && now->until == was.cache.until && c->in_hash == was.in_hash &&
                 c->out_hash == was.out_hash);
    BRAID_ASSERT(c->in_next_hop == was.in_next_hop && c->out_next_hop == was.out_next_hop);
#endif
    (void)mc, (void)k, (void)now, (void)cycle;
}

uint32_t mincost_update_labels(mincost *mc, uint32_t k, router_node cycle[ROUTER_MAX_CYCLE]) {
    mincost_commodity *c = &mc->commodity[k];
    mincost_search_cache now = {.settled = can_settle(mc),
                                .room = mincost_room(mc) >= 1,
                                .mature = mincost_is_mature(mc),
                                .settle_count = mc->settle_count,
                                .epsilon = epsilon_of(mc)};
    if (is_cached(mc, &c->cache, &now)) {
        check_cache(mc, k, &now, cycle);
        router_want(&mc->r, c->cache.until);
        return 0;
    }
    uint32_t length = run_search(mc, k, &now, cycle);
    c->cache = now;
    return length;
}

// A path that continues with this label may be a best one or close a cycle.
static bool may_matter(const mincost *mc, uint32_t k, router_side side, uint32_t slot, const mincost_label *label) {
    const mincost_search_cache *c = &mc->commodity[k].cache;
    router_peer self = mc->r.config.self;
    if (side == ROUTER_PREVIOUS && is_arc_closed(mc, k, slot)) return false;
    int64_t arc = arc_of(mc, k, side, slot)->cost;
    int64_t most_cost = c->best[side].direct_cost > c->best[side].through_cost ? c->best[side].direct_cost
                                                                               : c->best[side].through_cost;
    if (arc != MINCOST_RECOMPUTE) return arc + c->epsilon <= most_cost;
    int64_t cost = (side == ROUTER_NEXT ? 1 : -1) * link_cost(mc, side, slot) + label->cost + c->epsilon;
    if (cost <= most_cost) return true;
    int here = mincost_find_node(label, side == ROUTER_NEXT ? router_out(self) : router_in(self));
    if (here >= 0) return here != 1 && cost < label->at[here];
    return mincost_find_node(label, side == ROUTER_NEXT ? router_in(self) : router_out(self)) >= 0;
}

void mincost_label_received(mincost *mc, uint32_t k, router_side side, uint32_t slot, router_peer peer,
                            const mincost_label *was) {
    mincost_search_cache *c = &mc->commodity[k].cache;
    const mincost_label *label = label_from(mc, k, side, slot);
    update_arc(mc, k, side, slot, was);
    if (!c->known) return;
    c->known = peer != c->best[side].direct && peer != c->best[side].through && !may_matter(mc, k, side, slot, label);
    if (!c->known || !c->settled) return;
    // A label that does not settle is examined again when it can no longer turn stale, if it is
    // considered at all. That depends on the other labels.
    int64_t at = settle_time(mc, label);
    bool settle = at != ROUTER_NEVER && settle_time(mc, was) != ROUTER_NEVER;
    bool wanted = was->length > 1 && was->since + SETTLE_DELAYS * mc->r.config.delay <= c->until;
    c->known = settle && !wanted && (c->watched & router_bit(peer)) == 0;
    if (label->length > 1 && at < c->until) c->until = at;
}
