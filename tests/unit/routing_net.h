// A small network of routers for tests: virtual time, links with delays, crashes, joins, and checks
// after every event. It uses routers only through routing/core/router.h.
#ifndef BRAID_TESTS_ROUTING_NET_H
#define BRAID_TESTS_ROUTING_NET_H

#include "base/err.h"
#include "base/rng.h"
#include "routing/core/router.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NET_PEERS = 128, NET_STAGES = 12, NET_VIEW = 512, NET_DELAY = 1000, NET_COST = 1000, NET_NEIGHBOURS = 64 };

typedef enum net_delays { LOCKSTEP, UNIFORM, EXPONENTIAL, PARETO } net_delays;

// The test case: an instance in the manner of GWTF's flow tests, and the conditions.
typedef struct net_case {
    uint32_t sources, relays, stages;
    uint32_t capacity_from, capacity_below, cost_from, cost_below;
    net_delays delays;
    uint64_t seed;
    router_config config;  // algorithm and its settings; 0: default
    bool equal;            // demands: equal shares instead of as many as fit
} net_case;

typedef struct net_event {
    int64_t at;
    uint32_t class;  // 0 message, 1 lost neighbour, 2 tick
    uint64_t sequence;
    router_peer peer, other;
    uint32_t life;  // incarnation of the peer (tick) or of the link (others)
    router_message *message;
} net_event;

typedef struct net_tally {
    uint64_t messages, frames, bytes, kind[ROUTER_KINDS], events;
} net_tally;

typedef struct net {
    net_case c;
    rng random;
    int64_t now;
    uint64_t sequence;
    uint32_t peers;             // numbers 1..peers
    uint32_t stage[NET_PEERS];  // 0: data peer
    uint32_t capacity[NET_PEERS];
    int64_t cost[NET_PEERS][NET_PEERS];  // -1: no link
    bool alive[NET_PEERS];
    uint32_t life[NET_PEERS], link_life[NET_PEERS][NET_PEERS];
    router *router[NET_PEERS];
    int64_t planned[NET_PEERS], last_arrival[NET_PEERS][NET_PEERS], frame_arrival;
    net_event *heap;
    size_t heap_count, heap_room;
    net_tally tally;
    int64_t last_change;  // of the path of any unit
    uint64_t view_hash[NET_PEERS], view_moves[NET_PEERS];
    const char *broken;  // the first check that failed
    router_peer broken_at;
    // a mutation: changes a message; false: drops it
    bool (*tamper)(struct net *n, router_message *m);
    uint32_t tampered;
    void *tamper_state;
} net;

static inline void net_break(net *n, const char *what, router_peer at) {
    if (n->broken != NULL) return;
    n->broken = what;
    n->broken_at = at;
}

// --- Events --------------------------------------------------------------------------------------

static inline bool net_before(const net_event *a, const net_event *b) {
    if (a->at != b->at) return a->at < b->at;
    if (a->class != b->class) return a->class < b->class;
    return a->sequence < b->sequence;
}

static inline void net_push(net *n, net_event e) {
    if (n->heap_count == n->heap_room) {
        n->heap_room = n->heap_room * 2 + 64;
        n->heap = realloc(n->heap, n->heap_room * sizeof(net_event));
        BRAID_ASSERT(n->heap != NULL);
    }
    e.sequence = n->sequence++;
    size_t i = n->heap_count++;
    for (; i > 0 && net_before(&e, &n->heap[(i - 1) / 2]); i = (i - 1) / 2) n->heap[i] = n->heap[(i - 1) / 2];
    n->heap[i] = e;
}

static inline net_event net_pop(net *n) {
    net_event top = n->heap[0], last = n->heap[--n->heap_count];
    size_t i = 0;
    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= n->heap_count) break;
        if (child + 1 < n->heap_count && net_before(&n->heap[child + 1], &n->heap[child])) child++;
        if (!net_before(&n->heap[child], &last)) break;
        n->heap[i] = n->heap[child];
        i = child;
    }
    if (n->heap_count > 0) n->heap[i] = last;
    return top;
}

