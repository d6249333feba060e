// Link costs that change while peers crash and restart. The two ends of a link learn of it at
// different times. Capacity holds at every event (routing_net.h), and at rest the flow is optimal
// for the last costs.
#include "routing_net.h"

#include "campaign_budget.h"

typedef struct late_news {
    router_peer from, to;
} late_news;

enum { NEWS = 64 };

typedef struct news {
    late_news item[NEWS];  // updates that downstream ends have not received
    uint32_t count;
} news;

// The downstream end receives the present cost. After a restart it knows it already; a dead peer
// receives nothing.
static void hear(net *n, const late_news *l) {
    if (!n->alive[l->to] || !n->alive[l->from]) return;
    router_cost(n->router[l->to], n->now, l->from, ROUTER_PREVIOUS, n->cost[l->from][l->to]);
    net_after(n, l->to);
}

// Each update arrives now or later.
static void hear_some(net *n, news *late, rng *r, bool all) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < late->count; i++) {
        if (all || rng_below(r, 2) == 0)
            hear(n, &late->item[i]);
        else
            late->item[kept++] = late->item[i];
    }
    late->count = kept;
}

static void change_cost(net *n, news *late, rng *r) {
    router_peer from = 1 + (router_peer)rng_below(r, n->peers), to = 1 + (router_peer)rng_below(r, n->peers);
    if (n->cost[from][to] < 0 || late->count == NEWS) return;
    n->cost[from][to] = (int64_t)(n->c.cost_from + rng_below(r, n->c.cost_below - n->c.cost_from)) * NET_COST;
    late->item[late->count++] = (late_news){from, to};
    if (!n->alive[from]) return;
    router_cost(n->router[from], n->now, to, ROUTER_NEXT, n->cost[from][to]);
    net_after(n, from);
}

static void blow(net *n, rng *r) {
    router_peer p = 2 + (router_peer)rng_below(r, n->peers - 1);
    if (n->alive[p])
        net_crash(n, p);
    else
        net_restart(n, p);
}

// Up to 12 moments with random changes of costs; at a third of them a peer dies or restarts.
static void drift(net *n, rng *r, bool crashes) {
    news late = {.count = 0};
    uint32_t moments = 1 + (uint32_t)rng_below(r, 12);
    for (uint32_t i = 0; i < moments; i++) {
        net_run(n, 1 + (int64_t)rng_below(r, 30));
        hear_some(n, &late, r, false);
        for (uint64_t tries = rng_below(r, 60); tries > 0; tries--) change_cost(n, &late, r);
        if (crashes && rng_below(r, 3) == 0) blow(n, r);
    }
    net_run(n, 1 + (int64_t)rng_below(r, 30));
    hear_some(n, &late, r, true);
}

static void expect_optimum(net *n, const char *what) {
    net_result r = net_settle(n, what), best = net_optimum(n);
    if (r.units == best.units && r.cost == best.cost) return;
    fail_msg("%s: seed %llu: %u units cost %lld, but %u could cost %lld", what, (unsigned long long)n->c.seed, r.units,
             (long long)r.cost, best.units, (long long)best.cost);
}

// A schedule depends on its number alone. Returns the number of commits, counted at each peer.
static uint64_t run_schedule(uint64_t number, bool crashes) {
    rng r = {number};
    net_case c = net_random_case(&r);
    net *n = net_new(&c);
    drift(n, &r, crashes);
    char what[64];
    snprintf(what, sizeof what, "costs%s, schedule %llu", crashes ? " and crashes" : "", (unsigned long long)number);
    expect_optimum(n, what);
    uint64_t tokens = n->tally.kind[ROUTER_COMMIT];
    net_free(n);
    return tokens;
}

static void run_schedules(campaign *all, bool crashes) {
    uint64_t tokens = 0;
    while (campaign_goes_on(all)) tokens += run_schedule(rng_next(&all->random), crashes);
    assert_true(tokens > all->cases);  // changing costs make cycles worth cancelling
}

static void test_flow_follows_changing_costs(void **state) {
    (void)state;
    campaign all = campaign_begin("costs", 2027, 0.5, 200);
    run_schedules(&all, false);
}

// Inflow that commits had reserved for removal needs room promised to other commits.
static void test_inflow_takes_room_reserved_for_commits(void **state) {
    (void)state;
    run_schedule(17498711686153350554u, true);
}

// A restarted peer must not keep settled labels of its earlier incarnation.
static void test_restart_clears_settled_paths(void **state) {
    (void)state;
    run_schedule(9050640024103044549u, true);
}

static void test_flow_follows_changing_costs_amid_crashes(void **state) {
    (void)state;
    campaign all = campaign_begin("costs and crashes", 2028, 0.5, 200);
    run_schedules(&all, true);
}

// The basis of the other tests: routing is quiet, one link becomes expensive, and the flow leaves
// it.
static void test_flow_leaves_link_whose_cost_rises(void **state) {
    (void)state;
    net_case c = {.sources = 1,
                  .relays = 4,
                  .stages = 2,
                  .capacity_from = 1,
                  .capacity_below = 2,
                  .cost_from = 5,
                  .cost_below = 6,
                  .seed = 4};
    net *n = net_new(&c);
    n->capacity[1] = 1;  // one unit, two relays in a stage
    router_capacity(n->router[1], n->now, 1);
    net_after(n, 1);
    net_settle(n, "before");
    router_unit unit[4];
    assert_true(router_units(n->router[1], unit, 4) >= 1);
    router_peer first = unit[0].downstream;
    n->cost[1][first] = 50 * NET_COST;
    router_cost(n->router[1], n->now, first, ROUTER_NEXT, 50 * NET_COST);
    net_after(n, 1);
    net_run(n, 3);
    hear(n, &(late_news){1, first});
    expect_optimum(n, "dear");
    assert_true(router_units(n->router[1], unit, 4) >= 1);
    assert_int_not_equal(unit[0].downstream, first);
    net_free(n);
}

// A cycle back and forth over one link has no gain, whatever its ends believe about the cost.
static void test_disagreement_about_a_cost_moves_no_unit(void **state) {
    (void)state;
    net_case c = {.sources = 1,
                  .relays = 2,
                  .stages = 2,
                  .capacity_from = 1,
                  .capacity_below = 2,
                  .cost_from = 5,
                  .cost_below = 6};
    net *n = net_new(&c);
    net_settle(n, "before");
    for (int64_t cost = 1; cost <= 9; cost += 8) {
        uint64_t locks = n->tally.kind[ROUTER_LOCK];
        router_cost(n->router[1], n->now, 2, ROUTER_NEXT, cost * NET_COST);
        net_after(n, 1);
        net_run(n, 30);  // the other end has not received the cost
        n->cost[1][2] = cost * NET_COST;
        hear(n, &(late_news){1, 2});
        expect_optimum(n, "disagreement");
        assert_int_equal(n->tally.kind[ROUTER_LOCK], locks);
    }
    net_free(n);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_flow_leaves_link_whose_cost_rises),
        cmocka_unit_test(test_disagreement_about_a_cost_moves_no_unit),
        cmocka_unit_test(test_inflow_takes_room_reserved_for_commits),
        cmocka_unit_test(test_restart_clears_settled_paths),
        cmocka_unit_test(test_flow_follows_changing_costs),
        cmocka_unit_test(test_flow_follows_changing_costs_amid_crashes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
