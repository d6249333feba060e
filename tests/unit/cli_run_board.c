// The board of a run: records, history and metrics from events.
#define _GNU_SOURCE
#include "cli/run_board.h"

#include "cli/http_get.h"
#include "cli/run_page.h"
#include "format/json.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static double now;  // of the next event, seconds since 1970

static void tell(run_board *b, report_event e) { run_board_tell(b, &e, now += 1); }

static report_event member(report_kind kind, uint64_t number, uint64_t stage) {
    report_event e = {.kind = kind, .member = number, .stage = stage};
    snprintf(e.peer, sizeof e.peer, "%012llx", 0xabc000ull + (unsigned long long)number);
    strcpy(e.role, stage ? "relay" : "data");
    return e;
}

static void iterate(run_board *b, uint64_t iteration) {
    tell(b, (report_event){.kind = REPORT_ITERATION,
                           .iteration = iteration,
                           .of = 100,
                           .loss = 5 - (double)iteration / 100,
                           .tokens = 512,
                           .tokens_per_second = 100,
                           .left_out = 1,
                           .work = {.computed_seconds = 4, .wasted_seconds = 1, .tensor_bytes = 77}});
}

static run_board *begin(uint64_t stages) {
    run_board *b = run_board_new();
    assert_non_null(b);
    now = 1e9;
    for (uint64_t i = 0; i < stages; i++) tell(b, member(REPORT_JOINED, i + 1, i));
    report_event started = {.kind = REPORT_STARTED, .of = 100, .stages = stages, .name = "river"};
    tell(b, started);
    return b;
}

static void expect(char *text, const char *part) {
    assert_non_null(text);
    if (!strstr(text, part)) fail_msg("no '%s' in: %s", part, text);
    free(text);
}

static void refuse(char *text, const char *part) {
    assert_non_null(text);
    if (strstr(text, part)) fail_msg("'%s' in: %s", part, text);
    free(text);
}

static char *history(run_board *b, uint64_t from) {
    uint64_t next;
    return run_board_history(b, from, &next);
}

static void test_progress(void **state) {
    (void)state;
    char blocker[128];
    run_board *empty = run_board_new();
    assert_false(run_board_ready(empty, blocker));
    assert_string_equal(blocker, "the run has not begun");
    run_board_free(empty);
    run_board *b = begin(3);
    iterate(b, 1);
    assert_true(run_board_ready(b, blocker));
    expect(run_board_state(b), "\"state\":\"training\"");
    expect(run_board_state(b), "\"name\":\"river\"");
    expect(run_board_state(b), "\"goodput\":0.75");
    expect(run_board_state(b), "\"id\":\"000000abc002\",\"state\":\"working\"");
    tell(b, (report_event){.kind = REPORT_EVAL, .iteration = 1, .loss = 4.5});
    tell(b, (report_event){.kind = REPORT_CHECKPOINT, .iteration = 1, .path = "ck/1"});
    expect(run_board_state(b), "\"held_out_loss\":4.5,\"checkpoint\":1,\"checkpoint_path\":\"ck/1\"");
    expect(history(b, 0), "\"all\":true,\"losses\":[[1,4.99");
    tell(b, (report_event){.kind = REPORT_END, .iteration = 100, .failed = true, .text = "disk full"});
    expect(run_board_state(b), "\"state\":\"failed\",\"blocker\":\"disk full\"");
    expect(run_board_state(b), "\"peers\":[]");
    run_board_free(b);
}

static void test_leader(void **state) {
    (void)state;
    run_board *b = begin(3);
    report_event leads = member(REPORT_LEADER, 2, 1);
    expect(run_board_state(b), "\"member\":1,\"stage\":0,\"role\":\"data\",\"leader\":true");
    tell(b, leads);
    expect(run_board_state(b), "\"member\":1,\"stage\":0,\"role\":\"data\",\"leader\":false");
    expect(run_board_state(b), "\"member\":2,\"stage\":1,\"role\":\"relay\",\"leader\":true");
    run_board_free(b);
    b = run_board_new();  // of a peer that joined after another leader was elected
    tell(b, leads);
    tell(b, member(REPORT_JOINED, 1, 0));
    expect(run_board_state(b), "\"member\":1,\"stage\":0,\"role\":\"data\",\"leader\":false");
    run_board_free(b);
}

