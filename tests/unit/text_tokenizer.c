// Refusals and their messages, GGUF vocabularies, training, and files beside a tokenizer.json.
#include "text/tokenizer.h"
#include "text/train.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
// after those above
#include <cmocka.h>

#define MODEL "\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0, \"b\": 1, \"ab\": 3}, \"merges\": [\"a b\"]}"

static tokenizer *parse(const char *text) {
    tokenizer *t = NULL;
    braid_error error = {0};
    if (tokenizer_parse(text, strlen(text), &t, &error)) fail_msg("%s: %s", text, error.text);
    return t;
}

static void expect_ids(const tokenizer *t, const char *text, unsigned flags, const uint32_t *want, size_t count) {
    tokenizer_encoder *e = tokenizer_encoder_new(t);
    tokenizer_ids ids = {0};
    braid_error error = {0};
    assert_int_equal(tokenizer_encode(e, text, strlen(text), flags, &ids, &error), BRAID_OK);
    assert_int_equal(ids.count, count);
    if (count) assert_memory_equal(ids.at, want, count * sizeof *want);
    tokenizer_ids_free(&ids);
    tokenizer_encoder_free(e);
}
#define EXPECT(t, text, flags, ...) \
    expect_ids(t, text, flags, (const uint32_t[]){__VA_ARGS__}, sizeof((uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t))

static void unsupported_parts_are_named(void **state) {
    (void)state;
    static const char *const files[][2] = {
        {"{" MODEL ", \"normalizer\": {\"type\": \"Magic\"}}", "normalizer 'Magic' is not supported"},
        {"{" MODEL ", \"pre_tokenizer\": {\"type\": \"UnicodeScripts\"}}",
         "pre-tokenizer 'UnicodeScripts' is not supported"},
        {"{" MODEL ", \"decoder\": {\"type\": \"CTC\"}}", "decoder 'CTC' is not supported"},
        {"{" MODEL ", \"post_processor\": {\"type\": \"X\"}}", "post-processor 'X' is not supported"},
        {"{" MODEL ", \"pre_tokenizer\": {\"type\": \"Split\", \"pattern\": {\"Regex\": \"\\\\w+\"}, \"behavior\": "
         "\"Isolated\"}}",
         "\\w"},
        {"{\"model\": {\"type\": \"Magic\"}}", "model type \"Magic\" is not supported"},
        {"{\"model\": {\"type\": \"BPE\", \"dropout\": 0.1, \"vocab\": {}, \"merges\": []}}", "dropout"},
        {"{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0}, \"merges\": [\"a z\"]}}", "'z'"},
        {"{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 99999999}, \"merges\": []}}", "99999999"},
        {"{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0, \"b\": 1, \"ab\": 2}, \"merges\": [\"a b\", [\"a\", "
         "\"b\"]]}}",
         "merges"},
        {"{\"version\": \"2.0\", " MODEL "}", "version \"2.0\""},
        {"[]", "not a JSON object"},
        {"{" MODEL, "not a JSON object"},
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        tokenizer *t = NULL;
        braid_error error = {0};
        if (tokenizer_parse(files[i][0], strlen(files[i][0]), &t, &error) == BRAID_OK)
            fail_msg("%s is taken", files[i][0]);
        assert_null(t);
        if (!strstr(error.text, files[i][1]) || strncmp(error.text, "tokenizer.json", 14) != 0)
            fail_msg("%s: '%s' lacks '%s'", files[i][0], error.text, files[i][1]);
    }
}

#define GROW "{\"type\": \"Replace\", \"pattern\": {\"String\": \"a\"}, \"content\": \"aaaaaaaaaa\"}"

static braid_err encode_grown(const char *steps, size_t length) {
    char file[2000], text[4000];
    snprintf(file, sizeof file, "{" MODEL ", \"normalizer\": {\"type\": \"Sequence\", \"normalizers\": [%s]}}", steps);
    tokenizer *t = parse(file);
    tokenizer_encoder *e = tokenizer_encoder_new(t);
    tokenizer_ids ids = {0};
    braid_error error = {0};
    memset(text, 'a', length);
    braid_err err = tokenizer_encode(e, text, length, 0, &ids, &error);
    if (err) assert_non_null(strstr(error.text, "normalizers make more than"));
    tokenizer_ids_free(&ids);
    tokenizer_encoder_free(e);
    tokenizer_free(t);
    return err;
}

static void normalizers_may_not_grow_a_text_without_limit(void **state) {
    (void)state;
    assert_int_equal(encode_grown(GROW, 4000), BRAID_OK);
    assert_int_equal(encode_grown(GROW ", " GROW, 100), BRAID_OK);  // short texts may
    assert_int_equal(encode_grown(GROW ", " GROW, 4000), BRAID_LIMIT);
    assert_int_equal(encode_grown(GROW ", " GROW ", " GROW ", " GROW ", " GROW ", " GROW, 4000), BRAID_LIMIT);
}

// The id of an added token in the file is ignored when the text is new: it gets the number of tokens, which a hole makes the id of another.
static void added_tokens_count_on(void **state) {
    (void)state;
    tokenizer *t = parse(
        "{" MODEL ", \"added_tokens\": [{\"id\": 999, \"content\": \"<x>\", \"special\": true, \"normalized\": false},"
        "{\"id\": 1, \"content\": \"b\", \"special\": false, \"normalized\": false}]}");
    EXPECT(t, "a<x>b", TOKENIZER_PARSE_SPECIAL, 0, 3, 1);
    EXPECT(t, "a<x>b", 0, 0, 1);
    assert_int_equal(tokenizer_size(t), 4);
    assert_int_equal(tokenizer_id(t, "<x>", 3), 3);
    assert_true(tokenizer_is_special(t, 3));
    size_t length = 0;
    assert_memory_equal(tokenizer_token(t, 3, &length), "<x>", 3);
    assert_null(tokenizer_token(t, 2, &length));
    assert_null(tokenizer_token(t, 4, &length));
    char *text = NULL;
    braid_error error = {0};
    assert_int_equal(tokenizer_decode(t, (const uint32_t[]){3, 2, 77, 1}, 4, false, &text, &length, &error), BRAID_OK);
    assert_string_equal(text, "<x> b");
    free(text);
    tokenizer_free(t);
}

static void write_text(const char *directory, const char *name, const char *text) {
    char path[256];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    fputs(text, f);
    assert_int_equal(fclose(f), 0);
}

static void remove_all(const char *directory) {
    static const char *const names[] = {"tokenizer.json",         "tokenizer_config.json", "special_tokens_map.json",
                                        "generation_config.json", "config.json",           "text"};
    char path[256];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "%s/%s", directory, names[i]);
        unlink(path);
    }
    assert_int_equal(rmdir(directory), 0);
}

