// Updates to neighbours: distance labels, adverts of room and distance, bids; and their rate
// limits.
//
// 1. Hold-down: labels go out every `hold` delays. Repeating recent labels (flapping) doubles the
//    interval.
// 2. Cost-scaled update delay: an update crosses a cheap link earlier, so that a peer mostly learns
//    the best path first. Risen distances are urgent in mature routers and wait for nothing.
// 3. Split horizon: a path that leads back over the receiver is not sent to it.
// 4. No gain: a label that cannot help the receiver is sent as the empty label, once.
//
// The measurements behind the constants are in docs/results/f7.md and docs/results/churn.md.
#include "routing/mincost/mincost.h"

#include "base/err.h"

enum {
    // factor on the delay of improvements over links without units, in a mature router; with the
    // default `lazy` an update still arrives before labels settle
    UNUSED_FACTOR = 5
};

// URGENT_UPDATES: risen distances only
typedef enum update_urgency { ALL_UPDATES, URGENT_UPDATES } update_urgency;

// A data peer receives updates about its own units only.
static bool is_relevant_to(const router *r, router_peer peer, uint32_t k) {
    return r->config.source_count == 1 || peer == r->source[k] || !router_names_source(&r->config, peer);
}

// Distance to the sink through this peer and peers with room, and the units that would be accepted.
static int64_t own_distance(const mincost *mc, uint32_t k, int32_t *room) {
    *room = most(0, mc->r.is_source ? (int32_t)mc->r.config.capacity - mincost_total_in(mc, k) : mincost_room(mc));
    if (mc->r.is_source) return 0;
    int32_t deficit = -mincost_excess(mc, k);
    if (deficit > 0 && !mc->greedy) {
        *room = deficit;
        return MINCOST_DEFICIT;
    }
    int64_t distance = MINCOST_INFINITY;
    bool full = *room == 0;
    EACH_NEIGHBOUR(&mc->r, ROUTER_NEXT, slot) {
        if (!has_room(advert_of(mc, k, ROUTER_NEXT, slot))) continue;
        int64_t cost = mincost_distance_over(mc, k, slot);
        if (cost < distance) distance = cost;
    }
    if (distance >= MINCOST_INFINITY) *room = 0;
    if (full) *room = mincost_auction_offer(mc, k, &distance);
    if (*room == 0) distance = MINCOST_INFINITY;
    return distance;
}

static router_outgoing *post_label(mincost *mc, uint32_t k, router_peer to, router_side side) {
    router_outgoing *o = router_post(&mc->r, to, ROUTER_LABEL);
    o->k = (uint8_t)k;
    o->side = (uint8_t)side;
    return o;
}

// Several data peers: only risen distances are delayed. The worst consequence is one failed commit,
// and further changes may join the update meanwhile.
static int64_t raised_update_time(const mincost *mc, const mincost_sent_label *t, int64_t sent_at, int64_t cost) {
    return t->cost >= MINCOST_INFINITY || cost < t->cost ? mc->r.now : sent_at + mc->r.config.lazy * mc->r.config.delay;
}

// One delay for links of mean cost or more, less in proportion for cheaper links.
static int64_t delay_by_cost(const mincost *mc, int64_t link) {
    return mc->r.config.delay * (link < mc->mean_cost ? link : mc->mean_cost) / mc->mean_cost;
}

// A single source delays every update in proportion to the cost of the link, up to the mean. A peer
// thus mostly learns the cheapest path first and retracts less. `unused`: most receivers behind an
// unused link have a better path, so a mature router delays longer.
static int64_t dear_link_time(const mincost *mc, mincost_sent_label *t, int64_t link, bool unused) {
    if (t->changed_since == MINCOST_NEVER) t->changed_since = mc->r.now;
    return t->changed_since +
           mc->r.config.lazy * (unused && mincost_is_mature(mc) ? UNUSED_FACTOR : 1) * delay_by_cost(mc, link);
}

// An improvement of the out node's label, sent to neighbours that receive units: the more expensive
// the link that units could leave, the earlier.
static int64_t used_link_time(const mincost *mc, mincost_sent_label *t, int64_t link) {
    if (t->changed_since == MINCOST_NEVER) t->changed_since = mc->r.now;
    return t->changed_since + mc->r.config.lazy * (mc->r.config.delay - delay_by_cost(mc, link));
}

