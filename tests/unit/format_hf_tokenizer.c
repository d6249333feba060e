#include "format/hf_tokenizer.h"

#include "format/json.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

static json *parsed(char *text, size_t length) {
    json *doc = NULL;
    assert_non_null(text);
    assert_int_equal(json_parse(text, length, &doc, NULL), BRAID_OK);
    free(text);
    return doc;
}

// Of bytes_to_unicode in openai/gpt-2, src/encoder.py.
static void test_each_byte_is_the_token_of_its_number(void **state) {
    (void)state;
    static const struct {
        const char *character;
        uint64_t byte;
    } known[] = {{"Ā", 0},   {"Ċ", 10},  {"Ġ", 32},  {"!", 33},  {"\"", 34}, {"A", 65},  {"\\", 92}, {"~", 126},
                 {"ġ", 127}, {"Ģ", 128}, {"ł", 160}, {"¡", 161}, {"Ń", 173}, {"®", 174}, {"ÿ", 255}};
    size_t length;
    char *text = hf_tokenizer_write(&length);
    json *doc = parsed(text, length);
    const json_value *model = json_member(doc, json_root(doc), "model"), *vocabulary = json_member(doc, model, "vocab");
    assert_string_equal(json_string(json_member(doc, model, "type")), "BPE");
    assert_int_equal(vocabulary->count, 256);
    uint64_t next = 0, id;
    for (const json_value *v = json_first(doc, vocabulary); v; v = json_next(doc, v)) {
        assert_true(json_u64(v, &id));
        assert_int_equal(id, next++);
    }
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        assert_true(json_u64(json_member(doc, vocabulary, known[i].character), &id));
        assert_int_equal(id, known[i].byte);
    }
    assert_int_equal(json_member(doc, model, "merges")->count, 0);
    assert_int_equal(json_member(doc, json_root(doc), "added_tokens")->count, 0);
    json_free(doc);
}

// tokenizers 0.23 requires these keys; false keeps it from adding a space or splitting the text.
static void test_bytes_round_trip(void **state) {
    (void)state;
    static const char *const parts[] = {"pre_tokenizer", "decoder"}, *const off[] = {"add_prefix_space", "trim_offsets",
                                                                                     "use_regex"};
    size_t length;
    char *text = hf_tokenizer_write(&length);
    json *doc = parsed(text, length);
    for (size_t i = 0; i < 2; i++) {
        const json_value *part = json_member(doc, json_root(doc), parts[i]);
        assert_string_equal(json_string(json_member(doc, part, "type")), "ByteLevel");
        for (size_t k = 0; k < 3; k++) {
            bool on = true;
            assert_true(json_bool(json_member(doc, part, off[k]), &on) && !on);
        }
    }
    json_free(doc);
}

static void test_no_other_class_is_chosen(void **state) {
    (void)state;
    size_t length;
    uint64_t longest;
    const model_config model = {.context = 77};
    char *text = hf_tokenizer_config_write(&model, &length);
    json *doc = parsed(text, length);
    assert_string_equal(json_string(json_member(doc, json_root(doc), "tokenizer_class")), "PreTrainedTokenizerFast");
    assert_true(json_u64(json_member(doc, json_root(doc), "model_max_length"), &longest) && longest == 77);
    json_free(doc);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_byte_is_the_token_of_its_number),
        cmocka_unit_test(test_bytes_round_trip),
        cmocka_unit_test(test_no_other_class_is_chosen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
