// Joint plans: valid, the same at every data peer, near the optimum; and the value of active paths.
#include "routing/plan/single_source.h"
#include "routing/plan/multi_source.h"
#include "routing_maps.h"
#include "routing_net.h"
#include "seed.h"

#include <time.h>

static void assert_same_search(multi_source *a, multi_source *b) {
    assert_int_equal(multi_source_search(a), multi_source_search(b));
    for (uint32_t j = 0; j < multi_source_count(a); j++) {
        router_peer one[MULTI_SOURCE_MAX_HOPS], other[MULTI_SOURCE_MAX_HOPS];
        uint32_t hops = multi_source_path(a, j, one);
        assert_int_equal(multi_source_path(b, j, other), hops);
        assert_memory_equal(one, other, hops * sizeof *one);
    }
}

// The same map gives the same paths, whatever map came before.
static void test_same_map_gives_same_paths(void **state) {
    (void)state;
    rng r = seeded_rng("same", 4);
    multi_source *a = new_ways(ROUTER_SUM), *b = new_ways(ROUTER_SUM);
    for (int i = 0; i < 20; i++) {
        net_case c = some_case(&r, 2);
        net *n = net_new(&c);
        uint64_t hash = draw(a, n, 0, 0);
        if (i % 2 == 0) {  // another map in between
            draw(b, n, 1, 0);
            multi_source_search(b);
            multi_source_activate(b);
        }
        assert_true(draw(b, n, 0, 0) == hash);
        assert_true(draw(b, n, 1, 0) != hash || n->stage[n->peers] == 0);
        assert_true(draw(b, n, 0, 1) != hash);
        draw(b, n, 0, 0);
        assert_same_search(a, b);
        net_free(n);
    }
    free(a);
    free(b);
}

static net *through_two(void) {
    net_case c = {.sources = 2,
                  .relays = 2,
                  .stages = 1,
                  .capacity_from = 3,
                  .capacity_below = 4,
                  .cost_from = 2,
                  .cost_below = 3};
    return net_new(&c);  // each data peer wants six units, and six fit
}

static void test_value_of_active_paths(void **state) {
    (void)state;
    multi_source *w = new_ways(ROUTER_SUM);
    net *n = through_two();
    draw(w, n, 0, 0);
    assert_int_equal(multi_source_active_value(w), -1);
    assert_true(multi_source_search(w));
    assert_int_equal(multi_source_value(w), 24 * NET_COST);
    assert_int_equal(multi_source_active_value(w), -1);
    multi_source_activate(w);
    assert_int_equal(multi_source_active_value(w), 24 * NET_COST);
    draw(w, n, NET_COST, 0);
    // three of the links in use are more expensive
    assert_int_equal(multi_source_active_value(w), 27 * NET_COST);
    draw(w, n, 0, 1);
    // units may have been lost on the last relay's links
    assert_int_equal(multi_source_active_value(w), -1);
    draw(w, n, 0, 0);
    assert_int_equal(multi_source_active_value(w), 24 * NET_COST);
    n->capacity[4] = 2;
    draw(w, n, 0, 0);
    assert_int_equal(multi_source_active_value(w), -1);
    n->capacity[4] = 4;
    draw(w, n, 0, 0);
    assert_int_equal(multi_source_active_value(w), -1);  // one more unit would fit
    n->capacity[3] = 4;
    n->capacity[4] = 2;
    draw(w, n, 0, 0);
    // as many fit as before, but one relay has one too many
    assert_int_equal(multi_source_active_value(w), -1);
    n->capacity[3] = n->capacity[4] = 3;
    n->cost[1][4] = -1;
    n->cost[2][4] = -1;
    draw(w, n, 0, 0);
    assert_int_equal(multi_source_active_value(w), -1);  // that link is gone
    net_free(n);
    free(w);
}

static net *three_each_in_force(multi_source *w) {
    net *n = through_two();
    n->capacity[1] = n->capacity[2] = 3;
    draw(w, n, 0, 0);
    assert_true(multi_source_search(w));
    multi_source_activate(w);
    assert_true(multi_source_active_value(w) > 0);
    return n;
}

// A data peer has left once no relay has a link to it: its paths are no longer active, whatever
// else it reports.
static void test_active_paths_of_a_data_peer_that_left(void **state) {
    (void)state;
    multi_source *w = new_ways(ROUTER_SUM);
    net *n = three_each_in_force(w);
    for (router_peer relay = 3; relay <= 4; relay++) n->cost[relay][2] = -1;
    n->capacity[1] = 6;  // as many units as before
    draw(w, n, 0, 0);
    assert_int_equal(multi_source_active_value(w), -1);
    net_free(n);
    free(w);
}

static void test_active_paths_of_a_data_peer_with_lower_demand(void **state) {
    (void)state;
    multi_source *w = new_ways(ROUTER_SUM);
    net *n = three_each_in_force(w);
    n->capacity[1] = 2;
    n->capacity[2] = 4;  // the same in all
    draw(w, n, 0, 0);
    assert_int_equal(multi_source_active_value(w), -1);
    net_free(n);
    free(w);
}

