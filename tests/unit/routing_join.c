// Placement of joiners: the published rule with GWTF's Figure 3, and the choice by the cost of the
// flow.
#include "routing/join/join.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

// Figure 3: two flows through stages of capacity 2, 3 and 4.
static void figure_3_of_gwtf(void **state) {
    (void)state;
    join_stage stage[] = {{0, 0}, {2, 2}, {2, 3}, {2, 4}};
    const uint32_t capacity[] = {5};
    uint16_t order[3], assigned[1];
    join_rank_stages(stage, 4, order);
    assert_int_equal(order[0], 1);
    assert_int_equal(order[1], 2);
    assert_int_equal(order[2], 3);
    join_assign(stage, 4, capacity, 1, assigned);
    assert_int_equal(assigned[0], 1);
    // the joiner raises stage 1 to 7; three flows pass now, and stage 2 is the bottleneck
    stage[1] = (join_stage){3, 7};
    stage[2].flows = stage[3].flows = 3;
    join_assign(stage, 4, capacity, 1, assigned);
    assert_int_equal(assigned[0], 2);
}

static void the_largest_goes_to_the_most_used_stage(void **state) {
    (void)state;
    const join_stage stage[] = {{0, 0}, {4, 8}, {4, 0}, {4, 5}};
    const uint32_t capacity[] = {3, 9, 3, 1};
    uint16_t assigned[4];
    join_assign(stage, 4, capacity, 4, assigned);
    assert_int_equal(assigned[1], 2);  // a stage without capacity first
    assert_int_equal(assigned[0], 3);  // of equal candidates the first
    assert_int_equal(assigned[2], 1);
    assert_int_equal(assigned[3], 0);  // waits
}

// Peer 0 sends two units through stages 1 (peer 1) and 2 (peers 2, 3).
static const join_peer peers[] = {{0, 2}, {1, 2}, {2, 1}, {2, 1}};
static int64_t cost_of(const void *context, uint32_t from, uint32_t to) {
    (void)context;
    return from == 1 && to == 3 ? 50 : 10;
}
static const join_map map = {.stages = 3, .peers = 4, .peer = peers, .cost = cost_of};

static void the_flow_with_a_candidate(void **state) {
    (void)state;
    void *memory = malloc(join_flow_bytes(4, 64));
    const join_probe probe[] = {{0, 1}, {1, 2}, {2, 3}, {3, 4}};
    const join_candidate c = {.capacity = 1, .probes = 4, .probe = probe};
    join_flow without = join_flow_with(&map, NULL, 0, memory, 64);
    assert_int_equal(without.units, 2);
    assert_int_equal(without.cost, 30 + 70);
    // stage 1: one unit 0 - c - 3 - 0 for 1 + 4 + 10, the other as before
    assert_int_equal(join_flow_with(&map, &c, 1, memory, 64).cost, 15 + 30);
    // stage 2: one unit 0 - 1 - c - 0 for 10 + 2 + 1
    assert_int_equal(join_flow_with(&map, &c, 2, memory, 64).cost, 13 + 30);
    join_choice choice = join_choose(&map, &c, 1, memory, 64);
    assert_int_equal(choice.stage, 2);
    assert_int_equal(choice.flow.cost, 43);
    free(memory);
}

static void links_without_a_probe_do_not_exist(void **state) {
    (void)state;
    void *memory = malloc(join_flow_bytes(4, 64));
    const join_probe probe[] = {{0, 1}, {3, 4}, {77, 1}, {2, -5}};  // the last two are ignored
    const join_candidate c = {.capacity = 1, .probes = 4, .probe = probe};
    assert_int_equal(join_flow_with(&map, &c, 1, memory, 64).cost, 45);
    assert_int_equal(join_flow_with(&map, &c, 2, memory, 64).cost, 100);
    assert_int_equal(join_choose(&map, &c, 1, memory, 64).stage, 1);
    free(memory);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(figure_3_of_gwtf),
        cmocka_unit_test(the_largest_goes_to_the_most_used_stage),
        cmocka_unit_test(the_flow_with_a_candidate),
        cmocka_unit_test(links_without_a_probe_do_not_exist),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
