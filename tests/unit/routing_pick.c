// The fallback choice of the next peer.
#include "routing/core/pick.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static pick_peer *able(pick_table *f, uint64_t member, uint32_t free_slots, uint64_t forward_ns, uint64_t link_ns) {
    pick_peer *p = pick_add(f, member);
    assert_non_null(p);
    p->reachable = p->can_take = true;
    p->free_slots = free_slots;
    p->forward_ns = forward_ns;
    p->link_ns = link_ns;
    return p;
}

static void test_cheapest_usable_peer_wins(void **state) {
    (void)state;
    pick_table f;
    pick_init(&f);
    assert_int_equal(pick_choose(&f, NULL, 0, 1), 0);
    able(&f, 1, 1, 100, 50);
    able(&f, 2, 1, 100, 10);
    able(&f, 3, 1, 90, 40);
    assert_int_equal(pick_choose(&f, NULL, 0, 1), 2);
    pick_find(&f, 2)->free_slots = 0;
    assert_int_equal(pick_choose(&f, NULL, 0, 1), 3);
    pick_find(&f, 3)->reachable = false;
    assert_int_equal(pick_choose(&f, NULL, 0, 1), 1);
    pick_find(&f, 1)->can_take = false;
    assert_int_equal(pick_choose(&f, NULL, 0, 1), 0);
}

static void test_queue_adds_to_the_cost(void **state) {
    (void)state;
    pick_table f;
    pick_init(&f);
    able(&f, 1, 4, 100, 0);
    able(&f, 2, 4, 150, 0);
    uint64_t got[8] = {0};
    for (int i = 0; i < 4; i++) {
        got[i] = pick_choose(&f, NULL, 0, 7);
        pick_sent(&f, got[i]);
    }
    const uint64_t wanted[] = {1, 2, 1};  // 100 < 150, then 200 > 150, then 200 < 300
    for (int i = 0; i < 3; i++) assert_int_equal(got[i], wanted[i]);
    for (int i = 4; i < 8; i++) {
        got[i] = pick_choose(&f, NULL, 0, 7);
        assert_int_not_equal(got[i], 0);
        pick_sent(&f, got[i]);
    }
    assert_int_equal(pick_choose(&f, NULL, 0, 7), 0);  // eight slots, eight sent
    assert_int_equal(pick_find(&f, 1)->free_slots + pick_find(&f, 2)->free_slots, 0);
}

static void test_tried_peers_are_excluded(void **state) {
    (void)state;
    pick_table f;
    pick_init(&f);
    able(&f, 1, 1, 1, 0);
    able(&f, 2, 1, 2, 0);
    const uint64_t tried[] = {1, 2};
    assert_int_equal(pick_choose(&f, tried, 1, 0), 2);
    assert_int_equal(pick_choose(&f, tried, 2, 0), 0);
}

// Equal costs share the load: the choice depends on the salt, not on the order of arrival.
static void test_salt_breaks_ties(void **state) {
    (void)state;
    pick_table up, down;
    pick_init(&up);
    pick_init(&down);
    for (uint64_t i = 1; i <= 4; i++) able(&up, i, 1, 5, 5);
    for (uint64_t i = 4; i >= 1; i--) able(&down, i, 1, 5, 5);
    uint32_t chosen[5] = {0};
    for (uint64_t salt = 0; salt < 400; salt++) {
        uint64_t member = pick_choose(&up, NULL, 0, salt);
        assert_int_equal(member, pick_choose(&down, NULL, 0, salt));
        chosen[member]++;
    }
    for (int i = 1; i <= 4; i++) assert_in_range(chosen[i], 50, 150);
}

static void test_table_is_bounded(void **state) {
    (void)state;
    pick_table f;
    pick_init(&f);
    for (uint64_t i = 1; i <= PICK_MAX_PEERS; i++) able(&f, i, 1, i, 0);
    assert_null(pick_add(&f, PICK_MAX_PEERS + 1));
    assert_ptr_equal(pick_add(&f, 7), pick_find(&f, 7));
    pick_remove(&f, 1);
    pick_remove(&f, 1);
    assert_null(pick_find(&f, 1));
    assert_int_equal(f.count, PICK_MAX_PEERS - 1);
    assert_int_equal(pick_choose(&f, NULL, 0, 0), 2);
    pick_sent(&f, 1);  // unknown peer: no effect
    assert_non_null(pick_add(&f, PICK_MAX_PEERS + 1));
    assert_int_equal(pick_find(&f, PICK_MAX_PEERS + 1)->free_slots, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cheapest_usable_peer_wins), cmocka_unit_test(test_queue_adds_to_the_cost),
        cmocka_unit_test(test_tried_peers_are_excluded),  cmocka_unit_test(test_salt_breaks_ties),
        cmocka_unit_test(test_table_is_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