// A lost peer leaves the map, its stage is empty, and the run says what it waits for.
static void test_loss(void **state) {
    (void)state;
    char blocker[128];
    run_board *b = begin(3);
    report_event lost = member(REPORT_EXPELLED, 3, 2), repair = member(REPORT_REPAIR, 3, 2);
    strcpy(lost.reason, "it died");
    tell(b, member(REPORT_SUSPECT, 3, 2));
    expect(run_board_state(b), "\"state\":\"unresponsive\",\"blocker\":\"it does not answer\",\"waiting_for\"");
    tell(b, lost);
    refuse(run_board_state(b), "\"member\":3,");
    expect(run_board_state(b), "\"member\":2,");
    expect(run_board_state(b), "\"gone\":[{\"id\":\"000000abc003\",\"state\":\"lost\",\"blocker\":\"it died\"");
    expect(run_board_state(b), "\"blocker\":\"stage 2 has no peer\",\"waiting_for\":\"a relay for stage 2\"");
    assert_false(run_board_ready(b, blocker));
    tell(b, repair);
    tell(b, repair);
    expect(history(b, 0), "\"kind\":\"repair\"");
    expect(history(b, 0), "\"count\":2");
    char *marks = history(b, 6);  // the joins have earlier numbers
    refuse(marks, "joined");
    expect(run_board_metrics(b), "braid_run_repairs_total 2\n");
    expect(run_board_metrics(b), "braid_run_recovery_seconds_sum 3\nbraid_run_recovery_seconds_count 1\n");
    tell(b, member(REPORT_JOINED, 4, 2));
    assert_true(run_board_ready(b, blocker));
    expect(run_board_metrics(b), "braid_run_peers{stage=\"2\"} 1\n");
    run_board_free(b);
}

// A process that had no link to the lost peer knows its id from the time at which it joined.
static void test_lost_without_id(void **state) {
    (void)state;
    run_board *b = begin(3);
    report_event lost = member(REPORT_EXPELLED, 3, 2), repair = member(REPORT_REPAIR, 3, 2);
    memset(lost.peer, '0', REPORT_PEER_DIGITS);
    memset(repair.peer, '0', REPORT_PEER_DIGITS);
    tell(b, repair);
    tell(b, lost);
    expect(run_board_state(b), "\"gone\":[{\"id\":\"000000abc003\",\"state\":\"lost\"");
    tell(b, repair);
    expect(history(b, 0), "\"peer\":\"000000abc003\"");
    refuse(history(b, 0), "\"peer\":\"000000000000\"");
    run_board_free(b);
}

// A suspected peer that answers again works, and is not among the former ones.
static void test_suspicion_ends(void **state) {
    (void)state;
    run_board *b = begin(2);
    tell(b, member(REPORT_SUSPECT, 2, 1));
    iterate(b, 1);
    expect(run_board_state(b), "unresponsive");
    iterate(b, 2);
    refuse(run_board_state(b), "unresponsive");
    expect(run_board_state(b), "\"gone\":[]");
    run_board_free(b);
}

static void test_moves(void **state) {
    (void)state;
    run_board *b = begin(3);
    report_event moves = member(REPORT_EXPELLED, 3, 2), again = member(REPORT_JOINED, 4, 1);
    strcpy(moves.reason, REPORT_MOVES);
    tell(b, moves);
    strcpy(again.peer, moves.peer);
    tell(b, again);
    expect(run_board_state(b), "\"lost\":0,");
    expect(run_board_state(b), "\"gone\":[]");
    expect(run_board_state(b), "\"member\":4,\"stage\":1,");
    refuse(run_board_state(b), "\"member\":3,");
    run_board_free(b);
}

static void test_waits(void **state) {
    (void)state;
    run_board *b = begin(2);
    report_event away = member(REPORT_AWAITED, 1, 0);
    away.microbatches = 4;
    tell(b, away);
    expect(run_board_state(b), "has the data of 4 microbatches");
    away.kind = REPORT_BACK;
    tell(b, away);
    expect(run_board_state(b), "\"state\":\"training\"");
    tell(b, (report_event){.kind = REPORT_UNLED, .text = "no quorum"});
    expect(run_board_state(b), "\"blocker\":\"no quorum\",\"waiting_for\":\"a quorum of voters\"");
    iterate(b, 1);
    expect(run_board_state(b), "\"state\":\"training\"");
    run_board_free(b);
}

static void test_rollback(void **state) {
    (void)state;
    run_board *b = begin(2);
    for (uint64_t i = 1; i <= 5; i++) iterate(b, i);
    tell(b, (report_event){.kind = REPORT_ROLLED_BACK, .iteration = 2, .stage = 1});
    refuse(history(b, 0), "[3,");
    expect(history(b, 0), "[2,");
    expect(run_board_state(b), "\"iteration\":2,");
    run_board_free(b);
}

static uint32_t count(const char *text, const char *part) {
    uint32_t n = 0;
    for (const char *at = text; (at = strstr(at, part)); at++) n++;
    return n;
}

