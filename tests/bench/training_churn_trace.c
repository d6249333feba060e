// churn-trace: the file, the oracle's spans, restarts from a checkpoint by hand, and a short replay.
#include "bench/training/churn_trace.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const uint64_t MINUTE = 60000000000u;

static churn_trace *parse(const char *text, braid_err expected, const char *complaint) {
    static churn_trace trace;
    braid_error error = {0};
    char *copy = strdup(text);
    assert_non_null(copy);
    assert_int_equal(churn_trace_parse(copy, "t.csv", &trace, &error), expected);
    if (complaint != NULL && strstr(error.text, complaint) == NULL) fail_msg("'%s' lacks '%s'", error.text, complaint);
    free(copy);
    return &trace;
}

// T2_RELAYS machines at 60 s, then two losses and an arrival.
static const char *sample(void) {
    static char text[2048];
    size_t length = (size_t)snprintf(text, sizeof text, "# a comment\n0,add,early\n");
    for (int i = 0; i < T2_RELAYS; i++)
        length += (size_t)snprintf(text + length, sizeof text - length, "60000,add,n%d\n", i);
    snprintf(text + length, sizeof text - length,
             "180000,remove,n3\n180000,remove,n5\n960000,add,n99\n1260000,remove,early\n");
    return text;
}

static void test_time_begins_with_enough_machines(void **state) {
    (void)state;
    const churn_trace *t = parse(sample(), BRAID_OK, NULL);
    assert_int_equal(t->firsts, T2_RELAYS + 1);
    assert_int_equal(t->events, 4);
    assert_int_equal(t->event[0].at_ns, 2 * MINUTE);
    assert_false(t->event[0].adds);
    assert_true(t->event[2].adds);
    assert_int_equal(t->end_ns, 20 * MINUTE);
}

static void test_bad_lines_are_named(void **state) {
    (void)state;
    parse("0,add,a\nnonsense\n", BRAID_CONFIG, "t.csv:2: write MILLISECONDS");
    parse("0,drop,a\n", BRAID_CONFIG, "t.csv:1");
    parse("5,add,a\n4,add,b\n", BRAID_CONFIG, "t.csv:2: earlier");
    parse("0,add,a\n0,add,b\n", BRAID_CONFIG, "never 16 machines");
    parse("", BRAID_CONFIG, "never 16 machines");
    parse("99999999999999999999999,add,a\n", BRAID_CONFIG, "t.csv:1");
}

// Two spans of ten minutes, iterations of one minute, and a death between them. The state takes
// half a minute.
static void test_restarts_by_hand(void **state) {
    (void)state;
    const churn_span span[] = {
        {.until_ns = 10 * MINUTE, .live = 9, .iteration_ns = MINUTE, .state_ns = MINUTE / 2},
        {.from_ns = 10 * MINUTE, .until_ns = 20 * MINUTE, .live = 8, .iteration_ns = MINUTE, .state_ns = MINUTE / 2}};
    assert_true(churn_trace_possible(span, 2, 0, 20 * MINUTE) == 20);
    assert_true(churn_trace_possible(span, 2, 5 * MINUTE, 12 * MINUTE) == 7);
    // never saved: the first ten are lost, and nine fit behind the fetch
    churn_restart r = {.interval_ns = 100 * MINUTE};
    assert_true(churn_trace_restart(span, 2, &r, 20 * MINUTE) == 9);
    // saved after each iteration: six fit before the death and are kept, six behind it
    r.interval_ns = 0;
    assert_true(churn_trace_restart(span, 2, &r, 20 * MINUTE) == 12);
    // a restart of five minutes leaves room for four iterations, three of them saved
    r.start_ns = 5 * MINUTE;
    assert_true(churn_trace_restart(span, 2, &r, 20 * MINUTE) == 9);
}

// The live machines change at the trace's moments, and more machines never need longer.
static void test_spans_follow_the_trace(void **state) {
    (void)state;
    static churn_span span[CHURN_TRACE_MAX_EVENTS + 1];
    uint32_t spans = 0;
    braid_error error = {0};
    t2_case c = {.heterogeneous = true, .iterations = 1, .seed = 1};
    const churn_trace *t = parse(sample(), BRAID_OK, NULL);
    if (churn_trace_spans(t, &c, 10 * MINUTE, span, &spans, &error) != BRAID_OK) fail_msg("%s", error.text);
    assert_int_equal(spans, 2);
    assert_int_equal(span[0].live, T2_RELAYS + 1);
    assert_int_equal(span[1].live, T2_RELAYS - 1);
    assert_int_equal(span[1].from_ns, 2 * MINUTE);
    assert_int_equal(span[1].until_ns, 10 * MINUTE);
    assert_true(span[0].iteration_ns <= span[1].iteration_ns);
    assert_true(span[0].state_ns > 0 && span[0].iteration_ns > span[0].state_ns);
}

static void test_replay_of_two_deaths(void **state) {
    (void)state;
    braid_error error = {0};
    t2_case c = {.heterogeneous = true, .iterations = SCENARIO_MAX_ITERATIONS, .seed = 1};
    sim_swarm_options how = {.check = SIM_CHECK_LIVENESS};
    sim_swarm_report r;
    if (churn_trace_run(parse(sample(), BRAID_OK, NULL), &c, T2_BRAID, 6 * MINUTE, &how, &r, &error) != BRAID_OK)
        fail_msg("%s", error.text);
    if (r.failed) fail_msg("%s", r.text);
    assert_true(r.iterations >= 1 && r.virtual_ns >= 6 * MINUTE && r.virtual_ns <= 7 * MINUTE);
    assert_int_equal(r.crashes, 2);
    sim_swarm_report_free(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_time_begins_with_enough_machines),
        cmocka_unit_test(test_bad_lines_are_named),
        cmocka_unit_test(test_restarts_by_hand),
        cmocka_unit_test(test_spans_follow_the_trace),
        cmocka_unit_test(test_replay_of_two_deaths),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
