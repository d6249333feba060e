// A global observer of all routers.
#include "bench/routing/routing_inside.h"

#include "base/err.h"

#include <stdlib.h>
#include <string.h>

static uint32_t link_between(const routing_net *n, uint32_t from, uint32_t to) {
    const plan_problem *p = &n->instance->problem;
    uint32_t low = n->first_link[from], high = n->first_link[from + 1];
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (p->link[middle].to < to)
            low = middle + 1;
        else
            high = middle;
    }
    return low < n->first_link[from + 1] && p->link[low].to == to ? low : UINT32_MAX;
}

// All units that the router reports.
static uint32_t ask(routing_net *n, uint32_t peer) {
    uint32_t count = router_units(n->node[peer].router, n->units_of, n->units_room);
    if (count <= n->units_room) return count;
    router_unit *larger = realloc(n->units_of, count * sizeof *larger);
    if (larger == NULL) {
        routing_net_fail(n, BRAID_MEMORY, "no memory to look at %u units", count);
        return 0;
    }
    n->units_of = larger;
    n->units_room = count;
    return router_units(n->node[peer].router, n->units_of, n->units_room);
}

static routing_seen as_seen(const routing_net *n, uint32_t peer, const router_unit *u) {
    uint32_t in = u->upstream != 0 ? link_between(n, u->upstream - 1, peer) : UINT32_MAX;
    uint32_t out = u->downstream != 0 ? link_between(n, peer, u->downstream - 1) : UINT32_MAX;
    return (routing_seen){u->source - 1, in, out, u->count, u->upstream == 0};
}

// BRAID_CHECKED: a router that is not queried again would give the same answer.
static void check_seen(routing_net *n, uint32_t peer) {
#ifdef BRAID_CHECKED
    const routing_node *node = &n->node[peer];
    uint32_t count = ask(n, peer), same = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (n->units_of[i].count == 0) continue;
        routing_seen now = as_seen(n, peer, &n->units_of[i]);
        const routing_seen *was = &node->seen[same++];
        BRAID_ASSERT(same <= node->seen_count && was->source == now.source && was->in == now.in && was->out == now.out && was->count == now.count);
    }
    BRAID_ASSERT(same == node->seen_count);
#endif
    (void)n, (void)peer;
}

// Updates the record of a peer. Routers without changes are not queried again: most of a large
// swarm.
static void see(routing_net *n, uint32_t peer) {
    routing_node *node = &n->node[peer];
    if (!node->unseen) {
        check_seen(n, peer);
        return;
    }
    uint32_t count = ask(n, peer);
    if (count > node->seen_room) {
        routing_seen *larger = realloc(node->seen, count * sizeof *larger);
        if (larger == NULL) {
            routing_net_fail(n, BRAID_MEMORY, "no memory to see %u units", count);
            return;
        }
        node->seen = larger;
        node->seen_room = count;
    }
    node->unseen = false;
    node->seen_count = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (n->units_of[i].count != 0) node->seen[node->seen_count++] = as_seen(n, peer, &n->units_of[i]);
    }
}

// Records one unit of a peer. Peers are processed in the order of their stages, so the incoming
// units of a link are known before its receiver's turn. A unit without a sender (gwtf's unpaired
// outflow) does not count.
static void book(routing_net *n, uint32_t peer, const routing_seen *u, routing_sight *s) {
    const plan_problem *p = &n->instance->problem;
    if (u->source >= n->instance->sources) {
        s->consistent = false;
        return;
    }
    size_t row = (size_t)u->source * p->links;
    bool data = p->peer[peer].stage == 0;
    int64_t real = data && u->sends ? u->count : 0;
    if (u->in != UINT32_MAX) {
        real = n->real[row + u->in] - n->arrived[row + u->in];
        if (real > u->count) real = u->count;
        n->taken[row + u->in] += u->count;
        n->arrived[row + u->in] += real;
        if (data && peer == u->source) s->units += real;
    }
    if (u->out != UINT32_MAX) {
        n->sent[row + u->out] += u->count;
        n->real[row + u->out] += real;
    }
    // A relay's unit needs both ends; a data peer's has one of them.
    uint32_t ends = (u->in != UINT32_MAX ? 1u : 0u) + (u->out != UINT32_MAX ? 1u : 0u);
    s->consistent &= ends == (data ? 1u : 2u);
}

static void see_all(routing_net *n, routing_sight *s) {
    const plan_problem *p = &n->instance->problem;
    for (uint32_t i = 0; i < n->peers; i++)
        if (!n->node[i].away) see(n, i);
    // Data peers come first with the units that they send, and again at the end with those that
    // returned.
    for (uint32_t step = 0; step < n->peers + n->instance->sources; step++) {
        uint32_t i = step % n->peers;
        const routing_node *node = &n->node[i];
        int64_t carried = 0;
        for (uint32_t u = 0; u < node->seen_count && !node->away; u++) {
            bool sends = node->seen[u].sends;
            if (p->peer[i].stage == 0 && sends != (step < n->peers)) continue;
            book(n, i, &node->seen[u], s);
            carried += node->seen[u].count;
        }
        s->whole &= carried <= p->peer[i].capacity;
        s->consistent &= carried <= p->peer[i].capacity;
    }
}

