#include "serve/executor_local.h"

#include "base/sha256.h"
#include "infer/adapters.h"
#include "serve/prefix.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct session {
    uint64_t id;
    sequence *sequence;
    uint32_t *tokens;  // [length of the sequence]
    uint32_t capacity;
    braid_hash *keys;  // [key_count], of whole pages; keys[0] is the key before the first one
    uint32_t key_count, key_capacity;
    struct session *next;
} session;

typedef struct local_executor {
    executor base;
    engine *engine;
    prefix_cache *prefixes;
    braid_hash first_key;
    uint32_t context;
    executor_listener listener;
    session *sessions;
    // of one call
    engine_part *parts;
    const executor_step **accepted;
    uint32_t part_capacity;
    float *x;
    size_t x_rows;
} local_executor;

static local_executor *local(executor *e) { return (local_executor *)e; }

static void tell(local_executor *l, const executor_result *result) { l->listener.result(l->listener.context, result); }

static void tell_failed(local_executor *l, uint64_t id, const braid_error *error) {
    tell(l, &(executor_result){.session = id, .outcome = EXECUTOR_FAILED, .error = error});
}

// --- sessions

static session *find(const local_executor *l, uint64_t id) {
    session *s = l->sessions;
    while (s && s->id != id) s = s->next;
    return s;
}

static void session_free(session *s) {
    sequence_free(s->sequence);
    free(s->tokens);
    free(s->keys);
    free(s);
}

static bool keep_tokens(session *s, const uint32_t *tokens, uint32_t first, uint32_t count) {
    if (first + count > s->capacity) {
        uint32_t capacity = 2 * (first + count);
        uint32_t *more = realloc(s->tokens, capacity * sizeof *more);
        if (!more) return false;
        s->tokens = more;
        s->capacity = capacity;
    }
    memcpy(s->tokens + first, tokens, count * sizeof *tokens);
    return true;
}

static bool add_key(session *s, const braid_hash *key) {
    if (s->key_count == s->key_capacity) {
        uint32_t capacity = 2 * s->key_capacity + 8;
        braid_hash *more = realloc(s->keys, capacity * sizeof *more);
        if (!more) return false;
        s->keys = more;
        s->key_capacity = capacity;
    }
    s->keys[s->key_count++] = *key;
    return true;
}

// The key before the first page. Pages of different adapters differ.
static braid_hash first_key(const local_executor *l, const executor_adapter *adapts) {
    const braid_hash both[2] = {l->first_key, adapts ? adapts->key : l->first_key};
    return adapts ? sha256_of(both, sizeof both) : l->first_key;
}

static session *session_new(local_executor *l, uint64_t id, const executor_adapter *adapts, braid_error *error) {
    session *s = calloc(1, sizeof *s);
    braid_hash key = first_key(l, adapts);
    if (!s || !add_key(s, &key) || sequence_new(l->engine, &s->sequence, error)) {
        if (s) session_free(s);
        braid_fail(error, BRAID_MEMORY, "no memory for a text");
        return NULL;
    }
    s->id = id;
    if (adapts) sequence_set_adapter(s->sequence, adapts->weights);
    s->next = l->sessions;
    l->sessions = s;
    return s;
}

static void close_session(executor *e, uint64_t id) {
    session **at = &local(e)->sessions, *s;
    while (*at && (*at)->id != id) at = &(*at)->next;
    if (!(s = *at)) return;
    *at = s->next;
    session_free(s);
}

// Takes whole pages from the prefix cache while there are any.
static void take_prefix(local_executor *l, session *s, const uint32_t *tokens, uint32_t count) {
    for (uint32_t end = ENGINE_PAGE_TOKENS; end <= count; end += ENGINE_PAGE_TOKENS) {
        braid_hash key = prefix_key_next(&s->keys[s->key_count - 1], tokens + end - ENGINE_PAGE_TOKENS);
        cache_page *page = prefix_cache_find(l->prefixes, &key);
        if (!page || !keep_tokens(s, tokens, 0, end) || sequence_add_page(s->sequence, page, NULL)) return;
        if (!add_key(s, &key)) {
            sequence_truncate(s->sequence, end - ENGINE_PAGE_TOKENS);
            return;
        }
    }
}

