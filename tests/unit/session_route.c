// The two routers and the memory of truncations.
#include "session/inside.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { LAYERS = 12 };

static session_known known[8];
static session_view view;
static uint64_t avoid[BITSET_WORDS(SESSION_MAX_PEERS)];
static session_path old, path, warm;
static uint64_t adapter;
static uint16_t missing;
static session_route router;
static void *scratch;

static void add(uint16_t begin, uint16_t end, uint32_t one_way_us, uint32_t layer_ns) {
    session_known *k = &known[view.count];
    *k = (session_known){.linked = true, .one_way_us = one_way_us};
    k->card.id.bytes[0] = (uint8_t)view.count;
    k->card.serves = end > begin;
    k->card.layer_begin = begin;
    k->card.layer_end = end;
    k->card.layers = LAYERS;
    k->card.cache_tokens = k->card.free_tokens = 100;
    k->card.layer_ns = layer_ns;
    view.count++;
}

static int set_up(void **state) {
    (void)state;
    memset(avoid, 0, sizeof avoid);
    old.count = warm.count = 0;
    adapter = 0;
    router = session_route_shortest;
    view = (session_view){.peer = known};
    add(0, 0, 0, 0);  // the origin
    return 0;
}

static int set_up_spans(void **state) {
    set_up(state);
    scratch = malloc(session_route_spans_bytes());
    assert_non_null(scratch);
    router = session_route_spans;
    return 0;
}

static int free_scratch(void **state) {
    (void)state;
    free(scratch);
    return 0;
}

static bool find(uint32_t room, uint32_t tokens) {
    session_route_query query = {.layers = LAYERS, .room = room, .tokens = tokens, .old = &old, .avoid = avoid};
    query.warm = &warm;
    query.adapter = adapter;
    return router(scratch, &view, &query, &path, &missing);
}

static void expect_hop(uint32_t h, uint8_t peer, uint16_t from, uint16_t to) {
    assert_true(h < path.count);
    assert_int_equal(path.hop[h].id.bytes[0], peer);
    assert_int_equal(path.hop[h].layer_begin, from);
    assert_int_equal(path.hop[h].layer_end, to);
}

static void test_the_shortest_path_is_found(void **state) {
    (void)state;
    add(0, 6, 1000, 1000);
    add(0, 6, 9000, 1000);  // farther
    add(4, 12, 1000, 1000);
    add(6, 12, 1000, 900000);  // slower
    assert_true(find(10, 0));
    assert_int_equal(path.count, 2);
    expect_hop(0, 1, 0, 6);
    expect_hop(1, 3, 6, 12);  // entered where the first one ends
}

static void test_a_model_is_split_only_where_that_is_faster(void **state) {
    (void)state;
    add(0, 6, 1000, 1000);
    add(6, 12, 1000, 1000);
    add(0, 12, 1000, 1000);
    assert_true(find(10, 0));
    assert_int_equal(path.count, 1);
    known[3].card.layer_ns = 100000000;
    assert_true(find(10, 0));
    assert_int_equal(path.count, 2);
}

static void test_the_first_missing_layer_is_named(void **state) {
    (void)state;
    add(0, 5, 1000, 1000);
    add(6, 12, 1000, 1000);
    assert_false(find(10, 0));
    assert_int_equal(missing, 5);
    view.count = 1;
    assert_false(find(10, 0));
    assert_int_equal(missing, 0);
}

static void test_full_avoided_and_draining_peers_are_not_chosen(void **state) {
    (void)state;
    add(0, 12, 1000, 1000);
    add(0, 12, 5000, 1000);
    assert_false(find(201, 0));
    known[1].card.free_tokens = 9;
    assert_true(find(10, 0));
    expect_hop(0, 2, 0, 12);
    known[1].card.free_tokens = 100;
    known[1].card.draining = true;
    assert_true(find(10, 0));
    expect_hop(0, 2, 0, 12);
    known[1].card.draining = false;
    bitset_add(avoid, 1);
    assert_true(find(10, 0));
    expect_hop(0, 2, 0, 12);
    known[2].suspected = true;
    assert_false(find(10, 0));
}

