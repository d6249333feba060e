// Any bytes as JSON lines: rows end inside the input, in one read as in many, and their texts are
// valid UTF-8.
#include "fuzz.h"

#include "base/rng.h"
#include "data/jsonl.h"
#include "text/unicode.h"

#include <string.h>

size_t fuzz_example(uint64_t number, uint8_t *bytes, size_t capacity) {
    static const char *const rows[] = {"{\"text\": \"one\"}\n",
                                       "{\"id\": 7, \"text\": \"t\\u00e4\\ud83d\\ude00\"}\r\n",
                                       "{\"text\": null, \"x\": [{\"y\": \"}\"}]}\n",
                                       "{\n \"text\": \"a\"\n}\n",
                                       "{\"text\": 5}\n",
                                       "{\"a\": {\"text\": \"b\"}, \"text\": \"\\\"\"}"};
    rng r = {rng_seed(79, number)};
    size_t n = 0;
    for (uint64_t i = rng_below(&r, 12); i > 0; i--) {
        const char *row = rows[rng_below(&r, sizeof rows / sizeof *rows)];
        if (n + strlen(row) > capacity) break;
        memcpy(bytes + n, row, strlen(row));
        n += strlen(row);
    }
    return n;
}

// The number of rows, and the sum of the lengths of their texts.
typedef struct tally {
    size_t rows, texts, bytes;
    braid_err end;
} tally;

static void take_row(const jsonl *j, tally *t, buffer *scratch) {
    const char *text = NULL;
    size_t length = 0;
    bool there = false;
    braid_error error = {0};
    braid_err err = jsonl_text(j->row.at, j->row.count, "text", scratch, &text, &length, &there, &error);
    FUZZ_CHECK(err == BRAID_OK || (err == BRAID_FORMAT && error.text[0]));
    FUZZ_CHECK(j->row.count >= 2 && j->row.at[0] == '{');
    t->rows++;
    if (err || !there) return;
    FUZZ_CHECK(utf8_valid(text, length) == length);
    t->texts++;
    t->bytes += length;
}

static tally read_rows(const uint8_t *data, size_t size, size_t piece) {
    jsonl j = {.line = 1};
    buffer scratch = {0};
    tally t = {0};
    for (size_t at = 0; at < size && !t.end;) {
        size_t used = 0, count = size - at < piece ? size - at : piece;
        bool complete = false;
        t.end = jsonl_take(&j, (const char *)data + at, count, &used, &complete, NULL);
        if (t.end) break;
        FUZZ_CHECK(used <= count && (used > 0 || count == 0));
        if (complete) take_row(&j, &t, &scratch);
        at += used;
    }
    if (!t.end) t.end = jsonl_end(&j, NULL);
    jsonl_free(&j);
    buffer_free(&scratch);
    return t;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    tally one = read_rows(data, size, size ? size : 1), many = read_rows(data, size, 3);
    FUZZ_CHECK(one.rows == many.rows && one.texts == many.texts && one.bytes == many.bytes && one.end == many.end);
    return 0;
}
