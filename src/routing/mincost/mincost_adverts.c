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
static int64_t my_distance(const braid *b, uint32_t k, int32_t *room) {
    *room = most(0, b->r.is_source ? (int32_t)b->r.config.capacity - braid_sum_in(b, k) : braid_room(b));
    if (b->r.is_source) return 0;
    int32_t deficit = -braid_excess(b, k);
    if (deficit > 0 && !b->greedy) {
        *room = deficit;
        return BRAID_DEFICIT;
    }
    int64_t distance = BRAID_NOWHERE;
    bool full = *room == 0;
    EACH_NEIGHBOUR(&b->r, ROUTER_NEXT, slot) {
        if (!has_room(advert_of(b, k, ROUTER_NEXT, slot))) continue;
        int64_t cost = braid_way(b, k, slot);
        if (cost < distance) distance = cost;
    }
    if (distance >= BRAID_NOWHERE) *room = 0;
    if (full) *room = braid_offer(b, k, &distance);
    if (*room == 0) distance = BRAID_NOWHERE;
    return distance;
}

static outgoing *post_label(braid *b, uint32_t k, router_peer to, router_side side) {
    outgoing *o = router_post(&b->r, to, ROUTER_LABEL);
    o->k = (uint8_t)k;
    o->side = (uint8_t)side;
    return o;
}

// With several data peers only a way that became dearer waits: it is tried in vain at worst, so who hears of it may do so later, with
// what else comes up until then.
static int64_t dearer_until(const braid *b, const braid_told *t, int64_t said_at, int64_t cost) {
    return t->cost >= BRAID_NOWHERE || cost < t->cost ? b->r.now : said_at + b->r.config.lazy * b->r.config.delay;
}

// The whole delay for a link that costs the mean or more.
static int64_t delay_by_cost(const braid *b, int64_t link) { return b->r.config.delay * (link < b->mean ? link : b->mean) / b->mean; }

// With one all news of a way waits before it goes over a link, the longer the dearer that is, up to the mean: so a peer mostly hears
// first of the way that is cheapest for it, and does not have to take back what it said on account of a dearer one. `seldom_used`: in
// a mature router it waits longer, for most who hear of it have a better way.
static int64_t dear_link_until(const braid *b, braid_told *t, int64_t link, bool seldom_used) {
    if (t->news_since == BRAID_NEVER_SINCE) t->news_since = b->r.now;
    return t->news_since + b->r.config.lazy * (seldom_used && braid_mature(b) ? LAZY_FREE : 1) * delay_by_cost(b, link);
}

// A cheaper way for units to leave by waits, in a mature router, before those hear of it to whom they go now: the shorter the dearer the
// link is that they would leave.
static int64_t used_link_until(const braid *b, braid_told *t, int64_t link) {
    if (t->news_since == BRAID_NEVER_SINCE) t->news_since = b->r.now;
    return t->news_since + b->r.config.lazy * (b->r.config.delay - delay_by_cost(b, link));
}

static bool waits_until(braid *b, int64_t at) {
    if (b->r.now >= at) return false;
    router_want(&b->r, at);
    return true;
}

static bool out_may_wait(braid *b, braid_told *t, int64_t link) {
    return b->r.config.lazy >= 0 && braid_mature(b) && waits_until(b, used_link_until(b, t, link));
}

static bool in_may_wait(braid *b, uint32_t k, uint32_t slot, int64_t link, int64_t cost, bool seldom_used) {
    if (b->r.config.lazy < 0) return false;
    braid_told *t = told_of(b, k, ROUTER_PREVIOUS, slot);
    bool missing = cost < -worth_of_unit(b) / 2 && !braid_mature(b);  // on the walk a unit more would find its way
    if (!braid_shares(&b->r.config) && !missing) return waits_until(b, dear_link_until(b, t, link, seldom_used));
    return waits_until(b, dearer_until(b, t, up_of(b, k, slot)->said_at, cost));
}

// My walk leads over the half at the other end of that arc, and there is no gain in going round: who is there takes no walk from it.
static bool goes_back(const braid *b, const braid_label *label, router_half there, int64_t arc) {
    int at = braid_mature(b) ? braid_find_half(label, there) : -1;
    if (at <= 1) return at == 1;
    return arc + b->r.config.slack + label->cost >= label->at[at];
}

static inline int64_t told_cost(const braid_told *t) { return t->word == 0 ? 0 : t->cost; }

