// Initial plans (plan_first): data peers wait for a complete map and send their first units with
// planned paths.
#include "routing_net.h"

#include "routing/plan/mincost_planner.h"

static const net_case narrow = {
    .sources = 1, .relays = 40, .stages = 8, .capacity_from = 1, .capacity_below = 3, .cost_from = 1, .cost_below = 20};
static const net_case wide = {.sources = 1,
                              .relays = 40,
                              .stages = 8,
                              .capacity_from = 5,
                              .capacity_below = 15,
                              .cost_from = 1,
                              .cost_below = 20};

static net *new_net(net_case c, bool plan_first) {
    c.config.plan_first = plan_first;
    return net_new(&c);
}

static const mincost_planner *at(const net *n, router_peer p) { return (const mincost_planner *)n->router[p]; }

// Cost of a complete flow over the optimum.
static double cost_over_optimum(const net *n) {
    net_result r = net_measure(n), best = net_optimum(n);
    assert_true(r.whole && r.units == best.units);
    return (double)r.cost / (double)best.cost;
}

// Given a plan, the first flow is optimal in most runs and takes fewer messages than without one.
static void test_initial_flow_is_the_planned_one(void **state) {
    (void)state;
    uint64_t with = 0, without = 0;
    double over = 0;
    for (net_case c = narrow; c.seed < 8; c.seed++) {
        net *planned = new_net(c, true), *plain = new_net(c, false);
        net_run(planned, 60);
        over += cost_over_optimum(planned) - 1;
        net_expect_optimum(planned, "planned");
        net_expect_optimum(plain, "plain");
        with += planned->tally.messages;
        without += plain->tally.messages;
        assert_true(plain->tally.kind[ROUTER_MAP] == 0 && planned->tally.kind[ROUTER_MAP] > 0);
        net_free(planned);
        net_free(plain);
    }
    assert_true(over / 8 < 0.001);
    assert_true(with * 2 < without);
}

// Given many units, the planned flow is near the optimum and cycles close the gap.
static void test_initial_flow_of_many_units_is_near_the_optimum(void **state) {
    (void)state;
    for (net_case c = wide; c.seed < 8; c.seed++) {
        c.delays = (net_delays)(c.seed % 3);
        net *n = new_net(c, true);
        net_run(n, 50);
        assert_true(cost_over_optimum(n) < 1.005);
        net_expect_optimum(n, "many units");
        net_free(n);
    }
}

static void test_several_data_peers_start_with_one_plan(void **state) {
    (void)state;
    net_case c = narrow;
    c.sources = 2;
    c.equal = true;
    for (c.seed = 0; c.seed < 12; c.seed++) {
        c.delays = (net_delays)(c.seed % 3);
        c.config.relays = c.seed < 6 ? c.relays : MINCOST_SMALL_RUN + 1;
        net *n = new_net(c, true);
        net_run(n, 70);
        net_result early = net_measure(n), r = net_settle(n, "several");
        assert_true(early.whole && early.units == r.units && early.cost == r.cost);
        // no plan was staged
        assert_int_equal(at(n, 1)->epochs.epoch / MINCOST_EPOCHS_PER_FLOW, 0);
        net_free(n);
    }
}

// A late relay would otherwise wait for a map that its neighbours no longer send.
static void test_late_relay_starts_without_a_map(void **state) {
    (void)state;
    net *n = new_net(wide, true);
    net_settle(n, "before");
    net_crash(n, 1);
    net_run(n, 100);
    net_restart(n, 1);
    net_restart(n, 5);  // a relay of the first stage
    net_run(n, 3);
    assert_true(at(n, 1)->mc.phase.started && at(n, 5)->mc.phase.started);
    assert_int_equal(at(n, 1)->staged.plan, 0);
    net_expect_optimum(n, "after");
    net_free(n);
}

// Each data peer receives adverts of its own units only.
static void test_late_data_peer_starts_without_a_plan(void **state) {
    (void)state;
    net_case c = narrow;
    c.sources = 2;
    c.equal = true;
    net *n = new_net(c, true);
    net_crash(n, 2);
    net_run(n, 60);  // the other data peer's units are under way, and labels are held
    assert_true(at(n, 1)->mc.phase.started);
    net_restart(n, 2);
    net_run(n, 3);
    assert_true(at(n, 2)->mc.phase.started);
    assert_int_equal(at(n, 2)->staged.plan, 0);
    net_settle(n, "after");
    net_free(n);
}

