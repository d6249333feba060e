// Updates that a mincost router sends, and when: auctioned places, labels, adverts.
#include "routing_net.h"

#include "routing/plan/mincost_planner.h"

enum { HERE = 10, FIRST = 2, SECOND = 3, BEHIND = 4, BESIDE = 5, THIRD = 6, BEYOND = 7, LINK = 1000 };

// The last message of this kind for `to` at this time; `to` is 0 if there is none.
static router_message says(router *r, int64_t now, router_peer to, router_kind kind) {
    static router_message m;
    router_message last = {0};
    router_tick(r, now);
    while (router_next(r, &m)) {
        if (m.to == to && m.kind == kind) last = m;
    }
    return last;
}

static void push_one(router *r, int64_t now, router_peer from, uint32_t taken_back, int64_t bid) {
    router_message m = {.kind = ROUTER_FLOW,
                        .from = from,
                        .to = HERE,
                        .source = 1,
                        .units = 1,
                        .taken_back = taken_back,
                        .cost = bid,
                        .why = MINCOST_PUSHED};
    router_receive(r, now, &m);
}

// A relay with one place: the higher bid gets it and the lower one is evicted. After the auction a
// late unit is returned.
static void test_higher_bid_evicts_lower_bid(void **state) {
    (void)state;
    _Alignas(16) static char memory[1 << 18];
    router_config c = {.algorithm = ROUTER_MINCOST,
                       .self = HERE,
                       .capacity = 1,
                       .source_count = 1,
                       .source = {1},
                       .max_neighbours = 4,
                       .seed = 1,
                       .delay = NET_DELAY,
                       .slack = 50};
    assert_true(router_bytes(&c) > 0 && router_bytes(&c) <= sizeof memory);
    router *r = router_init(memory, &c, 0);
    router_neighbour_add(r, 0, FIRST, ROUTER_PREVIOUS, LINK);
    router_neighbour_add(r, 0, SECOND, ROUTER_PREVIOUS, LINK);
    router_neighbour_add(r, 0, BEHIND, ROUTER_NEXT, LINK);
    router_message m = {.kind = ROUTER_ADVERT, .from = BEHIND, .to = HERE, .source = 1, .units = 5, .cost = 2 * LINK};
    router_receive(r, 0, &m);
    router_message advert = says(r, 0, SECOND, ROUTER_ADVERT);
    assert_true(advert.units == 1 && advert.cost == 3 * LINK);

    push_one(r, 3 * NET_DELAY, FIRST, 0, 4 * LINK);
    advert = says(r, 3 * NET_DELAY, SECOND, ROUTER_ADVERT);
    // the place has a price now
    assert_true(advert.units == 1 && advert.cost > 4 * LINK && advert.cost < 6 * LINK);

    push_one(r, 6 * NET_DELAY, SECOND, 0, 9 * LINK);
    assert_int_equal(says(r, 6 * NET_DELAY, FIRST, ROUTER_DENY).units, 1);
    assert_int_equal(router_load(r), 1);

    push_one(r, 40 * NET_DELAY, FIRST, 1, 99 * LINK);  // it has returned the other one
    assert_int_equal(says(r, 40 * NET_DELAY, FIRST, ROUTER_DENY).units, 1);
    assert_int_equal(router_load(r), 1);
}

static router *lone_relay(uint32_t sources, void *memory, size_t bytes) {
    router_config c = {.algorithm = ROUTER_MINCOST,
                       .self = HERE,
                       .capacity = 1,
                       .source_count = sources,
                       .source = {1, 11},
                       .max_neighbours = 4,
                       .seed = 1,
                       .delay = NET_DELAY,
                       .relays = 4};
    assert_true(router_bytes(&c) > 0 && router_bytes(&c) <= bytes);
    router *r = router_init(memory, &c, 0);
    router_neighbour_add(r, 0, FIRST, ROUTER_PREVIOUS, LINK);
    router_neighbour_add(r, 0, BEHIND, ROUTER_NEXT, LINK);
    router_neighbour_add(r, 0, BESIDE, ROUTER_NEXT, LINK);
    return r;
}

