#include "format/json.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static json *parse(const char *text) {
    json *doc = NULL;
    braid_error error = {0};
    if (json_parse(text, strlen(text), &doc, &error)) fail_msg("%s: %s", text, error.text);
    return doc;
}

static void test_values_of_every_kind(void **state) {
    (void)state;
    json *doc =
        parse(" {\"a\": [1, -2.5e3, true, null], \"b\" : {\"c\":\"x\"}, \"d\":18446744073709551615 , \"e\":false}\n");
    const json_value *root = json_root(doc), *a = json_member(doc, root, "a");
    assert_int_equal(root->kind, JSON_OBJECT);
    assert_int_equal(root->count, 4);
    assert_int_equal(a->count, 4);
    uint64_t n;
    double x;
    bool b;
    const json_value *v = json_first(doc, a);
    assert_true(json_u64(v, &n) && n == 1);
    v = json_next(doc, v);
    assert_true(json_double(v, &x) && x <= -2500 && x >= -2500);
    assert_false(json_u64(v, &n));
    v = json_next(doc, v);
    assert_true(json_bool(v, &b) && b);
    v = json_next(doc, v);
    assert_int_equal(v->kind, JSON_NULL);
    assert_null(json_next(doc, v));
    assert_string_equal(json_string(json_member(doc, json_member(doc, root, "b"), "c")), "x");
    assert_true(json_u64(json_member(doc, root, "d"), &n) && n == UINT64_MAX);
    assert_true(json_bool(json_member(doc, root, "e"), &b) && !b);
    assert_null(json_member(doc, root, "f"));
    assert_null(json_member(doc, a, "a"));
    assert_false(json_u64(NULL, &n));
    json_free(doc);
}

static void test_strings(void **state) {
    (void)state;
    json *doc = parse("[\"a\\\"\\\\\\/\\b\\f\\n\\r\\t\", \"\\u00e9\\u20ac\\ud83d\\ude00\", "
                      "\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\", \"\"]");
    const json_value *v = json_first(doc, json_root(doc));
    assert_string_equal(json_string(v), "a\"\\/\b\f\n\r\t");
    v = json_next(doc, v);
    const char *escaped = json_string(v);
    v = json_next(doc, v);
    assert_string_equal(escaped, json_string(v));
    assert_int_equal(v->length, 9);
    assert_string_equal(json_string(json_next(doc, v)), "");
    json_free(doc);
}

static void test_malformed_text_is_refused(void **state) {
    (void)state;
    const char *bad[] = {
        "",
        " ",
        "{",
        "}",
        "[1,]",
        "[1 2]",
        "{\"a\"}",
        "{\"a\":}",
        "{\"a\":1,}",
        "{a:1}",
        "nul",
        "truex",
        "01",
        "-",
        "1.",
        ".5",
        "1e",
        "+1",
        "\"a",
        "\"\\x\"",
        "\"\\u12\"",
        "\"\\u0000\"",
        "\"\\ud800\"",
        "\"\\udc00\"",
        "\"\\ud800\\u0041\"",
        "\"\n\"",
        "[1] 2",
        "{\"a\":1,\"a\":2}",
        "\"\xff\"",
        "\"\xc3\"",
        "\"\xc0\x80\"",
        "\"\xed\xa0\x80\"",
        "\"\xf4\x90\x80\x80\"",
        "'a'",
        "[1,2",
        "NaN",
        "Infinity",
        "0x10",
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        json *doc = NULL;
        braid_error error = {0};
        if (json_parse(bad[i], strlen(bad[i]), &doc, &error) != BRAID_FORMAT) fail_msg("accepted: %s", bad[i]);
        assert_non_null(strstr(error.text, "not valid JSON"));
    }
}

static void test_messages_have_line_and_column(void **state) {
    (void)state;
    json *doc = NULL;
    braid_error error = {0};
    const char *text = "{\n  \"a\": 1,\n  \"b\": oops\n}";
    assert_int_equal(json_parse(text, strlen(text), &doc, &error), BRAID_FORMAT);
    assert_non_null(strstr(error.text, "line 3, column 8"));
}

static void test_depth_is_bounded(void **state) {
    (void)state;
    char text[4 * JSON_MAX_DEPTH];
    for (size_t depth = JSON_MAX_DEPTH; depth <= JSON_MAX_DEPTH + 1; depth++) {
        memset(text, '[', depth);
        memset(text + depth, ']', depth);
        json *doc = NULL;
        braid_err err = json_parse(text, 2 * depth, &doc, NULL);
        assert_int_equal(err, depth == JSON_MAX_DEPTH ? BRAID_OK : BRAID_FORMAT);
        json_free(doc);
    }
}

static void test_the_number_of_values_is_bounded(void **state) {
    (void)state;
    size_t length = 2 * (size_t)JSON_MAX_VALUES + 1;
    char *text = malloc(length);
    assert_non_null(text);
    for (size_t i = 0; i < length; i++) text[i] = i % 2 ? '0' : ',';
    text[0] = '[';
    text[length - 1] = ']';
    json *doc = NULL;
    assert_int_equal(json_parse(text, length, &doc, NULL), BRAID_FORMAT);
    free(text);
}

static void test_written_output_reads_back(void **state) {
    (void)state;
    const double numbers[] = {0, 1, 0.1, 1e-300, 123456789.123, -2.5, 1e22};
    for (int pretty = 0; pretty < 2; pretty++) {
        json_out o = {.pretty = pretty != 0};
        json_out_open(&o, NULL, '{');
        json_out_string(&o, "text\n\"", "tab\t quote\" back\\ \x01 \xc3\xa9");
        json_out_open(&o, "numbers", '[');
        for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) json_out_double(&o, NULL, numbers[i]);
        json_out_double(&o, NULL, (double)NAN);
        json_out_close(&o, ']');
        json_out_float(&o, "float", 1e-5f);
        json_out_u64(&o, "large", UINT64_MAX);
        json_out_bool(&o, "yes", true);
        json_out_open(&o, "empty", '{');
        json_out_close(&o, '}');
        json_out_close(&o, '}');
        char *text = json_out_take(&o, NULL);
        assert_non_null(text);
        assert_non_null(strstr(text, "1e-05"));
        json *doc = parse(text);
        assert_string_equal(json_string(json_member(doc, json_root(doc), "text\n\"")),
                            "tab\t quote\" back\\ \x01 \xc3\xa9");
        const json_value *v = json_first(doc, json_member(doc, json_root(doc), "numbers"));
        for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++, v = json_next(doc, v)) {
            double x;
            assert_true(json_double(v, &x));
            assert_memory_equal(&x, &numbers[i], sizeof x);
        }
        assert_int_equal(v->kind, JSON_NULL);
        json_free(doc);
        free(text);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values_of_every_kind),      cmocka_unit_test(test_strings),
        cmocka_unit_test(test_malformed_text_is_refused), cmocka_unit_test(test_messages_have_line_and_column),
        cmocka_unit_test(test_depth_is_bounded),          cmocka_unit_test(test_the_number_of_values_is_bounded),
        cmocka_unit_test(test_written_output_reads_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