// A neighbour added while the router waited is told when it starts.
static void test_neighbour_added_while_waiting_learns_of_the_start(void **state) {
    (void)state;
    net *n = new_net(narrow, true);
    net_settle(n, "before");
    for (router_peer p = 1; n->stage[p] < 2; p++) net_crash(n, p);
    net_run(n, 100);
    for (router_peer p = 1; n->stage[p] < 2; p++) net_restart(n, p);
    net_run(n, 5);
    assert_true(at(n, 1)->mc.phase.started);
    net_expect_optimum(n, "after");
    net_free(n);
}

static void set_capacity(net *n, router_peer p, uint32_t capacity) {
    n->capacity[p] = capacity;
    router_capacity(n->router[p], n->now, capacity);
    net_after(n, p);
}

// Relays that do not serve yet are on the map.
static void test_no_plan_while_relays_have_no_room(void **state) {
    (void)state;
    net *n = new_net(wide, true);
    uint32_t capacity[NET_PEERS];
    memcpy(capacity, n->capacity, sizeof capacity);
    for (router_peer p = 2; p <= n->peers; p++) set_capacity(n, p, 0);
    net_run(n, 200);
    assert_false(at(n, 1)->mc.phase.started);
    for (router_peer p = 2; p <= n->peers; p++) set_capacity(n, p, capacity[p]);
    net_run(n, 60);
    assert_true(at(n, 1)->staged.plan != 0);
    assert_true(cost_over_optimum(n) < 1.005);
    net_expect_optimum(n, "serving");
    net_free(n);
}

static bool swallows_maps(net *n, router_message *m) {
    (void)n;
    return m->kind != ROUTER_MAP;
}

static void test_wait_for_the_map_times_out(void **state) {
    (void)state;
    net_case c = wide;
    c.config.plan_first = true;
    net *n = net_new(&c);
    n->tamper = swallows_maps;
    net_run(n, 40);
    assert_false(at(n, 1)->mc.phase.started);
    net_run(n, 60);
    assert_true(at(n, 1)->mc.phase.started && net_measure(n).units == net_optimum(n).units);
    net_expect_optimum(n, "without a map");
    net_free(n);
}

// A link may cost more than an entry can hold.
static void test_cost_above_the_maximum_of_a_map_is_clamped(void **state) {
    (void)state;
    net *n = new_net(narrow, true);
    router_cost(n->router[1], 0, 2, ROUTER_NEXT, (int64_t)ROUTER_MAX_COST + 1);
    router_cost(n->router[2], 0, 1, ROUTER_PREVIOUS, (int64_t)ROUTER_MAX_COST + 1);
    net_run(n, 70);
    assert_true(at(n, 1)->staged.plan != 0);
    net_free(n);
}

// A plan minimises the sum, not the bottleneck.
static void test_bottleneck_objective_is_not_planned_first(void **state) {
    (void)state;
    net_case c = wide;
    c.config.objective = ROUTER_BOTTLENECK;
    net *n = new_net(c, true);
    assert_false(mincost_is_waiting(&at(n, 1)->mc));
    net_settle(n, "worst");
    assert_int_equal(n->tally.kind[ROUTER_MAP] + n->tally.kind[ROUTER_WAY], 0);
    net_free(n);
}

static void expect_no_plan(net *n) {
    net_run(n, 1);
    assert_true(at(n, 1)->mc.phase.started);
    net_run(n, 60);
    assert_int_equal(at(n, 1)->staged.plan, 0);
}

// With more relays than the data peers can plan for, no router waits for a map.
static void test_run_too_large_for_a_plan_starts_at_once(void **state) {
    (void)state;
    net_case c = wide;
    c.sources = 2;
    c.config.relays = MINCOST_MULTI_SOURCE_RELAYS + 1;
    net *several = new_net(c, true), *alone = new_net(wide, true);
    expect_no_plan(several);
    assert_int_equal(several->tally.kind[ROUTER_MAP], 0);
    net_settle(several, "crowd");
    net_free(several);
    for (router_peer p = 1; p <= alone->peers; p++) router_relays(alone->router[p], 0, MINCOST_MULTI_SOURCE_RELAYS + 1);
    expect_no_plan(alone);
    net_expect_optimum(alone, "crowd");
    net_free(alone);
}