static inline int64_t net_delay(net *n) {
    double u = rng_unit(&n->random);
    switch (n->c.delays) {
    case UNIFORM: return (int64_t)(NET_DELAY * (0.5 + u));
    case EXPONENTIAL: return 1 + (int64_t)(NET_DELAY * -log(1 - u));
    case PARETO: return (int64_t)(NET_DELAY / 3.0 * pow(1 - u, -1 / 1.5));
    case LOCKSTEP: break;
    }
    return NET_DELAY;
}

static inline void net_send(net *n, router_message *m) {
    n->tally.messages++;
    n->tally.frames += !m->joined;
    n->tally.kind[m->kind]++;
    n->tally.bytes += router_message_bytes(m);
    int64_t *last = &n->last_arrival[m->from][m->to];
    if (!m->joined) {
        int64_t at = n->now + net_delay(n);
        n->frame_arrival = *last = at > *last || n->c.delays == LOCKSTEP ? at : *last + 1;
    }
    router_message *copy = malloc(sizeof *copy);
    BRAID_ASSERT(copy != NULL);
    *copy = *m;
    net_push(n, (net_event){.at = n->frame_arrival,
                            .peer = m->to,
                            .other = m->from,
                            .life = n->link_life[m->from][m->to],
                            .message = copy});
}

// The flow as the host sees it; `carried` in all.
static inline uint64_t net_view_hash(const router *r, uint64_t *carried) {
    router_unit unit[NET_VIEW];
    uint32_t count = router_units(r, unit, NET_VIEW);
    uint64_t hash = count;
    *carried = 0;
    BRAID_ASSERT(count <= NET_VIEW);
    for (uint32_t i = 0; i < count; i++) {
        hash = rng_seed(rng_seed(hash, ((uint64_t)unit[i].upstream << 32) | unit[i].downstream), unit[i].count);
        *carried += unit[i].count;
    }
    return hash;
}

// After every call to a router: its messages, its next tick, and the invariants.
static inline void net_after(net *n, router_peer p) {
    router *r = n->router[p];
    static router_message m;
    while (router_next(r, &m)) {
        if (m.from != p || m.to == 0 || m.to > n->peers) net_break(n, "a message to or from nobody", p);
        if (n->tamper != NULL && !n->tamper(n, &m)) continue;
        net_send(n, &m);
    }
    int64_t at = router_deadline(r);
    if (at < n->planned[p]) {
        n->planned[p] = at < n->now ? n->now : at;
        net_push(n, (net_event){.at = n->planned[p], .class = 2, .peer = p, .life = n->life[p]});
    }
    uint64_t carried, hash = net_view_hash(r, &carried);
    if (n->stage[p] != 0 && router_load(r) > n->capacity[p]) net_break(n, "a relay carries more than it can", p);
    // With several data peers the load does not show reserved units, so the host must not see them
    // either.
    if (n->stage[p] != 0 && n->c.sources > 1 && n->c.config.algorithm == ROUTER_MINCOST && carried > n->capacity[p])
        net_break(n, "a relay names more units than it can carry", p);
    if (hash != n->view_hash[p]) n->last_change = n->now;
    if (hash != n->view_hash[p] && router_moves(r) == n->view_moves[p])
        net_break(n, "other units pass here, and router_moves is what it was", p);
    n->view_hash[p] = hash;
    n->view_moves[p] = router_moves(r);
}

