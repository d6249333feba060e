// Neighbours of a view: requests, admission and removal. The number of links of a side never
// exceeds its bound, pending requests included. One place stays free, so that a better neighbour
// can come before a worse one goes.
#include "routing/view/view_internal.h"

enum {
    ASKS = 2,           // requests on one side in one period
    TRIMS = 4,          // links of one side removed at a time
    BUSY_PERIODS = 8,   // a link is kept so long after it carried units
    KEEP_PERIODS = 16,  // a link that its upstream end did not release is left alone so long
};

view_neighbour *view_neighbour_find(view *v, router_side side, router_peer peer) {
    for (uint32_t i = 0; i < v->neighbours[side]; i++)
        if (v->neighbour[side][i].card.peer == peer) return &v->neighbour[side][i];
    return NULL;
}

static uint32_t close_wanted(const view *v) { return v->config.close; }

static uint32_t chance_wanted(const view *v) {
    return v->config.links > v->config.close ? v->config.links - v->config.close - 1 : 0;
}

static uint32_t count_kind(const view *v, router_side side, bool by_chance) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < v->neighbours[side]; i++) n += v->neighbour[side][i].by_chance == by_chance;
    return n;
}

static bool full(const view *v, router_side side) { return v->neighbours[side] == v->config.links; }

static bool may_go(const view *v, const view_neighbour *b) {
    return b->up && !b->by_chance && b->units == 0 && v->now >= b->kept_until;
}

// The most expensive close neighbour that may be removed.
static view_neighbour *dearest(const view *v, router_side side) {
    view_neighbour *worst = NULL;
    for (uint32_t i = 0; i < v->neighbours[side]; i++) {
        view_neighbour *b = &v->neighbour[side][i];
        if (may_go(v, b) && (worst == NULL || b->cost > worst->cost)) worst = b;
    }
    return worst;
}

// Close links below this cost are accepted.
int64_t view_neighbour_limit(const view *v, router_side side) {
    if (count_kind(v, side, false) < close_wanted(v)) return VIEW_ANY_COST;
    const view_neighbour *worst = dearest(v, side);
    return worst == NULL ? 0 : worst->cost - worst->cost * v->config.margin / 1024;
}

bool view_neighbour_chance(const view *v, router_side side) {
    return !full(v, side) && count_kind(v, side, true) < chance_wanted(v);
}

static void come_up(view *v, router_side side, view_neighbour *b) {
    b->up = true;
    b->since = v->now;
    view_report(v, true, side, b);
    view_quicken(v, false);
}

static view_neighbour *new_bond(view *v, router_side side, const view_descriptor *card, int64_t cost, bool by_chance) {
    view_neighbour *b = &v->neighbour[side][v->neighbours[side]++];
    *b = (view_neighbour){.card = *card,
                          .born = v->now - (int64_t)card->age * v->config.period,
                          .cost = cost,
                          .by_chance = by_chance,
                          .since = v->now,
                          .parting = -1,
                          .spoken = v->now};
    view_contact_entry *c = view_contact_find(v, side, card->peer);
    if (c != NULL) view_contact_forget(v, side, c, false);
    return b;
}

bool view_adopt(view *v, int64_t now, router_side side, router_peer peer, uint16_t stage, int64_t cost) {
    v->now = now;
    if (side == ROUTER_SAME || full(v, side) || view_neighbour_find(v, side, peer) != NULL) return false;
    view_descriptor card = {.peer = peer, .stage = stage, .place.error = VIEW_SURE};
    new_bond(v, side, &card, cost, false)->up = true;
    return true;
}

void view_neighbour_drop(view *v, router_side side, view_neighbour *b, bool tell_host) {
    view_neighbour gone = *b;
    *b = v->neighbour[side][--v->neighbours[side]];
    if (tell_host && gone.up) view_report(v, false, side, &gone);
    if (gone.up) view_quicken(v, !tell_host);
    view_contact_return(v, side, &gone);
}

// --- Requests ------------------------------------------------------------------------------------

static bool ready(const view *v, const view_contact_entry *c) { return c->card.peer != 0 && v->now >= c->not_before; }

static bool would_take(const view *v, const view_contact_entry *c) {
    return v->now >= c->limit_until || c->cost < c->limit;
}

