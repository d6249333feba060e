// Names, order and offsets of a stage's tensors, initial values, and shapes that a stage refuses.
#include "model/stage.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const model_config llama = {.arch = MODEL_LLAMA,
                                   .dim = 64,
                                   .layers = 3,
                                   .heads = 8,
                                   .kv_heads = 4,
                                   .ffn_dim = 100,
                                   .vocab = 256,
                                   .context = 32,
                                   .rope_theta = 10000,
                                   .norm_eps = 1e-5f};
static const model_config gpt = {.arch = MODEL_GPT,
                                 .dim = 60,
                                 .layers = 3,
                                 .heads = 6,
                                 .kv_heads = 6,
                                 .ffn_dim = 240,
                                 .vocab = 250,
                                 .context = 32,
                                 .norm_eps = 1e-5f,
                                 .tied = true};
static tensor_pool *pool;

static stage *open_stage(const model_config *c, uint32_t begin, uint32_t end, bool ends) {
    stage *s;
    braid_error error;
    stage_shape shape = {.layer_begin = begin, .layer_end = end, .ends = ends, .sequences = 2, .tokens = 8};
    if (stage_new(c, &shape, pool, &s, &error)) fail_msg("%s", error.text);
    return s;
}

typedef struct expected_tensor {
    const char *name;
    uint32_t canonical, rows, cols;
    uint8_t dims;
} expected_tensor;

static void expect_tensors(stage *s, const expected_tensor *expected, uint32_t count) {
    size_t offset = 0;
    assert_int_equal(stage_tensor_count(s), count);
    for (uint32_t i = 0; i < count; i++) {
        const stage_tensor *t = &stage_tensors(s)[i];
        assert_string_equal(t->name, expected[i].name);
        assert_int_equal(t->canonical, expected[i].canonical);
        assert_int_equal(t->rows, expected[i].rows);
        assert_int_equal(t->cols, expected[i].cols);
        assert_int_equal(t->dims, expected[i].dims);
        assert_int_equal(t->decay, expected[i].dims == 2);
        assert_int_equal(t->offset, offset);
        assert_int_equal(t->elements, (size_t)t->rows * t->cols);
        offset += t->elements;
    }
    assert_int_equal(stage_parameters(s), offset);
    stage_free(s);
}

static void test_llama_names(void **state) {
    (void)state;
    const expected_tensor relay[] = {
        {"model.layers.1.input_layernorm.weight", 10, 64, 1, 1},
        {"model.layers.1.self_attn.q_proj.weight", 11, 64, 64, 2},
        {"model.layers.1.self_attn.k_proj.weight", 12, 32, 64, 2},
        {"model.layers.1.self_attn.v_proj.weight", 13, 32, 64, 2},
        {"model.layers.1.self_attn.o_proj.weight", 14, 64, 64, 2},
        {"model.layers.1.post_attention_layernorm.weight", 15, 64, 1, 1},
        {"model.layers.1.mlp.gate_proj.weight", 16, 100, 64, 2},
        {"model.layers.1.mlp.up_proj.weight", 17, 100, 64, 2},
        {"model.layers.1.mlp.down_proj.weight", 18, 64, 100, 2},
    };
    expect_tensors(open_stage(&llama, 1, 2, false), relay, 9);
    const expected_tensor ends[] = {{"model.embed_tokens.weight", 0, 256, 64, 2},
                                    {"model.norm.weight", 28, 64, 1, 1},
                                    {"lm_head.weight", 29, 256, 64, 2}};
    expect_tensors(open_stage(&llama, 0, 0, true), ends, 3);
    assert_int_equal(model_tensor_count(&llama), 30);
}

static void test_gpt_names(void **state) {
    (void)state;
    const expected_tensor relay[] = {
        {"transformer.h.2.ln_1.weight", 26, 60, 1, 1},          {"transformer.h.2.ln_1.bias", 27, 60, 1, 1},
        {"transformer.h.2.attn.c_attn.weight", 28, 60, 180, 2}, {"transformer.h.2.attn.c_attn.bias", 29, 180, 1, 1},
        {"transformer.h.2.attn.c_proj.weight", 30, 60, 60, 2},  {"transformer.h.2.attn.c_proj.bias", 31, 60, 1, 1},
        {"transformer.h.2.ln_2.weight", 32, 60, 1, 1},          {"transformer.h.2.ln_2.bias", 33, 60, 1, 1},
        {"transformer.h.2.mlp.c_fc.weight", 34, 60, 240, 2},    {"transformer.h.2.mlp.c_fc.bias", 35, 240, 1, 1},
        {"transformer.h.2.mlp.c_proj.weight", 36, 240, 60, 2},  {"transformer.h.2.mlp.c_proj.bias", 37, 60, 1, 1},
    };
    expect_tensors(open_stage(&gpt, 2, 3, false), relay, 12);
    const expected_tensor ends[] = {{"transformer.wte.weight", 0, 250, 60, 2},
                                    {"transformer.wpe.weight", 1, 32, 60, 2},
                                    {"transformer.ln_f.weight", 38, 60, 1, 1},
                                    {"transformer.ln_f.bias", 39, 60, 1, 1}};
    expect_tensors(open_stage(&gpt, 0, 0, true), ends, 4);
    assert_int_equal(model_tensor_count(&gpt), 40);
}

