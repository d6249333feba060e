// Keys and values of sequences, in pages of CACHE_PAGE tokens with all layers of the engine. Full
// pages are shared by reference; a page with references besides the writer's is copied before it
// changes.
#include "infer/inside.h"

#include <stdlib.h>
#include <string.h>

// Behind the keys and values of a page. `next`: in the list of free pages.
typedef struct page_end {
    uint32_t references;
    bool kept;  // one of them is of cache_page_keep
    cache_page *next;
} page_end;

static uint32_t layers_of(const engine *e) { return e->layer_end - e->layer_begin; }

static tensor_cache shape_of(const engine *e) {
    return (tensor_cache){.kv_heads = e->config.kv_heads, .width = e->width, .half = e->half_cache};
}

// Keys, or values, of one layer in a page.
static size_t part_bytes(const engine *e) {
    tensor_cache shape = shape_of(e);
    return tensor_cache_bytes(&shape);
}

static size_t content_bytes(const engine *e) { return 2 * layers_of(e) * part_bytes(e); }

size_t engine_page_bytes(const engine *e) { return content_bytes(e) + INFER_ALIGNMENT; }

size_t engine_token_bytes(const engine *e) { return content_bytes(e) / CACHE_PAGE; }

size_t engine_cache_bytes(const engine *e) { return e->pages_used * engine_page_bytes(e); }

size_t engine_cache_limit(const engine *e) { return e->page_limit * engine_page_bytes(e); }

size_t engine_free_pages(const engine *e) { return e->page_limit ? e->page_limit - e->pages_used : SIZE_MAX; }

braid_err engine_limit_cache(engine *e, size_t bytes, braid_error *error) {
    size_t pages = bytes / engine_page_bytes(e);
    if (bytes > 0 && (pages == 0 || pages < e->pages_used))
        return braid_fail(error, BRAID_LIMIT, "%zu bytes are too few for keys and values: %zu pages of %zu are needed",
                          bytes, e->pages_used > 0 ? e->pages_used : 1, engine_page_bytes(e));
    e->page_limit = pages;
    return BRAID_OK;
}

// --- pages

static page_end *end_of(const engine *e, cache_page *p) { return (page_end *)(void *)((char *)p + content_bytes(e)); }

static cache_page *page_new(engine *e) {
    _Static_assert(sizeof(page_end) <= INFER_ALIGNMENT, "engine_page_bytes counts one line for it");
    cache_page *p = e->free_pages;
    if (engine_free_pages(e) == 0) return NULL;
    if (p)
        e->free_pages = end_of(e, p)->next;
    else if (!(p = aligned_alloc(INFER_ALIGNMENT, engine_page_bytes(e))))
        return NULL;
    *end_of(e, p) = (page_end){.references = 1};
    e->pages_used++;
    return p;
}

static bool only_kept(const page_end *end) { return end->kept && end->references == 1; }

static void change_references(engine *e, page_end *end, int by) {
    e->pages_only_kept -= only_kept(end);
    end->references += (uint32_t)by;
    e->pages_only_kept += only_kept(end);
}

void cache_page_hold(engine *e, cache_page *p) { change_references(e, end_of(e, p), 1); }

void cache_page_release(engine *e, cache_page *p) {
    page_end *end = end_of(e, p);
    change_references(e, end, -1);
    if (end->references > 0) return;
    end->next = e->free_pages;
    e->free_pages = p;
    e->pages_used--;
}

void cache_page_keep(engine *e, cache_page *p) {
    cache_page_hold(e, p);
    end_of(e, p)->kept = true;
}

void cache_page_drop(engine *e, cache_page *p) {
    page_end *end = end_of(e, p);
    e->pages_only_kept -= only_kept(end);
    end->kept = false;
    cache_page_release(e, p);
}

bool cache_page_only_kept(const engine *e, cache_page *p) { return only_kept(end_of(e, p)); }

size_t engine_only_kept_pages(const engine *e) { return e->pages_only_kept; }

void cache_free_all(engine *e) {
    for (cache_page *p = e->free_pages, *next; p; p = next) {
        next = end_of(e, p)->next;
        free(p);
    }
    e->free_pages = NULL;
}

