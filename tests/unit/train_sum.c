#include "train/sum.h"

#include "seed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

enum { COUNT = 1000, MICROBATCHES = 4096 };

// Round to nearest even by exact integer arithmetic: a float is mantissa * 2^exponent.
static int64_t exact_fixed(float g) {
    int exponent;
    double mantissa = frexp((double)g, &exponent);
    __int128 integer = (__int128)ldexp(mantissa, 24);
    int shift = exponent - 24 + SUM_SCALE_BITS;
    if (shift >= 0) return (int64_t)(integer * ((__int128)1 << shift));
    if (shift < -60) return 0;
    __int128 unit = (__int128)1 << -shift, low = integer & (unit - 1), high = integer >> -shift;
    if (low * 2 > unit || (low * 2 == unit && (high & 1))) high++;
    return (int64_t)high;
}

static float random_gradient(rng *r) {
    double size = ldexp(rng_unit(r) - 0.5, (int)rng_below(r, 60) - 40);
    return (float)size;
}

static void test_a_number_becomes_the_nearest_integer(void **state) {
    (void)state;
    rng r = seeded_rng("nearest", 1);
    for (int i = 0; i < 200000; i++) {
        float g = random_gradient(&r);
        int64_t sum = 0;
        assert_false(sum_add_fixed(&sum, &g, 1, false));
        assert_int_equal(sum, exact_fixed(g));
    }
}

static void test_ties_go_to_even(void **state) {
    (void)state;
    const struct {
        float g;
        int64_t q;
    } cases[] = {{0x1p-31f, 0},
                 {-0x1p-31f, 0},
                 {0x3p-31f, 2},
                 {0x5p-31f, 2},
                 {-0x3p-31f, -2},
                 {0x7p-31f, 4},
                 {0x1p-30f, 1},
                 {0.0f, 0},
                 {-0.0f, 0},
                 {0x1p-149f, 0},
                 {0x1.fffffep19f, (int64_t)0x1.fffffep49}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int64_t sum = 0;
        assert_false(sum_add_fixed(&sum, &cases[i].g, 1, false));
        assert_int_equal(sum, cases[i].q);
    }
}

static void test_overflow_is_flagged_and_not_added(void **state) {
    (void)state;
    const float bad[] = {0x1p20f, -0x1p20f, 3e38f, INFINITY, -INFINITY, NAN, -NAN};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        float g[3] = {1, bad[i], 2};
        int64_t sum[3] = {5, 6, 7};
        assert_true(sum_add_fixed(sum, g, 3, false));
        assert_int_equal(sum[0], 5 + (1 << 30));
        assert_int_equal(sum[1], 6);
        assert_int_equal(sum[2], 7 + ((int64_t)2 << 30));
    }
}

static void test_the_most_microbatches_do_not_wrap(void **state) {
    (void)state;
    const float g[2] = {0x1.fffffep19f, -0x1.fffffep19f};
    int64_t sum[2] = {0, 0};
    for (int i = 0; i < MICROBATCHES; i++) assert_false(sum_add_fixed(sum, g, 2, false));
    assert_true((__int128)sum[0] == (__int128)exact_fixed(g[0]) * MICROBATCHES);
    assert_true((__int128)sum[1] == (__int128)exact_fixed(g[1]) * MICROBATCHES);
}

static void random_sums(rng *r, int64_t *sum, size_t count) {
    for (size_t i = 0; i < count; i++) {
        unsigned bits = (unsigned)rng_below(r, 64);
        // Within a group the widths are sometimes equal, so that every width occurs.
        if (i / SUM_GROUP % 2) bits = (unsigned)(i / SUM_GROUP * 7 % 64);
        sum[i] = (int64_t)rng_next(r) >> bits;
    }
}

