// braid's routers with several data peers: drafts of planned ways, and the eras in which they are put in force or given up.
#include "routing_net.h"

#include "routing/plan/mincost_planner.h"
#include "seed.h"

// With several data peers the flow is whole and quiet; how cheap it is, unit_sim_glpk looks at.
static void several_with_crashes(uint64_t seed, int cases, uint32_t relays) {
    rng r = seeded_rng("several", seed);
    for (int i = 0; i < cases; i++) {
        net_case c = net_random_case(&r);
        c.sources = 2 + (uint32_t)rng_below(&r, 3);
        c.relays += 2 * c.stages;
        c.equal = true;
        c.config.relays = relays;
        net *n = net_new(&c);
        net_churn(n, &r);
        net_settle(n, "several data peers");
        net_free(n);
    }
}

static void test_several_data_peers_with_crashes(void **state) {
    (void)state;
    several_with_crashes(9, 80, 0);
    several_with_crashes(6, 80, 0);
    several_with_crashes(12, 60, MINCOST_SMALL_RUN + 1);  // who carries maps on may die
}

static uint32_t in_draft(const net *n) {
    uint32_t count = 0;
    for (router_peer p = 1; p <= n->peers; p++) count += n->alive[p] && ((const mincost_planner *)n->router[p])->mc.phase.staged;
    return count;
}

static const net_case two_data_peers = {
    .sources = 2, .relays = 12, .stages = 3, .capacity_from = 1, .capacity_below = 3, .cost_from = 1, .cost_below = 20};

static bool all_have(const net *n, uint32_t units) {
    net_result r = net_measure(n);
    return r.placed && r.units == units;
}

static int64_t until_all_have(net *n, uint32_t units) {
    int64_t round = 0;
    for (; round < 1000 && !all_have(n, units); round++) net_run(n, 1);
    return round;
}

// Rounds until all peers draft, or none does; 0: never.
static int64_t until_drafts(net *n, bool wanted) {
    for (int64_t round = 1; round <= 30000; round++) {
        bool quiet = net_run(n, 1);
        if (in_draft(n) == (wanted ? n->peers : 0)) return round;
        if (quiet) return 0;
    }
    return 0;
}

// So many that nobody drafts.
static void test_several_data_peers_in_a_crowd(void **state) {
    (void)state;
    net_case c = two_data_peers;
    c.config.relays = MINCOST_MULTI_SOURCE_RELAYS + 1;
    net *n = net_new(&c);
    assert_int_equal(until_drafts(n, true), 0);
    net_free(n);
    several_with_crashes(10, 400, 2 * MINCOST_MULTI_SOURCE_RELAYS);
}

// Where relays carry maps on to one only, all data peers have the same map all the same, and find the same ways.
static void test_carried_maps_are_whole(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < 12; seed++) {
        net_case c = two_data_peers;
        c.sources = 2 + (uint32_t)seed % 3;
        c.relays = 36;
        c.equal = true;
        c.delays = (net_delays)(seed % 4);
        c.seed = seed;
        net *few = net_new(&c);
        c.config.relays = MINCOST_SMALL_RUN + 1;
        net *many = net_new(&c);
        net_result of_few = net_settle(few, "few"), of_many = net_settle(many, "many");
        const mincost_planner *one = (const mincost_planner *)few->router[1], *other = (const mincost_planner *)many->router[1];
        assert_true(one->staged.plan != 0 && one->staged.plan == other->staged.plan);
        assert_true(of_few.units == of_many.units && of_few.cost == of_many.cost);
        assert_true(many->tally.kind[ROUTER_MAP] < few->tally.kind[ROUTER_MAP]);
        net_free(few);
        net_free(many);
    }
}

static void wish(net *n, uint32_t units) {
    for (router_peer p = 1; p <= n->c.sources; p++) {
        n->capacity[p] = units;
        router_capacity(n->router[p], n->now, units);
        net_after(n, p);
    }
}

static void expect_one_era(const net *n) {
    for (router_peer p = 2; p <= n->peers; p++)
        assert_int_equal(((const mincost_planner *)n->router[p])->epochs.epoch, ((const mincost_planner *)n->router[1])->epochs.epoch);
}

