// braid's routers in a small network: the exact optimum for one source, always quiet, under any delays, crashes and joins.
#include "flow_net.h"

#include "seed.h"

static const net_case published[] = {{.sources = 1,
                                      .relays = 40,
                                      .stages = 8,
                                      .capacity_from = 1,
                                      .capacity_below = 3,
                                      .cost_from = 1,
                                      .cost_below = 20},
                                     {.sources = 1,
                                      .relays = 40,
                                      .stages = 10,
                                      .capacity_from = 1,
                                      .capacity_below = 3,
                                      .cost_from = 1,
                                      .cost_below = 20},
                                     {.sources = 1,
                                      .relays = 40,
                                      .stages = 8,
                                      .capacity_from = 5,
                                      .capacity_below = 15,
                                      .cost_from = 1,
                                      .cost_below = 20},
                                     {.sources = 1,
                                      .relays = 40,
                                      .stages = 8,
                                      .capacity_from = 1,
                                      .capacity_below = 3,
                                      .cost_from = 5,
                                      .cost_below = 100}};

// Quiet, whole, and (one source) as many units as fit at the least cost.
static void expect_optimum(net *n, const char *what) {
    net_result r = net_settle(n, what);
    net_result best = net_optimum(n);
    if (r.units == best.units && r.cost == best.cost) return;
    fail_msg("%s: seed %llu: %u units cost %lld, but %u could cost %lld", what, (unsigned long long)n->c.seed, r.units,
             (long long)r.cost, best.units, (long long)best.cost);
}

static void test_reaches_the_optimum_of_the_published_tests(void **state) {
    (void)state;
    for (uint32_t test = 0; test < 4; test++) {
        for (uint64_t seed = 0; seed < 6; seed++) {
            net_case c = published[test];
            c.seed = seed;
            c.delays = (net_delays)(seed % 4);
            net *n = net_new(&c);
            expect_optimum(n, "published");
            net_free(n);
        }
    }
}

static void test_random_schedules_with_crashes_and_restarts(void **state) {
    (void)state;
    rng r = seeded_rng("churn", 2026);
    for (int i = 0; i < 5000; i++) {
        net_case c = net_random_case(&r);
        net *n = net_new(&c);
        net_churn(n, &r);
        expect_optimum(n, "churn");
        net_free(n);
    }
}

// With several data peers the flow is whole and quiet, though not always the cheapest.
static void test_several_data_peers_with_crashes(void **state) {
    (void)state;
    rng r = seeded_rng("several", 9);
    for (int i = 0; i < 300; i++) {
        net_case c = net_random_case(&r);
        c.sources = 2 + (uint32_t)rng_below(&r, 3);
        c.relays += 2 * c.stages;
        c.equal = true;
        net *n = net_new(&c);
        net_churn(n, &r);
        net_settle(n, "several data peers");
        net_free(n);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reaches_the_optimum_of_the_published_tests),
        cmocka_unit_test(test_random_schedules_with_crashes_and_restarts),
        cmocka_unit_test(test_several_data_peers_with_crashes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
