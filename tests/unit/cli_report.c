#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cli/report.h"

#include "base/rng.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_OUTPUT = 1 << 16 };

static report_event iteration(uint64_t number, uint64_t of, double loss) {
    return (report_event){.kind = REPORT_ITERATION,
                          .iteration = number,
                          .of = of,
                          .loss = loss,
                          .tokens = 8192,
                          .microbatches = 8,
                          .tokens_per_second = 1234.5,
                          .norm = 0.5,
                          .learning_rate = 1e-3};
}

static void test_json_shape(void **state) {
    (void)state;
    char line[REPORT_MAX_LINE];
    report_event e = iteration(3, 10, 0.1);
    size_t length = report_to_json(&e, line);
    assert_int_equal(length, strlen(line));
    assert_string_equal(line, "{\"event\":\"iteration\",\"iteration\":3,\"of\":10,\"loss\":0.10000000000000001,"
                              "\"tokens\":8192,\"microbatches\":8,\"left_out\":0,"
                              "\"tokens_per_second\":1234.5,\"norm\":0.5,\"learning_rate\":0.001,\"skip\":false,"
                              "\"wasted\":0,\"carried\":0,\"carried_bytes\":0,"
                              "\"tensor_bytes\":0,\"message_bytes\":0,\"memory_bytes\":0,\"computed_seconds\":0,\"wasted_seconds\":0}");
    report_event repair = {.kind = REPORT_REPAIR,
                           .iteration = 4,
                           .microbatch = 2,
                           .stage = 1,
                           .member = 9,
                           .phase = "backward",
                           .peer = "0a1b"};
    report_to_json(&repair, line);
    assert_string_equal(line, "{\"event\":\"repair\",\"iteration\":4,\"microbatch\":2,\"stage\":1,\"member\":9,"
                              "\"phase\":\"backward\",\"peer\":\"0a1b\"}");
    report_event end = {
        .kind = REPORT_END, .iteration = 10, .loss = NAN, .weights = "ff", .path = "a\"b\\c\n\xff\xc3\xa9"};
    report_to_json(&end, line);
    assert_non_null(strstr(line, "\"loss\":null"));
    assert_non_null(strstr(line, "\"weights\":\"ff\""));
    assert_non_null(strstr(line, "\"path\":\"a\\\"b\\\\c\\u000a?\xc3\xa9\""));
    report_event zero = {.kind = REPORT_EVAL, .loss = -0.0}, back;
    braid_error error = {0};
    assert_int_equal(report_from_json(line, report_to_json(&zero, line), &back, &error), BRAID_OK);
    assert_true(back.loss == 0 && signbit(back.loss));
}

static report_event flows(uint64_t member, uint64_t stage, uint64_t changes, uint64_t first, uint64_t second) {
    report_event e = {.kind = REPORT_FLOWS, .member = member, .stage = stage, .changes = changes, .flows = 3};
    snprintf(e.peer, sizeof e.peer, "%08llx", (unsigned long long)member);
    e.flow[0] = (report_flow){.to = 7, .source = 1, .units = first, .cost_us = 12300};
    e.flow[1] = (report_flow){.to = 8, .source = 1, .units = second, .cost_us = 450};
    e.flow[2] = (report_flow){.to = 7, .source = 2, .units = 1, .cost_us = 12300};
    return e;
}

