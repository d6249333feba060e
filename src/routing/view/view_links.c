// Neighbours: asking, taking, giving up. A side's count never exceeds its bound, asked ones included; one place is kept
// free so that a better neighbour comes before a worse one goes.
#include "routing/view/view_internal.h"

enum {
    ASKS = 2,           // of one side in one period
    TRIMS = 4,          // links of one side given up at a time
    BUSY_PERIODS = 8,   // a link that carried units is kept so long after
    KEEP_PERIODS = 16,  // one whose upstream end would not give it up is left alone so long
};

bond *view_bond_find(view *v, router_side side, router_peer peer) {
    for (uint32_t i = 0; i < v->bonds[side]; i++)
        if (v->bond[side][i].card.peer == peer) return &v->bond[side][i];
    return NULL;
}

static uint32_t close_wanted(const view *v) { return v->config.close; }

static uint32_t chance_wanted(const view *v) {
    return v->config.links > v->config.close ? v->config.links - v->config.close - 1 : 0;
}

static uint32_t count_kind(const view *v, router_side side, bool by_chance) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < v->bonds[side]; i++) n += v->bond[side][i].by_chance == by_chance;
    return n;
}

static bool full(const view *v, router_side side) { return v->bonds[side] == v->config.links; }

static bool may_go(const view *v, const bond *b) {
    return b->up && !b->by_chance && b->units == 0 && v->now >= b->kept_until;
}

// The dearest close neighbour that could be given up.
static bond *dearest(const view *v, router_side side) {
    bond *worst = NULL;
    for (uint32_t i = 0; i < v->bonds[side]; i++) {
        bond *b = &v->bond[side][i];
        if (may_go(v, b) && (worst == NULL || b->cost > worst->cost)) worst = b;
    }
    return worst;
}

// A close link that costs less than this is taken.
int64_t view_bond_limit(const view *v, router_side side) {
    if (count_kind(v, side, false) < close_wanted(v)) return VIEW_ANY_COST;
    const bond *worst = dearest(v, side);
    return worst == NULL ? 0 : worst->cost - worst->cost * v->config.margin / 1024;
}

bool view_bond_chance(const view *v, router_side side) {
    return !full(v, side) && count_kind(v, side, true) < chance_wanted(v);
}

static void come_up(view *v, router_side side, bond *b) {
    b->up = true;
    b->since = v->now;
    view_tell(v, true, side, b);
    view_stir(v, false);
}

static bond *new_bond(view *v, router_side side, const view_card *card, int64_t cost, bool by_chance) {
    bond *b = &v->bond[side][v->bonds[side]++];
    *b = (bond){.card = *card,
                .born = v->now - (int64_t)card->age * v->config.period,
                .cost = cost,
                .by_chance = by_chance,
                .since = v->now,
                .parting = -1,
                .spoken = v->now};
    contact *c = view_contact_find(v, side, card->peer);
    if (c != NULL) view_contact_forget(v, side, c, false);
    return b;
}

bool view_adopt(view *v, int64_t now, router_side side, router_peer peer, uint16_t stage, int64_t cost) {
    v->now = now;
    if (side == ROUTER_SAME || full(v, side) || view_bond_find(v, side, peer) != NULL) return false;
    view_card card = {.peer = peer, .stage = stage, .place.error = VIEW_SURE};
    new_bond(v, side, &card, cost, false)->up = true;
    return true;
}

void view_bond_drop(view *v, router_side side, bond *b, bool tell_host) {
    bond gone = *b;
    *b = v->bond[side][--v->bonds[side]];
    if (tell_host && gone.up) view_tell(v, false, side, &gone);
    if (gone.up) view_stir(v, !tell_host);
    view_contact_return(v, side, &gone);
}

// --- Asking ------------------------------------------------------------------------------------------------------------

static bool ready(const view *v, const contact *c) { return c->card.peer != 0 && v->now >= c->not_before; }

static bool would_take(const view *v, const contact *c) { return v->now >= c->limit_until || c->cost < c->limit; }

