// Exact plans of a single data peer: optimal, over existing links, whatever the map contains.
#include "routing/plan/single_source.h"
#include "routing_net.h"
#include "seed.h"

enum { MAX_PEERS = NET_PEERS, MAX_LINKS = 4096 };

static single_source *new_lone(uint32_t peers, uint32_t links) {
    void *memory = malloc(single_source_bytes(peers, links));
    BRAID_ASSERT(memory != NULL);
    return single_source_init(memory, peers, links);
}

// The map of a network; its data peer, 1, wants so many units.
static void draw(single_source *w, const net *n, uint32_t units) {
    single_source_clear(w, 1, units);
    for (router_peer p = 1; p <= n->peers; p++) {
        assert_true(single_source_add_peer(w, p, n->capacity[p]));
        for (router_peer q = 1; q <= n->peers; q++)
            if (n->cost[p][q] >= 0) assert_true(single_source_add_link(w, q, n->cost[p][q]));
    }
}

// Takes all paths. Each leads over existing links through each stage once and back.
static int64_t cost_of_ways(single_source *w, const net *n, uint32_t units) {
    uint32_t load[NET_PEERS] = {0};
    router_peer path[SINGLE_SOURCE_MAX_HOPS];
    int64_t cost = 0;
    for (uint32_t i = 0; i < units; i++) {
        assert_int_equal(single_source_next(w, path), n->c.stages + 1);
        assert_int_equal(path[n->c.stages], 1);
        for (uint32_t h = 0; h <= n->c.stages; h++) {
            router_peer from = h == 0 ? 1 : path[h - 1];
            assert_true(net_linked(n, from, path[h]));
            cost += n->cost[from][path[h]];
            load[path[h]]++;
        }
    }
    assert_int_equal(single_source_next(w, path), 0);
    for (router_peer p = 2; p <= n->peers; p++) assert_in_range(load[p], 0, n->capacity[p]);
    return cost;
}

// As many units as wanted that fit.
static void test_paths_are_optimal(void **state) {
    (void)state;
    rng r = seeded_rng("lone", 1);
    single_source *w = new_lone(MAX_PEERS, MAX_LINKS);
    for (int i = 0; i < 400; i++) {
        net_case c = net_random_case(&r);
        c.relays += c.stages * (uint32_t)rng_below(&r, 8);
        if (i % 4 == 0) c.cost_below = 3;  // many paths of equal cost
        net *n = net_new(&c);
        uint32_t fits = n->capacity[1];
        n->capacity[1] = i % 3 == 0 ? 1 + (uint32_t)rng_below(&r, fits) : fits;
        net_result best = net_optimum(n);
        draw(w, n, n->capacity[1] + (i % 3 == 1 ? 7 : 0));
        assert_int_equal(single_source_solve(w), best.units);
        assert_int_equal(single_source_cost(w), best.cost);
        assert_int_equal(cost_of_ways(w, n, best.units), best.cost);
        net_free(n);
    }
    free(w);
}

// Any peers and links: each path found leads back over links of the map.
static void test_arbitrary_map_is_safe(void **state) {
    (void)state;
    enum { PEERS = 12 };
    rng r = seeded_rng("anything", 1);
    single_source *w = new_lone(PEERS, PEERS * PEERS);
    for (int i = 0; i < 3000; i++) {
        bool linked[PEERS + 3][PEERS + 3] = {{false}};
        router_peer home = 1 + (router_peer)rng_below(&r, PEERS + 1);  // may be missing on the map
        uint32_t capacity[PEERS + 3] = {0}, load[PEERS + 3] = {0};
        single_source_clear(w, home, 1 + (uint32_t)rng_below(&r, 9));
        for (router_peer p = 1; p <= PEERS; p++) {
            capacity[p] = (uint32_t)rng_below(&r, 4);
            assert_true(single_source_add_peer(w, p, capacity[p]));
            for (uint64_t links = rng_below(&r, 5); links > 0; links--) {
                router_peer to = 1 + (router_peer)rng_below(&r, PEERS + 2);
                assert_true(single_source_add_link(w, to, (int64_t)rng_below(&r, 3)));
                linked[p][to] = true;
            }
        }
        uint32_t units = single_source_solve(w), ways = 0, hops;
        router_peer path[SINGLE_SOURCE_MAX_HOPS];
        for (; (hops = single_source_next(w, path)) > 0; ways++) {
            assert_int_equal(path[hops - 1], home);
            for (uint32_t h = 0; h < hops; h++) {
                assert_true(linked[h == 0 ? home : path[h - 1]][path[h]]);
                load[path[h]]++;
            }
        }
        assert_int_equal(ways, units);
        for (router_peer p = 1; p <= PEERS; p++) assert_true(p == home || load[p] <= capacity[p]);
    }
    free(w);
}

// A chain of relays: paths longer than a message holds are skipped.
static uint32_t hops_of_a_chain(uint32_t relays) {
    single_source *w = new_lone(relays + 1, relays + 1);
    router_peer path[SINGLE_SOURCE_MAX_HOPS];
    single_source_clear(w, 1, 1);
    for (router_peer p = 1; p <= relays + 1; p++) {
        assert_true(single_source_add_peer(w, p, 1));
        assert_true(single_source_add_link(w, p <= relays ? p + 1 : 1, 10));
    }
    assert_int_equal(single_source_solve(w), 1);
    uint32_t hops = single_source_next(w, path);
    free(w);
    return hops;
}

static void test_too_long_paths_are_skipped(void **state) {
    (void)state;
    assert_int_equal(hops_of_a_chain(SINGLE_SOURCE_MAX_HOPS - 1), SINGLE_SOURCE_MAX_HOPS);
    assert_int_equal(hops_of_a_chain(SINGLE_SOURCE_MAX_HOPS), 0);
}

static void test_input_beyond_the_limits_is_refused(void **state) {
    (void)state;
    single_source *w = new_lone(3, 2);
    for (int round = 0; round < 2; round++) {
        single_source_clear(w, 1, 5);
        assert_false(single_source_add_link(w, 2, 10));  // no peer was added
        assert_int_equal(single_source_solve(w), 0);
        assert_true(single_source_add_peer(w, 1, 0) && single_source_add_link(w, 2, 10) &&
                    single_source_add_peer(w, 2, 3));
        assert_false(single_source_add_link(w, 1, -1) || single_source_add_link(w, 1, (int64_t)ROUTER_MAX_COST + 1));
        assert_true(single_source_add_link(w, 1, ROUTER_MAX_COST) && single_source_add_peer(w, 3, 1));
        assert_false(
            single_source_add_peer(w, 4, 1) ||
            (single_source_add_link(w, 1, 10) && single_source_add_link(w, 1, 10) && single_source_add_link(w, 1, 10)));
        assert_int_equal(single_source_solve(w), 3);
        assert_int_equal(single_source_cost(w), 3 * (10 + (int64_t)ROUTER_MAX_COST));
    }
    free(w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_paths_are_optimal),
        cmocka_unit_test(test_arbitrary_map_is_safe),
        cmocka_unit_test(test_too_long_paths_are_skipped),
        cmocka_unit_test(test_input_beyond_the_limits_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