static view_contact_entry *cheapest(view *v, router_side side) {
    view_contact_entry *best = NULL;
    for (uint32_t i = 0; i < VIEW_CONTACTS; i++) {
        view_contact_entry *c = &v->group[side].contact[i];
        if (!ready(v, c) || c->cost == VIEW_UNKNOWN || !would_take(v, c)) continue;
        if (best == NULL || c->cost < best->cost) best = c;
    }
    return best;
}

static void ask(view *v, router_side side, const view_contact_entry *c, bool by_chance) {
    view_descriptor card = c->card;
    card.age = view_age(v, c->born);
    view_post(v, card.peer, VIEW_ASK, side, c->cost, by_chance);
    new_bond(v, side, &card, c->cost, by_chance);
}

static void seek_close(view *v, router_side side) {
    for (uint32_t asked = 0; asked < ASKS && !full(v, side); asked++) {
        const view_contact_entry *c = cheapest(v, side);
        if (c == NULL || c->cost >= view_neighbour_limit(v, side)) return;
        ask(v, side, c, false);
    }
}

static view_contact_entry *by_lot(view *v, router_side side, bool measured) {
    view_group *g = &v->group[side];
    uint32_t start = (uint32_t)rng_below(&v->random, VIEW_ANY);
    for (uint32_t i = 0; i < VIEW_CONTACTS; i++) {  // random contacts first
        view_contact_entry *c = &g->contact[i < VIEW_ANY ? VIEW_NEAR + (start + i) % VIEW_ANY : i - VIEW_ANY];
        if (!ready(v, c) || (c->cost != VIEW_UNKNOWN) != measured || c->pinged >= 0) continue;
        if (v->now >= c->limit_until || !c->no_chance) return c;
    }
    return NULL;
}

static void seek_by_chance(view *v, router_side side) {
    if (!view_neighbour_chance(v, side) || count_kind(v, side, true) * 4 > chance_wanted(v) * 3) return;
    view_contact_entry *c = by_lot(v, side, true);
    if (c != NULL) {
        ask(v, side, c, true);
        return;
    }
    c = by_lot(v, side, false);
    if (c == NULL) return;
    view_post(v, c->card.peer, VIEW_PING, side, 0, false);
    c->pinged = v->now;
}

void view_neighbour_seek(view *v, router_side side) {
    seek_close(v, side);
    seek_by_chance(v, side);
}

void view_neighbour_expire(view *v, router_side side) {
    for (uint32_t i = v->neighbours[side]; i > 0; i--) {
        view_neighbour *b = &v->neighbour[side][i - 1];
        if (!b->up && v->now - b->since > v->config.patience) {
            view_neighbour_drop(v, side, b, false);
        } else if (b->parting >= 0 && v->now - b->parting > v->config.patience) {
            b->parting = -1;
            b->kept_until = v->now + KEEP_PERIODS * v->config.period;
        }
    }
}

// --- Answers -------------------------------------------------------------------------------------

// The requester's cost, but at least the cost measured here: a false claim does not win a close
// place.
static int64_t cost_of_asker(view *v, router_side side, const view_message *m) {
    const view_contact_entry *c = view_contact_find(v, side, m->from);
    return c != NULL && c->cost > m->cost ? c->cost : m->cost;
}

static bool acceptable(const view *v, router_side side, int64_t cost, bool by_chance) {
    if (full(v, side) || cost >= VIEW_ANY_COST) return false;
    return by_chance ? view_neighbour_chance(v, side) : cost < view_neighbour_limit(v, side);
}

void view_neighbour_on_ask(view *v, router_side side, const view_message *m) {
    view_neighbour *b = view_neighbour_find(v, side, m->from);
    int64_t cost = b == NULL ? cost_of_asker(v, side, m) : b->cost;
    if (b == NULL && !acceptable(v, side, cost, m->by_chance)) {
        view_contact_entry *c = view_contact_find(v, side, m->from);
        if (c != NULL && c->cost == VIEW_UNKNOWN) view_contact_measured(v, side, c, m->cost);
        view_post(v, m->from, VIEW_NO, side, view_neighbour_limit(v, side), m->by_chance);
        return;
    }
    if (b == NULL) b = new_bond(v, side, &m->card, cost, m->by_chance);
    if (!b->up) {
        b->by_chance &= m->by_chance;  // both requested it: close if one of them wants it close
        come_up(v, side, b);
    }
    view_post(v, m->from, VIEW_YES, side, b->cost, b->by_chance);
    view_neighbour_trim(v, side);
}

