// Sampling against a slow reference of the rules in sampler.h, and by hand.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "infer/sampler.h"

enum { VOCAB = 500 };

static sampler *made(sampler_settings s, uint32_t vocab) {
    sampler *out = NULL;
    braid_error error = {0};
    if (sampler_new(&s, vocab, &out, &error)) fail_msg("%s", error.text);
    return out;
}

static uint32_t drawn(sampler *s, const float *logits, uint32_t vocab) {
    float *copy = malloc(vocab * sizeof *copy);
    memcpy(copy, logits, vocab * sizeof *copy);
    uint32_t token = sampler_next(s, copy);
    free(copy);
    return token;
}

// Which of `count` tokens come up in many draws, and how often.
static void draw_many(sampler_settings set, const float *logits, uint32_t vocab, uint32_t draws, uint32_t *seen) {
    sampler *s = made(set, vocab);
    memset(seen, 0, vocab * sizeof *seen);
    for (uint32_t i = 0; i < draws; i++) seen[drawn(s, logits, vocab)]++;
    sampler_free(s);
}

static void test_draws_follow_the_probabilities(void **state) {
    (void)state;
    enum { DRAWS = 20000 };
    const float logits[5] = {0, 3, 1, 2, -4};
    uint32_t seen[5];
    double sum = 0;
    draw_many(sampler_defaults(), logits, 5, DRAWS, seen);
    for (int i = 0; i < 5; i++) sum += exp((double)logits[i]);
    for (int i = 0; i < 5; i++) {
        double p = exp((double)logits[i]) / sum, deviation = sqrt(p * (1 - p) * DRAWS);
        assert_true(fabs(seen[i] - p * DRAWS) < 5 * deviation + 1);
    }
    sampler_settings hot = sampler_defaults();
    hot.temperature = 2;
    draw_many(hot, logits, 5, DRAWS, seen);
    sum = 0;
    for (int i = 0; i < 5; i++) sum += exp((double)logits[i] / 2);
    for (int i = 0; i < 5; i++) {
        double p = exp((double)logits[i] / 2) / sum, deviation = sqrt(p * (1 - p) * DRAWS);
        assert_true(fabs(seen[i] - p * DRAWS) < 5 * deviation + 1);
    }
}

static void test_greedy_takes_the_first_of_the_largest(void **state) {
    (void)state;
    const float logits[6] = {NAN, 1, 7, 7, -INFINITY, 2}, nothing[3] = {NAN, -INFINITY, NAN};
    sampler_settings greedy = sampler_defaults();
    greedy.temperature = 0;
    sampler *s = made(greedy, 6), *t = made(sampler_defaults(), 3);
    for (int i = 0; i < 3; i++) assert_int_equal(drawn(s, logits, 6), 2);
    assert_true(drawn(t, nothing, 3) < 3);
    sampler_free(s);
    sampler_free(t);
}

static void test_top_k_keeps_ties(void **state) {
    (void)state;
    const float logits[6] = {1, 2, 2, 0, 3, 2};
    uint32_t seen[6];
    sampler_settings set = sampler_defaults();
    set.top_k = 2;
    set.temperature = 10;
    draw_many(set, logits, 6, 2000, seen);
    for (int i = 0; i < 6; i++) assert_int_equal(seen[i] > 0, logits[i] >= 2);
    set.top_k = 1;
    draw_many(set, logits, 6, 500, seen);
    assert_int_equal(seen[4], 500);
}

// Probabilities 0.4, 0.3, 0.2, 0.1.
static void test_top_p_keeps_the_fewest(void **state) {
    (void)state;
    static const struct {
        double top_p;
        int kept;
    } cases[] = {{0, 1}, {0.39, 1}, {0.41, 2}, {0.69, 2}, {0.71, 3}, {0.91, 4}, {1, 4}};
    const float logits[4] = {logf(0.1f), logf(0.4f), logf(0.2f), logf(0.3f)};
    static const uint32_t order[4] = {1, 3, 2, 0};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        uint32_t seen[4];
        sampler_settings set = sampler_defaults();
        set.top_p = cases[c].top_p;
        draw_many(set, logits, 4, 600, seen);
        for (int i = 0; i < 4; i++) assert_int_equal(seen[order[i]] > 0, i < cases[c].kept);
    }
}

