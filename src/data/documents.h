// The documents of a file: a plain text is one, a row of JSON lines is one, and a token file of
// llm.c has marked ones.
#ifndef BRAID_DATA_DOCUMENTS_H
#define BRAID_DATA_DOCUMENTS_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    DOCUMENTS_PART_BYTES = 1 << 20,  // parts of a plain text are about that long
    DOCUMENTS_MAX_PART_BYTES = 16 << 20,
};

// Receives documents in order. A plain text comes in parts, cut where a line ends, so that files
// may be larger than memory; every part is a text of its own for the tokenizer. Bytes and ids are
// borrowed during the call.
typedef struct documents_sink {
    void *context;
    braid_err (*text)(void *context, const char *text, size_t length, bool last, braid_error *error);
    braid_err (*ids)(void *context, const uint32_t *ids, size_t count, bool last, braid_error *error);
} documents_sink;

// Rows that have no text, which are left out.
typedef struct documents_counts {
    uint64_t rows, without;
    char first[256];  // the first of those: FILE:LINE
} documents_counts;

// Reads a file, compressed or not. A name that ends in .jsonl, .ndjson or .json (before .gz or
// .zst) means JSON lines; the text of a row is its member `field`. Errors name the file and the
// line. Adds to `counts`.
braid_err documents_read(const char *path, const char *field, const documents_sink *sink, documents_counts *counts,
                         braid_error *error);

// Where to cut a text of `count` bytes, at least DOCUMENTS_PART_BYTES: behind a line that ends in a
// character and is followed by one, so that tokenizers give the same ids as without the cut; else
// behind a line or a character. 0: read on first.
size_t documents_cut(const char *text, size_t count);

#endif
