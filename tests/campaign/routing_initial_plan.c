// Initial plans (plan_first) under crashes and restarts of any peer at any time.
#include "routing_net.h"

#include "campaign_budget.h"

static net *new_net(net_case c) {
    c.config.plan_first = true;
    return net_new(&c);
}

// Crashes and restarts of any peer at any time, data peers included.
static void churn(net *n, rng *r) {
    for (uint64_t blows = 1 + rng_below(r, 6); blows > 0; blows--) {
        net_run(n, 1 + (int64_t)rng_below(r, 40));
        router_peer p = 1 + (router_peer)rng_below(r, n->peers);
        if (n->alive[p])
            net_crash(n, p);
        else
            net_restart(n, p);
    }
}

static void test_random_schedules(void **state) {
    (void)state;
    campaign all = campaign_begin("begin", 2026, 1, 500);
    while (campaign_goes_on(&all)) {
        net *n = new_net(net_random_case(&all.random));
        churn(n, &all.random);
        net_expect_optimum(n, "begin");
        net_free(n);
    }
}

static void test_random_schedules_of_several_data_peers(void **state) {
    (void)state;
    campaign all = campaign_begin("begin several", 2026, 1, 40);
    rng *r = &all.random;
    while (campaign_goes_on(&all)) {
        net_case c = net_random_case(r);
        c.sources = 2 + (uint32_t)rng_below(r, 3);
        c.relays += 2 * c.stages;
        c.equal = rng_below(r, 2) == 0;
        net *n = new_net(c);
        churn(n, r);
        net_settle(n, "begin several");
        net_free(n);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_schedules),
        cmocka_unit_test(test_random_schedules_of_several_data_peers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
