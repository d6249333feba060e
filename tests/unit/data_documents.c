// Documents of all kinds of files; malformed rows are reported with file and line.
#include "data/documents.h"
#include "data/llmc.h"

#include "data_files.h"

typedef struct got {
    char text[4096];  // documents, each followed by |
    size_t parts, bytes;
} got;

static braid_err take_text(void *context, const char *text, size_t length, bool last, braid_error *error) {
    got *g = context;
    (void)error;
    g->parts++;
    g->bytes += length;
    if (strlen(g->text) + length + 2 < sizeof g->text) {
        strncat(g->text, text, length);
        if (last) strcat(g->text, "|");
    }
    return BRAID_OK;
}

static braid_err take_ids(void *context, const uint32_t *ids, size_t count, bool last, braid_error *error) {
    got *g = context;
    (void)error;
    for (size_t i = 0; i < count; i++)
        snprintf(g->text + strlen(g->text), sizeof g->text - strlen(g->text), "%u ", ids[i]);
    if (last) strcat(g->text, "|");
    return BRAID_OK;
}

static braid_err read_file(const char *path, const char *field, got *g, documents_counts *counts, braid_error *error) {
    const documents_sink sink = {.context = g, .text = take_text, .ids = take_ids};
    memset(g, 0, sizeof *g);
    memset(counts, 0, sizeof *counts);
    return documents_read(path, field, &sink, counts, error);
}

static void assert_gives(const char *name, const void *bytes, size_t count, const char *expected) {
    char path[DATA_PATH];
    got g;
    documents_counts counts;
    braid_error error = {0};
    if (read_file(data_write(name, bytes, count, path), "text", &g, &counts, &error)) fail_msg("%s", error.text);
    assert_string_equal(g.text, expected);
}

static void assert_refuses(const char *name, const void *bytes, size_t count, const char *part) {
    char path[DATA_PATH];
    got g;
    documents_counts counts;
    braid_error error = {0};
    assert_int_not_equal(read_file(data_write(name, bytes, count, path), "text", &g, &counts, &error), BRAID_OK);
    if (!strstr(error.text, path) || !strstr(error.text, part)) fail_msg("'%s' does not say '%s'", error.text, part);
}

#define GIVES(name, text, expected) assert_gives(name, text, sizeof(text) - 1, expected)
#define REFUSES(name, text, part)   assert_refuses(name, text, sizeof(text) - 1, part)

static void rows_have_texts(void **state) {
    (void)state;
    GIVES("a.jsonl", "{\"text\": \"one\"}\n{\"x\": [{\"text\": 1}], \"text\": \"t\\u00e4\\n\\ud83d\\ude00\\/\"}",
          "one|t\xc3\xa4\n\xf0\x9f\x98\x80/|");
    GIVES("a.json", "\xef\xbb\xbf{\n \"text\":\n  \"o}n{e\"\n}\r\n\r\n{\"text\":\"two\"} {\"text\":\"three\"}\n",
          "o}n{e|two|three|");
    GIVES("b.ndjson", "{\"text\": \"2026-11-27\"}\n{\"text\": \"</s>\"}\n", "2026-11-27|</s>|");
    GIVES("b.txt", "{\"text\": \"one\"}\n", "{\"text\": \"one\"}\n|");
    GIVES("mark.txt", "\xef\xbb\xbfone", "one|");
    GIVES("none.txt", "", "|");
}

static void rows_without_text_are_counted(void **state) {
    char path[DATA_PATH];
    got g;
    documents_counts counts;
    (void)state;
    data_text("gaps.jsonl", "{\"text\": \"a\"}\n{\"text\": null}\n{}\n{\"text\": \"\"}\n{\"text\": \"b\"}\n", path);
    assert_int_equal(read_file(path, "text", &g, &counts, NULL), BRAID_OK);
    assert_string_equal(g.text, "a|b|");
    assert_int_equal(counts.rows, 5);
    assert_int_equal(counts.without, 3);
    assert_non_null(strstr(counts.first, "gaps.jsonl:2"));
    assert_int_equal(read_file(path, "body", &g, &counts, NULL), BRAID_OK);
    assert_int_equal(counts.without, 5);
}

