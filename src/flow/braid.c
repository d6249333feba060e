// braid: one peer's step. The counters are in braid_ledger.c, the labels in braid_label.c, the tokens in braid_token.c.
#include "flow/braid.h"

#include "base/err.h"

#include <string.h>

static braid *self_of(router *r) { return (braid *)r; }

static uint32_t commodities_of(const router_config *c) {
    for (uint32_t i = 0; i < c->source_count; i++) {
        if (c->source[i] == c->self) return 1;
    }
    return c->source_count;
}

static void lay_out(router *r, const router_config *config, arena *a) {
    size_t k = commodities_of(config), links = k * config->max_neighbours;
    braid_up *up = arena_take(a, links * sizeof(braid_up));
    braid_down *down = arena_take(a, links * sizeof(braid_down));
    braid_commodity *commodity = arena_take(a, k * sizeof(braid_commodity));
    if (r == NULL) return;
    self_of(r)->up = up;
    self_of(r)->down = down;
    self_of(r)->commodity = commodity;
}

// A tick says at most four things to a previous and three to a next neighbour and commodity; a death ends every visit.
static uint32_t queue_max(const router_config *c) {
    return 8 * c->max_neighbours * commodities_of(c) + 4 * BRAID_RESERVATIONS;
}

static void forget_up(braid *b, uint32_t k, uint32_t slot) {
    *up_of(b, k, slot) = (braid_up){.said_distance = BRAID_NOWHERE};
}

static void forget_down(braid *b, uint32_t k, uint32_t slot) {
    int64_t head = INT64_MAX;  // a newcomer enters where the others are
    EACH_NEIGHBOUR(&b->r, ROUTER_NEXT, other) {
        int64_t time = down_of(b, k, other)->virtual_time;
        if (other != slot && time < head) head = time;
    }
    *down_of(b, k, slot) = (braid_down){.distance = BRAID_NOWHERE, .virtual_time = head == INT64_MAX ? 0 : head};
}

static void braid_init(router *r) {
    braid *b = self_of(r);
    b->greedy = r->config.algorithm == ROUTER_SWARM;
    b->serial = (uint32_t)rng_next(&r->random);
    b->back_off_until = b->speak_at = r->now;
    for (uint32_t k = 0; k < r->commodities; k++)
        b->commodity[k].stuck_since = b->commodity[k].deficit_since = BRAID_NEVER_SINCE;
}

static void link_up(router *r, router_side side, uint32_t slot) {
    for (uint32_t k = 0; k < r->commodities; k++) {
        if (side == ROUTER_PREVIOUS) forget_up(self_of(r), k, slot);
        if (side == ROUTER_NEXT) forget_down(self_of(r), k, slot);
    }
}

static void link_gone(router *r, router_peer peer) {
    braid *b = self_of(r);
    braid_tokens_link_gone(b, peer);
    int previous = router_slot(r, ROUTER_PREVIOUS, peer), next = router_slot(r, ROUTER_NEXT, peer);
    for (uint32_t k = 0; k < r->commodities; k++) {
        if (previous >= 0) forget_up(b, k, (uint32_t)previous);
        if (next >= 0) forget_down(b, k, (uint32_t)next);
    }
    for (uint32_t i = 0; i < BRAID_RESERVATIONS; i++) {
        if (previous >= 0 && b->going[i].slot == (uint32_t)previous) b->going[i].units = 0;
    }
    braid_keep_capacity(b);
}

// --- Receiving ---------------------------------------------------------------------------------------------------------

static void on_label(braid *b, uint32_t k, const router_message *m, int previous, int next) {
    if (m->length > b->r.config.path_limit) return;
    braid_label *label = NULL;
    if (m->side == ROUTER_PREVIOUS && next >= 0) label = &down_of(b, k, (uint32_t)next)->label;
    if (m->side == ROUTER_NEXT && previous >= 0) label = &up_of(b, k, (uint32_t)previous)->label;
    if (label == NULL) return;
    label->cost = m->cost;
    label->length = m->length;
    for (uint32_t i = 0; i < m->length; i++) {
        label->half[i] = m->u.step[i].half;
        label->at[i] = m->u.step[i].cost;
    }
}

