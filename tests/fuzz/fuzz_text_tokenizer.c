// An untrusted tokenizer.json is refused in one sentence, or it tokenizes texts without harm.
#include "fuzz.h"

#include "base/rng.h"
#include "text/tokenizer.h"

#include <string.h>

static const char *const normalizers[] = {
    "null",
    "{\"type\":\"NFC\"}",
    "{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"NFKD\"},{\"type\":\"StripAccents\"},{\"type\":\"Lowercase\"}]"
    "}",
    "{\"type\":\"BertNormalizer\",\"clean_text\":true,\"handle_chinese_chars\":true,\"strip_accents\":null,"
    "\"lowercase\":true}",
    "{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"b\"}",
    "{\"type\":\"Prepend\",\"prepend\":\"a\"}",
    "{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"CAAAAAAIAAAAAAAAYQBi\"}"};
static const char *const pre_tokenizers[] = {
    "null",
    "{\"type\":\"ByteLevel\",\"add_prefix_space\":true,\"trim_offsets\":true}",
    "{\"type\":\"Whitespace\"}",
    "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"\\\\s+|a{1,2}(?=b)|[^ab]\"},\"behavior\":\"MergedWithNext\","
    "\"invert\":false}",
    "{\"type\":\"Metaspace\",\"replacement\":\"b\",\"prepend_scheme\":\"first\",\"split\":true}",
    "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Digits\",\"individual_digits\":true},{\"type\":"
    "\"Punctuation\"},{\"type\":\"BertPreTokenizer\"}]}"};
static const char *const models[] = {
    "{\"type\":\"BPE\",\"unk_token\":\"u\",\"byte_fallback\":true,\"fuse_unk\":true,\"vocab\":{\"u\":0,\"a\":1,\"b\":2,"
    "\"ab\":3,\"<0xC3>\":5},\"merges\":[\"a b\"]}",
    "{\"type\":\"WordPiece\",\"unk_token\":\"u\",\"continuing_subword_prefix\":\"##\",\"max_input_chars_per_word\":9,"
    "\"vocab\":{\"u\":0,\"a\":1,\"##b\":2}}",
    "{\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":[[\"u\",0],[\"a\",-1.5],[\"ab\",-2],[\"b\",-3]]}",
    "{\"type\":\"WordLevel\",\"unk_token\":\"u\",\"vocab\":{\"u\":0,\"ab\":7}}"};
static const char *const decoders[] = {"null",
                                       "{\"type\":\"ByteFallback\"}",
                                       "{\"type\":\"ByteLevel\",\"add_prefix_space\":true,\"trim_offsets\":true}",
                                       "{\"type\":\"WordPiece\",\"prefix\":\"##\",\"cleanup\":true}",
                                       "{\"type\":\"BPEDecoder\",\"suffix\":\"b\"}",
                                       "{\"type\":\"Strip\",\"content\":\"a\",\"start\":2,\"stop\":2}"};

size_t fuzz_example(uint64_t number, uint8_t *bytes, size_t capacity) {
    rng r = {rng_seed(77, number)};
    int n =
        snprintf((char *)bytes, capacity,
                 "{\"version\":\"1.0\",\"added_tokens\":[{\"id\":8,\"content\":\"<x>\",\"lstrip\":true,\"rstrip\":true,"
                 "\"single_word\":%s,\"normalized\":%s,\"special\":%s}],\"normalizer\":%s,\"pre_tokenizer\":%s,"
                 "\"post_processor\":{\"type\":\"BertProcessing\",\"sep\":[\"a\",1],\"cls\":[\"u\",0]},\"decoder\":%s,"
                 "\"model\":%s}",
                 rng_below(&r, 2) ? "true" : "false", rng_below(&r, 2) ? "true" : "false",
                 rng_below(&r, 2) ? "true" : "false", normalizers[rng_below(&r, 7)], pre_tokenizers[rng_below(&r, 6)],
                 decoders[rng_below(&r, 6)], models[rng_below(&r, 4)]);
    return n > 0 && (size_t)n < capacity ? (size_t)n : 0;
}

static void try_text(const tokenizer *t, tokenizer_encoder *e, const char *text, size_t length) {
    tokenizer_ids ids = {0};
    braid_error error = {0};
    char *back = NULL;
    size_t n = 0;
    if (tokenizer_encode(e, text, length, TOKENIZER_ADD_SPECIAL | TOKENIZER_PARSE_SPECIAL, &ids, &error) == BRAID_OK) {
        for (size_t i = 0; i < ids.count; i++) FUZZ_CHECK(ids.at[i] < TOKENIZER_MAX_IDS);
        FUZZ_CHECK(tokenizer_decode(t, ids.at, ids.count, false, &back, &n, &error) == BRAID_OK || error.text[0]);
        free(back);
    } else {
        FUZZ_CHECK(error.text[0] != 0);
    }
    tokenizer_ids_free(&ids);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char text[] = "ab a<x> b\xc3\xa9 12, \xff\xe2\x82 \xe6\x97\xa5 aab";
    tokenizer *t = NULL;
    braid_error error = {0};
    braid_err err = tokenizer_parse((const char *)data, size, &t, &error);
    FUZZ_CHECK((err == BRAID_OK) == (t != NULL));
    FUZZ_CHECK(err == BRAID_OK || error.text[0] != 0);
    if (!t) return 0;
    tokenizer_encoder *e = tokenizer_encoder_new(t);
    FUZZ_CHECK(e != NULL);
    try_text(t, e, text, sizeof text - 1);
    try_text(t, e, "", 0);
    tokenizer_encoder_free(e);
    tokenizer_free(t);
    return 0;
}
