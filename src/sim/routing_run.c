// The event loop of a routing run: messages in flight, ticks, and looks at the whole at the end of rounds.
#include "sim/routing_inside.h"

#include <stdlib.h>
#include <string.h>

enum {
    FORESIGHT = 3,                           // events from one step of foreseeing to the next
    MESSAGE_BYTES = 7 * 64, TICK_BYTES = 9 * 64  // of a router's beginning, that a message and a tick read
};

const char *routing_delay_name(routing_delay delay) {
    static const char *const names[ROUTING_DELAYS] = {"lockstep", "uniform", "exponential", "heavy-tailed"};
    return names[delay];
}

const char *routing_objective_name(router_objective objective) {
    static const char *const names[ROUTER_OBJECTIVES] = {[ROUTER_SUM] = "sum", [ROUTER_BOTTLENECK] = "worst"};
    return names[objective];
}

static void weigh(routing_net *n, routing_node *node) {
    uint64_t moves = router_moves(node->router);
    if (moves == node->moves) return;
    node->moves = moves;
    node->unseen = n->touched = true;
    if (router_load(node->router) > node->capacity) n->out->over_capacity++;
}

void routing_collect(routing_net *n, uint32_t peer) {
    routing_node *node = &n->node[peer];
    routing_post(n, peer);
    weigh(n, node);
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

static void take_message(routing_net *n, routing_flight *flight) {
    const router_message *m = routing_arrival(n, flight);
    if (m != NULL) {
        router *r = n->node[m->to - 1].router;
        if ((int)m->kind == ROUTING_NOTICE)
            router_neighbour_gone(r, n->now, m->from);
        else if ((int)m->kind == ROUTING_TOLD)
            router_cost(r, n->now, m->from, ROUTER_PREVIOUS, m->cost);
        else
            router_receive(r, n->now, m);
        routing_collect(n, m->to - 1);
    }
    routing_drop(n, flight);
}

static void take_tick(routing_net *n, routing_node *node) {
    uint32_t peer = (uint32_t)(node - n->node);
    node->armed = INT64_MAX;
    if (node->away) return;
    node->ticked = n->now;
    routing_fold(n, (uint64_t)n->now);
    routing_fold(n, peer);
    router_tick(node->router, n->now);
    routing_collect(n, peer);
}

static void take_event(routing_net *n, bool tick, void *item) {
    n->out->events++;
    if (tick)
        take_tick(n, item);
    else
        take_message(n, item);
}

void routing_drain(routing_net *n) {
    uint64_t at;
    void *item;
    while (sim_queue_take(&n->queue, &at, &item))
        if (at % 2 == 0) routing_drop(n, item);
}

static uint32_t receiver(const routing_flight *flight) {
    router_peer to;
    memcpy(&to, flight->head + offsetof(router_message, to), sizeof to);
    return to - 1;
}

static router_peer sender(const routing_flight *flight) {
    router_peer from;
    memcpy(&from, flight->head + offsetof(router_message, from), sizeof from);
    return from;
}

static bool is_tick(const sim_queue_entry *e) { return e->at_ns % 2 == 1; }

static router *router_of(const routing_net *n, const sim_queue_entry *e) {
    return is_tick(e) ? ((const routing_node *)e->item)->router : n->node[receiver(e->item)].router;
}

// Asks early for the memory of what comes soon, step by step: in a large swarm nothing of it is in the cache.
static void foresee(const routing_net *n) {
    const sim_queue_entry *e = sim_queue_peek(&n->queue, 3 * FORESIGHT);
    if (e != NULL) foresee_bytes(e->item, is_tick(e) ? sizeof(routing_node) : sizeof(routing_flight));
    e = sim_queue_peek(&n->queue, 2 * FORESIGHT);
    if (e != NULL) foresee_bytes(router_of(n, e), is_tick(e) ? TICK_BYTES : MESSAGE_BYTES);
    if (e != NULL && !is_tick(e)) __builtin_prefetch(((const routing_flight *)e->item)->text);
    e = sim_queue_peek(&n->queue, FORESIGHT);
    if (e != NULL) router_foresee(router_of(n, e), is_tick(e) ? 0 : sender(e->item));
    e = sim_queue_peek(&n->queue, FORESIGHT / 2);
    if (e != NULL && !is_tick(e)) router_foresee_message(router_of(n, e), sender(e->item));
    if (e != NULL && is_tick(e)) router_foresee_tick(router_of(n, e));
}

// A stale tick is no event: a run whose queue holds nothing else is quiet.
void routing_events(routing_net *n) {
    int64_t limit = n->start + n->settings->limit_rounds * ROUTING_ROUND;
    uint64_t key;
    void *item;
    n->look = n->start;
    while (!n->failed && sim_queue_take(&n->queue, &key, &item)) {
        int64_t at = (int64_t)(key / 2);
        bool tick = key % 2 == 1;
        if (tick && ((routing_node *)item)->armed != at) continue;
        routing_look_until(n, at);
        if (at > limit) {
            if (!tick) routing_drop(n, item);
            routing_drain(n);
            return;
        }
        n->now = at;
        foresee(n);
        take_event(n, tick, item);
    }
    n->out->quiet = !n->failed;
    routing_look(n, (n->now - n->start + ROUTING_ROUND - 1) / ROUTING_ROUND);
}

void routing_events_until(routing_net *n, int64_t until) {
    uint64_t key;
    void *item;
    while (!n->failed && sim_queue_next(&n->queue) <= (uint64_t)until * 2 + 1) {
        sim_queue_take(&n->queue, &key, &item);
        if (key % 2 == 1 && ((routing_node *)item)->armed != (int64_t)(key / 2)) continue;
        n->now = (int64_t)(key / 2);
        take_event(n, key % 2 == 1, item);
    }
    n->now = until;
}

braid_err routing_run(const routing_instance *instance, const routing_settings *settings, int64_t units,
                      routing_result *out, braid_error *error) {
    *out = (routing_result){.whole = -1, .near = -1};
    routing_net n;
    braid_err err = routing_net_open(&n, instance, settings, NULL, units, out, error);
    if (!err) {
        if (settings->begins != NULL) settings->begins(settings->whose);
        for (uint32_t i = 0; i < n.peers; i++) routing_collect(&n, i);
        routing_events(&n);
        routing_look_end(&n);
        routing_net_account(&n);
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