static void test_json_of_flows(void **state) {
    (void)state;
    char line[REPORT_MAX_LINE];
    report_event e = flows(6, 1, 2, 4, 3), back;
    braid_error error = {0};
    e.flows = 1;
    size_t length = report_to_json(&e, line);
    assert_string_equal(line, "{\"event\":\"flows\",\"stage\":1,\"member\":6,\"changes\":2,"
                              "\"flow\":[{\"to\":7,\"source\":1,\"units\":4,\"cost_us\":12300}],\"peer\":\"00000006\"}");
    assert_int_equal(report_from_json(line, length, &back, &error), BRAID_OK);
    assert_true(back.flows == 1 && back.flow[0].to == 7 && back.flow[0].units == 4 && back.flow[0].cost_us == 12300);
    e.flows = REPORT_MAX_FLOWS;
    length = report_to_json(&e, line);
    assert_int_equal(report_from_json(line, length, &back, &error), BRAID_OK);
    assert_int_equal(back.flows, REPORT_MAX_FLOWS);
    const char *bad[] = {"{\"event\":\"flows\",\"flow\":3}", "{\"event\":\"flows\",\"flow\":[{\"to\":1}]}",
                         "{\"event\":\"flows\",\"flow\":[{\"to\":-1,\"source\":1,\"units\":1,\"cost_us\":1}]}"};
    for (size_t i = 0; i < 3; i++) assert_int_equal(report_from_json(bad[i], strlen(bad[i]), &back, &error), BRAID_FORMAT);
}

static void test_json_returns(void **state) {
    (void)state;
    char line[REPORT_MAX_LINE], second[REPORT_MAX_LINE];
    rng r = {5};
    for (int round = 0; round < 2000; round++) {
        uint64_t bits = rng_next(&r);
        report_event e = {.kind = (report_kind)(round % REPORT_KINDS),
                          .iteration = rng_below(&r, 1u << 31),
                          .tokens = rng_below(&r, 1u << 31),
                          .stage = rng_below(&r, 64),
                          .failed = bits & 1,
                          .skip = bits & 2,
                          .seconds = rng_unit(&r) * 1e5,
                          .name = "x y",
                          .phase = "weight",
                          .peer = "0f",
                          .text = "why \t not",
                          .path = "/p",
                          .role = "relay"};
        memcpy(&e.loss, &bits, sizeof bits);  // arbitrary bits
        report_event back;
        braid_error error = {0};
        size_t length = report_to_json(&e, line);
        if (report_from_json(line, length, &back, &error) != BRAID_OK) fail_msg("%s: %s", line, error.text);
        assert_int_equal(back.kind, e.kind);
        assert_int_equal(report_to_json(&back, second), length);
        assert_string_equal(line, second);
        if (e.kind == REPORT_EVAL && isfinite(e.loss)) assert_memory_equal(&e.loss, &back.loss, sizeof e.loss);
        if (e.kind == REPORT_EVAL && !isfinite(e.loss)) assert_true(isnan(back.loss));
    }
}

static void test_long_texts_are_cut(void **state) {
    (void)state;
    static report_event e = {.kind = REPORT_END, .weights = "abcd"}, back;
    char line[REPORT_MAX_LINE];
    memset(e.path, '\x01', sizeof e.path - 1);
    memset(e.text, '"', sizeof e.text - 1);
    size_t length = report_to_json(&e, line);
    assert_true(length < REPORT_MAX_LINE);
    assert_int_equal(report_from_json(line, length, &back, NULL), BRAID_OK);
    assert_string_equal(back.weights, "abcd");
}

static void test_bad_lines(void **state) {
    (void)state;
    static const char *const lines[] = {
        "",
        "{}",
        "[]",
        "x",
        "{\"event\":5}",
        "{\"event\":\"nothing\"}",
        "{\"event\":\"iteration\",\"iteration\":-1}",
        "{\"event\":\"iteration\",\"loss\":\"low\"}",
        "{\"event\":\"iteration\",\"iteration\":1.5}",
        "{\"event\":\"iteration\"",
        "{\"event\":\"iteration\",\"event\":\"end\"}",
        "{\"event\":\"repair\",\"phase\":\"a phase whose name is much too long for it\"}",
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        report_event e;
        braid_error error = {0};
        assert_int_equal(report_from_json(lines[i], strlen(lines[i]), &e, &error), BRAID_FORMAT);
        assert_true(error.text[0] != 0);
    }
    report_event e;
    const char *more = "{\"event\":\"iteration\",\"iteration\":7,\"new\":[1,{}]}";
    assert_int_equal(report_from_json(more, strlen(more), &e, NULL), BRAID_OK);
    assert_int_equal(e.iteration, 7);
}

