// Deaths and joins in a swarm with quiet routing.
#include "bench/routing/routing_inside.h"

#include <stdlib.h>
#include <string.h>

static bool changes(const routing_change *change, uint32_t peer) {
    for (uint32_t i = 0; i < change->count; i++)
        if (change->peer[i] == peer) return true;
    return false;
}

// place[i]: index of peer i among the remaining peers.
static void copy_staying(const routing_instance *from, const routing_change *change, plan_peer *peer, plan_link *link,
                         uint32_t *place, routing_instance *out) {
    plan_problem *p = &out->problem;
    for (uint32_t i = 0; i < from->problem.peers; i++) {
        if (changes(change, i)) continue;
        place[i] = p->peers;
        peer[p->peers] = from->problem.peer[i];
        memcpy(out->name[p->peers++], from->name[i], ROUTING_NAME);
    }
    for (uint32_t l = 0; l < from->problem.links; l++) {
        const plan_link *k = &from->problem.link[l];
        if (changes(change, k->from) || changes(change, k->to)) continue;
        link[p->links++] = (plan_link){place[k->from], place[k->to], k->cost};
    }
}

braid_err routing_without(const routing_instance *instance, const routing_change *change, routing_instance *out,
                          braid_error *error) {
    const plan_problem *p = &instance->problem;
    plan_peer *peer = calloc(p->peers, sizeof *peer);
    plan_link *link = calloc(p->links, sizeof *link);
    uint32_t *place = calloc(p->peers, sizeof *place);
    *out = (routing_instance){.problem = {peer, link, 0, 0, p->stages},
                              .sources = instance->sources,
                              .seed = instance->seed,
                              .name = calloc(p->peers, sizeof *out->name)};
    braid_err err = BRAID_OK;
    if (peer == NULL || link == NULL || place == NULL || out->name == NULL)
        err = braid_fail(error, BRAID_MEMORY, "no memory for an instance of %u peers", p->peers);
    else
        copy_staying(instance, change, peer, link, place, out);
    free(place);
    if (err) routing_instance_close(out);
    return err;
}

static void arrive(routing_net *n, const routing_change *change, int64_t units) {
    for (uint32_t i = 0; i < change->count; i++) routing_net_arrive(n, change->peer[i]);
    if (n->instance->sources > 1) return;
    n->node[0].capacity = (uint32_t)units;
    router_capacity(n->node[0].router, n->now, (uint32_t)units);
    routing_collect(n, 0);
}

// Peers die. Messages that they had sent still arrive until a neighbour notices the death.
static void crash(routing_net *n, const routing_change *change) {
    for (uint32_t i = 0; i < change->count; i++) {
        n->node[change->peer[i]].away = true;
        routing_notice_death(n, change->peer[i]);
    }
}

static void run_both(routing_net *n, const routing_change *change, int64_t units_after, routing_result *after) {
    if (n->instance->sources == 1 && change->join) {
        n->node[0].capacity = (uint32_t)n->units;
        router_capacity(n->node[0].router, 0, (uint32_t)n->units);
    }
    for (uint32_t i = 0; i < n->peers; i++)
        if (!n->node[i].away) routing_collect(n, i);
    routing_events(n);
    routing_look_end(n);
    if (n->failed || !n->out->quiet) return;
    n->out = after;
    n->said_by = change->said;
    n->start = n->now;
    n->units = units_after;
    n->touched = true;
    if (change->join)
        arrive(n, change, units_after);
    else
        crash(n, change);
    routing_events(n);
    routing_look_end(n);
}

braid_err routing_run_change(const routing_instance *instance, const routing_settings *settings,
                             const routing_change *change, int64_t units_before, int64_t units_after,
                             routing_result *before, routing_result *after, braid_error *error) {
    *before = (routing_result){.whole = -1, .near = -1};
    *after = (routing_result){.whole = -1, .near = -1};
    routing_net n;
    braid_err err = routing_net_open(&n, instance, settings, change->join ? change : NULL, units_before, before, error);
    if (!err) run_both(&n, change, units_after, after);
    routing_drain(&n);
    err = err ? err : n.failed ? error->code : BRAID_OK;
    routing_net_close(&n);
    if (err) {
        routing_result_close(before);
        routing_result_close(after);
    }
    return err;
}
