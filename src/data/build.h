// The cache of a source: found, or made once for all processes of a machine.
#ifndef BRAID_DATA_BUILD_H
#define BRAID_DATA_BUILD_H

#include "data/cache.h"
#include "data/place.h"
#include "text/tokenizer.h"

typedef struct data_source {
    const char *const *paths;  // data/sources.h
    uint32_t count;
    const char *field;           // of JSON lines
    const tokenizer *tokenizer;  // NULL: every byte is a token
    braid_hash tokenizer_hash;
    const char *end;        // the text of the token that ends a document; NULL: the tokenizer's own
    const char *directory;  // of caches; "" or NULL: $XDG_CACHE_HOME/braid, else ~/.cache/braid
    unsigned threads;
    place_host host;
} data_source;

// Opens the cache of the source's files as they are now, and makes it first if there is none or it
// is damaged. While another process makes the same one, waits for it. Close with cache_close.
braid_err data_cache_get(const data_source *source, cache **out, braid_error *error);

#endif
