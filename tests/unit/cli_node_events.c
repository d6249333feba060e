// The events of the protocol in a process's output.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cli/node_events.h"

#include <stdio.h>
#include <string.h>

static void says(node_events *e, FILE *out, const char *wanted) {
    char text[4096];
    rewind(out);
    text[fread(text, 1, sizeof text - 1, out)] = 0;
    assert_string_equal(text, wanted);
    report_free(e->report);
    fclose(out);
}

// A data peer's microbatches are in several slots, and the log reassigns them one by one.
static void test_a_takeover_is_reported_once(void **state) {
    (void)state;
    FILE *out = tmpfile();
    assert_non_null(out);
    node_events e;
    node_events_init(&e, report_new(REPORT_JSON, out));
    tell slot = {.kind = TELL_TAKEOVER, .iteration = 9, .member = 5, .gone = 2, .microbatches = 2};
    node_events_tell(&e, &slot, 1);
    slot.microbatches = 1;
    slot.member = 6;  // another heir
    node_events_tell(&e, &slot, 1);
    slot.member = 5;
    node_events_tick(&e);
    node_events_tell(&e, &slot, 1);
    for (int ticks = 0; ticks < 3; ticks++) node_events_tick(&e);
    says(&e, out,
         "{\"event\":\"takeover\",\"iteration\":9,\"microbatches\":3,\"member\":5,\"gone\":2,\"peer\":\"000000000000\"}\n"
         "{\"event\":\"takeover\",\"iteration\":9,\"microbatches\":1,\"member\":6,\"gone\":2,\"peer\":\"000000000000\"}\n");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_takeover_is_reported_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
