// The event loop of a routing run: messages in flight, ticks, and looks at the whole at the end of every round.
#include "base/rng.h"
#include "sim/queue.h"
#include "sim/routing.h"
#include "sim/routing_inside.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { HEAVY_CAP = 200 * ROUTING_ROUND };  // no message of a heavy-tailed link is later than this

const char *routing_delay_name(routing_delay delay) {
    static const char *const names[ROUTING_DELAYS] = {"lockstep", "uniform", "exponential", "heavy-tailed"};
    return names[delay];
}

static void fold(routing_net *n, uint64_t value) { n->out->hash = rng_mix(n->out->hash ^ value) + 0x9e3779b97f4a7c15u; }

static void fold_message(routing_net *n, const router_message *m) {
    fold(n, (uint64_t)n->now);
    fold(n, (uint64_t)m->from << 32 | m->to);
    fold(n, (uint64_t)m->kind << 56 | (uint64_t)m->joined << 48 | (uint64_t)m->why << 40 | (uint64_t)m->side << 32 |
                (uint64_t)m->position << 16 | m->length);
    fold(n, (uint64_t)m->cost);
    fold(n, (uint64_t)m->units << 32 | m->taken_back);
    fold(n, (uint64_t)m->token.origin << 32 | m->token.serial);
    fold(n, m->source);
    for (uint32_t i = 0; m->kind == ROUTER_LABEL && i < m->length; i++) {
        fold(n, m->u.step[i].half);
        fold(n, (uint64_t)m->u.step[i].cost);
    }
    for (uint32_t i = 0; m->kind == ROUTER_LOCK && i < m->length; i++) fold(n, m->u.cycle[i]);
}

// --- links

// An exponential number with mean 1 from comparisons of uniform ones alone (von Neumann 1951): the same bits everywhere.
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

static int64_t draw_delay(routing_net *n, rng *r) {
    double rounds = 1;
    switch (n->settings->delay) {
    case ROUTING_UNIFORM: rounds = 0.5 + rng_unit(r); break;
    case ROUTING_EXPONENTIAL: rounds = exponential(r); break;
    case ROUTING_HEAVY: rounds = 0.5 / sqrt(1 - rng_unit(r)); break;
    default: break;
    }
    int64_t delay = (int64_t)(rounds * ROUTING_ROUND);
    if (delay > HEAVY_CAP) return HEAVY_CAP;
    return delay > 0 ? delay : 1;
}

routing_wire *routing_wire_between(const routing_net *n, uint32_t from, uint32_t to) {
    uint32_t low = n->first_wire[from], high = n->first_wire[from + 1];
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (n->wire[middle].to < to)
            low = middle + 1;
        else
            high = middle;
    }
    return low < n->first_wire[from + 1] && n->wire[low].to == to ? &n->wire[low] : NULL;
}

// Bytes of a message that its kind uses.
static size_t used_bytes(const router_message *m) {
    size_t head = offsetof(router_message, u);
    if (m->kind == ROUTER_LABEL) return head + m->length * sizeof m->u.step[0];
    bool short_kind = m->kind == ROUTER_ADVERT || m->kind == ROUTER_FLOW || m->kind == ROUTER_DENY;
    return short_kind && m->length == 0 ? head : sizeof *m;
}

void routing_deliver(routing_net *n, int64_t at, const router_message *m) {
    router_message *copy = calloc(1, sizeof *copy);
    if (copy == NULL) {
        routing_net_fail(n, BRAID_MEMORY, "no memory for a message");
        return;
    }
    memcpy(copy, m, used_bytes(m));
    sim_queue_put(&n->queue, (uint64_t)at * 2, copy);
}

static void post(routing_net *n, const router_message *m) {
    routing_wire *w = routing_wire_between(n, m->from - 1, m->to - 1);
    if (w == NULL) {
        routing_net_fail(n, BRAID_STATE, "%s sent a %s to %s, which is no neighbour", n->instance->name[m->from - 1],
                         router_kind_name(m->kind), m->to - 1 < n->peers ? n->instance->name[m->to - 1] : "nobody");
        return;
    }
    n->out->messages++;
    n->out->by_kind[m->kind]++;
    n->out->bytes += router_message_bytes(m);
    if (!m->joined) {
        n->out->frames++;
        int64_t at = n->now + draw_delay(n, &w->random);
        w->last = at > w->last ? at : w->last;
    }
    routing_deliver(n, w->last, m);
}