static bool is_delayed_until(mincost *mc, int64_t at) {
    if (mc->r.now >= at) return false;
    router_want(&mc->r, at);
    return true;
}

static bool delays_next(mincost *mc, mincost_sent_label *t, int64_t link) {
    return mc->r.config.lazy >= 0 && mincost_is_mature(mc) && is_delayed_until(mc, used_link_time(mc, t, link));
}

static bool delays_previous(mincost *mc, uint32_t k, uint32_t slot, int64_t link, int64_t cost, bool unused) {
    if (mc->r.config.lazy < 0) return false;
    mincost_sent_label *t = sent_of(mc, k, ROUTER_PREVIOUS, slot);
    // one more unit could find its path this way
    bool missing = cost < -unit_value(mc) / 2 && !mincost_is_mature(mc);
    if (!mincost_is_multi_source(&mc->r.config) && !missing)
        return is_delayed_until(mc, dear_link_time(mc, t, link, unused));
    return is_delayed_until(mc, raised_update_time(mc, t, upstream_of(mc, k, slot)->label_sent_at, cost));
}

// Split horizon: the label's path leads over the node at the other end of the arc, without a gain
// in going round.
static bool leads_back_to(const mincost *mc, const mincost_label *label, router_node there, int64_t arc) {
    int at = mincost_is_mature(mc) ? mincost_find_node(label, there) : -1;
    if (at <= 1) return at == 1;
    return arc + mc->r.config.slack + label->cost >= label->at[at];
}

static inline int64_t sent_cost(const mincost_sent_label *t) { return t->hash == 0 ? 0 : t->cost; }

// With the link's cost added, the label is no gain there, or none compared to the settled label
// there.
static inline bool has_no_gain(const mincost *mc, uint32_t k, const mincost_sent_label *t, uint32_t slot) {
    bool plain = !mincost_is_multi_source(&mc->r.config) && !mc->minimise_bottleneck;
    return plain && mc->commodity[k].in.cost + link_cost(mc, ROUTER_PREVIOUS, slot) >= t->floor;
}

// send_in_label would neither send nor record anything, as for most neighbours.
static inline bool is_up_to_date(const mincost *mc, uint32_t k, const mincost_sent_label *t, uint32_t slot,
                                 router_peer to, update_urgency what) {
    const mincost_label *in = &mc->commodity[k].in;
    if (t->changed_since != MINCOST_NEVER) return false;
    if (what == URGENT_UPDATES && in->cost <= sent_cost(t)) return true;
    // the path may lead back to it
    if (mc->mature && (in->owner_bits & router_bit(to)) != 0) return false;
    return t->hash == (has_no_gain(mc, k, t, slot) ? 0 : mc->commodity[k].in_hash);
}

// A label that is no gain for the receiver is sent as the empty one. So is an improvement that
// leads back to the receiver, but only if the last label sent had a path, which may be gone.
static bool send_in_label(mincost *mc, uint32_t k, uint32_t slot, router_peer to, update_urgency what) {
    const mincost_commodity *c = &mc->commodity[k];
    mincost_sent_label *t = sent_of(mc, k, ROUTER_PREVIOUS, slot);
    int64_t sent = sent_cost(t);
    int64_t link = link_cost(mc, ROUTER_PREVIOUS, slot);
    bool leads_back = leads_back_to(mc, &c->in, router_out(to), link),
         no_gain = has_no_gain(mc, k, t, slot) || (leads_back && t->has_path);
    uint64_t word = no_gain ? 0 : c->in_hash;
    bool still = (no_gain && sent + link >= t->floor) || (leads_back && c->in.cost <= sent);
    bool up_to_date = t->hash == word || (still && !t->has_path);
    if (up_to_date) t->changed_since = MINCOST_NEVER;
    bool raised = c->in.cost > sent, unused = !raised && !mc->carries[link_at(mc, k, ROUTER_PREVIOUS, slot)];
    if (up_to_date || (what == URGENT_UPDATES && !raised)) return false;
    if (!(raised && mincost_is_mature(mc)) && delays_previous(mc, k, slot, link, c->in.cost, unused)) return false;
    post_label(mc, k, to, ROUTER_PREVIOUS)->extra = no_gain ? MINCOST_SEND_EMPTY : MINCOST_SEND_LABEL;
    *t = (mincost_sent_label){.hash = word,
                              .cost = c->in.cost,
                              .changed_since = MINCOST_NEVER,
                              .floor = t->floor,
                              .has_path = !no_gain && c->in.length > 1};
    upstream_of(mc, k, slot)->label_sent_at = mc->r.now;
    return true;
}

