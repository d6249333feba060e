// 16-bit numbers, sizes of formats, and mixed8.
#include "tensor/half.h"
#include "tensor/weights.h"

#include "seed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>

// An independent definition of binary16.
static double f16_value(uint16_t h) {
    int exponent = h >> 10 & 31, mantissa = h & 1023;
    double magnitude = exponent ? ldexp(1024 + mantissa, exponent - 25) : ldexp(mantissa, -24);
    return h >> 15 ? -magnitude : magnitude;
}

static bool is_finite_f16(uint16_t h) { return (h & 0x7c00) != 0x7c00; }

static void test_f16_is_exact(void **state) {
    (void)state;
    for (uint32_t h = 0; h < 1 << 16; h++) {
        float x = half_from_f16((uint16_t)h);
        if (is_finite_f16((uint16_t)h))
            assert_true((double)x <= f16_value((uint16_t)h) && (double)x >= f16_value((uint16_t)h));
        if (!is_finite_f16((uint16_t)h)) assert_int_equal(isnan(x), (h & 0x3ff) != 0);
        if (!isnan(x)) assert_int_equal(half_to_f16(x), h);
        if (isnan(x)) assert_true(isnan(half_from_f16(half_to_f16(x))));
    }
}

// Halfway between two neighbours the even one is taken; the next float to either side decides
// otherwise.
static void test_f16_rounds_to_the_nearest(void **state) {
    (void)state;
    for (uint32_t h = 0; h < 0x7bff; h++) {
        float middle = (float)((f16_value((uint16_t)h) + f16_value((uint16_t)(h + 1))) / 2);
        assert_int_equal(half_to_f16(middle), h + (h & 1));
        assert_int_equal(half_to_f16(nextafterf(middle, 0)), h);
        assert_int_equal(half_to_f16(nextafterf(middle, 1e9f)), h + 1);
        assert_int_equal(half_to_f16(-middle), 0x8000 + h + (h & 1));
    }
    assert_int_equal(half_to_f16(65519.996f), 0x7bff);
    assert_int_equal(half_to_f16(65520), 0x7c00);
    assert_int_equal(half_to_f16(1e-30f), 0);
}

static void test_bf16(void **state) {
    (void)state;
    for (uint32_t h = 0; h < 1 << 16; h++) {
        float x = half_from_bf16((uint16_t)h);
        if (!isnan(x)) assert_int_equal(half_to_bf16(x), h);
    }
    assert_int_equal(half_to_bf16(half_bits_float(0x3f808000)), 0x3f80);
    assert_int_equal(half_to_bf16(half_bits_float(0x3f818000)), 0x3f82);
    assert_true(isnan(half_from_bf16(half_to_bf16(NAN))));
}

static void test_sizes(void **state) {
    (void)state;
    assert_int_equal(weight_row_bytes(WEIGHT_Q4_1, 64), 40);
    assert_int_equal(weight_row_bytes(WEIGHT_Q4_1, 48), 0);
    assert_int_equal(weight_row_bytes(WEIGHT_Q6_K, 512), 420);
    assert_int_equal(weight_row_bytes(WEIGHT_F32, SIZE_MAX / 2), 0);
    assert_int_equal(weight_bytes(WEIGHT_F32, SIZE_MAX / 8, 4), 0);
    assert_int_equal(weight_bytes(WEIGHT_MIXED8, 3, 200), 2 * 4 + 3 * (4 + 200 + 2 * 2));
    assert_int_equal(weight_row_bytes(WEIGHT_MIXED8, SIZE_MAX), 0);
}

enum { ROWS = 40, COLS = 300, CRITICAL = 3 };

static uint8_t *pack_mixed8(const float *values) {
    uint8_t *out = malloc(weight_bytes(WEIGHT_MIXED8, ROWS, COLS));
    double score[COLS] = {0};
    uint32_t column[CRITICAL];
    assert_non_null(out);
    mixed8_score(values, 10, COLS, score);  // in parts
    mixed8_score(values + 10 * COLS, ROWS - 10, COLS, score);
    mixed8_choose(score, COLS, column);
    memcpy(out, column, sizeof column);
    weight_matrix w = {WEIGHT_MIXED8, ROWS, COLS, out};
    for (size_t i = 0; i < ROWS; i++) mixed8_pack(column, values + i * COLS, COLS, out + (weight_row(&w, i) - out));
    return out;
}

// Columns with outliers become the critical ones, keep 11 bits, and do not widen the others' steps.
static void test_mixed8_keeps_outliers(void **state) {
    (void)state;
    rng r = seeded_rng("mixed8", 8);
    float values[ROWS * COLS], back[ROWS * COLS];
    const uint32_t outliers[CRITICAL] = {7, 150, 299};
    assert_int_equal(mixed8_critical(COLS), CRITICAL);
    for (size_t i = 0; i < ROWS * COLS; i++) values[i] = (float)(rng_unit(&r) - 0.5);
    for (size_t i = 0; i < ROWS; i++)
        for (size_t k = 0; k < CRITICAL; k++) values[i * COLS + outliers[k]] *= 40;
    uint8_t *data = pack_mixed8(values);
    weight_matrix w = {WEIGHT_MIXED8, ROWS, COLS, data};
    assert_true(mixed8_valid(&w));
    for (size_t k = 0; k < CRITICAL; k++) assert_int_equal(mixed8_column(&w, k), outliers[k]);
    weight_rows(&w, 0, ROWS, back);
    for (size_t i = 0; i < ROWS * COLS; i++) {
        bool critical = i % COLS == 7 || i % COLS == 150 || i % COLS == 299;
        float most = critical ? fabsf(values[i]) / 2048 : 0.5f / 127 / 2 * 1.001f;
        assert_true(fabsf(back[i] - values[i]) <= most);
    }
    free(data);
}

// The row of a matrix of zeros, and values at the limits of floats.
static void test_mixed8_of_extremes(void **state) {
    (void)state;
    float values[ROWS * COLS] = {0}, back[COLS];
    for (size_t j = 0; j < COLS; j++) values[COLS + j] = 1e-42f;
    for (size_t j = 0; j < COLS; j++) values[2 * COLS + j] = j % 2 ? 3e38f : -3e38f;
    uint8_t *data = pack_mixed8(values);
    weight_matrix w = {WEIGHT_MIXED8, ROWS, COLS, data};
    assert_true(mixed8_valid(&w));
    for (size_t i = 0; i < 3; i++) {
        weight_rows(&w, i, 1, back);
        for (size_t j = 0; j < COLS; j++) assert_true(isfinite(back[j]));
    }
    free(data);
}

static void test_mixed8_table_is_checked(void **state) {
    (void)state;
    float values[ROWS * COLS] = {0};
    uint8_t *data = pack_mixed8(values);
    weight_matrix w = {WEIGHT_MIXED8, ROWS, COLS, data};
    const uint32_t bad[][CRITICAL] = {{0, 1, 300}, {5, 5, 6}, {9, 8, 10}};
    for (size_t i = 0; i < 3; i++) {
        memcpy(data, bad[i], sizeof bad[i]);
        assert_false(mixed8_valid(&w));
    }
    free(data);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_f16_is_exact),
        cmocka_unit_test(test_f16_rounds_to_the_nearest),
        cmocka_unit_test(test_bf16),
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_mixed8_keeps_outliers),
        cmocka_unit_test(test_mixed8_of_extremes),
        cmocka_unit_test(test_mixed8_table_is_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
