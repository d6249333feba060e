#include "span/caches.h"

#include <stdlib.h>
#include <string.h>

struct cached {
    cached *next;
    uint64_t session;
    sequence *sequence;
    uint32_t begin, end;
};

static cached **place_of(const caches *c, uint64_t session) {
    // sessions may be counted or random
    uint64_t mixed = session * UINT64_C(0x9e3779b97f4a7c15);
    cached **at = (cached **)&c->bucket[mixed >> 56];
    while (*at && (*at)->session != session) at = &(*at)->next;
    return at;
}

void caches_open(caches *c, const worker_settings *settings) {
    *c = (caches){.engine = settings->engine,
                  .prefixes = prefix_cache_new(settings->engine),
                  .adapters = settings->adapters,
                  .adapter_count = settings->adapter_count};
}

static void drop(cached **at) {
    cached *gone = *at;
    *at = gone->next;
    sequence_free(gone->sequence);
    free(gone);
}

void caches_close(caches *c) {
    for (uint32_t i = 0; i < CACHES_BUCKETS; i++)
        while (c->bucket[i]) drop(&c->bucket[i]);
    prefix_cache_free(c->prefixes);
    c->prefixes = NULL;
}

sequence *caches_find(const caches *c, uint64_t session) {
    cached *found = *place_of(c, session);
    return found ? found->sequence : NULL;
}

void caches_cut(caches *c, uint64_t session, uint32_t length) {
    sequence *s = caches_find(c, session);
    if (s && sequence_length(s) > length) sequence_truncate(s, length);
}

void caches_forget(caches *c, uint64_t session) {
    cached **at = place_of(c, session);
    if (*at) drop(at);
}

static const engine_adapter *adapter_of(const caches *c, uint64_t id) {
    for (uint32_t i = 0; i < c->adapter_count; i++)
        if (c->adapters[i].id == id) return c->adapters[i].weights;
    return NULL;
}

static braid_err begin_cache(caches *c, const work *one, cached **at, braid_error *error) {
    cached *added = calloc(1, sizeof *added);
    if (!added) return braid_fail(error, BRAID_MEMORY, "no memory for a text");
    braid_err err = sequence_new_of(c->engine, one->begin, one->end, &added->sequence, error);
    if (err) {
        free(added);
        return err;
    }
    if (one->adapter) sequence_set_adapter(added->sequence, adapter_of(c, one->adapter));
    added->session = one->session;
    added->begin = one->begin;
    added->end = one->end;
    *at = added;
    return BRAID_OK;
}

// Evicts pages of earlier texts where that makes room.
static braid_err check_room(caches *c, const sequence *s, uint32_t rows, braid_error *error) {
    size_t wanted = sequence_pages_needed(s, rows);
    while (wanted > engine_free_pages(c->engine) && c->prefixes && prefix_cache_evict(c->prefixes)) continue;
    if (wanted <= engine_free_pages(c->engine)) return BRAID_OK;
    return braid_fail(error, BRAID_LIMIT,
                      "keys and values hold %zu bytes of %zu, and %u more tokens of a text do not fit; give this peer "
                      "more memory (--max-memory)",
                      engine_cache_bytes(c->engine), engine_cache_limit(c->engine), rows);
}

static braid_err check_positions(const caches *c, const work *one, braid_error *error) {
    uint32_t context = engine_context(c->engine);
    if (one->first <= context && one->rows <= context - one->first) return BRAID_OK;
    return braid_fail(error, BRAID_LIMIT, "positions %u to %llu are beyond the context of %u tokens", one->first,
                      (unsigned long long)one->first + one->rows, context);
}

