// braid with several data peers: eras, in which prices are looked for in a draft while what was found before is in force.
//
// Prices (braid_price.c) come close to the optimum, but until they are found many units are booked where there is no room. So
// units first get their ways without prices: each data peer's cycles are cancelled by themselves, within capacities and with
// labels that go both ways, as with one data peer. That is some percent dearer, whole after some dozen rounds, and always comes
// to rest. Once every data peer has all that it wants, the flow is kept: it is what hosts are told from then on. What prices
// then do to the counters is a draft, for a bounded time. At its end the draft is in force: cancelling without prices
// finds room for what is still booked too much, and mends what prices left. If a peer that the kept flow needs is lost in
// between, the kept flow comes back, and is mended.
//
// All must do the same, for the two ways need other labels. Eras tell: who finds that the next is due begins it and tells its
// neighbours; who hears of a later era than its own enters it and tells on. The eras of a span have the same restorations behind
// them: what the two ends of a link say of its units counts only between two that are in the same span, however they came there.
#include "flow/braid.h"

enum {
    CROWD = 128,  // relays of the run; with more nobody drafts: prices of very many depend on each other
    COARSE = 8,   // per cent of a link's mean cost: gains left alone while a draft is to come
    LARGE = 8,    // ... with one data peer, for the first EARLY delays: small changes before large ones are mostly undone by them
    // Delays.
    EARLY = 40,
    CALM = 50,      // a data peer has had all that it wants for so long before it asks for a draft
    GIVE_UP = 400,  // ... or has not: there is no room for all, and no draft to come
    STILL = 80,     // no token is launched before the flow is kept ...
    OBJECT = 20,    // ... and data peers begin the draft so much later than anybody may object
    DRAFT = 500,    // its length; towards its end who is not at rest prolongs it, ...
    OBJECT_DRAFT = 100,
    ALONE = 60,        // what data peers do together relays do by themselves so much later
    PATIENCE = 10000,  // without a draft to come, and neighbours or costs changed since: another may be tried
    DRAFTS = 24        // ... at most so often
};

// What an era is, by its number.
typedef enum era_kind {
    ERA_RESTORED,  // without prices, from the flow that was kept: the first of a span, so later than all before it
    ERA_STILL,     // without prices and tokens: what is under way ends
    ERA_DRAFT,     // with prices
    ERA_PLAIN,     // without prices, from the flow that there is
    ERA_KINDS
} era_kind;

static era_kind kind_of(uint32_t era) { return (era_kind)(era % ERA_KINDS); }

static uint32_t span_of(uint32_t era) { return era / BRAID_SPAN; }

static uint32_t next_of(uint32_t era, era_kind kind) {
    if (kind == ERA_RESTORED) return (span_of(era) + 1) * BRAID_SPAN;
    do era++;
    while (kind_of(era) != kind);
    return era;
}

bool braid_shares(const router_config *c) { return c->source_count > 1 && c->algorithm == ROUTER_BRAID; }

int64_t braid_early_until(const braid *b) { return b->era_since + EARLY * b->r.config.delay; }

int64_t braid_coarse_slack(const braid *b) {
    int64_t share = 0;
    if (!braid_shares(&b->r.config))
        share = b->r.now < braid_early_until(b) ? LARGE : 0;
    else if (b->tries > 0 && !b->shared && b->r.config.relays <= CROWD)
        share = COARSE;
    return b->r.config.slack + b->mean * share / 100;
}

bool braid_still(const braid *b) { return kind_of(b->era) == ERA_STILL; }

static void say(braid *b, router_peer to) {
    outgoing *o = router_post(&b->r, to, ROUTER_QUERY);
    o->why = BRAID_ERA;
    o->cost = b->era;
    o->units = b->tries;
    o->taken_back = b->drafts;
}

// --- Entering an era ---------------------------------------------------------------------------------------------------

static void forget_label(braid_label *label) { *label = (braid_label){.half = label->half, .at = label->at}; }

// With prices each next neighbour has a second label, without them each previous one has a label: the same memory.
static void change_labels(braid *b) {
    uint32_t links = b->r.commodities * b->r.config.max_neighbours;
    for (uint32_t i = 0; i < links; i++) {
        braid_up *u = &b->up[i];
        braid_down *d = &b->down[i];
        braid_label moved = b->shared ? u->label : d->stay;
        u->label = d->stay = (braid_label){0};
        *(b->shared ? &d->stay : &u->label) = moved;
        forget_label(b->shared ? &d->stay : &u->label);
        forget_label(&d->label);
        u->said = u->said_stay = d->said = 0;
        u->said_cost = u->said_stay_cost = BRAID_NOWHERE;
        u->news_since = BRAID_NEVER_SINCE;
        u->watches = d->watched = false;
    }
    for (uint32_t k = 0; k < b->r.commodities; k++) {
        braid_commodity *c = &b->commodity[k];
        forget_label(&c->in);
        forget_label(&c->out);
        c->in_hash = c->out_hash = 0;
        c->shift_at = BRAID_NEVER_SINCE;
    }
}

