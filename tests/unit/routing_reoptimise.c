// Central re-optimisation by a single data peer: peers involved in a repair, effects of a proposal,
// and cases in which it is impossible.
#include "routing_net.h"

#include "routing/plan/mincost_map.h"
#include "seed.h"

static const net_case narrow = {.sources = 1,
                                .relays = 40,
                                .stages = 8,
                                .capacity_from = 1,
                                .capacity_below = 3,
                                .cost_from = 1,
                                .cost_below = 20,
                                .config.plan_first = true};

static const mincost_planner *at(const net *n, router_peer p) { return (const mincost_planner *)n->router[p]; }

static router_peer a_carrier(const net *n, uint32_t stage) {
    router_peer p = 2;
    while (n->stage[p] != stage || router_load(n->router[p]) == 0) p++;
    return p;
}

static uint32_t free_ones(const net *n) {
    uint32_t count = 0;
    for (router_peer p = 1; p <= n->peers; p++) count += n->alive[p] && at(n, p)->mc.phase.decentralised;
    return count;
}

// The data peer's knowledge of loads equals the loads.
static void expect_known(const net *n) {
    const mincost_map *map = at(n, 1)->map;
    EACH_ENTRY(map, e) {
        if (!n->alive[e[MAP_PEER]]) continue;
        const mincost_planner *pl = at(n, e[MAP_PEER]);
        uint32_t said = 0;
        for (uint32_t i = 0; i < loads_of(map, e); i++) {
            int slot = router_slot(&pl->mc.r, ROUTER_NEXT, link_of(e, *load_of(e, i) >> 16)[0]);
            assert_true(slot >= 0);
            assert_int_equal(*load_of(e, i) & 0xffff, downstream_of(&pl->mc, 0, (uint32_t)slot)->units);
            said += *load_of(e, i) & 0xffff;
        }
        assert_int_equal(said, mincost_total_out(&pl->mc, 0));
    }
}

// No labels are sent, and after each crash and restart the flow is optimal again.
static void test_central_repair_sends_no_labels(void **state) {
    (void)state;
    rng r = seeded_rng("steers", 1);
    uint64_t with = 0, without = 0;
    for (net_case c = narrow; c.seed < 12; c.seed++) {
        c.delays = (net_delays)(c.seed % 4);
        c.config.plan_first = true;
        net *n = net_new(&c);
        c.config.plan_first = false;
        net *plain = net_new(&c);
        net_expect_optimum(n, "steered");
        net_expect_optimum(plain, "plain");
        uint64_t before = n->tally.messages, plain_before = plain->tally.messages;
        for (int i = 0; i < 3; i++) {
            router_peer p = a_carrier(n, 1 + (uint32_t)rng_below(&r, 8));
            net_crash(n, p);
            net_crash(plain, p);
            net_expect_optimum(n, "after a crash");
            net_expect_optimum(plain, "after a crash");
            expect_known(n);
            net_restart(n, p);
            net_restart(plain, p);
            net_expect_optimum(n, "after a return");
            net_expect_optimum(plain, "after a return");
            expect_known(n);
        }
        assert_int_equal(n->tally.kind[ROUTER_LABEL], 0);
        assert_int_equal(free_ones(n), 0);
        with += n->tally.messages - before;
        without += plain->tally.messages - plain_before;
        net_free(n);
        net_free(plain);
    }
    assert_true(with * 3 < without * 2);
}

static bool swallows_hints(net *n, router_message *m) {
    bool hint = m->kind == ROUTER_MAP && m->length > 0 && m->u.word[0] >> 31 != 0;
    n->tampered += hint;
    return !hint;
}

// A network that has lost a relay with units, while proposals are tampered with.
static net *new_net_with(const net_case *c, bool (*tamper)(net *n, router_message *m)) {
    net *n = net_new(c);
    n->tamper = tamper;
    net_settle(n, "before");
    net_crash(n, a_carrier(n, 4));
    return n;
}

