// Drafts: what prompt lookup finds, and how long a draft pays.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "serve/draft.h"

static void lookup_finds_the_longest_and_latest(void **state) {
    (void)state;
    uint32_t draft[DRAFT_MOST];
    const uint32_t text[] = {7, 1, 2, 3, 4, 9, 2, 3, 5, 9, 2, 3, 6, 8, 1, 2, 3};
    assert_int_equal(draft_lookup(text, 17, draft, 3), 3);
    const uint32_t longest[] = {4, 9, 2};  // after 1 2 3, not after a later 2 3
    assert_memory_equal(draft, longest, sizeof longest);
    const uint32_t twice[] = {2, 3, 5, 2, 3, 6, 8, 2, 3};
    assert_int_equal(draft_lookup(twice, 9, draft, 2), 2);
    assert_int_equal(draft[0], 6);
    assert_int_equal(draft[1], 8);
}

static void lookup_repeats_a_period(void **state) {
    (void)state;
    uint32_t draft[DRAFT_MOST];
    const uint32_t text[] = {5, 1, 2, 3, 1, 2, 3};
    assert_int_equal(draft_lookup(text, 7, draft, DRAFT_MOST), DRAFT_MOST);
    for (uint32_t i = 0; i < DRAFT_MOST; i++) assert_int_equal(draft[i], 1 + i % 3);
}

static void lookup_needs_two_equal_tokens(void **state) {
    (void)state;
    uint32_t draft[DRAFT_MOST];
    const uint32_t text[] = {1, 2, 3, 4, 2, 5, 2};
    for (uint32_t count = 0; count <= 7; count++) assert_int_equal(draft_lookup(text, count, draft, 4), 0);
}

static void cost_separates_steps_and_rows(void **state) {
    (void)state;
    draft_cost c = {0};
    double step, row;
    assert_false(draft_cost_of(&c, 1, &step, &row));
    for (uint32_t i = 0; i < 200; i++) {
        uint32_t rows = 1 + i % 16;
        draft_cost_add(&c, rows, 0.080 + 0.001 * rows);
    }
    assert_true(draft_cost_of(&c, 1, &step, &row));
    assert_true(step > 0.079 && step < 0.083);
    assert_true(row > 0.0009 && row < 0.0013);
    draft_cost_add(&c, 1, 100);  // a repair
    assert_true(draft_cost_of(&c, 1, &step, &row));
    assert_true(step < 0.120);
}

static void windows_follow_cost_and_acceptance(void **state) {
    (void)state;
    const double likely = 0.95, unlikely = 0.05;
    draft_plan slow_links = {.step = 0.080, .row = 0.001, .tokens = 1};
    assert_true(draft_window(&slow_links, likely, DRAFT_MOST) > 16);
    assert_true(slow_links.tokens > 10);
    draft_plan rows_cost = {.step = 0.010, .row = 0.010, .tokens = 1};
    assert_int_equal(draft_window(&rows_cost, likely, DRAFT_MOST), 0);
    draft_plan guesses_wrong = {.step = 0.010, .row = 0.001, .tokens = 1};
    assert_int_equal(draft_window(&guesses_wrong, unlikely, DRAFT_MOST), 0);
    draft_plan many_texts = {.step = 0.080, .row = 0.005, .tokens = 16};
    assert_int_equal(draft_window(&many_texts, likely, DRAFT_MOST), 0);
    draft_plan unknown = {.tokens = 1};
    assert_int_equal(draft_window(&unknown, likely, DRAFT_MOST), 0);
}

static void rates_follow_what_is_drawn(void **state) {
    (void)state;
    draft_rate rate = draft_rate_first();
    for (int i = 0; i < 100; i++) draft_rate_add(&rate, true);
    assert_true(rate > 0.97);
    for (int i = 0; i < 100; i++) draft_rate_add(&rate, false);
    assert_true(rate < 0.03);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lookup_finds_the_longest_and_latest), cmocka_unit_test(lookup_repeats_a_period),
        cmocka_unit_test(lookup_needs_two_equal_tokens),       cmocka_unit_test(cost_separates_steps_and_rows),
        cmocka_unit_test(windows_follow_cost_and_acceptance),  cmocka_unit_test(rates_follow_what_is_drawn),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