static void ends_come_from_the_files_beside(void **state) {
    (void)state;
    char directory[] = "/tmp/braid-text-XXXXXX";
    assert_non_null(mkdtemp(directory));
    write_text(directory, "tokenizer.json", "{" MODEL "}");
    write_text(directory, "tokenizer_config.json", "{\"bos_token\": \"a\", \"eos_token\": {\"content\": \"b\"}}");
    write_text(directory, "special_tokens_map.json", "{\"eos_token\": \"ab\"}");
    write_text(directory, "config.json", "{\"eos_token_id\": [1, 3]}");
    for (int with = 0; with < 2; with++) {
        tokenizer *t = NULL;
        braid_error error = {0};
        uint32_t count = 9;
        if (with) write_text(directory, "generation_config.json", "{}");
        assert_int_equal(tokenizer_open(directory, &t, &error), BRAID_OK);
        assert_int_equal(tokenizer_bos(t), 0);
        assert_int_equal(tokenizer_eos(t), 3);
        const uint32_t *stops = tokenizer_stops(t, &count);
        assert_int_equal(count, with ? 0 : 2);
        if (!with) assert_true(stops[0] == 1 && stops[1] == 3);
        tokenizer_free(t);
    }
    remove_all(directory);
}

static tokenizer_vocabulary bare(const char *model, const tokenizer_text *tokens, uint32_t count) {
    return (tokenizer_vocabulary){.model = model,
                                  .tokens = tokens,
                                  .count = count,
                                  .bos = TOKENIZER_NO_ID,
                                  .eos = TOKENIZER_NO_ID,
                                  .unknown = TOKENIZER_NO_ID,
                                  .separator = TOKENIZER_NO_ID,
                                  .classifier = TOKENIZER_NO_ID,
                                  .add_bos = -1,
                                  .add_eos = -1,
                                  .add_space_prefix = -1};
}

static void gguf_spm(void **state) {
    (void)state;
    static const tokenizer_text tokens[] = {{"<unk>", 5},
                                            {"<s>", 3},
                                            {"</s>", 4},
                                            {"\xe2\x96\x81", 3},
                                            {"a", 1},
                                            {"b", 1},
                                            {"ab", 2},
                                            {"\xe2\x96\x81"
                                             "a",
                                             4},
                                            {"<0xC3>", 6},
                                            {"<0xA9>", 6}};
    static const float scores[] = {0, 0, 0, -5, -6, -7, -1, -2, 0, 0};
    static const int32_t types[] = {2, 3, 3, 1, 1, 1, 1, 1, 6, 6};
    tokenizer_vocabulary v = bare("llama", tokens, 10);
    v.scores = scores;
    v.types = types;
    tokenizer *t = NULL;
    braid_error error = {0};
    assert_int_equal(tokenizer_from_vocabulary(&v, &t, &error), BRAID_OK);
    EXPECT(t, "ab", TOKENIZER_ADD_SPECIAL, 1, 3, 6);  // "ab" has the greater score, so the space stays alone
    EXPECT(t, "a b", 0, 7, 3, 5);
    // a space again behind a special token
    EXPECT(t, "a</s>a", TOKENIZER_PARSE_SPECIAL, 7, 2, 7);
    EXPECT(t, "\xc3\xa9", 0, 3, 8, 9);
    char bytes[8];
    assert_int_equal(tokenizer_token_bytes(t, 8, bytes, sizeof bytes), 1);
    assert_int_equal((uint8_t)bytes[0], 0xc3);
    assert_int_equal(tokenizer_token_bytes(t, 7, bytes, sizeof bytes), 2);
    assert_memory_equal(bytes, " a", 2);
    tokenizer_free(t);
}