static contact *cheapest(view *v, router_side side) {
    contact *best = NULL;
    for (uint32_t i = 0; i < VIEW_CONTACTS; i++) {
        contact *c = &v->group[side].contact[i];
        if (!ready(v, c) || c->cost == VIEW_UNKNOWN || !would_take(v, c)) continue;
        if (best == NULL || c->cost < best->cost) best = c;
    }
    return best;
}

static void ask(view *v, router_side side, const contact *c, bool by_chance) {
    view_card card = c->card;
    card.age = view_age(v, c->born);
    view_post(v, card.peer, VIEW_ASK, side, c->cost, by_chance);
    new_bond(v, side, &card, c->cost, by_chance);
}

static void seek_close(view *v, router_side side) {
    for (uint32_t asked = 0; asked < ASKS && !full(v, side); asked++) {
        const contact *c = cheapest(v, side);
        if (c == NULL || c->cost >= view_bond_limit(v, side)) return;
        ask(v, side, c, false);
    }
}

static contact *by_lot(view *v, router_side side, bool measured) {
    view_group *g = &v->group[side];
    uint32_t start = (uint32_t)rng_below(&v->random, VIEW_ANY);
    for (uint32_t i = 0; i < VIEW_CONTACTS; i++) {  // those met by chance first
        contact *c = &g->contact[i < VIEW_ANY ? VIEW_NEAR + (start + i) % VIEW_ANY : i - VIEW_ANY];
        if (!ready(v, c) || (c->cost != VIEW_UNKNOWN) != measured || c->pinged >= 0) continue;
        if (v->now >= c->limit_until || !c->no_chance) return c;
    }
    return NULL;
}

static void seek_by_chance(view *v, router_side side) {
    if (!view_bond_chance(v, side) || count_kind(v, side, true) * 4 > chance_wanted(v) * 3) return;
    contact *c = by_lot(v, side, true);
    if (c != NULL) {
        ask(v, side, c, true);
        return;
    }
    c = by_lot(v, side, false);
    if (c == NULL) return;
    view_post(v, c->card.peer, VIEW_PING, side, 0, false);
    c->pinged = v->now;
}

void view_bond_seek(view *v, router_side side) {
    seek_close(v, side);
    seek_by_chance(v, side);
}

void view_bond_expire(view *v, router_side side) {
    for (uint32_t i = v->bonds[side]; i > 0; i--) {
        bond *b = &v->bond[side][i - 1];
        if (!b->up && v->now - b->since > v->config.patience) {
            view_bond_drop(v, side, b, false);
        } else if (b->parting >= 0 && v->now - b->parting > v->config.patience) {
            b->parting = -1;
            b->kept_until = v->now + KEEP_PERIODS * v->config.period;
        }
    }
}

// --- Answers -----------------------------------------------------------------------------------------------------------

// What the asker says, but not less than what I measured: nobody gets a close place by his word alone.
static int64_t cost_of_asker(view *v, router_side side, const view_message *m) {
    const contact *c = view_contact_find(v, side, m->from);
    return c != NULL && c->cost > m->cost ? c->cost : m->cost;
}

static bool acceptable(const view *v, router_side side, int64_t cost, bool by_chance) {
    if (full(v, side) || cost >= VIEW_ANY_COST) return false;
    return by_chance ? view_bond_chance(v, side) : cost < view_bond_limit(v, side);
}

void view_bond_on_ask(view *v, router_side side, const view_message *m) {
    bond *b = view_bond_find(v, side, m->from);
    int64_t cost = b == NULL ? cost_of_asker(v, side, m) : b->cost;
    if (b == NULL && !acceptable(v, side, cost, m->by_chance)) {
        contact *c = view_contact_find(v, side, m->from);
        if (c != NULL && c->cost == VIEW_UNKNOWN) view_contact_measured(v, side, c, m->cost);
        view_post(v, m->from, VIEW_NO, side, view_bond_limit(v, side), m->by_chance);
        return;
    }
    if (b == NULL) b = new_bond(v, side, &m->card, cost, m->by_chance);
    if (!b->up) {
        b->by_chance &= m->by_chance;  // both asked: close if it is for one of them
        come_up(v, side, b);
    }
    view_post(v, m->from, VIEW_YES, side, b->cost, b->by_chance);
    view_bond_trim(v, side);
}