// Memory is bounded, and a reader that has most of it gets only the rest.
static void test_bounds(void **state) {
    (void)state;
    uint64_t next, more;
    run_board *b = begin(2);
    for (uint64_t i = 1; i <= 3 * BOARD_MAX_POINTS; i++) iterate(b, i);
    for (uint64_t i = 0; i < 2 * BOARD_MAX_MARKS; i++) tell(b, (report_event){.kind = REPORT_NOTE, .text = "n"});
    for (uint64_t i = 0; i < 2 * BOARD_MAX_GONE; i++) {
        tell(b, member(REPORT_JOINED, 100 + i, 1));
        tell(b, member(REPORT_LEFT, 100 + i, 1));
    }
    char *all = run_board_history(b, 0, &next);
    assert_in_range(count(all, ",1e+02,2]"), BOARD_MAX_POINTS / 4, BOARD_MAX_POINTS);
    assert_int_equal(count(all, "\"kind\""), BOARD_MAX_MARKS);
    assert_non_null(strstr(all, "{\"all\":true,\"losses\":[[1,"));  // early ones remain, evenly
    assert_non_null(strstr(all, "[1025,"));
    free(all);
    iterate(b, 3 * BOARD_MAX_POINTS + 1);
    char *rest = run_board_history(b, next, &more);
    assert_int_equal(more, next + 1);
    assert_non_null(strstr(rest, "{\"all\":false,\"losses\":[[12289,"));
    free(rest);
    char *text = run_board_state(b);
    assert_int_equal(count(text, "left in order"), BOARD_MAX_GONE);
    free(text);
    run_board_free(b);
}

static void test_addresses(void **state) {
    (void)state;
    static const char *const wrong[] = {"", "x", "1.2.3.4", "h:", "h:70000", "h:1x", "::1:80", "[::1]", ":-1"};
    char host[256];
    uint16_t port;
    braid_error error;
    assert_int_equal(run_page_split("8081", host, &port, &error), BRAID_OK);
    assert_string_equal(host, "127.0.0.1");
    assert_int_equal(port, 8081);
    assert_int_equal(run_page_split("[::1]:9", host, &port, &error), BRAID_OK);
    assert_string_equal(host, "::1");
    assert_int_equal(run_page_split("example.org:0", host, &port, &error), BRAID_OK);
    assert_string_equal(host, "example.org");
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(run_page_split(wrong[i], host, &port, &error), BRAID_CONFIG);
}

// The page of a run, read as `braid status` reads it. Other machines need a key.
static void test_page(void **state) {
    (void)state;
    run_page *p = NULL;
    braid_error error;
    char host[256], *body = NULL;
    size_t length;
    http_get_request request = {.host = host, .path = "/v1/swarm"};
    assert_int_equal(run_page_open("0.0.0.0:0", NULL, &p, &error), BRAID_CONFIG);
    assert_non_null(strstr(error.text, "there is no key"));
    assert_int_equal(run_page_open("0", NULL, &p, &error), BRAID_OK);
    run_page_tell(p, &(report_event){.kind = REPORT_STARTED, .stages = 1, .of = 3, .name = "alone"}, 1e9);
    assert_int_equal(run_page_split(run_page_address(p) + 7, host, &request.port, &error), BRAID_OK);
    assert_int_equal(http_get(&request, &body, &length, &error), BRAID_OK);
    assert_int_equal(strlen(body), length);
    expect(body, "\"id\":\"this process\",\"state\":\"training\"");
    request.path = "/nothing";
    assert_int_equal(http_get(&request, &body, &length, &error), BRAID_STATE);
    assert_non_null(strstr(error.text, "the server answers 404: there is no /nothing here"));
    run_page_close(p);
    assert_int_equal(http_get(&request, &body, &length, &error), BRAID_NETWORK);
}

static void test_answers(void **state) {
    (void)state;
    static const char *const wrong[] = {"",
                                        "HTTP/1.1 200",
                                        "HTTP/1.1 2000 OK\r\n\r\n",
                                        "HTTP/1.1 20 \r\n\r\n",
                                        "SSH-2.0\r\n\r\n",
                                        "HTTP/1.1 200 OK\r\nA: b\r\n"};
    unsigned status = 0;
    size_t body = 0;
    braid_error error;
    const char good[] = "HTTP/1.1 503 No\r\nA: b\r\n\r\nhello";
    assert_int_equal(http_get_parse(good, sizeof good - 1, &status, &body, &error), BRAID_OK);
    assert_int_equal(status, 503);
    assert_string_equal(good + body, "hello");
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(http_get_parse(wrong[i], strlen(wrong[i]), &status, &body, &error), BRAID_NETWORK);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_progress),        cmocka_unit_test(test_leader),         cmocka_unit_test(test_loss),
        cmocka_unit_test(test_lost_without_id), cmocka_unit_test(test_suspicion_ends), cmocka_unit_test(test_waits),
        cmocka_unit_test(test_moves),           cmocka_unit_test(test_rollback),       cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_addresses),       cmocka_unit_test(test_page),           cmocka_unit_test(test_answers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
