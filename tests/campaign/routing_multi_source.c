// Joint plans of random maps: valid paths, near the optimum.
#include "routing/plan/single_source.h"
#include "campaign_budget.h"
#include "routing_maps.h"

// With one data peer there is an optimum to compare with.
static void test_paths_of_one_data_peer_are_near_the_optimum(void **state) {
    (void)state;
    if (campaign_is_brief) skip();  // the figures need all cases
    rng r = seeded_rng("one", 1);
    multi_source *w = new_ways(ROUTER_SUM);
    uint32_t exact = 0;
    for (int i = 0; i < 60; i++) {
        net_case c = some_case(&r, 1);
        net *n = net_new(&c);
        draw(w, n, 0, 0);
        assert_true(multi_source_search(w));
        totals t = add_up(w, n);
        net_result best = net_optimum(n);
        assert_int_equal(multi_source_count(w), best.units);
        assert_true(multi_source_value(w) == t.cost && t.cost >= best.cost);
        exact += t.cost == best.cost;
        net_free(n);
    }
    assert_in_range(exact, 57, 60);
    free(w);
}

// As many units as fit, of any data peer, none above its demand; near the cost of units that may
// return to any data peer.
static void test_paths_of_several_data_peers(void **state) {
    (void)state;
    if (campaign_is_brief) skip();  // the figures need all cases
    rng r = seeded_rng("several", 2);
    multi_source *w = new_ways(ROUTER_SUM);
    int64_t cost = 0, relaxed = 0;
    for (int i = 0; i < 60; i++) {
        net_case c = some_case(&r, 2 + (uint32_t)i % 3);
        net *n = net_new(&c);
        draw(w, n, 0, 0);
        net_result best = net_optimum(n);
        assert_int_equal(multi_source_search(w), best.units > 0);
        totals t = add_up(w, n);
        assert_int_equal(multi_source_count(w), best.units);
        assert_true(multi_source_value(w) == t.cost || best.units == 0);
        cost += t.cost;
        relaxed += best.cost;
        net_free(n);
    }
    // unit_sim_glpk has the integer optimum
    assert_true(cost >= relaxed && cost * 100 <= relaxed * 108);
    free(w);
}

static void test_bottleneck_is_reduced(void **state) {
    (void)state;
    if (campaign_is_brief) skip();  // the figures need all cases
    rng r = seeded_rng("worst", 3);
    multi_source *w = new_ways(ROUTER_BOTTLENECK), *cheap = new_ways(ROUTER_SUM);
    uint32_t exact = 0;
    int64_t light = 0, heavy = 0;
    for (int i = 0; i < 40; i++) {
        net_case c = some_case(&r, 1);
        net *n = net_new(&c);
        draw(w, n, 0, 0);
        draw(cheap, n, 0, 0);
        assert_true(multi_source_search(w) && multi_source_search(cheap));
        totals t = add_up(w, n), other = add_up(cheap, n);
        assert_int_equal(multi_source_value(w), t.worst);
        int64_t least = net_lightest(n, other.worst).worst;
        assert_true(t.worst >= least);
        exact += t.worst == least;
        light += t.worst;
        heavy += other.worst;
        net_free(n);
    }
    assert_in_range(exact, 34, 40);
    assert_true(light < heavy);
    free(w);
    free(cheap);
}

// Arbitrary maps: no more units than fit, and finite paths.
static void test_arbitrary_maps_are_planned_safely(void **state) {
    (void)state;
    campaign all = campaign_begin("anything", 5, 1, 200);
    rng *r = &all.random;
    multi_source *w = new_ways(ROUTER_SUM);
    for (uint32_t i = 0; campaign_goes_on(&all); i++) {
        multi_source_clear(w);
        uint32_t peers = (uint32_t)rng_below(r, i % 20 == 0 ? 200 : 12), sources = (uint32_t)rng_below(r, 12);
        for (router_peer p = 1; p <= peers; p++) {
            uint32_t capacity = rng_below(r, 10) == 0 ? (uint32_t)rng_next(r) : (uint32_t)rng_below(r, 4);
            if (!multi_source_add_peer(w, p, capacity, 0, p <= sources)) continue;
            for (uint32_t l = (uint32_t)rng_below(r, i % 30 == 0 ? 90 : 6); l > 0; l--) {
                int64_t cost = rng_below(r, 10) == 0 ? (int64_t)rng_next(r) : (int64_t)rng_below(r, 1000);
                multi_source_add_link(w, (router_peer)rng_below(r, peers + 3), cost);
            }
        }
        multi_source_arrange(w);
        assert_true(multi_source_active_value(w) >= -1);  // paths of an earlier map
        if (!multi_source_search(w)) {
            assert_int_equal(multi_source_count(w), 0);
            continue;
        }
        assert_in_range(multi_source_count(w), 1, MULTI_SOURCE_MAX_UNITS);
        for (uint32_t j = 0; j < multi_source_count(w); j++) {
            router_peer path[MULTI_SOURCE_MAX_HOPS];
            uint32_t hops = multi_source_path(w, j, path);
            assert_in_range(hops, 2, MULTI_SOURCE_MAX_HOPS);
            assert_int_equal(path[hops - 1], multi_source_home(w, j));
        }
        multi_source_activate(w);
        assert_true(multi_source_active_value(w) >= 0);
    }
    free(w);
}

