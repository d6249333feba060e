// Stop strings against a search in the whole text.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "infer/stop.h"

enum { MOST = 256 };

typedef struct shown {
    char text[MOST];
    size_t length;
    bool stopped;
} shown;

// Adds `text` in pieces of random lengths.
static shown show(const char *text, const char *const *strings, uint32_t count, rng *r) {
    shown out = {0};
    stop_filter *f;
    const char *piece;
    size_t length;
    assert_int_equal(stop_filter_new(strings, count, &f, NULL), BRAID_OK);
    for (size_t i = 0, total = strlen(text); i < total && !out.stopped;) {
        size_t n = 1 + rng_below(r, 5);
        if (n > total - i) n = total - i;
        assert_int_equal(stop_filter_add(f, text + i, n, &piece, &length, &out.stopped, NULL), BRAID_OK);
        memcpy(out.text + out.length, piece, length);
        out.length += length;
        i += n;
    }
    if (!out.stopped) {
        stop_filter_end(f, &piece, &length);
        memcpy(out.text + out.length, piece, length);
        out.length += length;
    }
    stop_filter_free(f);
    return out;
}

// The first position at which a string is complete, and of those the longest string.
static size_t expected_length(const char *text, const char *const *strings, uint32_t count, bool *stopped) {
    for (size_t end = 1; end <= strlen(text); end++) {
        size_t longest = 0;
        for (uint32_t i = 0; i < count; i++) {
            size_t n = strlen(strings[i]);
            if (n <= end && n > longest && memcmp(text + end - n, strings[i], n) == 0) longest = n;
        }
        *stopped = longest > 0;
        if (*stopped) return end - longest;
    }
    return strlen(text);
}

static void test_random_texts_end_before_the_string(void **state) {
    (void)state;
    static const char *const strings[] = {"abab", "ba", "aabaa", "c", "bbb"};
    rng r = {4};
    for (int round = 0; round < 3000; round++) {
        char text[40];
        size_t length = rng_below(&r, sizeof text);
        for (size_t i = 0; i < length; i++) text[i] = "aaabbbbc"[rng_below(&r, round % 2 ? 7 : 8)];
        text[length] = 0;
        uint32_t first = (uint32_t)rng_below(&r, 5), count = (uint32_t)rng_below(&r, 6 - first);
        bool stopped = false;
        size_t expected = expected_length(text, strings + first, count, &stopped);
        shown found = show(text, strings + first, count, &r);
        assert_int_equal(found.stopped, stopped);
        assert_int_equal(found.length, expected);
        assert_memory_equal(found.text, text, expected);
    }
}

// "</s" could become "</s>", "x" cannot.
static void test_only_a_possible_beginning_is_held_back(void **state) {
    (void)state;
    static const char *const strings[] = {"</s>"};
    stop_filter *f;
    const char *text;
    size_t length;
    bool stopped;
    assert_int_equal(stop_filter_new(strings, 1, &f, NULL), BRAID_OK);
    assert_int_equal(stop_filter_add(f, "x</", 3, &text, &length, &stopped, NULL), BRAID_OK);
    assert_true(length == 1 && text[0] == 'x');
    assert_int_equal(stop_filter_add(f, "s", 1, &text, &length, &stopped, NULL), BRAID_OK);
    assert_int_equal(length, 0);
    assert_int_equal(stop_filter_add(f, " <", 2, &text, &length, &stopped, NULL), BRAID_OK);
    assert_true(length == 4 && memcmp(text, "</s ", 4) == 0);
    stop_filter_end(f, &text, &length);
    assert_true(length == 1 && text[0] == '<');
    stop_filter_free(f);
}

static void test_bad_strings_are_refused(void **state) {
    (void)state;
    static char longest[STOP_MAX_BYTES + 2];
    static const char *many[STOP_MAX_STRINGS + 1];
    stop_filter *f;
    braid_error error;
    memset(longest, 'x', sizeof longest - 1);
    for (int i = 0; i <= STOP_MAX_STRINGS; i++) many[i] = "x";
    assert_int_equal(stop_filter_new((const char *const[]){""}, 1, &f, &error), BRAID_CONFIG);
    assert_int_equal(stop_filter_new((const char *const[]){longest}, 1, &f, &error), BRAID_CONFIG);
    assert_int_equal(stop_filter_new(many, STOP_MAX_STRINGS + 1, &f, &error), BRAID_CONFIG);
    longest[STOP_MAX_BYTES] = 0;
    assert_int_equal(stop_filter_new((const char *const[]){longest}, 1, &f, &error), BRAID_OK);
    stop_filter_free(f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_texts_end_before_the_string),
        cmocka_unit_test(test_only_a_possible_beginning_is_held_back),
        cmocka_unit_test(test_bad_strings_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
