#include "data/documents.h"

#include "data/jsonl.h"
#include "data/llmc.h"
#include "data/stream.h"
#include "format/text_check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { IDS_A_CALL = 1 << 15 };

typedef struct reader {
    const char *path, *field;
    const documents_sink *sink;
    documents_counts *counts;
    data_stream *stream;
    char *bytes;  // [capacity]
    size_t count, capacity;
} reader;

static bool ends_with(const char *name, size_t length, const char *end) {
    size_t n = strlen(end);
    return length >= n && memcmp(name + length - n, end, n) == 0;
}

static bool is_jsonl(const char *path) {
    size_t length = strlen(path);
    if (ends_with(path, length, ".gz"))
        length -= 3;
    else if (ends_with(path, length, ".zst"))
        length -= 4;
    return ends_with(path, length, ".jsonl") || ends_with(path, length, ".ndjson") || ends_with(path, length, ".json");
}

// Puts the path in front of a message that lacks it.
static braid_err in_file(const reader *r, braid_err err, braid_error *error) {
    char text[sizeof error->text];
    if (!err || !error) return err;
    memcpy(text, error->text, sizeof text);
    return braid_fail(error, err, "%.200s, %.280s", r->path, text);
}

static braid_err more(reader *r, braid_error *error) {
    if (r->count == r->capacity) {
        size_t capacity = 2 * r->capacity;
        char *larger = capacity <= (size_t)2 * DOCUMENTS_MAX_PART_BYTES ? realloc(r->bytes, capacity) : NULL;
        if (!larger)
            return braid_fail(error, BRAID_LIMIT, "'%s' has a line of more than %d MiB", r->path,
                              DOCUMENTS_MAX_PART_BYTES >> 20);
        r->bytes = larger;
        r->capacity = capacity;
    }
    size_t count;
    braid_err err = data_stream_read(r->stream, r->bytes + r->count, r->capacity - r->count, &count, error);
    r->count += count;
    return err;
}

static void drop(reader *r, size_t count) {
    memmove(r->bytes, r->bytes + count, r->count - count);
    r->count -= count;
}

// ---- plain text ----

static bool is_word(char c) {
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (unsigned char)c >= 0xc0;
}

