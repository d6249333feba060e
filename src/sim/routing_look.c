// What an observer sees who asks all routers at once.
#include "sim/routing_inside.h"

#include <stdlib.h>
#include <string.h>

static uint32_t link_between(const plan_problem *p, uint32_t from, uint32_t to) {
    uint32_t low = 0, high = p->links;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        const plan_link *l = &p->link[middle];
        if (l->from < from || (l->from == from && l->to < to))
            low = middle + 1;
        else
            high = middle;
    }
    return low < p->links && p->link[low].from == from && p->link[low].to == to ? low : UINT32_MAX;
}

static uint32_t ask(routing_net *n, uint32_t peer) {
    uint32_t count = router_units(n->node[peer].router, n->seen, n->seen_capacity);
    if (count <= n->seen_capacity) return count;
    router_unit *larger = realloc(n->seen, count * sizeof *larger);
    if (larger == NULL) {
        routing_net_fail(n, BRAID_MEMORY, "no memory to look at %u units", count);
        return 0;
    }
    n->seen = larger;
    n->seen_capacity = count;
    return router_units(n->node[peer].router, n->seen, n->seen_capacity);
}

// Books one entry of a peer's list; false when it says something that cannot be.
static bool book(routing_net *n, uint32_t peer, const router_unit *u) {
    const plan_problem *p = &n->instance->problem;
    if (u->source == 0 || u->source > n->instance->sources) return false;
    int64_t *sent = n->sent + (size_t)(u->source - 1) * p->links;
    int64_t *taken = n->taken + (size_t)(u->source - 1) * p->links;
    bool good = true;
    if (u->downstream != 0) {
        uint32_t l = link_between(p, peer, u->downstream - 1);
        good = l != UINT32_MAX;
        if (good) sent[l] += u->count;
    }
    if (u->upstream != 0) {
        uint32_t l = link_between(p, u->upstream - 1, peer);
        if (l != UINT32_MAX)
            taken[l] += u->count;
        else
            good = false;
    }
    // A relay's unit needs both ends; a data peer has one of them.
    uint32_t ends = (u->downstream != 0 ? 1u : 0u) + (u->upstream != 0 ? 1u : 0u);
    return good && ends == (p->peer[peer].stage == 0 ? 1u : 2u);
}

static routing_sight sight(routing_net *n) {
    const plan_problem *p = &n->instance->problem;
    size_t cells = (size_t)n->instance->sources * p->links;
    routing_sight s = {.consistent = true};
    memset(n->sent, 0, cells * sizeof *n->sent);
    memset(n->taken, 0, cells * sizeof *n->taken);
    for (uint32_t i = 0; i < n->peers; i++) {
        uint32_t count = n->node[i].away ? 0 : ask(n, i);
        int64_t carried = 0;
        for (uint32_t u = 0; u < count; u++) {
            s.consistent &= n->seen[u].count == 0 || book(n, i, &n->seen[u]);
            carried += n->seen[u].upstream == 0 || p->peer[i].stage != 0 ? n->seen[u].count : 0;
        }
        s.consistent &= carried <= p->peer[i].capacity;
    }
    for (size_t c = 0; c < cells; c++) {
        const plan_link *l = &p->link[c % p->links];
        s.consistent &= n->sent[c] == n->taken[c];
        s.cost += n->sent[c] * l->cost;
        if (p->peer[l->from].stage == 0) s.units += n->sent[c];
        // Units of one data peer may neither begin nor end at another.
        bool foreign = (p->peer[l->from].stage == 0 && l->from != c / p->links) ||
                       (p->peer[l->to].stage == 0 && l->to != c / p->links);
        s.consistent &= !(foreign && n->sent[c] != 0);
    }
    return s;
}

void routing_look(routing_net *n, int64_t round) {
    routing_result *out = n->out;
    size_t bytes = (size_t)n->instance->sources * n->instance->problem.links * sizeof *n->sent;
    out->end = sight(n);
    bool whole = out->end.consistent && out->end.units == n->units;
    if (whole && out->whole < 0) {
        out->whole = round;
        out->whole_messages = out->messages;
        out->whole_cost = out->end.cost;
    }
    if (memcmp(n->sent, n->previous, bytes) != 0) {
        memcpy(n->previous, n->sent, bytes);
        out->last_move = round;
    }
    if (round > ROUTING_EARLY) return;
    if (whole || !out->early_whole) out->early = out->end;
    out->early_whole |= whole;
    out->early_messages = out->messages;
}

void routing_look_end(routing_net *n) {
    size_t cells = (size_t)n->instance->sources * n->instance->problem.links;
    n->out->flow = calloc(cells, sizeof *n->out->flow);
    if (n->out->flow == NULL)
        routing_net_fail(n, BRAID_MEMORY, "no memory for a flow of %zu links", cells);
    else
        memcpy(n->out->flow, n->sent, cells * sizeof *n->sent);
}