// One event; false: none is left.
static inline bool net_step(net *n) {
    if (n->heap_count == 0) return false;
    net_event e = net_pop(n);
    n->now = e.at;
    n->tally.events++;
    uint32_t life = e.class == 2 ? n->life[e.peer] : n->link_life[e.other][e.peer];
    bool current = n->alive[e.peer] && e.life == life;
    if (current && e.class == 2 && e.at == n->planned[e.peer]) {
        n->planned[e.peer] = INT64_MAX;
        router_tick(n->router[e.peer], n->now);
        net_after(n, e.peer);
    } else if (current && e.class == 1) {
        router_neighbour_gone(n->router[e.peer], n->now, e.other);
        net_after(n, e.peer);
    } else if (current && e.class == 0) {
        router_receive(n->router[e.peer], n->now, e.message);
        net_after(n, e.peer);
    }
    free(e.message);
    return true;
}

// Runs until no event is left (true) or `rounds` have passed.
static inline bool net_run(net *n, int64_t rounds) {
    int64_t until = n->now + rounds * NET_DELAY;
    while (n->heap_count > 0 && n->heap[0].at <= until && n->broken == NULL) net_step(n);
    if (n->heap_count == 0) return true;
    n->now = until;
    return false;
}

// --- Peers ---------------------------------------------------------------------------------------

static inline bool net_linked(const net *n, router_peer a, router_peer b) {
    uint32_t last = n->c.stages;
    if (n->stage[a] == 0) return n->stage[b] == 1;
    return n->stage[b] == n->stage[a] + 1 || (n->stage[b] == 0 && n->stage[a] == last);
}

static inline uint32_t net_draw(net *n, uint32_t from, uint32_t below) {
    return from + (uint32_t)rng_below(&n->random, below - from);
}

static inline void net_new_router(net *n, router_peer p) {
    router_config c = n->c.config;
    c.self = p;
    c.capacity = n->capacity[p];
    c.source_count = n->c.sources;
    for (uint32_t k = 0; k < n->c.sources; k++) c.source[k] = k + 1;
    c.max_neighbours = NET_NEIGHBOURS;
    c.seed = rng_seed(n->c.seed, ((uint64_t)p << 32) + n->life[p]);
    c.delay = NET_DELAY;
    c.gather = n->c.delays == LOCKSTEP ? 0 : NET_DELAY / 4;
    if (c.slack == 0) c.slack = NET_COST / 50;
    if (c.temperature == 0) c.temperature = 1.7 * NET_COST;
    if (c.cooling == 0) c.cooling = 0.95;
    size_t bytes = router_bytes(&c);
    BRAID_ASSERT(bytes > 0);
    free(n->router[p]);
    n->router[p] = aligned_alloc(16, (bytes + 15) & ~(size_t)15);
    BRAID_ASSERT(n->router[p] != NULL);
    router_init(n->router[p], &c, n->now);
    n->planned[p] = INT64_MAX;
}

static inline void net_link(net *n, router_peer a, router_peer b) {
    if (n->cost[a][b] < 0) n->cost[a][b] = (int64_t)net_draw(n, n->c.cost_from, n->c.cost_below) * NET_COST;
    BRAID_ASSERT(router_neighbour_add(n->router[a], n->now, b, ROUTER_NEXT, n->cost[a][b]));
    BRAID_ASSERT(router_neighbour_add(n->router[b], n->now, a, ROUTER_PREVIOUS, n->cost[a][b]));
}

static inline void net_link_all(net *n, router_peer p) {
    for (router_peer q = 1; q <= n->peers; q++) {
        if (q == p || !n->alive[q]) continue;
        if (net_linked(n, p, q)) net_link(n, p, q);
        if (net_linked(n, q, p)) net_link(n, q, p);
        if (n->stage[p] == 0 || n->stage[p] != n->stage[q]) continue;
        router_neighbour_add(n->router[p], n->now, q, ROUTER_SAME, 0);
        router_neighbour_add(n->router[q], n->now, p, ROUTER_SAME, 0);
    }
    for (router_peer q = 1; q <= n->peers; q++) {
        if (n->alive[q]) net_after(n, q);
    }
}

static inline void net_join(net *n, router_peer p) {
    net_new_router(n, p);
    net_link_all(n, p);
    n->alive[p] = true;
    net_after(n, p);
}

