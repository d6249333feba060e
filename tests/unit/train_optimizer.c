#include "train/optimizer.h"

#include "train_adamw_pytorch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

static const train_recipe recipe = {.iterations = 100,
                                    .warmup = 10,
                                    .learning_rate = 1e-3f,
                                    .min_learning_rate = 1e-4f,
                                    .beta1 = 0.9f,
                                    .beta2 = 0.95f,
                                    .eps = 1e-8f,
                                    .weight_decay = 0.1f,
                                    .clip = 1};

static void assert_close(float got, double expected, double most) { assert_true(fabs((double)got - expected) <= most); }

static void assert_near(const float *got, const float *expected, size_t count, double relative) {
    for (size_t i = 0; i < count; i++)
        assert_true(fabs((double)got[i] - (double)expected[i]) <= relative * (fabs((double)expected[i]) + 1e-3));
}

static void test_five_steps_match_pytorch(void **state) {
    (void)state;
    float weights[ADAMW_COUNT], moment1[ADAMW_COUNT] = {0}, moment2[ADAMW_COUNT] = {0};
    memcpy(weights, adamw_start, sizeof weights);
    for (uint64_t t = 0; t < ADAMW_STEPS; t++) {
        const float *gradient = adamw_gradients + t * ADAMW_COUNT;
        double norm2 = 0;
        for (int i = 0; i < ADAMW_COUNT; i++) norm2 += (double)gradient[i] * (double)gradient[i];
        train_step step = train_decide(&recipe, t, norm2, 1);
        step.learning_rate = adamw_rates[t];
        adamw_apply(&recipe, &step, true, ADAMW_COUNT, gradient, weights, moment1, moment2);
    }
    assert_near(weights, adamw_weights, ADAMW_COUNT, 2e-6);
    assert_near(moment1, adamw_moment1, ADAMW_COUNT, 2e-6);
    assert_near(moment2, adamw_moment2, ADAMW_COUNT, 2e-6);
}

// One element by the definition, one operation at a time: the vectorised loop must have the same
// bits.
static void apply_one(const train_step *s, bool decay, float gradient, float *weight, float *moment1, float *moment2) {
    float g = gradient * s->clip;
    *moment1 = fmaf(recipe.beta1, *moment1, (1 - recipe.beta1) * g);
    *moment2 = fmaf(recipe.beta2, *moment2, (1 - recipe.beta2) * g * g);
    float down = *moment1 / (sqrtf(*moment2) / sqrtf(s->bias2) + recipe.eps);
    float kept = *weight * (decay ? 1 - s->learning_rate * recipe.weight_decay : 1);
    *weight = fmaf(-(s->learning_rate / s->bias1), down, kept);
}

static void test_vector_widths_give_the_same_bits(void **state) {
    (void)state;
    enum { COUNT = 259 };
    float gradient[COUNT], weights[COUNT], moment1[COUNT] = {0}, moment2[COUNT] = {0}, w[COUNT], m[COUNT] = {0},
                                           v[COUNT] = {0};
    // Includes numbers with subnormal squares: nothing is flushed to zero.
    for (int i = 0; i < COUNT; i++) gradient[i] = ldexpf((float)((i * 7919) % 1000 - 500), -(i % 90));
    for (int i = 0; i < COUNT; i++) weights[i] = w[i] = sinf((float)i);
    for (uint64_t t = 0; t < 4; t++) {
        train_step step = train_decide(&recipe, t, 4e9, 1);
        adamw_apply(&recipe, &step, t % 2 == 0, COUNT, gradient, weights, moment1, moment2);
        for (int i = 0; i < COUNT; i++) apply_one(&step, t % 2 == 0, gradient[i], &w[i], &m[i], &v[i]);
    }
    assert_memory_equal(weights, w, sizeof w);
    assert_memory_equal(moment1, m, sizeof m);
    assert_memory_equal(moment2, v, sizeof v);
}

static void test_the_rate_warms_up_and_falls(void **state) {
    (void)state;
    assert_close(train_learning_rate(&recipe, 0), 1e-4, 1e-9);
    assert_close(train_learning_rate(&recipe, 9), 1e-3, 1e-9);
    assert_close(train_learning_rate(&recipe, 10), 1e-3, 1e-9);
    assert_close(train_learning_rate(&recipe, 99), 1e-4, 1e-9);
    const double pi = acos(-1);
    for (uint64_t t = 10; t < 100; t++) {
        double expected = 1e-4 + 9e-4 * 0.5 * (1 + cos(pi * (double)(t - 10) / 89));
        assert_close(train_learning_rate(&recipe, t), expected, 1e-9);
        assert_true(t == 10 || train_learning_rate(&recipe, t) < train_learning_rate(&recipe, t - 1));
    }
    train_recipe short_one = recipe;
    short_one.iterations = 1;
    short_one.warmup = 0;
    assert_close(train_learning_rate(&short_one, 0), 1e-3, 1e-9);
}

static void test_decision_at_the_end_of_an_iteration(void **state) {
    (void)state;
    train_step step = train_decide(&recipe, 2, 16, 100);
    assert_false(step.skip);
    assert_close(step.clip, 0.25, 0);
    assert_close(step.bias1, 1 - 0.9 * 0.9 * 0.9, 1e-7);
    assert_close(step.bias2, 1 - 0.95 * 0.95 * 0.95, 1e-7);
    assert_close(train_decide(&recipe, 2, 0.25, 100).clip, 1, 0);
    train_recipe unclipped = recipe;
    unclipped.clip = 0;
    assert_close(train_decide(&unclipped, 2, 1e6, 100).clip, 1, 0);
    assert_true(train_decide(&recipe, 2, 1, 0).skip);
    assert_true(train_decide(&recipe, 2, (double)NAN, 100).skip);
    assert_true(train_decide(&recipe, 2, (double)INFINITY, 100).skip);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_five_steps_match_pytorch),
        cmocka_unit_test(test_vector_widths_give_the_same_bits),
        cmocka_unit_test(test_the_rate_warms_up_and_falls),
        cmocka_unit_test(test_decision_at_the_end_of_an_iteration),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