// BRAID_CHECKED: send_in_label agrees with is_up_to_date.
static bool send_in_label_if_new(mincost *mc, uint32_t k, uint32_t slot, router_peer to, update_urgency what) {
    if (!is_up_to_date(mc, k, sent_of(mc, k, ROUTER_PREVIOUS, slot), slot, to, what))
        return send_in_label(mc, k, slot, to, what);
#ifdef BRAID_CHECKED
    const mincost_sent_label was = *sent_of(mc, k, ROUTER_PREVIOUS, slot), *is = sent_of(mc, k, ROUTER_PREVIOUS, slot);
    int64_t deadline = mc->r.deadline;
    bool sent = send_in_label(mc, k, slot, to, what);
    BRAID_ASSERT(!sent && mc->r.deadline == deadline && is->hash == was.hash && is->changed_since == was.changed_since);
#endif
    return false;
}

// 1: a path for one more unit; 0: none; -1: units are missing here.
static int advert_state(int64_t distance, int32_t room) {
    if (distance == MINCOST_DEFICIT) return -1;
    return room > 0 && distance < MINCOST_INFINITY;
}

// Distance and room change with each commit and matter only while units look for paths. A single
// source still sends at once whether there is room at all, because a unit needs nothing else to
// start.
static bool holds_advert(const mincost *mc, const mincost_advert *sent, int64_t distance, int32_t room) {
    if (mc->greedy || mc->r.now < mc->updates.adverts_until || sent->distance == MINCOST_RESEND) return false;
    if (mincost_is_multi_source(&mc->r.config)) return true;
    return mincost_is_mature(mc) && advert_state(sent->distance, sent->room) == advert_state(distance, room);
}

static bool send_advert(mincost *mc, uint32_t k, mincost_advert *sent, router_peer to, int64_t distance, int32_t room) {
    uint32_t scale = mc->minimise_bottleneck ? mincost_scale_word(mc) : sent->scale;
    if (sent->distance == distance && sent->room == room && sent->scale == scale) return false;
    if (sent->scale == scale && holds_advert(mc, sent, distance, room)) return false;
    router_outgoing *o = router_post(&mc->r, to, ROUTER_ADVERT);
    o->k = (uint8_t)k;
    o->cost = distance;
    o->units = (uint32_t)room;
    o->scale = scale;
    *sent = (mincost_advert){distance, room, scale};
    return true;
}

// Kinds of updates: those to send, or those sent.
typedef struct update_kinds {
    bool labels, adverts, bids;
} update_kinds;

static void update_previous(mincost *mc, uint32_t k, update_kinds about, update_kinds *sent_kinds) {
    if (!about.labels && !about.adverts) return;
    int32_t room = 0;
    int64_t distance = about.adverts ? own_distance(mc, k, &room) : MINCOST_INFINITY;
    EACH_NEIGHBOUR(&mc->r, ROUTER_PREVIOUS, slot) {
        router_peer to = mc->r.slot[ROUTER_PREVIOUS][slot].peer;
        if (!is_relevant_to(&mc->r, to, k)) continue;
        if (about.labels) sent_kinds->labels |= send_in_label_if_new(mc, k, slot, to, ALL_UPDATES);
        if (about.adverts)
            sent_kinds->adverts |= send_advert(mc, k, advert_of(mc, k, ROUTER_PREVIOUS, slot), to, distance, room);
    }
}

static void post_out_label(mincost *mc, uint32_t k, uint32_t slot, bool no_gain) {
    const mincost_commodity *c = &mc->commodity[k];
    mincost_sent_label *t = sent_of(mc, k, ROUTER_NEXT, slot);
    post_label(mc, k, mc->r.slot[ROUTER_NEXT][slot].peer, ROUTER_NEXT)->extra = no_gain ? MINCOST_SEND_EMPTY
                                                                                        : MINCOST_SEND_LABEL;
    t->hash = no_gain ? 0 : c->out_hash;
    t->cost = c->out.cost;
    t->has_path = !no_gain && c->out.length > 1;
    if (no_gain || c->out.length != 1 || t->floor == c->out.cost) return;
    t->floor = c->out.cost;
    mincost_invalidate(mc);
}