void view_bond_on_yes(view *v, router_side side, const view_message *m) {
    bond *b = view_bond_find(v, side, m->from);
    if (b == NULL) {  // I gave up waiting, or both asked and I have cut it since
        view_post(v, m->from, VIEW_CUT, side, 0, false);
        return;
    }
    if (b->up) return;
    b->by_chance = m->by_chance;
    come_up(v, side, b);
    view_bond_trim(v, side);
}

void view_bond_on_no(view *v, router_side side, const view_message *m) {
    bond *b = view_bond_find(v, side, m->from);
    if (b == NULL || b->up) return;
    view_bond_drop(v, side, b, false);
    contact *c = view_contact_find(v, side, m->from);
    if (c == NULL) return;
    c->limit = m->cost;
    c->no_chance = m->by_chance;
    c->limit_until = v->now + VIEW_LIMIT_PERIODS * v->config.period;
}

// --- Giving up ---------------------------------------------------------------------------------------------------------

static void cut(view *v, router_side side, bond *b) {
    view_post(v, b->card.peer, VIEW_CUT, side, 0, false);
    view_bond_drop(v, side, b, true);
}

// Who stands upstream owns the link's count and may cut what carries nothing; the other end has to ask.
void view_bond_trim(view *v, router_side side) {
    for (uint32_t n = 0; n < TRIMS; n++) {
        uint32_t close = 0;
        for (uint32_t i = 0; i < v->bonds[side]; i++) {
            const bond *b = &v->bond[side][i];
            if (b->parting >= 0) return;
            close += b->up && !b->by_chance;
        }
        if (close <= close_wanted(v)) return;
        bond *worst = dearest(v, side);
        if (worst == NULL) return;
        if (side == ROUTER_PREVIOUS) {
            view_post(v, worst->card.peer, VIEW_PART, side, 0, false);
            worst->parting = v->now;
            return;
        }
        cut(v, side, worst);
    }
}

void view_bond_on_part(view *v, router_side side, const view_message *m) {
    if (side != ROUTER_NEXT) return;
    bond *b = view_bond_find(v, side, m->from);
    if (b == NULL)
        view_post(v, m->from, VIEW_CUT, side, 0, false);
    else if (b->up && b->units == 0 && v->now >= b->kept_until)
        cut(v, side, b);
}

void view_bond_on_cut(view *v, router_side side, const view_message *m) {
    bond *b = view_bond_find(v, side, m->from);
    if (b != NULL) view_bond_drop(v, side, b, true);
}

// Every message says whether its sender has me as a neighbour: what a lost YES or CUT left behind is mended.
void view_bond_check(view *v, const view_message *m) {
    for (int s = 0; s < VIEW_NEIGHBOUR_SIDES; s++) {
        router_side side = (router_side)s;
        bool says = (m->linked >> view_opposite(side) & 1) != 0;
        bond *b = view_bond_find(v, side, m->from);
        if (says && b == NULL) {
            view_post(v, m->from, VIEW_CUT, side, 0, false);
        } else if (says && !b->up) {
            come_up(v, side, b);
        } else if (!says && b != NULL && b->up && v->now - b->since > 2 * v->config.patience) {
            view_bond_drop(v, side, b, true);
        }
    }
}

void view_carries(view *v, int64_t now, router_side side, router_peer peer, uint32_t units) {
    v->now = now;
    if (side != ROUTER_PREVIOUS && side != ROUTER_NEXT) return;
    bond *b = view_bond_find(v, side, peer);
    if (b == NULL) return;
    if (b->units > 0 && units == 0) b->kept_until = now + BUSY_PERIODS * v->config.period;
    b->units = units;
}
