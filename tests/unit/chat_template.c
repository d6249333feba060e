// Chat templates: refusals with their lines, limits, and the messages of a chat. tests/golden/chat_templates.c compares texts.
#include "chat/template.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
// after those above
#include <cmocka.h>

static const char one_message[] = "[{\"role\": \"user\", \"content\": \"hi\"}]";

static braid_err parse(const char *source, chat_template **t, braid_error *error) {
    return chat_template_parse(source, strlen(source), t, error);
}

// Parses and renders; the text must be freed.
static braid_err render(const char *source, const chat_input *in, char **text, braid_error *error) {
    chat_template *t = NULL;
    size_t length = 0;
    *text = NULL;
    braid_err err = parse(source, &t, error);
    if (!err) err = chat_template_render(t, in, text, &length, error);
    if (!err) assert_int_equal(strlen(*text), length);
    chat_template_free(t);
    return err;
}

static void check_error(const char *source, braid_err want, const char *part) {
    const chat_input in = {.messages = one_message};
    char *text;
    braid_error error = {0};
    braid_err err = render(source, &in, &text, &error);
    if (err != want || !strstr(error.text, part))
        fail_msg("'%.200s': %d '%s', expected '%s'", source, err, error.text, part);
    free(text);
}

static void refuses_unknown_constructs(void **state) {
    (void)state;
    static const char *const cases[][2] = {
        {"a\n{% include 'x' %}", "line 2: the tag 'include' is not supported"},
        {"{% block b %}{% endblock %}", "line 1: the tag 'block' is not supported"},
        {"{% do x %}", "the tag 'do' is not supported"},
        {"\n\n{{ x | urlize }}", "line 3: the filter 'urlize' is not supported"},
        {"{{ x | shout }}", "there is no filter 'shout'"},
        {"{{ x is loud }}", "there is no test 'loud'"},
        {"{% if x %}", "line 1: the tag 'if' has no 'endif'"},
        {"{% for x in y %}{% endif %}", "the tag 'endif' does not belong to the block that is open here"},
        {"{% endfor %}", "the tag 'endfor' does not belong"},
        {"{{ 1 + }}", "an expression is expected, not '}}'"},
        {"{{ (1 }}", "unexpected '}', expected ')'"},
        {"{{ 'a }}", "a string has no closing quote"},
        {"{# a", "the comment has no end"},
        {"{% raw %} a", "the tag 'raw' has no 'endraw'"},
        {"{{ a", "the template ends inside of '{{'"},
        {"{{ a ? b }}", "unexpected character '?'"},
        {"{{ é }}", "a name may have ASCII characters only"},
        {"{{ 0x10 }}", "numbers in base 2, 8 or 16 are not supported"},
        {"{{ 12345678901234567890 }}", "an integer has more than 18 digits"},
        {"{{ '\\N{DASH}' }}", "a string has an escape that is not supported"},
        {"{{ x.__class__ }}", "the attribute '__class__' is internal to Python"},
        {"{% break %}", "'break' outside of a loop"},
        {"{% for x in y %}{% macro m() %}{% continue %}{% endmacro %}{% endfor %}", "'continue' outside of a loop"},
        {"{% set 1 = 2 %}", "a value can be assigned to a name only"},
        {"{% for loop in x %}{% endfor %}", "a loop cannot assign to 'loop'"},
        {"{% macro m(a=1, b) %}{% endmacro %}", "a parameter without a default follows one with a default"},
        {"{{ f(a=1, 2) }}", "the arguments of a call are in a wrong order"},
        {"{{ x is defined is none }}", "tests with 'is' cannot be chained"},
        {"{% call x %}{% endcall %}", "the tag 'call' needs a call"},
        {"\xff", "the text is not UTF-8"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) check_error(cases[i][0], BRAID_FORMAT, cases[i][1]);
}

static void names_mistakes_of_a_rendering(void **state) {
    (void)state;
    static const char *const cases[][2] = {
        {"a\nb{{ nothing.x }}", "line 2: 'nothing' is undefined"},
        {"{{ messages[0].nothing.x }}", "a value of type 'dict' has no attribute 'nothing'"},
        {"{{ messages[9].x }}", "a value of type 'list' has no attribute '9'"},
        {"{{ nothing() }}", "'nothing' is undefined"},
        {"{{ 1() }}", "a value of type 'int' cannot be called"},
        {"{{ 1 + 'a' }}", "'+' is not possible for 'int' and 'str'"},
        {"{% set _ = messages.append(1) %}", "a template may not change a list; 'append' does"},
        {"{{ 'a'.expandtabs() }}", "the method 'expandtabs' of 'str' is not supported"},
        {"{{ 'a'.replace('b') }}", "replace needs the argument 'new'"},
        {"{{ 'a'.strip(1, 2) }}", "strip takes at most 1 arguments"},
        {"{{ 'a' | trim(nope=1) }}", "trim has no argument 'nope'"},
        {"{{ (1 if false).x }}", "a condition without 'else' was false"},
        {"{{ 9223372036854775807 * 2 }}", "an integer has more than 18 digits"},
        {"{{ 999999999999999999 * 999 }}", "an integer leaves 64 bits"},
        {"{{ lipsum() }}", "the function 'lipsum' is not supported"},
        {"{{ strftime_now('%Y') }}", "the template asks for the date, which was not given"},
        {"{{ range(1, 2, 0) }}", "the step of 'range' is 0"},
        {"{{ 'abc'[::0] }}", "the step of a slice is 0"},
        {"{% set messages.x = 1 %}", "only attributes of a namespace can be assigned, not those of 'list'"},
        {"{% set n = namespace() %}{% set n._x = 1 %}", "an attribute of a namespace may not begin with '_'"},
        {"{{ {}[[]].x }}", "a value of type 'dict' has no attribute '[]'"},
        {"{{ {[]: 1} }}", "a value of type 'list' cannot be a key"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) check_error(cases[i][0], BRAID_FORMAT, cases[i][1]);
    check_error("\n{{ raise_exception('no ' ~ 1) }}", BRAID_ARGUMENT,
                "line 2: the template refuses these messages: no 1");
}

// Repeats a part `count` times between two others.
static char *repeat(const char *before, const char *part, size_t count, const char *after) {
    size_t n = strlen(part);
    char *text = malloc(strlen(before) + n * count + strlen(after) + 1), *at = text;
    assert_non_null(text);
    at += sprintf(at, "%s", before);
    for (size_t i = 0; i < count; i++, at += n) memcpy(at, part, n);
    sprintf(at, "%s", after);
    return text;
}

static void check_repeated(const char *before, const char *part, size_t count, const char *after, braid_err want,
                           const char *text) {
    char *source = repeat(before, part, count, after);
    check_error(source, want, text);
    free(source);
}

static void bounds_everything(void **state) {
    (void)state;
    check_repeated("{{ ", "(", 5000, "", BRAID_FORMAT, "nested more than 100 deep");
    check_repeated("{{ ", "- ", 5000, "1 }}", BRAID_FORMAT, "nested more than 100 deep");
    check_repeated("{{ ", "not ", 5000, "1 }}", BRAID_FORMAT, "nested more than 100 deep");
    check_repeated("", "{% if 1 %}", 5000, "", BRAID_FORMAT, "nested more than 100 deep");
    check_repeated("{{ 1", " + 1", 5000, " }}", BRAID_FORMAT, "a chain of more than 400 operators");
    check_repeated("{{ x", ".x", 5000, " }}", BRAID_FORMAT, "a chain of more than 400 operators");
    check_repeated("", "a", CHAT_MAX_SOURCE_BYTES + 1, "", BRAID_LIMIT, "are more than 1048576");
    check_error("{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}", BRAID_LIMIT, "");
    check_error("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", BRAID_LIMIT, "calls itself too deeply");
    check_error("{% set n = namespace(l=[]) %}{% for i in range(2000) %}{% set n.l = [n.l] %}{% endfor %}{{ n.l }}",
                BRAID_LIMIT, "nested too deeply");
    check_error(
        "{% set n = namespace(l=[]) %}{% for i in range(2000) %}{% set n.l = [n.l] %}{% endfor %}{{ n.l == n.l[0] }}",
        BRAID_LIMIT, "nested too deeply");
    check_error("{% set n = namespace(t='ab') %}{% for i in range(60) %}{% set n.t = n.t + n.t %}{% endfor %}",
                BRAID_LIMIT, "");
    check_error("{{ 'x' * 100000000 }}", BRAID_LIMIT, "a repeated value is too long");
    check_error("{% set x = 'x' * 4000000 %}{% for i in range(99) %}{{ x }}{% endfor %}", BRAID_LIMIT, "");
    check_error("{{ range(100001) }}", BRAID_LIMIT, "more than 100000 items");
    check_error("{{ 'a' | center(99999999999) }}", BRAID_LIMIT, "a text is too long");
    check_error("{{ ('a' * 3000000).replace('a', 'b' * 3000) }}", BRAID_LIMIT, "");
    check_error("{{ ('a' * 3000000 + 'b') in ('a' * 4000000) }}", BRAID_LIMIT, "steps");
}

static void takes_only_well_formed_input(void **state) {
    (void)state;
    static const struct {
        chat_input in;
        const char *text;
    } cases[] = {{{.messages = NULL}, "a chat needs messages"},
                 {{.messages = "[]"}, "an array of at least one object"},
                 {{.messages = "{}"}, "an array of at least one object"},
                 {{.messages = "[1]"}, "an array of at least one object"},
                 {{.messages = "[{]"}, "the messages of a chat: not valid JSON"},
                 {{.messages = one_message, .tools = "[1]"}, "the tools must be an array of objects"},
                 {{.messages = one_message, .tools = "]"}, "the tools of a chat: not valid JSON"},
                 {{.messages = one_message, .variables = "[]"}, "the variables must be an object"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *text;
        braid_error error = {0};
        assert_int_not_equal(render("x", &cases[i].in, &text, &error), BRAID_OK);
        if (!strstr(error.text, cases[i].text)) fail_msg("'%s', expected '%s'", error.text, cases[i].text);
        assert_null(text);
    }
}

static void appends_messages(void **state) {
    (void)state;
    char *messages = NULL, *text;
    braid_error error = {0};
    assert_int_equal(chat_append_message(&messages, "system", "a \"b\"\\\n\t\x01", 9, &error), BRAID_OK);
    assert_int_equal(chat_append_message(&messages, "user", "\xff\xc3\xa9", 3, &error), BRAID_OK);
    assert_int_equal(chat_append_message(&messages, "assistant", "", 0, &error), BRAID_OK);
    const chat_input in = {.messages = messages, .bos = "<\xff>"};
    assert_int_equal(
        render("{{ bos_token }}{% for m in messages %}{{ m.role }}={{ m.content }};{% endfor %}", &in, &text, &error),
        BRAID_OK);
    assert_string_equal(text, "<\xef\xbf\xbd>system=a \"b\"\\\n\t\x01;user=\xef\xbf\xbd\xc3\xa9;assistant=;");
    free(text);
    free(messages);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refuses_unknown_constructs), cmocka_unit_test(names_mistakes_of_a_rendering),
        cmocka_unit_test(bounds_everything),          cmocka_unit_test(takes_only_well_formed_input),
        cmocka_unit_test(appends_messages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
