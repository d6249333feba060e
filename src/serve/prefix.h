// Pages of keys and values that ended texts leave for texts with the same beginning. A page is found
// by the hash of the model and of all tokens up to the page's end, so equal keys mean equal bits.
//
// The cache holds a reference to each of its pages. A page is worth evicting only while there is no
// other reference: then its memory is free afterwards.
#ifndef BRAID_SERVE_PREFIX_H
#define BRAID_SERVE_PREFIX_H

#include "base/id.h"
#include "infer/engine.h"

typedef struct prefix_cache prefix_cache;

// The key before the first page, of a model by its name or hash.
braid_hash prefix_key_first(const char *model);
// The key of a page, from the one before it and its tokens[ENGINE_PAGE_TOKENS].
braid_hash prefix_key_next(const braid_hash *before, const uint32_t *tokens);

// NULL: no memory. One for an engine, which is borrowed until prefix_cache_free.
prefix_cache *prefix_cache_new(engine *e);
void prefix_cache_free(prefix_cache *c);
// The page of a key, borrowed until the next eviction, or NULL. It becomes the last one to be
// evicted.
cache_page *prefix_cache_find(prefix_cache *c, const braid_hash *key);
// Adds a page under a key that has none. Without memory for it nothing happens.
void prefix_cache_add(prefix_cache *c, const braid_hash *key, cache_page *page);
// Pages that only the cache refers to.
size_t prefix_cache_evictable(const prefix_cache *c);
// Frees the memory of the page that was found or added least recently, of those that only the cache
// refers to. False: there is none.
bool prefix_cache_evict(prefix_cache *c);

#endif
