#include "model/config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static const model_config llama = {.arch = MODEL_LLAMA,
                                   .dim = 64,
                                   .layers = 2,
                                   .heads = 8,
                                   .kv_heads = 4,
                                   .ffn_dim = 100,
                                   .vocab = 256,
                                   .context = 32,
                                   .rope_theta = 10000,
                                   .norm_eps = 1e-5f};
static const model_config gpt = {.arch = MODEL_GPT,
                                 .dim = 63,
                                 .layers = 2,
                                 .heads = 7,
                                 .kv_heads = 7,
                                 .ffn_dim = 252,
                                 .vocab = 256,
                                 .context = 32,
                                 .norm_eps = 1e-5f,
                                 .tied = true};

static void expect_ok(const model_config *c) {
    braid_error error;
    if (model_config_check(c, &error)) fail_msg("%s", error.text);
}

// The message must name the mistake.
static void expect_refused(const model_config *c, const char *word) {
    braid_error error;
    assert_int_equal(model_config_check(c, &error), BRAID_CONFIG);
    assert_int_equal(error.code, BRAID_CONFIG);
    if (!strstr(error.text, word)) fail_msg("'%s' does not name %s", error.text, word);
}

static void test_accepts(void **state) {
    (void)state;
    expect_ok(&llama);
    expect_ok(&gpt);
}

static void test_ranges(void **state) {
    (void)state;
    static const struct {
        const char *name;
        size_t at;
        uint32_t most;
    } fields[] = {
        {"dim", offsetof(model_config, dim), MODEL_MAX_DIM},
        {"layers", offsetof(model_config, layers), MODEL_MAX_LAYERS},
        {"heads", offsetof(model_config, heads), 64},
        {"kv_heads", offsetof(model_config, kv_heads), 8},
        {"ffn_dim", offsetof(model_config, ffn_dim), MODEL_MAX_FFN_DIM},
        {"vocab", offsetof(model_config, vocab), MODEL_MAX_VOCAB},
        {"context", offsetof(model_config, context), MODEL_MAX_CONTEXT},
    };
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        const uint32_t bad[] = {0, fields[i].most + 1, UINT32_MAX};
        for (size_t j = 0; j < 3; j++) {
            model_config c = llama;
            memcpy((char *)&c + fields[i].at, &bad[j], sizeof bad[j]);
            expect_refused(&c, fields[i].name);
        }
    }
}

static void test_relations(void **state) {
    (void)state;
    model_config c = llama;
    c.heads = 7;
    expect_refused(&c, "multiple of heads");
    c = llama, c.dim = 72, c.heads = 8, c.kv_heads = 8;  // heads of width 9
    expect_refused(&c, "even width");
    c = llama, c.kv_heads = 3;
    expect_refused(&c, "kv_heads");
    c = llama, c.rope_theta = 0;
    expect_refused(&c, "rope_theta");
    c = llama, c.norm_eps = 0;
    expect_refused(&c, "norm_eps");
    c = gpt, c.kv_heads = 1;
    expect_refused(&c, "kv_heads");
    c = gpt, c.arch = MODEL_ARCHS;
    expect_refused(&c, "architecture");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_accepts), cmocka_unit_test(test_ranges),
                                       cmocka_unit_test(test_relations)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
