#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tensor/codec.h"

#include "base/rng.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { POOLS = 3, MOST = 3 * 4096 + 77 };

static tensor_pool *pools[POOLS];

static const size_t counts[] = {1, 2, 3, 63, 64, 65, 128, 4095, 4096, 4097, MOST};
enum { COUNTS = sizeof counts / sizeof *counts };

static void fill(float *x, size_t count, uint64_t seed) {
    rng r = {seed};
    for (size_t i = 0; i < count; i++) {
        double wide = rng_below(&r, 40) == 0 ? 30 : 1;
        x[i] = (float)(wide * (2 * rng_unit(&r) - 1));
    }
}

static void round_trip(tensor_codec codec, const float *x, size_t count, float *out) {
    void *packed = calloc(tensor_codec_bytes(codec, count) + 1, 1);
    assert_non_null(packed);
    tensor_codec_encode(pools[0], codec, x, count, packed);
    tensor_codec_decode(pools[0], codec, packed, count, out);
    free(packed);
}

static float largest_in_block(const float *x, size_t i, size_t count, size_t without) {
    size_t begin = i / CODEC_BLOCK * CODEC_BLOCK;
    float largest = 0;
    for (size_t k = begin; k < count && k < begin + CODEC_BLOCK; k++)
        if (k != without && fabsf(x[k]) > largest) largest = fabsf(x[k]);
    return largest;
}

static size_t place_in_block(const float *x, size_t i, size_t count) {
    size_t begin = i / CODEC_BLOCK * CODEC_BLOCK, place = begin;
    for (size_t k = begin; k < count && k < begin + CODEC_BLOCK; k++)
        if (fabsf(x[k]) > fabsf(x[place])) place = k;
    return place;
}

// Each decoded value is within half a step of the original.
static void test_errors_are_bounded(void **state) {
    (void)state;
    static float x[MOST], y[MOST];
    for (size_t c = 0; c < COUNTS; c++) {
        fill(x, counts[c], 5 + c);
        round_trip(CODEC_FP32, x, counts[c], y);
        assert_memory_equal(x, y, counts[c] * sizeof *x);
        round_trip(CODEC_BF16, x, counts[c], y);
        for (size_t i = 0; i < counts[c]; i++) assert_true(fabsf(x[i] - y[i]) <= fabsf(x[i]) / 256);
        round_trip(CODEC_INT8, x, counts[c], y);
        for (size_t i = 0; i < counts[c]; i++)
            assert_true(fabsf(x[i] - y[i]) <= largest_in_block(x, i, counts[c], counts[c]) / 127 * 0.50001f);
        round_trip(CODEC_INT4, x, counts[c], y);
        for (size_t i = 0; i < counts[c]; i++) {
            size_t place = place_in_block(x, i, counts[c]);
            if (i == place)
                assert_true(x[i] == y[i]);
            else
                assert_true(fabsf(x[i] - y[i]) <= largest_in_block(x, i, counts[c], place) / 7 * 0.50001f);
        }
    }
}

// Rounding in place is the round trip, whatever the number of threads.
static void test_rounding_is_the_round_trip(void **state) {
    (void)state;
    static float x[MOST], y[MOST], z[MOST];
    for (int codec = 0; codec < TENSOR_CODECS; codec++)
        for (size_t c = 0; c < COUNTS; c++)
            for (int p = 0; p < POOLS; p++) {
                fill(x, counts[c], 50 + c);
                round_trip((tensor_codec)codec, x, counts[c], y);
                memcpy(z, x, counts[c] * sizeof *x);
                tensor_codec_round(pools[p], (tensor_codec)codec, z, counts[c]);
                assert_memory_equal(y, z, counts[c] * sizeof *x);
            }
}

static void test_bytes_do_not_depend_on_threads(void **state) {
    (void)state;
    static float x[MOST];
    fill(x, MOST, 9);
    for (int codec = 0; codec < TENSOR_CODECS; codec++) {
        size_t bytes = tensor_codec_bytes((tensor_codec)codec, MOST);
        uint8_t *one = malloc(bytes), *other = malloc(bytes);
        assert_true(one && other && bytes % 4 == 0);
        memset(one, 0xff, bytes), memset(other, 0x11, bytes);
        tensor_codec_encode(pools[0], (tensor_codec)codec, x, MOST, one);
        tensor_codec_encode(pools[2], (tensor_codec)codec, x, MOST, other);
        assert_memory_equal(one, other, bytes);
        free(one), free(other);
    }
}

