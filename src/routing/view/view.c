// Partial view (view.h): refreshing, events, and messages out. Contacts are in view_contacts.c, neighbours in
// view_links.c, coordinates in view_coordinate.c.
#include "routing/view/view_internal.h"

#include "base/err.h"

#include <string.h>

enum { PROBES = 2, MARGIN = 128 };

// --- Memory --------------------------------------------------------------------------------------

static bool config_good(const view_config *c) {
    if (c->self == 0 || c->self >= 1u << 31 || c->stages == 0 || c->stage > c->stages) return false;
    if (c->links > ROUTER_MAX_NEIGHBOURS || c->close > c->links || c->margin > 1024) return false;
    return c->period > 0 && c->patience > 0 && c->probes <= VIEW_NEAR;
}

static uint32_t links_of(const view_config *c) { return c->links == 0 ? VIEW_LINKS : c->links; }

size_t view_bytes(const view_config *config) {
    if (!config_good(config)) return 0;
    return sizeof(view) + (size_t)links_of(config) * VIEW_NEIGHBOUR_SIDES * sizeof(view_neighbour);
}

view *view_init(void *memory, const view_config *config, int64_t now) {
    BRAID_ASSERT(config_good(config));
    memset(memory, 0, view_bytes(config));
    view *v = memory;
    v->config = *config;
    v->config.links = links_of(config);
    if (view_is_source(v)) v->config.close = v->config.links;
    if (v->config.close == 0) v->config.close = (v->config.links + 1) / 2;
    if (v->config.probes == 0) v->config.probes = PROBES;
    if (v->config.margin == 0) v->config.margin = MARGIN;
    v->neighbour[ROUTER_PREVIOUS] = (view_neighbour *)(v + 1);
    v->neighbour[ROUTER_NEXT] = v->neighbour[ROUTER_PREVIOUS] + v->config.links;
    v->random.state = rng_seed(config->seed, config->self);
    v->place.error = VIEW_SURE;
    v->now = now;
    // not all peers at once
    v->deadline = now + (int64_t)rng_below(&v->random, (uint64_t)config->period);
    return v;
}

// --- Shared functions ----------------------------------------------------------------------------

void view_post(view *v, router_peer to, view_kind kind, router_side side, int64_t cost, bool by_chance) {
    BRAID_ASSERT(v->out_count < VIEW_OUT);
    v->out[v->out_count++] = (view_waiting){to, kind, (uint8_t)side, by_chance, cost};
}

void view_report(view *v, bool add, router_side side, const view_neighbour *b) {
    BRAID_ASSERT(v->change_count < VIEW_CHANGES);
    v->change[v->change_count++] = (view_change){add, side, b->card.peer, b->cost};
}

// After a change the view refreshes faster again. `at_once`: the change was not this peer's choice.
void view_quicken(view *v, bool at_once) {
    v->unchanged = 0;
    if (v->level > 0) v->level--;
    if (!at_once) return;
    v->level = 0;
    if (v->deadline > v->now + v->config.period) v->deadline = v->now + v->config.period;
}

// --- Refreshing ----------------------------------------------------------------------------------

static view_contact_entry *some_contact(view *v, router_side side, uint32_t from, uint32_t count) {
    uint32_t start = (uint32_t)rng_below(&v->random, count);
    for (uint32_t i = 0; i < count; i++) {
        view_contact_entry *c = &v->group[side].contact[from + (start + i) % count];
        if (c->card.peer != 0 && c->card.stage != 0 && c->pinged < 0) return c;
    }
    return NULL;
}

static view_neighbour *longest_silent(view *v) {
    view_neighbour *best = NULL;
    for (int side = 0; side < VIEW_NEIGHBOUR_SIDES; side++)
        for (uint32_t i = 0; i < v->neighbours[side]; i++) {
            view_neighbour *b = &v->neighbour[side][i];
            if (b->up && b->card.stage != 0 && (best == NULL || b->spoken < best->spoken)) best = b;
        }
    return best;
}

// Chooses the partner of an exchange. Every other one is a peer of the own stage: its neighbours
// may suit this peer too. In between come a neighbour, to keep both ends consistent, and a random
// contact. Data peers leave the search to the relays.
static void exchange(view *v) {
    if (view_is_source(v)) return;
    uint32_t turn = v->turn++ % 4;
    view_neighbour *b = turn == 3 || (turn == 1 && v->level >= VIEW_SLOWEST / 2) ? longest_silent(v) : NULL;
    if (b != NULL) {
        b->spoken = v->now;
        view_post(v, b->card.peer, VIEW_SAMPLE, ROUTER_SAME, 0, false);
        return;
    }
    view_contact_entry *c = turn % 2 == 0 ? some_contact(v, ROUTER_SAME, 0, VIEW_NEAR) : NULL;
    if (c == NULL) c = some_contact(v, (router_side)rng_below(&v->random, ROUTER_SIDES), VIEW_NEAR, VIEW_ANY);
    for (int side = 0; c == NULL && side < ROUTER_SIDES; side++)
        c = some_contact(v, (router_side)side, 0, VIEW_CONTACTS);
    if (c == NULL) return;
    c->pinged = v->now;
    view_post(v, c->card.peer, VIEW_SAMPLE, ROUTER_SAME, 0, false);
}

