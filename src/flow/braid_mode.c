// braid with several data peers: with prices, or without.
//
// Prices (braid_price.c) come close to the optimum in swarms of about a hundred relays. Prices of very many relays depend
// on each other while each moves slowly, and where there is not room for all units there are none to be found. Then each
// data peer's cycles are cancelled by themselves, within capacities and with labels that go both ways, as with one data
// peer: that costs some percent more, is whole after some hundred rounds, and always comes to rest.
//
// The two need other labels, so all must do the same. Eras tell: even ones have prices. Who finds that the other way is due
// begins the next era and tells its neighbours; who hears of a later era than its own enters it and tells on.
#include "flow/braid.h"

enum {
    CROWD = 128,      // relays of the run; with more nobody tries prices ...
    CROWD_OVER = 96,  // ... until there are fewer than this
    // Delays. In an era with prices, nobody came or went for so long, and I am still overbooked: prices do not come to
    // rest. After an era without prices began, and neighbours came or went since: prices may be tried again.
    PATIENCE = 10000
};

bool braid_shares(const router_config *c) { return c->source_count > 1 && c->algorithm == ROUTER_BRAID; }

static void say(braid *b, router_peer to) {
    outgoing *o = router_post(&b->r, to, ROUTER_QUERY);
    o->why = BRAID_ERA;
    o->cost = b->era;
}

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
        u->said_distance = BRAID_UNTOLD;
        u->said_cost = u->said_stay_cost = BRAID_NOWHERE;
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

static void enter(braid *b, uint32_t era) {
    b->era = era;
    b->era_since = b->r.now;
    bool shared = era % 2 == 0;
    if (shared != b->shared) {
        b->shared = shared;
        b->label_limit = shared ? b->shared_limit : b->label_room;
        b->price = 0;
        braid_unsettle_price(b);
        change_labels(b);
    }
    for (int side = ROUTER_PREVIOUS; side <= ROUTER_NEXT; side++) {
        EACH_NEIGHBOUR(&b->r, side, s) say(b, b->r.slot[side][s].peer);
    }
    if (!b->r.is_source) braid_fit(b);
}

static bool prices_fail(const braid *b) {
    if (b->r.config.relays > CROWD || braid_hopeless(b)) return true;
    bool over = !b->r.is_source && braid_load(b) > (int32_t)b->r.config.capacity;
    int64_t since = b->era_since > b->neighbours_since ? b->era_since : b->neighbours_since;
    return over && b->r.now - since >= PATIENCE * b->r.config.delay;
}

void braid_mode_tick(braid *b) {
    if (!braid_shares(&b->r.config)) return;
    if (b->shared) {
        if (prices_fail(b)) enter(b, b->era + 1);
        return;
    }
    if (b->r.config.relays >= CROWD_OVER || b->neighbours_since <= b->era_since) return;
    if (b->r.count[ROUTER_PREVIOUS] + b->r.count[ROUTER_NEXT] == 0) return;
    int64_t due = b->era_since + PATIENCE * b->r.config.delay;
    if (b->r.now >= due)
        enter(b, b->era + 1);
    else
        router_want(&b->r, due);
}

void braid_mode_link_up(braid *b, router_side side, uint32_t slot) {
    b->neighbours_since = b->r.now;
    if (b->era > 0) say(b, b->r.slot[side][slot].peer);
}

// Its labels until now are of an earlier era, perhaps.
void braid_mode_heard(braid *b, const router_message *m, int previous, int next) {
    if (!braid_shares(&b->r.config)) return;
    if (m->cost > b->era && m->cost <= BRAID_LAST_ERA) enter(b, (uint32_t)m->cost);
    for (uint32_t k = 0; k < b->r.commodities; k++) {
        if (previous >= 0) forget_label(&up_of(b, k, (uint32_t)previous)->label);
        if (next >= 0) forget_label(&down_of(b, k, (uint32_t)next)->label);
        if (next >= 0) forget_label(&down_of(b, k, (uint32_t)next)->stay);
    }
}
