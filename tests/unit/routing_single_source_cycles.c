// Negative cycles of a known flow: each can be applied and saves what it should; if there is none,
// the flow is optimal.
#include "routing/plan/single_source.h"
#include "routing_net.h"
#include "seed.h"

enum { MAX_LINKS = 4096, HOME = 1 };

// The known flow.
typedef struct known {
    net *n;
    single_source *w;
    uint32_t wanted, units[NET_PEERS][NET_PEERS];
} known;

static single_source *new_lone(uint32_t peers, uint32_t links) {
    void *memory = malloc(single_source_bytes(peers, links));
    BRAID_ASSERT(memory != NULL);
    return single_source_init(memory, peers, links);
}

static void draw(const known *k) {
    single_source_clear(k->w, HOME, k->wanted);
    for (router_peer p = 1; p <= k->n->peers; p++) {
        assert_true(single_source_add_peer(k->w, p, k->n->capacity[p]));
        for (router_peer q = 1; q <= k->n->peers; q++) {
            if (k->n->cost[p][q] < 0) continue;
            assert_true(single_source_add_link(k->w, q, k->n->cost[p][q]));
            single_source_set_load(k->w, k->units[p][q]);
        }
    }
}

// An arbitrary flow: optimal for other costs, less some units.
static void begin(known *k, rng *r) {
    router_peer path[SINGLE_SOURCE_MAX_HOPS];
    memset(k->units, 0, sizeof k->units);
    single_source_clear(k->w, HOME, k->wanted);
    for (router_peer p = 1; p <= k->n->peers; p++) {
        assert_true(single_source_add_peer(k->w, p, k->n->capacity[p]));
        for (router_peer q = 1; q <= k->n->peers; q++)
            if (k->n->cost[p][q] >= 0) assert_true(single_source_add_link(k->w, q, (int64_t)rng_below(r, 50)));
    }
    single_source_solve(k->w);
    uint64_t less = rng_below(r, 3);
    for (uint32_t hops; (hops = single_source_next(k->w, path)) > 0;) {
        if (less > 0 && less-- > 0) continue;
        for (uint32_t h = 0; h < hops; h++) k->units[h == 0 ? HOME : path[h - 1]][path[h]]++;
    }
}

static uint32_t through(const known *k, router_peer p, bool in) {
    uint32_t units = 0;
    for (router_peer q = 1; q <= k->n->peers; q++) units += in ? k->units[q][p] : k->units[p][q];
    return units;
}

// Pushes one unit round the cycle and returns the cost. `more`: set if the data peer sends one more
// unit.
static int64_t go(known *k, const router_node *cycle, uint32_t length, bool *more) {
    int64_t cost = 0;
    assert_int_equal(cycle[0], cycle[length - 1]);
    for (uint32_t i = 0; i + 1 < length; i++) {
        router_peer a = router_owner(cycle[i]), b = router_owner(cycle[i + 1]);
        bool out = cycle[i] == router_out(a);
        if (a == b) {
            assert_true(cycle[i] != cycle[i + 1]);
            *more |= a == HOME && !out;
            assert_false(a == HOME && out);
        } else if (out) {
            assert_true(k->n->cost[a][b] >= 0 && cycle[i + 1] == router_in(b));
            k->units[a][b]++;
            cost += k->n->cost[a][b];
        } else {
            assert_true(k->units[b][a] > 0 && cycle[i + 1] == router_out(b));
            k->units[b][a]--;
            cost -= k->n->cost[b][a];
        }
    }
    for (router_peer p = 2; p <= k->n->peers; p++) {
        assert_int_equal(through(k, p, true), through(k, p, false));
        assert_in_range(through(k, p, true), 0, k->n->capacity[p]);
    }
    return cost;
}

// No peer on the cycle is nearer to the data peer than the first one, and the path to it uses
// existing links.
static void check_path(const known *k, router_peer first) {
    router_peer path[SINGLE_SOURCE_MAX_HOPS];
    uint32_t hops = single_source_path(k->w, first, path);
    assert_int_equal(hops, k->n->stage[first]);
    for (uint32_t h = 0; h < hops; h++) assert_true(net_linked(k->n, h == 0 ? HOME : path[h - 1], path[h]));
    assert_true(hops == 0 || path[hops - 1] == first);
}

