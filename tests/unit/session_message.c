// The messages of distributed serving: round trips; every other length is refused.
#include "session/message.h"

#include "session_random.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static uint8_t bytes[SESSION_MAX_MESSAGE_BYTES], again[SESSION_MAX_MESSAGE_BYTES];
static session_message original, copy;

static size_t random_one(rng *r, session_message_kind kind) {
    session_random w = {.r = r};
    session_random_message(&w, kind, &original);
    size_t count = session_message_encode(&original, bytes, sizeof bytes);
    if (count == 0) fail_msg("%s was not encoded", session_message_name(kind));
    return count;
}

static void test_round_trip_of_every_kind(void **state) {
    (void)state;
    rng r = seeded_rng("round trip", 21);
    for (int round = 0; round < 200; round++) {
        for (uint8_t kind = 1; kind < SESSION_MESSAGE_KINDS; kind++) {
            size_t count = random_one(&r, kind);
            memset(&copy, 0xa5, sizeof copy);
            if (!session_message_decode(bytes, count, &copy))
                fail_msg("%s was not decoded", session_message_name(kind));
            assert_int_equal(copy.kind, kind);
            assert_int_equal(session_message_encode(&copy, again, sizeof again), count);
            assert_memory_equal(again, bytes, count);
        }
    }
}

static void test_every_length_but_one_is_refused(void **state) {
    (void)state;
    rng r = seeded_rng("lengths", 22);
    for (uint8_t kind = 1; kind < SESSION_MESSAGE_KINDS; kind++) {
        size_t count = random_one(&r, kind);
        for (size_t n = 0; n < count; n++) assert_false(session_message_decode(bytes, n, &copy));
        bytes[count] = 0;
        assert_false(session_message_decode(bytes, count + 1, &copy));
        for (size_t n = 0; n < count; n += 1 + n / 8) assert_int_equal(session_message_encode(&original, again, n), 0);
    }
}

static bool is_refused(const session_message *m) { return session_message_encode(m, again, sizeof again) == 0; }

static void test_values_out_of_bounds_are_refused(void **state) {
    (void)state;
    session_message m = {.kind = SESSION_MESSAGE_ROWS, .rows = {.position = SESSION_MAX_TOKENS, .count = 1}};
    assert_true(is_refused(&m));
    m.rows.position = 0;
    assert_false(is_refused(&m));
    m.rows.count = SESSION_MAX_ROWS + 1;
    assert_true(is_refused(&m));
    m = (session_message){.kind = SESSION_MESSAGE_WANT, .want = {.from = 5, .limit = 4}};
    assert_true(is_refused(&m));
    m = (session_message){.kind = SESSION_MESSAGE_OPEN, .open = {.epoch = 1, .layer_begin = 3, .layer_end = 3}};
    assert_true(is_refused(&m));
    m.open.layer_end = 4;
    assert_false(is_refused(&m));
    m.open.epoch = 0;
    assert_true(is_refused(&m));
    m.open.epoch = 1;
    m.open.keys = SESSION_MAX_KEYS + 1;
    assert_true(is_refused(&m));
    m = (session_message){.kind = SESSION_MESSAGE_NAMES};
    assert_true(is_refused(&m));
    m.names.count = SESSION_MAX_NAMES;
    assert_false(is_refused(&m));
    m.names.count++;
    assert_true(is_refused(&m));
    m = (session_message){.kind = SESSION_MESSAGE_CACHE, .cache = {.layer_end = 1, .cuts = {.now = 3, .count = 2}}};
    m.cache.cuts.entry[0].cut = m.cache.cuts.entry[0].at = 2;
    m.cache.cuts.entry[1].cut = m.cache.cuts.entry[1].at = 3;
    assert_false(is_refused(&m));
    m.cache.cuts.entry[1].at = 2;
    assert_true(is_refused(&m));
}

static void test_another_version_is_refused(void **state) {
    (void)state;
    rng r = seeded_rng("version", 23);
    size_t count = random_one(&r, SESSION_MESSAGE_CLOSE);
    assert_true(session_message_decode(bytes, count, &copy));
    bytes[0]++;
    assert_false(session_message_decode(bytes, count, &copy));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip_of_every_kind),
        cmocka_unit_test(test_every_length_but_one_is_refused),
        cmocka_unit_test(test_values_out_of_bounds_are_refused),
        cmocka_unit_test(test_another_version_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