static void test_sizes(void **state) {
    (void)state;
    assert_int_equal(tensor_codec_bytes(CODEC_FP32, 6400), 25600);
    assert_int_equal(tensor_codec_bytes(CODEC_BF16, 6400), 12800);
    assert_int_equal(tensor_codec_bytes(CODEC_INT8, 6400), 6800);
    assert_int_equal(tensor_codec_bytes(CODEC_INT4, 6400), 4100);
    assert_int_equal(tensor_codec_bytes(CODEC_BF16, 3), 8);
}

// Exact values: the largest is 127, or 7 without the one apart; ties go to even.
static void test_known_values(void **state) {
    (void)state;
    float x[4] = {127, -63.5f, 0.5f, 1.5f}, y[4];
    round_trip(CODEC_INT8, x, 4, y);
    const float eight[4] = {127, -64, 0, 2};
    assert_memory_equal(y, eight, sizeof eight);
    float four[5] = {1000, 7, -3.5f, 2.5f, 0.4f}, z[5];
    round_trip(CODEC_INT4, four, 5, z);
    const float wanted[5] = {1000, 7, -4, 2, 0};
    assert_memory_equal(z, wanted, sizeof wanted);
    float half[3] = {1.00390625f, 1.01171875f, 3.4e38f};  // ties; and beyond the largest bf16
    round_trip(CODEC_BF16, half, 3, y);
    assert_true(y[0] == 1.0f && y[1] == 1.015625f && isinf(y[2]));
}

// A value that is not finite makes its block NaN, and no other one.
static void test_values_that_are_not_finite(void **state) {
    (void)state;
    static const float bad[] = {INFINITY, -INFINITY, NAN};
    for (int codec = CODEC_INT8; codec < TENSOR_CODECS; codec++)
        for (size_t b = 0; b < 3; b++) {
            float x[3 * CODEC_BLOCK], y[3 * CODEC_BLOCK];
            fill(x, 3 * CODEC_BLOCK, 3);
            x[CODEC_BLOCK + 5] = bad[b];
            round_trip((tensor_codec)codec, x, 3 * CODEC_BLOCK, y);
            for (size_t i = 0; i < 3 * CODEC_BLOCK; i++)
                assert_true((i / CODEC_BLOCK == 1) == !isfinite(y[i]) && (i / CODEC_BLOCK != 1 || isnan(y[i])));
        }
    float x[3] = {INFINITY, -INFINITY, NAN}, y[3];
    round_trip(CODEC_BF16, x, 3, y);
    assert_true(isinf(y[0]) && y[0] > 0 && isinf(y[1]) && y[1] < 0 && isnan(y[2]));
}

static void test_zeros_and_small_values(void **state) {
    (void)state;
    static const float values[] = {0, 1e-45f, -1e-38f, 1e-31f};
    for (int codec = CODEC_INT8; codec < TENSOR_CODECS; codec++)
        for (size_t v = 0; v < 4; v++) {
            float x[CODEC_BLOCK] = {0}, y[CODEC_BLOCK];
            x[7] = values[v], x[9] = values[v];
            round_trip((tensor_codec)codec, x, CODEC_BLOCK, y);
            for (size_t i = 0; i < CODEC_BLOCK; i++) assert_true(fabsf(y[i]) <= 1e-31f);
        }
}

// Decoding ends and writes `count` values for any bytes of another peer.
static void test_any_bytes_can_be_decoded(void **state) {
    (void)state;
    rng r = {77};
    for (int codec = 0; codec < TENSOR_CODECS; codec++)
        for (size_t c = 0; c < COUNTS; c++) {
            size_t bytes = tensor_codec_bytes((tensor_codec)codec, counts[c]);
            uint8_t *packed = malloc(bytes);
            float *y = malloc((counts[c] + 1) * sizeof *y);
            assert_true(packed && y);
            for (size_t i = 0; i < bytes; i++) packed[i] = (uint8_t)rng_next(&r);
            y[counts[c]] = 42;
            tensor_codec_decode(pools[1], (tensor_codec)codec, packed, counts[c], y);
            assert_true(y[counts[c]] == 42);
            free(packed), free(y);
        }
}

static int setup(void **state) {
    (void)state;
    for (unsigned p = 0; p < POOLS; p++)
        if (tensor_pool_new(p + 1, &pools[p], NULL)) return -1;
    return 0;
}

static int teardown(void **state) {
    (void)state;
    for (size_t p = 0; p < POOLS; p++) tensor_pool_free(pools[p]);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_errors_are_bounded),
        cmocka_unit_test(test_rounding_is_the_round_trip),
        cmocka_unit_test(test_bytes_do_not_depend_on_threads),
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_known_values),
        cmocka_unit_test(test_values_that_are_not_finite),
        cmocka_unit_test(test_zeros_and_small_values),
        cmocka_unit_test(test_any_bytes_can_be_decoded),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