// If proposals never succeed, the data peer decentralises the run and all peers search for cycles.
static void test_failing_proposals_decentralise_the_run(void **state) {
    (void)state;
    uint32_t freed = 0;
    for (net_case c = narrow; c.seed < 8; c.seed++) {
        net *n = new_net_with(&c, swallows_hints);
        net_expect_optimum(n, "no hint arrives");
        if (n->tampered > 0) {
            assert_int_equal(free_ones(n), n->peers - 1);
            freed++;
        }
        net_restart(n, 30);  // a relay that joins is told as well
        net_expect_optimum(n, "free");
        assert_true(n->tampered == 0 || at(n, 30)->mc.phase.decentralised);
        net_free(n);
    }
    assert_in_range(freed, 4, 8);
}

static bool swallows_some(net *n, router_message *m) {
    bool leaves = m->from == 1 && m->kind == ROUTER_MAP && m->length > 0 && m->u.word[0] >> 31 != 0;
    return !leaves || n->tampered++ % 2 != 0;
}

static void test_lost_proposal_is_sent_again(void **state) {
    (void)state;
    uint32_t lost = 0;
    for (net_case c = narrow; c.seed < 8; c.seed++) {
        net *n = new_net_with(&c, swallows_some);
        net_expect_optimum(n, "every other hint arrives");
        assert_int_equal(free_ones(n), 0);
        lost += n->tampered > 1;
        net_free(n);
    }
    assert_in_range(lost, 3, 8);
}

// With more relays than its memory was sized for, the data peer cannot know all.
static void test_run_that_outgrows_the_map_is_decentralised(void **state) {
    (void)state;
    net_case c = narrow;
    net *n = net_new(&c);
    net_expect_optimum(n, "before");
    for (router_peer p = 1; p <= n->peers; p++) {
        router_relays(n->router[p], n->now, MINCOST_MULTI_SOURCE_RELAYS + 1);
        net_after(n, p);
    }
    net_crash(n, a_carrier(n, 3));
    net_expect_optimum(n, "crowd");
    assert_int_equal(free_ones(n), n->peers - 1);
    net_free(n);
}

static bool counts_hints(net *n, router_message *m) {
    n->tampered += m->kind == ROUTER_MAP && m->length > 0 && m->u.word[0] >> 31 != 0;
    return true;
}

enum { INVALID = 600 };

// A MAP that is no valid proposal has no effect: no commit starts, nothing is forwarded to an
// unknown peer, and the flow stays the same.
static void test_invalid_proposal_is_ignored(void **state) {
    (void)state;
    rng r = seeded_rng("hints", 1);
    net_case c = narrow;
    net *n = net_new(&c);
    net_expect_optimum(n, "before");
    n->tamper = counts_hints;
    for (int i = 0; i < INVALID; i++) {
        router_message m = {.kind = ROUTER_MAP,
                            .to = 2 + (router_peer)rng_below(&r, n->peers - 1),
                            .length = (uint16_t)rng_below(&r, 4 * ROUTER_MAX_PATH + 1)};
        do m.from = 1 + (router_peer)rng_below(&r, n->peers);
        while (!net_linked(n, m.from, m.to));
        for (uint32_t w = 0; w < m.length; w++)
            m.u.word[w] = (uint32_t)(rng_below(&r, 2) == 0 ? rng_below(&r, 2 * n->peers + 4) : rng_next(&r));
        if (m.length > 0)
            m.u.word[0] = (uint32_t)1 << 31 | (uint32_t)rng_below(&r, rng_below(&r, 4) == 0 ? 1u << 31 : 6);
        router_receive(n->router[m.to], n->now, &m);
        net_after(n, m.to);
    }
    net_expect_optimum(n, "after nonsense");
    assert_in_range(n->tampered, 1, INVALID);  // some name a neighbour
    net_free(n);
}

