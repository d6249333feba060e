// Rows of JSON lines (https://jsonlines.org) and their text. A row is an object; it may also span
// lines.
#ifndef BRAID_DATA_JSONL_H
#define BRAID_DATA_JSONL_H

#include "base/err.h"
#include "text/buffer.h"

enum { JSONL_MAX_ROW_BYTES = 256 << 20, JSONL_MAX_FIELD = 128 };

// Finds the rows of a stream. Begin with {.line = 1}; free with jsonl_free.
typedef struct jsonl {
    buffer row;               // the bytes of the row so far
    uint64_t line, row_line;  // lines of the next byte and of the row's first byte, from 1
    unsigned depth;           // of open brackets
    bool begun, in_string, escaped;
} jsonl;

// Takes bytes up to the end of the next row; *used says how many. *complete: `row` is a whole
// object, valid until the next call, which begins a new row. BRAID_FORMAT: there cannot be a row;
// the message names the line without the file.
braid_err jsonl_take(jsonl *j, const char *bytes, size_t count, size_t *used, bool *complete, braid_error *error);
// After the last byte. BRAID_FORMAT: a row has no end.
braid_err jsonl_end(const jsonl *j, braid_error *error);
void jsonl_free(jsonl *j);

// The text of the member `field`, decoded; it lies in the row or in `scratch`. *there: false when
// it is absent or null. BRAID_FORMAT: the row is malformed, the member is no text, or it occurs
// twice.
braid_err jsonl_text(const char *row, size_t length, const char *field, buffer *scratch, const char **text,
                     size_t *text_length, bool *there, braid_error *error);

#endif