// The map is what it was, so ways on it would be the same again.
static void test_without_news_nobody_drafts_again(void **state) {
    (void)state;
    net *n = net_new(&two_data_peers);
    net_settle(n, "planned ways are in force");
    uint32_t era = ((const mincost_planner *)n->router[1])->epochs.epoch;
    n->now += 10000 * NET_DELAY;
    wish(n, n->capacity[1]);
    net_settle(n, "the same is wanted");
    assert_int_equal(((const mincost_planner *)n->router[1])->epochs.epoch, era);
    expect_one_era(n);
    net_free(n);
}

// Two data peers that want twice of what fits draft all the same, for what fits; and again for less, and when somebody came.
static void test_without_room_for_all_they_draft_for_what_fits(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < 8; seed++) {
        net_case c = two_data_peers;
        c.delays = (net_delays)(seed % 4);
        c.seed = seed;
        net *n = net_new(&c);
        assert_in_range(until_drafts(n, true), 100, 800);
        net_result r = net_settle(n, "too much is wanted");
        uint32_t fits = net_fits(n);
        assert_int_equal(r.units, fits);
        for (router_peer p = 1; p <= n->peers; p++)
            assert_int_equal(((const mincost_planner *)n->router[p])->mc.phase.plan_attempts, 0);  // small gains count now
        wish(n, fits / 2);
        assert_int_equal(net_settle(n, "less is wanted").units, fits / 2 * 2);
        net_crash(n, n->peers);
        net_run(n, 20);
        net_restart(n, n->peers);
        assert_int_equal(net_settle(n, "somebody came").units, fits / 2 * 2);
        assert_int_equal(in_draft(n), 0);
        expect_one_era(n);
        net_free(n);
    }
}

// `spare`: what each data peer could want more.
static net *drafting(uint64_t seed, uint32_t spare) {
    net_case c = two_data_peers;
    c.equal = true;
    c.relays = 24;
    c.delays = (net_delays)(seed % 3);  // a heavy-tailed one may be longer than all that follows
    c.seed = seed;
    net *n = net_new(&c);
    wish(n, n->capacity[1] - spare);
    assert_in_range(until_drafts(n, true), 100, 800);
    return n;
}

// What a draft does to counters is none of the hosts' business until it is done: from its beginning on every unit has a way at every
// moment, and in the end all is cheaper than before.
static void test_a_draft_disturbs_nobody(void **state) {
    (void)state;
    int64_t before = 0, after = 0;
    for (uint64_t seed = 0; seed < 9; seed++) {
        net *n = drafting(seed, 0);
        uint32_t wanted = 2 * n->capacity[1];
        before += net_measure(n).cost;
        int64_t round = 0;
        for (; round < 200 && in_draft(n) == n->peers; round++) {
            assert_true(all_have(n, wanted));
            net_run(n, 1);
        }
        assert_in_range(round, 60, 110);
        assert_in_range(until_drafts(n, false), 1, 40);
        after += net_settle(n, "after the draft").cost;
        net_free(n);
    }
    assert_true(after * 100 < before * 96);
}

static router_peer a_carrier(const net *n) {
    router_peer p = n->c.sources + 1;
    while (router_load(n->router[p]) == 0) p++;
    return p;
}

static uint32_t others_than(const net *n, const uint64_t *before) {
    uint32_t count = 0;
    for (router_peer p = 1; p <= n->peers; p++) count += n->alive[p] && n->view_hash[p] != before[p];
    return count;
}

// Words that left before their senders restored the flow, too, and come to who already has: they are about the draft.
static void say_of_the_draft(net *n) {
    while (in_draft(n) == n->peers - 1) assert_true(net_step(n));
    for (router_peer p = 1; p <= n->peers; p++) {
        if (!n->alive[p] || ((const mincost_planner *)n->router[p])->mc.phase.staged) continue;
        router_message m = {.to = p, .kind = ROUTER_DENY, .source = n->stage[p] == 0 ? p : 1, .units = 1};
        for (m.from = 1; m.from <= n->peers; m.from++)
            if (n->alive[m.from] && net_linked(n, p, m.from)) router_receive(n->router[p], n->now, &m);
        net_after(n, p);
    }
}

// A relay that the kept flow needs dies: its flow is mended, not the draft.
static void test_a_death_ends_the_draft(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < 9; seed++) {
        net *n = drafting(seed, 0);
        uint32_t wanted = 2 * n->capacity[1];
        net_run(n, 30);
        uint64_t before[NET_PEERS];
        memcpy(before, n->view_hash, sizeof before);
        net_crash(n, a_carrier(n));
        say_of_the_draft(n);
        assert_in_range(until_drafts(n, false), 1, 40);
        assert_in_range(others_than(n, before), 1, 8);  // of 26: who is near by, and not all that the draft had moved
        if (net_fits(n) >= wanted) assert_in_range(until_all_have(n, wanted), 0, 150);
        net_settle(n, "after a death");
        net_free(n);
    }
}

