// The event loop of a routing run: messages in flight, ticks, and looks at the end of rounds.
#include "bench/routing/routing_inside.h"

#include <stdlib.h>
#include <string.h>

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

// A stale tick is no event: a run with nothing else in its queue is quiet.
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
        take_event(n, tick, item);
    }
    n->out->quiet = !n->failed;
    routing_look(n, (n->now - n->start + ROUTING_ROUND - 1) / ROUTING_ROUND);
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
