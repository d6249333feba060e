// The scanners written by hand cut texts as their regular expressions do.
#include "base/rng.h"
#include "text/inside.h"
#include "text/json_scan.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
// after those above
#include <cmocka.h>

#define NOCASE "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define TAIL   "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

static const struct {
    scan_kind kind;
    const char *pattern;
} scans[] = {{SCAN_GPT2, "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"},
             {SCAN_LLAMA3, NOCASE "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}" TAIL},
             {SCAN_QWEN2, NOCASE "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}" TAIL}};

static void put_random(buffer *b, rng *r) {
    static const char *const parts[] = {
        " ",      "  ",     "\n",       "\r\n",   "\t",     "'",    "s",  "S",      "ll", "Ll",     "re",     "ve",
        "V",      "a",      "Z",        "1",      "42",     ".",    "!?", "\u017f", "é",  "中",     "\u0301", "½",
        "\u00a0", "\u3000", "\xc2\x85", "\u180e", "\u200b", "🙂", "٣",  "'t",     "'D", "\u2028", "_"};
    uint64_t pick = rng_below(r, 40);
    if (pick < sizeof parts / sizeof *parts) {
        buffer_add(b, parts[pick], strlen(parts[pick]));
        return;
    }
    uint32_t c = (uint32_t)rng_below(r, pick % 2 ? 0x110000 : 0x3000);
    if (c == 0 || (c >= 0xd800 && c < 0xe000)) c = 'x';
    buffer_char(b, c);
}

static void compare(size_t which, const regex *re, regex_scratch *scratch, const buffer *text) {
    regex_place place = {0};
    size_t start, end, at = 0;
    braid_error error = {0};
    braid_err err = BRAID_OK;
    while (regex_next(re, scratch, text->at, text->count, &place, &start, &end, &error, &err)) {
        size_t ours = scan_piece(scans[which].kind, text->at, at, text->count);
        if (start != at || end != ours)
            fail_msg("pattern %zu: '%.*s' is cut at %zu, not at %zu", which, (int)text->count, text->at, ours, end);
        at = end;
    }
    assert_int_equal(err, BRAID_OK);
    assert_int_equal(at, text->count);
}

static void scanners_equal_patterns(void **state) {
    (void)state;
    assert_true(unicode_init());
    regex_scratch *scratch = regex_scratch_new();
    for (size_t which = 0; which < 3; which++) {
        regex *re = NULL;
        braid_error error = {0};
        assert_int_equal(regex_new(scans[which].pattern, strlen(scans[which].pattern), &re, &error), BRAID_OK);
        assert_int_equal(scan_of_pattern(scans[which].pattern), scans[which].kind);
        for (uint64_t n = 0; n < 20000; n++) {
            rng r = {rng_seed(33, n)};
            buffer text = {0};
            uint64_t length = 1 + rng_below(&r, 12);
            for (uint64_t i = 0; i < length; i++) put_random(&text, &r);
            compare(which, re, scratch, &text);
            buffer_free(&text);
        }
        // each character alone, behind a space and before a letter
        for (uint32_t c = 1; c < 0x110000; c++) {
            char bytes[8] = " ";
            if (c >= 0xd800 && c < 0xe000) continue;
            size_t n = 1 + utf8_put(bytes + 1, c);
            bytes[n++] = 'a';
            compare(which, re, scratch, &(buffer){.at = bytes, .count = n});
        }
        regex_free(re);
    }
    regex_scratch_free(scratch);
}

// Syntax that Oniguruma and PCRE2 read differently is refused.
static void other_syntax_is_refused(void **state) {
    (void)state;
    static const char *const patterns[] = {
        "\\w+",    "\\bx",      "[a&&b]", "[[:alpha:]]", "(?<n>a)", "a{,3}", "\\h",   "(?m:.)", "(a", "a)",
        "(?i:ss)", "(?i:stra)", "(?i:é)", "\\p{Greek}",  "\\1",     "x{2}+", "[\\S]", "",       "a\\"};
    assert_true(unicode_init());
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
        regex *re = NULL;
        braid_error error = {0};
        if (regex_new(patterns[i], strlen(patterns[i]), &re, &error) == BRAID_OK)
            fail_msg("'%s' is taken", patterns[i]);
        assert_null(re);
        assert_true(strlen(error.text) > 10);
    }
}

// Numbers of tokenizers 0.23.3 (tools/check-unigram-scores has many more).
static void decimals_round_as_tokenizers_does(void **state) {
    (void)state;
    static const struct {
        const char *text;
        double value;
    } cases[] = {
        {"-15.6381447668020339", -0x1.f46bae92f0e7cp+3},       {"-19.647747693600426", -0x1.3a5d2caf812c0p+4},
        {"-5.3794476504e+134", -0x1.7af07290d99c0p+447},       {"-444899529429708734271", -0x1.81e38a4d66c3dp+68},
        {"-8.0205540479109e-233", -0x1.fe0943582fa10p-772},    {"0.1e5", 10000},
        {"-28.8306699767634714069474", -0x1.cd4a6c99ff7dcp+4}, {"1e-99999999999999999999", 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        json_scan s = json_scan_of((json_span){cases[i].text, strlen(cases[i].text)});
        double value = 1;
        assert_true(json_scan_decimal(&s, &value));
        if (memcmp(&value, &cases[i].value, sizeof value)) fail_msg("%s is read as %a", cases[i].text, value);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(scanners_equal_patterns),
                                       cmocka_unit_test(decimals_round_as_tokenizers_does),
                                       cmocka_unit_test(other_syntax_is_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
