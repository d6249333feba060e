// The bottleneck objective under any delays, crashes, joins and changes of cost: complete and
// quiet, and with one data peer the lightest possible bottleneck. Capacity is checked at every
// event (routing_net.h).
#include "routing_net.h"

#include "campaign_budget.h"

typedef struct sums {
    uint32_t runs, exact;
    // of the worst run: bottleneck over the optimum, and cost over that of the cheapest such flow
    double ratio, cost;
} sums;

static void add(sums *all, net *n, const char *what) {
    net_result r = net_settle(n, what), best = net_lightest(n, r.worst);
    if (r.units != net_optimum(n).units)
        fail_msg("%s: seed %llu: %u units of %u", what, (unsigned long long)n->c.seed, r.units, net_optimum(n).units);
    double ratio = r.worst == best.worst ? 1 : (double)r.worst / (double)best.worst;
    double cost = best.cost == 0 ? 1 : (double)r.cost / (double)best.cost;
    all->runs++;
    all->exact += r.worst == best.worst;
    if (ratio > all->ratio) all->ratio = ratio;
    if (cost > all->cost) all->cost = cost;
}

static void expect_exact(const sums *all) {
    if (all->exact != all->runs)
        fail_msg("%u of %u runs ended with the lightest heaviest link, the others up to %.4f times it", all->exact,
                 all->runs, all->ratio);
}

static void run_published(sums *all, uint32_t stages, uint32_t capacity, uint32_t cost) {
    for (uint64_t seed = 0; seed < (campaign_is_brief ? 1 : 6); seed++) {
        net_case c = {.sources = 1,
                      .relays = 40,
                      .stages = stages,
                      .capacity_from = capacity,
                      .capacity_below = 3 * capacity,
                      .cost_from = cost,
                      .cost_below = 20 * cost,
                      .delays = (net_delays)(seed % 4),
                      .seed = seed,
                      .config = {.objective = ROUTER_BOTTLENECK}};
        net *n = net_new(&c);
        add(all, n, "published");
        net_free(n);
    }
}

static void test_published_instances_reach_the_exact_bottleneck(void **state) {
    (void)state;
    sums all = {0};
    run_published(&all, 8, 1, 1);
    run_published(&all, 10, 1, 1);
    run_published(&all, 8, 5, 1);
    run_published(&all, 8, 1, 5);
    expect_exact(&all);
    assert_true(all.cost < 1.08);  // and nearly as cheap as such a flow can be
}

static void some_costs_change(net *n, rng *r) {
    for (uint64_t tries = rng_below(r, 30); tries > 0; tries--) {
        router_peer from = 1 + (router_peer)rng_below(r, n->peers), to = 1 + (router_peer)rng_below(r, n->peers);
        if (n->cost[from][to] < 0) continue;
        n->cost[from][to] = (int64_t)(n->c.cost_from + rng_below(r, n->c.cost_below - n->c.cost_from)) * NET_COST;
        for (int end = 0; end < 2; end++) {
            router_peer p = end == 0 ? from : to;
            if (!n->alive[p]) continue;
            router_cost(n->router[p], n->now, end == 0 ? to : from, end == 0 ? ROUTER_NEXT : ROUTER_PREVIOUS,
                        n->cost[from][to]);
            net_after(n, p);
        }
    }
}

static void run_schedules(sums *all, campaign *some, bool costs) {
    rng *r = &some->random;
    while (campaign_goes_on(some)) {
        net_case c = net_random_case(r);
        c.config.objective = ROUTER_BOTTLENECK;
        net *n = net_new(&c);
        net_churn(n, r);
        if (costs) some_costs_change(n, r);
        if (costs) net_churn(n, r);
        add(all, n, costs ? "costs and crashes" : "crashes");
        net_free(n);
    }
}

static void test_random_schedules_with_crashes_and_restarts(void **state) {
    (void)state;
    sums all = {0};
    campaign crashes = campaign_begin("bottleneck, crashes", 1, 1, 200);
    run_schedules(&all, &crashes, false);
    campaign costs = campaign_begin("bottleneck, changing costs", 2, 1, 200);
    run_schedules(&all, &costs, true);
    expect_exact(&all);
}

// Several data peers, with and (nominally too many relays) without joint plans: complete and quiet
// after any crashes and restarts.
static void several_with_crashes(campaign *some, uint32_t relays) {
    rng *r = &some->random;
    while (campaign_goes_on(some)) {
        net_case c = net_random_case(r);
        c.sources = 2 + (uint32_t)rng_below(r, 3);
        c.relays += 2 * c.stages;
        c.equal = true;
        c.config.objective = ROUTER_BOTTLENECK;
        c.config.relays = relays;
        net *n = net_new(&c);
        net_churn(n, r);
        net_settle(n, relays == 0 ? "several data peers with prices" : "several data peers without prices");
        net_free(n);
    }
}

static void test_several_data_peers_with_crashes(void **state) {
    (void)state;
    campaign priced = campaign_begin("bottleneck, several with prices", 1, 1, 35);
    several_with_crashes(&priced, 0);
    campaign without = campaign_begin("bottleneck, several without prices", 2, 1, 35);
    several_with_crashes(&without, 1000);
}

// The only relay of a stage takes all units; relays that share a stage share the load, though one
// link is cheaper.
static void test_bottleneck_objective_shares_load_that_sum_would_not(void **state) {
    (void)state;
    for (int objective = 0; objective < ROUTER_OBJECTIVES; objective++) {
        net_case c = {.sources = 1,
                      .relays = 2,
                      .stages = 1,
                      .capacity_from = 4,
                      .capacity_below = 5,
                      .cost_from = 2,
                      .cost_below = 3,
                      .config = {.objective = (router_objective)objective}};
        net *n = net_new(&c);
        n->capacity[1] = 4;  // as much as one of the two relays can carry
        router_capacity(n->router[1], n->now, 4);
        n->cost[1][3] = 3 * NET_COST;
        router_cost(n->router[1], n->now, 3, ROUTER_NEXT, n->cost[1][3]);
        router_cost(n->router[3], n->now, 1, ROUTER_PREVIOUS, n->cost[1][3]);
        for (router_peer p = 1; p <= 3; p++) net_after(n, p);
        net_result r = net_settle(n, "two relays");
        assert_int_equal(r.units, 4);
        assert_int_equal(r.worst, (objective == ROUTER_SUM ? 8 : 6) * NET_COST);
        assert_int_equal(r.cost, (objective == ROUTER_SUM ? 16 : 18) * NET_COST);
        net_free(n);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bottleneck_objective_shares_load_that_sum_would_not),
        cmocka_unit_test(test_published_instances_reach_the_exact_bottleneck),
        cmocka_unit_test(test_random_schedules_with_crashes_and_restarts),
        cmocka_unit_test(test_several_data_peers_with_crashes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
