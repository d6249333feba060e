// Files that are plain text, and others, which are refused with their format and the fix.
#include "format/text_check.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

enum { MOST = 1 << 17 };

static uint8_t bytes[MOST];

static void expect_text(size_t count) {
    char why[TEXT_WHY] = "";
    if (!text_check_bytes(bytes, count, "t", why)) fail_msg("refused: it %s", why);
}

static void expect_refused(size_t count, const char *text) {
    char why[TEXT_WHY] = "";
    assert_false(text_check_bytes(bytes, count, "a.txt", why));
    if (!strstr(why, text)) fail_msg("'%s' does not hold '%s'", why, text);
}

static size_t put(const char *text) {
    size_t count = strlen(text);
    memcpy(bytes, text, count);
    return count;
}

static const char words[] = "The river bends round every stone that lies in its way.\n";

// Each character of `text` in `width` bytes, little or big endian.
static size_t put_wide(const char *text, size_t width, bool big, size_t at) {
    for (; *text; text++, at += width) {
        memset(bytes + at, 0, width);
        bytes[at + (big ? width - 1 : 0)] = (uint8_t)*text;
    }
    return at;
}

static void plain_text_is_fine(void **state) {
    (void)state;
    expect_text(put("a"));
    expect_text(put(words));
    expect_text(put("tab\tform\fescape\x1b[1mbold\x1b[0m\r\n"));
    expect_text(put("\xef\xbb\xbfmarked as UTF-8\n"));
    expect_text(put("na\xc3\xafve \xe2\x82\xac \xf0\x9f\x90\x8d\n"));
    expect_text(put("Latin-1: na\xefve caf\xe9 \xfc\xe4\xf6\n"));
    expect_text(put("\xcf\xf0\xe8\xe2\xe5\xf2, \xec\xe8\xf0: Windows-1251\n"));
    expect_text(put("\x93\xfa\x96\x7b\x8c\xea\x82\xcc\x95\xb6\x8f\xcd: Shift JIS\n"));
    size_t count = 0;
    while (count < 4000) count += put_wide(words, 1, false, count) - count;
    bytes[2000] = 0;  // one zero byte is no reason
    expect_text(count);
    memset(bytes, 'a', TEXT_SAMPLE_BYTES - 1);
    memcpy(bytes + TEXT_SAMPLE_BYTES - 1, "\xe2\x82\xac", 3);  // the sample ends within a character
    expect_text(TEXT_SAMPLE_BYTES);
}

static void other_formats_are_named(void **state) {
    (void)state;
    static const struct {
        const char *bytes;
        size_t count;
        const char *text;
    } cases[] = {
        {"\x1f\x8b\x08\0\0", 5, "is gzip-compressed; decompress it: gunzip a.txt"},
        {"\x28\xb5\x2f\xfd....", 8, "zstd; decompress it: unzstd a.txt"},
        {"\xfd" "7zXZ\0..", 8, "xz; decompress it: unxz a.txt"},
        {"BZh91AY&SY..", 12, "bzip2; decompress it: bunzip2 a.txt"},
        {"PK\x03\x04....", 8, "zip archive"},
        {"%PDF-1.7\n", 9, "PDF document; make plain text of it: pdftotext a.txt"},
        {"{\\rtf1\\ansi", 11, "RTF document"},
        {"SQLite format 3\0", 16, "SQLite database"},
        {"\x7f" "ELF\x02\x01", 6, "is a program"},
        {"\xff\xfe" "a\0b\0", 6, "UTF-16; convert it: iconv -f UTF-16 -t UTF-8 a.txt > text.txt"},
        {"\xfe\xff\0a\0b", 6, "UTF-16; convert it"},
        {"\xff\xfe\0\0a\0\0\0", 8, "UTF-32; convert it"},
        {"\0\0\xfe\xff\0\0\0a", 8, "UTF-32; convert it"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        memcpy(bytes, cases[i].bytes, cases[i].count);
        expect_refused(cases[i].count, cases[i].text);
    }
    memset(bytes, 0, 512);
    memcpy(bytes + 257, "ustar", 5);
    expect_refused(512, "tar archive; take the plain text out of it: tar xf a.txt");
}

static void encodings_without_a_mark(void **state) {
    (void)state;
    expect_refused(put_wide(words, 2, false, 0), "UTF-16LE");
    expect_refused(put_wide(words, 2, true, 0), "UTF-16BE");
    expect_refused(put_wide(words, 4, false, 0), "UTF-32LE");
    expect_refused(put_wide(words, 4, true, 0), "UTF-32BE");
}

static void binary_data(void **state) {
    (void)state;
    uint32_t x = 7;
    for (size_t i = 0; i < MOST; i++, x = x * 1103515245 + 12345) bytes[i] = (uint8_t)(x >> 16);
    expect_refused(MOST, "binary data");
    for (size_t i = 0; i < MOST; i += 2) {  // 16-bit tokens, the smaller ones more frequent
        x = x * 1103515245 + 12345;
        bytes[i] = (uint8_t)(x >> 16);
        bytes[i + 1] = (uint8_t)((x >> 24) * (x >> 24) / 400);
    }
    expect_refused(MOST, "is binary data");
    memset(bytes, 0, 4096);
    expect_refused(4096, "binary data");
}

static void expect_file(const char *path, const char *text) {
    char why[TEXT_WHY] = "";
    bool good = text_check_file(path, why);
    assert_int_equal(good, text == NULL);
    if (text && !strstr(why, text)) fail_msg("'%s' does not hold '%s'", why, text);
}

static void write_file(const char *path, const char *text) {
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

static void files_that_cannot_be_used(void **state) {
    (void)state;
    char directory[] = "text-check-XXXXXX", path[64];
    assert_non_null(mkdtemp(directory));
    expect_file(directory, "is a directory");
    snprintf(path, sizeof path, "%s/file", directory);
    expect_file(path, "cannot be read: No such file or directory");
    write_file(path, "");
    expect_file(path, "is empty");
    write_file(path, words);
    expect_file(path, NULL);
    assert_false(text_check_marked(path));
    FILE *long_text = fopen(path, "w");  // zeros after the text, as after a crash
    assert_non_null(long_text);
    for (size_t i = 0; i < 4 * TEXT_SAMPLE_BYTES; i++) fputc(i < 3 * TEXT_SAMPLE_BYTES ? words[i % (sizeof words - 1)] : 0, long_text);
    assert_int_equal(fclose(long_text), 0);
    expect_file(path, "holds binary data, not text, near byte 196608");
    assert_int_equal(truncate(path, 3 * TEXT_SAMPLE_BYTES), 0);
    expect_file(path, NULL);
    write_file(path, "\xef\xbb\xbfword");
    expect_file(path, NULL);
    assert_true(text_check_marked(path));
    if (geteuid() != 0) {  // root can read it
        assert_int_equal(chmod(path, 0), 0);
        expect_file(path, "cannot be read: Permission denied");
    }
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0);
    expect_file(path, "is a pipe");
    assert_int_equal(unlink(path), 0);
    expect_file("/dev/null", "is not a regular file");
    assert_int_equal(rmdir(directory), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_text_is_fine), cmocka_unit_test(other_formats_are_named),   cmocka_unit_test(encodings_without_a_mark),
        cmocka_unit_test(binary_data),        cmocka_unit_test(files_that_cannot_be_used),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