static bool lose_ways(net *n, router_message *m) { return m->kind != ROUTER_WAY || n->tampered++ != 3; }

// A unit of the draft gets lost: at the end of the draft somebody notices, and what was in force before is in force again.
static void test_a_draft_that_misses_a_unit_is_given_up(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < 6; seed++) {
        net_case c = two_data_peers;
        c.equal = true;
        c.relays = 24;
        c.delays = (net_delays)(seed % 3);
        c.seed = seed;
        net *n = net_new(&c);
        uint32_t wanted = 2 * n->capacity[1];
        n->tamper = lose_ways;
        assert_in_range(until_drafts(n, true), 100, 800);
        uint64_t before[NET_PEERS];
        memcpy(before, n->view_hash, sizeof before);
        assert_in_range(until_drafts(n, false), 60, 140);
        assert_in_range(n->tampered, 4, 1000);
        assert_int_equal(others_than(n, before), 0);
        assert_true(all_have(n, wanted));
        net_settle(n, "a draft given up");
        net_free(n);
    }
}

static bool lose_all_ways(net *n, router_message *m) {
    (void)n;
    return m->kind != ROUTER_WAY;
}

// A draft that fails is tried again, twice for one map and not for ever.
static void test_drafts_in_vain_are_few(void **state) {
    (void)state;
    net_case c = two_data_peers;
    c.equal = true;
    net *n = net_new(&c);
    n->tamper = lose_all_ways;
    net_settle(n, "no draft succeeds");
    uint32_t spans = ((const mincost_planner *)n->router[1])->epochs.epoch / MINCOST_EPOCHS_PER_FLOW;
    assert_in_range(spans, 2 * MINCOST_PLAN_ATTEMPTS, 4 * MINCOST_PLAN_ATTEMPTS);
    n->tamper = NULL;
    n->now += 10000 * NET_DELAY;
    wish(n, n->capacity[1]);
    net_settle(n, "the same map");
    assert_int_equal(((const mincost_planner *)n->router[1])->epochs.epoch / MINCOST_EPOCHS_PER_FLOW, spans);
    net_free(n);
}

static uint32_t drafts_begun(const net *n) { return (((const mincost_planner *)n->router[1])->epochs.epoch / MINCOST_EPOCHS_PER_FLOW + 1) / 2; }

static void raise_costs(net *n, router_peer p, int64_t percent) {
    for (router_peer q = 1; q <= n->peers; q++) {
        if (n->cost[p][q] < 0) continue;
        n->cost[p][q] += n->cost[p][q] * percent / 100;
        router_cost(n->router[p], n->now, q, ROUTER_NEXT, n->cost[p][q]);
        router_cost(n->router[q], n->now, p, ROUTER_PREVIOUS, n->cost[p][q]);
        net_after(n, q);
    }
    net_after(n, p);
}

// A draft takes messages of everybody: not for a gain below 2 per cent.
static void test_a_draft_must_be_worth_it(void **state) {
    (void)state;
    net_case c = two_data_peers;
    c.equal = true;
    c.relays = 24;
    net *n = net_new(&c);
    net_settle(n, "a draft");
    assert_int_equal(drafts_begun(n), 1);
    for (router_peer p = 1; p <= n->peers; p++) raise_costs(n, p, p % 2);
    net_settle(n, "costs changed a little");
    assert_int_equal(drafts_begun(n), 1);
    raise_costs(n, a_carrier(n), 900);
    net_settle(n, "a relay is hardly of use any more");
    assert_int_equal(drafts_begun(n), 2);
    net_free(n);
}

// Who dies and comes back at once, the same as it was, has lost its units: what mends that is dearer than what was planned, so all is planned anew.
static void test_who_comes_back_is_planned_anew(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < 6; seed++) {
        net *n = drafting(seed, 0);
        int64_t planned = net_settle(n, "planned").cost;
        assert_int_equal(drafts_begun(n), 1);
        router_peer p = a_carrier(n);
        net_crash(n, p);
        net_restart(n, p);
        int64_t again = net_settle(n, "planned again").cost;
        assert_int_equal(drafts_begun(n), 2);
        assert_true(again * 100 <= planned * 103);
        net_free(n);
    }
}

