#include "data/jsonl.h"

#include "text/json_scan.h"

static braid_err bad(uint64_t line, const char *what, braid_error *error) {
    return braid_fail(error, BRAID_FORMAT, "line %llu: %s", (unsigned long long)line, what);
}

// Skips bytes that change nothing inside a string.
static size_t skip_string(const char *bytes, size_t at, size_t count) {
    while (at < count && bytes[at] != '"' && bytes[at] != '\\' && bytes[at] != '\n') at++;
    return at;
}

// One byte of a row after its first bracket. True: the row ends with it.
static bool step(jsonl *j, char c) {
    if (j->in_string) {
        if (j->escaped)
            j->escaped = false;
        else if (c == '\\')
            j->escaped = true;
        else if (c == '"')
            j->in_string = false;
        return false;
    }
    if (c == '"')
        j->in_string = true;
    else if (c == '{' || c == '[')
        j->depth++;
    else if (c == '}' || c == ']')
        return --j->depth == 0;
    return false;
}

static braid_err begin(jsonl *j, char c, braid_error *error) {
    if (c == '[') return bad(j->line, "an array; write one object a line: jq -c '.[]' FILE", error);
    if (c != '{') return bad(j->line, "no JSON object begins here", error);
    j->begun = true;
    j->row_line = j->line;
    return BRAID_OK;
}

static bool is_space(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

static braid_err keep(jsonl *j, const char *bytes, size_t count, braid_error *error) {
    if (j->row.count + count > JSONL_MAX_ROW_BYTES)
        return braid_fail(error, BRAID_LIMIT, "line %llu: the row is longer than %d MiB",
                          (unsigned long long)j->row_line, JSONL_MAX_ROW_BYTES >> 20);
    buffer_add(&j->row, bytes, count);
    return j->row.failed
               ? braid_fail(error, BRAID_MEMORY, "no memory for the row at line %llu", (unsigned long long)j->row_line)
               : BRAID_OK;
}

braid_err jsonl_take(jsonl *j, const char *bytes, size_t count, size_t *used, bool *complete, braid_error *error) {
    size_t from = 0, at = 0;
    braid_err err = BRAID_OK;
    *complete = false;
    if (!j->begun) {
        j->row.count = 0;
        for (; at < count && is_space(bytes[at]); at++) j->line += bytes[at] == '\n';
        *used = at;
        if (at == count) return BRAID_OK;
        err = begin(j, bytes[at], error);
        if (err) return err;
        from = at;
    }
    for (; at < count && !*complete; at++) {
        if (j->in_string && !j->escaped) at = skip_string(bytes, at, count);
        if (at == count) break;
        if (bytes[at] == '\n' && j->in_string) return bad(j->row_line, "a text without its closing quote", error);
        j->line += bytes[at] == '\n';
        *complete = step(j, bytes[at]);
    }
    *used = at;
    if (*complete) j->begun = false;
    return keep(j, bytes + from, at - from, error);
}

braid_err jsonl_end(const jsonl *j, braid_error *error) {
    return j->begun ? bad(j->row_line, "the row has no end; the file may be truncated", error) : BRAID_OK;
}

void jsonl_free(jsonl *j) { buffer_free(&j->row); }

static braid_err malformed(const char *what, braid_error *error) { return braid_fail(error, BRAID_FORMAT, "%s", what); }

// The value of the wanted member.
static braid_err take_value(json_scan *s, const char *field, buffer *scratch, const char **text, size_t *length,
                            bool *there, braid_error *error) {
    json_span value;
    if (*there) return braid_fail(error, BRAID_FORMAT, "the field '%s' occurs twice", field);
    if (json_scan_peek(s) == '"') {
        *there = true;
        if (json_scan_string(s, scratch, text, length)) return BRAID_OK;
        return braid_fail(error, BRAID_FORMAT,
                          "the text of '%s' is malformed: no UTF-8, half a surrogate pair, or a bad escape", field);
    }
    if (!json_scan_value(s, &value)) return malformed("malformed JSON", error);
    if (value.length == 4 && memcmp(value.at, "null", 4) == 0) return BRAID_OK;
    return braid_fail(error, BRAID_FORMAT, "the field '%s' is no text but %.*s%s", field,
                      (int)(value.length < 20 ? value.length : 20), value.at, value.length > 20 ? "..." : "");
}

braid_err jsonl_text(const char *row, size_t length, const char *field, buffer *scratch, const char **text,
                     size_t *text_length, bool *there, braid_error *error) {
    json_scan s = json_scan_of((json_span){row, length});
    buffer name = {0};
    bool first = true, fine = true;
    braid_err err = json_scan_take(&s, '{') ? BRAID_OK : malformed("no JSON object", error);
    *there = false;
    while (!err && json_scan_more(&s, '}', &first, &fine)) {
        const char *key;
        size_t key_length;
        json_span skipped;
        if (!json_scan_string(&s, &name, &key, &key_length) || !json_scan_take(&s, ':'))
            err = malformed("malformed JSON", error);
        else if (key_length == strlen(field) && memcmp(key, field, key_length) == 0)
            err = take_value(&s, field, scratch, text, text_length, there, error);
        else if (!json_scan_value(&s, &skipped) || skipped.length == 0)
            err = malformed("malformed JSON", error);
    }
    if (!err && !fine) err = malformed("malformed JSON: a comma or a closing bracket is missing", error);
    if (!err && json_scan_peek(&s)) err = malformed("malformed JSON: more follows the row's end", error);
    buffer_free(&name);
    return err;
}
