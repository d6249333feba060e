#include "serve/prefix.h"

#include "base/sha256.h"

#include <stdlib.h>
#include <string.h>

enum { LEAST_BUCKETS = 64 };

typedef struct entry {
    braid_hash key;
    cache_page *page;
    struct entry *same_bucket;
    struct entry *older, *newer;
} entry;

struct prefix_cache {
    engine *engine;
    entry **buckets;  // [bucket_count], a power of two
    size_t bucket_count, entries;
    entry *oldest, *newest;
};

braid_hash prefix_key_first(const char *model) { return sha256_of(model, strlen(model)); }

braid_hash prefix_key_next(const braid_hash *before, const uint32_t *tokens) {
    sha256 s;
    uint8_t bytes[4 * ENGINE_PAGE_TOKENS];
    for (size_t i = 0; i < ENGINE_PAGE_TOKENS; i++)
        for (size_t b = 0; b < 4; b++) bytes[4 * i + b] = (uint8_t)(tokens[i] >> 8 * b);
    sha256_init(&s);
    sha256_update(&s, before, sizeof *before);
    sha256_update(&s, bytes, sizeof bytes);
    return sha256_final(&s);
}

prefix_cache *prefix_cache_new(engine *e) {
    prefix_cache *c = calloc(1, sizeof *c);
    if (c) c->buckets = calloc(LEAST_BUCKETS, sizeof *c->buckets);
    if (!c || !c->buckets) {
        free(c);
        return NULL;
    }
    c->engine = e;
    c->bucket_count = LEAST_BUCKETS;
    return c;
}

static entry **bucket_of(const prefix_cache *c, const braid_hash *key) {
    uint64_t first;
    memcpy(&first, key, sizeof first);
    return &c->buckets[first & (c->bucket_count - 1)];
}

// --- order of use

static void unlink_entry(prefix_cache *c, entry *e) {
    *(e->older ? &e->older->newer : &c->oldest) = e->newer;
    *(e->newer ? &e->newer->older : &c->newest) = e->older;
}

static void link_newest(prefix_cache *c, entry *e) {
    e->older = c->newest;
    e->newer = NULL;
    *(c->newest ? &c->newest->newer : &c->oldest) = e;
    c->newest = e;
}

// --- entries

static void drop(prefix_cache *c, entry *e) {
    entry **at = bucket_of(c, &e->key);
    while (*at != e) at = &(*at)->same_bucket;
    *at = e->same_bucket;
    unlink_entry(c, e);
    cache_page_drop(c->engine, e->page);
    c->entries--;
    free(e);
}

void prefix_cache_free(prefix_cache *c) {
    if (!c) return;
    while (c->oldest) drop(c, c->oldest);
    free(c->buckets);
    free(c);
}

cache_page *prefix_cache_find(prefix_cache *c, const braid_hash *key) {
    entry *e = *bucket_of(c, key);
    while (e && memcmp(&e->key, key, sizeof *key) != 0) e = e->same_bucket;
    if (!e) return NULL;
    unlink_entry(c, e);
    link_newest(c, e);
    return e->page;
}

// Without memory the buckets stay as they are.
static void grow(prefix_cache *c) {
    entry **old = c->buckets, **more = calloc(2 * c->bucket_count, sizeof *more);
    if (!more) return;
    c->buckets = more;
    c->bucket_count *= 2;
    for (entry *e = c->oldest; e; e = e->newer) {
        entry **bucket = bucket_of(c, &e->key);
        e->same_bucket = *bucket;
        *bucket = e;
    }
    free(old);
}

void prefix_cache_add(prefix_cache *c, const braid_hash *key, cache_page *page) {
    entry *e = malloc(sizeof *e);
    if (!e) return;
    if (c->entries >= c->bucket_count) grow(c);
    entry **bucket = bucket_of(c, key);
    *e = (entry){.key = *key, .page = page, .same_bucket = *bucket};
    *bucket = e;
    link_newest(c, e);
    cache_page_keep(c->engine, page);
    c->entries++;
}

size_t prefix_cache_evictable(const prefix_cache *c) { return engine_only_kept_pages(c->engine); }

bool prefix_cache_evict(prefix_cache *c) {
    entry *e = c->oldest;
    while (e && !cache_page_only_kept(c->engine, e->page)) e = e->newer;
    if (e) drop(c, e);
    return e != NULL;
}
