// The messages of a leader while it lacks peers, and the end of its wait.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "node/waiting.h"

#define SECOND UINT64_C(1000000000)

// Steps twice a second from `from` to `to`; returns the first verdict other than WAITING_ON and its
// time.
static waiting_verdict pass(waiting *w, uint64_t from, uint64_t to, bool draining, uint64_t limit, uint64_t *when) {
    for (*when = from * SECOND; *when < to * SECOND; *when += SECOND / 2) {
        waiting_verdict verdict = waiting_step(w, *when, true, draining, limit);
        if (verdict != WAITING_ON) return verdict;
    }
    return WAITING_ON;
}

static void test_messages_become_rarer(void **state) {
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
    assert_in_range(said, 20, 40);  // per day
    assert_true(longest <= WAITING_MOST_NS + SECOND);
}

static void test_a_peer_joins_and_leaves(void **state) {
    (void)state;
    waiting w = {0};
    uint64_t when;
    assert_int_equal(pass(&w, 10, 19, false, 0, &when), WAITING_ON);
    assert_int_equal(waiting_step(&w, 19 * SECOND, false, false, 0), WAITING_ON);
    assert_int_equal(pass(&w, 20, 100, false, 0, &when), WAITING_SAY);
    assert_int_equal(when, 30 * SECOND);
}

static void test_a_limit_ends_the_wait(void **state) {
    (void)state;
    waiting w = {0};
    uint64_t when;
    assert_int_equal(pass(&w, 10, 100, false, 8 * SECOND, &when), WAITING_END);
    assert_int_equal(when, 18 * SECOND);
}

// Counts from the moment when the user requests the end while peers are missing.
static void test_a_requested_end_waits_ten_seconds(void **state) {
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
        cmocka_unit_test(test_messages_become_rarer),
        cmocka_unit_test(test_a_peer_joins_and_leaves),
        cmocka_unit_test(test_a_limit_ends_the_wait),
        cmocka_unit_test(test_a_requested_end_waits_ten_seconds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
