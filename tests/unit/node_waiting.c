// The messages of a leader that lacks peers, and its end.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "node/waiting.h"

#define SECOND UINT64_C(1000000000)

// Steps twice a second from `from` to `to`; returns the first verdict that is not WAITING_ON and when it came.
static waiting_verdict pass(waiting *w, uint64_t from, uint64_t to, bool draining, uint64_t limit, uint64_t *when) {
    for (*when = from * SECOND; *when < to * SECOND; *when += SECOND / 2) {
        waiting_verdict verdict = waiting_step(w, *when, true, draining, limit);
        if (verdict != WAITING_ON) return verdict;
    }
    return WAITING_ON;
}

static void test_it_is_said_more_and_more_rarely(void **state) {
    (void)state;
    waiting w = {0};
    uint64_t when, said = 0, last = 0, longest = 0;
    for (uint64_t from = 1000; from < 1000 + 86400; from = when / SECOND + 1) {
        if (pass(&w, from, 1000 + 86400, false, 0, &when) == WAITING_ON) break;
        assert_true(said > 0 || when == 1010 * SECOND);
        if (said > 0) assert_true(when - last >= longest);
        if (said > 0) longest = when - last;
        last = when;
        said++;
    }
    assert_in_range(said, 20, 40);  // in a day
    assert_true(longest <= WAITING_MOST_NS + SECOND);
}

static void test_somebody_comes_and_goes(void **state) {
    (void)state;
    waiting w = {0};
    uint64_t when;
    assert_int_equal(pass(&w, 10, 19, false, 0, &when), WAITING_ON);
    assert_int_equal(waiting_step(&w, 19 * SECOND, false, false, 0), WAITING_ON);
    assert_int_equal(pass(&w, 20, 100, false, 0, &when), WAITING_SAY);
    assert_int_equal(when, 30 * SECOND);
}

static void test_a_limit_ends_it(void **state) {
    (void)state;
    waiting w = {0};
    uint64_t when;
    assert_int_equal(pass(&w, 10, 100, false, 8 * SECOND, &when), WAITING_END);
    assert_int_equal(when, 18 * SECOND);
}

// From when both is so: the user wants the end, and something is missing.
static void test_a_wanted_end_waits_ten_seconds(void **state) {
    (void)state;
    waiting w = {0};
    uint64_t when;
    assert_int_equal(pass(&w, 10, 19, false, 0, &when), WAITING_ON);
    assert_int_equal(pass(&w, 19, 100, true, 0, &when), WAITING_SAY);
    assert_int_equal(pass(&w, 21, 100, true, 0, &when), WAITING_STOP);
    assert_int_equal(when, 29 * SECOND);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_it_is_said_more_and_more_rarely),
        cmocka_unit_test(test_somebody_comes_and_goes),
        cmocka_unit_test(test_a_limit_ends_it),
        cmocka_unit_test(test_a_wanted_end_waits_ten_seconds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
