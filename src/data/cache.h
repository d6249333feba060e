// A file of token ids in documents, read by any number of processes at once.
//
//     header (4096 bytes), ids of 1, 2 or 4 bytes, ends of the documents (uint64), SHA-256 of each chunk of both
//
// Numbers are in this machine's byte order: a cache is made where it is used, and can be removed at
// any time. It is written under another name and renamed when complete.
#ifndef BRAID_DATA_CACHE_H
#define BRAID_DATA_CACHE_H

#include "base/err.h"
#include "base/id.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CACHE_VERSION = 1, CACHE_HEADER_BYTES = 4096, CACHE_CHUNK_BYTES = 1 << 18 };
#define CACHE_MAX_TOKENS    ((uint64_t)1 << 48)
#define CACHE_MAX_DOCUMENTS ((uint64_t)1 << 40)

typedef struct cache_summary {
    braid_hash key;        // of sources, tokenizer and settings, as at the time of writing
    braid_hash tokenizer;  // its hash
    braid_hash content;    // of all ids and ends: equal for equal tokens
    uint64_t tokens, documents, text_bytes;
    uint64_t rows_without;  // rows that had no text
    uint32_t width;         // bytes of an id
    uint32_t limit;         // every id is below
} cache_summary;

typedef struct cache cache;

// BRAID_IO: there is none. BRAID_FORMAT: damaged, of another version or of another key; the next
// start makes it anew. The ids are verified when they are first read, everything else here. Free
// with cache_close.
braid_err cache_open(const char *path, const braid_hash *key, cache **out, braid_error *error);
void cache_close(cache *c);  // NULL is allowed
const cache_summary *cache_about(const cache *c);
const char *cache_path(const cache *c);
// [documents] The end of each document: the index behind its last token. They rise; the last is
// `tokens`.
const uint64_t *cache_ends(const cache *c);
// Copies ids [at, at + count). False: the file is damaged there. Not for several threads at once.
bool cache_read(cache *c, uint64_t at, uint32_t count, int32_t *out);

// The header's checks, of a file of `file_bytes`. Exposed for tests.
braid_err cache_header_check(const uint8_t *bytes, size_t count, uint64_t file_bytes, cache_summary *out,
                             braid_error *error);

typedef struct cache_writer cache_writer;

// Writes PATH.part; `width`: bytes of an id, which must hold all. Free with cache_writer_end or
// cache_writer_abort.
braid_err cache_writer_new(const char *path, uint32_t width, cache_writer **out, braid_error *error);
void cache_put(cache_writer *w, const uint32_t *ids, size_t count);
// Ends a document; one without tokens is left out. Errors of earlier calls are reported here.
// BRAID_FULL: no room.
braid_err cache_end_document(cache_writer *w, braid_error *error);
// Completes the file. Of `about`, the writer fills in content, tokens, documents, width and limit.
braid_err cache_writer_end(cache_writer *w, cache_summary *about, braid_error *error);
void cache_writer_abort(cache_writer *w);  // NULL is allowed

#endif
