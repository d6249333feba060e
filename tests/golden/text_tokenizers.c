// Small tokenizers of every kind against what tokenizers 0.23.3 does with the same texts (tools/make-tokenizer-fixtures).
#include "format/json.h"
#include "text/tokenizer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
// after those above
#include <cmocka.h>

static const char *const kinds[] = {
    "gpt2",         "roberta",      "llama3",  "qwen2",      "o200k",           "smollm",     "llama2",
    "llama2-whole", "openai-gpt",   "bert",    "unigram",    "unigram-bytes",   "wordlevel",  "bpe-whole",
    "bpe-repeated", "bpe-fallback", "bpe-unk", "bpe-prefix", "wordlevel-split", "split-next", "unigram-small"};

static char *path_of(const char *name, const char *ending) {
    static char path[1024];
    snprintf(path, sizeof path, "%s/golden/fixtures/tokenizers/%s%s", BRAID_TEST_FIXTURES, name, ending);
    return path;
}

static json *read_cases(const char *name) {
    FILE *f = fopen(path_of(name, ".cases.json"), "rb");
    assert_non_null(f);
    char *text = malloc(1 << 20);
    assert_non_null(text);
    size_t length = fread(text, 1, 1 << 20, f);
    fclose(f);
    json *d = NULL;
    braid_error error = {0};
    assert_int_equal(json_parse(text, length, &d, &error), BRAID_OK);
    free(text);
    return d;
}

static void check_ids(tokenizer_encoder *e, const char *kind, const json *d, const json_value *c, bool special) {
    const json_value *text = json_member(d, c, "text"), *want = json_member(d, c, special ? "ids" : "bare");
    tokenizer_ids ids = {0};
    braid_error error = {0};
    unsigned flags = TOKENIZER_PARSE_SPECIAL | (special ? TOKENIZER_ADD_SPECIAL : 0);
    assert_int_equal(tokenizer_encode(e, text->text, text->length, flags, &ids, &error), BRAID_OK);
    const json_value *v = json_first(d, want);
    bool same = ids.count == want->count;
    for (size_t i = 0; same && i < ids.count; i++, v = json_next(d, v)) {
        uint64_t id = 0;
        same = json_u64(v, &id) && id == ids.at[i];
    }
    if (!same) {
        print_message("%s: '%s' has the ids", kind, text->text);
        for (size_t i = 0; i < ids.count; i++) print_message(" %u", (unsigned)ids.at[i]);
        fail();
    }
    tokenizer_ids_free(&ids);
}

// Ids one after the other give the same text as all together.
static void check_stream(const tokenizer *t, const tokenizer_ids *ids, const char *want, size_t want_length) {
    tokenizer_stream *s = tokenizer_stream_new(t, false);
    assert_non_null(s);
    char *joined = calloc(1, want_length + 4096);
    size_t total = 0, length;
    const char *text;
    braid_error error = {0};
    for (size_t i = 0; i <= ids->count; i++) {
        braid_err err = i < ids->count ? tokenizer_stream_next(s, ids->at[i], &text, &length, &error)
                                       : tokenizer_stream_end(s, &text, &length, &error);
        assert_int_equal(err, BRAID_OK);
        assert_true(total + length < want_length + 4096);
        memcpy(joined + total, text, length);
        total += length;
    }
    if (total != want_length) print_message("stream gives '%.*s', not '%s'\n", (int)total, joined, want);
    assert_int_equal(total, want_length);
    assert_memory_equal(joined, want, want_length);
    free(joined);
    tokenizer_stream_free(s);
}

static void check_text(const tokenizer *t, const char *kind, const json *d, const json_value *c, bool skip,
                       bool stream) {
    const json_value *from = json_member(d, c, skip ? "ids" : "bare"),
                     *want = json_member(d, c, skip ? "skipped" : "decoded");
    tokenizer_ids ids = {.at = calloc(from->count + 1, sizeof(uint32_t))};
    for (const json_value *v = json_first(d, from); v; v = json_next(d, v)) {
        uint64_t id = 0;
        assert_true(json_u64(v, &id));
        ids.at[ids.count++] = (uint32_t)id;
    }
    char *text = NULL;
    size_t length = 0;
    braid_error error = {0};
    assert_int_equal(tokenizer_decode(t, ids.at, ids.count, skip, &text, &length, &error), BRAID_OK);
    if (length != want->length || memcmp(text, want->text, length) != 0) {
        print_message("%s: '%s' decodes to '%s', not '%s'\n", kind, json_member(d, c, "text")->text, text, want->text);
        fail();
    }
    // ByteFallback lets a bad byte spoil the bytes before it, which a stream has told already
    if (stream && !skip && !strstr(text, "\xef\xbf\xbd")) check_stream(t, &ids, text, length);
    free(text);
    tokenizer_ids_free(&ids);
}

static void same_as_tokenizers(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        tokenizer *t = NULL;
        braid_error error = {0};
        if (tokenizer_open(path_of(kinds[i], ".json"), &t, &error)) fail_msg("%s: %s", kinds[i], error.text);
        tokenizer_encoder *e = tokenizer_encoder_new(t);
        json *d = read_cases(kinds[i]);
        unsigned count = 0;
        for (const json_value *c = json_first(d, json_root(d)); c; c = json_next(d, c), count++) {
            check_ids(e, kinds[i], d, c, true);
            check_ids(e, kinds[i], d, c, false);
            bool stream = strcmp(kinds[i], "gpt2") == 0 || strncmp(kinds[i], "llama", 5) == 0;
            check_text(t, kinds[i], d, c, true, stream);
            check_text(t, kinds[i], d, c, false, stream);
        }
        assert_true(count >= 40);
        json_free(d);
        tokenizer_encoder_free(e);
        tokenizer_free(t);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(same_as_tokenizers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