// A cycle that gains a twentieth of a link cost per link is ignored for the first 40 delays, then
// tried. One that gains a tenth is tried at once.
static void test_small_gains_are_ignored_in_young_routers(void **state) {
    (void)state;
    for (int64_t percent = 5; percent <= 10; percent += 5) {
        _Alignas(16) static char memory[1 << 18];
        router *r = lone_relay(1, memory, sizeof memory);
        router_message m = {.kind = ROUTER_ADVERT, .from = BESIDE, .to = HERE, .source = 1, .units = 1, .cost = LINK};
        router_receive(r, 0, &m);
        push_one(r, 0, FIRST, 0, MINCOST_NO_BID);
        assert_int_equal(says(r, 0, BESIDE, ROUTER_FLOW).units, 1);
        m = (router_message){.kind = ROUTER_LABEL,
                             .from = BEHIND,
                             .to = HERE,
                             .source = 1,
                             .side = ROUTER_PREVIOUS,
                             .length = 4,
                             // over BEHIND instead of BESIDE
                             .cost = -LINK - percent * LINK / 100};
        const router_node way[] = {router_in(BEHIND), router_out(SECOND), router_in(BESIDE), router_out(HERE)};
        for (uint32_t i = 0; i < 4; i++) m.u.step[i] = (router_step){way[i], i == 0 ? m.cost : 0};
        router_receive(r, NET_DELAY, &m);
        bool at_once = says(r, 20 * NET_DELAY, BEHIND, ROUTER_LOCK).to != 0;
        assert_int_equal(at_once, percent == 10);
        if (at_once) continue;
        assert_in_range(router_deadline(r), 20 * NET_DELAY, 40 * NET_DELAY);
        assert_int_equal(says(r, 39 * NET_DELAY, BEHIND, ROUTER_LOCK).to, 0);
        assert_int_equal(says(r, 40 * NET_DELAY, BEHIND, ROUTER_LOCK).to, BEHIND);
    }
}

// Delays until a relay of that age reports a path: one neighbour dies while another one sends it a
// path. A repair step follows every 6 delays for a while, and the receiver sends it so many units.
static int64_t tells_of_a_way(int64_t age, int64_t steps, uint32_t units) {
    _Alignas(16) static char memory[1 << 18];
    router *r = lone_relay(1, memory, sizeof memory);
    const router_message step = {
        .kind = ROUTER_FLOW, .from = FIRST, .to = HERE, .source = 1, .why = MINCOST_RETURNED, .units = units};
    const router_message room = {
        .kind = ROUTER_ADVERT, .from = BEHIND, .to = HERE, .source = 1, .units = 1, .cost = LINK};
    router_capacity(r, 0, 1 + units);
    router_receive(r, 0, &room);
    router_receive(r, 0, &step);  // its auction begins
    says(r, 0, FIRST, ROUTER_LABEL);
    router_neighbour_gone(r, age * NET_DELAY, BESIDE);
    router_message way = {.kind = ROUTER_LABEL,
                          .from = BEHIND,
                          .to = HERE,
                          .source = 1,
                          .side = ROUTER_PREVIOUS,
                          .length = 2,
                          .cost = -9 * LINK};
    way.u.step[0] = (router_step){router_in(BEHIND), -9 * LINK};
    way.u.step[1] = (router_step){router_out(SECOND), -9 * LINK};
    router_receive(r, age * NET_DELAY, &way);
    for (int64_t waited = 0; waited < 100; waited++) {
        int64_t now = (age + waited) * NET_DELAY;
        if (waited > 0 && waited <= steps && waited % 6 == 0) router_receive(r, now, &step);
        if (says(r, now, FIRST, ROUTER_LABEL).to != 0) return waited;
        assert_true(router_deadline(r) <= now + 5 * ROUTER_LAZY * NET_DELAY);  // it wakes by itself
    }
    return -1;
}