enum { WIDE_STAGES = 8, WIDTH = 50, VIEW = 16, FIRST_RELAY = 3, EACH_WANTS = 30 };

static int64_t some_cost(rng *r) { return NET_COST * (1 + (int64_t)rng_below(r, 99)); }

static void wide_links(multi_source *w, single_source *bound, uint32_t relay, rng *r) {
    if (relay / WIDTH == WIDE_STAGES - 1) {
        int64_t one = some_cost(r), other = some_cost(r);
        assert_true(multi_source_add_link(w, 1, one) && multi_source_add_link(w, 2, other) &&
                    single_source_add_link(bound, 1, one < other ? one : other));
        return;
    }
    for (uint32_t i = 0; i < VIEW; i++) {
        router_peer to = FIRST_RELAY + (relay / WIDTH + 1) * WIDTH + (relay + 3 * i) % WIDTH;
        int64_t cost = some_cost(r);
        assert_true(multi_source_add_link(w, to, cost) && single_source_add_link(bound, to, cost));
    }
}

// Two data peers and 400 relays. The bound lets units return to either.
static double wide_over_bound(multi_source *w, single_source *bound, rng *r) {
    int64_t cost[2][WIDTH];
    multi_source_clear(w);
    single_source_clear(bound, 1, 2 * EACH_WANTS);
    for (router_peer k = 0; k < 2; k++) {
        assert_true(multi_source_add_peer(w, 1 + k, EACH_WANTS, 0, true));
        for (uint32_t i = 0; i < WIDTH; i++)
            assert_true(multi_source_add_link(w, FIRST_RELAY + i, cost[k][i] = some_cost(r)));
    }
    assert_true(single_source_add_peer(bound, 1, 0));
    for (uint32_t i = 0; i < WIDTH; i++)
        assert_true(single_source_add_link(bound, FIRST_RELAY + i, cost[0][i] < cost[1][i] ? cost[0][i] : cost[1][i]));
    for (uint32_t relay = 0; relay < WIDE_STAGES * WIDTH; relay++) {
        uint32_t capacity = 1 + (uint32_t)rng_below(r, 2);
        assert_true(multi_source_add_peer(w, FIRST_RELAY + relay, capacity, 0, false) &&
                    single_source_add_peer(bound, FIRST_RELAY + relay, capacity));
        wide_links(w, bound, relay, r);
    }
    multi_source_arrange(w);
    assert_true(multi_source_search(w));
    assert_int_equal(multi_source_count(w), 2 * EACH_WANTS);
    assert_int_equal(single_source_solve(bound), 2 * EACH_WANTS);
    return (double)multi_source_value(w) / (double)single_source_cost(bound);
}

// With the effort for small maps it would be 1.11.
static void test_effort_grows_with_the_map(void **state) {
    (void)state;
    if (campaign_is_brief) skip();  // the figures need all cases
    enum { MAPS = 4 };
    rng r = seeded_rng("wide", 1);
    multi_source *w = new_ways(ROUTER_SUM);
    void *memory = malloc(single_source_bytes(WIDE_STAGES * WIDTH + 1, MULTI_SOURCE_MAX_LINKS));
    BRAID_ASSERT(memory != NULL);
    single_source *bound = single_source_init(memory, WIDE_STAGES * WIDTH + 1, MULTI_SOURCE_MAX_LINKS);
    double sum = 0;
    for (int i = 0; i < MAPS; i++) sum += wide_over_bound(w, bound, &r);
    assert_true(sum / MAPS < 1.08);
    free(memory);
    free(w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_paths_of_one_data_peer_are_near_the_optimum),
        cmocka_unit_test(test_paths_of_several_data_peers),
        cmocka_unit_test(test_bottleneck_is_reduced),
        cmocka_unit_test(test_arbitrary_maps_are_planned_safely),
        cmocka_unit_test(test_effort_grows_with_the_map),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