// The memory of a single source is sized for the number of relays it is told.
static void test_single_source_plans_large_run(void **state) {
    (void)state;
    for (net_case c = wide; c.seed < 6; c.seed++) {
        c.config.relays = 8 * MINCOST_MULTI_SOURCE_RELAYS;
        c.delays = c.seed % 2 == 0 ? LOCKSTEP : UNIFORM;
        net *n = new_net(c, true);
        net_run(n, 70);
        assert_true(at(n, 1)->staged.plan != 0);
        assert_true(cost_over_optimum(n) == 1);
        net_expect_optimum(n, "plans in a crowd");
        net_free(n);
    }
}

// More paths than the buffer holds are sent in parts, before any unit searches for a path itself.
static void test_many_paths_are_dispatched_in_parts(void **state) {
    (void)state;
    net_case c = {.sources = 1,
                  .relays = 36,
                  .stages = 12,
                  .capacity_from = 60,
                  .capacity_below = 90,
                  .cost_from = 1,
                  .cost_below = 20};
    for (c.seed = 0; c.seed < 4; c.seed++) {
        net *n = new_net(c, true);
        net_run(n, 70);
        assert_true(at(n, 1)->staged.plan * c.stages > MINCOST_PATH_WORDS);
        assert_int_equal(n->tally.kind[ROUTER_FLOW] + n->tally.kind[ROUTER_DENY], 0);
        assert_true(cost_over_optimum(n) == 1);
        net_free(n);
    }
}

// More paths may reach a relay in one step than its buffer holds.
static void test_many_paths_are_forwarded_in_parts(void **state) {
    (void)state;
    net_case c = {.sources = 1,
                  .relays = 36,
                  .stages = 12,
                  .capacity_from = 120,
                  .capacity_below = 150,
                  .cost_from = 1,
                  .cost_below = 20,
                  .delays = UNIFORM};
    for (c.seed = 0; c.seed < 4; c.seed++) {
        net *n = new_net(c, true);
        while (!at(n, 1)->mc.phase.started) assert_true(net_step(n));
        assert_true(at(n, 1)->initial.dispatching);
        net_run(n, 1);
        assert_false(at(n, 1)->initial.dispatching);
        net_run(n, 90);
        assert_int_equal(n->tally.kind[ROUTER_FLOW] + n->tally.kind[ROUTER_DENY], 0);
        assert_true(cost_over_optimum(n) == 1);
        net_free(n);
    }
}

// --- One relay -----------------------------------------------------------------------------------

enum { HERE = 10, SOURCE = 1, OTHER = 2, NEXT = 3, NOBODY = 4 };

static router_config relay_config(uint32_t sources) {
    return (router_config){.algorithm = ROUTER_MINCOST,
                           .self = HERE,
                           .capacity = 4,
                           .source_count = sources,
                           .source = {SOURCE, OTHER},
                           .max_neighbours = 4,
                           .seed = 1,
                           .delay = NET_DELAY,
                           .relays = 2,
                           .plan_first = true};
}

static router *new_relay_of(void *memory, size_t room, const router_config *c) {
    assert_in_range(router_bytes(c), 1, room);
    router *r = router_init(memory, c, 0);
    router_neighbour_add(r, 0, SOURCE, ROUTER_PREVIOUS, NET_COST);
    router_neighbour_add(r, 0, NEXT, ROUTER_NEXT, NET_COST);
    router_tick(r, 0);
    return r;
}

static router *new_relay(void *memory, size_t room) {
    const router_config c = relay_config(2);
    return new_relay_of(memory, room, &c);
}

// Number of cuts as reported in the map.
static uint32_t cuts(const router *r) { return ((const mincost_planner *)r)->mc.phase.cuts; }