static void test_min_p_is_a_share_of_the_largest(void **state) {
    (void)state;
    const float logits[4] = {logf(0.1f), logf(0.4f), logf(0.2f), logf(0.3f)};
    uint32_t seen[4];
    sampler_settings set = sampler_defaults();
    set.min_p = 0.6;  // of 0.4: 0.24
    draw_many(set, logits, 4, 600, seen);
    assert_true(seen[1] > 0 && seen[3] > 0 && seen[0] == 0 && seen[2] == 0);
    set.min_p = 1;
    draw_many(set, logits, 4, 100, seen);
    assert_int_equal(seen[1], 100);
}

// Temperature changes what top_p keeps, because it is first; top_k makes the sum of top_p smaller.
static void test_the_order_is_that_of_transformers(void **state) {
    (void)state;
    const float logits[4] = {logf(0.1f), logf(0.4f), logf(0.2f), logf(0.3f)};
    uint32_t seen[4];
    sampler_settings set = sampler_defaults();
    set.temperature = 0.25;
    set.top_p = 0.7;  // 0.4^4 is 0.73 of the sum of fourth powers
    draw_many(set, logits, 4, 300, seen);
    assert_int_equal(seen[1], 300);
    set = sampler_defaults();
    set.top_k = 2;
    set.top_p = 0.55;  // 0.4 is 0.57 of 0.7
    draw_many(set, logits, 4, 300, seen);
    assert_int_equal(seen[1], 300);
}

static int compare_floats(const void *a, const void *b) {
    float x = *(const float *)a, y = *(const float *)b;
    return x < y ? 1 : x > y ? -1 : 0;
}

// The smallest logit that the rules keep, from sorted logits.
static float least_kept(const sampler_settings *set, const float *logits) {
    float sorted[VOCAB];
    double sum = 0, have = 0, t = set->temperature;
    memcpy(sorted, logits, sizeof sorted);
    qsort(sorted, VOCAB, sizeof *sorted, compare_floats);
    uint32_t kept = VOCAB, i = 0;
    if (set->top_k > 0)
        for (kept = set->top_k; kept < VOCAB && sorted[kept] == sorted[set->top_k - 1];) kept++;
    for (i = 0; i < kept; i++) sum += exp(((double)sorted[i] - (double)sorted[0]) / t);
    for (i = 0; i < kept && have < set->top_p * sum; i++) have += exp(((double)sorted[i] - (double)sorted[0]) / t);
    kept = i > 0 ? i : 1;
    while (exp(((double)sorted[kept - 1] - (double)sorted[0]) / t) < set->min_p) kept--;
    return sorted[kept - 1];
}

static void test_random_settings_keep_what_the_rules_keep(void **state) {
    (void)state;
    rng r = {3};
    for (int round = 0; round < 60; round++) {
        float logits[VOCAB], least = 0;
        sampler_settings set = sampler_defaults();
        set.temperature = 0.3 + 3 * rng_unit(&r);
        set.seed = (uint64_t)round;
        if (round % 2) set.top_k = 1 + (uint32_t)rng_below(&r, VOCAB - 1);
        if (round % 3) set.top_p = 0.2 + 0.79 * rng_unit(&r);
        if (round % 5 == 0) set.min_p = 0.2 * rng_unit(&r);
        for (int i = 0; i < VOCAB; i++) logits[i] = (float)rng_below(&r, 1000) / 100;
        least = least_kept(&set, logits);
        uint32_t seen[VOCAB];
        draw_many(set, logits, VOCAB, 3000, seen);
        float lowest = INFINITY;
        for (int i = 0; i < VOCAB; i++)
            if (seen[i] && logits[i] < lowest) lowest = logits[i];
        assert_true(lowest >= least);
    }
}

static void test_penalties_change_logits_once_and_by_count(void **state) {
    (void)state;
    sampler_settings set = sampler_defaults();
    set.temperature = 0;
    set.repetition_penalty = 2;
    set.presence_penalty = 0.5;
    set.frequency_penalty = 0.25;
    sampler *s = made(set, 4);
    const uint32_t prompt[] = {0, 0, 1};
    sampler_prompt(s, prompt, 3);
    sampler_accept(s, 2);
    sampler_accept(s, 2);
    sampler_accept(s, 1);
    float logits[4] = {4, -4, 6, 1};
    sampler_next(s, logits);
    assert_true(logits[0] == 2.0f);        // the prompt: halved once
    assert_true(logits[1] == -8 - 0.75f);  // of both: doubled, as negative, and once in the text
    assert_true(logits[2] == 3 - 0.5f - 0.5f);
    assert_true(logits[3] == 1.0f);
    sampler_free(s);
}