// The report's output for all events of `tell`.
static const char *shown(report_style style, void (*tell)(report *)) {
    static char text[MAX_OUTPUT];
    FILE *out = tmpfile();
    assert_non_null(out);
    report *r = report_new(style, out);
    assert_non_null(r);
    tell(r);
    report_free(r);
    rewind(out);
    text[fread(text, 1, sizeof text - 1, out)] = 0;
    fclose(out);
    return text;
}

static void tell_run(report *r) {
    report_event started = {.kind = REPORT_STARTED,
                            .of = 50,
                            .stages = 2,
                            .name = "small",
                            .parameters = 1200000,
                            .tokens = 8192,
                            .microbatches = 8};
    report_event joined = {.kind = REPORT_JOINED, .stage = 1, .peer = "0123456789abcdef", .role = "relay"};
    report_event repair = {.kind = REPORT_REPAIR,
                           .iteration = 9,
                           .microbatch = 3,
                           .stage = 1,
                           .phase = "forward",
                           .peer = "fedcba9876543210"};
    report_event end = {.kind = REPORT_END, .iteration = 50, .loss = 1.5, .seconds = 75, .weights = "beef",
                        .work = {.wasted = 2, .carried = 3, .carried_bytes = 3 << 20, .computed_seconds = 200, .wasted_seconds = 0.5}};
    report_tell(r, &started);
    report_tell(r, &joined);
    for (uint64_t i = 1; i <= 50; i++) {
        report_event e = iteration(i, 50, 5 - (double)i / 20);
        report_tell(r, &e);
    }
    report_tell(r, &repair);
    report_tell(r, &(report_event){.kind = REPORT_EVAL, .iteration = 20, .loss = 2.25, .tokens = 64});
    report_tick(r);
    report_loss_curve(r);
    report_tell(r, &end);
    assert_int_equal(report_repairs(r, NULL), 1);
    assert_int_equal(report_repairs(r, "forward"), 1);
    assert_int_equal(report_repairs(r, "backward"), 0);
}

static void test_plain(void **state) {
    (void)state;
    const char *text = shown(REPORT_PLAIN, tell_run);
    static const char *const parts[] = {
        "run 'small': iterations 1 to 50, 1.20 M parameters, 8.19 k tokens each in 8 microbatches\n",
        "relay peer 01234567 joined stage 1\n",
        "iteration 50/50  loss 2.5000  1.23 k tokens/s  norm 0.5  rate 0.001\n",
        "held-out loss of version 20: 2.2500\n",
        "repaired microbatch 3 of iteration 9 in stage 1: peer fedcba98 died in forward\n",
        "   4.950 |*",
        "done: version 50, last training loss 1.5000, 1 min 15 s, 1 repair (1 forward), 2 computations wasted (0.50 s, 0.25 % of the compute time), 3 tensors sent through forwarding peers, 3 MiB forwarded for others\nweights beef\n",
    };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        if (strstr(text, parts[i]) == NULL) fail_msg("no '%s' in\n%s", parts[i], text);
    }
    assert_null(strchr(text, '\033'));
}

static void test_json_ends_with_end(void **state) {
    (void)state;
    const char *text = shown(REPORT_JSON, tell_run);
    assert_non_null(strstr(text, "{\"event\":\"repair\""));
    const char *last = strrchr(text, '{');
    assert_int_equal(strncmp(last, "{\"event\":\"end\"", 14), 0);
    size_t lines = 0;
    for (const char *c = text; *c; c++) lines += *c == '\n';
    assert_int_equal(lines, 55);
}

