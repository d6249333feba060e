// Any bytes through tokenizers of several kinds: ids are tokens, and a byte-level one gives the valid text back.
#include "fuzz.h"

#include "base/rng.h"
#include "text/inside.h"

enum { KINDS = 4 };

static tokenizer *load(const char *name) {
    char path[1024];
    tokenizer *t = NULL;
    braid_error error = {0};
    snprintf(path, sizeof path, "%s/golden/fixtures/tokenizers/%s.json", BRAID_TEST_FIXTURES, name);
    FUZZ_CHECK(tokenizer_open(path, &t, &error) == BRAID_OK);
    return t;
}

size_t fuzz_example(uint64_t number, uint8_t *bytes, size_t capacity) {
    static const char *const parts[] = {"the ",         "  ",     "'LL",     "\n",   "\xc3\xa9",     "\xff",
                                        "\xe6\x97\xa5", "[MASK]", "<|end|>", "1234", "\xf0\x9f\x99", "aaaaaaaa"};
    rng r = {rng_seed(78, number)};
    size_t n = 0;
    for (uint64_t i = rng_below(&r, 40); i > 0 && n + 16 < capacity; i--) {
        const char *part = parts[rng_below(&r, sizeof parts / sizeof *parts)];
        memcpy(bytes + n, part, strlen(part));
        n += strlen(part);
    }
    return n;
}

static void check_round_trip(const tokenizer *t, const tokenizer_ids *ids, const uint8_t *data, size_t size) {
    char *text = NULL;
    size_t length = 0;
    braid_error error = {0};
    buffer valid = {0};
    utf8_repair((const char *)data, size, &valid);
    FUZZ_CHECK(tokenizer_decode(t, ids->at, ids->count, false, &text, &length, &error) == BRAID_OK);
    FUZZ_CHECK(length == valid.count && (length == 0 || memcmp(text, valid.at, length) == 0));
    free(text);
    buffer_free(&valid);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const names[KINDS] = {"llama3", "llama2", "bert", "unigram"};
    static tokenizer *all[KINDS];
    static tokenizer_encoder *encoders[KINDS];
    for (unsigned i = 0; i < KINDS; i++) {
        if (!all[i]) {
            all[i] = load(names[i]);
            encoders[i] = tokenizer_encoder_new(all[i]);
        }
        tokenizer_ids ids = {0};
        braid_error error = {0};
        size_t length;
        FUZZ_CHECK(tokenizer_encode(encoders[i], (const char *)data, size, 0, &ids, &error) == BRAID_OK);
        for (size_t k = 0; k < ids.count; k++) FUZZ_CHECK(tokenizer_token(all[i], ids.at[k], &length) != NULL);
        if (i == 0) check_round_trip(all[i], &ids, data, size);
        tokenizer_ids_free(&ids);
    }
    return 0;
}
