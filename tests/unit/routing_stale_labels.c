// Stale labels: a neighbour's path is contradicted by a peer on it that reports a higher cost
// itself. This holds at any position of the longest path and for neighbours added later. Steps over
// neighbours are found once per label (mincost_label.neighbour_steps).
#include "routing/plan/mincost_planner.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

enum {
    DELAY = 100,
    HERE = 15,
    BEFORE = 11,
    TELLER = 21,
    OTHER = 23,
    THIRD = 24,
    STRANGER = 90,
    LINK = 10,
    THERE = -20
};

static router *relay(void) {
    const router_config config = {.algorithm = ROUTER_MINCOST,
                                  .self = HERE,
                                  .capacity = 2,
                                  .source_count = 1,
                                  .source = {1},
                                  .max_neighbours = 8,
                                  .seed = 7,
                                  .delay = DELAY,
                                  .relays = 20};
    size_t bytes = (router_bytes(&config) + 63) / 64 * 64;
    router *r = router_init(aligned_alloc(64, bytes), &config, 0);
    router_neighbour_add(r, 0, TELLER, ROUTER_NEXT, LINK);
    return r;
}

static void tick(router *r, int64_t now) {
    router_message m;
    router_tick(r, now);
    while (router_next(r, &m)) continue;
}

// The path of TELLER, a next neighbour, with these nodes at these positions.
static void hear_walk_over(router *r, uint16_t length, uint16_t place, router_node over, uint16_t second,
                           router_node over_second) {
    router_message m = {.kind = ROUTER_LABEL,
                        .from = TELLER,
                        .to = HERE,
                        .side = ROUTER_PREVIOUS,
                        .source = 1,
                        .cost = THERE,
                        .length = length};
    for (uint16_t i = 0; i < length; i++) m.u.step[i] = (router_step){router_in(i == 0 ? TELLER : STRANGER + i), THERE};
    m.u.step[place].half = over;
    m.u.step[second].half = over_second;
    router_receive(r, 1, &m);
}

static void hear_walk(router *r, uint16_t length, uint16_t place) {
    hear_walk_over(r, length, place, router_in(OTHER), place, router_in(OTHER));
}

static void hear(router *r, router_peer from, router_side side, int64_t cost) {
    router_message m = {
        .kind = ROUTER_LABEL, .from = from, .to = HERE, .side = (uint8_t)side, .source = 1, .cost = cost, .length = 1};
    m.u.step[0] = (router_step){side == ROUTER_PREVIOUS ? router_in(from) : router_out(from), cost};
    router_receive(r, 1, &m);
}

static void hear_other(router *r, int64_t cost) { hear(r, OTHER, ROUTER_PREVIOUS, cost); }

static bool contradicted(const router *r) {
    const mincost_planner *b = (const mincost_planner *)r;
    return mincost_is_stale(&b->mc, label_from(&b->mc, 0, ROUTER_NEXT, (uint32_t)router_slot(r, ROUTER_NEXT, TELLER)));
}

static void test_contradiction_at_every_position(void **state) {
    (void)state;
    for (uint16_t place = 1; place < ROUTER_MAX_PATH; place++) {
        router *r = relay();
        router_neighbour_add(r, 0, OTHER, ROUTER_NEXT, LINK);
        tick(r, 1);
        hear_walk(r, ROUTER_MAX_PATH, place);
        assert_false(contradicted(r));  // OTHER has sent no label
        hear_other(r, THERE + 1);
        assert_true(contradicted(r));
        hear_other(r, THERE);
        assert_false(contradicted(r));
        free(r);
    }
}

static void test_contradiction_by_one_of_two_neighbours(void **state) {
    (void)state;
    for (uint16_t first = 1; first < ROUTER_MAX_PATH - 1; first += 4) {
        router *r = relay();
        router_neighbour_add(r, 0, OTHER, ROUTER_NEXT, LINK);
        router_neighbour_add(r, 0, THIRD, ROUTER_NEXT, LINK);
        tick(r, 1);
        hear_walk_over(r, ROUTER_MAX_PATH, first, router_in(OTHER), ROUTER_MAX_PATH - 1, router_in(THIRD));
        hear_other(r, THERE);
        assert_false(contradicted(r));
        hear(r, THIRD, ROUTER_PREVIOUS, THERE + 1);
        assert_true(contradicted(r));
        free(r);
    }
}

// A neighbour that sends no units here is not on the way back.
static void test_contradiction_only_by_neighbours_that_send_units(void **state) {
    (void)state;
    router *r = relay();
    router_neighbour_add(r, 0, BEFORE, ROUTER_PREVIOUS, LINK);
    tick(r, 1);
    hear_walk_over(r, 4, 2, router_out(BEFORE), 2, router_out(BEFORE));
    hear(r, BEFORE, ROUTER_NEXT, THERE + 1);
    assert_false(contradicted(r));
    router_message m = {.kind = ROUTER_FLOW, .from = BEFORE, .to = HERE, .source = 1, .units = 1};
    router_receive(r, 1, &m);
    assert_true(contradicted(r));
    free(r);
}

static void test_settled_label_cannot_be_stale(void **state) {
    (void)state;
    const uint16_t places[] = {1, ROUTER_MAX_PATH - 1};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        router *r = relay();
        router_neighbour_add(r, 0, OTHER, ROUTER_NEXT, LINK);
        tick(r, 1);
        hear_walk(r, ROUTER_MAX_PATH, places[i]);
        hear_other(r, THERE + 1);
        assert_true(contradicted(r));
        label_from(&((const mincost_planner *)r)->mc, 0, ROUTER_NEXT, (uint32_t)router_slot(r, ROUTER_NEXT, TELLER))
            ->length = 1;
        assert_false(contradicted(r));
        free(r);
    }
}

static void test_contradiction_by_a_later_neighbour(void **state) {
    (void)state;
    router *r = relay();
    tick(r, 1);
    hear_walk(r, 4, 2);
    assert_false(contradicted(r));
    router_neighbour_add(r, 1, OTHER, ROUTER_NEXT, LINK);
    tick(r, 1);
    hear_other(r, THERE + 1);
    assert_true(contradicted(r));
    router_neighbour_gone(r, 1, OTHER);
    tick(r, 1);
    assert_false(contradicted(r));
    free(r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_contradiction_at_every_position),
        cmocka_unit_test(test_contradiction_by_one_of_two_neighbours),
        cmocka_unit_test(test_contradiction_only_by_neighbours_that_send_units),
        cmocka_unit_test(test_settled_label_cannot_be_stale),
        cmocka_unit_test(test_contradiction_by_a_later_neighbour),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
