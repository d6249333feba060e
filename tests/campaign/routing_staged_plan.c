// Staged plans of several data peers under crashes, and flow versions that begin at any moment.
#include "campaign_budget.h"
#include "routing/plan/mincost_planner.h"
#include "routing_net.h"

// The flow is complete and quiet with several data peers. bench_optimum_glpk examines its cost.
static void several_with_crashes(const char *name, uint64_t seed, uint32_t cases, uint32_t relays) {
    campaign all = campaign_begin(name, seed, 1, cases);
    rng *r = &all.random;
    while (campaign_goes_on(&all)) {
        net_case c = net_random_case(r);
        c.sources = 2 + (uint32_t)rng_below(r, 3);
        c.relays += 2 * c.stages;
        c.equal = true;
        c.config.relays = relays;
        net *n = net_new(&c);
        net_churn(n, r);
        net_settle(n, "several data peers");
        net_free(n);
    }
}

static void test_several_data_peers_with_crashes(void **state) {
    (void)state;
    several_with_crashes("several data peers", 9, 40, 0);
    several_with_crashes("forwarders of maps", 12, 20, MINCOST_SMALL_RUN + 1);  // forwarders of maps may die
}

// Too many relays for a plan.
static void test_too_many_relays_for_a_plan(void **state) {
    (void)state;
    several_with_crashes("without plans", 10, 100, 2 * MINCOST_MULTI_SOURCE_RELAYS);
}

// A peer learns of another flow version, staged or restored, from a neighbour that is gone.
static void restore_somewhere(net *n, rng *r, uint32_t span) {
    router_message m = {
        .from = 1, .to = 1 + (router_peer)rng_below(r, n->peers), .kind = ROUTER_QUERY, .why = MINCOST_QUERY_EPOCH};
    while (m.from <= n->peers && !(n->alive[m.from] && net_linked(n, m.from, m.to))) m.from++;
    if (!n->alive[m.to] || m.from > n->peers) return;
    m.epoch = MINCOST_EPOCHS_PER_FLOW * (uint64_t)span;
    m.attempts = (uint32_t)rng_below(r, MINCOST_PLAN_ATTEMPTS + 1);
    mincost_planner *pl = (mincost_planner *)n->router[m.to];
    int previous = router_slot(&pl->mc.r, ROUTER_PREVIOUS, m.from), next = router_slot(&pl->mc.r, ROUTER_NEXT, m.from);
    uint32_t heard = next >= 0 ? downstream_of(&pl->mc, 0, (uint32_t)next)->epoch
                               : upstream_of(&pl->mc, 0, (uint32_t)previous)->epoch;
    router_receive(&pl->mc.r, n->now, &m);
    // that neighbour did not announce it
    if (previous >= 0) upstream_of(&pl->mc, 0, (uint32_t)previous)->epoch = heard;
    if (next >= 0) downstream_of(&pl->mc, 0, (uint32_t)next)->epoch = heard;
    net_after(n, m.to);
}

// Another flow version begins at any moment, while units are pushed and returned, and again before
// all peers know.
static void test_flow_is_restored_at_any_moment(void **state) {
    (void)state;
    campaign all = campaign_begin("restored", 11, 1, 250);
    rng *r = &all.random;
    while (campaign_goes_on(&all)) {
        net_case c = net_random_case(r);
        c.sources = 2 + (uint32_t)rng_below(r, 2);
        c.delays = (net_delays)rng_below(r, PARETO);
        c.equal = rng_below(r, 2) == 0;
        net *n = net_new(&c);
        uint32_t restored = 1 + (uint32_t)rng_below(r, 4);
        for (uint32_t span = 1; span <= restored; span++) {
            net_run(n, 1 + (int64_t)rng_below(r, 40));
            restore_somewhere(n, r, span);
        }
        net_settle(n, "restored at any moment");
        net_free(n);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_several_data_peers_with_crashes),
        cmocka_unit_test(test_too_many_relays_for_a_plan),
        cmocka_unit_test(test_flow_is_restored_at_any_moment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
