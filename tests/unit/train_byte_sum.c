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

typedef struct exchange {
    float sum[2][MOST], kept[2][MOST], next[2][MOST], result[MOST];
} exchange;

// Member 0 owns the block; member 1 sends its part.
static void exchange_once(exchange *e, uint64_t tokens) {
    uint8_t bytes[MOST + MOST / BYTE_SUM_GROUP + 1];
    byte_sum_pack(e->sum[1], e->kept[1], MOST, bytes, e->next[1]);
    const sum_part parts[2] = {{.plain = (const uint8_t *)e->sum[0]}, {.packed = bytes}};
    byte_sum_reduce(parts, 2, MOST, tokens, e->kept[0], e->result, e->next[0]);
    memcpy(e->kept, e->next, sizeof e->kept);
}

// What is left out of one iteration comes with later ones: the mean of the results is the mean of
// the sums, up to the last residual.
static void test_nothing_is_lost_over_iterations(void **state) {
    (void)state;
    exchange *e = calloc(1, sizeof *e);
    assert_non_null(e);
    double sent[MOST] = {0}, meant[MOST] = {0};
    for (uint64_t round = 0; round < ROUNDS; round++) {
        fill(e->sum[0], MOST, round % 3);
        fill(e->sum[1], MOST, 3 + round % 5);
        exchange_once(e, 512);
        for (size_t i = 0; i < MOST; i++) {
            meant[i] += ((double)e->sum[0][i] + (double)e->sum[1][i]) / 512;
            sent[i] += (double)e->result[i];
        }
    }
    for (size_t i = 0; i < MOST; i++) {
        double left = ((double)e->kept[0][i] + (double)e->kept[1][i]) / 512;
        assert_true(fabs(meant[i] - sent[i] - left) < 1e-5);
        assert_true(fabs(left) < 1.0 / 512);
    }
    free(e);
}

// An owner without microbatches keeps its residual and adds the error of the result.
static void test_an_owner_without_a_part_keeps_its_residual(void **state) {
    (void)state;
    float x[64], kept[64], left[64], result[64], sent[64];
    uint8_t bytes[65];
    fill(x, 64, 1);
    for (size_t i = 0; i < 64; i++) kept[i] = (float)i;
    byte_sum_encode(x, 64, bytes);
    byte_sum_decode(bytes, 64, sent);
    const sum_part part = {.packed = bytes};
    byte_sum_reduce(&part, 1, 64, 3, kept, result, left);
    for (size_t i = 0; i < 64; i++) assert_true(fabsf(left[i] - ((float)i + sent[i] - 3 * result[i])) < 1e-4f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_errors_are_bounded),
        cmocka_unit_test(test_decoded_values_stay),
        cmocka_unit_test(test_special_groups),
        cmocka_unit_test(test_bytes_a_value),
        cmocka_unit_test(test_nothing_is_lost_over_iterations),
        cmocka_unit_test(test_an_owner_without_a_part_keeps_its_residual),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
