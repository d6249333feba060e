// Contacts of a view: unknown and partly known peers of the own and both neighbouring stages, among
// which better neighbours are found.
#include "routing/view/view_internal.h"

static uint32_t tried_bit(router_peer peer) { return (uint32_t)rng_mix(peer) % (VIEW_TRIED_WORDS * 64); }

static bool was_tried(const view_group *g, router_peer peer) {
    uint32_t bit = tried_bit(peer);
    return (g->tried[bit / 64] >> bit % 64 & 1) != 0;
}

// A filter that is half full rejects too much, so it is cleared: every peer gets another chance.
static void note_tried(view_group *g, router_peer peer) {
    if (was_tried(g, peer)) return;
    if (++g->tried_count > VIEW_TRIED_WORDS * 64 / 2) {
        for (uint32_t i = 0; i < VIEW_TRIED_WORDS; i++) g->tried[i] = 0;
        g->tried_count = 1;
    }
    uint32_t bit = tried_bit(peer);
    g->tried[bit / 64] |= (uint64_t)1 << bit % 64;
}

view_contact_entry *view_contact_find(view *v, router_side side, router_peer peer) {
    for (uint32_t i = 0; i < VIEW_CONTACTS; i++)
        if (v->group[side].contact[i].card.peer == peer) return &v->group[side].contact[i];
    return NULL;
}

int64_t view_contact_rank(const view *v, const view_contact_entry *c) {
    if (c->cost != VIEW_UNKNOWN) return c->cost;
    if (!view_place_known(&v->place) || !view_place_known(&c->card.place)) return 0;
    return view_guess(&v->place, &c->card.place);
}

uint16_t view_age(const view *v, int64_t born) {
    int64_t age = (v->now - born) / v->config.period;
    return (uint16_t)(age < 0 ? 0 : age > UINT16_MAX ? UINT16_MAX : age);
}

view_descriptor view_own_card(const view *v) {
    return (view_descriptor){.peer = v->config.self, .stage = v->config.stage, .place = v->place};
}

// The least useful near contact, or a free place.
static view_contact_entry *worst_near(view *v, view_group *g) {
    view_contact_entry *worst = &g->contact[0];
    for (uint32_t i = 0; i < VIEW_NEAR; i++) {
        view_contact_entry *c = &g->contact[i];
        if (c->card.peer == 0) return c;
        if (view_contact_rank(v, c) > view_contact_rank(v, worst)) worst = c;
    }
    return worst;
}

static view_contact_entry *place_for_any(view *v, view_group *g) {
    for (uint32_t i = VIEW_NEAR; i < VIEW_CONTACTS; i++)
        if (g->contact[i].card.peer == 0) return &g->contact[i];
    return &g->contact[VIEW_NEAR + rng_below(&v->random, VIEW_ANY)];
}

// Puts a contact among the near ones if it is nearer than one of them. A measured contact that it
// displaces counts as tried.
static bool put_near(view *v, view_group *g, const view_contact_entry *c) {
    view_contact_entry *worst = worst_near(v, g);
    if (worst->card.peer != 0 && view_contact_rank(v, c) >= view_contact_rank(v, worst)) return false;
    view_contact_entry old = *worst;
    *worst = *c;
    if (old.card.peer == 0) return true;
    if (old.cost != VIEW_UNKNOWN) note_tried(g, old.card.peer);
    *place_for_any(v, g) = old;
    return true;
}

static void learn_on(view *v, router_side side, const view_descriptor *card) {
    view_group *g = &v->group[side];
    int64_t born = v->now - (int64_t)card->age * v->config.period;
    view_neighbour *b = side == ROUTER_SAME ? NULL : view_neighbour_find(v, side, card->peer);
    view_contact_entry *c = b == NULL ? view_contact_find(v, side, card->peer) : NULL;
    if (b != NULL && born > b->born) {
        b->card = *card;
        b->born = born;
    }
    if (c != NULL && born > c->born) {
        c->card = *card;
        c->born = born;
    }
    if (b != NULL || c != NULL) return;
    view_contact_entry fresh = {
        .card = *card, .born = born, .cost = VIEW_UNKNOWN, .limit = VIEW_ANY_COST, .pinged = -1};
    if (!was_tried(g, card->peer) && put_near(v, g, &fresh)) return;
    view_contact_entry *any = place_for_any(v, g);
    if (any->card.peer == 0 || rng_below(&v->random, 2) == 0) *any = fresh;
}

void view_contact_learn(view *v, const view_descriptor *card) {
    if (card->peer == 0 || card->peer >= 1u << 31 || card->peer == v->config.self) return;
    if (card->age > VIEW_MAX_AGE) return;
    for (int side = 0; side < ROUTER_SIDES; side++) {
        if (card->stage != view_stage_at(v, (router_side)side)) continue;
        if (side == ROUTER_SAME && view_is_source(v)) continue;
        learn_on(v, (router_side)side, card);
    }
}

