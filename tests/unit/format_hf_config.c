#include "format/hf_config.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void assert_round_trip(const model_config *config) {
    size_t length;
    char *text = hf_config_write(config, &length);
    assert_non_null(text);
    model_config back;
    braid_error error = {0};
    if (hf_config_read(text, length, "config.json", &back, &error)) fail_msg("%s", error.text);
    model_difference d;
    if (model_config_differ(config, &back, &d)) fail_msg("%s: %g became %g in %s", d.member, d.first, d.second, text);
    free(text);
}

static void test_both_architectures_round_trip(void **state) {
    (void)state;
    assert_round_trip(&(model_config){.arch = MODEL_LLAMA,
                                      .dim = 64,
                                      .layers = 3,
                                      .heads = 8,
                                      .kv_heads = 2,
                                      .ffn_dim = 100,
                                      .vocab = 256,
                                      .context = 128,
                                      .rope_theta = 500000.0f,
                                      .norm_eps = 1.1e-6f,
                                      .tied = true});
    assert_round_trip(&(model_config){.arch = MODEL_GPT,
                                      .dim = 48,
                                      .layers = 2,
                                      .heads = 4,
                                      .kv_heads = 4,
                                      .ffn_dim = 192,
                                      .vocab = 300,
                                      .context = 64,
                                      .norm_eps = 1e-5f,
                                      .tied = false});
}

