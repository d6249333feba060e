// Messages in flight. A label for sixteen neighbours is one text with sixteen heads.
#include "bench/routing/routing_inside.h"

#include <math.h>
#include <string.h>

enum { HEAVY_CAP = 200 * ROUTING_ROUND };  // longest delay of a message on a heavy-tailed link

_Static_assert(sizeof(routing_text) + sizeof(((router_message *)0)->u) <= ROUTING_BLOCK_MAX, "a text fits into a block");

// --- delays

// An exponential number with mean 1 from comparisons of uniform ones alone (von Neumann 1951): the
// same bits on every machine.
static double exponential(rng *r) {
    for (double whole = 0;; whole += 1) {
        double first = rng_unit(r), last = first;
        for (uint32_t length = 1;; length++) {
            double next = rng_unit(r);
            if (next > last) {
                if (length % 2 == 1) return whole + first;
                break;
            }
            last = next;
        }
    }
}

static int64_t draw_delay(const routing_net *n, rng *r) {
    double rounds = 1;
    switch (n->settings->delay) {
    case ROUTING_UNIFORM: rounds = 0.5 + rng_unit(r); break;
    case ROUTING_EXPONENTIAL: rounds = exponential(r); break;
    case ROUTING_HEAVY: rounds = 0.5 / sqrt(1 - rng_unit(r)); break;
    default: return ROUTING_ROUND;
    }
    int64_t delay = (int64_t)(rounds * ROUTING_ROUND);
    if (delay > HEAVY_CAP) return HEAVY_CAP;
    return delay > 0 ? delay : 1;
}

// --- texts

static size_t text_bytes(const router_message *m) {
    switch (m->kind) {
    case ROUTER_LABEL: return m->length * sizeof m->u.step[0];
    case ROUTER_LOCK: return m->length * sizeof m->u.cycle[0];
    case ROUTER_COMMIT: return sizeof m->u.word[0];
    case ROUTER_ADVERT:
    case ROUTER_FLOW:
    case ROUTER_DENY:
    case ROUTER_ABORT: return 0;
    case ROUTER_WAY:
    case ROUTER_MAP: return m->length * sizeof m->u.word[0];
    default: return (int)m->kind >= ROUTER_KINDS ? 0 : sizeof m->u;
    }
}

static uint64_t text_hash(const router_message *m) {
    uint64_t hash = 0;
    if (m->kind == ROUTER_LABEL)
        for (uint32_t i = 0; i < m->length; i++)
            hash = rng_mix(hash ^ m->u.step[i].half) + rng_mix((uint64_t)m->u.step[i].cost);
    if (m->kind == ROUTER_LOCK)
        for (uint32_t i = 0; i < m->length; i++) hash = rng_mix(hash ^ m->u.cycle[i]);
    if (m->kind == ROUTER_WAY || m->kind == ROUTER_MAP)
        for (uint32_t i = 0; i < m->length; i++) hash = rng_mix(hash ^ m->u.word[i]);
    return hash;
}

// The text of a message: the newest one again if it is equal.
static routing_text *take_text(routing_net *n, const router_message *m) {
    size_t bytes = text_bytes(m);
    if (bytes == 0) return NULL;
    routing_text *t = n->spoken;
    if (t != NULL && t->bytes == bytes && memcmp(t->of, &m->u, bytes) == 0) {
        t->readers++;
        return t;
    }
    t = routing_blocks_take(&n->blocks, sizeof *t + bytes);
    if (t == NULL) return NULL;
    *t = (routing_text){.readers = 1, .bytes = (uint32_t)bytes, .hash = text_hash(m)};
    memcpy(t->of, &m->u, bytes);
    n->spoken = t;
    return t;
}

static void give_text(routing_net *n, routing_text *t) {
    if (t == NULL || --t->readers > 0) return;
    if (n->spoken == t) n->spoken = NULL;
    if (n->read == t) n->read = NULL;
    routing_blocks_give(&n->blocks, t, sizeof *t + t->bytes);
}

// --- flights

static void deliver(routing_net *n, int64_t at, uint32_t wire, const router_message *m) {
    routing_flight *f = routing_blocks_take(&n->blocks, sizeof *f);
    routing_text *text = take_text(n, m);
    if (f == NULL || (text == NULL && text_bytes(m) > 0)) {
        routing_net_fail(n, BRAID_MEMORY, "no memory for a message");
        return;
    }
    memcpy(f->head, m, sizeof f->head);
    f->text = text;
    f->wire = wire;
    sim_queue_put(&n->queue, (uint64_t)at * 2, f);
}