static void way(router *r, uint32_t units, router_peer next) {
    router_message m = {
        .kind = ROUTER_WAY, .from = SOURCE, .to = HERE, .source = SOURCE, .units = units, .on_path = 1, .length = 2};
    m.u.word[0] = next;
    m.u.word[1] = SOURCE;
    router_receive(r, NET_DELAY, &m);
}

// Several data peers treat a plan as active only if each unit followed it; a relay that knows
// better reports a cut.
static void test_deviation_from_the_plan_is_reported_as_a_cut(void **state) {
    (void)state;
    _Alignas(16) static char memory[1 << 18];
    router *r = new_relay(memory, sizeof memory);
    assert_true(mincost_is_waiting(&((const mincost_planner *)r)->mc));
    way(r, 1, NEXT);
    assert_false(mincost_is_waiting(&((const mincost_planner *)r)->mc));
    assert_int_equal(cuts(r), 0);
    way(r, 2, NOBODY);
    assert_int_equal(cuts(r), 1);
    router_receive(r, 2 * NET_DELAY,
                   &(router_message){.kind = ROUTER_DENY, .from = NEXT, .to = HERE, .source = SOURCE, .units = 1});
    assert_int_equal(cuts(r), 2);
    router_tick(r, 100 * NET_DELAY);  // long after the plan became active
    router_receive(r, 100 * NET_DELAY,
                   &(router_message){.kind = ROUTER_DENY, .from = NEXT, .to = HERE, .source = SOURCE, .units = 1});
    assert_int_equal(cuts(r), 2);
}

static void hear_of_next(router *r, uint32_t version, uint32_t links) {
    router_message m = {.kind = ROUTER_MAP,
                        .from = NEXT,
                        .to = SOURCE,
                        .length = (uint16_t)(3 + 2 * links),
                        .u.word = {NEXT, version, 1 << 16 | links, SOURCE, NET_COST}};
    router_receive(r, NET_DELAY, &m);
}

// All reachable peers have entries and one links back to the data peer. A new neighbour has no
// entry.
static void test_map_is_complete_when_all_reachable_peers_have_entries(void **state) {
    (void)state;
    _Alignas(16) static char memory[1 << 20];
    router_config c = relay_config(1);
    c.self = SOURCE;
    assert_in_range(router_bytes(&c), 1, sizeof memory);
    router *r = router_init(memory, &c, 0);
    router_neighbour_add(r, 0, NEXT, ROUTER_NEXT, NET_COST);
    assert_false(mincost_map_complete((mincost_planner *)r));
    hear_of_next(r, 1, 0);
    assert_false(mincost_map_complete((mincost_planner *)r));
    hear_of_next(r, 2, 1);
    assert_true(mincost_map_complete((mincost_planner *)r));
    router_neighbour_add(r, 2 * NET_DELAY, NOBODY, ROUTER_NEXT, NET_COST);
    assert_false(mincost_map_complete((mincost_planner *)r));
    router_neighbour_gone(r, 2 * NET_DELAY, NOBODY);
    assert_true(mincost_map_complete((mincost_planner *)r));
}

// No tick sends more paths than the queue holds, however short they are.
static void test_short_paths_are_dispatched_in_parts(void **state) {
    (void)state;
    enum { UNITS = 1000 };
    _Alignas(16) static char memory[1 << 20];
    static router_message m;
    router_config c = relay_config(1);
    c.self = SOURCE;
    c.capacity = UNITS;
    assert_in_range(router_bytes(&c), 1, sizeof memory);
    router *r = router_init(memory, &c, 0);
    router_neighbour_add(r, 0, NEXT, ROUTER_NEXT, NET_COST);
    m = (router_message){.kind = ROUTER_MAP,
                         .from = NEXT,
                         .to = SOURCE,
                         .length = 5,
                         .u.word = {NEXT, 1, UNITS << 16 | 1, SOURCE, NET_COST}};
    router_receive(r, 0, &m);
    m = (router_message){
        .kind = ROUTER_ADVERT, .from = NEXT, .to = SOURCE, .source = SOURCE, .cost = NET_COST, .units = UNITS};
    router_receive(r, 0, &m);
    uint32_t sent = 0;
    for (int64_t now = 0; now <= 3 * NET_DELAY; now = router_deadline(r)) {
        uint32_t at_once = 0;
        router_tick(r, now);
        while (router_next(r, &m)) at_once += m.kind == ROUTER_WAY;
        assert_in_range(at_once, 0, MULTI_SOURCE_MAX_UNITS);
        sent += at_once;
    }
    assert_int_equal(sent, UNITS);
}

