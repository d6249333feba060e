#include "train/kernel_class.h"

#include "base/id.h"
#include "tensor/gemm.h"

#include <fenv.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static model_config some(model_arch arch) {
    return (model_config){.arch = arch,
                          .dim = 96,
                          .layers = 5,
                          .heads = 6,
                          .kv_heads = arch == MODEL_GPT ? 6 : 3,
                          .ffn_dim = 400,
                          .vocab = 700,
                          .context = 150,
                          .rope_theta = 10000,
                          .norm_eps = 1e-5f,
                          .tied = true};
}

static braid_hash class_of(const model_config *model) {
    braid_hash hash = {{0}};
    braid_error error = {0};
    if (kernel_class_of(model, false, &hash, &error)) fail_msg("%s", error.text);
    return hash;
}

static void expect_class_of(model_config model, const char *expected) {
    braid_hash found = class_of(&model), again = class_of(&model);
    char text[17];
    id_hex(found.bytes, 8, text);
    assert_string_equal(text, expected);
    assert_memory_equal(&found, &again, sizeof found);
}

static void expect_class(model_arch arch, const char *expected) { expect_class_of(some(arch), expected); }

// The same with the switches of other architectures.
static void test_classes_of_rows(void **state) {
    (void)state;
    model_config c = some(MODEL_QWEN3);
    c.head_dim = 20, c.window = 30, c.windowed[0] = 17;
    expect_class_of(c, "f14d792aed6bf358");
    c = some(MODEL_GEMMA3);
    c.local_rope_theta = 100, c.window = 40, c.windowed[0] = 1, c.embedding_scale = sqrtf(96), c.logit_softcap = 5;
    expect_class_of(c, "450a666c45f2b462");
    c = some(MODEL_GEMMA2);
    c.attention_softcap = 3, c.embedding_scale = sqrtf(96);
    expect_class_of(c, "37eaa350ca5c4b8f");
    c = some(MODEL_MIXTRAL);
    c.experts = 9, c.experts_used = 2, c.expert_ffn_dim = c.ffn_dim, c.normalised_experts = true;
    expect_class_of(c, "e6e4c1438aa6ba64");
    c = some(MODEL_QWEN3_MOE);
    c.experts = 12, c.experts_used = 5, c.expert_ffn_dim = 33, c.qkv_bias = c.o_bias = true;
    expect_class_of(c, "03d4e8ea40ad5d5d");
}

// Every processor with fused multiply-adds is of this class, for all vector widths, compilers and
// optimisation levels.
static void test_the_class_has_a_known_hash(void **state) {
    (void)state;
    expect_class(MODEL_LLAMA, "c32bfe8ef83cd7af");
    expect_class(MODEL_GPT, "e789aeaac6a058c1");
}

// Only on processors with kernels of their own.
static void test_fastest_products_may_be_another_class(void **state) {
    (void)state;
    model_config model = some(MODEL_LLAMA);
    braid_hash common = class_of(&model), fastest, again;
    assert_int_equal(kernel_class_of(&model, true, &fastest, NULL), BRAID_OK);
    assert_int_equal(kernel_class_of(&model, true, &again, NULL), BRAID_OK);
    assert_memory_equal(&fastest, &again, sizeof fastest);
    bool own = strcmp(tensor_gemm_name(true), tensor_gemm_name(false)) != 0;
    assert_int_equal(memcmp(&common, &fastest, sizeof common) != 0, own);
}

static void test_other_arithmetic_is_another_class(void **state) {
    (void)state;
    model_config model = some(MODEL_LLAMA);
    braid_hash nearest = class_of(&model);
    assert_int_equal(fesetround(FE_UPWARD), 0);
    braid_hash upward = class_of(&model);
    assert_int_equal(fesetround(FE_TONEAREST), 0);
    assert_memory_not_equal(&nearest, &upward, sizeof nearest);
}

// Depth does not matter: the same kernels run in every block.
static void test_shapes_matter(void **state) {
    (void)state;
    model_config model = some(MODEL_LLAMA), deep = model, wide = model;
    deep.layers = 12;
    wide.ffn_dim = 401;
    braid_hash one = class_of(&model), two = class_of(&deep), three = class_of(&wide);
    assert_memory_equal(&one, &two, sizeof one);
    assert_memory_not_equal(&one, &three, sizeof one);
}

// Without a bound this block alone would have 12 billion parameters.
static void test_large_shapes_are_reduced(void **state) {
    (void)state;
    model_config largest = some(MODEL_LLAMA), small;
    largest.dim = 16384;
    largest.heads = 128;
    largest.kv_heads = 32;
    largest.ffn_dim = 3072 * 80 + 7;
    small = largest;
    small.dim = 1536;
    small.heads = 12;
    small.kv_heads = 3;
    small.ffn_dim = 1536 + 7;
    braid_hash one = class_of(&largest), two = class_of(&small);
    assert_memory_equal(&one, &two, sizeof one);
    small.heads = small.kv_heads = 1;  // one head that is wider than the limit
    small.dim = 16384;
    small.ffn_dim = 8;
    class_of(&small);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_class_has_a_known_hash),
        cmocka_unit_test(test_classes_of_rows),
        cmocka_unit_test(test_fastest_products_may_be_another_class),
        cmocka_unit_test(test_other_arithmetic_is_another_class),
        cmocka_unit_test(test_shapes_matter),
        cmocka_unit_test(test_large_shapes_are_reduced),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
