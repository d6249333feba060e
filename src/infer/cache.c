// Keys and values of sequences. The capacity of a sequence doubles as its text grows; memory beyond
// the text is not touched.
#include "infer/inside.h"

#include <stdlib.h>
#include <string.h>

enum { LEAST_POSITIONS = 64, PARTS = 2 };

static size_t number_bytes(const engine *e) { return e->half_cache ? sizeof(uint16_t) : sizeof(float); }
static uint32_t layers_of(const engine *e) { return e->layer_end - e->layer_begin; }

size_t sequence_layer_bytes(const engine *e) {
    return (size_t)e->config.kv_heads * PARTS * e->width * number_bytes(e);
}

size_t engine_token_bytes(const engine *e) { return layers_of(e) * sequence_layer_bytes(e); }
size_t engine_cache_bytes(const engine *e) { return e->cached_positions * sequence_layer_bytes(e); }

braid_err sequence_new(engine *e, sequence **out, braid_error *error) {
    return sequence_new_of(e, e->layer_begin, e->layer_end, out, error);
}

braid_err sequence_new_of(engine *e, uint32_t begin, uint32_t end, sequence **out, braid_error *error) {
    *out = NULL;
    if (begin > end || (begin < end && (begin < e->layer_begin || end > e->layer_end)))
        return braid_fail(error, BRAID_ARGUMENT, "layers %u to %u are not among those of this engine, %u to %u", begin,
                          end, e->layer_begin, e->layer_end);
    sequence *s = calloc(1, sizeof *s);
    if (s) s->layers = calloc(layers_of(e) + 1, sizeof *s->layers);
    if (!s || !s->layers) {
        free(s);
        *out = NULL;
        return braid_fail(error, BRAID_MEMORY, "no memory for a text");
    }
    s->engine = e;
    s->begin = begin < end ? begin : e->layer_begin;
    s->end = begin < end ? end : e->layer_begin;
    *out = s;
    return BRAID_OK;
}

static void cache_free(tensor_cache *c) {
    free(c->keys);
    free(c->values);
}

void sequence_free(sequence *s) {
    if (!s) return;
    for (uint32_t i = 0; i < layers_of(s->engine); i++) cache_free(&s->layers[i]);
    s->engine->cached_positions -= (size_t)s->capacity * (s->end - s->begin);
    free(s->layers);
    free(s);
}

uint32_t sequence_length(const sequence *s) { return s->length; }

void sequence_truncate(sequence *s, uint32_t length) {
    BRAID_ASSERT(length <= s->length);
    s->length = length;
}

void sequence_begin_at(sequence *s, uint32_t position) {
    BRAID_ASSERT(s->begin == s->end && position <= s->engine->context);
    s->length = position;
}

static bool cache_new(const engine *e, uint32_t positions, tensor_cache *out) {
    *out = (tensor_cache){
        .kv_heads = e->config.kv_heads, .width = e->width, .positions = positions, .half = e->half_cache};
    out->keys = aligned_alloc(INFER_ALIGNMENT, tensor_cache_bytes(out));
    out->values = aligned_alloc(INFER_ALIGNMENT, tensor_cache_bytes(out));
    if (out->keys && out->values) return true;
    cache_free(out);
    return false;
}

// The first `positions` of each head.
static void copy_heads(const engine *e, const tensor_cache *from, const tensor_cache *to, uint32_t positions) {
    size_t each = e->width * number_bytes(e), used = (positions + CACHE_TILE - 1) / CACHE_TILE * CACHE_TILE * each;
    for (size_t h = 0; h < from->kv_heads; h++) {
        size_t a = h * from->positions * each, b = h * to->positions * each;
        memcpy((char *)to->keys + b, (const char *)from->keys + a, used);
        memcpy((char *)to->values + b, (const char *)from->values + a, positions * each);
    }
}

static uint32_t capacity_for(const engine *e, uint32_t positions) {
    uint32_t most = (e->context + CACHE_TILE - 1) / CACHE_TILE * CACHE_TILE, capacity = LEAST_POSITIONS;
    while (capacity < positions) capacity *= 2;
    return capacity < most ? capacity : most;
}

static braid_err no_memory(const engine *e, uint32_t tokens, braid_error *error) {
    return braid_fail(
        error, BRAID_MEMORY,
        "no memory for the keys and values of a text of %u tokens, %zu bytes a token; give a shorter context", tokens,
        engine_token_bytes(e));
}

