// Rare cases of plans with several data peers: flow versions that end, invented epochs, maps that
// change during planning, plans that cannot be sent, dead peers that name each other.
#include "routing/plan/mincost_planner.h"
#include "routing_net.h"
#include "seed.h"

static net *some_net(uint32_t sources, uint32_t stages, uint32_t relays, uint32_t capacity) {
    net_case c = {.sources = sources,
                  .relays = relays,
                  .stages = stages,
                  .capacity_from = capacity,
                  .capacity_below = capacity + 3,
                  .cost_from = 1,
                  .cost_below = 20,
                  .seed = 3,
                  .equal = true};
    c.config.relays = relays;
    return net_new(&c);
}

static const mincost_planner *braid_of(const net *n, router_peer p) { return (const mincost_planner *)n->router[p]; }

static int32_t units_out(const net *n) {
    int32_t sum = 0;
    for (router_peer p = 1; p <= n->c.sources; p++) sum += mincost_total_out(&braid_of(n, p)->mc, 0);
    return sum;
}

// A neighbour announces that epoch.
static void tell_era(net *n, router_peer to, uint32_t era, uint32_t plan) {
    router_message m = {
        .kind = ROUTER_QUERY, .why = MINCOST_QUERY_EPOCH, .to = to, .from = 1, .epoch = era, .plan = plan};
    while (!net_linked(n, m.from, to) && !net_linked(n, to, m.from)) m.from++;
    router_receive(n->router[to], n->now, &m);
    net_after(n, to);
}

// Failed plans use up the epochs of a flow version: the flow continues in the next version without
// a staged plan.
static void test_flow_survives_the_last_epoch_of_a_flow_version(void **state) {
    (void)state;
    net *n = some_net(2, 3, 12, 2);
    net_run(n, 3000);
    int32_t out = units_out(n);
    assert_true(out > 0);
    uint32_t span = braid_of(n, 1)->epochs.epoch / MINCOST_EPOCHS_PER_FLOW;
    span += span % 2;  // one that continues a flow
    tell_era(n, 3, span * MINCOST_EPOCHS_PER_FLOW + MINCOST_EPOCHS_PER_FLOW - 2, 0);
    net_run(n, 100);
    assert_int_equal(units_out(n), out);
    // request for a plan that no data peer has
    tell_era(n, 3, span * MINCOST_EPOCHS_PER_FLOW + MINCOST_EPOCHS_PER_FLOW - 1, 12345);
    for (uint32_t i = 0; i < 100; i++) {
        net_run(n, 1);
        assert_int_equal(units_out(n), out);
    }
    assert_int_equal(braid_of(n, 1)->epochs.epoch / MINCOST_EPOCHS_PER_FLOW, span + 2);
    net_free(n);
}

// Epochs only rise. An invented number near the end prevents further plans; commits still work.
static void test_last_epoch_allows_commits(void **state) {
    (void)state;
    static const uint32_t before[] = {1, 2, MINCOST_EPOCHS_PER_FLOW, MINCOST_EPOCHS_PER_FLOW + 1};
    for (size_t i = 0; i < sizeof before / sizeof *before; i++) {
        net *n = some_net(2, 3, 12, 2);
        net_run(n, 3000);
        tell_era(n, 3, (uint32_t)MINCOST_LAST_EPOCH - before[i], 7);
        net_run(n, 5000);
        for (router_peer p = 1; p <= n->peers; p++) assert_false(mincost_commits_paused(braid_of(n, p)));
        assert_true(units_out(n) > 0 && n->broken == NULL);
        net_free(n);
    }
}