// Measures unknown contacts, the nearest by coordinates first.
static void probe(view *v, router_side side) {
    for (uint32_t n = 0; n < v->config.probes; n++) {
        view_contact_entry *best = NULL;
        int64_t limit = view_neighbour_limit(v, side);
        for (uint32_t i = 0; i < VIEW_NEAR; i++) {
            view_contact_entry *c = &v->group[side].contact[i];
            if (c->card.peer == 0 || c->cost != VIEW_UNKNOWN || c->pinged >= 0 || v->now < c->not_before) continue;
            if (view_contact_rank(v, c) >= limit) continue;
            if (best == NULL || view_contact_rank(v, c) < view_contact_rank(v, best)) best = c;
        }
        if (best == NULL) return;
        best->pinged = v->now;
        view_post(v, best->card.peer, VIEW_PING, side, 0, false);
    }
}

void view_tick(view *v, int64_t now) {
    v->now = now;
    view_contact_expire(v);
    exchange(v);
    for (int s = 0; s < VIEW_NEIGHBOUR_SIDES; s++) {
        router_side side = (router_side)s;
        view_neighbour_expire(v, side);
        probe(v, side);
        view_neighbour_seek(v, side);
        view_neighbour_trim(v, side);
    }
    if (++v->unchanged > VIEW_UNCHANGED && v->level < VIEW_SLOWEST) {
        v->level++;
        v->unchanged = 0;
    }
    int64_t pace = v->config.period << v->level;
    v->deadline = now + pace * 3 / 4 + (int64_t)rng_below(&v->random, (uint64_t)pace / 2 + 1);
}

int64_t view_deadline(const view *v) { return v->deadline; }

// --- Events --------------------------------------------------------------------------------------

void view_contact(view *v, int64_t now, router_peer peer, uint16_t stage) {
    v->now = now;
    view_descriptor card = {.peer = peer, .stage = stage, .place.error = VIEW_SURE};
    view_contact_learn(v, &card);
}

void view_measured(view *v, int64_t now, router_peer peer, int64_t cost) {
    v->now = now;
    if (cost < 0 || cost >= VIEW_ANY_COST) return;
    v->measured = peer;
    v->measured_cost = cost;
    for (int side = 0; side < ROUTER_SIDES; side++) {
        view_contact_entry *c = view_contact_find(v, (router_side)side, peer);
        if (c != NULL) view_contact_measured(v, (router_side)side, c, cost);
        view_neighbour *b = side < VIEW_NEIGHBOUR_SIDES ? view_neighbour_find(v, (router_side)side, peer) : NULL;
        if (b != NULL) b->cost = cost;
    }
}

void view_gone(view *v, int64_t now, router_peer peer) {
    v->now = now;
    for (int side = 0; side < ROUTER_SIDES; side++) {
        view_neighbour *b = side < VIEW_NEIGHBOUR_SIDES ? view_neighbour_find(v, (router_side)side, peer) : NULL;
        if (b != NULL) view_neighbour_drop(v, (router_side)side, b, false);
        view_contact_entry *c = view_contact_find(v, (router_side)side, peer);
        if (c != NULL) view_contact_forget(v, (router_side)side, c, true);
    }
}

static bool sensible(const view *v, const view_message *m) {
    if (m->from == 0 || m->from >= 1u << 31 || m->from == v->config.self || m->from != m->card.peer) return false;
    if (m->card.age != 0 || !view_place_sane(&m->card.place)) return false;
    if ((uint32_t)m->kind >= VIEW_KIND_COUNT || m->side >= ROUTER_SIDES || m->length > VIEW_DESCRIPTORS) return false;
    if (m->cost < 0 || m->cost > VIEW_ANY_COST || m->card.stage > v->config.stages) return false;
    if (m->kind == VIEW_SAMPLE || m->kind == VIEW_REPLY) return true;
    return m->side != ROUTER_SAME && view_stage_at(v, view_opposite((router_side)m->side)) == m->card.stage;
}

static router_side side_of(const view *v, uint16_t stage) {
    if (view_stage_at(v, ROUTER_PREVIOUS) == stage) return ROUTER_PREVIOUS;
    return view_stage_at(v, ROUTER_NEXT) == stage ? ROUTER_NEXT : ROUTER_SAME;
}

static void note_limit(view *v, router_side side, const view_message *m) {
    view_contact_entry *c = side == ROUTER_SAME ? NULL : view_contact_find(v, side, m->from);
    if (c == NULL) return;
    c->limit = m->cost;
    c->no_chance = !m->by_chance;
    c->limit_until = v->now + VIEW_LIMIT_PERIODS * v->config.period;
}