static void test_packing_loses_nothing(void **state) {
    (void)state;
    rng r = seeded_rng("packing", 2);
    static int64_t sum[COUNT], back[COUNT];
    static uint8_t bytes[1 + COUNT * 9];
    for (size_t count = 1; count <= COUNT; count += 1 + count / 7) {
        random_sums(&r, sum, count);
        size_t length = sum_packed_bytes(sum, count, false);
        assert_int_equal(sum_pack(sum, count, false, bytes), length);
        assert_int_equal(sum_packed_length(bytes, length, count), length);
        assert_int_equal(sum_packed_length(bytes, length + 100, count), length);
        assert_true(sum_unpack(bytes, count, back));
        assert_memory_equal(sum, back, count * sizeof *sum);
    }
}

static void test_widths_are_as_small_as_the_numbers(void **state) {
    (void)state;
    const struct {
        int64_t q;
        size_t bits;
    } cases[] = {{0, 0},
                 {-1, 1},
                 {1, 2},
                 {127, 8},
                 {-128, 8},
                 {128, 9},
                 {-129, 9},
                 {32767, 16},
                 {32768, 17},
                 {INT64_MAX, 64},
                 {INT64_MIN, 64},
                 {-((int64_t)1 << 39), 40},
                 {(int64_t)1 << 39, 41},
                 {-((int64_t)1 << 56), 57},
                 {(int64_t)1 << 56, 64}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int64_t group[SUM_GROUP];
        for (size_t k = 0; k < SUM_GROUP; k++) group[k] = cases[i].q;
        assert_int_equal(sum_packed_bytes(group, SUM_GROUP, false), 2 + SUM_GROUP / 8 * cases[i].bits);
        assert_int_equal(sum_packed_bytes(group, 1, false), 2 + (cases[i].bits + 7) / 8);
    }
}

// Both ends of each width, with all numbers of neighbours in a group.
static void test_each_width_loses_nothing(void **state) {
    (void)state;
    static uint8_t bytes[2 + SUM_GROUP * 8];
    for (unsigned bits = 0; bits < 64; bits++)
        for (size_t count = 1; count <= SUM_GROUP; count++) {
            int64_t sum[SUM_GROUP], back[SUM_GROUP], largest = (int64_t)(((uint64_t)1 << bits) - 1);
            for (size_t i = 0; i < count; i++) sum[i] = i % 2 ? largest : -largest - 1;
            size_t length = sum_pack(sum, count, false, bytes);
            assert_int_equal(sum_packed_length(bytes, length, count), length);
            assert_true(sum_unpack(bytes, count, back));
            assert_memory_equal(sum, back, count * sizeof *sum);
        }
}

static void test_an_overflow_packs_into_one_byte(void **state) {
    (void)state;
    int64_t sum[300] = {1}, back[300];
    uint8_t bytes[4];
    assert_int_equal(sum_packed_bytes(sum, 300, true), 1);
    assert_int_equal(sum_pack(sum, 300, true, bytes), 1);
    assert_int_equal(sum_packed_length(bytes, 1, 300), 1);
    assert_false(sum_unpack(bytes, 300, back));
}

static void test_truncated_and_wrong_bytes_are_refused(void **state) {
    (void)state;
    rng r = seeded_rng("hostile", 3);
    int64_t sum[300];
    uint8_t bytes[1 + 300 * 9];
    random_sums(&r, sum, 300);
    size_t length = sum_pack(sum, 300, false, bytes);
    for (size_t left = 0; left < length; left++) assert_int_equal(sum_packed_length(bytes, left, 300), 0);
    bytes[0] = 2;
    assert_int_equal(sum_packed_length(bytes, length, 300), 0);
    bytes[0] = 0;
    for (unsigned width = 58; width < 256; width++) {
        bytes[1] = (uint8_t)width;
        if (width != 64) assert_int_equal(sum_packed_length(bytes, sizeof bytes, 300), 0);
    }
}