static void tell_relay(report *r) {
    report_tell(r, &(report_event){.kind = REPORT_STARTED, .of = 50, .stages = 2, .loss = NAN});
    report_tell(r, &(report_event){.kind = REPORT_END, .seconds = 75, .loss = NAN});
}

// A report without loss and weights shows neither, and one without peers draws none.
static void tell_absence(report *r) {
    report_event away = {.kind = REPORT_AWAITED, .peer = "0123456789ab", .microbatches = 3}, next = iteration(7, 50, 2);
    report_tell(r, &away);
    away.seconds = 30;
    report_tell(r, &away);
    next.left_out = 3;
    report_tell(r, &next);
    away.kind = REPORT_BACK;
    report_tell(r, &away);
    away.kind = REPORT_UNFINISHED;
    away.iteration = 7;
    report_tell(r, &away);
}

static void test_awaited_peers_are_named(void **state) {
    (void)state;
    const char *text = shown(REPORT_PLAIN, tell_absence);
    assert_non_null(strstr(text, "peer 01234567 is gone, and 3 microbatches of each iteration need its text: the run waits until it returns\n"));
    assert_non_null(strstr(text, "peer 01234567 has not returned, and iteration 8 cannot complete without its text: the run ends with the weights of the iteration before\n"));
    assert_non_null(strstr(text, "the run waits 30 s for it, then leaves them out until it returns\n"));
    assert_non_null(strstr(text, "rate 0.001  3 microbatches left out\n"));
    assert_non_null(strstr(text, "peer 01234567 returned after 30 s, with its 3 microbatches of each iteration\n"));
    text = shown(REPORT_LIVE, tell_absence);
    assert_non_null(strstr(text, "awaiting 01234567 for "));
}

static void tell_takeovers(report *r) {
    report_event news = {.kind = REPORT_TAKEOVER, .peer = "0123456789ab", .microbatches = 1, .loss = NAN};
    report_tell(r, &news);
    news.microbatches = 3;
    report_tell(r, &news);
}

static void test_takeovers_name_the_new_owner(void **state) {
    (void)state;
    const char *text = shown(REPORT_PLAIN, tell_takeovers);
    assert_non_null(strstr(text, "peer 01234567 takes over 1 microbatch of each iteration: its data peer is gone\n"));
    assert_non_null(strstr(text, "peer 01234567 takes over 3 microbatches of each iteration: their data peer is gone\n"));
}

static void test_what_is_not_known_is_not_shown(void **state) {
    (void)state;
    const char *text = shown(REPORT_LIVE, tell_relay);
    assert_non_null(strstr(text, "done after 1 min 15 s"));
    assert_null(strstr(text, "nan"));
    assert_null(strstr(text, "weights"));
    assert_null(strstr(text, "peers"));
}

static void tell_waiting(report *r) {
    report_tell(r, &(report_event){.kind = REPORT_READY, .peer = "0123456789abcdef", .loss = NAN});
    report_tell(r, &(report_event){.kind = REPORT_JOINED, .stage = 0, .peer = "0123456789abcdef", .loss = NAN});
}

// `wanted` is a line of what is told of an end.
static void ends_with(const report_event *end, const char *wanted) {
    FILE *out = tmpfile();
    assert_non_null(out);
    report *r = report_new(REPORT_PLAIN, out);
    assert_non_null(r);
    report_tell(r, end);
    report_free(r);
    char text[4096];
    rewind(out);
    text[fread(text, 1, sizeof text - 1, out)] = 0;
    fclose(out);
    assert_string_equal(text, wanted);
}

