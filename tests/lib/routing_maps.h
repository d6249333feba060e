// Joint plans on the map of a test network, and the check of their paths.
#ifndef BRAID_TESTS_ROUTING_MAPS_H
#define BRAID_TESTS_ROUTING_MAPS_H

#include "routing/plan/multi_source.h"
#include "routing_net.h"

static inline multi_source *new_ways(router_objective objective) {
    void *memory = malloc(multi_source_bytes());
    BRAID_ASSERT(memory != NULL);
    return multi_source_init(memory, objective);
}

// The map of a network; links to the last peer cost `more`, and the last relay has that
// incarnation.
static inline uint64_t draw(multi_source *w, const net *n, int64_t more, uint32_t life) {
    multi_source_clear(w);
    for (router_peer p = 1; p <= n->peers; p++) {
        assert_true(multi_source_add_peer(w, p, n->capacity[p], p == n->peers ? life : 0, n->stage[p] == 0));
        for (router_peer q = 1; q <= n->peers; q++)
            if (n->cost[p][q] >= 0)
                assert_true(multi_source_add_link(w, q, n->cost[p][q] + (q == n->peers ? more : 0)));
    }
    return multi_source_arrange(w);
}

typedef struct totals {
    int64_t cost, worst;
    uint32_t load[NET_PEERS];
} totals;

// Every path leads from a data peer over existing links, through each stage once, back to that data
// peer.
static inline totals add_up(const multi_source *w, const net *n) {
    static uint32_t units[NET_PEERS][NET_PEERS];
    memset(units, 0, sizeof units);
    totals t = {0};
    for (uint32_t i = 0; i < multi_source_count(w); i++) {
        router_peer path[MULTI_SOURCE_MAX_HOPS], at = multi_source_home(w, i);
        assert_int_equal(multi_source_path(w, i, path), n->c.stages + 1);
        assert_int_equal(path[n->c.stages], at);
        for (uint32_t j = 0; j <= n->c.stages; j++) {
            assert_true(net_linked(n, at, path[j]));
            t.cost += n->cost[at][path[j]];
            int64_t heavy = ++units[at][path[j]] * n->cost[at][path[j]];
            if (heavy > t.worst) t.worst = heavy;
            at = path[j];
            t.load[at]++;
        }
    }
    for (router_peer p = 1; p <= n->peers; p++) assert_in_range(t.load[p], 0, n->capacity[p]);
    return t;
}

static inline net_case some_case(rng *r, uint32_t sources) {
    net_case c = net_random_case(r);
    c.sources = sources;
    c.relays += c.stages;
    c.equal = rng_below(r, 2) == 0;
    return c;
}

#endif