static bool is_blank(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

size_t documents_cut(const char *text, size_t count) {
    size_t line = 0;
    for (size_t i = DOCUMENTS_PART_BYTES; i + 1 < count; i++) {
        if (text[i] != '\n') continue;
        if (!is_blank(text[i - 1]) && is_word(text[i + 1])) return i + 1;
        if (!line) line = i + 1;
        if (i > 2 * DOCUMENTS_PART_BYTES) break;
    }
    if (line && count >= 2 * DOCUMENTS_PART_BYTES) return line;
    if (count < DOCUMENTS_MAX_PART_BYTES) return 0;
    size_t at = DOCUMENTS_MAX_PART_BYTES - 8;  // a text without lines
    while (at > DOCUMENTS_MAX_PART_BYTES - 16 && ((unsigned char)text[at] & 0xc0) == 0x80) at--;
    return at;
}

// Checks the first bytes of the file, then the last ones of every part.
static braid_err check_sample(const reader *r, size_t count, uint64_t at, braid_error *error) {
    char why[TEXT_WHY];
    size_t sample = count < TEXT_SAMPLE_BYTES ? count : TEXT_SAMPLE_BYTES;
    const uint8_t *bytes = (const uint8_t *)r->bytes, *last = bytes + count - sample;
    bool good = (at > 0 || text_check_bytes(bytes, sample, r->path, why)) &&
                text_check_inside(last, sample, at + count - sample, r->path, why);
    return good ? BRAID_OK : braid_fail(error, BRAID_CONFIG, "cannot use '%.160s': it %s", r->path, why);
}

static braid_err send_part(reader *r, size_t count, uint64_t *at, bool last, braid_error *error) {
    braid_err err = check_sample(r, count, *at, error);
    size_t mark = *at == 0 && count >= 3 && memcmp(r->bytes, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    if (!err) err = r->sink->text(r->sink->context, r->bytes + mark, count - mark, last, error);
    *at += count;
    drop(r, count);
    return err;
}

static braid_err read_plain(reader *r, braid_error *error) {
    braid_err err = BRAID_OK;
    uint64_t at = 0;
    while (!err) {
        size_t cut = documents_cut(r->bytes, r->count), before = r->count;
        if (cut > 0) {
            err = send_part(r, cut, &at, false, error);
            continue;
        }
        err = more(r, error);
        if (err || r->count > before) continue;
        return send_part(r, r->count, &at, true, error);
    }
    return err;
}

// ---- JSON lines ----

static void note_without(reader *r, uint64_t line) {
    if (r->counts->without++ == 0)
        snprintf(r->counts->first, sizeof r->counts->first, "%.230s:%llu", r->path, (unsigned long long)line);
}

static braid_err take_row(reader *r, const jsonl *j, buffer *scratch, braid_error *error) {
    const char *text = NULL;
    size_t length = 0;
    bool there;
    braid_error why;
    braid_err err = jsonl_text(j->row.at, j->row.count, r->field, scratch, &text, &length, &there, &why);
    if (err)
        return braid_fail(error, err, "%.200s, line %llu: %.200s", r->path, (unsigned long long)j->row_line, why.text);
    r->counts->rows++;
    if (there && length > 0) return r->sink->text(r->sink->context, text, length, true, error);
    note_without(r, j->row_line);
    return BRAID_OK;
}

static braid_err take_rows(reader *r, jsonl *j, buffer *scratch, braid_error *error) {
    braid_err err = BRAID_OK;
    size_t at = 0;
    while (at < r->count && !err) {
        size_t used;
        bool complete;
        err = in_file(r, jsonl_take(j, r->bytes + at, r->count - at, &used, &complete, error), error);
        if (!err && complete) err = take_row(r, j, scratch, error);
        at += err ? 0 : used;
    }
    r->count = 0;
    return err;
}

static braid_err read_jsonl(reader *r, braid_error *error) {
    jsonl j = {.line = 1};
    buffer scratch = {0};
    if (r->count >= 3 && memcmp(r->bytes, "\xef\xbb\xbf", 3) == 0) drop(r, 3);
    braid_err err = BRAID_OK;
    for (bool read_on = true; read_on && !err;) {
        err = take_rows(r, &j, &scratch, error);
        if (!err) err = more(r, error);
        read_on = r->count > 0;
    }
    if (!err) err = in_file(r, jsonl_end(&j, error), error);
    jsonl_free(&j);
    buffer_free(&scratch);
    return err;
}

// ---- token files ----

typedef struct id_batch {
    uint32_t at[IDS_A_CALL];
    size_t count;
    bool begun;  // the document has ids
} id_batch;

static braid_err send_ids(const reader *r, id_batch *b, bool last, braid_error *error) {
    bool empty = b->count == 0 && !(last && b->begun);
    braid_err err = empty ? BRAID_OK : r->sink->ids(r->sink->context, b->at, b->count, last, error);
    b->begun = !last && (b->begun || b->count > 0);
    b->count = 0;
    return err;
}

static braid_err take_id(const reader *r, id_batch *b, const llmc_header *h, uint32_t id, braid_error *error) {
    if (id == h->mark) return send_ids(r, b, true, error);
    b->at[b->count++] = id;
    return b->count == IDS_A_CALL ? send_ids(r, b, false, error) : BRAID_OK;
}

static braid_err take_ids(reader *r, id_batch *b, const llmc_header *h, uint64_t *left, braid_error *error) {
    size_t whole = r->count / h->width;
    braid_err err = BRAID_OK;
    if (whole > *left)
        return braid_fail(error, BRAID_FORMAT, "'%s' has more than the %u tokens of its header", r->path, h->tokens);
    for (size_t i = 0; i < whole && !err; i++) {
        const unsigned char *p = (const unsigned char *)r->bytes + i * h->width;
        uint32_t id = p[0] | (uint32_t)p[1] << 8;
        if (h->width == 4) id |= (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
        err = take_id(r, b, h, id, error);
    }
    *left -= whole;
    drop(r, whole * h->width);
    return err;
}

static braid_err read_llmc(reader *r, braid_error *error) {
    llmc_header h;
    braid_err err = BRAID_OK;
    size_t before = 0;
    while (!err && r->count < LLMC_HEADER_BYTES && r->count > before) {
        before = r->count;
        err = more(r, error);
    }
    if (err) return err;
    if (r->count < LLMC_HEADER_BYTES)
        return braid_fail(error, BRAID_FORMAT, "'%s' is a truncated token file of llm.c", r->path);
    err = in_file(r, llmc_header_read((const uint8_t *)r->bytes, &h, error), error);
    if (err) return err;
    id_batch *batch = calloc(1, sizeof *batch);
    if (!batch) return braid_fail(error, BRAID_MEMORY, "no memory to read '%s'", r->path);
    uint64_t left = h.tokens;
    drop(r, LLMC_HEADER_BYTES);
    for (bool read_on = true; read_on && !err;) {
        err = take_ids(r, batch, &h, &left, error);
        before = r->count;
        if (!err) err = more(r, error);
        read_on = r->count > before;
    }
    if (!err && (left > 0 || r->count > 0))
        err = braid_fail(error, BRAID_FORMAT, "'%s' lacks %llu of the %u tokens of its header; it was truncated",
                         r->path, (unsigned long long)left, h.tokens);
    if (!err) err = send_ids(r, batch, true, error);
    free(batch);
    return err;
}

braid_err documents_read(const char *path, const char *field, const documents_sink *sink, documents_counts *counts,
                         braid_error *error) {
    reader r = {.path = path, .field = field, .sink = sink, .counts = counts, .capacity = 4 * DOCUMENTS_PART_BYTES};
    braid_err err = data_stream_open(path, &r.stream, error);
    if (!err && !(r.bytes = malloc(r.capacity))) err = braid_fail(error, BRAID_MEMORY, "no memory to read '%s'", path);
    if (!err) err = more(&r, error);
    if (!err && llmc_is((const uint8_t *)r.bytes, r.count))
        err = read_llmc(&r, error);
    else if (!err && is_jsonl(path))
        err = read_jsonl(&r, error);
    else if (!err)
        err = read_plain(&r, error);
    free(r.bytes);
    data_stream_close(r.stream);
    return err;
}