// My walk, with the link to be paid, gains nothing for who is there, or less than what has settled there.
static inline bool gains_nothing(const braid *b, uint32_t k, const braid_told *t, uint32_t slot) {
    bool plain = !braid_shares(&b->r.config) && !b->worst;
    return plain && b->commodity[k].in.cost + link_cost(b, ROUTER_PREVIOUS, slot) >= t->floor;
}

// tell_in would find nothing to be told, nor to be noted: so it is with many neighbours.
static inline bool needs_no_word(const braid *b, uint32_t k, const braid_told *t, uint32_t slot, router_peer to, urgency what) {
    const braid_label *in = &b->commodity[k].in;
    if (t->news_since != BRAID_NEVER_SINCE) return false;
    if (what == WARNINGS && in->cost <= told_cost(t)) return true;
    if (b->mature && (in->owners & router_bit(to)) != 0) return false;  // it may go back
    return t->word == (gains_nothing(b, k, t, slot) ? 0 : b->commodity[k].in_hash);
}

// A walk that gains nothing once it has paid for the link, or less than what has settled at its other end, is no use there: that hears
// of none. Nor does it hear of a cheaper one that goes back to it, unless what it has from me is a way, which may be no more.
static bool tell_in(braid *b, uint32_t k, uint32_t slot, router_peer to, urgency what) {
    const braid_commodity *c = &b->commodity[k];
    braid_told *t = told_of(b, k, ROUTER_PREVIOUS, slot);
    int64_t told = told_cost(t);
    int64_t link = link_cost(b, ROUTER_PREVIOUS, slot);
    bool back = goes_back(b, &c->in, router_out(to), link), useless = gains_nothing(b, k, t, slot) || (back && t->way);
    uint64_t word = useless ? 0 : c->in_hash;
    bool still = (useless && told + link >= t->floor) || (back && c->in.cost <= told);
    bool knows = t->word == word || (still && !t->way);
    if (knows) t->news_since = BRAID_NEVER_SINCE;
    bool dearer = c->in.cost > told, seldom_used = !dearer && !b->carries[link_at(b, k, ROUTER_PREVIOUS, slot)];
    if (knows || (what == WARNINGS && !dearer)) return false;
    if (!(dearer && braid_mature(b)) && in_may_wait(b, k, slot, link, c->in.cost, seldom_used)) return false;
    post_label(b, k, to, ROUTER_PREVIOUS)->extra = useless ? BRAID_NO_GAIN : BRAID_AS_IT_IS;
    *t = (braid_told){.word = word, .cost = c->in.cost, .news_since = BRAID_NEVER_SINCE, .floor = t->floor, .way = !useless && c->in.length > 1};
    up_of(b, k, slot)->said_at = b->r.now;
    return true;
}

// BRAID_CHECKED: where no word is needed tell_in finds the same.
static bool tell_in_if_new(braid *b, uint32_t k, uint32_t slot, router_peer to, urgency what) {
    if (!needs_no_word(b, k, told_of(b, k, ROUTER_PREVIOUS, slot), slot, to, what)) return tell_in(b, k, slot, to, what);
#ifdef BRAID_CHECKED
    const braid_told was = *told_of(b, k, ROUTER_PREVIOUS, slot), *is = told_of(b, k, ROUTER_PREVIOUS, slot);
    int64_t deadline = b->r.deadline;
    bool told = tell_in(b, k, slot, to, what);
    BRAID_ASSERT(!told && b->r.deadline == deadline && is->word == was.word && is->news_since == was.news_since);
#endif
    return false;
}

// 1: there is a way home for one unit more; 0: there is none; -1: units are missing here.
static int advertises(int64_t distance, int32_t room) {
    if (distance == BRAID_DEFICIT) return -1;
    return room > 0 && distance < BRAID_NOWHERE;
}

// How far home is and how much room there is changes with each cycle, and counts when a unit looks for its way. With one data peer that there
// is room, or none any more, is said at once all the same: where nothing is built it is all that a unit needs to set out.
static bool adverts_rest(const braid *b, const braid_advert *said, int64_t distance, int32_t room) {
    if (b->greedy || b->r.now < b->building_until || said->distance == BRAID_UNTOLD) return false;
    if (braid_shares(&b->r.config)) return true;
    return braid_mature(b) && advertises(said->distance, said->room) == advertises(distance, room);
}

static bool tell_advert(braid *b, uint32_t k, braid_advert *said, router_peer to, int64_t distance, int32_t room) {
    uint32_t scale = b->worst ? braid_scale_word(b) : said->scale;
    if (said->distance == distance && said->room == room && said->scale == scale) return false;
    if (said->scale == scale && adverts_rest(b, said, distance, room)) return false;
    outgoing *o = router_post(&b->r, to, ROUTER_ADVERT);
    o->k = (uint8_t)k;
    o->cost = distance;
    o->units = (uint32_t)room;
    o->taken_back = scale;
    *said = (braid_advert){distance, room, scale};
    return true;
}