static void test_an_early_end_says_what_is_saved(void **state) {
    (void)state;
    report_event end = {.kind = REPORT_END, .of = 20, .loss = NAN, .stopped = true, .reason = "SIGTERM", .weights = "beef"};
    ends_with(&end, "stopped before the first iteration (SIGTERM): nothing to save\nweights beef\n");
    end.iteration = 7;
    ends_with(&end, "stopped after iteration 7 of 20 (SIGTERM); nothing new to save\nweights beef\n");
    end.tokens = 512;
    ends_with(&end, "stopped after iteration 7 of 20 (SIGTERM); not saved: the run has no checkpoint.dir\nweights beef\n");
    strcpy(end.path, "ck/step-000007");
    ends_with(&end, "stopped after iteration 7 of 20 (SIGTERM); saved in ck/step-000007, --resume continues from there\nweights beef\n");
    report_event relay = {.kind = REPORT_END, .of = 20, .iteration = 7, .loss = NAN, .stopped = true, .reason = REPORT_BY_LEADER};
    ends_with(&relay, "stopped after iteration 7 of 20 (the leader ended the run)\n");
    report_event failed = {.kind = REPORT_END, .of = 20, .loss = NAN, .failed = true, .text = "no room"};
    ends_with(&failed, "ended before the first iteration: no room\n");
    failed.iteration = 7;
    ends_with(&failed, "stopped after iteration 7 of 20: no room\n");
}

static void test_waiting_is_reported(void **state) {
    (void)state;
    const char *text = shown(REPORT_LIVE, tell_waiting);
    assert_non_null(strstr(text, "waiting for peers"));
    assert_non_null(strstr(text, "peers 1"));
    assert_null(strstr(text, "0/0"));
    assert_null(strstr(text, "left"));
    assert_null(strstr(text, "first iteration"));
}

static void test_live_redraws_in_place(void **state) {
    (void)state;
    setenv("NO_COLOR", "1", 1);
    const char *text = shown(REPORT_LIVE, tell_run);
    unsetenv("NO_COLOR");
    assert_non_null(strstr(text, "100 %"));
    assert_non_null(strstr(text, "peers 0|1"));
    assert_non_null(strstr(text, "held-out 2.2500 (version 20)"));
    assert_non_null(strstr(text, "\r\033[1A\033[J"));
    assert_null(strstr(text, "\033[3"));
    // The drawing is erased before other output, so the final text is plain lines.
    assert_null(strchr(strstr(text, "done: version"), '\033'));
    assert_null(strstr(text, "iteration 50/50"));
}

// A data peer and two relays of two stages; then only a cost changes, then the numbers of units,
// then a relay dies.
static void tell_flows(report *r) {
    report_tell(r, &(report_event){.kind = REPORT_STARTED, .of = 50, .stages = 2, .name = "small"});
    report_tell(r, &(report_event){.kind = REPORT_JOINED, .member = 8, .stage = 1, .role = "relay", .peer = "80808080cafe"});
    report_event to = flows(1, 0, 1, 4, 2), home = {.kind = REPORT_FLOWS, .member = 7, .stage = 1, .changes = 1, .flows = 1, .peer = "0a0b0c0d"};
    home.flow[0] = (report_flow){.to = 1, .source = 1, .units = 7, .cost_us = 20000};
    report_tell(r, &to);
    report_tell(r, &home);
    to.flow[1].cost_us = 500;
    report_tell(r, &to);
    to = flows(1, 0, 2, 3, 3);
    report_tell(r, &to);
    report_event iterates = iteration(1, 50, 3);
    report_tell(r, &iterates);
    report_flows_table(r);
    report_tell(r, &(report_event){.kind = REPORT_EXPELLED, .member = 7, .stage = 1});
    report_flows_table(r);
}