static void on_cards(view *v, const view_message *m) {
    for (uint16_t i = 0; i < m->length; i++) {
        const view_descriptor *c = &m->cards[i];
        if (c->stage != 0 && c->stage <= v->config.stages && view_place_sane(&c->place)) view_contact_learn(v, c);
    }
}

static void on_sample(view *v, const view_message *m) {
    router_side side = side_of(v, m->card.stage);
    on_cards(v, m);
    v->partner = m->card;
    view_post(v, m->from, VIEW_REPLY, side, side == ROUTER_SAME ? 0 : view_neighbour_limit(v, side),
              side != ROUTER_SAME && view_neighbour_chance(v, side));
}

void view_receive(view *v, int64_t now, const view_message *m) {
    v->now = now;
    if (!sensible(v, m)) return;
    if (v->measured == m->from) view_place_learn(&v->place, &m->card.place, v->measured_cost, &v->random);
    v->measured = 0;
    view_contact_learn(v, &m->card);
    router_side side = m->side == ROUTER_SAME ? ROUTER_SAME : view_opposite((router_side)m->side);
    switch (m->kind) {
    case VIEW_SAMPLE: on_sample(v, m); break;
    case VIEW_REPLY:
        on_cards(v, m);
        note_limit(v, side, m);
        break;
    case VIEW_PING:
        view_post(v, m->from, VIEW_PONG, side, view_neighbour_limit(v, side), view_neighbour_chance(v, side));
        break;
    case VIEW_PONG: note_limit(v, side, m); break;
    case VIEW_ASK: view_neighbour_on_ask(v, side, m); break;
    case VIEW_YES: view_neighbour_on_yes(v, side, m); break;
    case VIEW_NO: view_neighbour_on_no(v, side, m); break;
    case VIEW_PART: view_neighbour_on_part(v, side, m); break;
    case VIEW_CUT: view_neighbour_on_cut(v, side, m); break;
    default: break;
    }
    if (m->kind <= VIEW_PONG) view_neighbour_check(v, m);
}

// --- Messages out --------------------------------------------------------------------------------

static uint8_t linked_bits(view *v, router_peer to) {
    uint8_t bits = 0;
    for (int side = 0; side < VIEW_NEIGHBOUR_SIDES; side++) {
        const view_neighbour *b = view_neighbour_find(v, (router_side)side, to);
        if (b != NULL && b->up) bits |= (uint8_t)(1 << side);
    }
    return bits;
}

static void find_partner(view *v, router_peer to) {
    for (int side = 0; side < ROUTER_SIDES; side++) {
        const view_neighbour *b = side < VIEW_NEIGHBOUR_SIDES ? view_neighbour_find(v, (router_side)side, to) : NULL;
        const view_contact_entry *c = view_contact_find(v, (router_side)side, to);
        if (b != NULL) v->partner = b->card;
        if (c != NULL) v->partner = c->card;
    }
}

bool view_next(view *v, view_message *out) {
    if (v->out_next == v->out_count) {
        v->out_next = v->out_count = 0;
        return false;
    }
    const view_waiting *w = &v->out[v->out_next++];
    memset(out, 0, sizeof *out);
    out->from = v->config.self;
    out->to = w->to;
    out->kind = w->kind;
    out->side = w->side;
    out->by_chance = w->by_chance;
    out->cost = w->cost;
    out->linked = linked_bits(v, w->to);
    out->card = view_own_card(v);
    if (w->kind == VIEW_SAMPLE) find_partner(v, w->to);
    if (w->kind == VIEW_SAMPLE || w->kind == VIEW_REPLY) out->length = view_contact_sample(v, &v->partner, out->cards);
    return true;
}

bool view_changed(view *v, view_change *out) {
    if (v->change_next == v->change_count) {
        v->change_next = v->change_count = 0;
        return false;
    }
    *out = v->change[v->change_next++];
    return true;
}

uint32_t view_message_bytes(const view_message *m) {
    enum { CARD = 4 + 2 + 2 + 4 * (VIEW_AXES + 1) + 2 };
    uint32_t bytes = ROUTER_FRAME_BYTES + 3;  // kind; side and flags; linked
    if (m->kind != VIEW_PART && m->kind != VIEW_CUT) bytes += CARD - 2;
    if (m->kind == VIEW_SAMPLE || m->kind == VIEW_REPLY) bytes += 1 + CARD * (uint32_t)m->length;
    return m->kind == VIEW_SAMPLE || m->kind == VIEW_PING ? bytes : bytes + 4;
}

uint32_t view_links(const view *v, router_side side, view_link *links, uint32_t max) {
    uint32_t n = 0;
    for (uint32_t i = 0; side != ROUTER_SAME && i < v->neighbours[side]; i++) {
        const view_neighbour *b = &v->neighbour[side][i];
        if (!b->up) continue;
        if (n < max) links[n] = (view_link){b->card.peer, b->cost, b->by_chance, b->units};
        n++;
    }
    return n;
}