static void test_a_span_with_the_tokens_is_preferred(void **state) {
    (void)state;
    add(0, 12, 1000, 1000);
    add(0, 12, 1100, 1000);
    assert_true(find(10, 0));
    expect_hop(0, 1, 0, 12);
    old.count = 1;
    old.hop[0] = (session_hop){.id = known[2].card.id, .layer_end = 12};
    assert_true(find(90, 0));
    expect_hop(0, 1, 0, 12);
    assert_true(find(90, 64000));  // 64,000 tokens are not computed again for 0.2 ms a token
    expect_hop(0, 2, 0, 12);
    known[2].card.free_tokens = 0;  // it has the session's room
    assert_true(find(90, 64000));
    expect_hop(0, 2, 0, 12);
}

static void test_a_queue_is_avoided(void **state) {
    (void)state;
    add(0, 12, 1000, 1000);
    add(0, 12, 1100, 1000);
    assert_true(find(10, 0));
    expect_hop(0, 1, 0, 12);
    known[1].card.waiting_layers = 1200;  // 1.2 ms
    assert_true(find(10, 0));
    expect_hop(0, 2, 0, 12);
}

static void test_spans_are_left_where_a_faster_one_begins(void **state) {
    (void)state;
    add(0, 8, 1000, 1000000);
    add(4, 12, 1000, 1000);
    assert_true(find(10, 0));
    assert_int_equal(path.count, 2);
    expect_hop(0, 1, 0, 4);
    expect_hop(1, 2, 4, 12);
}

// Its cache is of use for the layers of the old path only.
static void test_old_ranges_are_kept(void **state) {
    (void)state;
    add(0, 8, 1000, 1000000);
    add(4, 12, 1000, 1000);
    old.count = 1;
    old.hop[0] = (session_hop){.id = known[1].card.id, .layer_end = 8};
    assert_true(find(10, 50000));
    expect_hop(0, 1, 0, 8);
    expect_hop(1, 2, 8, 12);
    known[2].card.layer_begin = 4;
    known[2].card.layer_end = 8;
    add(3, 12, 1000, 1000);
    bitset_add(avoid, 3);
    known[1].card.layer_end = 7;  // moved: the old range is not there any more
    assert_false(find(10, 50000));
    assert_int_equal(missing, 8);
    memset(avoid, 0, sizeof avoid);
    assert_true(find(10, 50000));
}

// A draining peer of the old path is the last resort.
static void test_a_prefix_is_worth_its_tokens(void **state) {
    (void)state;
    add(0, 12, 1000, 1000);
    add(0, 12, 1100, 1000);
    warm = (session_path){.count = 1, .hop = {{.id = known[2].card.id, .layer_end = 12}}};
    assert_true(find(10, 0));
    expect_hop(0, 1, 0, 12);
    assert_true(find(50, 500000));
    expect_hop(0, 2, 0, 12);  // the farther one need not read them
    known[2].one_way_us = 2000000;
    assert_true(find(50, 5000));
    expect_hop(0, 1, 0, 12);
}

static void test_only_peers_with_the_adapter_are_chosen(void **state) {
    (void)state;
    add(0, 12, 1000, 1000);
    add(0, 12, 9000, 1000);
    known[2].card.adapters = 2;
    known[2].card.adapter[1] = 77;
    assert_true(find(10, 0));
    expect_hop(0, 1, 0, 12);
    adapter = 77;
    assert_true(find(10, 0));
    expect_hop(0, 2, 0, 12);
    adapter = 78;
    assert_false(find(10, 0));
}

