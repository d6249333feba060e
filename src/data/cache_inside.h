// The layout of a cache, for its reader and writer.
#ifndef BRAID_DATA_CACHE_INSIDE_H
#define BRAID_DATA_CACHE_INSIDE_H

#include "data/cache.h"

#define CACHE_MAGIC "braidids"

// At the start of the file, then zeros. `own` is the SHA-256 of all bytes before it.
typedef struct cache_header {
    char magic[8];
    uint32_t version, width, limit, order;  // order: CACHE_ORDER as this machine writes it
    uint64_t tokens, documents, text_bytes, rows_without;
    braid_hash key, tokenizer, content;
    braid_hash own;
} cache_header;

enum { CACHE_ORDER = 0x01020304 };

_Static_assert(sizeof(cache_header) == 8 + 4 * 4 + 4 * 8 + 4 * 32, "no padding");

// The ends begin at a multiple of 8 bytes behind the ids.
static inline uint64_t cache_ids_bytes(uint64_t tokens, uint32_t width) { return (tokens * width + 7) / 8 * 8; }
static inline uint64_t cache_body_bytes(const cache_header *h) {
    return cache_ids_bytes(h->tokens, h->width) + h->documents * sizeof(uint64_t);
}
static inline uint64_t cache_chunks(uint64_t body) { return (body + CACHE_CHUNK_BYTES - 1) / CACHE_CHUNK_BYTES; }

// The hash of the tokens: of counts, width and the hashes of all chunks.
braid_hash cache_content(const cache_header *h, const braid_hash *chunks);

#endif
