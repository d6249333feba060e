// The sample texts tell pre-tokenizers apart that differ for a model's own merges.
#include "text/unicode.h"
#include "weights/convert_inside.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
// after those above
#include <cmocka.h>

enum { BYTES = 256, TOKENS = BYTES + 1 };

// The 256 bytes, and one merge of two spaces.
static tokenizer *with_pre(const char *pre) {
    static char texts[TOKENS][8];
    static tokenizer_text tokens[TOKENS];
    static const tokenizer_text merges[] = {{"\u0120 \u0120", 5}};
    for (unsigned byte = 0; byte < BYTES; byte++)
        tokens[byte] = (tokenizer_text){texts[byte], utf8_put(texts[byte], byte_char((uint8_t)byte))};
    tokens[BYTES] = (tokenizer_text){"\u0120\u0120", 4};
    tokenizer_vocabulary v = {
        .model = "gpt2", .pre = pre, .count = TOKENS, .tokens = tokens, .merge_count = 1, .merges = merges};
    v.bos = v.eos = v.unknown = v.separator = v.classifier = TOKENIZER_NO_ID;
    v.add_bos = v.add_eos = v.add_space_prefix = -1;
    tokenizer *t = NULL;
    braid_error error = {0};
    if (tokenizer_from_vocabulary(&v, &t, &error)) fail_msg("%s: %s", pre, error.text);
    return t;
}

static bool agree(const char *one, const char *other) {
    tokenizer *a = with_pre(one), *b = with_pre(other);
    bool same = false;
    braid_error error = {0};
    assert_int_equal(tokenizers_agree(a, b, &same, &error), BRAID_OK);
    tokenizer_free(a);
    tokenizer_free(b);
    return same;
}

static void spaces_before_digits_count(void **state) {
    (void)state;
    assert_true(unicode_init());
    assert_true(agree("deepseek-llm", "deepseek-llm"));
    assert_false(agree("deepseek-llm", "qwen2"));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(spaces_before_digits_count)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