// Links that no unit can use must not matter: otherwise data peers with different knowledge of them
// would find different paths under one number.
static void test_unreachable_peers_change_nothing(void **state) {
    (void)state;
    rng r = seeded_rng("reached", 6);
    multi_source *a = new_ways(ROUTER_BOTTLENECK), *b = new_ways(ROUTER_BOTTLENECK);
    for (int i = 0; i < 10; i++) {
        net_case c = some_case(&r, 2);
        net *n = net_new(&c);
        uint64_t hash = draw(a, n, 0, 0);
        multi_source_clear(b);
        for (router_peer p = 1; p <= n->peers; p++) {
            assert_true(multi_source_add_peer(b, p, n->capacity[p], 0, n->stage[p] == 0));
            for (router_peer q = 1; q <= n->peers; q++)
                if (n->cost[p][q] >= 0) assert_true(multi_source_add_link(b, q, n->cost[p][q]));
        }
        assert_true(multi_source_add_peer(b, n->peers + 1, 9, 0, false));  // no link leads there
        for (router_peer q = 1; q <= n->peers; q++) assert_true(multi_source_add_link(b, q, NET_COST));
        assert_true(multi_source_arrange(b) == hash);
        assert_same_search(a, b);
        net_free(n);
    }
    free(a);
    free(b);
}

// A relay without a next link has no room, whatever its capacity.
static void test_dead_ends_add_no_capacity(void **state) {
    (void)state;
    multi_source *w = new_ways(ROUTER_SUM);
    net *n = through_two();
    for (router_peer q = 1; q <= 2; q++) n->cost[4][q] = -1;
    draw(w, n, 0, 0);
    assert_true(multi_source_search(w));
    assert_int_equal(multi_source_count(w), n->capacity[3]);
    net_free(n);
    free(w);
}

enum { DEAD_ENDS = 500, FIRST_DEAD_END = 100 };

// Not the process's clock: under a limit of processor time it may advance in steps of 4 ms.
static double now_s(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

// Seconds of a search with two data peers and two relays, one of which has so many dead ends.
static double seconds_with(multi_source *w, uint32_t dead_ends) {
    multi_source_clear(w);
    for (router_peer p = 1; p <= 2; p++) {
        assert_true(multi_source_add_peer(w, p, 8, 0, true));
        for (router_peer q = 3; q <= 4; q++) assert_true(multi_source_add_link(w, q, 10 + p * q));
    }
    for (router_peer q = 3; q <= 4; q++) {
        assert_true(multi_source_add_peer(w, q, 8, 0, false));
        for (router_peer p = 1; p <= 2; p++) assert_true(multi_source_add_link(w, p, 5 + p + q));
        for (uint32_t i = 0; q == 4 && i < dead_ends; i++) assert_true(multi_source_add_link(w, FIRST_DEAD_END + i, 1));
    }
    for (uint32_t i = 0; i < dead_ends; i++) assert_true(multi_source_add_peer(w, FIRST_DEAD_END + i, 1, 0, false));
    multi_source_arrange(w);
    double begun = now_s();
    assert_true(multi_source_search(w));
    assert_int_equal(multi_source_count(w), 16);
    return now_s() - begun;
}

// Invented dead ends must not slow a plan: 15 times, if each were examined. The least times are
// compared, because an interrupted search counts the interruption.
static void test_dead_ends_take_no_time(void **state) {
    (void)state;
    multi_source *w = new_ways(ROUTER_SUM);
    double without = 1, with = 1;
    for (int i = 0; i < 10; i++) {
        double now = seconds_with(w, 0), ends = seconds_with(w, DEAD_ENDS);
        if (now < without) without = now;
        if (ends < with) with = ends;
    }
    print_message("least times: %.0f and %.0f microseconds\n", 1e6 * without, 1e6 * with);
    assert_true(with < 4 * without);
    free(w);
}

static void test_expensive_links_are_not_overload(void **state) {
    (void)state;
    multi_source *w = new_ways(ROUTER_SUM);
    for (uint32_t stages = 1; stages <= 8; stages++) {
        multi_source_clear(w);
        for (router_peer p = 1; p <= 1 + stages; p++) {
            assert_true(multi_source_add_peer(w, p, MULTI_SOURCE_MAX_UNITS, 0, p == 1));
            assert_true(multi_source_add_link(w, p % (1 + stages) + 1, ROUTER_MAX_COST));
        }
        multi_source_arrange(w);
        assert_true(multi_source_search(w));
        assert_int_equal(multi_source_count(w), MULTI_SOURCE_MAX_UNITS);
    }
    free(w);
}

// A data peer without a way back has no demand; without room there are no paths.
static void test_map_without_a_way_back_has_no_paths(void **state) {
    (void)state;
    multi_source *w = new_ways(ROUTER_SUM);
    net *n = through_two();
    n->cost[3][2] = n->cost[4][2] = -1;
    n->capacity[1] = 4;
    draw(w, n, 0, 0);
    assert_true(multi_source_search(w));
    assert_int_equal(multi_source_count(w), 4);
    n->capacity[3] = n->capacity[4] = 0;
    draw(w, n, 0, 0);
    assert_false(multi_source_search(w));
    net_free(n);
    multi_source_clear(w);
    multi_source_arrange(w);
    assert_false(multi_source_search(w));
    assert_false(multi_source_add_link(w, 1, 1));  // before any peer was added
    free(w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_map_gives_same_paths),
        cmocka_unit_test(test_value_of_active_paths),
        cmocka_unit_test(test_active_paths_of_a_data_peer_that_left),
        cmocka_unit_test(test_active_paths_of_a_data_peer_with_lower_demand),
        cmocka_unit_test(test_unreachable_peers_change_nothing),
        cmocka_unit_test(test_dead_ends_add_no_capacity),
        cmocka_unit_test(test_dead_ends_take_no_time),
        cmocka_unit_test(test_expensive_links_are_not_overload),
        cmocka_unit_test(test_map_without_a_way_back_has_no_paths),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
