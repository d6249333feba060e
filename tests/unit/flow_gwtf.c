// gwtf's routers: close to the optimum without churn; whole and quiet under any delays, crashes and joins.
#include "flow_net.h"

#include "seed.h"

static void test_comes_close_to_the_optimum(void **state) {
    (void)state;
    int64_t cost = 0, optimum = 0;
    for (uint64_t seed = 0; seed < 10; seed++) {
        net_case c = {.sources = 1,
                      .relays = 40,
                      .stages = 8,
                      .capacity_from = 5,
                      .capacity_below = 15,
                      .cost_from = 1,
                      .cost_below = 20,
                      .seed = seed,
                      .config = {.algorithm = ROUTER_GWTF}};
        net *n = net_new(&c);
        net_result r = net_settle(n, "gwtf"), best = net_optimum(n);
        assert_int_equal(r.units, best.units);
        cost += r.cost;
        optimum += best.cost;
        net_free(n);
    }
    printf("cost / optimum: %.4f\n", (double)cost / (double)optimum);
    assert_true(cost >= optimum && (double)cost < 1.03 * (double)optimum);
}

static void test_random_schedules_with_crashes_and_restarts(void **state) {
    (void)state;
    rng r = seeded_rng("gwtf", 3);
    for (int i = 0; i < 1000; i++) {
        net_case c = net_random_case(&r);
        c.sources = 1 + (uint32_t)rng_below(&r, 3);
        c.relays += c.stages;
        c.equal = true;
        c.config.algorithm = ROUTER_GWTF;
        net *n = net_new(&c);
        net_churn(n, &r);
        net_settle(n, "gwtf");
        net_free(n);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_comes_close_to_the_optimum),
        cmocka_unit_test(test_random_schedules_with_crashes_and_restarts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