static void malformed_rows_are_named(void **state) {
    (void)state;
    REFUSES("r1.jsonl", "{\"text\": \"a\"}\n{\"text\": 5}\n", "line 2: the field 'text' is no text but 5");
    REFUSES("r2.jsonl", "{\"text\": \"a\"}\n\n{\"text\": \"\\ud800x\"}\n", "line 3: the text of 'text' is malformed");
    REFUSES("r3.jsonl", "{\"text\": \"a\", \"text\": \"b\"}\n", "line 1: the field 'text' occurs twice");
    REFUSES("r4.jsonl", "{\"text\": \"a\"\n", "line 1: the row has no end");
    REFUSES("r5.jsonl", "{\"text\": \"a\n\"}\n", "line 1: a text without its closing quote");
    REFUSES("r6.jsonl", "[{\"text\": \"a\"}]", "line 1: an array");
    REFUSES("r7.jsonl", "{\"text\": \"a\"}\nnull\n", "line 2: no JSON object");
    REFUSES("r8.jsonl", "{\"text\": \"a\" \"b\": 1}\n", "line 1: malformed JSON");
    REFUSES("r9.jsonl", "{\"text\": \"\xff\"}\n", "line 1: the text of 'text' is malformed");
    REFUSES("r10.jsonl", "{\"text\": [\"a\"]}\n", "is no text but [\"a\"]");
    REFUSES("u.txt", "\xff\xfeh\0e\0l\0l\0o\0", "UTF-16");
    REFUSES("p.txt", "PK\x03\x04zip", "zip archive");
}

static size_t make_llmc(uint32_t magic, uint32_t version, uint32_t count, const uint32_t *ids, size_t have,
                        uint32_t width, uint8_t *out) {
    const uint32_t header[3] = {magic, version, count};
    memset(out, 0, LLMC_HEADER_BYTES);
    memcpy(out, header, sizeof header);
    for (size_t i = 0; i < have; i++) memcpy(out + LLMC_HEADER_BYTES + i * width, &ids[i], width);
    return LLMC_HEADER_BYTES + have * width;
}

static void token_files_have_documents(void **state) {
    const uint32_t two[] = {50256, 7, 8, 50256, 9}, four[] = {128000, 70000, 128000, 128000, 1};
    uint8_t bytes[2048];
    (void)state;
    assert_gives("g.bin", bytes, make_llmc(20240520, 1, 5, two, 5, 2, bytes), "7 8 |9 |");
    assert_gives("l.bin", bytes, make_llmc(20240801, 7, 5, four, 5, 4, bytes), "70000 |1 |");
    assert_gives("tail.bin", bytes, make_llmc(20240520, 1, 2, two + 1, 2, 2, bytes), "7 8 |");
    assert_refuses("few.bin", bytes, make_llmc(20240520, 1, 6, two, 5, 2, bytes), "lacks 1 of the 6 tokens");
    assert_refuses("many.bin", bytes, make_llmc(20240520, 1, 4, two, 5, 2, bytes), "more than the 4 tokens");
    assert_refuses("old.bin", bytes, make_llmc(20240520, 2, 5, two, 5, 2, bytes), "of version 2");
    assert_refuses("half.bin", bytes, make_llmc(20240520, 1, 5, two, 5, 2, bytes) - 1, "lacks 1");
    assert_refuses("head.bin", bytes, 500, "truncated");
}

// Parts of a long text are cut between lines, and are all of it.
static void long_texts_come_in_parts(void **state) {
    size_t count = 5 * (size_t)DOCUMENTS_PART_BYTES;
    char *text = malloc(count), path[DATA_PATH];
    got g;
    documents_counts counts;
    (void)state;
    for (size_t i = 0; i < count; i++) text[i] = i % 61 == 60 ? '\n' : (char)('a' + i % 26);
    assert_int_equal(read_file(data_write("long.txt", text, count, path), "text", &g, &counts, NULL), BRAID_OK);
    assert_int_equal(g.bytes, count);
    assert_true(g.parts >= 4 && g.parts <= 6);
    size_t cut = documents_cut(text, count);
    assert_true(cut >= DOCUMENTS_PART_BYTES && text[cut - 1] == '\n' && text[cut] != '\n');
    memset(text, 'x', count);
    assert_int_equal(documents_cut(text, count), 0);
    free(text);
}

static void binary_data_is_found_inside(void **state) {
    size_t count = 3 * (size_t)DOCUMENTS_PART_BYTES;
    char *text = malloc(count), path[DATA_PATH];
    got g;
    documents_counts counts;
    braid_error error;
    (void)state;
    for (size_t i = 0; i < count; i++) text[i] = i % 61 == 60 ? '\n' : 'a';
    memset(text + count - 60000, 0, 60000);
    data_write("zeros.txt", text, count, path);
    assert_int_equal(read_file(path, "text", &g, &counts, &error), BRAID_CONFIG);
    assert_non_null(strstr(error.text, "binary data"));
    free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_have_texts),          cmocka_unit_test(rows_without_text_are_counted),
        cmocka_unit_test(malformed_rows_are_named), cmocka_unit_test(token_files_have_documents),
        cmocka_unit_test(long_texts_come_in_parts), cmocka_unit_test(binary_data_is_found_inside),
    };
    return cmocka_run_group_tests(tests, data_setup, data_teardown);
}
