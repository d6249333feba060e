#include "text/inside.h"

braid_err text_no_memory(braid_error *error) { return braid_fail(error, BRAID_MEMORY, "no memory for the tokenizer"); }

static bool same(const vocabulary *v, const vocabulary_entry *e, const char *text, size_t length) {
    return e->length == length && (length == 0 || memcmp(v->text.at + e->start, text, length) == 0);
}

// A slot is the upper half of the hash, and the entry + 1.
static uint64_t *slot_of(const vocabulary *v, const char *text, size_t length, uint64_t *hash) {
    uint64_t h = hash_bytes(text, length), at = h & v->mask;
    *hash = h & ~(uint64_t)UINT32_MAX;
    for (uint64_t slot; (slot = v->slots[at]) != 0; at = (at + 1) & v->mask) {
        bool near = (slot ^ h) >> 32 == 0;
        if (near && same(v, &v->entries[(uint32_t)slot - 1], text, length)) break;
    }
    return &v->slots[at];
}

static bool grow(vocabulary *v, uint32_t capacity) {
    vocabulary_entry *entries = realloc(v->entries, capacity * sizeof *entries);
    if (!entries) return false;
    v->entries = entries;
    uint64_t *slots = calloc(2 * (size_t)capacity, sizeof *slots), hash;
    if (!slots) return false;
    free(v->slots);
    v->slots = slots;
    v->capacity = capacity;
    v->mask = 2 * capacity - 1;
    for (uint32_t i = 0; i < v->count; i++) {
        uint64_t *slot = slot_of(v, v->text.at + entries[i].start, entries[i].length, &hash);
        *slot = hash | (i + 1);
    }
    return true;
}

bool vocabulary_reserve(vocabulary *v, size_t count) {
    uint32_t capacity = 1024;
    while (capacity < count && capacity < TOKENIZER_MAX_IDS) capacity *= 2;
    return capacity <= v->capacity || grow(v, capacity);
}

braid_err vocabulary_add(vocabulary *v, const char *text, size_t length, uint32_t id, braid_error *error) {
    if (id >= TOKENIZER_MAX_IDS)
        return braid_fail(error, BRAID_LIMIT, "token id %u is too large; ids up to %d are supported", (unsigned)id,
                          TOKENIZER_MAX_IDS - 1);
    if (length > TOKENIZER_MAX_TOKEN_BYTES)
        return braid_fail(error, BRAID_LIMIT, "a token of %zu bytes is too long; the limit is %d", length,
                          TOKENIZER_MAX_TOKEN_BYTES);
    if (v->count == TOKENIZER_MAX_IDS) return braid_fail(error, BRAID_LIMIT, "the vocabulary has too many tokens");
    if (v->count == v->capacity && !grow(v, v->capacity ? v->capacity * 2 : 1024)) return text_no_memory(error);
    uint64_t hash, *slot = slot_of(v, text, length, &hash);
    if (*slot) {
        v->entries[(uint32_t)*slot - 1].id = id;
        return BRAID_OK;
    }
    v->entries[v->count] = (vocabulary_entry){(uint32_t)v->text.count, (uint32_t)length, id};
    buffer_add(&v->text, text, length);
    if (v->text.failed) return text_no_memory(error);
    *slot = hash | ++v->count;
    return BRAID_OK;
}

braid_err vocabulary_index(vocabulary *v, braid_error *error) {
    v->end = 0;
    for (uint32_t i = 0; i < v->count; i++)
        if (v->entries[i].id >= v->end) v->end = v->entries[i].id + 1;
    free(v->by_id);
    v->by_id = malloc((v->end + 1) * sizeof *v->by_id);
    if (!v->by_id) return text_no_memory(error);
    memset(v->by_id, 0xff, (v->end + 1) * sizeof *v->by_id);
    for (uint32_t i = 0; i < v->count; i++) v->by_id[v->entries[i].id] = i;
    return BRAID_OK;
}

uint32_t vocabulary_find(const vocabulary *v, const char *text, size_t length) {
    if (!v->count) return TOKENIZER_NO_ID;
    uint64_t hash;
    uint32_t entry = (uint32_t)*slot_of(v, text, length, &hash);
    return entry ? v->entries[entry - 1].id : TOKENIZER_NO_ID;
}

const char *vocabulary_text(const vocabulary *v, uint32_t id, size_t *length) {
    if (id >= v->end || v->by_id[id] == UINT32_MAX) return NULL;
    const vocabulary_entry *e = &v->entries[v->by_id[id]];
    *length = e->length;
    return v->text.at ? v->text.at + e->start : "";
}

void vocabulary_free(vocabulary *v) {
    buffer_free(&v->text);
    free(v->entries);
    free(v->slots);
    free(v->by_id);
    *v = (vocabulary){0};
}