// The label that a relay of that age sends when its path dies `waited` delays after it learnt of
// it: its length, or -1: none.
static int says_when_its_way_dies(int64_t age, int64_t waited) {
    _Alignas(16) static char memory[1 << 18];
    router *r = lone_relay(1, memory, sizeof memory);
    router_message way = {.kind = ROUTER_LABEL,
                          .from = BEHIND,
                          .to = HERE,
                          .source = 1,
                          .side = ROUTER_PREVIOUS,
                          .length = 2,
                          .cost = -9 * LINK};
    way.u.step[0] = (router_step){router_in(BEHIND), -9 * LINK};
    way.u.step[1] = (router_step){router_out(SECOND), -9 * LINK};
    router_receive(r, age * NET_DELAY, &way);
    bool told = false;
    for (int64_t now = age; now < age + waited; now++)
        told |= says(r, now * NET_DELAY, FIRST, ROUTER_LABEL).length == 4;
    assert_true(told);
    router_neighbour_gone(r, (age + waited) * NET_DELAY, BEHIND);
    for (int64_t now = age + waited; now < age + waited + 60; now++) {
        router_message m = says(r, now * NET_DELAY, FIRST, ROUTER_LABEL);
        if (m.to != 0) return m.length;
    }
    return -1;
}

// A label unchanged for 40 delays survives the death of its path. A younger one, and one in a young
// router, is retracted.
static void test_unchanged_label_keeps_its_cost_without_a_path(void **state) {
    (void)state;
    assert_int_equal(says_when_its_way_dies(100, 60), -1);
    assert_int_equal(says_when_its_way_dies(100, 20), 0);
    assert_int_equal(says_when_its_way_dies(10, 20), 0);
}

// The last label for FIRST in delays `from` to `until`.
static router_message label_said(router *r, int64_t from, int64_t until) {
    router_message last = {0};
    for (int64_t now = from; now < until; now++) {
        router_message m = says(r, now * NET_DELAY, FIRST, ROUTER_LABEL);
        if (m.to != 0) last = m;
    }
    return last;
}

// Before it settles: another path of equal cost and length over the same neighbour is a different
// path, which others need to know.
static void test_other_path_of_equal_cost_is_sent(void **state) {
    (void)state;
    _Alignas(16) static char memory[1 << 18];
    router *r = lone_relay(1, memory, sizeof memory);
    router_message way = {.kind = ROUTER_LABEL,
                          .from = BEHIND,
                          .to = HERE,
                          .source = 1,
                          .side = ROUTER_PREVIOUS,
                          .length = 2,
                          .cost = -9 * LINK};
    const router_node first[] = {router_in(BEHIND), router_out(SECOND)},
                      then[] = {router_in(BEHIND), router_out(THIRD)};
    for (uint32_t i = 0; i < 2; i++) way.u.step[i] = (router_step){first[i], -9 * LINK};
    router_receive(r, 100 * NET_DELAY, &way);
    assert_int_equal(label_said(r, 100, 112).length, 4);
    for (uint32_t i = 0; i < 2; i++) way.u.step[i] = (router_step){then[i], -9 * LINK};
    router_receive(r, 112 * NET_DELAY, &way);
    assert_int_equal(label_said(r, 112, 128).length, 4);
}