static inline uint32_t net_fits(const net *n) {
    uint32_t fits = UINT32_MAX;
    for (uint32_t s = 1; s <= n->c.stages; s++) {
        uint32_t sum = 0;
        for (router_peer p = 1; p <= n->peers; p++) sum += n->alive[p] && n->stage[p] == s ? n->capacity[p] : 0;
        fits = sum < fits ? sum : fits;
    }
    return fits;
}

static inline net *net_new(const net_case *c) {
    net *n = calloc(1, sizeof *n);
    BRAID_ASSERT(n != NULL);
    n->c = *c;
    n->random.state = rng_seed(c->seed, 77);
    n->peers = c->sources + c->relays;
    memset(n->cost, 0xff, sizeof n->cost);
    for (router_peer p = 1; p <= n->peers; p++) {
        n->stage[p] = p <= c->sources ? 0 : 1 + (p - c->sources - 1) * c->stages / c->relays;
        n->alive[p] = true;
        if (n->stage[p] != 0) n->capacity[p] = net_draw(n, c->capacity_from, c->capacity_below);
    }
    uint32_t fits = net_fits(n);
    for (router_peer p = 1; p <= n->peers; p++) {
        if (n->stage[p] == 0) n->capacity[p] = c->equal ? fits / c->sources : fits;
        n->alive[p] = false;
    }
    for (router_peer p = 1; p <= n->peers; p++) net_join(n, p);
    return n;
}

static inline void net_free(net *n) {
    while (n->heap_count > 0) free(net_pop(n).message);
    for (router_peer p = 1; p <= n->peers; p++) free(n->router[p]);
    free(n->heap);
    free(n);
}

// A peer vanishes; each neighbour notices on its own.
static inline void net_crash(net *n, router_peer p) {
    n->alive[p] = false;
    n->life[p]++;
    for (router_peer q = 1; q <= n->peers; q++) {
        if (!n->alive[q]) continue;
        int64_t notice = NET_DELAY + (int64_t)rng_below(&n->random, 2 * NET_DELAY);
        net_push(n, (net_event){.at = n->now + notice, .class = 1, .peer = q, .other = p, .life = n->link_life[p][q]});
    }
}

// The same peer again, empty. Neighbours that have not noticed its death do so now.
static inline void net_restart(net *n, router_peer p) {
    for (router_peer q = 1; q <= n->peers; q++) {
        if (n->alive[q]) router_neighbour_gone(n->router[q], n->now, p);
        n->last_arrival[p][q] = n->last_arrival[q][p] = 0;
        n->link_life[p][q]++;
        n->link_life[q][p]++;
    }
    n->view_hash[p] = 0;
    n->view_moves[p] = 0;
    net_join(n, p);
}

// --- Results -----------------------------------------------------------------------------

typedef struct net_result {
    uint32_t units;   // sent by data peers
    int64_t cost;     // of all units, counted at upstream ends
    int64_t worst;    // heaviest load of a link: units times cost
    bool whole;       // both ends of each link agree, each unit has a path, nothing is under way
    bool placed;      // the same, apart from what is under way
    const char *why;  // reason if it is not complete
} net_result;

