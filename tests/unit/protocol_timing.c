// The failure detector and its limits.
#include "protocol/core/timing.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static const uint64_t START = 5 * TIMING_S;

// Heard every half a second for a while.
static timing_link steady(uint64_t *now_ns) {
    timing_link link = {0};
    *now_ns = START;
    for (int i = 0; i < 100; i++) {
        timing_heard(&link, *now_ns);
        *now_ns += TIMING_HEARTBEAT_NS;
    }
    *now_ns = link.heard_ns;
    return link;
}

// The shortest silence that is suspicious, to the millisecond.
static uint64_t limit_of(const timing_link *link) {
    uint64_t silence = 0;
    while (!timing_suspect(link, link->heard_ns + silence)) silence += TIMING_MS;
    return silence;
}

// Rule D2. Given regular messages, when silence grows, then φ rises and passes the limit of
// suspicion.
static void test_silence_grows_suspicious(void **state) {
    (void)state;
    uint64_t now;
    const timing_link link = steady(&now);
    double last = 0;
    for (uint64_t silence = 0; silence < 20 * TIMING_S; silence += 10 * TIMING_MS) {
        double phi = timing_phi(&link, now + silence);
        assert_true(phi >= last);
        last = phi;
    }
    assert_true(last >= 8);
    assert_true(timing_phi(&link, now + TIMING_HEARTBEAT_NS) < 1);
    assert_false(timing_suspect(&link, now + 2 * TIMING_HEARTBEAT_NS));  // one lost heartbeat
    assert_true(timing_suspect(&link, now + 5 * TIMING_S));
}

static void hear_after(timing_link *link, uint64_t silence_ns) { timing_heard(link, link->heard_ns + silence_ns); }

// Rule D3. Given a link with long silences, when its peer is silent, then removal waits longer, at
// most 10 s, and 10 s on a new link.
static void test_removal_waits_for_the_longest_silence(void **state) {
    (void)state;
    uint64_t now;
    timing_link link = {0};
    timing_heard(&link, START);
    hear_after(&link, TIMING_HEARTBEAT_NS);
    assert_int_equal(timing_expel_limit(&link), TIMING_EXPEL_SILENCE_NS);
    link = steady(&now);
    assert_int_equal(timing_expel_limit(&link), TIMING_EXPEL_STEADY_NS);
    assert_true(timing_phi(&link, link.heard_ns + TIMING_EXPEL_STEADY_NS) >= TIMING_EXPEL_PHI);
    hear_after(&link, TIMING_S);
    assert_int_equal(timing_expel_limit(&link), 3 * TIMING_S);
    hear_after(&link, TIMING_HEARTBEAT_NS);
    assert_int_equal(timing_expel_limit(&link), 3 * TIMING_S);
    hear_after(&link, 5 * TIMING_S);
    assert_int_equal(timing_expel_limit(&link), TIMING_EXPEL_SILENCE_NS);
    for (uint64_t quiet = 0; quiet < 2 * TIMING_QUIET_NS + TIMING_S; quiet += TIMING_HEARTBEAT_NS) hear_after(&link, TIMING_HEARTBEAT_NS);
    assert_in_range(timing_expel_limit(&link), TIMING_EXPEL_STEADY_NS, 4 * TIMING_S);
}

// Rule D2. Given a peer that was never heard, when time passes, then it is not suspected.
static void test_peer_without_history_is_not_suspected(void **state) {
    (void)state;
    const timing_link link = {0};
    assert_false(timing_suspect(&link, 1000 * TIMING_S));
    uint64_t now;
    const timing_link heard = steady(&now);
    assert_false(timing_suspect(&heard, now - TIMING_S));  // a clock that went back
}

// Rule D8. Given a live peer that does not answer, when waits end in vain, then the limit doubles;
// later measurements lower it.
static void test_limits_adapt_to_slow_links(void **state) {
    (void)state;
    timing_link link = {0};
    const uint64_t first = timing_get_limit(&link);
    uint64_t limit = first;
    for (int i = 0; i < 4; i++) {
        timing_get_overdue(&link, limit);
        assert_true(timing_get_limit(&link) >= 2 * limit && timing_get_limit(&link) <= 4 * limit);
        limit = timing_get_limit(&link);
    }
    for (int i = 0; i < 100; i++) timing_got(&link, TIMING_MS);
    assert_true(timing_get_limit(&link) < first + TIMING_S);
    limit = timing_accept_limit(&link, 1000);
    timing_accept_overdue(&link, limit);
    assert_true(timing_accept_limit(&link, 1000) >= 2 * limit);
    for (int i = 0; i < 100; i++) timing_accept_overdue(&link, 1000 * 3600 * TIMING_S);
    assert_true(timing_accept_limit(&link, 1000) <= 3600 * TIMING_S);  // bounded all the same
}

// Rule D2. Given a suspicion, when the peer is heard again, then its limit doubles.
static void test_false_suspicion_doubles_the_limit(void **state) {
    (void)state;
    uint64_t now;
    const timing_link calm = steady(&now);
    uint64_t before = limit_of(&calm) - TIMING_HEARTBEAT_NS;
    for (uint32_t alarms = 1; alarms <= 5; alarms++) {
        timing_link alarmed = calm;
        alarmed.false_alarms = alarms;
        uint64_t after = limit_of(&alarmed) - TIMING_HEARTBEAT_NS;
        assert_in_range(after, 2 * before - 3 * TIMING_MS, 2 * before + 3 * TIMING_MS);
        before = after;
    }
}

