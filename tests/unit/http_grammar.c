// Grammars and JSON schemas, matched byte by byte.
#include "http/grammar.h"
#include "http/matcher.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static bool accepts(const grammar *g, const char *text) {
    matcher *m = matcher_new(g);
    assert_non_null(m);
    uint32_t at = matcher_start(m);
    for (const char *c = text; *c; c++) at = matcher_next(m, at, (unsigned char)*c);
    bool complete = matcher_complete(m, at);
    matcher_free(m);
    return complete;
}

static grammar *from_text(const char *text) {
    grammar *g = NULL;
    braid_error error = {0};
    if (grammar_from_text(text, strlen(text), &g, &error) != BRAID_OK) fail_msg("%s: %s", text, error.text);
    return g;
}

static grammar *from_schema(const char *text) {
    grammar *g = NULL;
    json *doc = NULL;
    braid_error error = {0};
    if (json_parse(text, strlen(text), &doc, &error) != BRAID_OK ||
        grammar_from_schema(doc, json_root(doc), &g, &error) != BRAID_OK)
        fail_msg("%s: %s", text, error.text);
    json_free(doc);
    return g;
}

typedef struct example {
    const char *source;
    const char *good[8], *bad[8];
} example;

static void check(const example *e, bool schema) {
    grammar *g = schema ? from_schema(e->source) : from_text(e->source);
    for (int i = 0; i < 8 && e->good[i]; i++)
        if (!accepts(g, e->good[i])) fail_msg("%s refuses %s", e->source, e->good[i]);
    for (int i = 0; i < 8 && e->bad[i]; i++)
        if (accepts(g, e->bad[i])) fail_msg("%s accepts %s", e->source, e->bad[i]);
    grammar_free(g);
}

static void test_text(void **state) {
    (void)state;
    static const example examples[] = {
        {"root ::= \"a\" | \"bc\"", {"a", "bc"}, {"", "b", "abc", "ac"}},
        {"root ::= [a-c]+ \"\\n\"?", {"a", "abcba", "a\n"}, {"", "d", "\n", "a\n\n"}},
        {"root ::= x{2,3}\nx ::= \"ab\" # a comment", {"abab", "ababab"}, {"ab", "abababab", "aba"}},
        {"root ::= (\"x\" | y)* \"z\"\ny ::=\n  \"y\" |\n  \"yy\"", {"z", "xyyxz"}, {"xy", "zz"}},
        {"root ::= \"(\" root \")\" | \"\"", {"", "()", "((()))"}, {"(", "(()"}},
        {"root ::= [^x\\u00e9] .",
         {"ab", "\xe4\xb8\xad\xf0\x9f\x98\x80", "\xc3\xa8z"},
         {"xb", "\xc3\xa9z", "a", "a\xff"}},
        {"root ::= [\\u0100-\\U0001F600]",
         {"\xc4\x80", "\xe2\x82\xac", "\xf0\x9f\x98\x80"},
         {"a", "\xc3\xbf", "\xf0\x9f\x98\x81"}},
        {"root ::= a{0,2} b\na ::= [0-9]\nb ::= \"\"", {"", "1", "12"}, {"123"}}};
    for (size_t i = 0; i < sizeof examples / sizeof *examples; i++) check(&examples[i], false);
}

static void test_schema(void **state) {
    (void)state;
    static const example examples[] = {
        {"{\"type\":\"integer\"}", {"0", "-12", "345"}, {"", "01", "1.5", "-", "-0", "\"1\""}},
        {"{\"type\":\"number\"}", {"0", "-1.5", "1e9", "-0.5", "2.5E-3"}, {"1.", ".5", "e5", "+1"}},
        {"{\"type\":\"string\"}",
         {"\"\"", "\"a b\"", "\"\\n\\u00e9\"", "\"\xc3\xa9\"", "\"\\\\\"", "\"\\ud7ff\""},
         {"\"", "\"\n\"", "\"\\x\"", "\"\xc3\"", "\"\\ud800\"", "\"\\u0000\"", "a"}},
        {"{\"type\":\"string\",\"minLength\":1,\"maxLength\":2}", {"\"a\"", "\"\xc3\xa9x\""}, {"\"\"", "\"abc\""}},
        {"{\"type\":[\"boolean\",\"null\"]}", {"true", "false", "null"}, {"0", "nul"}},
        {"{\"enum\":[\"a\",1,null]}", {"\"a\"", "1", "null"}, {"\"b\"", "a"}},
        {"{\"const\":{\"x\":[1]}}", {"{\"x\":[1]}"}, {"{\"x\":[2]}"}},
        {"{\"type\":\"array\",\"items\":{\"type\":\"integer\"},\"minItems\":1,\"maxItems\":3}",
         {"[1]", "[1, 2]", "[\n  1,\n  2,\n  3\n]"},
         {"[]", "[1,2,3,4]", "[1,]", "[\"a\"]"}},
        {"{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"},\"b\":{\"type\":\"null\"},\"c\":{\"const\":"
         "1}},"
         "\"required\":[\"b\"]}",
         {"{\"b\":null}", "{\"a\": 1, \"b\": null}", "{\"a\":1,\"b\":null,\"c\":1}", "{\"b\":null,\"c\":1}"},
         {"{}", "{\"a\":1}", "{\"b\":null,}", "{\"b\":null,\"a\":1}", "{,\"b\":null}", "{\"b\":null,\"d\":1}"}},
        {"{\"type\":\"object\",\"properties\":{\"a\":{\"const\":1}},\"additionalProperties\":{\"type\":\"integer\"}}",
         {"{}", "{\"a\":1}", "{\"a\":1,\"z\":2}", "{\"z\":2}"},
         {"{\"z\":\"s\"}"}},
        {"{\"type\":\"object\"}", {"{}", "{\"a\":[{\"b\":null}, 1.5]}"}, {"[]", "{\"a\"}"}},
        {"{\"anyOf\":[{\"type\":\"integer\"},{\"$ref\":\"#/$defs/"
         "t\"}],\"$defs\":{\"t\":{\"type\":\"object\",\"properties\":"
         "{\"next\":{\"anyOf\":[{\"$ref\":\"#/$defs/t\"},{\"type\":\"null\"}]}},\"required\":[\"next\"]}}}",
         {"5", "{\"next\":null}", "{\"next\":{\"next\":null}}"},
         {"{\"next\":5}", "{}"}}};
    for (size_t i = 0; i < sizeof examples / sizeof *examples; i++) check(&examples[i], true);
}