static bool is_on(const router_node *cycle, uint32_t length, router_peer peer) {
    for (uint32_t i = 0; i < length; i++)
        if (router_owner(cycle[i]) == peer) return true;
    return false;
}

// All cycles of one search can be applied together.
static uint32_t go_all(known *k) {
    router_node cycle[ROUTER_MAX_CYCLE];
    bool used[NET_PEERS] = {false};
    uint32_t found = 0;
    draw(k);
    for (uint32_t length; (length = single_source_cycle(k->w, 0, cycle)) > 0; found++) {
        bool more = false;
        int64_t cost = go(k, cycle, length, &more);
        assert_true(more || cost < 0);
        check_path(k, router_owner(cycle[0]));
        for (router_peer p = 1; p <= k->n->peers; p++) {
            if (!is_on(cycle, length, p)) continue;
            assert_false(used[p]);
            used[p] = true;
            assert_true(k->n->stage[router_owner(cycle[0])] <= k->n->stage[p]);
        }
    }
    return found;
}

static void test_cycles_lead_to_the_optimum(void **state) {
    (void)state;
    rng r = seeded_rng("cycles", 1);
    known k = {.w = new_lone(NET_PEERS, MAX_LINKS)};
    uint32_t at_once = 0;
    for (int i = 0; i < 400; i++) {
        net_case c = net_random_case(&r);
        c.relays += c.stages * (uint32_t)rng_below(&r, 4);
        if (i % 4 == 0) c.cost_below = 3;  // many paths of equal cost
        k.n = net_new(&c);
        k.wanted = k.n->capacity[HOME] + (uint32_t)rng_below(&r, 3);
        net_result best = net_optimum(k.n);
        begin(&k, &r);
        uint32_t found = 0, searches = 0;
        while ((found = go_all(&k)) > 0) {
            at_once += found > 1;
            assert_in_range(++searches, 1, 500);
        }
        int64_t cost = 0;
        for (router_peer p = 1; p <= k.n->peers; p++)
            for (router_peer q = 1; q <= k.n->peers; q++)
                cost += k.units[p][q] * (k.n->cost[p][q] > 0 ? k.n->cost[p][q] : 0);
        assert_int_equal(through(&k, HOME, false), best.units);
        assert_int_equal(cost, best.cost);
        net_free(k.n);
    }
    assert_true(at_once > 50);
    free(k.w);
}

// Given two relays and a unit on the one that costs 10 more, the cycle has four links.
static void test_gains_up_to_epsilon_are_ignored(void **state) {
    (void)state;
    single_source *w = new_lone(3, 4);
    router_node cycle[ROUTER_MAX_CYCLE];
    for (int64_t slack = 0; slack <= 4; slack++) {
        single_source_clear(w, HOME, 1);
        assert_true(single_source_add_peer(w, HOME, 0) && single_source_add_link(w, 2, 20));
        single_source_set_load(w, 1);
        assert_true(single_source_add_link(w, 3, 10) && single_source_add_peer(w, 2, 1) &&
                    single_source_add_link(w, HOME, 5));
        single_source_set_load(w, 1);
        assert_true(single_source_add_peer(w, 3, 1) && single_source_add_link(w, HOME, 5));
        assert_int_equal(single_source_cycle(w, slack, cycle), slack < 3 ? 7 : 0);
    }
    free(w);
}