// A path over a neighbour that reports a higher cost itself is ignored: here that of BESIDE over
// BEHIND.
static void test_stale_path_is_ignored(void **state) {
    (void)state;
    for (int64_t dearer = 0; dearer < 2; dearer++) {
        _Alignas(16) static char memory[1 << 18];
        router *r = lone_relay(1, memory, sizeof memory);
        router_message way = {.kind = ROUTER_LABEL,
                              .from = BESIDE,
                              .to = HERE,
                              .source = 1,
                              .side = ROUTER_PREVIOUS,
                              .length = 3,
                              .cost = -9 * LINK};
        const router_node over[] = {router_in(BESIDE), router_out(SECOND), router_in(BEHIND)};
        for (uint32_t i = 0; i < 3; i++) way.u.step[i] = (router_step){over[i], -9 * LINK + (int64_t)i * LINK};
        router_receive(r, 100 * NET_DELAY, &way);
        router_message behind = {.kind = ROUTER_LABEL,
                                 .from = BEHIND,
                                 .to = HERE,
                                 .source = 1,
                                 .side = ROUTER_PREVIOUS,
                                 .length = 1,
                                 .cost = -7 * LINK + dearer};
        behind.u.step[0] = (router_step){router_in(BEHIND), behind.cost};
        router_receive(r, 100 * NET_DELAY, &behind);
        router_message m = {0};
        for (int64_t now = 100; now < 120 && m.to == 0; now++) m = says(r, now * NET_DELAY, FIRST, ROUTER_LABEL);
        assert_int_equal(m.length, dearer ? 3 : 5);  // with both nodes of the relay itself
    }
}

// Labels are held for 8 delays after each step of a repair, and at most 40 after its first. The
// delay by cost comes afterwards, and is five times as long at an age of 120 delays on unused
// links.
static void test_labels_are_held_during_repairs(void **state) {
    (void)state;
    assert_int_equal(tells_of_a_way(40, 0, 0), 6);  // still being built
    assert_int_equal(tells_of_a_way(41, 0, 0), 8 + 6);
    assert_int_equal(tells_of_a_way(100, 0, 0), 8 + 6);
    assert_int_equal(tells_of_a_way(90, 12, 0), 12 + 8 + 6);
    assert_int_equal(tells_of_a_way(100, 12, 0), 12 + 8 + 30);
    assert_int_equal(tells_of_a_way(100, 90, 0), 40 + 30);
    assert_int_equal(tells_of_a_way(100, 12, 1), 12 + 8 + 6);
    assert_int_equal(tells_of_a_way(100, 90, 1), 40 + 6);
}

// Number of adverts of a relay of that age when the distance behind its next neighbour rises and
// then the room is gone.
static int adverts_said(int64_t age, int64_t cost, uint32_t room) {
    _Alignas(16) static char memory[1 << 18];
    router *r = lone_relay(1, memory, sizeof memory);
    router_message advert = {.kind = ROUTER_ADVERT, .from = BEHIND, .to = HERE, .source = 1, .units = 1, .cost = LINK};
    router_receive(r, 0, &advert);
    assert_int_equal(says(r, 0, FIRST, ROUTER_ADVERT).cost, 2 * LINK);
    advert.cost = cost;
    advert.units = room;
    router_receive(r, age * NET_DELAY, &advert);
    int said = 0;
    for (int64_t now = age; now < age + 20; now++) said += says(r, now * NET_DELAY, FIRST, ROUTER_ADVERT).to != 0;
    return said;
}

// At an age of 120 delays a larger distance is not advertised while nothing is built nearby. Lost
// and regained room is.
static void test_mature_router_holds_adverts_of_distances(void **state) {
    (void)state;
    assert_int_equal(adverts_said(100, 3 * LINK, 1), 1);
    assert_int_equal(adverts_said(150, 3 * LINK, 1), 0);
    assert_int_equal(adverts_said(150, LINK, 0), 1);
}

// A relay of that age learns of a path over FIRST; its label has cost `first` there. True: it
// sends the path to FIRST.
static bool tells_of_a_way_back(int64_t age, int64_t first) {
    _Alignas(16) static char memory[1 << 18];
    router *r = lone_relay(1, memory, sizeof memory);
    router_message way = {.kind = ROUTER_LABEL,
                          .from = BEHIND,
                          .to = HERE,
                          .source = 1,
                          .side = ROUTER_PREVIOUS,
                          .length = 4,
                          .cost = -9 * LINK};
    const router_node over[] = {router_in(BEHIND), router_out(SECOND), router_in(SECOND), router_out(FIRST)};
    for (uint32_t i = 0; i < 4; i++) way.u.step[i] = (router_step){over[i], i < 3 ? way.cost : first};
    router_receive(r, age * NET_DELAY, &way);
    return label_said(r, age, age + 31).length == 6;
}