// Ways wait until they leave: those of earlier drafts take no room from later ones.
static void test_drafts_succeed_however_many_there_were(void **state) {
    (void)state;
    net_case c = {.sources = 2, .relays = 40, .stages = 10, .capacity_from = 6, .capacity_below = 10, .cost_from = 1, .cost_below = 20, .equal = true};
    net *n = net_new(&c);
    rng r = seeded_rng("drafts", 1);
    for (int i = 0; i < 16; i++) {
        net_settle(n, "a draft");
        assert_int_equal(((const mincost_planner *)n->router[1])->epochs.epoch / MINCOST_EPOCHS_PER_FLOW % 2, 1);  // its ways are in force
        for (router_peer p = 1; p <= n->peers; p++) raise_costs(n, p, (int64_t)rng_below(&r, 2) * 200);
    }
    assert_true(drafts_begun(n) * n->capacity[1] * c.stages > MINCOST_PATH_WORDS);
    net_free(n);
}

static bool count_locks(net *n, router_message *m) {
    n->tampered += m->kind == ROUTER_LOCK;
    return true;
}

// Whose draft is over looks for cycles at once; who is still in it takes part in none, or it would not be at rest and give the draft up.
static void test_a_draft_ends_bit_by_bit(void **state) {
    (void)state;
    uint32_t locks = 0;
    for (uint64_t seed = 0; seed < 40; seed++) {
        net_case c = {.sources = 3, .relays = 60, .stages = 6, .capacity_from = 1, .capacity_below = 3, .cost_from = 1, .cost_below = 20,
                      .seed = seed, .equal = true};
        net *n = net_new(&c);
        assert_in_range(until_drafts(n, true), 100, 800);
        n->tamper = count_locks;
        net_settle(n, "the draft is over");
        locks += n->tampered;
        assert_int_equal(((const mincost_planner *)n->router[1])->epochs.epoch / MINCOST_EPOCHS_PER_FLOW, 1);  // no flow was restored
        net_free(n);
    }
    assert_in_range(locks, 1, 1000000);
}

// Who hears that the flow is restored, and who at the same time hears of a later era by another way, without ever hearing of
// that one: both ends of each link count the same in the end.
static void test_a_restored_flow_may_be_missed(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < 12; seed++) {
        net *n = drafting(seed, 0);
        uint32_t wanted = 2 * n->capacity[1];
        net_run(n, 5 + (int)seed * 6);
        for (router_peer p = 1; p <= n->peers; p += n->peers - 1) {
            router_message m = {.from = 1, .to = p, .kind = ROUTER_QUERY, .why = MINCOST_QUERY_EPOCH, .cost = 2 * MINCOST_EPOCHS_PER_FLOW + (p == 1 ? 0 : 2)};
            while (!net_linked(n, m.from, p)) m.from++;
            router_receive(n->router[p], n->now, &m);
            net_after(n, p);
        }
        assert_in_range(until_all_have(n, wanted), 0, 300);
        net_settle(n, "a restored flow was missed");
        expect_one_era(n);
        net_free(n);
    }
}

// Units handed back before the flow was restored, and after it, in one step: the sender may hear nothing of the former, and must
// hear of the latter once it has heard that the flow is restored.
static void test_hand_backs_of_two_spans_are_two(void **state) {
    (void)state;
    net_case c = {.sources = 2, .relays = 1, .stages = 1, .capacity_from = 1, .capacity_below = 2, .cost_from = 1, .cost_below = 2, .equal = true};
    net *n = net_new(&c);  // each data peer's share of one unit is none
    net_settle(n, "nothing is wanted");
    router *relay = n->router[3];
    const router_message flow = {.from = 1, .to = 3, .kind = ROUTER_FLOW, .why = MINCOST_PUSHED, .source = 1, .units = 2};
    router_receive(relay, n->now, &flow);
    const router_message era = {.from = 1, .to = 3, .kind = ROUTER_QUERY, .why = MINCOST_QUERY_EPOCH, .cost = 2 * MINCOST_EPOCHS_PER_FLOW};
    router_receive(relay, n->now, &era);
    router_receive(relay, n->now, &flow);
    router_tick(relay, n->now);
    bool restored = false;
    uint32_t handed_back = 0;
    for (router_message m; router_next(relay, &m);) {
        if (m.to == 1 && m.kind == ROUTER_QUERY && m.why == MINCOST_QUERY_EPOCH) restored = true;
        if (m.to == 1 && m.kind == ROUTER_DENY && restored) handed_back += m.units;
    }
    assert_int_equal(handed_back, 1);
    net_free(n);
}