// A model of each row, with every switch that the row has.
static void test_every_row_round_trips(void **state) {
    (void)state;
    const model_config rows[] = {
        {.arch = MODEL_LLAMA, .head_dim = 10, .qkv_bias = true, .o_bias = true, .mlp_bias = true,
         .rope = {.kind = MODEL_ROPE_LLAMA3, .factor = 8, .low_freq_factor = 1, .high_freq_factor = 4, .original_context = 64}},
        {.arch = MODEL_LLAMA, .rope = {.kind = MODEL_ROPE_LINEAR, .factor = 2.5f}},
        {.arch = MODEL_LLAMA, .rope = {.kind = MODEL_ROPE_YARN, .factor = 4, .original_context = 32}},
        {.arch = MODEL_LLAMA, .rope = {.kind = MODEL_ROPE_YARN, .factor = 4, .original_context = 32, .beta_fast = 20, .beta_slow = 2, .attention_factor = 1.5f}},
        {.arch = MODEL_MISTRAL, .window = 16, .windowed = {31}, .head_dim = 10},
        {.arch = MODEL_MISTRAL},
        {.arch = MODEL_QWEN2, .qkv_bias = true},
        {.arch = MODEL_QWEN2, .qkv_bias = true, .window = 16, .windowed = {24}},
        {.arch = MODEL_QWEN3, .head_dim = 32, .qkv_bias = true, .o_bias = true, .window = 7, .windowed = {5}},
        {.arch = MODEL_SMOLLM3, .unrotated = {10}, .mlp_bias = true},
        {.arch = MODEL_SMOLLM3, .unrotated = {10}, .window = 9, .windowed = {10}},
        {.arch = MODEL_GEMMA3, .local_rope_theta = 5000, .window = 12, .windowed = {23}, .attention_scale = 0.25f, .embedding_scale = 8, .logit_softcap = 20,
         .rope = {.kind = MODEL_ROPE_LINEAR, .factor = 8}},
        {.arch = MODEL_GEMMA2, .window = 12, .windowed = {5}, .attention_scale = 0.25f, .embedding_scale = 8, .attention_softcap = 50, .logit_softcap = 30},
        {.arch = MODEL_MIXTRAL, .experts = 4, .experts_used = 2, .expert_ffn_dim = 100, .normalised_experts = true},
        {.arch = MODEL_QWEN3_MOE, .experts = 8, .experts_used = 3, .expert_ffn_dim = 24, .window = 16, .windowed = {31}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        model_config c = rows[i];
        c.dim = 64, c.layers = 5, c.heads = 8, c.kv_heads = 2, c.ffn_dim = 100, c.vocab = 256, c.context = 128;
        c.rope_theta = 1000000.0f, c.norm_eps = 1e-5f, c.tied = i & 1;
        assert_round_trip(&c);
    }
}

static braid_err read_text(const char *text, model_config *out, braid_error *error) {
    return hf_config_read(text, strlen(text), "config.json", out, error);
}

static void test_foreign_files_are_read(void **state) {
    (void)state;
    model_config c;
    assert_int_equal(
        read_text(
            "{\"architectures\":[\"GPT2LMHeadModel\"],\"model_type\":\"gpt2\",\"n_embd\":768,\"n_layer\":12,\"n_head\":"
            "12,"
            "\"n_positions\":1024,\"n_ctx\":1024,\"n_inner\":null,\"vocab_size\":50257,\"layer_norm_epsilon\":1e-05}",
            &c, NULL),
        BRAID_OK);
    assert_int_equal(c.ffn_dim, 3072);
    assert_true(c.tied);
    assert_int_equal(read_text("{\"model_type\":\"llama\",\"hidden_size\":32,\"intermediate_size\":64,\"num_hidden_"
                               "layers\":1,\"num_attention_heads\":4,"
                               "\"vocab_size\":256,\"max_position_embeddings\":64,\"rope_scaling\":null}",
                               &c, NULL),
                     BRAID_OK);
    assert_int_equal(c.kv_heads, 4);
    assert_false(c.tied);
}

#define TINY "\"hidden_size\":64,\"intermediate_size\":64,\"num_hidden_layers\":6,\"num_attention_heads\":32,\"vocab_size\":99"

// An absent key has the value of transformers 5.23's class, which null has not.
static void test_absent_keys(void **state) {
    (void)state;
    const struct {
        const char *text;
        model_config wants;
    } cases[] = {
        {"\"model_type\":\"llama\"}", {.kv_heads = 32, .context = 2048, .rope_theta = 10000, .norm_eps = 1e-6f}},
        {"\"model_type\":\"mistral\"}", {.arch = MODEL_MISTRAL, .kv_heads = 8, .context = 131072, .rope_theta = 10000, .norm_eps = 1e-6f, .window = 4096, .windowed = {63}}},
        {"\"model_type\":\"mistral\",\"sliding_window\":null,\"num_key_value_heads\":null}", {.arch = MODEL_MISTRAL, .kv_heads = 32, .context = 131072, .rope_theta = 10000, .norm_eps = 1e-6f}},
        {"\"model_type\":\"qwen2\"}", {.arch = MODEL_QWEN2, .kv_heads = 32, .context = 32768, .rope_theta = 10000, .norm_eps = 1e-6f, .qkv_bias = true}},
        {"\"model_type\":\"qwen2\",\"use_sliding_window\":true,\"max_window_layers\":4}", {.arch = MODEL_QWEN2, .kv_heads = 32, .context = 32768, .rope_theta = 10000, .norm_eps = 1e-6f, .qkv_bias = true, .window = 4096, .windowed = {48}}},
        {"\"model_type\":\"qwen3\"}", {.arch = MODEL_QWEN3, .kv_heads = 32, .context = 32768, .rope_theta = 10000, .norm_eps = 1e-6f, .head_dim = 128}},
        {"\"model_type\":\"smollm3\"}", {.arch = MODEL_SMOLLM3, .kv_heads = 4, .context = 32768, .rope_theta = 2e6f, .norm_eps = 1e-6f, .tied = true, .unrotated = {8}}},
        {"\"model_type\":\"smollm3\",\"use_sliding_window\":true,\"sliding_window\":9,\"no_rope_layer_interval\":2}", {.arch = MODEL_SMOLLM3, .kv_heads = 4, .context = 32768, .rope_theta = 2e6f, .norm_eps = 1e-6f, .tied = true, .unrotated = {42}, .window = 9, .windowed = {42}}},
        {"\"model_type\":\"gemma3_text\"}", {.arch = MODEL_GEMMA3, .kv_heads = 4, .context = 131072, .rope_theta = 1e6f, .local_rope_theta = 10000, .norm_eps = 1e-6f, .tied = true, .head_dim = 256, .attention_scale = 0.0625f, .embedding_scale = 8, .window = 4096, .windowed = {31}}},
        {"\"model_type\":\"gemma3_text\",\"sliding_window_pattern\":3,\"rope_theta\":5,\"rope_local_base_freq\":7,\"rope_scaling\":{\"rope_type\":\"linear\",\"factor\":8}}", {.arch = MODEL_GEMMA3, .kv_heads = 4, .context = 131072, .rope_theta = 5, .local_rope_theta = 7, .norm_eps = 1e-6f, .tied = true, .head_dim = 256, .attention_scale = 0.0625f, .embedding_scale = 8, .window = 4096, .windowed = {27}, .rope = {.kind = MODEL_ROPE_LINEAR, .factor = 8}}},
        {"\"model_type\":\"gemma2\"}", {.arch = MODEL_GEMMA2, .kv_heads = 4, .context = 8192, .rope_theta = 10000, .norm_eps = 1e-6f, .tied = true, .head_dim = 256, .attention_scale = 0.0625f, .embedding_scale = 8, .window = 4096, .windowed = {21}, .attention_softcap = 50, .logit_softcap = 30}},
        {"\"model_type\":\"gemma2\",\"attn_logit_softcapping\":null,\"final_logit_softcapping\":null}", {.arch = MODEL_GEMMA2, .kv_heads = 4, .context = 8192, .rope_theta = 10000, .norm_eps = 1e-6f, .tied = true, .head_dim = 256, .attention_scale = 0.0625f, .embedding_scale = 8, .window = 4096, .windowed = {21}}},
        {"\"model_type\":\"mixtral\"}", {.arch = MODEL_MIXTRAL, .kv_heads = 8, .context = 131072, .rope_theta = 1e6f, .norm_eps = 1e-5f, .experts = 8, .experts_used = 2, .expert_ffn_dim = 64, .normalised_experts = true}},
        {"\"model_type\":\"qwen3_moe\"}", {.arch = MODEL_QWEN3_MOE, .kv_heads = 4, .context = 32768, .rope_theta = 10000, .norm_eps = 1e-6f, .experts = 128, .experts_used = 8, .expert_ffn_dim = 768}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[1024];
        snprintf(text, sizeof text, "{" TINY ",%s", cases[i].text);
        model_config wants = cases[i].wants, found;
        wants.dim = wants.ffn_dim = 64, wants.layers = 6, wants.heads = 32, wants.vocab = 99;
        braid_error error = {0};
        model_difference d;
        if (read_text(text, &found, &error)) fail_msg("%s: %s", text, error.text);
        if (model_config_differ(&wants, &found, &d)) fail_msg("%s: %s is %g, not %g", text, d.member, d.second, d.first);
    }
}

static void expect_theta(const char *rest, model_rope_kind kind, float theta) {
    char text[1024];
    snprintf(text, sizeof text, "{" TINY ",\"model_type\":\"llama\",%s}", rest);
    model_config c;
    braid_error error = {0};
    if (read_text(text, &c, &error)) fail_msg("%s: %s", text, error.text);
    assert_int_equal(c.rope.kind, kind);
    assert_true(c.rope_theta >= theta && c.rope_theta <= theta);
}

// Measured with transformers 5.23: rope_scaling replaces rope_parameters, with its theta; the theta
// of the file counts where the object has none; rope_type takes precedence over type.
static void test_spellings_of_rope_scaling(void **state) {
    (void)state;
#define THETA "\"rope_theta\":500000.0"
#define LINEAR "\"type\":\"linear\",\"factor\":2"
    expect_theta("\"rope_parameters\":{" THETA "},\"rope_scaling\":{" LINEAR "}", MODEL_ROPE_LINEAR, 10000);
    expect_theta(THETA ",\"rope_scaling\":{" LINEAR "}", MODEL_ROPE_LINEAR, 500000);
    expect_theta("\"rope_scaling\":{" LINEAR "," THETA "}", MODEL_ROPE_LINEAR, 500000);
    expect_theta("\"rope_scaling\":{},\"rope_parameters\":{" THETA "}", MODEL_ROPE_PLAIN, 500000);
    expect_theta("\"rope_scaling\":{" LINEAR ",\"rope_type\":\"default\"}", MODEL_ROPE_PLAIN, 10000);
    model_config c;
    const char *yarn = "{" TINY ",\"model_type\":\"llama\",\"max_position_embeddings\":400,\"rope_scaling\":{\"type\":\"yarn\","
                       "\"factor\":4.0,\"mscale\":2.0,\"mscale_all_dim\":1.0}}";
    assert_int_equal(read_text(yarn, &c, NULL), BRAID_OK);
    assert_int_equal(c.rope.original_context, 400);  // max_position_embeddings
    assert_true(fabs((double)c.rope.attention_factor - 1.1217507) < 1e-6);  // (0.2 ln 4 + 1) / (0.1 ln 4 + 1)
}

#define SMALL                                                                                                       \
    "{\"model_type\":\"llama\",\"hidden_size\":32,\"intermediate_size\":64,\"num_hidden_layers\":1,\"vocab_size\":" \
    "256,"                                                                                                          \
    "\"num_attention_heads\":4,\"max_position_embeddings\":64,"

// transformers 5 saves a config of transformers 4 with another place for the rotation's base, which
// takes precedence.
static void test_rotations_of_both_generations_are_read(void **state) {
    (void)state;
    const struct {
        const char *text;
        float theta;
    } good[] = {
        {SMALL "\"rope_theta\":500000}", 500000},
        {SMALL "\"rope_parameters\":{\"rope_theta\":500000.0,\"rope_type\":\"default\"}}", 500000},
        {SMALL "\"rope_theta\":7,\"rope_parameters\":{\"rope_theta\":500000.0}}", 500000},
        {SMALL "\"rope_theta\":500000,\"rope_parameters\":{\"rope_type\":\"default\"}}", 500000},
        {SMALL "\"rope_parameters\":null}", 10000},
    };
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        model_config c;
        braid_error error = {0};
        if (read_text(good[i].text, &c, &error)) fail_msg("%s", error.text);
        assert_true(c.rope_theta >= good[i].theta && c.rope_theta <= good[i].theta);
    }
    static const char *const bad[] = {
        SMALL "\"rope_parameters\":{\"rope_theta\":500000.0,\"rope_type\":\"linear\"}}",
        SMALL "\"rope_parameters\":{\"rope_theta\":500000.0,\"rope_type\":\"dynamic\",\"factor\":2}}",
        SMALL "\"rope_parameters\":{\"rope_theta\":null}}",
        SMALL "\"rope_parameters\":{\"full_attention\":{\"rope_type\":\"default\"}}}",
        SMALL "\"rope_parameters\":{\"partial_rotary_factor\":0.5}}",
        SMALL "\"rope_parameters\":{\"rope_theta\":\"x\"}}",
        SMALL "\"rope_parameters\":5}",
        SMALL "\"rope_scaling\":{\"type\":\"linear\"}}",
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        model_config c;
        braid_error error = {0};
        assert_int_equal(read_text(bad[i], &c, &error), BRAID_FORMAT);
        if (!strstr(error.text, "'rope_")) fail_msg("%s", error.text);
    }
}

static void expect_written(const model_config *config, const char *const *parts) {
    size_t length;
    char *text = hf_config_write(config, &length);
    assert_non_null(text);
    for (; *parts; parts++)
        if (!strstr(text, *parts)) fail_msg("no %s in %s", *parts, text);
    free(text);
}

static void test_transformers_keys_are_written(void **state) {
    (void)state;
    expect_written(&(model_config){.arch = MODEL_GPT,
                                   .dim = 48,
                                   .layers = 2,
                                   .heads = 4,
                                   .kv_heads = 4,
                                   .ffn_dim = 192,
                                   .vocab = 300,
                                   .context = 64,
                                   .norm_eps = 1e-5f,
                                   .tied = false},
                   (const char *const[]){"\"n_positions\": 64", "\"n_ctx\": 64", "\"dtype\": \"float32\"",
                                         "\"torch_dtype\": \"float32\"", NULL});
    expect_written(&(model_config){.arch = MODEL_LLAMA,
                                   .dim = 64,
                                   .layers = 3,
                                   .heads = 8,
                                   .kv_heads = 2,
                                   .ffn_dim = 100,
                                   .vocab = 256,
                                   .context = 128,
                                   .rope_theta = 500000.0f,
                                   .norm_eps = 1e-6f,
                                   .tied = true},
                   (const char *const[]){"\"rope_theta\": 5e+05,\n  \"rope_parameters\": {\n    \"rope_type\": "
                                         "\"default\",\n    \"rope_theta\": 5e+05\n",
                                         "\"dtype\"", NULL});
}

static void test_unsupported_variants_are_named(void **state) {
    (void)state;
#define LLAMA                                                                                                       \
    "{\"model_type\":\"llama\",\"hidden_size\":32,\"intermediate_size\":64,\"num_hidden_layers\":1,\"vocab_size\":" \
    "256,\"max_position_embeddings\":64,"
    const struct {
        const char *text, *named;
    } bad[] = {
        {"{\"model_type\":\"bert\"}", "model_type"},
        {"{}", "model_type"},
        {"[]", "model_type"},
        {"{\"model_type\":", "JSON"},
        {LLAMA "\"num_attention_heads\":0}", "num_attention_heads"},
        {LLAMA "\"num_attention_heads\":\"4\"}", "num_attention_heads"},
        {LLAMA "\"num_attention_heads\":4,\"rope_scaling\":{\"type\":\"linear\"}}", "rope_scaling"},
        {LLAMA "\"num_attention_heads\":4,\"attention_bias\":1}", "attention_bias"},
        {LLAMA "\"num_attention_heads\":4,\"sliding_window\":8}", "sliding_window"},
        {LLAMA "\"num_attention_heads\":4,\"num_experts\":8}", "num_experts"},
        {LLAMA "\"num_attention_heads\":4,\"attn_logit_softcapping\":8}", "attn_logit_softcapping"},
        {LLAMA "\"num_attention_heads\":4,\"partial_rotary_factor\":0.5}", "partial_rotary_factor"},
        {LLAMA "\"num_attention_heads\":4,\"quantization_config\":{}}", "quantization_config"},
        {LLAMA "\"num_attention_heads\":4,\"hidden_act\":\"relu\"}", "hidden_act"},
        {LLAMA "\"num_attention_heads\":4,\"head_dim\":7}", "even width"},
        {"{" TINY ",\"model_type\":\"qwen2\",\"mlp_bias\":true}", "mlp_bias"},
        {"{" TINY ",\"model_type\":\"qwen2\",\"attention_bias\":true}", "attention_bias"},
        {"{" TINY ",\"model_type\":\"qwen3\",\"head_dim\":null}", "head_dim"},
        {"{" TINY ",\"model_type\":\"qwen3\",\"use_sliding_window\":true,\"layer_types\":[\"full_attention\"]}", "layer_types"},
        {"{" TINY ",\"model_type\":\"gemma3_text\",\"sliding_window\":null}", "layer_types"},
        {"{" TINY ",\"model_type\":\"gemma3_text\",\"attn_logit_softcapping\":50.0}", "attn_logit_softcapping"},
        {"{" TINY ",\"model_type\":\"gemma3_text\",\"use_bidirectional_attention\":true}", "use_bidirectional_attention"},
        {"{" TINY ",\"model_type\":\"gemma3_text\",\"hidden_activation\":\"silu\"}", "hidden_activation"},
        {"{" TINY ",\"model_type\":\"smollm3\",\"no_rope_layers\":[1,1]}", "no_rope_layers"},
        {"{" TINY ",\"model_type\":\"qwen3_moe\",\"mlp_only_layers\":[1]}", "mlp_only_layers"},
        {"{" TINY ",\"model_type\":\"qwen3_moe\",\"decoder_sparse_step\":2}", "decoder_sparse_step"},
        {"{" TINY ",\"model_type\":\"qwen3_moe\",\"num_experts\":4}", "experts_used"},
        {LLAMA "\"num_attention_heads\":5}", "config.json"},
        {LLAMA "\"num_attention_heads\":4294967296}", "num_attention_heads"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        model_config c;
        braid_error error = {0};
        if (!read_text(bad[i].text, &c, &error)) fail_msg("accepted: %s", bad[i].text);
        if (!strstr(error.text, bad[i].named) || !strstr(error.text, "config.json")) fail_msg("%s", error.text);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_both_architectures_round_trip),
        cmocka_unit_test(test_every_row_round_trips),
        cmocka_unit_test(test_foreign_files_are_read),
        cmocka_unit_test(test_absent_keys),
        cmocka_unit_test(test_spellings_of_rope_scaling),
        cmocka_unit_test(test_rotations_of_both_generations_are_read),
        cmocka_unit_test(test_transformers_keys_are_written),
        cmocka_unit_test(test_unsupported_variants_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
