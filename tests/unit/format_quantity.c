#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "format/quantity.h"
#include "format/suggest.h"
#include "format/utf8.h"

#include <string.h>

static void test_sizes(void **state) {
    (void)state;
    static const struct {
        const char *text;
        uint64_t bytes;
    } good[] = {{"0", 0},
                {"4096", 4096},
                {"512K", 524288},
                {"512M", 536870912},
                {"1.5G", 1610612736},
                {"1GiB", 1073741824},
                {"2 MB", 2097152},
                {"3tib", 3298534883328}};
    static const char *const bad[] = {"", "M", "-1", "1Q", "0x10", "nan", "inf", "1e30", "12 M x", " 5"};
    uint64_t bytes = 0;
    braid_error error = {0};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_int_equal(quantity_read_size(good[i].text, &bytes, &error), BRAID_OK);
        assert_int_equal(bytes, good[i].bytes);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(quantity_read_size(bad[i], &bytes, &error), BRAID_ARGUMENT);
}

static void test_durations(void **state) {
    (void)state;
    uint64_t ns = 0;
    assert_int_equal(quantity_read_duration("250ms", &ns, NULL), BRAID_OK);
    assert_int_equal(ns, 250000000);
    assert_int_equal(quantity_read_duration("1.5", &ns, NULL), BRAID_OK);
    assert_int_equal(ns, 1500000000);
    assert_int_equal(quantity_read_duration("5m", &ns, NULL), BRAID_OK);
    assert_int_equal(ns, 300000000000);
    assert_int_equal(quantity_read_duration("5 lightyears", &ns, NULL), BRAID_ARGUMENT);
}

static void test_numbers(void **state) {
    (void)state;
    uint64_t count = 0;
    double real = 0;
    assert_int_equal(quantity_read_count("18446744073709551615", &count, NULL), BRAID_OK);
    assert_true(count == UINT64_MAX);
    static const char *const not_counts[] = {"", "-1", "+1", " 1", "1 ", "1.0", "0x1", "18446744073709551616"};
    for (size_t i = 0; i < 8; i++) assert_int_equal(quantity_read_count(not_counts[i], &count, NULL), BRAID_ARGUMENT);
    assert_int_equal(quantity_read_real("-2.5e-3", &real, NULL), BRAID_OK);
    assert_true(real == -2.5e-3);
    static const char *const not_reals[] = {"", "nan", "inf", "1e999", "0x1p3", "1,5", "--1"};
    for (size_t i = 0; i < 7; i++) assert_int_equal(quantity_read_real(not_reals[i], &real, NULL), BRAID_ARGUMENT);
}

static void test_texts(void **state) {
    (void)state;
    char text[QUANTITY_TEXT];
    assert_string_equal(quantity_size_text(17, text), "17 bytes");
    assert_string_equal(quantity_size_text(1536u << 20, text), "1.5 GiB");
    assert_string_equal(quantity_size_text(512u << 20, text), "512 MiB");
    assert_string_equal(quantity_duration_text(0.85, text), "850 ms");
    assert_string_equal(quantity_duration_text(200, text), "3 min 20 s");
    assert_string_equal(quantity_duration_text(7500, text), "2 h 5 min");
    assert_string_equal(quantity_duration_text(-1, text), "?");
    assert_string_equal(quantity_count_text(999, text), "999");
    assert_string_equal(quantity_count_text(12345678, text), "12.3 M");
}

static void test_suggestions(void **state) {
    (void)state;
    static const char *const names[] = {"iterations", "microbatches", "seed", "max-memory", "dim"};
    assert_string_equal(suggest_name("iteration", names, 5), "iterations");
    assert_string_equal(suggest_name("micro_batches", names, 5), "microbatches");
    assert_string_equal(suggest_name("sede", names, 5), "seed");
    assert_string_equal(suggest_name("max_memory", names, 5), "max-memory");
    assert_null(suggest_name("banana", names, 5));
    assert_null(suggest_name("", names, 5));
    char endless[300];
    memset(endless, 'x', sizeof endless - 1);
    endless[sizeof endless - 1] = 0;
    assert_null(suggest_name(endless, names, 5));
}

// Names with missing or additional words.
static void test_suggested_parts(void **state) {
    (void)state;
    static const char *const names[] = {"latency_ms", "up_mbps", "down_mbps", "upload_share", "mbps", "mode"};
    assert_string_equal(suggest_name("latency", names, 6), "latency_ms");
    assert_string_equal(suggest_name("Latency", names, 6), "latency_ms");
    assert_string_equal(suggest_name("late", names, 6), "latency_ms");
    // a whole word, and only the beginning of another
    assert_string_equal(suggest_name("up", names, 6), "up_mbps");
    assert_string_equal(suggest_name("ms", names, 6), "latency_ms");
    assert_string_equal(suggest_name("link-bandwidth-mbps", names, 6), "mbps");
    assert_string_equal(suggest_name("share", names, 6), "upload_share");
    assert_string_equal(suggest_name("run_mode", names, 6), "mode");
    assert_null(suggest_name("mbps", names, 4));  // of two
    assert_null(suggest_name("load", names, 6));  // not a whole word
    assert_null(suggest_name("bandwidth", names, 6));
    static const char *const twice[] = {"plan-join", "plan-join"};
    assert_string_equal(suggest_name("join", twice, 2), "plan-join");
}

static void test_utf8(void **state) {
    (void)state;
    assert_int_equal(utf8_bytes("a", 1), 1);
    assert_int_equal(utf8_bytes("\xc3\xa9", 2), 2);
    assert_int_equal(utf8_bytes("\xe2\x82\xac", 3), 3);
    assert_int_equal(utf8_bytes("\xf0\x9f\x98\x80", 4), 4);
    static const char *const bad[] = {
        "\x80",  "\xc3", "\xc0\xaf", "\xe0\x80\x80", "\xed\xa0\x80", "\xf5\x80\x80\x80", "\xf4\x90\x80\x80",
        "\xc3(", "\xff"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) assert_int_equal(utf8_bytes(bad[i], strlen(bad[i])), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sizes), cmocka_unit_test(test_durations),   cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_texts), cmocka_unit_test(test_suggestions), cmocka_unit_test(test_suggested_parts),
        cmocka_unit_test(test_utf8),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