static void keep_flow(braid *b) {
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

// Both ends of each link begin anew, with what was kept. Neither hears the other until it has done so (braid_mode_deaf), and
// then each sender says its counts: should one have kept nothing, both agree all the same.
static void restore_flow(braid *b, bool kept) {
    forget_waiting_counts(b);
    braid_drop_tokens(b);
    for (uint32_t k = 0; k < b->r.commodities; k++) {
        EACH_NEIGHBOUR(&b->r, ROUTER_PREVIOUS, s) {
            braid_up *u = up_of(b, k, s);
            u->denied = u->denied_ack = 0;
            if (kept) u->in = u->kept;
        }
        EACH_NEIGHBOUR(&b->r, ROUTER_NEXT, s) {
            braid_down *d = down_of(b, k, s);
            d->owed = 0;
            d->denied_done = 0;
            if (kept) d->out = d->kept;
            outgoing *o = router_post(&b->r, b->r.slot[ROUTER_NEXT][s].peer, ROUTER_FLOW);
            o->k = (uint8_t)k;
            o->why = BRAID_TOOK_BACK;
            o->units = (uint32_t)d->out;
        }
        b->commodity[k].stuck_since = b->commodity[k].deficit_since = BRAID_NEVER_SINCE;
        b->commodity[k].cancelled = false;
    }
}

static void enter(braid *b, uint32_t era, uint32_t tries, uint32_t drafts) {
    if (era > BRAID_LAST_ERA) return;  // which somebody made up; it is one without prices
    bool drafted = b->shared, restores = era == 0 || span_of(era) != span_of(b->era);
    b->era = era;
    b->tries = tries;
    b->drafts = drafts;
    b->era_since = b->r.now;
    b->shared = kind_of(era) == ERA_DRAFT;
    if (b->shared != drafted) {
        b->label_limit = b->shared ? b->shared_limit : b->label_room;
        braid_unsettle_price(b);
        change_labels(b);
    }
    b->prolongs = b->shared && drafted && !restores;
    for (int side = ROUTER_PREVIOUS; side <= ROUTER_NEXT && !b->prolongs; side++) {
        EACH_NEIGHBOUR(&b->r, side, s) say(b, b->r.slot[side][s].peer);
    }
    if (restores) restore_flow(b, drafted);
    if (b->shared && !drafted) keep_flow(b);
    if (!b->r.is_source) braid_fit(b);
}

// --- When the next is due ----------------------------------------------------------------------------------------------

static bool is_due(braid *b, int64_t since, int64_t delays) {
    int64_t at = since + delays * b->r.config.delay;
    if (b->r.now >= at) return true;
    router_want(&b->r, at);
    return false;
}

// Nothing is under way here, and a data peer's units all leave and come home.
static bool at_rest(const braid *b) {
    if (!braid_settled(b)) return false;
    int32_t wanted = (int32_t)b->r.config.capacity;
    return !b->r.is_source || (braid_sum_out(b, 0) == wanted && braid_sum_in(b, 0) == wanted);
}

static void fail(braid *b, era_kind kind) { enter(b, next_of(b->era, kind), b->tries > 0 ? b->tries - 1 : 0, 0); }

static void tick_plain(braid *b) {
    if (b->tries == 0) {
        if (b->changed_since >= b->era_since && b->r.now - b->era_since >= PATIENCE * b->r.config.delay)
            enter(b, next_of(b->era, ERA_PLAIN), BRAID_TRIES, 0);
        return;
    }
    if (!b->r.is_source || b->r.config.relays > CROWD) return;
    bool rests = at_rest(b);
    if (rests != b->rests) b->rests_since = b->r.now;
    b->rests = rests;
    int64_t since = b->rests_since > b->era_since ? b->rests_since : b->era_since;
    if (rests && is_due(b, since, CALM))
        enter(b, next_of(b->era, ERA_STILL), b->tries, 0);
    else if (!rests && is_due(b, since, GIVE_UP))
        enter(b, next_of(b->era, ERA_PLAIN), 0, 0);
}

static void tick_still(braid *b) {
    if (!is_due(b, b->era_since, STILL)) return;
    if (!at_rest(b))
        fail(b, ERA_PLAIN);
    else if (b->r.is_source && is_due(b, b->era_since, STILL + OBJECT))
        enter(b, next_of(b->era, ERA_DRAFT), b->tries, 1);
    else if (!b->r.is_source && is_due(b, b->era_since, STILL + OBJECT + ALONE))
        fail(b, ERA_PLAIN);
}

// That a draft goes on has time until the tick: by then most of those who know have said so.
static void prolong(braid *b) {
    EACH_NEIGHBOUR(&b->r, ROUTER_PREVIOUS, s) {
        if (up_of(b, 0, s)->era < b->era) say(b, b->r.slot[ROUTER_PREVIOUS][s].peer);
    }
    EACH_NEIGHBOUR(&b->r, ROUTER_NEXT, s) {
        if (down_of(b, 0, s)->era < b->era) say(b, b->r.slot[ROUTER_NEXT][s].peer);
    }
    b->prolongs = false;
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

static void tick_draft(braid *b) {
    int32_t kept = braid_kept_load(b), may = (int32_t)b->r.config.capacity;
    if (b->r.is_source ? kept != may : kept > may)
        fail(b, ERA_RESTORED);
    else if (b->tends != 0 && b->drafts < DRAFTS && is_due(b, b->era_since, DRAFT - OBJECT_DRAFT))
        enter(b, next_of(b->era, ERA_DRAFT), b->tries, b->drafts + 1);
    else if (is_due(b, b->era_since, b->r.is_source ? DRAFT : DRAFT + ALONE))
        enter(b, next_of(b->era, ERA_PLAIN), 0, 0);
}

void braid_mode_tick(braid *b) {
    if (!braid_shares(&b->r.config)) {
        if (b->r.now < braid_early_until(b)) router_want(&b->r, braid_early_until(b));
        return;
    }
    if (b->r.count[ROUTER_PREVIOUS] + b->r.count[ROUTER_NEXT] == 0)
        enter(b, 0, BRAID_TRIES, 0);  // whoever comes says what era it is
    else if (b->shared)
        tick_draft(b);
    else if (braid_still(b))
        tick_still(b);
    else
        tick_plain(b);
    if (b->prolongs) prolong(b);
}

void braid_mode_link_up(braid *b, router_side side, uint32_t slot) {
    b->changed_since = b->r.now;
    if (b->era > 0) say(b, b->r.slot[side][slot].peer);
}

// `kept`: units of the kept flow were on its links.
void braid_mode_link_gone(braid *b, bool kept) {
    b->changed_since = b->r.now;
    if (b->shared && kept) fail(b, ERA_RESTORED);
}

static uint32_t heard_of(const braid *b, int previous, int next) {
    return previous >= 0 ? up_of(b, 0, (uint32_t)previous)->era : down_of(b, 0, (uint32_t)next)->era;
}

// It comes back from a draft that I passed by: what I had said before is forgotten there, and I forgot nothing.
static void say_labels_again(braid *b, int previous, int next) {
    for (uint32_t k = 0; k < b->r.commodities; k++) {
        if (next >= 0) down_of(b, k, (uint32_t)next)->said = 0;
        if (previous < 0) continue;
        braid_up *u = up_of(b, k, (uint32_t)previous);
        u->said = u->said_stay = 0;
        u->said_cost = u->said_stay_cost = BRAID_NOWHERE;
    }
}

static void note_drafts(braid *b, bool drafts, int previous, int next) {
    bool alone = drafts && !b->shared;
    bool was_alone = previous >= 0 ? up_of(b, 0, (uint32_t)previous)->drafts_alone : down_of(b, 0, (uint32_t)next)->drafts_alone;
    if (was_alone && !drafts) say_labels_again(b, previous, next);
    if (previous >= 0) up_of(b, 0, (uint32_t)previous)->drafts_alone = alone;
    if (next >= 0) down_of(b, 0, (uint32_t)next)->drafts_alone = alone;
}

// When it goes over to prices, or back, its labels until now count no more.
void braid_mode_heard(braid *b, const router_message *m, int previous, int next) {
    if (!braid_shares(&b->r.config) || (previous < 0 && next < 0) || m->cost < 0 || m->cost > BRAID_LAST_ERA ||
        m->units > BRAID_TRIES || m->taken_back > DRAFTS)
        return;
    if (m->cost > b->era) enter(b, (uint32_t)m->cost, m->units, m->taken_back);
    bool drafts = kind_of((uint32_t)m->cost) == ERA_DRAFT, drafted = kind_of(heard_of(b, previous, next)) == ERA_DRAFT;
    if (previous >= 0) up_of(b, 0, (uint32_t)previous)->era = (uint32_t)m->cost;
    if (next >= 0) down_of(b, 0, (uint32_t)next)->era = (uint32_t)m->cost;
    note_drafts(b, drafts, previous, next);
    if (drafts == drafted) return;
    for (uint32_t k = 0; k < b->r.commodities; k++) {
        if (previous >= 0) forget_label(&up_of(b, k, (uint32_t)previous)->label);
        if (next >= 0) forget_label(&down_of(b, k, (uint32_t)next)->label);
        if (next >= 0) forget_label(&down_of(b, k, (uint32_t)next)->stay);
    }
}

// What it says of units is about the draft that is no more.
bool braid_mode_deaf(const braid *b, int previous, int next) {
    if (previous < 0 && next < 0) return false;
    return span_of(heard_of(b, previous, next)) < span_of(b->era);
}