// A proposed cycle that costs more than it saves changes nothing: its peers compute the true cost.
static void test_proposal_without_gain_is_aborted(void **state) {
    (void)state;
    net_case c = narrow;
    net *n = net_new(&c);
    net_expect_optimum(n, "before");
    router_peer a = a_carrier(n, 2), next = 0, other = 0;
    for (router_peer q = 2; q <= n->peers; q++) {
        if (n->stage[q] != 3) continue;
        int slot = router_slot(&at(n, a)->mc.r, ROUTER_NEXT, q);
        if (slot >= 0 && downstream_of(&at(n, a)->mc, 0, (uint32_t)slot)->units > 0) next = q;
    }
    assert_int_not_equal(next, 0);
    router_peer after = 0;
    for (router_peer q = 2; q <= n->peers; q++) {
        int slot = n->stage[q] == 4 ? router_slot(&at(n, next)->mc.r, ROUTER_NEXT, q) : -1;
        if (slot >= 0 && downstream_of(&at(n, next)->mc, 0, (uint32_t)slot)->units > 0) after = q;
    }
    for (router_peer q = 2; q <= n->peers; q++)
        if (n->stage[q] == 3 && q != next && router_load(n->router[q]) < n->capacity[q]) other = q;
    assert_true(after != 0 && other != 0);
    const router_node cycle[] = {router_out(a),    router_in(other), router_out(other), router_in(after),
                                 router_out(next), router_in(next),  router_out(a)};
    router_message m = {.kind = ROUTER_MAP, .to = a, .length = 1 + sizeof cycle / sizeof *cycle};
    for (m.from = 2; !net_linked(n, m.from, a) || n->stage[m.from] != 1;) m.from++;
    m.u.word[0] = (uint32_t)1 << 31;
    memcpy(m.u.word + 1, cycle, sizeof cycle);
    uint64_t locks = n->tally.kind[ROUTER_LOCK], commits = n->tally.kind[ROUTER_COMMIT];
    router_receive(n->router[a], n->now, &m);
    net_after(n, a);
    net_expect_optimum(n, "no gain");
    assert_true(n->tally.kind[ROUTER_LOCK] > locks);
    assert_int_equal(n->tally.kind[ROUTER_COMMIT], commits);
    net_free(n);
}

// A network of the given stages: `size` relays of capacity `carries`.
static net *new_net_of(net_case c, const uint32_t *size, const uint32_t *carries) {
    net *n = calloc(1, sizeof *n);
    BRAID_ASSERT(n != NULL);
    n->random.state = rng_seed(c.seed, 77);
    n->peers = 1;
    memset(n->cost, 0xff, sizeof n->cost);
    for (uint32_t s = 0; s < c.stages; s++) {
        for (uint32_t i = 0; i < size[s]; i++) {
            n->stage[++n->peers] = s + 1;
            n->capacity[n->peers] = carries[s];
        }
    }
    c.relays = n->peers - 1;
    n->c = c;
    for (router_peer p = 1; p <= n->peers; p++) n->alive[p] = true;
    n->capacity[1] = net_fits(n);
    memset(n->alive, 0, sizeof n->alive);
    for (router_peer p = 1; p <= n->peers; p++) net_join(n, p);
    return n;
}

static void change_cost(net *n, router_peer from, router_peer to, int64_t cost) {
    n->cost[from][to] = cost;
    router_cost(n->router[from], n->now, to, ROUTER_NEXT, cost);
    router_cost(n->router[to], n->now, from, ROUTER_PREVIOUS, cost);
    net_after(n, from);
    net_after(n, to);
}

// One relay uses more links than its entry can list.
static void test_more_loads_than_an_entry_holds_decentralise_the_run(void **state) {
    (void)state;
    const uint32_t size[] = {1, 60}, carries[] = {50, 1};
    for (net_case c = {.sources = 1, .stages = 2, .cost_from = 1, .cost_below = 100, .config.plan_first = true};
         c.seed < 4; c.seed++) {
        net *n = new_net_of(c, size, carries);
        net_expect_optimum(n, "before");
        for (int i = 0; i < 4; i++) {
            router_peer p = a_carrier(n, 2);
            net_crash(n, p);
            net_settle(n, "without it");
            net_restart(n, p);
            net_expect_optimum(n, "with more used links than an entry tells of");
        }
        net_free(n);
    }
}

// A relay must forward more entries than its map holds: the data peer never receives some.
static void test_full_map_of_a_relay_decentralises_the_run(void **state) {
    (void)state;
    const uint32_t size[] = {1, 62, 62}, carries[] = {100, 2, 2};
    const net_case c = {.sources = 1, .stages = 3, .cost_from = 1, .cost_below = 100, .config.plan_first = true};
    net *n = new_net_of(c, size, carries);
    net_expect_optimum(n, "with less room than the map needs");
    net_free(n);
}

