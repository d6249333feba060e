// Greedy routers (swarm): as many units as fit, quiet and complete at the end, under any delays,
// crashes and joins.
#include "routing_net.h"

#include "campaign_budget.h"

static void settle_swarm(net_case c, rng *churn) {
    c.config.algorithm = ROUTER_SWARM;
    net *n = net_new(&c);
    if (churn != NULL) net_churn(n, churn);
    net_result r = net_settle(n, "swarm");
    if (c.sources == 1) assert_int_equal(r.units, net_optimum(n).units);
    net_free(n);
}

static void test_random_schedules_with_crashes_and_restarts(void **state) {
    (void)state;
    campaign all = campaign_begin("swarm", 7, 0.5, 500);
    while (campaign_goes_on(&all)) {
        net_case c = net_random_case(&all.random);
        c.config.weighted = rng_below(&all.random, 2) == 1;
        settle_swarm(c, &all.random);
    }
}

static void test_several_data_peers(void **state) {
    (void)state;
    campaign all = campaign_begin("several", 8, 0.5, 50);
    while (campaign_goes_on(&all)) {
        net_case c = net_random_case(&all.random);
        c.sources = 2 + (uint32_t)rng_below(&all.random, 3);
        c.relays += 2 * c.stages;
        c.equal = true;
        settle_swarm(c, &all.random);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_schedules_with_crashes_and_restarts),
        cmocka_unit_test(test_several_data_peers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
