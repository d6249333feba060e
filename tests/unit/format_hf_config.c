#include "format/hf_config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

static void assert_round_trip(const model_config *config) {
    size_t length;
    char *text = hf_config_write(config, &length);
    assert_non_null(text);
    model_config back;
    braid_error error = {0};
    if (hf_config_read(text, length, "config.json", &back, &error)) fail_msg("%s", error.text);
    assert_int_equal(back.arch, config->arch);
    assert_int_equal(back.dim, config->dim);
    assert_int_equal(back.layers, config->layers);
    assert_int_equal(back.heads, config->heads);
    assert_int_equal(back.kv_heads, config->kv_heads);
    assert_int_equal(back.ffn_dim, config->ffn_dim);
    assert_int_equal(back.vocab, config->vocab);
    assert_int_equal(back.context, config->context);
    assert_int_equal(back.tied, config->tied);
    assert_memory_equal(&back.norm_eps, &config->norm_eps, sizeof back.norm_eps);
    if (config->arch == MODEL_LLAMA) assert_memory_equal(&back.rope_theta, &config->rope_theta, sizeof back.rope_theta);
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
        SMALL "\"rope_parameters\":{\"rope_theta\":500000.0,\"rope_type\":\"linear\",\"factor\":2}}",
        SMALL "\"rope_parameters\":{\"rope_theta\":\"x\"}}", SMALL "\"rope_parameters\":5}"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        model_config c;
        braid_error error = {0};
        assert_int_equal(read_text(bad[i], &c, &error), BRAID_FORMAT);
        assert_non_null(strstr(error.text, "'rope_"));
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
        {LLAMA "\"num_attention_heads\":4,\"attention_bias\":true}", "attention_bias"},
        {LLAMA "\"num_attention_heads\":4,\"hidden_act\":\"relu\"}", "hidden_act"},
        {LLAMA "\"num_attention_heads\":4,\"head_dim\":16}", "head_dim"},
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
        cmocka_unit_test(test_foreign_files_are_read),
        cmocka_unit_test(test_rotations_of_both_generations_are_read),
        cmocka_unit_test(test_transformers_keys_are_written),
        cmocka_unit_test(test_unsupported_variants_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
