// All kernels except matrix products (tensor_gemm.c has their definition) compute the same bits
// with every compiler, optimisation level and vector width: the results of fixed inputs have a
// known hash.
#include "base/rng.h"
#include "base/sha256.h"
#include "tensor/cpu/wide.h"
#include "tensor/elementary.h"
#include "tensor/gemm.h"
#include "tensor/kernels.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

enum { ROWS = 21, DIM = 75, COUNT = ROWS * DIM };

static tensor_pool *pool;
static sha256 hash;
static rng numbers = {99};

static void fill(float *x, size_t count, double centre) {
    for (size_t i = 0; i < count; i++) x[i] = (float)(centre + 6 * rng_unit(&numbers) - 3);
}

static void keep(const float *x, size_t count) { sha256_update(&hash, x, count * sizeof *x); }

static void expect_hash(uint64_t expected) {
    braid_hash found = sha256_final(&hash);
    uint64_t first = 0;
    for (int i = 0; i < 8; i++) first = first << 8 | found.bytes[i];
    if (first != expected) fail_msg("hash 0x%016llx", (unsigned long long)first);
}

static void test_norm_bits(void **state) {
    (void)state;
    static float x[COUNT], dy[COUNT], y[COUNT], weight[DIM], bias[DIM], mean[ROWS], inverse[ROWS], d_weight[DIM],
        d_bias[DIM];
    fill(x, COUNT, 0.2), fill(dy, COUNT, 0), fill(weight, DIM, 1), fill(bias, DIM, 0);
    sha256_init(&hash);
    for (int centred = 0; centred < 2; centred++) {
        tensor_norm n = {.centred = centred,
                         .rows = ROWS,
                         .dim = DIM,
                         .eps = 1e-5f,
                         .weight = weight,
                         .bias = bias,
                         .mean = mean,
                         .inverse = inverse};
        tensor_norm_forward(pool, &n, x, y);
        keep(y, COUNT);
        tensor_norm_gradient g = {&n, x, dy, y, y, d_weight, centred ? d_bias : NULL};
        tensor_norm_gradient_rows(&g, 0, ROWS);
        keep(y, COUNT);
        keep(d_weight, DIM);
    }
    keep(d_bias, DIM);
    expect_hash(0x690a6f6dc2796485u);
}

static void test_activation_bits(void **state) {
    (void)state;
    static float x[COUNT], dy[COUNT], y[COUNT], kept[COUNT];
    size_t half = DIM / 3;
    fill(x, COUNT, 0), fill(dy, COUNT, 0);
    sha256_init(&hash);
    tensor_gelu_forward(x, y, kept, COUNT);
    keep(y, COUNT);
    tensor_gelu_input_gradient(x, kept, dy, y, COUNT);
    keep(y, COUNT);
    tensor_swiglu_forward(x, y, kept, ROWS, half);
    keep(y, ROWS * half);
    tensor_swiglu_input_gradient(x, kept, dy, x, ROWS, half);
    keep(x, ROWS * 2 * half);
    expect_hash(0xd1154d30b7d81e47u);
}

static void test_loss_bits(void **state) {
    (void)state;
    static float logits[COUNT], tops[ROWS], sums[ROWS], target_logits[ROWS], maximum[ROWS], inverse[ROWS];
    static double losses[ROWS];
    int32_t targets[ROWS];
    for (int r = 0; r < ROWS; r++) targets[r] = r * 3;
    fill(logits, COUNT, 0);
    sha256_init(&hash);
    tensor_loss_tile t = {.rows = ROWS, .cols = DIM, .targets = targets, .logits = logits, .tops = tops, .sums = sums};
    tensor_loss l = {.rows = ROWS, .tiles = 1, .targets = targets, .tops = tops, .sums = sums};
    l.target_logits = target_logits;
    l.losses = losses, l.maximum = maximum, l.inverse = inverse;
    tensor_loss_exponentials(&t, target_logits);
    tensor_loss_rows(pool, &l);
    tensor_loss_gradient(&t, maximum, inverse);
    keep(logits, COUNT);
    sha256_update(&hash, losses, sizeof losses);
    expect_hash(0x51b374e43382ceeau);
}

static void test_rope_bits(void **state) {
    (void)state;
    static float x[ROWS * 72], y[ROWS * 72], cosines[ROWS * 6], sines[ROWS * 6];
    tensor_rope r = {12, cosines, sines};
    fill(x, ROWS * 72, 0);
    sha256_init(&hash);
    tensor_rope_tables(ROWS, 12, 10000.0f, cosines, sines);
    for (size_t head = 0; head < 6; head++) tensor_rope_rows(&r, 0, ROWS, false, x + head * 12, 72, y + head * 12, 72);
    keep(y, ROWS * 72);
    keep(cosines, ROWS * 6);
    expect_hash(0xd5a3b1f0ebc9e369u);
}

// Products use fused multiply-adds where the processor has them. Without them attention rounds
// twice and belongs to another kernel class.
static void test_attention_bits(void **state) {
    (void)state;
    enum { TOKENS = 70, HEADS = 4, KV = 2, WIDTH = 20, IN = (HEADS + 2 * KV) * WIDTH, OUT = HEADS * WIDTH };
    static float qkv[TOKENS * IN], out[TOKENS * OUT], d_out[TOKENS * OUT], maximum[HEADS * TOKENS],
        inverse[HEADS * TOKENS];
    tensor_attention a = {.sequences = 1,
                          .tokens = TOKENS,
                          .heads = HEADS,
                          .kv_heads = KV,
                          .width = WIDTH,
                          .maximum = maximum,
                          .inverse = inverse};
    a.scratch = malloc(tensor_pool_threads(pool) * tensor_attention_scratch(&a) * sizeof *a.scratch);
    assert_non_null(a.scratch);
    fill(qkv, TOKENS * IN, 0), fill(d_out, TOKENS * OUT, 0);
    sha256_init(&hash);
    tensor_attention_forward(pool, &a, qkv, out);
    keep(out, TOKENS * OUT);
    tensor_attention_input_gradient(pool, &a, qkv, out, d_out);
    keep(qkv, TOKENS * IN);
    free(a.scratch);
    expect_hash(strstr(tensor_gemm_name(false), "not fused") ? 0x58b4d58762b80f6eu : 0xe5a33793e40eddfau);
}

// Error of the vector exponential in units of the last place.
static void test_exponential_error(void **state) {
    (void)state;
    double worst = 0;
    for (int i = -870000; i <= 880000; i += 7) {
        float x = (float)i / 10000.0f, found = wide_exp(x);
        double exact = exp((double)x);
        float unit = nextafterf((float)exact, INFINITY) - (float)exact;
        double error = fabs((double)found - exact) / (double)unit;
        if (error > worst) worst = error;
    }
    if (worst > 2.0) fail_msg("%g units in the last place", worst);
    assert_true(wide_exp(0.0f) == 1.0f);
    assert_true(wide_exp(-200.0f) == 0.0f && wide_exp(-INFINITY) == 0.0f);
    assert_true(wide_exp(INFINITY) > 2e38f);
    assert_true(isnan(wide_exp(NAN)));
}

static int setup(void **state) {
    (void)state;
    return tensor_pool_new(2, &pool, NULL);
}

static int teardown(void **state) {
    (void)state;
    tensor_pool_free(pool);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_norm_bits),      cmocka_unit_test(test_activation_bits),
        cmocka_unit_test(test_loss_bits),      cmocka_unit_test(test_rope_bits),
        cmocka_unit_test(test_attention_bits), cmocka_unit_test(test_exponential_error),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