static void test_random_bytes_never_read_past_the_end(void **state) {
    (void)state;
    rng r = seeded_rng("random bytes", 4);
    int sound = 0;
    for (int i = 0; i < 20000; i++) {
        size_t left = (size_t)rng_below(&r, 400), count = 1 + (size_t)rng_below(&r, 200);
        // exactly as large as needed, so that a sanitizer sees one byte too many
        uint8_t *bytes = malloc(left + 1);
        int64_t out[200];
        for (size_t k = 0; k < left; k++) bytes[k] = (uint8_t)rng_below(&r, 3);
        size_t length = sum_packed_length(bytes, left, count);
        assert_true(length <= left);
        if (length > 0) sum_unpack(bytes, count, out);
        sound += length > 0;
        free(bytes);
    }
    assert_true(sound > 100);
}

static void test_a_reduction_is_independent_of_the_distribution(void **state) {
    (void)state;
    rng r = seeded_rng("reduction", 5);
    static float gradient[6][COUNT], one[COUNT], other[COUNT];
    static int64_t all[COUNT], half[3][COUNT];
    static uint8_t packed[3][1 + COUNT * 9];
    for (int m = 0; m < 6; m++) {
        for (int i = 0; i < COUNT; i++) gradient[m][i] = random_gradient(&r);
        assert_false(sum_add_fixed(all, gradient[m], COUNT, false));
        assert_false(sum_add_fixed(half[m % 3], gradient[m], COUNT, false));
    }
    for (int p = 0; p < 3; p++) sum_pack(half[p], COUNT, false, packed[p]);
    sum_reduce(&(sum_part){.own = all}, 1, COUNT, true, 77, one);
    sum_part parts[3] = {{.packed = packed[2]}, {.own = half[0]}, {.packed = packed[1]}};
    sum_reduce(parts, 3, COUNT, true, 77, other);
    assert_memory_equal(one, other, sizeof one);
    for (int i = 0; i < COUNT; i++) {
        double expected = (double)all[i] * 0x1p-30 / 77;
        assert_true(one[i] <= (float)expected && one[i] >= (float)expected);
    }
}

static void test_as_many_parts_as_a_stage_has_members(void **state) {
    (void)state;
    rng r = seeded_rng("many parts", 9);
    static float gradient[COUNT], one[COUNT], other[COUNT];
    static int64_t all[COUNT], part[SUM_MAX_PARTS][COUNT];
    sum_part parts[SUM_MAX_PARTS];
    for (int p = 0; p < SUM_MAX_PARTS; p++) {
        for (int i = 0; i < COUNT; i++) gradient[i] = random_gradient(&r);
        assert_false(sum_add_fixed(all, gradient, COUNT, false));
        assert_false(sum_add_fixed(part[p], gradient, COUNT, false));
        parts[p] = (sum_part){.own = part[p]};
    }
    sum_reduce(&(sum_part){.own = all}, 1, COUNT, true, 77, one);
    sum_reduce(parts, SUM_MAX_PARTS, COUNT, true, 77, other);
    assert_memory_equal(one, other, sizeof one);
}

// Powers of two and numbers below 2^51 take a faster path to the same bits.
static void test_a_result_is_rounded_once(void **state) {
    (void)state;
    rng r = seeded_rng("quotients", 8);
    static int64_t sum[COUNT];
    static float plain[COUNT], result[COUNT];
    const uint64_t tokens[] = {1, 2, 3, 1000, 1024, (uint64_t)1 << 40};
    for (size_t n = 0; n < sizeof tokens / sizeof *tokens; n++)
        for (unsigned bits = 20; bits <= 62; bits += 6) {
            for (int i = 0; i < COUNT; i++) {
                sum[i] = (int64_t)(rng_next(&r) >> (64 - bits)) * (rng_below(&r, 2) ? 1 : -1);
                plain[i] = (float)sum[i] * 0x1p-30f;
            }
            sum_reduce(&(sum_part){.own = sum}, 1, COUNT, true, tokens[n], result);
            for (int i = 0; i < COUNT; i++) {
                float expected = (float)((double)sum[i] * 0x1p-30 / (double)tokens[n]);
                assert_memory_equal(&result[i], &expected, sizeof expected);
            }
            memcpy(result, plain, sizeof plain);  // in place
            sum_reduce(&(sum_part){.plain = (const uint8_t *)result}, 1, COUNT, false, tokens[n], result);
            for (int i = 0; i < COUNT; i++) {
                float expected = (float)((double)plain[i] / (double)tokens[n]);
                assert_memory_equal(&result[i], &expected, sizeof expected);
            }
        }
}