static void test_a_draining_span_stays_without_another(void **state) {
    (void)state;
    add(0, 12, 1000, 1000);
    known[1].card.draining = true;
    assert_false(find(10, 5));
    old.count = 1;
    old.hop[0] = (session_hop){.id = known[1].card.id, .layer_end = 12};
    assert_true(find(10, 5));
    expect_hop(0, 1, 0, 12);
    add(0, 12, 90000, 1000);
    assert_true(find(10, 5));
    expect_hop(0, 2, 0, 12);
}

static void test_truncations_since_any_earlier_one(void **state) {
    (void)state;
    session_cuts c = {0};
    assert_int_equal(cuts_valid(&c, 0), UINT32_MAX);
    cuts_add(&c, 1, 40);
    cuts_add(&c, 2, 60);
    cuts_add(&c, 3, 50);
    assert_int_equal(cuts_valid(&c, 0), 40);
    assert_int_equal(cuts_valid(&c, 1), 50);
    assert_int_equal(cuts_valid(&c, 2), 50);
    assert_int_equal(cuts_valid(&c, 3), UINT32_MAX);
}

// Against all truncations: never later than the true position, and exact for the newest ones.
static void test_truncations_are_never_underestimated(void **state) {
    (void)state;
    enum { CUTS = 400 };
    static uint32_t at[CUTS + 1];
    session_cuts c = {0};
    rng r = {5};
    for (uint32_t cut = 1; cut <= CUTS; cut++) {
        at[cut] = cut * 3 + (uint32_t)rng_below(&r, 40);
        cuts_add(&c, cut, at[cut]);
        uint32_t lowest = UINT32_MAX;
        for (uint32_t since = cut; since-- > 0;) {
            if (at[since + 1] < lowest) lowest = at[since + 1];
            uint32_t found = cuts_valid(&c, since);
            assert_true(found <= lowest);
            if (cut - since < SESSION_CUTS) assert_int_equal(found, lowest);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_the_shortest_path_is_found, set_up),
        cmocka_unit_test_setup(test_a_model_is_split_only_where_that_is_faster, set_up),
        cmocka_unit_test_setup(test_the_first_missing_layer_is_named, set_up),
        cmocka_unit_test_setup(test_full_avoided_and_draining_peers_are_not_chosen, set_up),
        cmocka_unit_test_setup(test_a_span_with_the_tokens_is_preferred, set_up),
        cmocka_unit_test_setup(test_a_draining_span_stays_without_another, set_up),
        cmocka_unit_test_setup_teardown(test_a_model_is_split_only_where_that_is_faster, set_up_spans, free_scratch),
        cmocka_unit_test_setup_teardown(test_the_first_missing_layer_is_named, set_up_spans, free_scratch),
        cmocka_unit_test_setup_teardown(test_full_avoided_and_draining_peers_are_not_chosen, set_up_spans,
                                        free_scratch),
        cmocka_unit_test_setup_teardown(test_a_span_with_the_tokens_is_preferred, set_up_spans, free_scratch),
        cmocka_unit_test_setup_teardown(test_a_draining_span_stays_without_another, set_up_spans, free_scratch),
        cmocka_unit_test_setup(test_a_prefix_is_worth_its_tokens, set_up),
        cmocka_unit_test_setup(test_only_peers_with_the_adapter_are_chosen, set_up),
        cmocka_unit_test_setup_teardown(test_a_prefix_is_worth_its_tokens, set_up_spans, free_scratch),
        cmocka_unit_test_setup_teardown(test_only_peers_with_the_adapter_are_chosen, set_up_spans, free_scratch),
        cmocka_unit_test_setup_teardown(test_a_queue_is_avoided, set_up_spans, free_scratch),
        cmocka_unit_test_setup_teardown(test_spans_are_left_where_a_faster_one_begins, set_up_spans, free_scratch),
        cmocka_unit_test_setup_teardown(test_old_ranges_are_kept, set_up_spans, free_scratch),
        cmocka_unit_test(test_truncations_since_any_earlier_one),
        cmocka_unit_test(test_truncations_are_never_underestimated),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