// Somebody has heard of another span, from a neighbour that is no more: of a draft, or that the flow is restored.
static void restore_somewhere(net *n, rng *r, uint32_t span) {
    router_message m = {.from = 1, .to = 1 + (router_peer)rng_below(r, n->peers), .kind = ROUTER_QUERY, .why = MINCOST_QUERY_EPOCH};
    while (m.from <= n->peers && !(n->alive[m.from] && net_linked(n, m.from, m.to))) m.from++;
    if (!n->alive[m.to] || m.from > n->peers) return;
    m.cost = MINCOST_EPOCHS_PER_FLOW * (int64_t)span;
    m.units = (uint32_t)rng_below(r, MINCOST_PLAN_ATTEMPTS + 1);
    mincost_planner *pl = (mincost_planner *)n->router[m.to];
    int previous = router_slot(&pl->mc.r, ROUTER_PREVIOUS, m.from), next = router_slot(&pl->mc.r, ROUTER_NEXT, m.from);
    uint32_t heard = next >= 0 ? downstream_of(&pl->mc, 0, (uint32_t)next)->epoch : upstream_of(&pl->mc, 0, (uint32_t)previous)->epoch;
    router_receive(&pl->mc.r, n->now, &m);
    if (previous >= 0) upstream_of(&pl->mc, 0, (uint32_t)previous)->epoch = heard;  // it did not say so
    if (next >= 0) downstream_of(&pl->mc, 0, (uint32_t)next)->epoch = heard;
    net_after(n, m.to);
}

// A draft that nobody else is in begins, or the flow is restored, at any moment, also while units are pushed and handed back, and again before all have heard of it.
static void test_flows_restored_at_any_moment(void **state) {
    (void)state;
    rng r = seeded_rng("restored", 11);
    for (int i = 0; i < 1000; i++) {
        net_case c = net_random_case(&r);
        c.sources = 2 + (uint32_t)rng_below(&r, 2);
        c.delays = (net_delays)rng_below(&r, PARETO);
        c.equal = rng_below(&r, 2) == 0;
        net *n = net_new(&c);
        uint32_t restored = 1 + (uint32_t)rng_below(&r, 4);
        for (uint32_t span = 1; span <= restored; span++) {
            net_run(n, 1 + (int64_t)rng_below(&r, 40));
            restore_somewhere(n, &r, span);
        }
        net_settle(n, "restored at any moment");
        net_free(n);
    }
}

// A data peer that wants less or more meanwhile is served at once, not after the draft.
static void test_another_wish_ends_the_draft(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < 6; seed++) {
        bool more = seed % 2 != 0;
        net *n = drafting(seed, more);
        uint32_t units = n->capacity[1] + (more ? 1 : -1u);
        wish(n, units);
        assert_in_range(until_drafts(n, false), 1, 40);
        assert_in_range(until_all_have(n, 2 * units), 0, 150);
        net_settle(n, "after another wish");
        net_free(n);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_several_data_peers_with_crashes),
        cmocka_unit_test(test_several_data_peers_in_a_crowd),
        cmocka_unit_test(test_carried_maps_are_whole),
        cmocka_unit_test(test_without_news_nobody_drafts_again),
        cmocka_unit_test(test_without_room_for_all_they_draft_for_what_fits),
        cmocka_unit_test(test_a_draft_disturbs_nobody),
        cmocka_unit_test(test_a_death_ends_the_draft),
        cmocka_unit_test(test_a_draft_that_misses_a_unit_is_given_up),
        cmocka_unit_test(test_drafts_in_vain_are_few),
        cmocka_unit_test(test_a_draft_must_be_worth_it),
        cmocka_unit_test(test_who_comes_back_is_planned_anew),
        cmocka_unit_test(test_drafts_succeed_however_many_there_were),
        cmocka_unit_test(test_a_draft_ends_bit_by_bit),
        cmocka_unit_test(test_a_restored_flow_may_be_missed),
        cmocka_unit_test(test_hand_backs_of_two_spans_are_two),
        cmocka_unit_test(test_flows_restored_at_any_moment),
        cmocka_unit_test(test_another_wish_ends_the_draft),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
