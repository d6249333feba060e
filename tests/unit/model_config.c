#include "model/rows.h"

#include <math.h>
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

// A model of each row, from `llama`.
static model_config row_of(model_arch arch) {
    model_config c = llama;
    c.arch = arch;
    const model_row *row = model_row_of(arch);
    c.qkv_bias = row->always_qkv_bias;
    if (row->scaled_embedding) c.embedding_scale = 8;
    if (row->local_theta) c.local_rope_theta = 10000;
    if (row->mixture) c.experts = 4, c.experts_used = 2, c.expert_ffn_dim = c.ffn_dim, c.normalised_experts = true;
    if (row->learned_positions) c.kv_heads = c.heads;
    return c;
}

static void test_rows(void **state) {
    (void)state;
    for (uint32_t arch = 0; arch < MODEL_ARCHS; arch++) {
        model_config c = row_of((model_arch)arch);
        expect_ok(&c);
        const model_row *row = model_row_of(c.arch);
        assert_int_equal(model_arch_of_type(row->type), arch);
        assert_int_equal(model_arch_named(row->name), arch);
    }
    assert_int_equal(model_arch_of_type("bert"), MODEL_ARCHS);
    assert_null(model_row_of(MODEL_ARCHS));
}

// A switch that the architecture lacks, or a member out of its range, is named.
static void test_switches(void **state) {
    (void)state;
    const model_config l = row_of(MODEL_LLAMA), q = row_of(MODEL_QWEN3), g = row_of(MODEL_GEMMA3),
                       m = row_of(MODEL_MIXTRAL);
    model_config c;
#define REFUSED(from, change, word) (c = from, change, expect_refused(&c, word))
    REFUSED(l, c.window = 8, "window");
    REFUSED(l, c.unrotated[0] = 1, "rotation");
    REFUSED(l, c.local_rope_theta = 5, "local_rope_theta");
    REFUSED(l, c.attention_scale = 0.5f, "attention_scale");
    REFUSED(l, c.attention_softcap = 5, "attention_softcap");
    REFUSED(l, c.logit_softcap = 5, "logit_softcap");
    REFUSED(l, c.embedding_scale = 8, "embedding_scale");
    REFUSED(l, c.experts = 4, "experts");
    REFUSED(l, c.qkv_bias = true, "qkv_bias");
    REFUSED(l, c.head_dim = 7, "even width");
    REFUSED(l, c.head_dim = 2048, "head_dim");
    REFUSED(l, c.rope.kind = (model_rope_kind)9, "rope scaling");
    REFUSED(l, c.rope.kind = MODEL_ROPE_LINEAR, "factor");
    REFUSED(l, (c.rope.kind = MODEL_ROPE_YARN, c.rope.factor = 2), "original_context");
    REFUSED(l, (c.rope = (model_rope){MODEL_ROPE_LLAMA3, 8, 4, 4, 0, 0, 0, 16}), "high_freq_factor");
    REFUSED(l, (c.rope = (model_rope){MODEL_ROPE_YARN, 8, 0, 0, 1, 2, 0, 16}), "beta_fast");
    REFUSED(l, (c.rope = (model_rope){MODEL_ROPE_YARN, NAN, 0, 0, 0, 0, 0, 16}), "factor");
    REFUSED(gpt, c.rope.kind = MODEL_ROPE_LINEAR, "scaled rope");
    REFUSED(gpt, c.head_dim = 8, "head_dim");
    REFUSED(q, c.mlp_bias = true, "mlp_bias");
    REFUSED(q, c.window = 8, "windowed layers");
    REFUSED(q, c.windowed[0] = 1, "windowed layers");
    REFUSED(q, (c.window = 8, c.windowed[0] = 4), "layer 2 of 2");
    REFUSED(g, c.embedding_scale = 7, "embedding_scale");
    REFUSED(g, c.local_rope_theta = 0, "local_rope_theta");
    REFUSED(g, c.attention_scale = 0.3f, "attention_scale");
    REFUSED(g, c.attention_softcap = 30, "attention_softcap");
    REFUSED(m, c.experts_used = 5, "experts_used");
    REFUSED(m, c.experts = 513, "experts");
    REFUSED(m, c.expert_ffn_dim = 7, "expert_ffn_dim");
    REFUSED(m, c.normalised_experts = false, "normalised_experts");
    REFUSED(m, (c.window = 4, c.windowed[0] = 1), "all layers");
    REFUSED(row_of(MODEL_QWEN2), c.qkv_bias = false, "qkv_bias");
}

static void test_differences(void **state) {
    (void)state;
    model_config a = row_of(MODEL_QWEN3), b = a;
    model_difference d;
    assert_false(model_config_differ(&a, &b, &d));
    b.head_dim = 8;
    assert_false(model_config_differ(&a, &b, &d));  // dim / heads
    b.head_dim = 16;
    assert_true(model_config_differ(&a, &b, &d));
    assert_string_equal(d.member, "head_dim");
    assert_true(d.first == 8 && d.second == 16);
    b = a, b.windowed[0] = 2;
    assert_true(model_config_differ(&a, &b, &d));
    assert_string_equal(d.member, "windowed");
    b = a, b.rope.factor = 3;  // not used
    assert_false(model_config_differ(&a, &b, &d));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_accepts),   cmocka_unit_test(test_ranges),
                                       cmocka_unit_test(test_relations), cmocka_unit_test(test_rows),
                                       cmocka_unit_test(test_switches),  cmocka_unit_test(test_differences)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