static inline net_result net_measure(const net *n) {
    static int32_t sent[ROUTER_MAX_SOURCES + 1][NET_PEERS][NET_PEERS];
    static int64_t load[NET_PEERS][NET_PEERS];
    memset(sent, 0, sizeof sent);
    memset(load, 0, sizeof load);
    net_result result = {.whole = true};
    bool rests = true;
    for (router_peer p = 1; p <= n->peers; p++) {
        if (!n->alive[p]) continue;
        router_unit unit[NET_VIEW];
        uint32_t count = router_units(n->router[p], unit, NET_VIEW);
        BRAID_ASSERT(count <= NET_VIEW);
        for (uint32_t i = 0; i < count; i++) {
            const router_unit *u = &unit[i];
            // an unused path to the sink
            bool offered = n->c.config.algorithm == ROUTER_GWTF && u->upstream == 0;
            if (n->stage[p] != 0 && !offered && (u->upstream == 0 || u->downstream == 0))
                result.why = "a unit has no way";
            if (u->downstream != 0) {
                sent[u->source][p][u->downstream] += (int32_t)u->count;
                result.cost += u->count * n->cost[p][u->downstream];
                load[p][u->downstream] += u->count * n->cost[p][u->downstream];
                if (load[p][u->downstream] > result.worst) result.worst = load[p][u->downstream];
                if (n->stage[p] == 0) result.units += u->count;
                if (!n->alive[u->downstream]) result.why = "a unit goes to the dead";
            }
            if (u->upstream != 0) sent[u->source][u->upstream][p] -= (int32_t)u->count;
        }
        rests &= router_settled(n->router[p]);
    }
    for (uint32_t k = 1; k <= n->c.sources; k++) {
        for (router_peer p = 1; p <= n->peers; p++) {
            for (router_peer q = 1; q <= n->peers; q++) {
                if (sent[k][p][q] != 0) result.why = "the ends of a link count differently";
            }
        }
    }
    result.placed = result.why == NULL;
    if (result.placed && !rests) result.why = "something is under way";
    result.whole = result.why == NULL;
    return result;
}

// --- Weather -------------------------------------------------------------------------------------

static inline net_case net_random_case(rng *r) {
    uint32_t stages = 1 + (uint32_t)rng_below(r, 6);
    return (net_case){.sources = 1,
                      .stages = stages,
                      .relays = stages * (1 + (uint32_t)rng_below(r, 4)),
                      .capacity_from = 1,
                      .capacity_below = 2 + (uint32_t)rng_below(r, 5),
                      .cost_from = 1,
                      .cost_below = 3 + (uint32_t)rng_below(r, 40),
                      .delays = (net_delays)rng_below(r, 4),
                      .seed = rng_next(r)};
}

// Crashes and restarts at random moments. A stage may die out for a while.
static inline void net_churn(net *n, rng *r) {
    uint32_t blows = 1 + (uint32_t)rng_below(r, 6);
    for (uint32_t i = 0; i < blows; i++) {
        net_run(n, 1 + (int64_t)rng_below(r, 40));
        router_peer p = 2 + (router_peer)rng_below(r, n->peers - 1);
        if (n->alive[p])
            net_crash(n, p);
        else
            net_restart(n, p);
    }
}

// Runs until quiet. Fails the test, and prints the case, unless the network becomes quiet and
// complete without a failed check. A single heavy-tailed delay may take thousands of rounds.
static inline net_result net_settle(net *n, const char *what) {
    bool quiet = net_run(n, 1000000);
    net_result r = net_measure(n);
    if (quiet && n->broken == NULL && r.whole) return r;
    fail_msg("%s: seed %llu, delays %d, relays %u, stages %u: %s (at %u), %s, %s", what, (unsigned long long)n->c.seed,
             (int)n->c.delays, n->c.relays, n->c.stages, n->broken != NULL ? n->broken : "no check failed",
             n->broken_at, r.why != NULL ? r.why : "whole", quiet ? "quiet" : "not quiet");
    return r;
}

// --- The optimum for one source: successive shortest paths ---------------------------------------

typedef struct net_arc {
    uint32_t to;
    int32_t capacity;
    int64_t cost;
} net_arc;

typedef struct net_graph {
    uint32_t arcs, nodes;
    net_arc arc[2 * NET_PEERS * 32];
    uint32_t from[2 * NET_PEERS * 32];
} net_graph;

static inline void net_arc_add(net_graph *g, uint32_t a, uint32_t b, int32_t capacity, int64_t cost) {
    BRAID_ASSERT(g->arcs + 2 <= sizeof g->arc / sizeof *g->arc);
    g->from[g->arcs] = a;
    g->arc[g->arcs++] = (net_arc){b, capacity, cost};
    g->from[g->arcs] = b;
    g->arc[g->arcs++] = (net_arc){a, 0, -cost};
}