static int64_t heaviest(const routing_net *n) {
    const plan_problem *p = &n->instance->problem;
    int64_t most = 0;
    for (uint32_t l = 0; l < p->links; l++) {
        int64_t units = 0;
        for (uint32_t k = 0; k < n->instance->sources; k++) units += n->real[(size_t)k * p->links + l];
        if (units * p->link[l].cost > most) most = units * p->link[l].cost;
    }
    return most;
}

// Adds the load of the links by one data peer's units; `worst` as if there were no other.
static void add_links(const routing_net *n, size_t row, routing_sight *s) {
    const plan_problem *p = &n->instance->problem;
    const int64_t *sent = n->sent + row, *taken = n->taken + row, *real = n->real + row, *arrived = n->arrived + row;
    int64_t untaken = 0, lost = 0, cost = 0, paid = 0, worst = s->worst;
    for (uint32_t l = 0; l < p->links; l++) {
        untaken |= sent[l] ^ taken[l];
        lost |= real[l] ^ arrived[l];
        if ((sent[l] | real[l]) == 0) continue;
        int64_t load = real[l] * p->link[l].cost;
        cost += load;
        paid += sent[l] * p->link[l].cost;
        if (load > worst) worst = load;
    }
    s->consistent &= untaken == 0;
    s->whole &= lost == 0;
    s->cost += cost;
    s->paid += paid;
    s->worst = worst;
}

static routing_sight sight(routing_net *n) {
    const plan_problem *p = &n->instance->problem;
    size_t cells = (size_t)n->instance->sources * p->links;
    routing_sight s = {.consistent = true, .whole = true};
    int64_t *all[] = {n->sent, n->taken, n->real, n->arrived}, leaving = 0;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) memset(all[i], 0, cells * sizeof **all);
    see_all(n, &s);
    for (uint32_t k = 0; k < n->instance->sources; k++) {
        add_links(n, (size_t)k * p->links, &s);
        for (uint32_t peer = 0; peer < n->peers; peer++)
            for (uint32_t l = n->first_link[peer]; p->peer[peer].stage == 0 && l < n->first_link[peer + 1]; l++)
                leaving += n->real[(size_t)k * p->links + l];
    }
    if (n->instance->sources > 1) s.worst = heaviest(n);
    s.placed = s.units + n->moving >= n->units && leaving + n->moving >= n->units;
    s.whole &= s.units == n->units && leaving == n->units;
    return s;
}

// Records the first time that all units have a path, and that their cost is near the optimum. In a
// large swarm some COMMIT is always in flight.
static void note_first(routing_net *n, int64_t round) {
    routing_result *out = n->out;
    bool placed = n->settings->seldom ? out->end.placed : out->end.whole;
    if (placed && out->whole < 0) {
        out->whole = round;
        out->whole_messages = out->messages;
        out->whole_sight = out->end;
    }
    if (placed && out->near < 0 && out->end.paid <= n->settings->near_cost) {
        out->near = round;
        out->near_messages = out->messages;
    }
}

void routing_look(routing_net *n, int64_t round) {
    routing_result *out = n->out;
    size_t bytes = (size_t)n->instance->sources * n->instance->problem.links * sizeof *n->real;
    if (n->touched) n->latest = sight(n);
#ifdef BRAID_CHECKED
    routing_sight again = sight(n);
    BRAID_ASSERT(again.units == n->latest.units && again.paid == n->latest.paid && again.cost == n->latest.cost && again.placed == n->latest.placed);
#endif
    n->touched = false;
    out->end = n->latest;
    note_first(n, round);
    if (out->end.whole) {
        n->last_whole = out->end;
        memcpy(n->kept, n->real, bytes);
    }
    if (memcmp(n->real, n->previous, bytes) != 0) {
        memcpy(n->previous, n->real, bytes);
        out->last_move = round;
    }
    if (round > ROUTING_EARLY) return;
    if (out->end.whole || !out->early.whole) out->early = out->end;
    out->early_messages = out->messages;
}

// The next round with a look.
static int64_t next_look(const routing_net *n, int64_t limit) {
    int64_t round = (n->look - n->start) / ROUTING_ROUND;
    int64_t next = n->look + (1 + (n->settings->seldom ? round / 32 : 0)) * ROUTING_ROUND;
    return n->look < limit && next > limit ? limit : next;
}

void routing_look_until(routing_net *n, int64_t at) {
    int64_t limit = n->start + n->settings->limit_rounds * ROUTING_ROUND;
    while (n->look < at && n->look <= limit) {
        routing_look(n, (n->look - n->start) / ROUTING_ROUND);
        n->look = next_look(n, limit);
    }
}

void routing_look_end(routing_net *n) {
    size_t cells = (size_t)n->instance->sources * n->instance->problem.links;
    bool kept = !n->out->quiet && n->last_whole.whole;
    if (kept && !(n->settings->seldom && n->out->end.placed)) n->out->end = n->last_whole;
    n->out->flow = calloc(cells, sizeof *n->out->flow);
    if (n->out->flow == NULL)
        routing_net_fail(n, BRAID_MEMORY, "no memory for a flow of %zu links", cells);
    else
        memcpy(n->out->flow, kept ? n->kept : n->real, cells * sizeof *n->real);
    n->last_whole = (routing_sight){0};
}