// Kinds of words: those to be told, or those that were.
typedef struct topics {
    bool labels, adverts, bids;
} topics;

static void speak_to_previous(braid *b, uint32_t k, topics about, topics *spoke) {
    if (!about.labels && !about.adverts) return;
    int32_t room = 0;
    int64_t distance = about.adverts ? my_distance(b, k, &room) : BRAID_NOWHERE;
    EACH_NEIGHBOUR(&b->r, ROUTER_PREVIOUS, slot) {
        router_peer to = b->r.slot[ROUTER_PREVIOUS][slot].peer;
        if (!concerns(&b->r, to, k)) continue;
        if (about.labels) spoke->labels |= tell_in_if_new(b, k, slot, to, ALL_NEWS);
        if (about.adverts) spoke->adverts |= tell_advert(b, k, advert_of(b, k, ROUTER_PREVIOUS, slot), to, distance, room);
    }
}

static void post_out(braid *b, uint32_t k, uint32_t slot, bool useless) {
    const braid_commodity *c = &b->commodity[k];
    braid_told *t = told_of(b, k, ROUTER_NEXT, slot);
    post_label(b, k, b->r.slot[ROUTER_NEXT][slot].peer, ROUTER_NEXT)->extra = useless ? BRAID_NO_GAIN : BRAID_AS_IT_IS;
    t->word = useless ? 0 : c->out_hash;
    t->cost = c->out.cost;
    t->way = !useless && c->out.length > 1;
    if (useless || c->out.length != 1 || t->floor == c->out.cost) return;
    t->floor = c->out.cost;
    braid_stir(b);
}

// Whom I send nothing hears where my label settled, when that is lower than it knows by a link's mean cost: it need not tell me of what
// is no cheaper than that.
static bool tell_floor(braid *b, uint32_t k, uint32_t slot) {
    const braid_label *label = &b->commodity[k].out;
    if (b->worst || braid_shares(&b->r.config) || label->length != 1) return false;
    if (label->cost >= told_of(b, k, ROUTER_NEXT, slot)->floor - b->mean) return false;
    post_out(b, k, slot, false);
    return true;
}

static bool tell_out(braid *b, uint32_t k, uint32_t slot, urgency what) {
    if (!b->carries[link_at(b, k, ROUTER_NEXT, slot)]) return what == ALL_NEWS && tell_floor(b, k, slot);
    const braid_commodity *c = &b->commodity[k];
    const braid_down *d = down_of(b, k, slot);
    braid_told *t = told_of(b, k, ROUTER_NEXT, slot);
    int64_t link = link_cost(b, ROUTER_NEXT, slot), told = told_cost(t);
    bool back = goes_back(b, &c->out, router_in(b->r.slot[ROUTER_NEXT][slot].peer), -link), useless = back && t->way;
    bool dearer = c->out.cost > told, knows = t->word == (useless ? 0 : c->out_hash) || (back && !t->way && !dearer);
    if (knows) t->news_since = BRAID_NEVER_SINCE;
    if (knows || d->out - d->reserved <= 0 || (what == WARNINGS && !dearer)) return false;
    if (!dearer && out_may_wait(b, t, link)) return false;
    post_out(b, k, slot, useless);
    t->news_since = BRAID_NEVER_SINCE;
    return true;
}

static void speak_to_next(braid *b, uint32_t k, topics about, topics *spoke) {
    if (!about.labels && !about.bids) return;
    EACH_NEIGHBOUR(&b->r, ROUTER_NEXT, slot) {
        if (about.bids) spoke->bids |= braid_bids_anew(b, k, slot);
        if (about.labels) spoke->labels |= tell_out(b, k, slot, ALL_NEWS);
    }
}

// Who says again and again what it said a short while ago waits longer each time. With one data peer a word goes over the links at
// different times (dear_link_until): said once more to others it is no repetition. In an auction that would make bids too quick.
static void notice_flapping(braid *b) {
    uint64_t hash = 1;
    for (uint32_t k = 0; k < b->r.commodities; k++)
        hash = rng_seed(rng_seed(hash, b->commodity[k].in_hash), b->commodity[k].out_hash);
    bool goes_on = b->said[(b->said_next + BRAID_SAID - 1) % BRAID_SAID] == hash;
    if (goes_on && !braid_shares(&b->r.config) && !braid_auctions(b)) return;
    bool again = false;
    for (uint32_t i = 0; i < BRAID_SAID; i++) again |= b->said[i] == hash;
    if (again && b->flaps < BRAID_FLAPS_MAX) b->flaps++;
    if (!again && b->flaps > 0) b->flaps--;
    b->said[b->said_next++ % BRAID_SAID] = hash;
}