// The pages of a text become the last ones to be evicted, its first page the very last: a page is of
// use only together with those before it.
static void touch(local_executor *l, const session *s) {
    for (uint32_t i = s->key_count; i-- > 1;) prefix_cache_find(l->prefixes, &s->keys[i]);
}

static void begin(executor *e, uint64_t id, const executor_adapter *adapts, const uint32_t *tokens, uint32_t count) {
    local_executor *l = local(e);
    braid_error error = {0};
    session *s = session_new(l, id, adapts, &error);
    if (!s) {
        tell_failed(l, id, &error);
        return;
    }
    take_prefix(l, s, tokens, count);
    touch(l, s);
    tell(l, &(executor_result){.session = id, .outcome = EXECUTOR_BEGAN, .cached = sequence_length(s->sequence)});
}

static void truncate_session(executor *e, uint64_t id, uint32_t length) {
    session *s = find(local(e), id);
    if (!s) return;
    sequence_truncate(s->sequence, length);
    uint32_t keys = length / ENGINE_PAGE_TOKENS + 1;
    if (keys < s->key_count) s->key_count = keys;
}

// Gives the pages that are full now to the prefix cache, if it has none for their tokens.
static void publish(local_executor *l, session *s) {
    uint32_t before = s->key_count, pages = sequence_length(s->sequence) / ENGINE_PAGE_TOKENS;
    while (s->key_count <= pages) {
        uint32_t page = s->key_count - 1;
        braid_hash key = prefix_key_next(&s->keys[page], s->tokens + page * ENGINE_PAGE_TOKENS);
        if (!add_key(s, &key)) return;
        if (!prefix_cache_find(l->prefixes, &key))
            prefix_cache_add(l->prefixes, &key, sequence_page(s->sequence, page));
    }
    if (s->key_count > before) touch(l, s);
}

// --- steps

static bool reach(local_executor *l, uint32_t steps, size_t rows) {
    if (steps > l->part_capacity) {
        free(l->parts);
        free(l->accepted);
        l->parts = malloc(steps * sizeof *l->parts);
        l->accepted = malloc(steps * sizeof *l->accepted);
        l->part_capacity = l->parts && l->accepted ? steps : 0;
    }
    if (rows > l->x_rows) {
        free(l->x);
        l->x = malloc(rows * engine_config(l->engine)->dim * sizeof *l->x);
        l->x_rows = l->x ? rows : 0;
    }
    return steps <= l->part_capacity && rows <= l->x_rows;
}

// Room for `pages` besides `planned` ones.
static bool make_room(local_executor *l, size_t planned, size_t pages) {
    while (engine_free_pages(l->engine) < planned + pages)
        if (!prefix_cache_evict(l->prefixes)) return false;
    return true;
}

// Chooses the steps that there is room for; the others are answered.
static uint32_t accept(local_executor *l, const executor_step *steps, uint32_t count) {
    uint32_t parts = 0;
    size_t planned = 0, dim = engine_config(l->engine)->dim, row = 0;
    for (uint32_t i = 0; i < count; i++) {
        const executor_step *step = &steps[i];
        session *s = find(l, step->session);
        if (!s) continue;
        BRAID_ASSERT(step->first == sequence_length(s->sequence) && step->rows <= step->count);
        size_t pages = sequence_pages_needed(s->sequence, step->count);
        if (!make_room(l, planned, pages)) {
            tell(l, &(executor_result){.session = s->id, .outcome = EXECUTOR_FULL});
            continue;
        }
        planned += pages;
        l->accepted[parts] = step;
        l->parts[parts++] = (engine_part){s->sequence, step->count, NULL};
        memcpy(l->x + row * dim, step->x, step->count * dim * sizeof *l->x);
        row += step->count;
    }
    return parts;
}