// FIRST has cost -7 LINK over the relay. A router of 120 delays holds back a path of no gain for
// FIRST; a gain it sends.
static void test_split_horizon(void **state) {
    (void)state;
    assert_false(tells_of_a_way_back(150, -7 * LINK));
    assert_true(tells_of_a_way_back(150, -7 * LINK + 1));
    assert_true(tells_of_a_way_back(60, -7 * LINK));
}

// A neighbour that sent its settled cost receives improvements only; and a relay sends its own
// settled cost over unused links.
static void test_settled_cost_limits_updates(void **state) {
    (void)state;
    for (int64_t cheaper = 0; cheaper < 2; cheaper++) {
        _Alignas(16) static char memory[1 << 18];
        router *r = lone_relay(1, memory, sizeof memory);
        router_message settled = {.kind = ROUTER_LABEL,
                                  .from = FIRST,
                                  .to = HERE,
                                  .source = 1,
                                  .side = ROUTER_NEXT,
                                  .length = 1,
                                  .cost = -7 * LINK};
        settled.u.step[0] = (router_step){router_out(FIRST), settled.cost};
        router_receive(r, 100 * NET_DELAY, &settled);
        router_message way = {.kind = ROUTER_LABEL,
                              .from = BEHIND,
                              .to = HERE,
                              .source = 1,
                              .side = ROUTER_PREVIOUS,
                              .length = 2,
                              .cost = -9 * LINK - cheaper};
        way.u.step[0] = (router_step){router_in(BEHIND), way.cost};
        way.u.step[1] = (router_step){router_out(SECOND), way.cost};
        router_receive(r, 100 * NET_DELAY, &way);
        assert_int_equal(label_said(r, 100, 131).length, cheaper ? 4 : 0);
        router_message m = {0};
        for (int64_t now = 131; now < 150 && m.to == 0; now++) m = says(r, now * NET_DELAY, BESIDE, ROUTER_LABEL);
        assert_true(m.side == ROUTER_NEXT && m.length == 1 && m.cost == -8 * LINK - cheaper &&
                    m.u.step[0].half == router_out(HERE));
    }
}

static void hear_way(router *r, int64_t now, int64_t cost) {
    router_message way = {.kind = ROUTER_LABEL,
                          .from = BEHIND,
                          .to = HERE,
                          .source = 1,
                          .side = ROUTER_PREVIOUS,
                          .length = 2,
                          .cost = cost};
    way.u.step[0] = (router_step){router_in(BEHIND), cost};
    way.u.step[1] = (router_step){router_out(SECOND), cost};
    router_receive(r, now * NET_DELAY, &way);
}

// Delays from `from` until a label goes to `to`.
static int64_t told_after(router *r, int64_t from, router_peer to) {
    for (int64_t waited = 0; waited < 60; waited++) {
        int64_t now = (from + waited) * NET_DELAY;
        if (says(r, now, to, ROUTER_LABEL).to != 0) return waited;
        assert_true(router_deadline(r) <= now + 5 * ROUTER_LAZY * NET_DELAY);  // it wakes by itself
    }
    return -1;
}

// The distance rises one delay after a router of that age sent a label.
static int64_t warns_after(int64_t age) {
    _Alignas(16) static char memory[1 << 18];
    router *r = lone_relay(1, memory, sizeof memory);
    hear_way(r, age, -9 * LINK);
    int64_t told = age + told_after(r, age, FIRST);
    hear_way(r, told + 1, -8 * LINK);
    return told_after(r, told + 1, FIRST);
}

