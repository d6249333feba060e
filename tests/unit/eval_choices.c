// Files of multiple-choice tasks: what is read, what is refused, and the figures of a result.
#include "eval/choices.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
// after those above
#include <cmocka.h>

static char path[] = "/tmp/braid-choices-XXXXXX";

static int make_file(void **state) {
    (void)state;
    int fd = mkstemp(path);
    return fd < 0 || close(fd) != 0;
}

static int remove_file(void **state) {
    (void)state;
    return unlink(path);
}

static braid_err read_text(const char *text, size_t length, choice_task *t, braid_error *error) {
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, length, f), length);
    assert_int_equal(fclose(f), 0);
    return choice_task_read(path, t, error);
}

static const char two[] = "{\"query\": \"One\", \"choices\": [\" a\", \" \\u00e9b\", \" c\"], \"gold\": 2, \"more\": {}}\r\n"
                          "  \n"
                          "{\"gold\": 0, \"choices\": [\" x\", \" y\"], \"query\": \"Two\"}";

static void reads_items(void **state) {
    (void)state;
    choice_task t;
    braid_error error = {0};
    if (read_text(two, sizeof two - 1, &t, &error)) fail_msg("%s", error.text);
    assert_int_equal(t.count, 2);
    assert_int_equal(t.choices, 5);
    assert_string_equal(t.items[0].query, "One");
    assert_string_equal(t.items[0].choices[1], " \xc3\xa9" "b");
    assert_int_equal(t.items[0].gold, 2);
    assert_int_equal(t.items[1].line, 3);
    assert_int_equal(t.items[1].first, 3);
    assert_string_equal(t.items[1].choices[1], " y");
    assert_string_equal(t.name, path + 5);
    choice_task_free(&t);
}

static void refuses_mistakes_with_their_line(void **state) {
    (void)state;
    static const struct {
        const char *text, *message;
    } cases[] = {{"", "has no items"},
                 {"\n\n{\"query\"", "line 3: not valid JSON"},
                 {"[]", "line 1: 'query' must be a text"},
                 {"{\"choices\": [\"a\", \"b\"], \"gold\": 0}", "'query' must be a text"},
                 {"{\"query\": 1, \"choices\": [\"a\", \"b\"], \"gold\": 0}", "'query' must be a text"},
                 {"{\"query\": \"\", \"choices\": [\"a\", \"b\"], \"gold\": 0}", "'query' is empty"},
                 {"{\"query\": \"q\", \"choices\": [\"a\"], \"gold\": 0}", "'choices' must be an array of 2 to 64 texts"},
                 {"{\"query\": \"q\", \"choices\": \"ab\", \"gold\": 0}", "'choices' must be an array"},
                 {"{\"query\": \"q\", \"choices\": [\"a\", 2], \"gold\": 0}", "an element that is no text, or empty"},
                 {"{\"query\": \"q\", \"choices\": [\"a\", \"\"], \"gold\": 0}", "an element that is no text, or empty"},
                 {"{\"query\": \"q\", \"choices\": [\"a\", \"b\"]}", "'gold' must be the index of a choice"},
                 {"{\"query\": \"q\", \"choices\": [\"a\", \"b\"], \"gold\": 2}", "'gold' must be the index of a choice"},
                 {"{\"query\": \"q\", \"choices\": [\"a\", \"b\"], \"gold\": -1}", "'gold' must be the index of a choice"},
                 {"{\"query\": \"q\", \"choices\": [\"a\", \"b\"], \"gold\": \"0\"}", "'gold' must be the index of a choice"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        choice_task t;
        braid_error error = {0};
        assert_int_not_equal(read_text(cases[i].text, strlen(cases[i].text), &t, &error), BRAID_OK);
        if (!strstr(error.text, cases[i].message)) fail_msg("'%s', expected '%s'", error.text, cases[i].message);
        choice_task_free(&t);
    }
    choice_task t;
    braid_error error = {0};
    assert_int_equal(choice_task_read("/nowhere/a.jsonl", &t, &error), BRAID_IO);
    choice_task_free(&t);
}

static void counts_right_answers(void **state) {
    (void)state;
    choice_task t;
    braid_error error = {0};
    assert_int_equal(read_text(two, sizeof two - 1, &t, &error), BRAID_OK);
    // " éb" has 4 bytes, so its logarithm per byte is the largest
    const double scores[] = {-4, -6, -3.5, -1, -1};
    assert_int_equal(choice_answer(&t.items[0], scores, false), 2);
    assert_int_equal(choice_answer(&t.items[0], scores, true), 1);
    assert_int_equal(choice_answer(&t.items[1], scores, false), 0);
    choice_result r = choices_result(&t, scores);
    assert_int_equal(r.items, 2);
    assert_int_equal(r.right, 2);
    assert_int_equal(r.right_normal, 1);
    assert_true(r.accuracy == 1 && r.error == 0);
    assert_true(r.normal == 0.5 && fabs(r.normal_error - 0.5) < 1e-12);
    choice_task_free(&t);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(reads_items), cmocka_unit_test(refuses_mistakes_with_their_line),
                                       cmocka_unit_test(counts_right_answers)};
    return cmocka_run_group_tests(tests, make_file, remove_file);
}
