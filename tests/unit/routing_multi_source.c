// Joint plans: valid, the same at every data peer, near the optimum; and the value of active paths.
#include "routing/plan/single_source.h"
#include "routing/plan/multi_source.h"
#include "routing_net.h"
#include "seed.h"

#include <time.h>

static multi_source *new_ways(router_objective objective) {
    void *memory = malloc(multi_source_bytes());
    BRAID_ASSERT(memory != NULL);
    return multi_source_init(memory, objective);
}

// The map of a network; links to the last peer cost `more`, and the last relay has that
// incarnation.
static uint64_t draw(multi_source *w, const net *n, int64_t more, uint32_t life) {
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
static totals add_up(const multi_source *w, const net *n) {
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

static net_case some_case(rng *r, uint32_t sources) {
    net_case c = net_random_case(r);
    c.sources = sources;
    c.relays += c.stages;
    c.equal = rng_below(r, 2) == 0;
    return c;
}

// With one data peer there is an optimum to compare with.
static void test_paths_of_one_data_peer_are_near_the_optimum(void **state) {
    (void)state;
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
    clock_t begun = clock();
    assert_true(multi_source_search(w));
    assert_int_equal(multi_source_count(w), 16);
    return (double)(clock() - begun) / CLOCKS_PER_SEC;
}

// Invented dead ends must not slow a plan: 15 times, if each were examined.
static void test_dead_ends_take_no_time(void **state) {
    (void)state;
    multi_source *w = new_ways(ROUTER_SUM);
    double without = 0, with = 0;
    for (int i = 0; i < 5; i++) {
        without += seconds_with(w, 0);
        with += seconds_with(w, DEAD_ENDS);
    }
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

// Arbitrary maps: no more units than fit, and finite paths.
static void test_arbitrary_maps_are_planned_safely(void **state) {
    (void)state;
    rng r = seeded_rng("anything", 5);
    multi_source *w = new_ways(ROUTER_SUM);
    for (int i = 0; i < 400; i++) {
        multi_source_clear(w);
        uint32_t peers = (uint32_t)rng_below(&r, i % 20 == 0 ? 200 : 12), sources = (uint32_t)rng_below(&r, 12);
        for (router_peer p = 1; p <= peers; p++) {
            uint32_t capacity = rng_below(&r, 10) == 0 ? (uint32_t)rng_next(&r) : (uint32_t)rng_below(&r, 4);
            if (!multi_source_add_peer(w, p, capacity, 0, p <= sources)) continue;
            for (uint32_t l = (uint32_t)rng_below(&r, i % 30 == 0 ? 90 : 6); l > 0; l--) {
                int64_t cost = rng_below(&r, 10) == 0 ? (int64_t)rng_next(&r) : (int64_t)rng_below(&r, 1000);
                multi_source_add_link(w, (router_peer)rng_below(&r, peers + 3), cost);
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
        cmocka_unit_test(test_same_map_gives_same_paths),
        cmocka_unit_test(test_value_of_active_paths),
        cmocka_unit_test(test_active_paths_of_a_data_peer_that_left),
        cmocka_unit_test(test_active_paths_of_a_data_peer_with_lower_demand),
        cmocka_unit_test(test_unreachable_peers_change_nothing),
        cmocka_unit_test(test_dead_ends_add_no_capacity),
        cmocka_unit_test(test_dead_ends_take_no_time),
        cmocka_unit_test(test_expensive_links_are_not_overload),
        cmocka_unit_test(test_map_without_a_way_back_has_no_paths),
        cmocka_unit_test(test_arbitrary_maps_are_planned_safely),
        cmocka_unit_test(test_effort_grows_with_the_map),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