// An improvement, over a link with a unit that costs half of the mean.
static int64_t tells_where_a_unit_goes_after(int64_t age) {
    _Alignas(16) static char memory[1 << 18];
    router *r = lone_relay(1, memory, sizeof memory);
    const router_message room = {
        .kind = ROUTER_ADVERT, .from = BESIDE, .to = HERE, .source = 1, .units = 1, .cost = LINK};
    router_cost(r, 0, BESIDE, ROUTER_NEXT, LINK * 2 / 5);
    router_receive(r, 0, &room);
    push_one(r, 0, FIRST, 0, MINCOST_NO_BID);
    assert_int_equal(says(r, 0, BESIDE, ROUTER_FLOW).units, 1);
    hear_way(r, age, -9 * LINK);
    return told_after(r, age, BESIDE);
}

// At an age of 120 delays risen distances wait neither by cost nor for the hold-down. Improvements
// for neighbours with units wait: half of 6 delays, and for the hold-down.
static void test_risen_distance_is_sent_at_once(void **state) {
    (void)state;
    assert_int_equal(warns_after(60), 1 + 6);
    assert_int_equal(warns_after(150), 0);
    assert_int_equal(tells_where_a_unit_goes_after(60), 0);
    assert_int_equal(tells_where_a_unit_goes_after(150), 4);
}

// The longest wait of the nearest of three previous neighbours in delays. A relay learns of
// `choices` paths in turn, one every 21 delays, and sends each at different times because updates
// are delayed by cost.
static int64_t longest_wait(int64_t choices) {
    _Alignas(16) static char memory[1 << 18];
    router *r = lone_relay(1, memory, sizeof memory);
    router_neighbour_add(r, 0, SECOND, ROUTER_PREVIOUS, LINK / 100);
    router_neighbour_add(r, 0, THIRD, ROUTER_PREVIOUS, LINK / 4);
    int64_t longest = 0;
    for (int64_t i = 0; i < 16; i++) {
        int64_t cost = -(9 + i % choices) * LINK, waited = 0, start = (1 + 21 * i) * NET_DELAY;
        router_message way = {.kind = ROUTER_LABEL,
                              .from = BEHIND,
                              .to = HERE,
                              .source = 1,
                              .side = ROUTER_PREVIOUS,
                              .length = 2,
                              .cost = cost};
        way.u.step[0] = (router_step){router_in(BEHIND), cost};
        way.u.step[1] = (router_step){router_out(BEYOND), cost};
        router_receive(r, start, &way);
        bool told = false;
        for (int64_t round = 0; round < 21; round++) {
            told |= says(r, start + round * NET_DELAY, SECOND, ROUTER_LABEL).to != 0;
            waited += !told;
        }
        longest = waited > longest ? waited : longest;
    }
    return longest;
}

// One label sent to several neighbours at different times is no repetition: the next one waits for
// one usual hold-down and its link, 3 delays, not 7. Alternating between two paths is one.
static void test_one_label_to_several_neighbours_is_no_flapping(void **state) {
    (void)state;
    assert_in_range(longest_wait(16), 1, 3);
    assert_in_range(longest_wait(2), 8, 21);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_higher_bid_evicts_lower_bid),
        cmocka_unit_test(test_small_gains_are_ignored_in_young_routers),
        cmocka_unit_test(test_unchanged_label_keeps_its_cost_without_a_path),
        cmocka_unit_test(test_other_path_of_equal_cost_is_sent),
        cmocka_unit_test(test_stale_path_is_ignored),
        cmocka_unit_test(test_split_horizon),
        cmocka_unit_test(test_settled_cost_limits_updates),
        cmocka_unit_test(test_risen_distance_is_sent_at_once),
        cmocka_unit_test(test_labels_are_held_during_repairs),
        cmocka_unit_test(test_mature_router_holds_adverts_of_distances),
        cmocka_unit_test(test_one_label_to_several_neighbours_is_no_flapping),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
