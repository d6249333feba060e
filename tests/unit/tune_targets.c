// Names of modules: those of peft, groups, and a clear sentence for others.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tune/targets.h"

static const model_config llama = {.arch = MODEL_LLAMA,
                                   .dim = 64,
                                   .layers = 1,
                                   .heads = 4,
                                   .kv_heads = 2,
                                   .ffn_dim = 96,
                                   .vocab = 96,
                                   .context = 64,
                                   .rope_theta = 10000,
                                   .norm_eps = 1e-5f};

static model_config other(model_arch arch) {
    model_config c = llama;
    c.arch = arch;
    return c;
}

static void test_names_and_groups(void **state) {
    (void)state;
    uint64_t roles, attention = 1u << ROLE_Q | 1u << ROLE_K | 1u << ROLE_V | 1u << ROLE_O,
                    mlp = 1u << ROLE_GATE | 1u << ROLE_UP | 1u << ROLE_DOWN;
    assert_int_equal(targets_read(&llama, "q_proj,down_proj", &roles, NULL), BRAID_OK);
    assert_int_equal(roles, 1u << ROLE_Q | 1u << ROLE_DOWN);
    assert_int_equal(targets_read(&llama, "attention", &roles, NULL), BRAID_OK);
    assert_int_equal(roles, attention);
    assert_int_equal(targets_read(&llama, "mlp,q_proj", &roles, NULL), BRAID_OK);
    assert_int_equal(roles, mlp | 1u << ROLE_Q);
    assert_int_equal(targets_read(&llama, "all", &roles, NULL), BRAID_OK);
    assert_int_equal(roles, attention | mlp);
    assert_int_equal(targets_read(&llama, "mlp.*,self_attn.q_proj", &roles, NULL), BRAID_OK);
    assert_int_equal(roles, mlp | 1u << ROLE_Q);
    assert_int_equal(targets_read(&llama, "?_proj", &roles, NULL), BRAID_OK);
    assert_int_equal(roles, attention);
    assert_int_equal(targets_read(&llama, "*n*_proj", &roles, NULL), BRAID_OK);
    assert_int_equal(roles, attention | 1u << ROLE_DOWN);
}

// GPT-2 has two modules c_proj.
static void test_names_that_occur_twice_have_their_parent(void **state) {
    (void)state;
    uint64_t roles;
    model_config gpt = other(MODEL_GPT);
    assert_string_equal(targets_name(&gpt, ROLE_QKV), "c_attn");
    assert_string_equal(targets_name(&gpt, ROLE_O), "attn.c_proj");
    assert_string_equal(targets_name(&gpt, ROLE_DOWN), "mlp.c_proj");
    assert_null(targets_name(&gpt, ROLE_Q));
    assert_int_equal(targets_read(&gpt, "c_attn,mlp.c_proj", &roles, NULL), BRAID_OK);
    assert_int_equal(roles, 1u << ROLE_QKV | 1u << ROLE_DOWN);
}

static void expect_refused(const model_config *c, const char *text, const char *why) {
    braid_error error = {0};
    uint64_t roles;
    assert_int_equal(targets_read(c, text, &roles, &error), BRAID_CONFIG);
    if (!strstr(error.text, why)) fail_msg("'%s' is expected in: %s", why, error.text);
}

static void test_an_unknown_name_is_refused_with_those_that_exist(void **state) {
    (void)state;
    expect_refused(&llama, "lm_head", "no module 'lm_head' to adapt; it has q_proj, k_proj, v_proj, o_proj, gate_proj");
    expect_refused(&llama, "", "no module ''");
    expect_refused(&llama, "q_proj,", "no module ''");
    expect_refused(&llama, "norm", "no module 'norm'");
    model_config mixtral = other(MODEL_MIXTRAL);
    mixtral.experts = 4;
    mixtral.experts_used = 2;
    mixtral.expert_ffn_dim = 96;
    expect_refused(&mixtral, "mlp", "it has q_proj, k_proj, v_proj, o_proj, and all");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names_and_groups),
        cmocka_unit_test(test_names_that_occur_twice_have_their_parent),
        cmocka_unit_test(test_an_unknown_name_is_refused_with_those_that_exist),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