// What was said of labels, and when the next word of them is due by itself; of adverts and bids none ever is.
static topics speak_to_all(braid *b, topics about, int64_t *due) {
    int64_t others = b->r.deadline;
    b->r.deadline = ROUTER_NEVER;
    topics spoke = {0};
    for (uint32_t k = 0; k < b->r.commodities; k++) {
        braid_count(b, k);
        speak_to_previous(b, k, about, &spoke);
        speak_to_next(b, k, about, &spoke);
    }
    *due = b->r.deadline;
    router_want(&b->r, others);
    return spoke;
}

// Whether there is nothing more to tell as long as nothing changes. Not where offers change with the time, and with several data peers.
static bool may_hush(const braid *b) { return !b->greedy && !b->worst && !braid_shares(&b->r.config) && !braid_auctions(b); }

static bool is_hushed(const braid *b) {
    const braid_commodity *c = &b->commodity[0];
    return c->news == BRAID_NO_NEWS && b->r.now < c->hush_until && c->hushed_mature == braid_mature(b);
}

// BRAID_CHECKED: who has nothing to tell of something tries all the same.
static void check_silence(braid *b, topics silent) {
#ifdef BRAID_CHECKED
    int64_t due, deadline = b->r.deadline;
    uint32_t said = b->r.queue_count;
    speak_to_all(b, silent, &due);
    BRAID_ASSERT(b->r.queue_count == said && (!silent.labels || due == b->commodity[0].hush_until));
    b->r.deadline = deadline;
#endif
    (void)b, (void)silent;
}

static void speak_if_new(braid *b) {
    braid_commodity *c = &b->commodity[0];
    bool hush = may_hush(b), rest = braid_labels_rest(b), labelled = hush && !rest && is_hushed(b), advertised = hush && c->advertised;
    check_silence(b, (topics){.labels = labelled, .adverts = advertised});
    if (labelled) router_want(&b->r, c->hush_until);
    topics about = {.labels = !rest && !labelled, .adverts = !advertised, .bids = !b->r.is_source && braid_auctions(b)};
    int64_t due;
    topics spoke = speak_to_all(b, about, &due);
    if (spoke.labels || spoke.adverts || spoke.bids) notice_flapping(b);
    c->advertised = hush;
    if (!about.labels) return;
    c->hush_until = due;
    c->hushed_mature = braid_mature(b);
    // In a mature router what was said may have to be taken back at once, for walks that go back to whom it was said.
    c->news = hush && !(spoke.labels && c->hushed_mature) ? BRAID_NO_NEWS : BRAID_MAYBE_NEWS;
}

void braid_speak(braid *b) {
    speak_if_new(b);
    uint32_t doublings = b->flaps > BRAID_FLAPS_FREE ? b->flaps - BRAID_FLAPS_FREE : 0;
    b->speak_at = b->r.now + (b->r.config.hold << doublings) * b->r.config.delay;
}

static bool warn_all(braid *b) {
    bool spoke = false;
    braid_count(b, 0);
    EACH_NEIGHBOUR(&b->r, ROUTER_PREVIOUS, p) spoke |= tell_in_if_new(b, 0, p, b->r.slot[ROUTER_PREVIOUS][p].peer, WARNINGS);
    EACH_NEIGHBOUR(&b->r, ROUTER_NEXT, n) spoke |= tell_out(b, 0, n, WARNINGS);
    return spoke;
}

// Whoever has not heard that a way is dearer, or no more, goes on telling of it, and all that must be taken back. In a mature router that
// waits for nothing, unless it repeats itself.
void braid_warn(braid *b) {
    braid_commodity *c = &b->commodity[0];
    if (!braid_mature(b) || b->flaps > BRAID_FLAPS_FREE || braid_labels_rest(b)) return;
    bool silent = c->news == BRAID_NO_WARNING || (c->news == BRAID_NO_NEWS && c->hushed_mature);
#ifdef BRAID_CHECKED
    bool warned = silent && warn_all(b);
    BRAID_ASSERT(!warned);
#endif
    if (silent) return;
    bool spoke = warn_all(b);
    if (spoke) notice_flapping(b);
    if (!spoke && !b->greedy) c->news = BRAID_NO_WARNING;
}