void routing_drop(routing_net *n, routing_flight *flight) {
    give_text(n, flight->text);
    routing_blocks_give(&n->blocks, flight, sizeof *flight);
}

// The wire from `peer` to `to`, searched from `near` on, because messages leave by rising receiver;
// the end: none.
static uint32_t find_wire(const routing_net *n, uint32_t peer, uint32_t to, uint32_t near) {
    uint32_t end = n->first_wire[peer + 1];
    if (near < end && n->wire_to[near] > to) near = n->first_wire[peer];
    while (near < end && n->wire_to[near] < to) near++;
    return near < end && n->wire_to[near] == to ? near : end;
}

// Adds units of a COMMIT in flight; negative: the flight has ended.
static void set_off(routing_net *n, int64_t units) {
    n->moving += units;
    n->touched = true;
}

static void send(routing_net *n, uint32_t wire, const router_message *m) {
    n->out->messages++;
    if (n->said_by != NULL) n->said_by[(n->out->whole < 0 ? 0 : n->peers) + m->from - 1]++;
    n->out->by_kind[m->kind]++;
    n->out->bytes += router_message_bytes(m);
    if (m->kind == ROUTER_COMMIT) set_off(n, m->u.word[0]);
    routing_wire *w = &n->wire[wire];
    if (!m->joined) {
        n->out->frames++;
        int64_t at = n->now + draw_delay(n, &w->random);
        w->last = at > w->last ? at : w->last;
    }
    deliver(n, w->last, wire, m);
}

void routing_post(routing_net *n, uint32_t peer) {
    router_message *m = &n->said;
    uint32_t wire = n->first_wire[peer];
    while (!n->failed && router_next(n->node[peer].router, m)) {
        wire = find_wire(n, peer, m->to - 1, wire);
        if (wire == n->first_wire[peer + 1]) {
            routing_net_fail(n, BRAID_STATE, "%s sent a %s to %s, which is no neighbour", n->instance->name[peer],
                             router_kind_name(m->kind), m->to - 1 < n->peers ? n->instance->name[m->to - 1] : "none");
            return;
        }
        send(n, wire, m);
    }
}

void routing_notice_death(routing_net *n, uint32_t peer) {
    for (uint32_t w = n->first_wire[peer]; w < n->first_wire[peer + 1]; w++) {
        router_message notice = {.from = peer + 1, .to = n->wire_to[w] + 1, .kind = (router_kind)ROUTING_NOTICE};
        int64_t after = ROUTING_ROUND + (int64_t)(rng_unit(&n->wire[w].random) * 2 * ROUTING_ROUND);
        deliver(n, n->now + after, w, &notice);
    }
}

// --- arrivals

static void fold_message(routing_net *n, const router_message *m, const routing_text *text) {
    routing_fold(n, (uint64_t)n->now);
    routing_fold(n, (uint64_t)m->from << 32 | m->to);
    routing_fold(n, (uint64_t)m->kind << 56 | (uint64_t)m->joined << 48 | (uint64_t)m->why << 40 | (uint64_t)m->side << 32 |
                (uint64_t)(m->position | m->on_path) << 16 | m->length);
    routing_fold(n, (uint64_t)m->cost | m->epoch);  // a kind has one of them, and one of each group below
    routing_fold(n, (uint64_t)(m->units | m->attempts) << 32 | m->taken_back | m->scale | m->turn | m->plan);
    routing_fold(n, (uint64_t)m->token.origin << 32 | m->token.serial);
    routing_fold(n, m->source);
    if (text != NULL) routing_fold(n, text->hash);
}

const router_message *routing_arrival(routing_net *n, routing_flight *flight) {
    router_message *m = &n->heard;
    memcpy(m, flight->head, sizeof flight->head);
    const routing_text *text = flight->text;
    if (text != NULL && n->read != text) {
        memcpy(&m->u, text->of, text->bytes);
        n->read = text;
    }
    fold_message(n, m, text);
    if (m->kind == ROUTER_COMMIT) set_off(n, -(int64_t)m->u.word[0]);
    if (n->node[m->to - 1].away || n->fallen[flight->wire]) return NULL;
    if ((int)m->kind == ROUTING_NOTICE) n->fallen[flight->wire] = true;
    return m;
}