size_t sequence_growth(const sequence *s, uint32_t tokens) {
    const engine *e = s->engine;
    uint32_t wanted = s->length + tokens, capacity = capacity_for(e, wanted);
    if (wanted <= s->capacity) return 0;
    return (size_t)(capacity - s->capacity) * (s->end - s->begin) * sequence_layer_bytes(e);
}

// One layer after the other, so that only one is in memory twice. After a failure the sequence is
// as before, except that some layers have more room.
braid_err cache_reserve(sequence *s, uint32_t tokens, braid_error *error) {
    engine *e = s->engine;
    uint32_t wanted = s->length + tokens, capacity = capacity_for(e, wanted);
    if (wanted <= s->capacity) return BRAID_OK;
    for (uint32_t i = s->begin - e->layer_begin; i < s->end - e->layer_begin; i++) {
        tensor_cache grown;
        if (s->layers[i].positions >= capacity) continue;
        if (!cache_new(e, capacity, &grown)) return no_memory(e, wanted, error);
        if (s->layers[i].keys) copy_heads(e, &s->layers[i], &grown, s->length);
        cache_free(&s->layers[i]);
        s->layers[i] = grown;
    }
    e->cached_positions += (size_t)(capacity - s->capacity) * (s->end - s->begin);
    s->capacity = capacity;
    return BRAID_OK;
}

braid_err sequence_fork(const sequence *from, uint32_t tokens, sequence **out, braid_error *error) {
    BRAID_ASSERT(tokens <= from->length);
    sequence *s = NULL;
    braid_err err = sequence_new_of(from->engine, from->begin, from->end, &s, error);
    if (!err) err = cache_reserve(s, tokens, error);
    for (uint32_t i = from->begin - from->engine->layer_begin;
         i < from->end - from->engine->layer_begin && !err && tokens > 0; i++)
        copy_heads(from->engine, &from->layers[i], &s->layers[i], tokens);
    if (err) {
        sequence_free(s);
        s = NULL;
    } else {
        s->length = tokens;
    }
    *out = s;
    return err;
}

// --- keys and values in memory of the caller, one token after the other

// Moves one position of one head between its places in the cache and a row of `width` numbers.
static void move_key(const tensor_cache *c, size_t head, size_t position, char *row, size_t each, bool out) {
    char *keys = (char *)c->keys + head * c->positions * c->width * each;
    char *tile = keys + position / CACHE_TILE * CACHE_TILE * c->width * each + position % CACHE_TILE * each;
    for (size_t i = 0; i < c->width; i++) {
        char *inside = tile + i * CACHE_TILE * each;
        memcpy(out ? row + i * each : inside, out ? inside : row + i * each, each);
    }
}

static void move_value(const tensor_cache *c, size_t head, size_t position, char *row, size_t each, bool out) {
    char *inside = (char *)c->values + (head * c->positions + position) * c->width * each;
    memcpy(out ? row : inside, out ? inside : row, c->width * each);
}

static char *move_layer(const engine *e, const tensor_cache *c, uint32_t first, uint32_t count, char *at, bool out) {
    size_t each = number_bytes(e), row = c->width * each;
    for (uint32_t t = 0; t < count; t++)
        for (size_t h = 0; h < c->kv_heads; h++, at += row) move_key(c, h, first + t, at, each, out);
    for (uint32_t t = 0; t < count; t++)
        for (size_t h = 0; h < c->kv_heads; h++, at += row) move_value(c, h, first + t, at, each, out);
    return at;
}

void sequence_export(const sequence *s, uint32_t begin, uint32_t end, uint32_t first, uint32_t count, void *bytes) {
    const engine *e = s->engine;
    BRAID_ASSERT(s->begin <= begin && end <= s->end && first <= s->length && count <= s->length - first);
    char *at = bytes;
    for (uint32_t i = begin; i < end; i++) at = move_layer(e, &s->layers[i - e->layer_begin], first, count, at, true);
}

braid_err sequence_import(sequence *s, uint32_t count, const void *bytes, braid_error *error) {
    engine *e = s->engine;
    char *at = (char *)(uintptr_t)bytes;
    if (count > e->context - s->length)
        return braid_fail(error, BRAID_LIMIT, "%u tokens after %u are more than the context of %u tokens", count,
                          s->length, e->context);
    braid_err err = cache_reserve(s, count, error);
    for (uint32_t i = s->begin; i < s->end && !err; i++)
        at = move_layer(e, &s->layers[i - e->layer_begin], s->length, count, at, false);
    if (!err) s->length += count;
    return err;
}
