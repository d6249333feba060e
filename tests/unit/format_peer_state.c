// The state record of a peer: written, read, and as a line.
#include "format/peer_state.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static char *written(const peer_state *s) {
    json_out o = {0};
    json_out_open(&o, NULL, '{');
    peer_state_put(&o, s);
    json_out_close(&o, '}');
    char *text = json_out_take(&o, NULL);
    assert_non_null(text);
    return text;
}

static void test_round_trip(void **state) {
    (void)state;
    const peer_state s = {.id = "0f3c",
                          .state = "unresponsive",
                          .blocker = "it does not answer",
                          .waits_for = "its link",
                          .since_s = 3,
                          .next_step = "the leader removes it"};
    char *text = written(&s), line[PEER_STATE_LINE];
    json *doc = NULL;
    braid_error error;
    peer_state back;
    assert_int_equal(json_parse(text, strlen(text), &doc, &error), BRAID_OK);
    peer_state_get(doc, json_root(doc), &back);
    assert_string_equal(back.id, "0f3c");
    assert_string_equal(back.waits_for, "its link");
    assert_true(back.since_s == 3);
    peer_state_line(&back, line);
    assert_string_equal(line,
                        "unresponsive for 3 s: it does not answer; waiting for its link; next: the leader removes it");
    json_free(doc);
    free(text);
}

static void test_empty_members(void **state) {
    (void)state;
    char *text = written(&(peer_state){.state = "working", .blocker = "", .since_s = -1}), line[PEER_STATE_LINE];
    assert_string_equal(text, "{\"state\":\"working\"}");
    free(text);
    json *doc = NULL;
    braid_error error;
    peer_state back;
    assert_int_equal(json_parse("{\"state\":7,\"since_s\":\"x\"}", 25, &doc, &error), BRAID_OK);
    peer_state_get(doc, json_root(doc), &back);
    assert_null(back.state);
    assert_true(back.since_s < 0);
    peer_state_line(&back, line);
    assert_string_equal(line, "unknown");
    json_free(doc);
}

static void test_lines_are_safe(void **state) {
    (void)state;
    char line[PEER_STATE_LINE], longer[2 * PEER_STATE_LINE];
    memset(longer, 'x', sizeof longer - 1);
    longer[sizeof longer - 1] = 0;
    peer_state_line(&(peer_state){.state = "a\033[2J\n", .blocker = longer, .since_s = -1, .next_step = longer}, line);
    assert_memory_equal(line, "a?[2J?: xxx", 11);
    assert_int_equal(strlen(line), PEER_STATE_LINE - 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_empty_members),
        cmocka_unit_test(test_lines_are_safe),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