static const model_config qwen3 = {.arch = MODEL_QWEN3,
                                   .dim = 64,
                                   .layers = 2,
                                   .heads = 4,
                                   .kv_heads = 2,
                                   .head_dim = 32,
                                   .ffn_dim = 100,
                                   .vocab = 256,
                                   .context = 32,
                                   .rope_theta = 10000,
                                   .norm_eps = 1e-5f,
                                   .qkv_bias = true,
                                   .o_bias = true};

// As a file stores them: a vector has one row.
static void expect_listed(const model_config *c, uint32_t i, const char *name, uint32_t rows, uint32_t cols,
                          bool vector) {
    model_tensor t;
    model_tensor_at(c, i, &t);
    assert_string_equal(t.name, name);
    assert_int_equal(t.rows, rows);
    assert_int_equal(t.cols, cols);
    assert_int_equal(t.vector, vector);
}

static void test_lists(void **state) {
    (void)state;
    assert_int_equal(model_tensor_count(&qwen3), 1 + 2 * 15 + 2);
    expect_listed(&qwen3, 1, "model.layers.0.input_layernorm.weight", 1, 64, true);
    expect_listed(&qwen3, 2, "model.layers.0.self_attn.q_proj.weight", 128, 64, false);
    expect_listed(&qwen3, 4, "model.layers.0.self_attn.v_proj.weight", 64, 64, false);
    expect_listed(&qwen3, 5, "model.layers.0.self_attn.q_proj.bias", 1, 128, true);
    expect_listed(&qwen3, 8, "model.layers.0.self_attn.q_norm.weight", 1, 32, true);
    expect_listed(&qwen3, 10, "model.layers.0.self_attn.o_proj.weight", 64, 128, false);
    expect_listed(&qwen3, 11, "model.layers.0.self_attn.o_proj.bias", 1, 64, true);
    expect_listed(&qwen3, 16, "model.layers.1.input_layernorm.weight", 1, 64, true);
    expect_listed(&qwen3, 32, "lm_head.weight", 256, 64, false);
    model_tensor t;
    model_tensor_at(&gpt, 4, &t);
    assert_true(t.transposed && t.rows == 60 && t.cols == 180);
}

// The list, and a stage with the whole model, agree; an expert's tensors follow one another.
static void test_experts(void **state) {
    (void)state;
    model_config c = qwen3;
    c.arch = MODEL_QWEN3_MOE, c.experts = 3, c.experts_used = 2, c.expert_ffn_dim = 24;
    assert_int_equal(model_tensor_count(&c), 1 + 2 * (13 + 9) + 2);
    expect_listed(&c, 13, "model.layers.0.mlp.gate.weight", 3, 64, false);
    expect_listed(&c, 14, "model.layers.0.mlp.experts.0.gate_proj.weight", 24, 64, false);
    expect_listed(&c, 16, "model.layers.0.mlp.experts.0.down_proj.weight", 64, 24, false);
    expect_listed(&c, 22, "model.layers.0.mlp.experts.2.down_proj.weight", 64, 24, false);
    stage *s = open_stage(&c, 0, 2, true);
    size_t next = 0;
    for (uint32_t i = 0; i < stage_tensor_count(s); i++) {
        model_tensor t;
        model_tensor_at(&c, i, &t);
        const stage_tensor *own = &stage_tensors(s)[i];
        assert_string_equal(own->name, t.name);
        assert_int_equal(own->elements, (size_t)t.rows * t.cols);
        assert_int_equal(own->offset, next);
        next += own->elements;
    }
    assert_int_equal(next, stage_parameters(s));
    stage_free(s);
}

static void test_tensor_stages(void **state) {
    (void)state;
    const uint32_t blocks[] = {0, 2, 1};
    uint16_t at[64];
    model_tensor_stages(&llama, blocks, 3, at);
    for (uint32_t i = 0; i < 30; i++) assert_int_equal(at[i], i < 1 || i >= 28 ? 0 : i < 19 ? 1 : 2);
}