// Sends the settled cost of the out node over an unused link when it is below the last one sent by
// the mean link cost. The receiver then skips labels that are no cheaper.
static bool send_floor(mincost *mc, uint32_t k, uint32_t slot) {
    const mincost_label *label = &mc->commodity[k].out;
    if (mc->minimise_bottleneck || mincost_is_multi_source(&mc->r.config) || label->length != 1) return false;
    if (label->cost >= sent_of(mc, k, ROUTER_NEXT, slot)->floor - mc->mean_cost) return false;
    post_out_label(mc, k, slot, false);
    return true;
}

static bool send_out_label(mincost *mc, uint32_t k, uint32_t slot, update_urgency what) {
    if (!mc->carries[link_at(mc, k, ROUTER_NEXT, slot)]) return what == ALL_UPDATES && send_floor(mc, k, slot);
    const mincost_commodity *c = &mc->commodity[k];
    const mincost_downstream *d = downstream_of(mc, k, slot);
    mincost_sent_label *t = sent_of(mc, k, ROUTER_NEXT, slot);
    int64_t link = link_cost(mc, ROUTER_NEXT, slot), sent = sent_cost(t);
    bool leads_back = leads_back_to(mc, &c->out, router_in(mc->r.slot[ROUTER_NEXT][slot].peer), -link),
         no_gain = leads_back && t->has_path;
    bool raised = c->out.cost > sent,
         up_to_date = t->hash == (no_gain ? 0 : c->out_hash) || (leads_back && !t->has_path && !raised);
    if (up_to_date) t->changed_since = MINCOST_NEVER;
    if (up_to_date || d->units - d->reserved <= 0 || (what == URGENT_UPDATES && !raised)) return false;
    if (!raised && delays_next(mc, t, link)) return false;
    post_out_label(mc, k, slot, no_gain);
    t->changed_since = MINCOST_NEVER;
    return true;
}

static void update_next(mincost *mc, uint32_t k, update_kinds about, update_kinds *sent_kinds) {
    if (!about.labels && !about.bids) return;
    EACH_NEIGHBOUR(&mc->r, ROUTER_NEXT, slot) {
        if (about.bids) sent_kinds->bids |= mincost_update_bid(mc, k, slot);
        if (about.labels) sent_kinds->labels |= send_out_label(mc, k, slot, ALL_UPDATES);
    }
}

// Repeating a recent label increases the hold-down. A single source sends one label over its links
// at different times (dear_link_time), which is no repetition. During an auction it counts as one,
// because bids would follow too quickly.
static void detect_flapping(mincost *mc) {
    uint64_t hash = 1;
    for (uint32_t k = 0; k < mc->r.commodities; k++)
        hash = rng_seed(rng_seed(hash, mc->commodity[k].in_hash), mc->commodity[k].out_hash);
    bool continued =
        mc->updates.recent[(mc->updates.recent_next + MINCOST_RECENT_LABELS - 1) % MINCOST_RECENT_LABELS] == hash;
    if (continued && !mincost_is_multi_source(&mc->r.config) && !mincost_auction_open(mc)) return;
    bool again = false;
    for (uint32_t i = 0; i < MINCOST_RECENT_LABELS; i++) again |= mc->updates.recent[i] == hash;
    if (again && mc->updates.flaps < MINCOST_MAX_FLAPS) mc->updates.flaps++;
    if (!again && mc->updates.flaps > 0) mc->updates.flaps--;
    mc->updates.recent[mc->updates.recent_next++ % MINCOST_RECENT_LABELS] = hash;
}

// Returns the kinds that were sent. `due`: time of the next label update; adverts and bids have
// none.
static update_kinds update_all(mincost *mc, update_kinds about, int64_t *due) {
    int64_t others = mc->r.deadline;
    mc->r.deadline = ROUTER_NEVER;
    update_kinds sent_kinds = {0};
    for (uint32_t k = 0; k < mc->r.commodities; k++) {
        mincost_update_sums(mc, k);
        update_previous(mc, k, about, &sent_kinds);
        update_next(mc, k, about, &sent_kinds);
    }
    *due = mc->r.deadline;
    router_want(&mc->r, others);
    return sent_kinds;
}