// --- peers

void routing_collect(routing_net *n, routing_node *node) {
    router_message m;
    memset(&m, 0, sizeof m);
    while (!n->failed && router_next(node->router, &m)) post(n, &m);
    if (router_load(node->router) > node->capacity) n->out->over_capacity++;
    int64_t at = router_deadline(node->router);
    if (at == INT64_MAX) {
        node->armed = INT64_MAX;
        return;
    }
    if (at < n->now) at = n->now;
    if (at == node->ticked) at = n->now + 1;  // one tick an instant
    if (at == node->armed) return;
    node->armed = at;
    sim_queue_put(&n->queue, (uint64_t)at * 2 + 1, node);
}

static void take_message(routing_net *n, const router_message *m) {
    routing_node *node = &n->node[m->to - 1];
    routing_wire *w = routing_wire_between(n, m->from - 1, m->to - 1);
    if (node->away || w->fallen) return;
    if ((int)m->kind == ROUTING_NOTICE) {
        w->fallen = true;
        router_neighbour_gone(node->router, n->now, m->from);
    } else if ((int)m->kind == ROUTING_TOLD) {
        router_cost(node->router, n->now, m->from, ROUTER_PREVIOUS, m->cost);
    } else {
        router_receive(node->router, n->now, m);
    }
    routing_collect(n, node);
}

static void take_event(routing_net *n, bool tick, void *item) {
    n->out->events++;
    if (tick) {
        routing_node *node = item;
        node->armed = INT64_MAX;
        if (node->away) return;
        node->ticked = n->now;
        fold(n, (uint64_t)n->now);
        fold(n, (uint64_t)(node - n->node));
        router_tick(node->router, n->now);
        routing_collect(n, node);
        return;
    }
    router_message *m = item;
    fold_message(n, m);
    take_message(n, m);
    free(m);
}

void routing_drain(routing_net *n) {
    uint64_t at;
    void *item;
    while (sim_queue_take(&n->queue, &at, &item))
        if (at % 2 == 0) free(item);
}

// A stale tick is no event: a run whose queue holds nothing else is quiet.
void routing_events(routing_net *n) {
    int64_t limit = n->start + n->settings->limit_rounds * ROUTING_ROUND, look = n->start;
    uint64_t key;
    void *item;
    while (!n->failed && sim_queue_take(&n->queue, &key, &item)) {
        int64_t at = (int64_t)(key / 2);
        bool tick = key % 2 == 1;
        if (tick && ((routing_node *)item)->armed != at) continue;
        for (; look < at && look <= limit; look += ROUTING_ROUND) routing_look(n, (look - n->start) / ROUTING_ROUND);
        if (at > limit) {
            if (!tick) free(item);
            routing_drain(n);
            return;
        }
        n->now = at;
        take_event(n, tick, item);
    }
    n->out->quiet = !n->failed;
    routing_look(n, (look - n->start) / ROUTING_ROUND);
}

void routing_events_until(routing_net *n, int64_t until) {
    uint64_t key;
    void *item;
    while (!n->failed && n->queue.count > 0 && n->queue.heap[0].at_ns <= (uint64_t)until * 2 + 1) {
        sim_queue_take(&n->queue, &key, &item);
        if (key % 2 == 1 && ((routing_node *)item)->armed != (int64_t)(key / 2)) continue;
        n->now = (int64_t)(key / 2);
        take_event(n, key % 2 == 1, item);
    }
    n->now = until;
}

braid_err routing_run(const routing_instance *instance, const routing_settings *settings, int64_t units,
                      routing_result *out, braid_error *error) {
    *out = (routing_result){.whole = -1};
    routing_net n;
    braid_err err = routing_net_open(&n, instance, settings, NULL, units, out, error);
    if (!err) {
        for (uint32_t i = 0; i < n.peers; i++) routing_collect(&n, &n.node[i]);
        routing_events(&n);
        routing_look_end(&n);
    }
    routing_drain(&n);
    err = err ? err : n.failed ? error->code : BRAID_OK;
    routing_net_close(&n);
    if (err) routing_result_close(out);
    return err;
}

void routing_result_close(routing_result *result) {
    free(result->flow);
    *result = (routing_result){0};
}