tensor_cache cache_layer(const sequence *s, uint32_t layer) {
    const engine *e = s->engine;
    tensor_cache c = shape_of(e);
    size_t bytes = part_bytes(e);
    c.pages = (void *const *)s->pages;
    c.keys_at = 2 * (layer - e->layer_begin) * bytes;
    c.values_at = c.keys_at + bytes;
    return c;
}

// --- sequences

braid_err sequence_new(engine *e, sequence **out, braid_error *error) {
    return sequence_new_of(e, e->layer_begin, e->layer_end, out, error);
}

braid_err sequence_new_of(engine *e, uint32_t begin, uint32_t end, sequence **out, braid_error *error) {
    *out = NULL;
    if (begin > end || begin < e->layer_begin || end > e->layer_end)
        return braid_fail(error, BRAID_ARGUMENT, "layers %u to %u are not among those of this engine, %u to %u", begin,
                          end, e->layer_begin, e->layer_end);
    sequence *s = calloc(1, sizeof *s);
    *out = s;
    if (!s) return braid_fail(error, BRAID_MEMORY, "no memory for a text");
    s->engine = e;
    s->begin = begin;
    s->end = end;
    return BRAID_OK;
}

static void keep_pages(sequence *s, uint32_t count) {
    while (s->page_count > count) cache_page_release(s->engine, s->pages[--s->page_count]);
}

void sequence_free(sequence *s) {
    if (!s) return;
    keep_pages(s, 0);
    free(s->pages);
    free(s);
}

uint32_t sequence_length(const sequence *s) { return s->length; }

static uint32_t pages_for(uint32_t tokens) { return tokens / CACHE_PAGE + (tokens % CACHE_PAGE > 0); }

void sequence_truncate(sequence *s, uint32_t length) {
    BRAID_ASSERT(length <= s->length);
    s->length = length;
    keep_pages(s, pages_for(length));
}

// The page that the next token changes, if others refer to it.
static bool must_copy(const sequence *s) {
    uint32_t last = s->length / CACHE_PAGE;
    return s->length % CACHE_PAGE > 0 && end_of(s->engine, s->pages[last])->references > 1;
}

uint32_t sequence_pages_needed(const sequence *s, uint32_t tokens) {
    if (tokens == 0) return 0;
    uint32_t wanted = pages_for(s->length + tokens);
    return (wanted > s->page_count ? wanted - s->page_count : 0) + must_copy(s);
}

static braid_err no_memory(const engine *e, uint32_t tokens, braid_error *error) {
    return braid_fail(
        error, BRAID_MEMORY,
        "no memory for the keys and values of a text of %u tokens, %zu bytes a token; give a shorter context", tokens,
        engine_token_bytes(e));
}

static bool reach(sequence *s, uint32_t pages) {
    if (pages <= s->page_capacity) return true;
    uint32_t capacity = 2 * s->page_capacity > pages ? 2 * s->page_capacity : pages;
    cache_page **more = realloc(s->pages, capacity * sizeof *more);
    if (!more) return false;
    s->pages = more;
    s->page_capacity = capacity;
    return true;
}

static bool copy_last(sequence *s) {
    engine *e = s->engine;
    cache_page **last = &s->pages[s->length / CACHE_PAGE], *copy = page_new(e);
    if (!copy) return false;
    memcpy(copy, *last, content_bytes(e));
    cache_page_release(e, *last);
    *last = copy;
    return true;
}

// After a failure the sequence is as before, except that it has more room.
braid_err cache_reserve(sequence *s, uint32_t tokens, braid_error *error) {
    engine *e = s->engine;
    uint32_t wanted = pages_for(s->length + tokens);
    if (tokens == 0) return BRAID_OK;
    if (!reach(s, wanted) || (must_copy(s) && !copy_last(s))) return no_memory(e, s->length + tokens, error);
    while (s->page_count < wanted) {
        cache_page *p = page_new(e);
        if (!p) return no_memory(e, s->length + tokens, error);
        s->pages[s->page_count++] = p;
    }
    return BRAID_OK;
}