static void test_flows(void **state) {
    (void)state;
    const char *text = shown(REPORT_PLAIN, tell_flows);
    const char *first = "routing: peer 00000001 of stage 0 sends 5 to member 7 (12.3 ms), 2 to peer 80808080 (0.45 ms)\n";
    assert_non_null(strstr(text, first));
    assert_null(strstr(strstr(text, first) + 1, "(0.50 ms)"));  // a changed cost alone causes no output
    assert_non_null(strstr(text, "routing: peer 0a0b0c0d of stage 1 sends 7 to peer 00000001 (20.0 ms)\n"));
    assert_non_null(strstr(text, "routing: peer 00000001 of stage 0 sends 4 to peer 0a0b0c0d (12.3 ms), 3 to peer 80808080 (0.45 ms)\n"));
    // (4 * 12.3 + 3 * 0.45) / 7
    assert_non_null(strstr(text, "routing at the end: 27.2 ms a microbatch, 0-1 7 at 7.2 ms, 1-owner 7 at 20.0 ms, 3 changes in the last minute\n"
                                 "  stage 0  peer 00000001  4 to peer 0a0b0c0d (12.3 ms), 3 to peer 80808080 (0.45 ms)\n"
                                 "  stage 1  peer 0a0b0c0d  7 to peer 00000001 (20.0 ms)\n"));
    assert_non_null(strstr(text, "routing at the end: 7.2 ms a microbatch, 0-1 7 at 7.2 ms, 3 changes in the last minute\n"));
    text = shown(REPORT_LIVE, tell_flows);
    assert_non_null(strstr(text, "routing  27.2 ms a microbatch  0-1 7 at 7.2 ms  1-owner 7 at 20.0 ms  3 changes"));
    text = shown(REPORT_JSON, tell_flows);
    assert_null(strstr(text, "routing"));
    assert_non_null(strstr(text, "\"cost_us\":500"));
}

static void test_silent(void **state) {
    (void)state;
    assert_string_equal(shown(REPORT_SILENT, tell_run), "");
}

static void tell_escape(report *r) {
    report_event e = {.kind = REPORT_EXPELLED, .stage = 1, .peer = "\033[2Jx", .reason = "\033]0;title\007"};
    report_tell(r, &e);
}

static void test_terminal_is_not_steered(void **state) {
    (void)state;
    const char *text = shown(REPORT_PLAIN, tell_escape);
    assert_null(strchr(text, '\033'));
    assert_null(strchr(text, '\007'));
    assert_non_null(strstr(text, "was lost from stage 1"));
}

static void tell_long_run(report *r) {
    for (uint64_t i = 1; i <= 100000; i++) {
        report_event e = iteration(i, 100000, i <= 50000 ? 4 : 2);
        report_tell(r, &e);
    }
}

static void test_curve_of_a_long_run(void **state) {
    (void)state;
    static char text[MAX_OUTPUT];
    FILE *out = tmpfile();
    assert_non_null(out);
    report *r = report_new(REPORT_PLAIN, out);
    tell_long_run(r);
    report_loss_curve(r);
    report_free(r);
    assert_int_equal(fseek(out, -2000, SEEK_END), 0);
    text[fread(text, 1, sizeof text - 1, out)] = 0;
    fclose(out);
    assert_non_null(strstr(text, "   4.000 |******************************  "));
    assert_non_null(strstr(text, "   2.000 |                              ******************************"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_json_shape),
        cmocka_unit_test(test_json_of_flows),
        cmocka_unit_test(test_json_returns),
        cmocka_unit_test(test_long_texts_are_cut),
        cmocka_unit_test(test_bad_lines),
        cmocka_unit_test(test_plain),
        cmocka_unit_test(test_json_ends_with_end),
        cmocka_unit_test(test_an_early_end_says_what_is_saved),
        cmocka_unit_test(test_waiting_is_reported),
        cmocka_unit_test(test_live_redraws_in_place),
        cmocka_unit_test(test_awaited_peers_are_named),
        cmocka_unit_test(test_takeovers_name_the_new_owner),
        cmocka_unit_test(test_what_is_not_known_is_not_shown),
        cmocka_unit_test(test_flows),
        cmocka_unit_test(test_silent),
        cmocka_unit_test(test_terminal_is_not_steered),
        cmocka_unit_test(test_curve_of_a_long_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
