// Untrusted arrays of a GGUF vocabulary are refused in one sentence, or they are usable.
#include "fuzz.h"

#include "base/rng.h"
#include "text/tokenizer.h"

#include <string.h>

enum { MOST = 64 };

size_t fuzz_example(uint64_t number, uint8_t *bytes, size_t capacity) {
    static const char *const tokens[] = {"a",
                                         "b",
                                         "ab",
                                         "\xe2\x96\x81",
                                         "\xe2\x96\x81\x61",
                                         "<s>",
                                         "<0x41>",
                                         "\xc4\xa0",
                                         "",
                                         "zz"};
    rng r = {rng_seed(79, number)};
    size_t n = 0;
    bytes[n++] = (uint8_t)rng_below(&r, 256);
    bytes[n++] = (uint8_t)rng_below(&r, 256);
    for (uint64_t i = rng_below(&r, 20); i > 0 && n + 16 < capacity; i--) {
        const char *token = tokens[rng_below(&r, 10)];
        bytes[n++] = (uint8_t)rng_below(&r, 256);
        bytes[n++] = (uint8_t)strlen(token);
        memcpy(bytes + n, token, strlen(token));
        n += strlen(token);
    }
    return n;
}

// Two bytes of choices, then tokens: a byte of type and score, a length, the text.
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const models[] = {"gpt2", "llama", "bert", "gemma4", "t5"}, *const pres[] = {NULL, "llama-bpe",
                                                                                                    "gpt-2", "tekken"};
    static const tokenizer_text merges[] = {{"a b", 3}, {"b a", 3}, {" ", 1}, {"a  b", 4}};
    tokenizer_text tokens[MOST];
    float scores[MOST];
    int32_t types[MOST];
    uint32_t count = 0;
    if (size < 2) return 0;
    for (size_t at = 2; at + 2 <= size && count < MOST; count++) {
        size_t length = data[at + 1] < size - at - 2 ? data[at + 1] : size - at - 2;
        types[count] = data[at] % 8;
        scores[count] = (float)(data[at] / 8) - 16;
        tokens[count] = (tokenizer_text){(const char *)data + at + 2, length};
        at += 2 + length;
    }
    tokenizer_vocabulary v = {.model = models[data[0] % 5],
                              .pre = pres[data[0] / 5 % 4],
                              .count = count,
                              .tokens = tokens,
                              .scores = data[1] & 1 ? scores : NULL,
                              .types = data[1] & 2 ? types : NULL,
                              .merges = data[1] & 4 ? merges : NULL,
                              .merge_count = data[1] & 8 ? 4 : 2,
                              .bos = data[1] & 16 ? data[0] : TOKENIZER_NO_ID,
                              .eos = TOKENIZER_NO_ID,
                              .unknown = data[1] & 32 ? 0 : TOKENIZER_NO_ID,
                              .separator = TOKENIZER_NO_ID,
                              .classifier = TOKENIZER_NO_ID,
                              .add_bos = -1,
                              .add_eos = -1,
                              .add_space_prefix = data[1] & 64 ? 1 : -1};
    tokenizer *t = NULL;
    braid_error error = {0};
    braid_err err = tokenizer_from_vocabulary(&v, &t, &error);
    FUZZ_CHECK((err == BRAID_OK) == (t != NULL));
    FUZZ_CHECK(err == BRAID_OK || error.text[0] != 0);
    if (!t) return 0;
    tokenizer_encoder *e = tokenizer_encoder_new(t);
    tokenizer_ids ids = {0};
    char *text = NULL;
    size_t length = 0;
    FUZZ_CHECK(e != NULL);
    FUZZ_CHECK(tokenizer_encode(e, "ab a<s>b\xc3\xa9 zz\n\n", 15, 3, &ids, &error) == BRAID_OK || error.text[0]);
    FUZZ_CHECK(tokenizer_decode(t, ids.at, ids.count, true, &text, &length, &error) == BRAID_OK);
    free(text);
    tokenizer_ids_free(&ids);
    tokenizer_encoder_free(e);
    tokenizer_free(t);
    return 0;
}
