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

// The note about the end of a peer that has seen so many of 20 iterations.
static void ends(uint64_t seen, const char *signal, const char *why, const char *wanted) {
    FILE *out = tmpfile();
    assert_non_null(out);
    node_events e;
    node_events_init(&e, report_new(REPORT_PLAIN, out));
    e.iterations = 20;
    e.version = seen;
    e.stopped_by = signal;
    node_events_end(&e, why, 1);
    says(&e, out, wanted);
}

static void test_the_end_of_a_run_that_was_cut_short(void **state) {
    (void)state;
    ends(7, NULL, NULL, "stopped after iteration 7 of 20 (the leader ended the run)\n");
    ends(7, "SIGHUP", NULL, "stopped after iteration 7 of 20 (SIGHUP)\n");
    ends(7, NULL, "no memory", "stopped after iteration 7 of 20: no memory\n");
    ends(20, NULL, NULL, "done after 0 ms\n");
    ends(20, "SIGHUP", NULL, "done after 0 ms\n");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_takeover_is_reported_once),
        cmocka_unit_test(test_the_end_of_a_run_that_was_cut_short),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
