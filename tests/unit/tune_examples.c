// Rows as examples: which tokens count, what is cut, and what is refused. Tokens are bytes, or those
// of a tokenizer of single characters.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tune/examples.h"

// a, b, c, d, ':', ';' and the token <end>, which ends a text.
static const char vocabulary[] =
    "{\"added_tokens\":[{\"id\":6,\"content\":\"<end>\",\"special\":true,\"single_word\":false,\"lstrip\":false,"
    "\"rstrip\":false,\"normalized\":false}],\"normalizer\":null,\"pre_tokenizer\":{\"type\":\"ByteLevel\","
    "\"add_prefix_space\":false,\"trim_offsets\":true,\"use_regex\":false},\"post_processor\":null,\"decoder\":{"
    "\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"trim_offsets\":true,\"use_regex\":false},\"model\":{"
    "\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"c\":2,\"d\":3,\":\":4,\";\":5},\"merges\":[]}}";
static const char letters[] = "abcd:;$";  // of the ids
static const char marked[] = "{% for m in messages %}{{ m.role[0] }}:{{ m.content }}<end>{% endfor %}"
                             "{% if add_generation_prompt %}a:{% endif %}";
static const char forgetful[] = "{% for m in messages %}{% if loop.last %}{{ m.content }}{% endif %}{% endfor %}"
                                "{% if add_generation_prompt %}a:{% endif %}";

typedef struct fixture {
    char path[64];
    tokenizer *tokenizer;
    tokenizer_encoder *encoder;
    chat_template *template_;
    tune_examples examples;
    braid_error error;
} fixture;

static int open_fixture(void **state) {
    fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    snprintf(f->path, sizeof f->path, "/tmp/braid-examples-XXXXXX");
    int fd = mkstemp(f->path);
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(tokenizer_parse(vocabulary, sizeof vocabulary - 1, &f->tokenizer, NULL), BRAID_OK);
    f->encoder = tokenizer_encoder_new(f->tokenizer);
    assert_int_equal(chat_template_parse(marked, sizeof marked - 1, &f->template_, NULL), BRAID_OK);
    *state = f;
    return 0;
}

static int close_fixture(void **state) {
    fixture *f = *state;
    unlink(f->path);
    examples_free(&f->examples);
    chat_template_free(f->template_);
    tokenizer_encoder_free(f->encoder);
    tokenizer_free(f->tokenizer);
    free(f);
    return 0;
}

static braid_err read_rows(fixture *f, const char *rows, uint32_t longest, bool bytes) {
    FILE *file = fopen(f->path, "w");
    assert_non_null(file);
    fputs(rows, file);
    fclose(file);
    examples_free(&f->examples);
    examples_source s = {.path = f->path, .longest = longest};
    if (!bytes) s.tokenizer = f->tokenizer;
    if (!bytes) s.encoder = f->encoder;
    if (!bytes) s.template_ = f->template_;
    return examples_read(&f->examples, &s, &f->error);
}

// The tokens of an example; those that count in upper case, `$` for the end.
static void expect_example(const fixture *f, uint32_t i, const char *expected) {
    const tune_examples *e = &f->examples;
    char found[64] = "";
    uint64_t first = examples_begin(e, i);
    for (uint64_t k = first; k < e->ends[i]; k++) {
        char letter = letters[e->ids.at[k]];
        bool small = letter >= 'a' && letter <= 'd';
        found[k - first] = e->learned[k] ? (char)(small ? letter - 32 : letter == '$' ? '!' : letter) : letter;
    }
    assert_string_equal(found, expected);
}

static void test_the_assistants_turns_count(void **state) {
    fixture *f = *state;
    const char *rows =
        "{\"messages\": [{\"role\": \"c\", \"content\": \"b\"}, {\"role\": \"assistant\", \"content\": \"dc\"},"
        " {\"role\": \"c\", \"content\": \"dd\"}, {\"role\": \"assistant\", \"content\": \"a\"}]}\n";
    assert_int_equal(read_rows(f, rows, 100, false), BRAID_OK);
    expect_example(f, 0, "c:b$a:DC!c:dd$a:A!");
}