// The session's cache, cut to `first`. It begins with the first rows.
static braid_err reach_cache(caches *c, const work *one, sequence **out, braid_error *error) {
    cached **at = place_of(c, one->session);
    bool same = *at && (*at)->begin == one->begin && (*at)->end == one->end;
    if (*at && !same && one->first == 0) drop(at);
    braid_err err = *at ? BRAID_OK : begin_cache(c, one, at, error);
    if (err) return err;
    sequence *s = (*at)->sequence;
    same = (*at)->begin == one->begin && (*at)->end == one->end;
    if (!same || sequence_length(s) < one->first)
        return braid_fail(error, BRAID_STATE, "the cache ends at position %u and the next rows begin at %u",
                          sequence_length(s), one->first);
    if (sequence_length(s) > one->first) sequence_truncate(s, one->first);
    *out = s;
    return BRAID_OK;
}

braid_err caches_prepare(caches *c, const work *one, sequence **out, braid_error *error) {
    braid_err err = check_positions(c, one, error);
    if (!err) err = reach_cache(c, one, out, error);
    return err ? err : check_room(c, *out, one->rows, error);
}

braid_err caches_export(const caches *c, const work *one, braid_error *error) {
    const cached *found = *place_of(c, one->session);
    bool has = found && one->begin >= found->begin && one->end <= found->end;
    uint64_t end = (uint64_t)one->first + one->rows;
    if (!has || end > sequence_length(found->sequence))
        return braid_fail(error, BRAID_STATE, "the cache has no positions up to %llu", (unsigned long long)end);
    sequence_export(found->sequence, one->begin, one->end, one->first, one->rows, one->bytes);
    return BRAID_OK;
}

braid_err caches_import(caches *c, const work *one, braid_error *error) {
    sequence *s = NULL;
    braid_err err = caches_prepare(c, one, &s, error);
    return err ? err : sequence_import(s, one->rows, one->bytes, error);
}

// --- pages of earlier texts

static braid_hash page_key(const work *one, uint32_t i) {
    braid_hash key = {{0}};
    const uint8_t layers[4] = {(uint8_t)one->begin, (uint8_t)(one->begin >> 8), (uint8_t)one->end,
                               (uint8_t)(one->end >> 8)};
    memcpy(key.bytes, one->keys[i].bytes, sizeof one->keys[i].bytes);
    memcpy(key.bytes + sizeof one->keys[i].bytes, layers, sizeof layers);
    return key;
}

// The first page is the last one to be evicted: a page is of use only together with those before it.
static void touch(const caches *c, const work *one, uint32_t pages) {
    while (pages-- > 0) {
        braid_hash key = page_key(one, pages);
        prefix_cache_find(c->prefixes, &key);
    }
}

braid_err caches_adopt(caches *c, work *one, braid_error *error) {
    one->rows = 0;
    if (*place_of(c, one->session)) caches_forget(c, one->session);
    braid_err err = begin_cache(c, one, place_of(c, one->session), error);
    if (err || !c->prefixes) return err;
    sequence *s = caches_find(c, one->session);
    uint32_t pages = 0, context = engine_context(c->engine), limit = one->limit < context ? one->limit : context;
    for (; pages < one->key_count && (pages + 1) * ENGINE_PAGE_TOKENS <= limit; pages++) {
        braid_hash key = page_key(one, pages);
        cache_page *page = prefix_cache_find(c->prefixes, &key);
        if (!page || sequence_add_page(s, page, error)) break;
    }
    touch(c, one, pages);
    one->rows = sequence_length(s);
    return BRAID_OK;
}

void caches_name(caches *c, const work *one) {
    const cached *found = *place_of(c, one->session);
    bool same = found && found->begin == one->begin && found->end == one->end && c->prefixes;
    uint32_t length = same ? sequence_length(found->sequence) : 0, limit = one->limit < length ? one->limit : length,
             pages = 0;
    for (; pages < one->key_count && (one->first + pages + 1) * (uint64_t)ENGINE_PAGE_TOKENS <= limit; pages++) {
        braid_hash key = page_key(one, pages);
        if (!prefix_cache_find(c->prefixes, &key))
            prefix_cache_add(c->prefixes, &key, sequence_page(found->sequence, one->first + pages));
    }
    touch(c, one, pages);
}