static void on_advert(braid *b, uint32_t k, const router_message *m, int next) {
    if (next < 0) return;
    down_of(b, k, (uint32_t)next)->distance = m->cost;
    down_of(b, k, (uint32_t)next)->room = (int32_t)m->units;
}

// What is about one commodity's links and not about a token.
static void receive_about(braid *b, uint32_t k, const router_message *m, int previous, int next) {
    if (m->kind == ROUTER_LABEL) on_label(b, k, m, previous, next);
    if (m->kind == ROUTER_ADVERT) on_advert(b, k, m, next);
    if (m->kind == ROUTER_FLOW && previous >= 0) braid_on_flow(b, k, (uint32_t)previous, m);
    if (m->kind == ROUTER_DENY && next >= 0) braid_on_deny(b, k, (uint32_t)next, m);
}

static void receive(router *r, const router_message *m, int previous, int next, int same) {
    (void)same;
    braid *b = self_of(r);
    int k = router_commodity(r, m->source);
    if (m->kind == ROUTER_LOCK) braid_on_lock(b, m);
    if (m->kind == ROUTER_COMMIT) braid_on_commit(b, m, previous, next);
    if (m->kind == ROUTER_ABORT) braid_on_abort(b, m);
    if (k >= 0) receive_about(b, (uint32_t)k, m, previous, next);
    if (m->kind != ROUTER_LABEL && m->kind != ROUTER_ADVERT) braid_keep_capacity(b);  // those change no counter
}
// --- Speaking ----------------------------------------------------------------------------------------------------------

static bool is_source(const router *r, router_peer peer) {
    for (uint32_t i = 0; i < r->config.source_count; i++) {
        if (r->config.source[i] == peer) return true;
    }
    return false;
}

// A data peer hears only of its own units.
static bool concerns(const router *r, router_peer peer, uint32_t k) {
    return peer == r->source[k] || !is_source(r, peer);
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
    EACH_NEIGHBOUR(&b->r, ROUTER_NEXT, slot) {
        const braid_down *d = down_of(b, k, slot);
        if (*room == 0 || d->room <= 0 || d->distance >= BRAID_NOWHERE) continue;
        int64_t cost = link_cost(b, ROUTER_NEXT, slot) + d->distance;
        if (cost < distance) distance = cost;
    }
    if (distance >= BRAID_NOWHERE) *room = 0;
    return distance;
}

static void post_label(braid *b, uint32_t k, router_peer to, router_side side) {
    outgoing *o = router_post(&b->r, to, ROUTER_LABEL);
    o->k = (uint8_t)k;
    o->side = (uint8_t)side;
}

static bool speak_to_previous(braid *b, uint32_t k) {
    int32_t room;
    int64_t distance = my_distance(b, k, &room);
    bool spoke = false;
    EACH_NEIGHBOUR(&b->r, ROUTER_PREVIOUS, slot) {
        braid_up *u = up_of(b, k, slot);
        router_peer to = b->r.slot[ROUTER_PREVIOUS][slot].peer;
        if (!concerns(&b->r, to, k)) continue;
        if (u->said != b->commodity[k].in_hash) {
            post_label(b, k, to, ROUTER_PREVIOUS);
            u->said = b->commodity[k].in_hash;
            spoke = true;
        }
        if (u->said_distance == distance && u->said_room == room) continue;
        outgoing *o = router_post(&b->r, to, ROUTER_ADVERT);
        o->k = (uint8_t)k;
        o->cost = distance;
        o->units = (uint32_t)room;
        u->said_distance = distance;
        u->said_room = room;
        spoke = true;
    }
    return spoke;
}

static bool speak_to_next(braid *b, uint32_t k) {
    bool spoke = false;
    EACH_NEIGHBOUR(&b->r, ROUTER_NEXT, slot) {
        braid_down *d = down_of(b, k, slot);
        if (d->out - d->reserved <= 0 || d->said == b->commodity[k].out_hash) continue;
        post_label(b, k, b->r.slot[ROUTER_NEXT][slot].peer, ROUTER_NEXT);
        d->said = b->commodity[k].out_hash;
        spoke = true;
    }
    return spoke;
}