// A chain of relays with room for one more unit: the cycle is limited by the size of a commit.
static void test_cycles_fit_a_commit(void **state) {
    (void)state;
    enum { CHAIN = SINGLE_SOURCE_MAX_HOPS + 4 };
    single_source *w = new_lone(CHAIN + 1, CHAIN + 1);
    router_node cycle[ROUTER_MAX_CYCLE];
    router_peer path[SINGLE_SOURCE_MAX_HOPS];
    for (uint32_t relays = 1; relays <= CHAIN; relays++) {
        single_source_clear(w, HOME, 1);
        for (router_peer p = HOME; p <= HOME + relays; p++) {
            assert_true(single_source_add_peer(w, p, 1));
            assert_true(single_source_add_link(w, p < HOME + relays ? p + 1 : HOME, 10));
        }
        uint32_t length = 2 * relays + 3;
        assert_int_equal(single_source_cycle(w, 0, cycle), length <= ROUTER_MAX_CYCLE ? length : 0);
        assert_int_equal(single_source_path(w, HOME + relays, path), relays <= SINGLE_SOURCE_MAX_HOPS ? relays : 0);
        assert_int_equal(single_source_path(w, HOME + relays + 1, path), 0);  // unknown peer
    }
    free(w);
}

// Three relays in each of two stages. A unit could save 1 in the second one alone and 50 over both.
static void test_best_cycle_comes_first(void **state) {
    (void)state;
    static const int64_t second[3][3] = {{20, 19, 90}, {90, 90, 90}, {90, 90, 0}};
    single_source *w = new_lone(7, 15);
    router_node cycle[ROUTER_MAX_CYCLE];
    single_source_clear(w, HOME, 1);
    assert_true(single_source_add_peer(w, HOME, 0));
    for (uint32_t i = 0; i < 3; i++) {
        assert_true(single_source_add_link(w, 2 + i, i == 2 ? 0 : 30));
        single_source_set_load(w, i == 0);
    }
    for (uint32_t i = 0; i < 3; i++) {
        assert_true(single_source_add_peer(w, 2 + i, 1));
        for (uint32_t j = 0; j < 3; j++) {
            assert_true(single_source_add_link(w, 5 + j, second[i][j]));
            single_source_set_load(w, i == 0 && j == 0);
        }
    }
    for (uint32_t j = 0; j < 3; j++) {
        assert_true(single_source_add_peer(w, 5 + j, 1) && single_source_add_link(w, HOME, 5));
        single_source_set_load(w, j == 0);
    }
    assert_true(single_source_cycle(w, 0, cycle) > 7);
    int64_t saved = 0;
    for (uint32_t i = 0; cycle[i] != cycle[0] || i == 0; i++) saved += cycle[i] == router_in(4);
    assert_int_equal(saved, 1);  // over the third relay of the first stage
    free(w);
}

// Any peers, links and loads: each result is a cycle of existing nodes, and searches end.
static void test_arbitrary_map_is_safe(void **state) {
    (void)state;
    enum { PEERS = 12 };
    rng r = seeded_rng("any flow", 1);
    single_source *w = new_lone(PEERS, PEERS * PEERS);
    for (int i = 0; i < 3000; i++) {
        single_source_clear(w, 1 + (router_peer)rng_below(&r, PEERS + 1), 1 + (uint32_t)rng_below(&r, 9));
        for (router_peer p = 1; p <= PEERS; p++) {
            assert_true(single_source_add_peer(w, p, (uint32_t)rng_below(&r, 4)));
            for (uint64_t links = rng_below(&r, 5); links > 0; links--) {
                assert_true(
                    single_source_add_link(w, 1 + (router_peer)rng_below(&r, PEERS + 2), (int64_t)rng_below(&r, 30)));
                single_source_set_load(
                    w, (uint32_t)(rng_below(&r, 3) == 0 ? rng_below(&r, ROUTER_MAX_UNITS + 9) : rng_below(&r, 3)));
            }
        }
        router_node cycle[ROUTER_MAX_CYCLE];
        uint32_t found = 0;
        for (uint32_t length; (length = single_source_cycle(w, 0, cycle)) > 0; found++) {
            assert_in_range(length, 3, ROUTER_MAX_CYCLE);
            for (uint32_t j = 0; j < length; j++) assert_in_range(router_owner(cycle[j]), 1, PEERS);
        }
        assert_in_range(found, 0, PEERS);
    }
    free(w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cycles_lead_to_the_optimum), cmocka_unit_test(test_gains_up_to_epsilon_are_ignored),
        cmocka_unit_test(test_cycles_fit_a_commit),        cmocka_unit_test(test_best_cycle_comes_first),
        cmocka_unit_test(test_arbitrary_map_is_safe),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