// As llama.cpp: the file's end token, then others by their texts.
static void gguf_stops(void **state) {
    (void)state;
    static const tokenizer_text tokens[] = {
        {"<|endoftext|>", 13}, {"a", 1}, {"<|im_end|>", 10}, {"<|im_start|>", 12}, {"<reponame>", 10}};
    static const tokenizer_text merges[] = {{"a a", 3}};
    static const int32_t types[] = {3, 1, 3, 3, 3};
    tokenizer_vocabulary v = bare("gpt2", tokens, 5);
    v.pre = "smollm";
    v.merges = merges;
    v.merge_count = 1;
    v.types = types;
    v.eos = 2;
    tokenizer *t = NULL;
    braid_error error = {0};
    if (tokenizer_from_vocabulary(&v, &t, &error)) fail_msg("%s", error.text);
    uint32_t count;
    const uint32_t *stops = tokenizer_stops(t, &count);
    bool ends[5] = {false};
    for (uint32_t i = 0; i < count; i++) ends[stops[i]] = true;
    assert_true(count == 3 && stops[0] == 2);
    assert_true(ends[0] && ends[2] && ends[4]);
    tokenizer_free(t);
}

static void gguf_names_are_refused(void **state) {
    (void)state;
    static const tokenizer_text tokens[] = {{"a", 1}};
    static const tokenizer_text merges[] = {{"a a", 3}};
    static const char *const cases[][3] = {{"rwkv", NULL, "tokenizer.ggml.model 'rwkv' is not supported"},
                                           {"t5", NULL, "tokenizer.ggml.model 't5' is not supported"},
                                           {"gpt2", "gpt2", "tokenizer.ggml.pre 'gpt2' is not supported"}};
    for (size_t i = 0; i < 3; i++) {
        tokenizer_vocabulary v = bare(cases[i][0], tokens, 1);
        v.pre = cases[i][1];
        v.merges = merges;
        v.merge_count = 1;
        tokenizer *t = NULL;
        braid_error error = {0};
        assert_int_equal(tokenizer_from_vocabulary(&v, &t, &error), BRAID_CONFIG);
        assert_string_equal(error.text, cases[i][2]);
    }
    tokenizer_vocabulary v = bare("gpt2", tokens, 1);
    tokenizer *t = NULL;
    braid_error error = {0};
    assert_int_equal(tokenizer_from_vocabulary(&v, &t, &error), BRAID_FORMAT);
    assert_non_null(strstr(error.text, "without merges"));
}

// Ties go to the pair with the lowest ids; the texts come back.
static void training_is_deterministic(void **state) {
    (void)state;
    char directory[] = "/tmp/braid-text-XXXXXX", path[64];
    assert_non_null(mkdtemp(directory));
    snprintf(path, sizeof path, "%s/text", directory);
    write_text(directory, "text", "cd ab cd ab abab\nab cdcd\xff\n");
    const char *paths[] = {path};
    tokenizer_training result = {0};
    tokenizer *t = NULL;
    braid_error error = {0};
    assert_int_equal(tokenizer_train(paths, 1, 259, directory, &result, &error), BRAID_OK);
    assert_int_equal(result.tokens, 259);
    assert_int_equal(tokenizer_open(directory, &t, &error), BRAID_OK);
    assert_int_equal(tokenizer_size(t), 259);
    assert_int_equal(tokenizer_eos(t), 0);
    assert_int_equal(tokenizer_id(t, "ab", 2), 257);  // five times
    assert_int_equal(tokenizer_id(t, "cd", 2), 258);  // four times
    EXPECT(t, "abcd<|endoftext|>ab", TOKENIZER_PARSE_SPECIAL, 257, 258, 0, 257);
    tokenizer_free(t);
    remove_all(directory);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(unsupported_parts_are_named),
                                       cmocka_unit_test(normalizers_may_not_grow_a_text_without_limit),
                                       cmocka_unit_test(added_tokens_count_on),
                                       cmocka_unit_test(ends_come_from_the_files_beside),
                                       cmocka_unit_test(gguf_spm),
                                       cmocka_unit_test(gguf_stops),
                                       cmocka_unit_test(gguf_names_are_refused),
                                       cmocka_unit_test(gguf_stops),
                                       cmocka_unit_test(training_is_deterministic)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
