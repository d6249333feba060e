// braid's words to its neighbours: what they hear of my labels and of my room, and how often.
#include "routing/mincost/mincost.h"

#include "base/err.h"

enum {
    LAZY_FREE = 5  // times that a cheaper way waits longer for a link that carries nothing, in a mature router: with the usual `lazy` sooner than labels settle
};

typedef enum urgency { ALL_NEWS, WARNINGS } urgency;  // what neighbours hear now; WARNINGS: only of ways that are dearer, or no more

// A data peer hears only of its own units.
static bool concerns(const router *r, router_peer peer, uint32_t k) {
    return r->config.source_count == 1 || peer == r->source[k] || !router_names_source(&r->config, peer);
}

// How far the sink is through me and peers with room, and how much I would take.
static int64_t my_distance(const mincost *mc, uint32_t k, int32_t *room) {
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

static outgoing *post_label(mincost *mc, uint32_t k, router_peer to, router_side side) {
    outgoing *o = router_post(&mc->r, to, ROUTER_LABEL);
    o->k = (uint8_t)k;
    o->side = (uint8_t)side;
    return o;
}

// With several data peers only a way that became dearer waits: it is tried in vain at worst, so who hears of it may do so later, with
// what else comes up until then.
static int64_t dearer_until(const mincost *mc, const mincost_sent_label *t, int64_t said_at, int64_t cost) {
    return t->cost >= MINCOST_INFINITY || cost < t->cost ? mc->r.now : said_at + mc->r.config.lazy * mc->r.config.delay;
}

// The whole delay for a link that costs the mean or more.
static int64_t delay_by_cost(const mincost *mc, int64_t link) { return mc->r.config.delay * (link < mc->mean_cost ? link : mc->mean_cost) / mc->mean_cost; }

// With one all news of a way waits before it goes over a link, the longer the dearer that is, up to the mean: so a peer mostly hears
// first of the way that is cheapest for it, and does not have to take back what it said on account of a dearer one. `seldom_used`: in
// a mature router it waits longer, for most who hear of it have a better way.
static int64_t dear_link_until(const mincost *mc, mincost_sent_label *t, int64_t link, bool seldom_used) {
    if (t->changed_since == MINCOST_NEVER) t->changed_since = mc->r.now;
    return t->changed_since + mc->r.config.lazy * (seldom_used && mincost_is_mature(mc) ? LAZY_FREE : 1) * delay_by_cost(mc, link);
}

// A cheaper way for units to leave by waits, in a mature router, before those hear of it to whom they go now: the shorter the dearer the
// link is that they would leave.
static int64_t used_link_until(const mincost *mc, mincost_sent_label *t, int64_t link) {
    if (t->changed_since == MINCOST_NEVER) t->changed_since = mc->r.now;
    return t->changed_since + mc->r.config.lazy * (mc->r.config.delay - delay_by_cost(mc, link));
}

static bool waits_until(mincost *mc, int64_t at) {
    if (mc->r.now >= at) return false;
    router_want(&mc->r, at);
    return true;
}

static bool out_may_wait(mincost *mc, mincost_sent_label *t, int64_t link) {
    return mc->r.config.lazy >= 0 && mincost_is_mature(mc) && waits_until(mc, used_link_until(mc, t, link));
}

static bool in_may_wait(mincost *mc, uint32_t k, uint32_t slot, int64_t link, int64_t cost, bool seldom_used) {
    if (mc->r.config.lazy < 0) return false;
    mincost_sent_label *t = sent_of(mc, k, ROUTER_PREVIOUS, slot);
    bool missing = cost < -unit_value(mc) / 2 && !mincost_is_mature(mc);  // on the walk a unit more would find its way
    if (!mincost_is_multi_source(&mc->r.config) && !missing) return waits_until(mc, dear_link_until(mc, t, link, seldom_used));
    return waits_until(mc, dearer_until(mc, t, upstream_of(mc, k, slot)->label_sent_at, cost));
}

// My walk leads over the half at the other end of that arc, and there is no gain in going round: who is there takes no walk from it.
static bool goes_back(const mincost *mc, const mincost_label *label, router_half there, int64_t arc) {
    int at = mincost_is_mature(mc) ? mincost_find_node(label, there) : -1;
    if (at <= 1) return at == 1;
    return arc + mc->r.config.slack + label->cost >= label->at[at];
}

static inline int64_t told_cost(const mincost_sent_label *t) { return t->hash == 0 ? 0 : t->cost; }

// My walk, with the link to be paid, gains nothing for who is there, or less than what has settled there.
static inline bool gains_nothing(const mincost *mc, uint32_t k, const mincost_sent_label *t, uint32_t slot) {
    bool plain = !mincost_is_multi_source(&mc->r.config) && !mc->minimise_bottleneck;
    return plain && mc->commodity[k].in.cost + link_cost(mc, ROUTER_PREVIOUS, slot) >= t->floor;
}

// tell_in would find nothing to be told, nor to be noted: so it is with many neighbours.
static inline bool needs_no_word(const mincost *mc, uint32_t k, const mincost_sent_label *t, uint32_t slot, router_peer to, urgency what) {
    const mincost_label *in = &mc->commodity[k].in;
    if (t->changed_since != MINCOST_NEVER) return false;
    if (what == WARNINGS && in->cost <= told_cost(t)) return true;
    if (mc->mature && (in->owner_bits & router_bit(to)) != 0) return false;  // it may go back
    return t->hash == (gains_nothing(mc, k, t, slot) ? 0 : mc->commodity[k].in_hash);
}

// A walk that gains nothing once it has paid for the link, or less than what has settled at its other end, is no use there: that hears
// of none. Nor does it hear of a cheaper one that goes back to it, unless what it has from me is a way, which may be no more.
static bool tell_in(mincost *mc, uint32_t k, uint32_t slot, router_peer to, urgency what) {
    const mincost_commodity *c = &mc->commodity[k];
    mincost_sent_label *t = sent_of(mc, k, ROUTER_PREVIOUS, slot);
    int64_t told = told_cost(t);
    int64_t link = link_cost(mc, ROUTER_PREVIOUS, slot);
    bool back = goes_back(mc, &c->in, router_out(to), link), useless = gains_nothing(mc, k, t, slot) || (back && t->has_path);
    uint64_t word = useless ? 0 : c->in_hash;
    bool still = (useless && told + link >= t->floor) || (back && c->in.cost <= told);
    bool knows = t->hash == word || (still && !t->has_path);
    if (knows) t->changed_since = MINCOST_NEVER;
    bool dearer = c->in.cost > told, seldom_used = !dearer && !mc->carries[link_at(mc, k, ROUTER_PREVIOUS, slot)];
    if (knows || (what == WARNINGS && !dearer)) return false;
    if (!(dearer && mincost_is_mature(mc)) && in_may_wait(mc, k, slot, link, c->in.cost, seldom_used)) return false;
    post_label(mc, k, to, ROUTER_PREVIOUS)->extra = useless ? MINCOST_SEND_EMPTY : MINCOST_SEND_LABEL;
    *t = (mincost_sent_label){.hash = word, .cost = c->in.cost, .changed_since = MINCOST_NEVER, .floor = t->floor, .has_path = !useless && c->in.length > 1};
    upstream_of(mc, k, slot)->label_sent_at = mc->r.now;
    return true;
}

// BRAID_CHECKED: where no word is needed tell_in finds the same.
static bool tell_in_if_new(mincost *mc, uint32_t k, uint32_t slot, router_peer to, urgency what) {
    if (!needs_no_word(mc, k, sent_of(mc, k, ROUTER_PREVIOUS, slot), slot, to, what)) return tell_in(mc, k, slot, to, what);
#ifdef BRAID_CHECKED
    const mincost_sent_label was = *sent_of(mc, k, ROUTER_PREVIOUS, slot), *is = sent_of(mc, k, ROUTER_PREVIOUS, slot);
    int64_t deadline = mc->r.deadline;
    bool told = tell_in(mc, k, slot, to, what);
    BRAID_ASSERT(!told && mc->r.deadline == deadline && is->hash == was.hash && is->changed_since == was.changed_since);
#endif
    return false;
}

// 1: there is a way home for one unit more; 0: there is none; -1: units are missing here.
static int advertises(int64_t distance, int32_t room) {
    if (distance == MINCOST_DEFICIT) return -1;
    return room > 0 && distance < MINCOST_INFINITY;
}

// How far home is and how much room there is changes with each cycle, and counts when a unit looks for its way. With one data peer that there
// is room, or none any more, is said at once all the same: where nothing is built it is all that a unit needs to set out.
static bool adverts_rest(const mincost *mc, const mincost_advert *said, int64_t distance, int32_t room) {
    if (mc->greedy || mc->r.now < mc->updates.adverts_until || said->distance == MINCOST_RESEND) return false;
    if (mincost_is_multi_source(&mc->r.config)) return true;
    return mincost_is_mature(mc) && advertises(said->distance, said->room) == advertises(distance, room);
}

static bool tell_advert(mincost *mc, uint32_t k, mincost_advert *said, router_peer to, int64_t distance, int32_t room) {
    uint32_t scale = mc->minimise_bottleneck ? mincost_scale_word(mc) : said->scale;
    if (said->distance == distance && said->room == room && said->scale == scale) return false;
    if (said->scale == scale && adverts_rest(mc, said, distance, room)) return false;
    outgoing *o = router_post(&mc->r, to, ROUTER_ADVERT);
    o->k = (uint8_t)k;
    o->cost = distance;
    o->units = (uint32_t)room;
    o->taken_back = scale;
    *said = (mincost_advert){distance, room, scale};
    return true;
}

// Kinds of words: those to be told, or those that were.
typedef struct topics {
    bool labels, adverts, bids;
} topics;

static void speak_to_previous(mincost *mc, uint32_t k, topics about, topics *spoke) {
    if (!about.labels && !about.adverts) return;
    int32_t room = 0;
    int64_t distance = about.adverts ? my_distance(mc, k, &room) : MINCOST_INFINITY;
    EACH_NEIGHBOUR(&mc->r, ROUTER_PREVIOUS, slot) {
        router_peer to = mc->r.slot[ROUTER_PREVIOUS][slot].peer;
        if (!concerns(&mc->r, to, k)) continue;
        if (about.labels) spoke->labels |= tell_in_if_new(mc, k, slot, to, ALL_NEWS);
        if (about.adverts) spoke->adverts |= tell_advert(mc, k, advert_of(mc, k, ROUTER_PREVIOUS, slot), to, distance, room);
    }
}

static void post_out(mincost *mc, uint32_t k, uint32_t slot, bool useless) {
    const mincost_commodity *c = &mc->commodity[k];
    mincost_sent_label *t = sent_of(mc, k, ROUTER_NEXT, slot);
    post_label(mc, k, mc->r.slot[ROUTER_NEXT][slot].peer, ROUTER_NEXT)->extra = useless ? MINCOST_SEND_EMPTY : MINCOST_SEND_LABEL;
    t->hash = useless ? 0 : c->out_hash;
    t->cost = c->out.cost;
    t->has_path = !useless && c->out.length > 1;
    if (useless || c->out.length != 1 || t->floor == c->out.cost) return;
    t->floor = c->out.cost;
    mincost_invalidate(mc);
}

// Whom I send nothing hears where my label settled, when that is lower than it knows by a link's mean cost: it need not tell me of what
// is no cheaper than that.
static bool tell_floor(mincost *mc, uint32_t k, uint32_t slot) {
    const mincost_label *label = &mc->commodity[k].out;
    if (mc->minimise_bottleneck || mincost_is_multi_source(&mc->r.config) || label->length != 1) return false;
    if (label->cost >= sent_of(mc, k, ROUTER_NEXT, slot)->floor - mc->mean_cost) return false;
    post_out(mc, k, slot, false);
    return true;
}

static bool tell_out(mincost *mc, uint32_t k, uint32_t slot, urgency what) {
    if (!mc->carries[link_at(mc, k, ROUTER_NEXT, slot)]) return what == ALL_NEWS && tell_floor(mc, k, slot);
    const mincost_commodity *c = &mc->commodity[k];
    const mincost_downstream *d = downstream_of(mc, k, slot);
    mincost_sent_label *t = sent_of(mc, k, ROUTER_NEXT, slot);
    int64_t link = link_cost(mc, ROUTER_NEXT, slot), told = told_cost(t);
    bool back = goes_back(mc, &c->out, router_in(mc->r.slot[ROUTER_NEXT][slot].peer), -link), useless = back && t->has_path;
    bool dearer = c->out.cost > told, knows = t->hash == (useless ? 0 : c->out_hash) || (back && !t->has_path && !dearer);
    if (knows) t->changed_since = MINCOST_NEVER;
    if (knows || d->units - d->reserved <= 0 || (what == WARNINGS && !dearer)) return false;
    if (!dearer && out_may_wait(mc, t, link)) return false;
    post_out(mc, k, slot, useless);
    t->changed_since = MINCOST_NEVER;
    return true;
}

static void speak_to_next(mincost *mc, uint32_t k, topics about, topics *spoke) {
    if (!about.labels && !about.bids) return;
    EACH_NEIGHBOUR(&mc->r, ROUTER_NEXT, slot) {
        if (about.bids) spoke->bids |= mincost_update_bid(mc, k, slot);
        if (about.labels) spoke->labels |= tell_out(mc, k, slot, ALL_NEWS);
    }
}

// Who says again and again what it said a short while ago waits longer each time. With one data peer a word goes over the links at
// different times (dear_link_until): said once more to others it is no repetition. In an auction that would make bids too quick.
static void notice_flapping(mincost *mc) {
    uint64_t hash = 1;
    for (uint32_t k = 0; k < mc->r.commodities; k++)
        hash = rng_seed(rng_seed(hash, mc->commodity[k].in_hash), mc->commodity[k].out_hash);
    bool goes_on = mc->updates.recent[(mc->updates.recent_next + MINCOST_RECENT_LABELS - 1) % MINCOST_RECENT_LABELS] == hash;
    if (goes_on && !mincost_is_multi_source(&mc->r.config) && !mincost_auction_open(mc)) return;
    bool again = false;
    for (uint32_t i = 0; i < MINCOST_RECENT_LABELS; i++) again |= mc->updates.recent[i] == hash;
    if (again && mc->updates.flaps < MINCOST_MAX_FLAPS) mc->updates.flaps++;
    if (!again && mc->updates.flaps > 0) mc->updates.flaps--;
    mc->updates.recent[mc->updates.recent_next++ % MINCOST_RECENT_LABELS] = hash;
}

// What was said of labels, and when the next word of them is due by itself; of adverts and bids none ever is.
static topics speak_to_all(mincost *mc, topics about, int64_t *due) {
    int64_t others = mc->r.deadline;
    mc->r.deadline = ROUTER_NEVER;
    topics spoke = {0};
    for (uint32_t k = 0; k < mc->r.commodities; k++) {
        mincost_update_sums(mc, k);
        speak_to_previous(mc, k, about, &spoke);
        speak_to_next(mc, k, about, &spoke);
    }
    *due = mc->r.deadline;
    router_want(&mc->r, others);
    return spoke;
}

// Whether there is nothing more to tell as long as nothing changes. Not where offers change with the time, and with several data peers.
static bool may_hush(const mincost *mc) { return !mc->greedy && !mc->minimise_bottleneck && !mincost_is_multi_source(&mc->r.config) && !mincost_auction_open(mc); }

static bool is_hushed(const mincost *mc) {
    const mincost_commodity *c = &mc->commodity[0];
    return c->updates == MINCOST_NO_UPDATES && mc->r.now < c->quiet_until && c->quiet_mature == mincost_is_mature(mc);
}

// BRAID_CHECKED: who has nothing to tell of something tries all the same.
static void check_silence(mincost *mc, topics silent) {
#ifdef BRAID_CHECKED
    int64_t due, deadline = mc->r.deadline;
    uint32_t said = mc->r.queue_count;
    speak_to_all(mc, silent, &due);
    BRAID_ASSERT(mc->r.queue_count == said && (!silent.labels || due == mc->commodity[0].quiet_until));
    mc->r.deadline = deadline;
#endif
    (void)mc, (void)silent;
}

static void speak_if_new(mincost *mc) {
    mincost_commodity *c = &mc->commodity[0];
    bool hush = may_hush(mc), rest = mincost_labels_held(mc), labelled = hush && !rest && is_hushed(mc), advertised = hush && c->adverts_sent;
    check_silence(mc, (topics){.labels = labelled, .adverts = advertised});
    if (labelled) router_want(&mc->r, c->quiet_until);
    topics about = {.labels = !rest && !labelled, .adverts = !advertised, .bids = !mc->r.is_source && mincost_auction_open(mc)};
    int64_t due;
    topics spoke = speak_to_all(mc, about, &due);
    if (spoke.labels || spoke.adverts || spoke.bids) notice_flapping(mc);
    c->adverts_sent = hush;
    if (!about.labels) return;
    c->quiet_until = due;
    c->quiet_mature = mincost_is_mature(mc);
    // In a mature router what was said may have to be taken back at once, for walks that go back to whom it was said.
    c->updates = hush && !(spoke.labels && c->quiet_mature) ? MINCOST_NO_UPDATES : MINCOST_UPDATES_UNKNOWN;
}

void mincost_send_updates(mincost *mc) {
    speak_if_new(mc);
    uint32_t doublings = mc->updates.flaps > MINCOST_FREE_FLAPS ? mc->updates.flaps - MINCOST_FREE_FLAPS : 0;
    mc->updates.next_at = mc->r.now + (mc->r.config.hold << doublings) * mc->r.config.delay;
}

static bool warn_all(mincost *mc) {
    bool spoke = false;
    mincost_update_sums(mc, 0);
    EACH_NEIGHBOUR(&mc->r, ROUTER_PREVIOUS, p) spoke |= tell_in_if_new(mc, 0, p, mc->r.slot[ROUTER_PREVIOUS][p].peer, WARNINGS);
    EACH_NEIGHBOUR(&mc->r, ROUTER_NEXT, n) spoke |= tell_out(mc, 0, n, WARNINGS);
    return spoke;
}

// Whoever has not heard that a way is dearer, or no more, goes on telling of it, and all that must be taken back. In a mature router that
// waits for nothing, unless it repeats itself.
void mincost_send_urgent(mincost *mc) {
    mincost_commodity *c = &mc->commodity[0];
    if (!mincost_is_mature(mc) || mc->updates.flaps > MINCOST_FREE_FLAPS || mincost_labels_held(mc)) return;
    bool silent = c->updates == MINCOST_NO_URGENT_UPDATES || (c->updates == MINCOST_NO_UPDATES && c->quiet_mature);
#ifdef BRAID_CHECKED
    bool warned = silent && warn_all(mc);
    BRAID_ASSERT(!warned);
#endif
    if (silent) return;
    bool spoke = warn_all(mc);
    if (spoke) notice_flapping(mc);
    if (!spoke && !mc->greedy) c->updates = MINCOST_NO_URGENT_UPDATES;
}