// Rule D2. Given suspicions, when the peer is heard again, then each one is counted once.
static void test_false_suspicions_are_counted(void **state) {
    (void)state;
    uint64_t now;
    timing_link link = steady(&now);
    for (uint32_t alarms = 1; alarms <= 8; alarms++) {
        now = link.heard_ns + limit_of(&link);
        timing_heard(&link, now);  // alive after all
        assert_int_equal(link.false_alarms, alarms < 5 ? alarms : 5);
    }
    link = steady(&now);
    timing_heard(&link, now + 2 * TIMING_HEARTBEAT_NS);
    assert_int_equal(link.false_alarms, 0);  // late, and not suspected
}

// Rule D2. Given irregular gaps, when the peer is silent, then suspicion comes later than with
// regular ones.
static void test_irregular_links_are_given_more_time(void **state) {
    (void)state;
    uint64_t now;
    const timing_link regular = steady(&now);
    timing_link irregular = {0};
    now = START;
    for (int i = 0; i < 200; i++) {
        timing_heard(&irregular, now);
        now += i % 4 == 0 ? 1500 * TIMING_MS : 200 * TIMING_MS;
    }
    irregular.false_alarms = 0;
    assert_true(limit_of(&irregular) > limit_of(&regular));
}

// Rule D7. Given sizes, measured times and promises, when they grow, then the limits grow and stay
// above them.
static void test_limits_grow_with_expected_times(void **state) {
    (void)state;
    timing_link link = {0};
    uint64_t unmeasured = timing_accept_limit(&link, 1000000);
    assert_true(timing_accept_limit(&link, 2000000) > unmeasured);
    for (int i = 0; i < 100; i++) timing_accepted(&link, 30 * TIMING_MS);
    assert_in_range(link.accept_ns, 29 * TIMING_MS, 30 * TIMING_MS);
    assert_true(timing_accept_limit(&link, 1000000) < unmeasured);
    uint64_t last = timing_complete_limit(&link, 0);
    for (uint64_t eta = TIMING_MS; eta < 100 * TIMING_S; eta *= 3) {
        uint64_t limit = timing_complete_limit(&link, eta);
        assert_true(limit > last && limit > eta);
        assert_true(timing_owner_limit(eta) > eta);
        last = limit;
    }
}

// Rule D7. Given measurements, when a new one differs, then the mean moves by a fraction.
static void test_measurements_are_smoothed(void **state) {
    (void)state;
    assert_int_equal(timing_smooth(0, 800), 800);
    assert_int_equal(timing_smooth(800, 800), 800);
    uint64_t value = 800;
    for (int i = 0; i < 100; i++) value = timing_smooth(value, 1600);
    assert_in_range(value, 1580, 1600);
}

// Rule D2. Given a doubled limit, when an hour passes without a false suspicion, then it halves,
// down to the original one.
static void test_quiet_hours_lower_the_limit(void **state) {
    (void)state;
    uint64_t now;
    timing_link link = steady(&now);
    const uint64_t first = limit_of(&link);
    for (int i = 0; i < 3; i++) {
        now += 2 * limit_of(&link);
        timing_heard(&link, now);
    }
    assert_int_equal(link.false_alarms, 3);
    for (uint64_t end = now + 5 * TIMING_QUIET_NS; now < end; now += TIMING_HEARTBEAT_NS) timing_heard(&link, now);
    assert_int_equal(link.false_alarms, 0);
    assert_in_range(limit_of(&link), first - TIMING_MS, first + TIMING_MS * 50);
}

// Rule D7. Given a receiver that promises a very long time, when the limit is computed, then it is
// bounded.
static void test_reported_times_are_bounded(void **state) {
    (void)state;
    const timing_link link = {0};
    static const uint64_t said[] = {7200 * TIMING_S, UINT64_C(1) << 62, UINT64_MAX};
    for (uint32_t i = 0; i < sizeof said / sizeof *said; i++) {
        assert_in_range(timing_complete_limit(&link, said[i]), 4 * 3600 * TIMING_S, 5 * 3600 * TIMING_S);
        assert_in_range(timing_owner_limit(said[i]), 4 * 3600 * TIMING_S, 5 * 3600 * TIMING_S);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_quiet_hours_lower_the_limit), cmocka_unit_test(test_silence_grows_suspicious), cmocka_unit_test(test_removal_waits_for_the_longest_silence), cmocka_unit_test(test_peer_without_history_is_not_suspected),
        cmocka_unit_test(test_limits_adapt_to_slow_links),
        cmocka_unit_test(test_false_suspicion_doubles_the_limit),      cmocka_unit_test(test_false_suspicions_are_counted),
        cmocka_unit_test(test_irregular_links_are_given_more_time),
        cmocka_unit_test(test_limits_grow_with_expected_times),                   cmocka_unit_test(test_measurements_are_smoothed),
        cmocka_unit_test(test_reported_times_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