// Words of maps that each previous neighbour, 20 to 23, has received by a given time.
typedef struct told {
    uint32_t words[4];
} told;

static told told_of_maps(router *r, int64_t until) {
    static router_message m;
    told t = {{0}};
    for (int64_t now = 0; now <= until; now += NET_DELAY) {
        router_tick(r, now);
        while (router_next(r, &m)) {
            if (m.kind != ROUTER_MAP) continue;
            assert_in_range(m.to, 20, 23);
            t.words[m.to - 20] += m.length;
        }
    }
    return t;
}

static uint32_t who_is_told(told t, uint32_t words) {
    uint32_t who = 0;
    for (uint32_t i = 0; i < 4; i++) who |= (uint32_t)(t.words[i] == words) << i;
    return who;
}

// A relay with four previous neighbours that has received the next neighbour's entry.
static router *new_carrier(void *memory, size_t room, uint32_t relays) {
    const router_config c = {.algorithm = ROUTER_MINCOST,
                             .self = HERE,
                             .capacity = 4,
                             .source_count = 1,
                             .source = {SOURCE},
                             .max_neighbours = 8,
                             .seed = 1,
                             .delay = NET_DELAY,
                             .relays = relays,
                             .plan_first = true};
    assert_in_range(router_bytes(&c), 1, room);
    router *r = router_init(memory, &c, 0);
    for (router_peer p = 20; p < 24; p++) router_neighbour_add(r, 0, p, ROUTER_PREVIOUS, NET_COST);
    router_neighbour_add(r, 0, NEXT, ROUTER_NEXT, NET_COST);
    router_message m = {
        .kind = ROUTER_MAP, .from = NEXT, .to = HERE, .length = 5, .u.word = {NEXT, 1, 1 << 16 | 1, SOURCE, NET_COST}};
    router_receive(r, 0, &m);
    return r;
}

enum { ENTRY = 3 + 2 };  // words

// Two previous neighbours forward the map to the only data peer. When one goes, another receives
// all of it.
static void test_lost_map_forwarder_is_replaced(void **state) {
    (void)state;
    _Alignas(16) static char memory[1 << 18];
    router *r = new_carrier(memory, sizeof memory, 8);
    uint32_t first = who_is_told(told_of_maps(r, 20 * NET_DELAY), 2 * ENTRY);
    assert_int_equal(__builtin_popcount(first), 2);
    router_neighbour_gone(r, 21 * NET_DELAY, 20 + (router_peer)__builtin_ctz(first));
    uint32_t second = who_is_told(told_of_maps(r, 40 * NET_DELAY), 2 * ENTRY);
    assert_int_equal(__builtin_popcount(second), 1);
    assert_int_equal(second & first, 0);
}

// In a large run one neighbour receives all entries and two more the relay's own. When the first
// goes, one of those receives all.
static void test_large_run_forwards_the_map_over_one_neighbour(void **state) {
    (void)state;
    _Alignas(16) static char memory[1 << 18];
    router *r = new_carrier(memory, sizeof memory, MINCOST_SMALL_RUN + 1);
    told t = told_of_maps(r, 20 * NET_DELAY);
    uint32_t all = who_is_told(t, 2 * ENTRY), some = who_is_told(t, ENTRY);
    assert_int_equal(__builtin_popcount(all), 1);
    assert_int_equal(__builtin_popcount(some), 2);
    router_neighbour_gone(r, 21 * NET_DELAY, 20 + (router_peer)__builtin_ctz(all));
    t = told_of_maps(r, 40 * NET_DELAY);
    uint32_t again = who_is_told(t, 2 * ENTRY), another = who_is_told(t, ENTRY);
    assert_int_equal(__builtin_popcount(again & some), 1);
    assert_int_equal(__builtin_popcount(another & ~(some | all)), 1);
}