void view_neighbour_on_yes(view *v, router_side side, const view_message *m) {
    view_neighbour *b = view_neighbour_find(v, side, m->from);
    // the request timed out, or both requested and this end has removed the link since
    if (b == NULL) {
        view_post(v, m->from, VIEW_CUT, side, 0, false);
        return;
    }
    if (b->up) return;
    b->by_chance = m->by_chance;
    come_up(v, side, b);
    view_neighbour_trim(v, side);
}

void view_neighbour_on_no(view *v, router_side side, const view_message *m) {
    view_neighbour *b = view_neighbour_find(v, side, m->from);
    if (b == NULL || b->up) return;
    view_neighbour_drop(v, side, b, false);
    view_contact_entry *c = view_contact_find(v, side, m->from);
    if (c == NULL) return;
    c->limit = m->cost;
    c->no_chance = m->by_chance;
    c->limit_until = v->now + VIEW_LIMIT_PERIODS * v->config.period;
}

// --- Removal -------------------------------------------------------------------------------------

static void cut(view *v, router_side side, view_neighbour *b) {
    view_post(v, b->card.peer, VIEW_CUT, side, 0, false);
    view_neighbour_drop(v, side, b, true);
}

// The upstream end owns the count and may remove an unused link; the other end has to ask.
void view_neighbour_trim(view *v, router_side side) {
    for (uint32_t n = 0; n < TRIMS; n++) {
        uint32_t close = 0;
        for (uint32_t i = 0; i < v->neighbours[side]; i++) {
            const view_neighbour *b = &v->neighbour[side][i];
            if (b->parting >= 0) return;
            close += b->up && !b->by_chance;
        }
        if (close <= close_wanted(v)) return;
        view_neighbour *worst = dearest(v, side);
        if (worst == NULL) return;
        if (side == ROUTER_PREVIOUS) {
            view_post(v, worst->card.peer, VIEW_PART, side, 0, false);
            worst->parting = v->now;
            return;
        }
        cut(v, side, worst);
    }
}

void view_neighbour_on_part(view *v, router_side side, const view_message *m) {
    if (side != ROUTER_NEXT) return;
    view_neighbour *b = view_neighbour_find(v, side, m->from);
    if (b == NULL)
        view_post(v, m->from, VIEW_CUT, side, 0, false);
    else if (b->up && b->units == 0 && v->now >= b->kept_until)
        cut(v, side, b);
}

void view_neighbour_on_cut(view *v, router_side side, const view_message *m) {
    view_neighbour *b = view_neighbour_find(v, side, m->from);
    if (b != NULL) view_neighbour_drop(v, side, b, true);
}

// Each message says whether its sender has this peer as a neighbour, which repairs the effect of a
// lost YES or CUT.
void view_neighbour_check(view *v, const view_message *m) {
    for (int s = 0; s < VIEW_NEIGHBOUR_SIDES; s++) {
        router_side side = (router_side)s;
        bool linked = (m->linked >> view_opposite(side) & 1) != 0;
        view_neighbour *b = view_neighbour_find(v, side, m->from);
        if (linked && b == NULL) {
            view_post(v, m->from, VIEW_CUT, side, 0, false);
        } else if (linked && !b->up) {
            come_up(v, side, b);
        } else if (!linked && b != NULL && b->up && v->now - b->since > 2 * v->config.patience) {
            view_neighbour_drop(v, side, b, true);
        }
    }
}

void view_carries(view *v, int64_t now, router_side side, router_peer peer, uint32_t units) {
    v->now = now;
    if (side != ROUTER_PREVIOUS && side != ROUTER_NEXT) return;
    view_neighbour *b = view_neighbour_find(v, side, peer);
    if (b == NULL) return;
    if (b->units > 0 && units == 0) b->kept_until = now + BUSY_PERIODS * v->config.period;
    b->units = units;
}