static void answer(local_executor *l, uint32_t parts) {
    size_t dim = engine_config(l->engine)->dim, row = 0;
    for (uint32_t i = 0; i < parts; i++) {
        const executor_step *step = l->accepted[i];
        session *s = find(l, step->session);
        row += step->count;
        if (keep_tokens(s, step->tokens, step->first, step->count)) publish(l, s);
        tell(l,
             &(executor_result){
                 .session = s->id, .outcome = EXECUTOR_READ, .rows = step->rows, .x = l->x + (row - step->rows) * dim});
    }
}

static void fail_all(local_executor *l, const executor_step *steps, uint32_t count, const braid_error *error) {
    for (uint32_t i = 0; i < count; i++) {
        uint64_t id = steps[i].session;
        if (!find(l, id)) continue;
        close_session(&l->base, id);
        tell_failed(l, id, error);
    }
}

static void read_steps(executor *e, const executor_step *steps, uint32_t count) {
    local_executor *l = local(e);
    braid_error error = {0};
    size_t rows = 0;
    for (uint32_t i = 0; i < count; i++) rows += steps[i].count;
    if (!reach(l, count, rows)) {
        braid_fail(&error, BRAID_MEMORY, "no memory to read %zu tokens", rows);
        fail_all(l, steps, count, &error);
        return;
    }
    uint32_t parts = accept(l, steps, count);
    if (parts > 0 && engine_layers(l->engine, l->parts, parts, l->x, &error))
        for (uint32_t i = 0; i < parts; i++) fail_all(l, l->accepted[i], 1, &error);
    else
        answer(l, parts);
}

// --- the rest

static void listen_to(executor *e, const executor_listener *listener) { local(e)->listener = *listener; }

static void room(executor *e, executor_room *out) {
    const local_executor *l = local(e);
    size_t pages = engine_free_pages(l->engine), most = UINT32_MAX / ENGINE_PAGE_TOKENS;
    if (pages != SIZE_MAX) pages += prefix_cache_evictable(l->prefixes);
    *out = (executor_room){.session_tokens = l->context,
                           .free_tokens = (uint32_t)(pages < most ? pages : most) * ENGINE_PAGE_TOKENS,
                           .page_tokens = ENGINE_PAGE_TOKENS,
                           .cache_bytes = engine_cache_bytes(l->engine),
                           .scratch_bytes = engine_scratch_bytes(l->engine),
                           .ready = true};
    out->cache_limit = engine_cache_limit(l->engine);
}

static void free_executor(executor *e) {
    local_executor *l = local(e);
    while (l->sessions) close_session(e, l->sessions->id);
    prefix_cache_free(l->prefixes);
    free(l->parts);
    free(l->accepted);
    free(l->x);
    free(l);
}

static const executor_calls local_calls = {
    .listen = listen_to,
    .begin = begin,
    .read = read_steps,
    .truncate = truncate_session,
    .close = close_session,
    .room = room,
    .free = free_executor,
};

braid_err executor_local_new(engine *e, const char *model, uint32_t context, executor **out, braid_error *error) {
    *out = NULL;
    local_executor *l = calloc(1, sizeof *l);
    if (l) l->prefixes = prefix_cache_new(e);
    if (!l || !l->prefixes) {
        free(l);
        return braid_fail(error, BRAID_MEMORY, "no memory for the sessions of a service");
    }
    size_t pages = engine_free_pages(e);
    l->base.calls = &local_calls;
    l->engine = e;
    l->first_key = prefix_key_first(model);
    l->context = context < engine_context(e) ? context : engine_context(e);
    if (pages < l->context / ENGINE_PAGE_TOKENS + 1 && pages * ENGINE_PAGE_TOKENS < l->context)
        l->context = (uint32_t)pages * ENGINE_PAGE_TOKENS;
    *out = &l->base;
    return BRAID_OK;
}