static void refuses(const char *text, bool schema, const char *why) {
    grammar *g = NULL;
    json *doc = NULL;
    braid_error error = {0};
    if (schema) assert_int_equal(json_parse(text, strlen(text), &doc, &error), BRAID_OK);
    braid_err err = schema ? grammar_from_schema(doc, json_root(doc), &g, &error)
                           : grammar_from_text(text, strlen(text), &g, &error);
    if (err == BRAID_OK || !strstr(error.text, why)) fail_msg("%s: %s", text, error.text);
    json_free(doc);
}

static void test_refused(void **state) {
    (void)state;
    refuses("root ::= root \"a\" | \"b\"", false, "begins with itself");
    refuses("root ::= a\na ::= b? root\nb ::= \"x\"", false, "begins with itself");
    refuses("root ::= x", false, "no rule 'x'");
    refuses("top ::= \"x\"", false, "no rule 'root'");
    refuses("root ::= \"x", false, "line 1: a text has no end");
    refuses("root ::= [z-a]", false, "reversed");
    refuses("root ::= \"a\"\nroot ::= \"b\"", false, "twice");
    refuses("root ::= \"a\"{1,999999}", false, "too large");
    refuses("root ::= (((\"a\"", false, "missing");
    refuses("{\"type\":\"string\",\"pattern\":\"a*\"}", true, "'pattern' is not supported");
    refuses("{\"type\":\"integer\",\"minimum\":3}", true, "'minimum' is not supported");
    refuses("{\"type\":\"thing\"}", true, "'thing' is no type");
    refuses("{\"$ref\":\"#/$defs/x\"}", true, "which is not in it");
    refuses("{\"$ref\":\"#\"}", true, "begins with itself");
    refuses("5", true, "must be an object");
}

// A list of any length needs no deeper stack, so its states repeat.
static void test_states_are_few(void **state) {
    (void)state;
    grammar *g = from_schema("{\"type\":\"array\",\"items\":{\"type\":\"string\"}}");
    matcher *m = matcher_new(g);
    uint32_t at = matcher_start(m), before = 0;
    at = matcher_next(m, at, '[');
    for (int i = 0; i < 10000; i++) {
        static const char item[] = "\"abc\", ";
        for (const char *c = item; *c; c++) at = matcher_next(m, at, (unsigned char)*c);
        assert_true(at != MATCHER_DEAD);
        if (i == 3) before = matcher_states(m);
    }
    assert_int_equal(matcher_states(m), before);
    matcher_free(m);
    grammar_free(g);
}

// Nesting ends at its maximum instead of using all memory.
static void test_depth(void **state) {
    (void)state;
    grammar *g = from_text("root ::= \"[\" root \"]\" | \"x\"");
    matcher *m = matcher_new(g);
    uint32_t at = matcher_start(m), depth = 0;
    for (; at != MATCHER_DEAD && depth < 100000; depth++) at = matcher_next(m, at, '[');
    assert_in_range(depth, MATCHER_MAX_DEPTH / 2, MATCHER_MAX_DEPTH + 2);
    matcher_free(m);
    grammar_free(g);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_text), cmocka_unit_test(test_schema),
                                       cmocka_unit_test(test_refused), cmocka_unit_test(test_states_are_few),
                                       cmocka_unit_test(test_depth)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