// The plan has assigned the places: an auction would make later repairs more expensive.
static void test_no_auction_after_an_initial_plan(void **state) {
    (void)state;
    _Alignas(16) static char memory[1 << 18];
    router_config c = relay_config(1);
    router *r = new_relay_of(memory, sizeof memory, &c);
    const mincost_planner *pl = (const mincost_planner *)r;
    way(r, 1, NEXT);
    for (int64_t delays = 2; delays < 100; delays += 49) {
        router_receive(r, delays * NET_DELAY,
                       &(router_message){.kind = ROUTER_DENY, .from = NEXT, .to = HERE, .source = SOURCE, .units = 1});
        assert_false(mincost_auction_open(&pl->mc));
    }
    c.plan_first = false;
    r = new_relay_of(memory, sizeof memory, &c);
    router_receive(r, NET_DELAY,
                   &(router_message){.kind = ROUTER_DENY, .from = NEXT, .to = HERE, .source = SOURCE, .units = 1});
    assert_true(mincost_auction_open(&pl->mc));
}

// No labels are sent while all wait. Any other message shows that the run has started.
static void test_label_starts_a_waiting_router(void **state) {
    (void)state;
    _Alignas(16) static char memory[1 << 18];
    router *r = new_relay(memory, sizeof memory);
    router_receive(
        r, NET_DELAY,
        &(router_message){.kind = ROUTER_ADVERT, .from = NEXT, .to = HERE, .source = SOURCE, .cost = 5, .units = 2});
    router_receive(r, NET_DELAY, &(router_message){.kind = ROUTER_MAP, .from = NEXT, .to = HERE});
    assert_true(mincost_is_waiting(&((const mincost_planner *)r)->mc));
    router_receive(
        r, NET_DELAY,
        &(router_message){.kind = ROUTER_LABEL, .from = NEXT, .to = HERE, .source = SOURCE, .side = ROUTER_PREVIOUS});
    assert_false(mincost_is_waiting(&((const mincost_planner *)r)->mc));
}

// Several data peers do not re-optimise centrally, so no flag is sent.
static void test_several_data_peers_never_decentralise(void **state) {
    (void)state;
    net_case c = narrow;
    c.sources = 2;
    c.equal = true;
    net *n = new_net(c, true);
    net_settle(n, "two data peers");
    uint32_t count = 0;
    for (router_peer p = 1; p <= n->peers; p++)
        count += ((const mincost_planner *)n->router[p])->mc.phase.decentralised;
    assert_int_equal(count, 0);
    net_free(n);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_several_data_peers_never_decentralise),
        cmocka_unit_test(test_initial_flow_is_the_planned_one),
        cmocka_unit_test(test_initial_flow_of_many_units_is_near_the_optimum),
        cmocka_unit_test(test_several_data_peers_start_with_one_plan),
        cmocka_unit_test(test_late_relay_starts_without_a_map),
        cmocka_unit_test(test_late_data_peer_starts_without_a_plan),
        cmocka_unit_test(test_neighbour_added_while_waiting_learns_of_the_start),
        cmocka_unit_test(test_no_plan_while_relays_have_no_room),
        cmocka_unit_test(test_wait_for_the_map_times_out),
        cmocka_unit_test(test_cost_above_the_maximum_of_a_map_is_clamped),
        cmocka_unit_test(test_bottleneck_objective_is_not_planned_first),
        cmocka_unit_test(test_run_too_large_for_a_plan_starts_at_once),
        cmocka_unit_test(test_single_source_plans_large_run),
        cmocka_unit_test(test_many_paths_are_dispatched_in_parts),
        cmocka_unit_test(test_many_paths_are_forwarded_in_parts),
        cmocka_unit_test(test_deviation_from_the_plan_is_reported_as_a_cut),
        cmocka_unit_test(test_map_is_complete_when_all_reachable_peers_have_entries),
        cmocka_unit_test(test_short_paths_are_dispatched_in_parts),
        cmocka_unit_test(test_lost_map_forwarder_is_replaced),
        cmocka_unit_test(test_large_run_forwards_the_map_over_one_neighbour),
        cmocka_unit_test(test_no_auction_after_an_initial_plan),
        cmocka_unit_test(test_label_starts_a_waiting_router),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