static void test_biases_come_first(void **state) {
    (void)state;
    const sampler_bias biases[] = {{3, 100}, {1, -INFINITY}};
    sampler_settings set = sampler_defaults();
    set.biases = biases;
    set.bias_count = 2;
    set.repetition_penalty = 2;
    set.temperature = 0;
    sampler *s = made(set, 5);
    const uint32_t prompt = 3;
    sampler_prompt(s, &prompt, 1);
    float logits[5] = {1, 50, 2, 0, 1};
    assert_int_equal(sampler_next(s, logits), 3);
    assert_true(logits[3] == 50.0f && logits[1] == -INFINITY);
    sampler_free(s);
}

// Computed by a program in Python that draws among the kept tokens in descending order of logits.
static void test_a_seed_gives_the_same_tokens(void **state) {
    (void)state;
    static const uint32_t expected[] = {431, 29, 215, 8, 360, 237, 13, 46, 371, 360, 150, 494};
    float logits[VOCAB];
    for (int i = 0; i < VOCAB; i++) logits[i] = (float)(i * 37 % 101) / 20;
    sampler_settings set = sampler_defaults();
    set.seed = 11;
    set.top_p = 0.9;
    sampler *s = made(set, VOCAB), *again = made(set, VOCAB);
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        uint32_t token = drawn(s, logits, VOCAB);
        assert_int_equal(token, expected[i]);
        assert_int_equal(drawn(again, logits, VOCAB), token);
    }
    sampler_free(s);
    sampler_free(again);
}

static void test_log_probabilities(void **state) {
    (void)state;
    const float logits[4] = {logf(0.1f) + 5, logf(0.4f) + 5, logf(0.2f) + 5, logf(0.3f) + 5};
    sampler_top top[SAMPLER_MAX_TOP];
    assert_true(fabsf(sampler_logprob(logits, 4, 2) - logf(0.2f)) < 1e-6f);
    assert_int_equal(sampler_likeliest(logits, 4, 3, top), 3);
    static const uint32_t order[] = {1, 3, 2};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(top[i].token, order[i]);
        assert_true(top[i].logprob == sampler_logprob(logits, 4, order[i]));
    }
    assert_int_equal(sampler_likeliest(logits, 4, 0, top), 0);
    assert_int_equal(sampler_likeliest(logits, 4, 10, top), 4);
}

static void expect_refused(sampler_settings set, const char *text) {
    sampler *s;
    braid_error error = {0};
    assert_int_equal(sampler_new(&set, 10, &s, &error), BRAID_CONFIG);
    assert_non_null(strstr(error.text, text));
    assert_null(s);
}

static void test_bad_settings_are_named(void **state) {
    (void)state;
    const sampler_bias outside = {10, 1}, endless = {1, INFINITY};
    sampler_settings good = sampler_defaults(), s;
    s = good, s.temperature = -1, expect_refused(s, "temperature");
    s = good, s.temperature = NAN, expect_refused(s, "temperature");
    s = good, s.top_p = 1.5, expect_refused(s, "top_p");
    s = good, s.min_p = -0.1, expect_refused(s, "min_p");
    s = good, s.repetition_penalty = 0, expect_refused(s, "repetition_penalty");
    s = good, s.presence_penalty = NAN, expect_refused(s, "presence_penalty");
    s = good, s.biases = &outside, s.bias_count = 1, expect_refused(s, "token 10");
    s = good, s.biases = &endless, s.bias_count = 1, expect_refused(s, "bias of token 1");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_draws_follow_the_probabilities),
        cmocka_unit_test(test_greedy_takes_the_first_of_the_largest),
        cmocka_unit_test(test_top_k_keeps_ties),
        cmocka_unit_test(test_top_p_keeps_the_fewest),
        cmocka_unit_test(test_min_p_is_a_share_of_the_largest),
        cmocka_unit_test(test_the_order_is_that_of_transformers),
        cmocka_unit_test(test_random_settings_keep_what_the_rules_keep),
        cmocka_unit_test(test_penalties_change_logits_once_and_by_count),
        cmocka_unit_test(test_biases_come_first),
        cmocka_unit_test(test_a_seed_gives_the_same_tokens),
        cmocka_unit_test(test_log_probabilities),
        cmocka_unit_test(test_bad_settings_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
