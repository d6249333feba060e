#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "train/byte_sum.h"

#include "base/rng.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 1000, ROUNDS = 400 };

static const size_t counts[] = {1, 63, 64, 65, 129, MOST};
enum { COUNTS = sizeof counts / sizeof *counts };

// Values over many orders of magnitude, some of them zero.
static void fill(float *x, size_t count, uint64_t seed) {
    rng r = {rng_seed(7, seed)};
    for (size_t i = 0; i < count; i++) {
        float value = (float)(2 * rng_unit(&r) - 1);
        x[i] = rng_below(&r, 9) == 0 ? 0 : ldexpf(value, -(int)rng_below(&r, 30));
    }
}

static void round_trip(const float *x, size_t count, float *out) {
    uint8_t *bytes = malloc(byte_sum_bytes(count));
    assert_non_null(bytes);
    byte_sum_encode(x, count, bytes);
    byte_sum_decode(bytes, count, out);
    free(bytes);
}

static float largest_near(const float *x, size_t i, size_t count) {
    float largest = 0;
    size_t begin = i / BYTE_SUM_GROUP * BYTE_SUM_GROUP;
    for (size_t k = begin; k < count && k < begin + BYTE_SUM_GROUP; k++) largest = fmaxf(largest, fabsf(x[k]));
    return largest;
}

// A sixteenth of the value, or half a unit of the group.
static void test_errors_are_bounded(void **state) {
    (void)state;
    float x[MOST], y[MOST];
    for (size_t c = 0; c < COUNTS; c++) {
        fill(x, counts[c], c);
        round_trip(x, counts[c], y);
        for (size_t i = 0; i < counts[c]; i++) {
            float bound = fmaxf(fabsf(x[i]) / 16, ldexpf(largest_near(x, i, counts[c]), -17));
            assert_true(fabsf(x[i] - y[i]) <= bound);
        }
    }
}

static void test_decoded_values_stay(void **state) {
    (void)state;
    float x[MOST], y[MOST], z[MOST];
    for (uint64_t seed = 0; seed < 200; seed++) {
        fill(x, MOST, seed);
        for (size_t i = 0; i < MOST; i++) x[i] = ldexpf(x[i], (int)(seed * 2) - 240);  // subnormal to large
        round_trip(x, MOST, y);
        round_trip(y, MOST, z);
        assert_memory_equal(y, z, sizeof y);
    }
}

static void test_special_groups(void **state) {
    (void)state;
    float x[2 * BYTE_SUM_GROUP] = {0}, y[2 * BYTE_SUM_GROUP];
    const float bad[] = {NAN, INFINITY, -INFINITY, 3.4e38f};
    for (size_t k = 0; k < sizeof bad / sizeof *bad; k++) {
        x[5] = bad[k];
        x[70] = 1;
        x[71] = -0.0f;
        round_trip(x, 2 * BYTE_SUM_GROUP, y);
        assert_true(isnan(y[0]) && isnan(y[63]));
        assert_true(y[64] == 0 && y[70] == 1 && y[71] == 0 && !signbit(y[71]));
    }
    x[5] = -0.0f;
    round_trip(x, BYTE_SUM_GROUP, y);
    for (size_t i = 0; i < BYTE_SUM_GROUP; i++) assert_true(y[i] == 0 && !signbit(y[i]));
}

static void test_bytes_a_value(void **state) {
    (void)state;
    assert_int_equal(byte_sum_bytes(1), 2);
    assert_int_equal(byte_sum_bytes(64), 65);
    assert_int_equal(byte_sum_bytes(65), 67);
    assert_true((double)byte_sum_bytes(1 << 16) <= 1.1 * (1 << 16));
}

// The owner's part is added in fp32, another member's as it was sent; the result is rounded once.
static void test_reduce_adds_and_rounds(void **state) {
    (void)state;
    float own[MOST], other[MOST], sent[MOST], mean[MOST], expected[MOST], result[MOST];
    uint8_t bytes[MOST + MOST / BYTE_SUM_GROUP + 1];
    fill(own, MOST, 1);
    fill(other, MOST, 2);
    byte_sum_encode(other, MOST, bytes);
    byte_sum_decode(bytes, MOST, sent);
    const sum_part parts[2] = {{.plain = (const uint8_t *)own}, {.packed = bytes}};
    const uint64_t tokens[] = {512, 300, 1 << 24, 3u << 24};  // the last is divided by in double precision
    for (size_t t = 0; t < sizeof tokens / sizeof *tokens; t++) {
        for (size_t i = 0; i < MOST; i++) mean[i] = (float)((double)(own[i] + sent[i]) / (double)tokens[t]);
        round_trip(mean, MOST, expected);
        byte_sum_reduce(parts, 2, MOST, tokens[t], result);
        assert_memory_equal(result, expected, sizeof result);
    }
    byte_sum_reduce(parts, 2, MOST, 0, result);
    assert_true(isnan(result[0]) && isnan(result[MOST - 1]));
}

// The mean error of many roundings is small: no value is drawn to one side.
static void test_rounding_has_no_drift(void **state) {
    (void)state;
    float x[MOST], y[MOST];
    double error = 0, size = 0;
    for (uint64_t seed = 0; seed < ROUNDS; seed++) {
        fill(x, MOST, seed);
        round_trip(x, MOST, y);
        for (size_t i = 0; i < MOST; i++) error += fabs((double)y[i]) - fabs((double)x[i]);
        for (size_t i = 0; i < MOST; i++) size += fabs((double)x[i]);
    }
    assert_true(fabs(error / size) < 1e-3);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_errors_are_bounded),     cmocka_unit_test(test_decoded_values_stay),
        cmocka_unit_test(test_special_groups),         cmocka_unit_test(test_bytes_a_value),
        cmocka_unit_test(test_reduce_adds_and_rounds), cmocka_unit_test(test_rounding_has_no_drift),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