// Augments one unit along the shortest path from `s` to `t`; false: there is none.
static inline bool net_augment(net_graph *g, uint32_t s, uint32_t t, int64_t *cost) {
    int64_t distance[2 * NET_PEERS + 2];
    uint32_t by[2 * NET_PEERS + 2];
    for (uint32_t i = 0; i < g->nodes; i++) distance[i] = INT64_MAX / 2;
    distance[s] = 0;
    for (bool better = true; better;) {
        better = false;
        for (uint32_t a = 0; a < g->arcs; a++) {
            if (g->arc[a].capacity == 0 || distance[g->from[a]] >= INT64_MAX / 2) continue;
            int64_t d = distance[g->from[a]] + g->arc[a].cost;
            if (d >= distance[g->arc[a].to]) continue;
            distance[g->arc[a].to] = d;
            by[g->arc[a].to] = a;
            better = true;
        }
    }
    if (distance[t] >= INT64_MAX / 2) return false;
    for (uint32_t at = t; at != s; at = g->from[by[at]]) {
        g->arc[by[at]].capacity--;
        g->arc[by[at] ^ 1].capacity++;
    }
    *cost += distance[t];
    return true;
}

// Maximum flow at minimum cost over the living peers, for data peer 1 (with several: units may
// return to any), with no link's load above `most`.
static inline net_result net_optimum_below(const net *n, int64_t most) {
    net_graph *g = calloc(1, sizeof *g);
    BRAID_ASSERT(g != NULL);
    g->nodes = 2 * NET_PEERS + 2;
    uint32_t s = 2 * NET_PEERS, t = s + 1;
    for (router_peer p = 1; p <= n->peers; p++) {
        if (!n->alive[p]) continue;
        if (n->stage[p] == 0) {
            net_arc_add(g, s, 2 * p + 1, (int32_t)n->capacity[p], 0);
            net_arc_add(g, 2 * p, t, (int32_t)n->capacity[p], 0);
        } else {
            net_arc_add(g, 2 * p, 2 * p + 1, (int32_t)n->capacity[p], 0);
        }
        for (router_peer q = 1; q <= n->peers; q++) {
            if (!n->alive[q] || n->cost[p][q] < 0) continue;
            int64_t room = most / n->cost[p][q];
            net_arc_add(g, 2 * p + 1, 2 * q, room < 1 << 20 ? (int32_t)room : 1 << 20, n->cost[p][q]);
        }
    }
    net_result best = {.whole = true};
    while (net_augment(g, s, t, &best.cost)) best.units++;
    free(g);
    return best;
}

static inline net_result net_optimum(const net *n) { return net_optimum_below(n, INT64_MAX); }

// Quiet, complete, and (one source) as many units as fit at minimum cost.
static inline void net_expect_optimum(net *n, const char *what) {
    net_result r = net_settle(n, what);
    net_result best = net_optimum(n);
    if (r.units == best.units && r.cost == best.cost) return;
    fail_msg("%s: seed %llu: %u units cost %lld, but %u could cost %lld", what, (unsigned long long)n->c.seed, r.units,
             (long long)r.cost, best.units, (long long)best.cost);
}

// Maximum flow with the lightest bottleneck, and minimum cost among those. `upto`: an upper bound
// of the load.
static inline net_result net_lightest(const net *n, int64_t upto) {
    uint32_t units = net_optimum(n).units;
    int64_t low = 0, high = upto / NET_COST;  // all costs are multiples of it
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (net_optimum_below(n, middle * NET_COST).units == units)
            high = middle;
        else
            low = middle + 1;
    }
    net_result best = net_optimum_below(n, high * NET_COST);
    best.worst = high * NET_COST;
    return best;
}

#endif