// Mean and deviation of every tensor are as specified.
static void check_first_values(const model_config *c) {
    stage *s = open_stage(c, 0, c->layers, true);
    float *p = malloc(stage_parameters(s) * sizeof *p);
    stage_init(s, p, 3);
    for (uint32_t i = 0; i < stage_tensor_count(s); i++) {
        const stage_tensor *t = &stage_tensors(s)[i];
        double sum = 0, square = 0, count = (double)t->elements;
        for (size_t e = 0; e < t->elements; e++) {
            double v = (double)p[t->offset + e];
            sum += v, square += v * v;
        }
        bool bias = strstr(t->name, ".bias") != NULL;
        bool residual = strstr(t->name, "o_proj") || strstr(t->name, "down_proj") || strstr(t->name, "c_proj");
        double mean = t->dims == 2 || bias ? 0 : 1, deviation = t->dims == 1 ? 0
                                                                : residual   ? 0.02 / sqrt(2.0 * c->layers)
                                                                             : 0.02;
        double found = sqrt(fmax(0, square / count - sum / count * (sum / count)));
        if (fabs(sum / count - mean) > 4 * deviation / sqrt(count) ||
            fabs(found - deviation) > deviation * 4 / sqrt(2 * count))
            fail_msg("%s: mean %g deviation %g", t->name, sum / count, found);
    }
    free(p);
    stage_free(s);
}

static void test_first_values(void **state) {
    (void)state;
    check_first_values(&llama);
    check_first_values(&gpt);
}

static void test_first_values_do_not_depend_on_the_split(void **state) {
    (void)state;
    stage *whole = open_stage(&llama, 0, 3, true), *relay = open_stage(&llama, 1, 3, false);
    float *a = malloc(stage_parameters(whole) * sizeof *a), *b = malloc(stage_parameters(relay) * sizeof *b);
    float *other = malloc(stage_parameters(relay) * sizeof *other);
    stage_init(whole, a, 5);
    stage_init(relay, b, 5);
    stage_init(relay, other, 6);
    for (uint32_t i = 0; i < stage_tensor_count(relay); i++) {
        const stage_tensor *t = &stage_tensors(relay)[i], *w = &stage_tensors(whole)[t->canonical];
        assert_string_equal(t->name, w->name);
        assert_memory_equal(b + t->offset, a + w->offset, t->elements * sizeof *a);
        if (t->dims == 2) assert_memory_not_equal(b + t->offset, other + t->offset, t->elements * sizeof *b);
    }
    free(other);
    free(b);
    free(a);
    stage_free(relay);
    stage_free(whole);
}

static void test_refused_shapes(void **state) {
    (void)state;
    static const struct {
        stage_shape shape;
        const char *word;
    } bad[] = {
        {{.layer_begin = 0, .layer_end = 4, .sequences = 1, .tokens = 8}, "layers 0 to 4"},
        {{.layer_begin = 2, .layer_end = 1, .sequences = 1, .tokens = 8}, "layers 2 to 1"},
        {{.layer_begin = 1, .layer_end = 1, .sequences = 1, .tokens = 8}, "no layer"},
        {{.layer_begin = 1, .layer_end = 2, .ends = true, .sequences = 1, .tokens = 8}, "begins at layer 0"},
        {{.layer_begin = 0, .layer_end = 1, .sequences = 1, .tokens = 33}, "context is 32"},
        {{.layer_begin = 0, .layer_end = 1, .sequences = 0, .tokens = 8}, "microbatch"},
        {{.layer_begin = 0, .layer_end = 1, .sequences = UINT32_MAX, .tokens = 32}, "microbatch"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        stage *s;
        braid_error error;
        assert_int_equal(stage_new(&llama, &bad[i].shape, pool, &s, &error), BRAID_CONFIG);
        assert_null(s);
        if (!strstr(error.text, bad[i].word)) fail_msg("'%s' does not say %s", error.text, bad[i].word);
    }
}

// With recomputation a relay's stash has only the arrays at its two boundaries.
static void test_recomputation_saves_memory(void **state) {
    (void)state;
    stage_shape shape = {.layer_begin = 0, .layer_end = 3, .sequences = 4, .tokens = 32, .recompute = true};
    stage *s;
    assert_int_equal(stage_new(&llama, &shape, pool, &s, NULL), BRAID_OK);
    assert_int_equal(stage_stash_bytes(s), 64 + 2 * stage_activation_elements(s) * sizeof(float));
    stage_free(s);
}

static int setup(void **state) {
    (void)state;
    return tensor_pool_new(1, &pool, NULL);
}

static int teardown(void **state) {
    (void)state;
    tensor_pool_free(pool);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_llama_names),
        cmocka_unit_test(test_gpt_names),
        cmocka_unit_test(test_lists),
        cmocka_unit_test(test_experts),
        cmocka_unit_test(test_tensor_stages),
        cmocka_unit_test(test_first_values),
        cmocka_unit_test(test_first_values_do_not_depend_on_the_split),
        cmocka_unit_test(test_refused_shapes),
        cmocka_unit_test(test_recomputation_saves_memory),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