// A plan with paths of too many words is not used.
static void test_plan_with_too_many_path_words_is_not_staged(void **state) {
    (void)state;
    static const struct {
        uint32_t units;
        bool planned;
    } cases[] = {{MINCOST_PATH_WORDS / 12 - 5, true}, {MINCOST_PATH_WORDS / 12 + 1, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        net *n = some_net(2, 12, 24, cases[i].units);
        for (router_peer p = 1; p <= n->peers; p++) {
            n->capacity[p] = cases[i].units;
            router_capacity(n->router[p], n->now, cases[i].units);
            net_after(n, p);
        }
        net_run(n, 2000);
        assert_int_equal(braid_of(n, 1)->staged.plan != 0, cases[i].planned);
        assert_int_equal(braid_of(n, 1)->epochs.epoch / MINCOST_EPOCHS_PER_FLOW, cases[i].planned ? 1 : 0);
        net_free(n);
    }
}

// A data peer and a relay die at once, and their last entries name each other.
static void test_dead_peers_that_name_each_other_are_not_planned(void **state) {
    (void)state;
    net *n = some_net(3, 1, 10, 4);
    for (router_peer p = 1; p <= 3; p++) {
        n->capacity[p] = 8;
        router_capacity(n->router[p], n->now, 8);
        net_after(n, p);
    }
    net_run(n, 2000);
    assert_true(braid_of(n, 1)->staged.plan != 0);
    net_crash(n, 3);
    net_crash(n, 4);
    net_run(n, 5000);
    const mincost_planner *pl = braid_of(n, 1);
    assert_true(pl->staged.plan != 0 && mincost_planned_units(pl) > 0);
    assert_int_equal(mincost_total_out(&pl->mc, 0), mincost_planned_units(pl));
    for (uint32_t i = 0; i < multi_source_count(pl->multi); i++) {
        router_peer path[MULTI_SOURCE_MAX_HOPS];
        assert_int_not_equal(multi_source_home(pl->multi, i), 3);
        assert_int_equal(multi_source_path(pl->multi, i, path), 2);
        assert_int_not_equal(path[0], 4);
    }
    net_free(n);
}

static _Alignas(16) char memory[1 << 21];

static void tell_map(router *r, int64_t now, router_peer peer, uint32_t version, uint32_t cost) {
    router_message m = {.kind = ROUTER_MAP,
                        .from = peer,
                        .to = router_self(r),
                        .length = 5,
                        .u.word = {peer, version, 1 << 16 | 1, 1, cost}};
    router_receive(r, now, &m);
}

static void tick(router *r, int64_t now) {
    router_message m;
    router_tick(r, now);
    while (router_next(r, &m)) continue;
}

static router_peer first_on_way(mincost_planner *pl) {
    router_peer path[MULTI_SOURCE_MAX_HOPS];
    mincost_plan(pl);
    assert_true(pl->staged.plan != 0);
    multi_source_path(pl->multi, 0, path);
    return path[0];
}

// A received entry and a change of the own links at one instant both count.
static void test_two_changes_at_one_instant_are_both_planned_on(void **state) {
    (void)state;
    const router_config c = {.algorithm = ROUTER_MINCOST,
                             .self = 1,
                             .capacity = 1,
                             .source_count = 2,
                             .source = {1, 2},
                             .max_neighbours = 8,
                             .seed = 1,
                             .delay = 1000,
                             .relays = 2};
    router *r = router_init(memory, &c, 0);
    mincost_planner *pl = (mincost_planner *)r;
    for (int side = ROUTER_PREVIOUS; side <= ROUTER_NEXT; side++) {
        router_neighbour_add(r, 0, 3, (router_side)side, 1000);
        router_neighbour_add(r, 0, 4, (router_side)side, 5000);
    }
    tell_map(r, 0, 3, 5, 1000);
    tell_map(r, 0, 4, 5, 1000);
    for (int64_t t = 0; t < 30; t++) tick(r, t * 1000);
    assert_int_equal(first_on_way(pl), 3);
    pl->epochs.epoch = 1;  // paused for this plan
    pl->epochs.plan = pl->staged.plan;
    pl->mc.phase.epoch_since = 30000;
    tell_map(r, 30000, 4, 6, 1001);
    router_cost(r, 30000, 3, ROUTER_NEXT, 900000);
    for (int64_t t = 30; t < 60; t++) tick(r, t * 1000);
    assert_int_equal(first_on_way(pl), 4);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_flow_survives_the_last_epoch_of_a_flow_version),
        cmocka_unit_test(test_last_epoch_allows_commits),
        cmocka_unit_test(test_plan_with_too_many_path_words_is_not_staged),
        cmocka_unit_test(test_dead_peers_that_name_each_other_are_not_planned),
        cmocka_unit_test(test_two_changes_at_one_instant_are_both_planned_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
