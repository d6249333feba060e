// Messages about lent adapters: each returns as it was, and values beyond a limit are refused.
#include "span/tuning_message.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static tuning_message adapt(void) {
    return (tuning_message){.kind = TUNING_ADAPT,
                            .name = {UINT64_MAX, 7},
                            .adapt = {.layer_begin = 1,
                                      .layer_end = 3,
                                      .rank = 8,
                                      .alpha = 16,
                                      .roles = 5,
                                      .sequences = 2,
                                      .tokens = 32,
                                      .parameters = 1000}};
}

static void returns(const tuning_message *msg) {
    uint8_t bytes[TUNING_MAX_MESSAGE_BYTES];
    tuning_message again;
    size_t count = tuning_encode(msg, bytes, sizeof bytes);
    assert_true(count > 0 && tuning_is_message(bytes, count));
    assert_true(tuning_decode(bytes, count, &again));
    assert_int_equal(again.kind, msg->kind);
    assert_true(again.name.session == msg->name.session && again.name.serial == msg->name.serial);
    for (size_t shorter = 0; shorter < count; shorter++) assert_false(tuning_decode(bytes, shorter, &again));
    bytes[count] = 0;
    assert_false(tuning_decode(bytes, count + 1, &again));
    assert_false(tuning_encode(msg, bytes, count - 1));
}

static void each_message_returns(void **state) {
    (void)state;
    const tuning_message all[] = {
        adapt(),
        {.kind = TUNING_FORWARD, .name = {1, 2}, .forward.keep = true},
        {.kind = TUNING_OUTPUT, .name = {1, 2}, .output.rows = 64},
        {.kind = TUNING_BACKWARD, .name = {1, 2}, .backward.rows = TUNING_MAX_ROWS},
        {.kind = TUNING_GRADIENT, .name = {1, 2}, .gradient = {64, 1000}},
        {.kind = TUNING_FORGET, .name = {1, 2}, .forget.done = true},
        {.kind = TUNING_REFUSE, .name = {1, 2}, .refuse = {TUNING_FULL, "no room"}},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) returns(&all[i]);
}

static void is_refused(const tuning_message *msg) {
    uint8_t bytes[TUNING_MAX_MESSAGE_BYTES];
    assert_int_equal(tuning_encode(msg, bytes, sizeof bytes), 0);
}

static void limits_hold(void **state) {
    (void)state;
    tuning_message msg = adapt();
    msg.adapt.layer_end = msg.adapt.layer_begin;
    is_refused(&msg);
    msg = adapt();
    msg.adapt.tokens = TUNING_MAX_ROWS;
    is_refused(&msg);
    msg.adapt.sequences = UINT32_MAX;
    msg.adapt.tokens = UINT32_MAX;
    is_refused(&msg);
    msg = adapt();
    msg.adapt.rank = 0;
    is_refused(&msg);
    msg = adapt();
    msg.adapt.alpha = INFINITY;
    is_refused(&msg);
    msg = adapt();
    msg.adapt.parameters = TUNING_MAX_PARAMETERS + 1;
    is_refused(&msg);
    msg.adapt.parameters = 0;
    is_refused(&msg);
    is_refused(&(tuning_message){.kind = TUNING_OUTPUT, .output.rows = TUNING_MAX_ROWS + 1});
    is_refused(&(tuning_message){.kind = TUNING_OUTPUT, .output.rows = 0});
    is_refused(&(tuning_message){.kind = TUNING_FORGET});
    is_refused(&(tuning_message){.kind = TUNING_REFUSE, .refuse.reason = TUNING_REFUSALS});
    is_refused(&(tuning_message){.kind = TUNING_NONE});
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_message_returns), cmocka_unit_test(limits_hold)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
