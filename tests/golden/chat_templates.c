// Chat templates against the texts of transformers 5.23 (tools/make-chat-fixtures). BRAID_CHAT_CASES names another file of
// cases; then every difference is printed.
#include "chat/template.h"
#include "format/json.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
// after those above
#include <cmocka.h>

static json *read_cases(void) {
    const char *path = getenv("BRAID_CHAT_CASES");
    FILE *f = fopen(path ? path : BRAID_TEST_FIXTURES "/golden/fixtures/chat.json", "rb");
    assert_non_null(f);
    char *text = malloc(JSON_MAX_BYTES);
    assert_non_null(text);
    size_t length = fread(text, 1, JSON_MAX_BYTES, f);
    fclose(f);
    json *d = NULL;
    braid_error error = {0};
    if (json_parse(text, length, &d, &error)) fail_msg("%s", error.text);
    free(text);
    return d;
}

typedef struct tally {
    unsigned cases, wrong, refused;
} tally;

static void report(const char *name, const json_value *c, const char *kind, const char *got, const char *want) {
    print_message("%s, %s: %s\n  braid:        %s\n  transformers: %s\n", name, c->text, kind, got, want);
}

static void check_case(const chat_template *t, const char *name, const json *d, const json_value *c, tally *sum) {
    const struct tm now = {
        .tm_year = 126, .tm_mon = 6, .tm_mday = 5, .tm_hour = 16, .tm_min = 3, .tm_sec = 9, .tm_yday = 185};
    const json_value *want = json_member(d, c, "text"), *label = json_member(d, c, "name");
    bool add = false;
    json_bool(json_member(d, c, "add"), &add);
    chat_input in = {.messages = json_string(json_member(d, c, "messages")),
                     .tools = json_string(json_member(d, c, "tools")),
                     .variables = json_string(json_member(d, c, "variables")),
                     .bos = json_string(json_member(d, c, "bos")),
                     .eos = json_string(json_member(d, c, "eos")),
                     .add_generation_prompt = add,
                     .now = &now};
    char *text = NULL;
    size_t length = 0;
    braid_error error = {0};
    braid_err err = chat_template_render(t, &in, &text, &length, &error);
    sum->cases++;
    bool same = want->kind == JSON_NULL ? err != BRAID_OK
                                        : !err && length == want->length && memcmp(text, want->text, length) == 0;
    if (!same) {
        sum->wrong++;
        report(name, label, "another result", err ? error.text : text,
               want->kind == JSON_NULL ? "(an error)" : want->text);
    }
    if (err && (error.text[0] == 0 || strchr(error.text, '\n'))) {
        sum->wrong++;
        report(name, label, "the error is no sentence of one line", error.text, "");
    }
    free(text);
}

static void same_as_transformers(void **state) {
    (void)state;
    json *d = read_cases();
    tally sum = {0};
    for (const json_value *t = json_first(d, json_member(d, json_root(d), "templates")); t; t = json_next(d, t)) {
        const json_value *source = json_member(d, t, "source");
        const char *name = json_string(json_member(d, t, "name"));
        chat_template *parsed = NULL;
        braid_error error = {0};
        if (chat_template_parse(source->text, source->length, &parsed, &error)) {
            print_message("%s is refused: %s\n", name, error.text);
            sum.refused++;
            continue;
        }
        unsigned before = sum.wrong;
        for (const json_value *c = json_first(d, json_member(d, t, "cases")); c; c = json_next(d, c))
            check_case(parsed, name, d, c, &sum);
        if (getenv("BRAID_CHAT_CASES")) print_message("%s: %u differ\n", name, sum.wrong - before);
        chat_template_free(parsed);
    }
    json_free(d);
    print_message("%u cases, %u differ, %u templates refused\n", sum.cases, sum.wrong, sum.refused);
    assert_true(sum.cases > 0);
    assert_int_equal(sum.wrong + sum.refused, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(same_as_transformers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
