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
#include "routing/mincost/mincost.h"

enum {
    COARSE = 8,   // per cent of a link's mean cost: gains left alone while a draft is to come
    LARGE = 8,    // ... with one data peer, for the first BRAID_EARLY delays: small changes before large ones are mostly undone by them
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

static uint32_t span_of(uint32_t era) { return era / BRAID_SPAN; }

static era_kind kind_of(uint32_t era) {
    if (era % BRAID_SPAN == 0) return span_of(era) % 2 != 0 ? ERA_DRAFT : ERA_RESTORED;
    return era % 2 != 0 ? ERA_STILL : ERA_PLAIN;
}

static uint32_t next_of(uint32_t era, era_kind kind) {
    uint32_t span = span_of(era) + 1;
    if (kind == ERA_RESTORED) return (span + span % 2) * BRAID_SPAN;
    if (kind == ERA_DRAFT) return (span + (span + 1) % 2) * BRAID_SPAN;
    do era++;
    while (kind_of(era) != kind);
    return era / BRAID_SPAN < span ? era : next_of(era - BRAID_SPAN, ERA_RESTORED);  // a span is over: what there is goes on in the next even one
}

int64_t braid_coarse_slack(const braid *b) {
    int64_t share = 0;
    if (!braid_shares(&b->r.config))
        share = b->r.now < braid_early_until(b) ? LARGE : 0;
    else if (b->tries > 0 && b->r.config.relays <= BRAID_CROWD)
        share = COARSE;
    return b->r.config.slack + b->mean * share / 100;
}

int64_t braid_mean_cost(const braid *b) {
    int64_t sum = 0, links = 0;
    for (int side = ROUTER_PREVIOUS; side <= ROUTER_NEXT; side++) {
        EACH_NEIGHBOUR(&b->r, side, s) {
            sum += link_cost(b, (router_side)side, s);
            links++;
        }
    }
    return links == 0 || sum < links ? 1 : sum / links;
}

void braid_follow_mean(braid *b) {
    if (!b->r.terms_changed) return;
    b->r.terms_changed = false;
    braid_stir(b);
    for (uint32_t k = 0; k < b->r.commodities; k++) b->commodity[k].arcs_known = false;
    int64_t mean = braid_mean_cost(b);
    if (mean != b->mean) b->settlings = 0;
    b->mean = mean;
}

bool braid_still(const braid *b) { return b->drafts || kind_of(b->era) == ERA_STILL; }

static void say(braid *b, router_peer to) {
    outgoing *o = router_post(&b->r, to, ROUTER_QUERY);
    o->why = BRAID_ERA;
    o->cost = b->era;
    o->units = b->tries;
    o->taken_back = b->plan;
}

// --- Entering an era ---------------------------------------------------------------------------------------------------

// What tokens would still have taken off, had all been at rest, must not be what I am said to carry.
static void keep_flow(braid *b) {
    braid_drop_tokens(b);
    if (!b->r.is_source) braid_fit(b);
    for (uint32_t k = 0; k < b->r.commodities; k++) {
        EACH_NEIGHBOUR(&b->r, ROUTER_PREVIOUS, s) up_of(b, k, s)->kept = braid_in(b, k, s);
        EACH_NEIGHBOUR(&b->r, ROUTER_NEXT, s) down_of(b, k, s)->kept = down_of(b, k, s)->out;
    }
}

// They are about the span that ends, and a word about this one must not be put into one of them: it would go before the word
// that tells of the span, to who does not listen yet or begins anew afterwards.
static void forget_waiting_counts(braid *b) {
    uint32_t left = 0;
    for (uint32_t i = 0; i < b->r.queue_count; i++) {
        if (!braid_is_count((router_kind)b->r.queue[i].kind)) b->r.queue[left++] = b->r.queue[i];
    }
    b->r.queue_count = left;
}

// The counters of both ends of each link begin anew: from nothing in a span that begins with a draft, else from what was kept, if I was
// in the draft that failed. Neither hears the other until it has done so (braid_mode_deaf).
static void begin_counts(braid *b, bool from_nothing, bool from_kept) {
    forget_waiting_counts(b);
    braid_drop_tokens(b);
    for (uint32_t k = 0; k < b->r.commodities; k++) {
        EACH_NEIGHBOUR(&b->r, ROUTER_PREVIOUS, s) {
            braid_up *u = up_of(b, k, s);
            u->denied = u->denied_ack = 0;
            if (from_nothing || from_kept) u->in = from_kept ? u->kept : 0;
        }
        EACH_NEIGHBOUR(&b->r, ROUTER_NEXT, s) {
            braid_down *d = down_of(b, k, s);
            d->owed = 0;
            d->denied_done = 0;
            if (from_nothing || from_kept) d->out = from_kept ? d->kept : 0;
        }
        b->commodity[k].stuck_since = b->commodity[k].deficit_since = BRAID_NEVER_SINCE;
        b->commodity[k].cancelled = false;
        recount(b, k);
    }
}

// Should one end of a link have kept nothing, both agree all the same.
static void say_counts(braid *b) {
    for (uint32_t k = 0; k < b->r.commodities; k++) {
        EACH_NEIGHBOUR(&b->r, ROUTER_NEXT, s) {
            outgoing *o = router_post(&b->r, b->r.slot[ROUTER_NEXT][s].peer, ROUTER_FLOW);
            o->k = (uint8_t)k;
            o->why = BRAID_TOOK_BACK;
            o->units = (uint32_t)down_of(b, k, s)->out;
        }
    }
}

// Whether the kept flow is what comes back here: also if I thought a moment ago that the draft is in force.
static bool kept_comes_back(const braid *b, uint32_t era) {
    bool late = b->era == next_of(b->era - b->era % BRAID_SPAN, ERA_PLAIN) && b->r.now < b->era_since + DRAFT * b->r.config.delay;
    return b->keeps && span_of(era) == span_of(b->era) + 1 && (b->drafts || late);
}

static void enter_span(braid *b, uint32_t era, bool from_kept) {
    bool drafted = b->drafts;
    b->drafts = kind_of(era) == ERA_DRAFT;
    if (b->drafts && !drafted) keep_flow(b);
    b->wished = (int32_t)b->r.config.capacity;
    b->keeps = b->drafts;
    begin_counts(b, span_of(era) % 2 != 0, from_kept);
    for (int side = ROUTER_PREVIOUS; side <= ROUTER_NEXT; side++) {
        EACH_NEIGHBOUR(&b->r, side, s) say(b, b->r.slot[side][s].peer);
    }
    if (b->drafts && b->r.is_source) braid_send_ways(b);
    if (!b->drafts) say_counts(b);
}

static void enter(braid *b, uint32_t era, uint32_t tries, uint32_t plan) {
    if (era > BRAID_LAST_ERA) era = BRAID_LAST_ERA;  // somebody made eras up; it is one without drafts
    if (era == b->era && era != 0) return;
    bool begins = era == 0 || span_of(era) != span_of(b->era), from_kept = begins && kept_comes_back(b, era);
    if (era != 0) braid_begin(b);  // somebody has drafted
    b->era = era;
    b->tries = tries;
    b->plan = plan;
    b->era_since = b->r.now;
    b->tells = !begins;
    router_want(&b->r, b->r.now + b->r.config.delay);  // to see when the next is due
    if (begins) {
        enter_span(b, era, from_kept);
    } else if (b->drafts) {
        b->drafts = false;
        if (b->r.is_source && b->planned == plan && plan != 0) {
            ways_enforce(b->ways);
            b->tried = plan;
            b->attempts = 0;
        }
    }
    if (!b->r.is_source) braid_fit(b);
}

// Who has said that it knows need not hear of it; by now most of those have.
static void tell(braid *b) {
    if (!b->tells) return;
    b->tells = false;
    EACH_NEIGHBOUR(&b->r, ROUTER_PREVIOUS, s) {
        if (up_of(b, 0, s)->era < b->era) say(b, b->r.slot[ROUTER_PREVIOUS][s].peer);
    }
    EACH_NEIGHBOUR(&b->r, ROUTER_NEXT, s) {
        if (down_of(b, 0, s)->era < b->era) say(b, b->r.slot[ROUTER_NEXT][s].peer);
    }
}

// --- When the next is due ----------------------------------------------------------------------------------------------

static bool is_due(braid *b, int64_t since, int64_t delays) {
    int64_t at = since + delays * b->r.config.delay;
    if (b->r.now >= at) return true;
    router_want(&b->r, at);
    return false;
}

// Nothing is under way here, and what leaves a data peer comes home; in a draft all that is planned.
static bool at_rest(const braid *b) {
    if (!braid_settled(b)) return false;
    if (!b->r.is_source) return true;
    int32_t out = braid_sum_out(b, 0);
    return out == braid_sum_in(b, 0) && (!b->drafts || (b->planned == b->plan && out == braid_planned_units(b)));
}

static void fail(braid *b, era_kind kind) { enter(b, next_of(b->era, kind), b->tries > 0 ? b->tries - 1 : 0, 0); }

// A data peer: whether nothing has happened for so long that it may think of a draft.
static bool is_calm(braid *b) {
    int32_t out = braid_sum_out(b, 0);
    bool rests = at_rest(b), all = out == (int32_t)b->r.config.capacity;
    if (!rests || !b->rests || out != b->rested_out) b->rests_since = b->r.now;
    b->rests = rests;
    b->rested_out = out;
    int64_t since = b->rests_since > b->era_since ? b->rests_since : b->era_since;
    return rests && is_due(b, since, all ? CALM : MISSING) && is_due(b, braid_map_changed_at(b), SETTLED);
}

// Each map is tried so often, for others may have had another one, or been busy.
static bool wants_draft(braid *b) {
    braid_plan(b);
    if (b->planned != b->tried) {
        b->tried = b->planned;
        b->attempts = b->planned != 0 && b->worth_it ? BRAID_TRIES : 0;
    }
    return b->attempts > 0;
}

static void tick_plain(braid *b) {
    if (!b->r.is_source || b->map == NULL || b->r.config.relays > BRAID_CROWD || !is_calm(b)) return;
    if (!wants_draft(b)) {
        if (b->tries > 0) enter(b, next_of(b->era, ERA_PLAIN), 0, 0);
        return;
    }
    if (span_of(b->era) > 0 && !is_due(b, b->era_since, APART)) return;
    b->attempts--;
    enter(b, next_of(b->era, ERA_STILL), b->tries, b->planned);
}

static bool has_that_plan(braid *b) {
    braid_plan(b);
    return b->planned == b->plan;
}

static void tick_still(braid *b) {
    if (b->r.is_source && !has_that_plan(b)) {
        fail(b, ERA_PLAIN);
        return;
    }
    if (!is_due(b, b->era_since, STILL)) return;
    if (!at_rest(b))
        fail(b, ERA_PLAIN);
    else if (b->r.is_source && is_due(b, b->era_since, STILL + OBJECT))
        enter(b, next_of(b->era, ERA_DRAFT), b->tries, b->plan);
    else if (!b->r.is_source && is_due(b, b->era_since, STILL + OBJECT + ALONE))
        fail(b, ERA_PLAIN);
}

int32_t braid_kept_load(const braid *b) {
    int32_t load = 0;
    for (uint32_t k = 0; k < b->r.commodities; k++) {
        int32_t in = 0, out = 0;
        EACH_NEIGHBOUR(&b->r, ROUTER_PREVIOUS, s) in += up_of(b, k, s)->kept;
        EACH_NEIGHBOUR(&b->r, ROUTER_NEXT, s) out += down_of(b, k, s)->kept;
        load += most(in, out);
    }
    return load;
}

// All do so by themselves.
static void end_draft(braid *b) {
    uint32_t plan = b->plan;
    enter(b, next_of(b->era, ERA_PLAIN), 0, plan);
    b->tells = false;
}

static void tick_draft(braid *b) {
    int32_t may = (int32_t)b->r.config.capacity;
    if (b->r.is_source ? may != b->wished : braid_kept_load(b) > may)
        fail(b, ERA_RESTORED);
    else if (!is_due(b, b->era_since, DRAFT))
        return;
    else if (!at_rest(b))
        fail(b, ERA_RESTORED);
    else if (is_due(b, b->era_since, DRAFT + OBJECT))
        end_draft(b);
}

void braid_mode_tick(braid *b) {
    if (!braid_shares(&b->r.config)) {
        if (b->r.now < braid_early_until(b)) router_want(&b->r, braid_early_until(b));
        return;
    }
    if (b->r.count[ROUTER_PREVIOUS] + b->r.count[ROUTER_NEXT] == 0) {
        if (b->era != 0) enter(b, 0, BRAID_TRIES, 0);  // whoever comes says what era it is
    } else if (b->drafts) {
        tick_draft(b);
    } else if (braid_still(b)) {
        tick_still(b);
    } else {
        tick_plain(b);
    }
    tell(b);
}

void braid_mode_link_up(braid *b, router_side side, uint32_t slot) {
    b->changed_since = b->r.now;
    if (b->era > 0) say(b, b->r.slot[side][slot].peer);
}

// `kept`: units of the kept flow were on its links.
void braid_mode_link_gone(braid *b, bool kept) {
    b->changed_since = b->r.now;
    if (b->drafts && kept) fail(b, ERA_RESTORED);
}

void braid_mode_heard(braid *b, const router_message *m, int previous, int next) {
    if (!braid_shares(&b->r.config) || (previous < 0 && next < 0) || m->cost < 0 || m->cost > BRAID_LAST_ERA ||
        m->units > BRAID_TRIES || m->taken_back > BRAID_LAST_PLAN)
        return;
    if (m->cost > b->era) enter(b, (uint32_t)m->cost, m->units, m->taken_back);
    if (previous >= 0) up_of(b, 0, (uint32_t)previous)->era = (uint32_t)m->cost;
    if (next >= 0) down_of(b, 0, (uint32_t)next)->era = (uint32_t)m->cost;
}

// What it says of units is about another flow.
bool braid_mode_deaf(const braid *b, int previous, int next) {
    if (previous < 0 && next < 0) return false;
    uint32_t heard = previous >= 0 ? up_of(b, 0, (uint32_t)previous)->era : down_of(b, 0, (uint32_t)next)->era;
    return span_of(heard) < span_of(b->era);
}