cache_page *sequence_page(const sequence *s, uint32_t index) {
    BRAID_ASSERT(index < s->length / CACHE_PAGE);
    return s->pages[index];
}

braid_err sequence_add_page(sequence *s, cache_page *p, braid_error *error) {
    BRAID_ASSERT(s->length % CACHE_PAGE == 0 && s->page_count == s->length / CACHE_PAGE);
    if (!reach(s, s->page_count + 1)) return no_memory(s->engine, s->length, error);
    cache_page_hold(s->engine, p);
    s->pages[s->page_count++] = p;
    s->length += CACHE_PAGE;
    return BRAID_OK;
}

braid_err sequence_fork(const sequence *from, uint32_t tokens, sequence **out, braid_error *error) {
    BRAID_ASSERT(tokens <= from->length);
    uint32_t pages = pages_for(tokens);
    braid_err err = sequence_new_of(from->engine, from->begin, from->end, out, error);
    if (err) return err;
    if (!reach(*out, pages)) {
        sequence_free(*out);
        *out = NULL;
        return no_memory(from->engine, tokens, error);
    }
    for (uint32_t i = 0; i < pages; i++) {
        cache_page_hold(from->engine, from->pages[i]);
        (*out)->pages[i] = from->pages[i];
    }
    (*out)->page_count = pages;
    (*out)->length = tokens;
    (*out)->adapter = from->adapter;
    return BRAID_OK;
}

// --- keys and values in memory of the caller, one token after the other

size_t sequence_layer_bytes(const engine *e) { return 2 * part_bytes(e) / CACHE_PAGE; }

// Moves a position's numbers of one head between its places in a page and a row of `width` numbers.
static void move_key(const tensor_cache *c, size_t head, size_t position, char *row, size_t each, bool out) {
    size_t inside = position % CACHE_PAGE, tile = head * (CACHE_PAGE / CACHE_TILE) + inside / CACHE_TILE;
    char *page = c->pages[position / CACHE_PAGE];
    char *at = page + c->keys_at + (tile * c->width * CACHE_TILE + inside % CACHE_TILE) * each;
    for (size_t i = 0; i < c->width; i++, at += CACHE_TILE * each, row += each)
        memcpy(out ? row : at, out ? at : row, each);
}

static void move_value(const tensor_cache *c, size_t head, size_t position, char *row, size_t each, bool out) {
    char *page = c->pages[position / CACHE_PAGE];
    char *at = page + c->values_at + (head * CACHE_PAGE + position % CACHE_PAGE) * c->width * each;
    memcpy(out ? row : at, out ? at : row, c->width * each);
}

static char *move_layer(const sequence *s, uint32_t layer, uint32_t first, uint32_t count, char *at, bool out) {
    tensor_cache c = cache_layer(s, layer);
    size_t each = c.half ? sizeof(uint16_t) : sizeof(float), row = c.width * each;
    for (uint32_t t = 0; t < count; t++)
        for (size_t h = 0; h < c.kv_heads; h++, at += row) move_key(&c, h, first + t, at, each, out);
    for (uint32_t t = 0; t < count; t++)
        for (size_t h = 0; h < c.kv_heads; h++, at += row) move_value(&c, h, first + t, at, each, out);
    return at;
}

void sequence_export(const sequence *s, uint32_t begin, uint32_t end, uint32_t first, uint32_t count, void *bytes) {
    BRAID_ASSERT(s->begin <= begin && end <= s->end && first <= s->length && count <= s->length - first);
    char *at = bytes;
    for (uint32_t i = begin; i < end; i++) at = move_layer(s, i, first, count, at, true);
}

braid_err sequence_import(sequence *s, uint32_t count, const void *bytes, braid_error *error) {
    char *at = (char *)(uintptr_t)bytes;
    if (count > s->engine->context - s->length)
        return braid_fail(error, BRAID_LIMIT, "%u tokens after %u are more than the context of %u tokens", count,
                          s->length, s->engine->context);
    braid_err err = cache_reserve(s, count, error);
    for (uint32_t i = s->begin; i < s->end && !err; i++) at = move_layer(s, i, s->length, count, at, false);
    if (!err) s->length += count;
    return err;
}