static router_peer an_idle_first(const net *n) {
    router_peer p = 2;
    while (n->stage[p] == 1 && router_load(n->router[p]) > 0) p++;
    return n->stage[p] == 1 ? p : 0;
}

// A search that finds nothing is no failure. The data peer's own link costs are on no map and still
// count.
static void test_search_without_cycles_resets_the_count(void **state) {
    (void)state;
    uint32_t tried = 0;
    for (net_case c = narrow; c.seed < 8; c.seed++) {
        net *n = net_new(&c);
        net_expect_optimum(n, "before");
        router_peer idle = an_idle_first(n);
        for (int64_t i = 0; idle != 0 && i < 15; i++) {
            change_cost(n, 1, idle, (30 + i) * NET_COST);
            net_expect_optimum(n, "no gain");
        }
        if (idle != 0) change_cost(n, 1, idle, NET_COST / 10);
        net_expect_optimum(n, "a gain");
        assert_int_equal(free_ones(n), 0);
        tried += idle != 0;
        net_free(n);
    }
    assert_in_range(tried, 1, 8);
}

// No proposal arrives, and unrelated costs change now and then.
static void test_failing_proposals_decentralise_the_run_amid_cost_changes(void **state) {
    (void)state;
    for (net_case c = narrow; c.seed < 8; c.seed++) {
        net *n = new_net_with(&c, swallows_hints);
        router_peer from = 2, to = 2;
        while (n->stage[from] != 7) from++;
        while (n->stage[to] != 8) to++;
        for (int64_t i = 0; i < 60; i++) {
            net_run(n, 600);
            change_cost(n, from, to, (50 + i % 2) * NET_COST);
        }
        net_result r = net_measure(n), best = net_optimum(n);
        assert_int_equal(r.units, best.units);
        assert_int_equal(r.cost, best.cost);
        net_free(n);
    }
}

// Proposals with the receiver's node at both ends that are too short, too long, or not closed.
static void test_proposal_with_wrong_length_is_ignored(void **state) {
    (void)state;
    net_case c = narrow;
    net *n = net_new(&c);
    net_expect_optimum(n, "before");
    router_peer a = a_carrier(n, 2), next = 0;
    for (router_peer q = 2; q <= n->peers; q++)
        if (n->stage[q] == 3) next = q;
    uint64_t locks = n->tally.kind[ROUTER_LOCK];
    for (uint16_t length = 0; length < 4 * ROUTER_MAX_PATH; length++) {
        for (uint32_t closed = 0; closed < 2; closed++) {
            if (length >= 3 && length <= ROUTER_MAX_CYCLE && closed) continue;
            router_message m = {.kind = ROUTER_MAP, .to = a, .length = 1 + length};
            for (m.from = 2; !net_linked(n, m.from, a) || n->stage[m.from] != 1;) m.from++;
            m.u.word[0] = (uint32_t)1 << 31;
            for (uint32_t i = 0; i < length; i++) m.u.word[1 + i] = i % 2 == 0 ? router_out(a) : router_in(next);
            if (length > 0) m.u.word[length] = closed ? router_out(a) : router_in(next);
            router_receive(n->router[a], n->now, &m);
            net_after(n, a);
            net_run(n, 100);
        }
    }
    assert_int_equal(n->tally.kind[ROUTER_LOCK], locks);
    net_expect_optimum(n, "after them");
    net_free(n);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_central_repair_sends_no_labels),
        cmocka_unit_test(test_failing_proposals_decentralise_the_run),
        cmocka_unit_test(test_lost_proposal_is_sent_again),
        cmocka_unit_test(test_run_that_outgrows_the_map_is_decentralised),
        cmocka_unit_test(test_invalid_proposal_is_ignored),
        cmocka_unit_test(test_proposal_without_gain_is_aborted),
        cmocka_unit_test(test_more_loads_than_an_entry_holds_decentralise_the_run),
        cmocka_unit_test(test_full_map_of_a_relay_decentralises_the_run),
        cmocka_unit_test(test_search_without_cycles_resets_the_count),
        cmocka_unit_test(test_failing_proposals_decentralise_the_run_amid_cost_changes),
        cmocka_unit_test(test_proposal_with_wrong_length_is_ignored),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