static void test_one_overflow_invalidates_the_block(void **state) {
    (void)state;
    int64_t sum[4] = {1, 2, 3, 4};
    uint8_t flagged[1] = {1};
    float result[4] = {0};
    sum_reduce((sum_part[]){{.own = sum}, {.packed = flagged}}, 2, 4, true, 8, result);
    for (int i = 0; i < 4; i++) assert_true(isnan(result[i]));
    sum_reduce(&(sum_part){.own = sum, .overflow = true}, 1, 4, true, 8, result);
    for (int i = 0; i < 4; i++) assert_true(isnan(result[i]));
    assert_true(isnan(sum_norm2(result, 4)));
}

static void test_fast_sums_add_in_the_order_given(void **state) {
    (void)state;
    float a[2] = {1e8f, 3}, b[2] = {1, 4}, c[2] = {-1e8f, 5}, result[2];
    sum_part parts[3] = {{.plain = (const uint8_t *)a}, {.plain = (const uint8_t *)c}, {.plain = (const uint8_t *)b}};
    sum_reduce(parts, 3, 2, false, 2, result);
    assert_true(result[0] >= 0.5f && result[0] <= 0.5f && result[1] >= 6 && result[1] <= 6);
}

static void test_the_norm_is_of_sixteen_lanes(void **state) {
    (void)state;
    rng r = seeded_rng("norm", 6);
    float values[COUNT];
    for (int i = 0; i < COUNT; i++) values[i] = random_gradient(&r);
    for (size_t count = 0; count <= COUNT; count += 1 + count / 3) {
        double lane[16] = {0};
        for (size_t i = 0; i < count; i++) lane[i % 16] += (double)values[i] * (double)values[i];
        double eight[8], four[4];
        for (int i = 0; i < 8; i++) eight[i] = lane[i] + lane[i + 8];
        for (int i = 0; i < 4; i++) four[i] = eight[i] + eight[i + 4];
        double expected = (four[0] + four[2]) + (four[1] + four[3]), got = sum_norm2(values, count);
        assert_memory_equal(&got, &expected, sizeof got);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_number_becomes_the_nearest_integer),
        cmocka_unit_test(test_ties_go_to_even),
        cmocka_unit_test(test_overflow_is_flagged_and_not_added),
        cmocka_unit_test(test_the_most_microbatches_do_not_wrap),
        cmocka_unit_test(test_packing_loses_nothing),
        cmocka_unit_test(test_widths_are_as_small_as_the_numbers),
        cmocka_unit_test(test_each_width_loses_nothing),
        cmocka_unit_test(test_an_overflow_packs_into_one_byte),
        cmocka_unit_test(test_truncated_and_wrong_bytes_are_refused),
        cmocka_unit_test(test_random_bytes_never_read_past_the_end),
        cmocka_unit_test(test_a_reduction_is_independent_of_the_distribution),
        cmocka_unit_test(test_as_many_parts_as_a_stage_has_members),
        cmocka_unit_test(test_a_result_is_rounded_once),
        cmocka_unit_test(test_one_overflow_invalidates_the_block),
        cmocka_unit_test(test_fast_sums_add_in_the_order_given),
        cmocka_unit_test(test_the_norm_is_of_sixteen_lanes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