void view_contact_return(view *v, router_side side, const view_neighbour *b) {
    view_contact_entry c = {.card = b->card,
                            .born = b->born,
                            .cost = b->cost,
                            .limit = b->cost,  // a peer that gave up this link has cheaper ones
                            .limit_until = b->up ? v->now + VIEW_LIMIT_PERIODS * v->config.period : v->now,
                            .not_before = v->now + 4 * v->config.patience,
                            .pinged = -1};
    if (view_contact_find(v, side, c.card.peer) == NULL && !put_near(v, &v->group[side], &c))
        note_tried(&v->group[side], c.card.peer);
}

void view_contact_forget(view *v, router_side side, view_contact_entry *c, bool tried) {
    if (tried) note_tried(&v->group[side], c->card.peer);
    *c = (view_contact_entry){0};
}

// A random contact that turns out to be near moves among the near ones.
void view_contact_measured(view *v, router_side side, view_contact_entry *c, int64_t cost) {
    view_group *g = &v->group[side];
    c->cost = cost;
    c->pinged = -1;
    c->misses = 0;
    if (c - g->contact < VIEW_NEAR) return;
    view_contact_entry moved = *c;
    *c = (view_contact_entry){0};
    if (put_near(v, g, &moved)) return;
    note_tried(g, moved.card.peer);
    *c = moved;
}

void view_contact_expire(view *v) {
    for (int side = 0; side < ROUTER_SIDES; side++)
        for (uint32_t i = 0; i < VIEW_CONTACTS; i++) {
            view_contact_entry *c = &v->group[side].contact[i];
            if (c->card.peer == 0) continue;
            if (c->pinged >= 0 && v->now - c->pinged > v->config.patience) {
                c->pinged = -1;
                c->misses++;
            }
            if (c->misses >= VIEW_MISSES && c->card.stage == 0) {  // the run needs its data peers
                c->misses = 0;
                c->not_before = v->now + 4 * v->config.period;
            }
            bool old = c->card.stage != 0 && view_age(v, c->born) > VIEW_MAX_AGE;
            if (old || c->misses >= VIEW_MISSES) view_contact_forget(v, (router_side)side, c, true);
        }
}

// --- Samples -------------------------------------------------------------------------------------

enum { MOST_CANDIDATES = ROUTER_SIDES * VIEW_CONTACTS + VIEW_NEIGHBOUR_SIDES * VIEW_LINKS };

typedef struct view_candidates {
    view_descriptor card[MOST_CANDIDATES];
    int64_t far[MOST_CANDIDATES];
    uint32_t count;
} view_candidates;

static bool concerns(const view *v, uint16_t stage, uint16_t other) {
    uint16_t last = v->config.stages;
    uint16_t next = stage == last ? 0 : (uint16_t)(stage + 1), previous = stage == 0 ? last : (uint16_t)(stage - 1);
    return other != 0 && (other == stage || other == next || other == previous);
}

static void offer_card(const view *v, view_candidates *all, const view_descriptor *to, const view_descriptor *card,
                       int64_t born) {
    if (card->peer == 0 || card->peer == to->peer || all->count == MOST_CANDIDATES) return;
    if (!concerns(v, to->stage, card->stage)) return;
    view_descriptor *c = &all->card[all->count];
    *c = *card;
    c->age = view_age(v, born);
    if (c->age > VIEW_MAX_AGE) return;
    bool guess = view_place_known(&to->place) && view_place_known(&card->place);
    all->far[all->count++] = guess ? view_guess(&to->place, &card->place) : 0;
}

static void gather(view *v, view_candidates *all, const view_descriptor *to) {
    all->count = 0;
    for (int side = 0; side < ROUTER_SIDES; side++)
        for (uint32_t i = 0; i < VIEW_CONTACTS; i++)
            offer_card(v, all, to, &v->group[side].contact[i].card, v->group[side].contact[i].born);
    for (int side = 0; side < VIEW_NEIGHBOUR_SIDES; side++) {
        uint32_t n = v->neighbours[side], first = n > VIEW_LINKS ? (uint32_t)rng_below(&v->random, n) : 0;
        for (uint32_t i = 0; i < n && i < VIEW_LINKS; i++) {
            const view_neighbour *b = &v->neighbour[side][(first + i) % n];
            offer_card(v, all, to, &b->card, b->born);
        }
    }
}

static void take_card(view_candidates *all, uint32_t i, view_descriptor *cards, uint16_t *n) {
    cards[(*n)++] = all->card[i];
    all->count--;
    all->card[i] = all->card[all->count];
    all->far[i] = all->far[all->count];
}

uint16_t view_contact_sample(view *v, const view_descriptor *to, view_descriptor *cards) {
    view_candidates all;
    uint16_t n = 0;
    gather(v, &all, to);
    while (n < VIEW_DESCRIPTORS / 2 && all.count > 0)
        take_card(&all, (uint32_t)rng_below(&v->random, all.count), cards, &n);
    while (n < VIEW_DESCRIPTORS && all.count > 0) {
        uint32_t best = 0;
        for (uint32_t i = 1; i < all.count; i++)
            if (all.far[i] < all.far[best]) best = i;
        take_card(&all, best, cards, &n);
    }
    return n;
}