// Nothing will be sent until something changes. Not so during auctions, where offers depend on
// time, nor with several data peers.
static bool may_be_quiet(const mincost *mc) {
    return !mc->greedy && !mc->minimise_bottleneck && !mincost_is_multi_source(&mc->r.config) &&
           !mincost_auction_open(mc);
}

static bool is_quiet(const mincost *mc) {
    const mincost_commodity *c = &mc->commodity[0];
    return c->updates == MINCOST_NO_UPDATES && mc->r.now < c->quiet_until && c->quiet_mature == mincost_is_mature(mc);
}

// BRAID_CHECKED: tries to send anyway and must send nothing.
static void check_quiet(mincost *mc, update_kinds quiet) {
#ifdef BRAID_CHECKED
    int64_t due, deadline = mc->r.deadline;
    uint32_t queued = mc->r.queue_count;
    update_all(mc, quiet, &due);
    BRAID_ASSERT(mc->r.queue_count == queued && (!quiet.labels || due == mc->commodity[0].quiet_until));
    mc->r.deadline = deadline;
#endif
    (void)mc, (void)quiet;
}

static void send_due_updates(mincost *mc) {
    mincost_commodity *c = &mc->commodity[0];
    bool quiet_allowed = may_be_quiet(mc), held = mincost_labels_held(mc),
         labels_quiet = quiet_allowed && !held && is_quiet(mc), advertised = quiet_allowed && c->adverts_sent;
    check_quiet(mc, (update_kinds){.labels = labels_quiet, .adverts = advertised});
    if (labels_quiet) router_want(&mc->r, c->quiet_until);
    update_kinds about = {
        .labels = !held && !labels_quiet, .adverts = !advertised, .bids = !mc->r.is_source && mincost_auction_open(mc)};
    int64_t due;
    update_kinds sent_kinds = update_all(mc, about, &due);
    if (sent_kinds.labels || sent_kinds.adverts || sent_kinds.bids) detect_flapping(mc);
    c->adverts_sent = quiet_allowed;
    if (!about.labels) return;
    c->quiet_until = due;
    c->quiet_mature = mincost_is_mature(mc);
    // In a mature router a label just sent may have to be retracted at once (split horizon).
    c->updates = quiet_allowed && !(sent_kinds.labels && c->quiet_mature) ? MINCOST_NO_UPDATES
                                                                          : MINCOST_UPDATES_UNKNOWN;
}

void mincost_send_updates(mincost *mc) {
    send_due_updates(mc);
    uint32_t doublings = mc->updates.flaps > MINCOST_FREE_FLAPS ? mc->updates.flaps - MINCOST_FREE_FLAPS : 0;
    mc->updates.next_at = mc->r.now + (mc->r.config.hold << doublings) * mc->r.config.delay;
}

static bool send_raised(mincost *mc) {
    bool sent_kinds = false;
    mincost_update_sums(mc, 0);
    EACH_NEIGHBOUR(&mc->r, ROUTER_PREVIOUS, p)
        sent_kinds |= send_in_label_if_new(mc, 0, p, mc->r.slot[ROUTER_PREVIOUS][p].peer, URGENT_UPDATES);
    EACH_NEIGHBOUR(&mc->r, ROUTER_NEXT, n) sent_kinds |= send_out_label(mc, 0, n, URGENT_UPDATES);
    return sent_kinds;
}

// A neighbour that does not know of a risen distance keeps passing on the old one, and each copy
// must be retracted. So a mature router sends it at once, unless it is flapping.
void mincost_send_urgent(mincost *mc) {
    mincost_commodity *c = &mc->commodity[0];
    if (!mincost_is_mature(mc) || mc->updates.flaps > MINCOST_FREE_FLAPS || mincost_labels_held(mc)) return;
    bool quiet = c->updates == MINCOST_NO_URGENT_UPDATES || (c->updates == MINCOST_NO_UPDATES && c->quiet_mature);
#ifdef BRAID_CHECKED
    bool sent_any = quiet && send_raised(mc);
    BRAID_ASSERT(!sent_any);
#endif
    if (quiet) return;
    bool sent_kinds = send_raised(mc);
    if (sent_kinds) detect_flapping(mc);
    if (!sent_kinds && !mc->greedy) c->updates = MINCOST_NO_URGENT_UPDATES;
}