// Who says again and again what it said a short while ago waits longer each time.
static void notice_flapping(braid *b) {
    uint64_t hash = 1;
    for (uint32_t k = 0; k < b->r.commodities; k++)
        hash = rng_seed(rng_seed(hash, b->commodity[k].in_hash), b->commodity[k].out_hash);
    bool again = false;
    for (uint32_t i = 0; i < BRAID_SAID; i++) again |= b->said[i] == hash;
    if (again && b->flaps < BRAID_FLAPS_MAX) b->flaps++;
    if (!again && b->flaps > 0) b->flaps--;
    b->said[b->said_next++ % BRAID_SAID] = hash;
}

static void speak(braid *b) {
    bool spoke = false;
    for (uint32_t k = 0; k < b->r.commodities; k++) {
        spoke |= speak_to_previous(b, k);
        spoke |= speak_to_next(b, k);
    }
    if (spoke) notice_flapping(b);
    uint32_t doublings = b->flaps > BRAID_FLAPS_FREE ? b->flaps - BRAID_FLAPS_FREE : 0;
    b->speak_at = b->r.now + (b->r.config.hold << doublings) * b->r.config.delay;
}

static void look_for_cycles(braid *b) {
    for (uint32_t k = 0; k < b->r.commodities; k++) {
        router_half cycle[ROUTER_MAX_CYCLE];
        uint32_t length = braid_labels(b, k, cycle);
        if (length == 0) continue;
        if (!b->out && b->r.now >= b->back_off_until) braid_launch(b, k, cycle, length);
        b->cycle_waits = true;
    }
}

static void tick(router *r) {
    braid *b = self_of(r);
    braid_expire(b);
    braid_balance(b);
    b->cycle_waits = false;
    if (!b->greedy) look_for_cycles(b);
    if (b->cycle_waits && r->now < b->back_off_until) router_want(r, b->back_off_until);
    if (r->now < b->speak_at)
        router_want(r, b->speak_at);
    else
        speak(b);
    braid_ledger_deadlines(b);
}

// --- Messages and views ------------------------------------------------------------------------------------------------

static void compose_label(const braid *b, const outgoing *from, router_message *out) {
    const braid_commodity *c = &b->commodity[from->k];
    const braid_label *label = from->side == ROUTER_PREVIOUS ? &c->in : &c->out;
    out->cost = label->cost;
    out->length = (uint16_t)label->length;
    for (uint32_t i = 0; i < label->length; i++) out->u.step[i] = (router_step){label->half[i], label->at[i]};
}

static bool compose(router *r, const outgoing *from, router_message *out) {
    braid *b = self_of(r);
    if (from->kind == ROUTER_LABEL) compose_label(b, from, out);
    if (from->kind == ROUTER_COMMIT) out->u.word[0] = from->extra;
    if (from->kind != ROUTER_LOCK) return true;
    const braid_visit *v = braid_find_visit(b, from->token, from->extra);
    if (v == NULL) return false;  // aborted before it left
    out->length = v->length;
    memcpy(out->u.cycle, v->cycle, v->length * sizeof(router_half));
    return true;
}

static uint32_t load(const router *r) {
    const braid *b = (const braid *)r;
    return (uint32_t)(braid_load(b) + b->add);
}

static bool settled(const router *r) {
    const braid *b = (const braid *)r;
    if (b->out) return false;
    for (uint32_t i = 0; i < BRAID_RESERVATIONS; i++) {
        if (b->visit[i].token.origin != 0 || b->going[i].units != 0) return false;
    }
    for (uint32_t k = 0; k < r->commodities; k++) {
        if (!r->is_source && braid_excess(b, k) != 0) return false;
        EACH_NEIGHBOUR(r, ROUTER_NEXT, slot) {
            if (down_of(b, k, slot)->owed != 0) return false;
        }
        EACH_NEIGHBOUR(r, ROUTER_PREVIOUS, slot) {
            if (up_of(b, k, slot)->denied != up_of(b, k, slot)->denied_ack) return false;
        }
    }
    return true;
}

const router_rules braid_rules = {.state_bytes = sizeof(braid),
                                  .lay_out = lay_out,
                                  .init = braid_init,
                                  .receive = receive,
                                  .tick = tick,
                                  .link_up = link_up,
                                  .link_gone = link_gone,
                                  .compose = compose,
                                  .units = braid_view,
                                  .load = load,
                                  .settled = settled,
                                  .queue_max = queue_max};