static void test_completions_and_texts_count(void **state) {
    fixture *f = *state;
    const char *rows = "{\"prompt\": \"ab\", \"completion\": \"cd\"}\n{\"text\": \"abc\"}\n";
    assert_int_equal(read_rows(f, rows, 100, false), BRAID_OK);
    assert_int_equal(f->examples.count, 2);
    expect_example(f, 0, "abCD");
    expect_example(f, 1, "aBC");  // the first token has nothing before it
}

static void test_long_examples_are_cut_and_counted(void **state) {
    fixture *f = *state;
    const char *rows =
        "{\"prompt\": \"ab\", \"completion\": \"cdcdcdcd\"}\n{\"prompt\": \"abababab\", \"completion\": \"c\"}\n"
        "{\"text\": \"a\"}\n{\"text\": \"ab\"}\n";
    assert_int_equal(read_rows(f, rows, 6, false), BRAID_OK);
    assert_int_equal(f->examples.count, 2);
    assert_int_equal(f->examples.cut, 2);
    assert_int_equal(f->examples.cut_tokens, 4 + 3);
    assert_int_equal(f->examples.dropped, 2);
    expect_example(f, 0, "abCDCD");
    expect_example(f, 1, "aB");
}

static void test_bytes_are_tokens_of_a_model_without_a_tokenizer(void **state) {
    fixture *f = *state;
    assert_int_equal(read_rows(f, "{\"text\": \"xyz\"}\n", 100, true), BRAID_OK);
    assert_int_equal(f->examples.ids.count, 3);
    assert_int_equal(f->examples.ids.at[1], 'y');
}

static void expect_refused(fixture *f, const char *rows, const char *why) {
    f->error = (braid_error){0};
    assert_int_not_equal(read_rows(f, rows, 100, false), BRAID_OK);
    if (!strstr(f->error.text, why)) fail_msg("'%s' is expected in: %s", why, f->error.text);
}

static void test_each_bad_row_has_its_sentence(void **state) {
    fixture *f = *state;
    expect_refused(f, "{\"text\": \"ab\"}\n{\"text\": 5}\n", ":2: the row has neither messages");
    expect_refused(f, "{\"prompt\": \"a\", \"completion\": 5}\n", ":1: prompt and completion must both be texts");
    expect_refused(f, "{\"messages\": []}\n", "no turn of the assistant");
    expect_refused(f, "{\"messages\": [{\"role\": \"c\", \"content\": \"b\"}]}\n", "no turn of the assistant");
    expect_refused(f, "{\"messages\": [5]}\n", "message 1 has no role");
    expect_refused(f, "{\"text\": \"a\"}\n", "no example with a token to learn");
    expect_refused(f, "{\"text\": \"a\"", "");
    expect_refused(f, "", "no example with a token to learn");
    chat_template_free(f->template_);
    assert_int_equal(chat_template_parse(forgetful, sizeof forgetful - 1, &f->template_, NULL), BRAID_OK);
    expect_refused(
        f, "{\"messages\": [{\"role\": \"c\", \"content\": \"b\"}, {\"role\": \"assistant\", \"content\": \"d\"}]}\n",
        "cannot mark the assistant's turns");
    chat_template_free(f->template_);
    f->template_ = NULL;
    expect_refused(f, "{\"messages\": [{\"role\": \"c\", \"content\": \"b\"}]}\n", "has no chat template");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_the_assistants_turns_count, open_fixture, close_fixture),
        cmocka_unit_test_setup_teardown(test_completions_and_texts_count, open_fixture, close_fixture),
        cmocka_unit_test_setup_teardown(test_long_examples_are_cut_and_counted, open_fixture, close_fixture),
        cmocka_unit_test_setup_teardown(test_bytes_are_tokens_of_a_model_without_a_tokenizer, open_fixture,
                                        close_fixture),
        cmocka_unit_test_setup_teardown(test_each_bad_row_has_its_sentence, open_fixture, close_fixture),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
