// Byte pair encoding: the pair of neighbours with the lowest rank is merged first, the leftmost of equal ones.
#include "text/inside.h"

#include <stdio.h>

#define FREE_PAIR UINT64_MAX
enum { SHORT_WORD = 40 };  // symbols; above, a heap finds the next pair

static uint64_t pair_of(uint32_t left, uint32_t right) { return (uint64_t)left << 32 | right; }

static bpe_slot *slot_of(const bpe *b, uint64_t pair) {
    uint64_t h = pair * 0x9e3779b97f4a7c15u;
    uint64_t at = (h ^ h >> 32) & b->mask;
    while (b->slots[at].pair != pair && b->slots[at].pair != FREE_PAIR) at = (at + 1) & b->mask;
    return &b->slots[at];
}

braid_err bpe_reserve(bpe *b, size_t merges, braid_error *error) {
    if (merges > TOKENIZER_MAX_MERGES) return braid_fail(error, BRAID_LIMIT, "the model has too many merges");
    uint64_t slots = 64;
    while (slots < 2 * merges) slots *= 2;
    b->slots = malloc(slots * sizeof *b->slots);
    if (!b->slots) return text_no_memory(error);
    memset(b->slots, 0xff, slots * sizeof *b->slots);
    b->mask = slots - 1;
    return BRAID_OK;
}

static braid_err not_a_token(const char *text, size_t length, braid_error *error) {
    return braid_fail(error, BRAID_FORMAT, "a merge has the token '%.*s', which the vocabulary lacks",
                      (int)(length < 64 ? length : 64), text);
}

braid_err bpe_add(bpe *b, const vocabulary *v, tokenizer_text left, tokenizer_text right, braid_error *error) {
    char joined[2 * TOKENIZER_MAX_TOKEN_BYTES];
    size_t skip = b->prefix ? strlen(b->prefix) : 0;
    if (left.length > TOKENIZER_MAX_TOKEN_BYTES || right.length > TOKENIZER_MAX_TOKEN_BYTES || right.length < skip)
        return braid_fail(error, BRAID_FORMAT, "a merge has a token of a wrong length");
    uint32_t a = vocabulary_find(v, left.at, left.length), c = vocabulary_find(v, right.at, right.length);
    if (a == TOKENIZER_NO_ID) return not_a_token(left.at, left.length, error);
    if (c == TOKENIZER_NO_ID) return not_a_token(right.at, right.length, error);
    memcpy(joined, left.at, left.length);
    memcpy(joined + left.length, right.at + skip, right.length - skip);
    uint32_t id = vocabulary_find(v, joined, left.length + right.length - skip);
    if (id == TOKENIZER_NO_ID) return not_a_token(joined, left.length + right.length - skip, error);
    if (b->merges >= b->mask / 2 + 1) return braid_fail(error, BRAID_LIMIT, "the model has too many merges");
    *slot_of(b, pair_of(a, c)) = (bpe_slot){pair_of(a, c), (uint64_t)b->merges++ << 32 | id};
    return BRAID_OK;
}

void bpe_finish(bpe *b, const vocabulary *v) {
    for (unsigned i = 0; i < 256; i++) {
        char name[8];
        snprintf(name, sizeof name, "<0x%02X>", i);
        b->fallback_ids[i] = vocabulary_find(v, name, 6);
        b->byte_ids[i] = vocabulary_find(v, name, utf8_put(name, byte_char((uint8_t)i)));
    }
}

void bpe_free(bpe *b) {
    free(b->slots);
    free(b->prefix);
    free(b->suffix);
    *b = (bpe){0};
}

// rank << 32 | id; UINT64_MAX: no merge
static uint64_t merge_of(const bpe *b, uint32_t left, uint32_t right) {
    if (!b->slots) return UINT64_MAX;
    const bpe_slot *slot = slot_of(b, pair_of(left, right));
    return slot->pair == FREE_PAIR ? UINT64_MAX : slot->value;
}

// ids[0, count): merged in place; returns how many are left.
static size_t merge_short(const bpe *b, uint32_t *ids, size_t count) {
    uint64_t merges[SHORT_WORD];
    for (size_t i = 0; i + 1 < count; i++) merges[i] = merge_of(b, ids[i], ids[i + 1]);
    while (count > 1) {
        size_t least = 0;
        for (size_t i = 1; i + 1 < count; i++)
            if (merges[i] >> 32 < merges[least] >> 32) least = i;
        if (merges[least] == UINT64_MAX) break;
        ids[least] = (uint32_t)merges[least];
        count--;
        memmove(ids + least + 1, ids + least + 2, (count - least - 1) * sizeof *ids);
        memmove(merges + least, merges + least + 1, (count - least) * sizeof *merges);
        if (least > 0) merges[least - 1] = merge_of(b, ids[least - 1], ids[least]);
        if (least + 1 < count) merges[least] = merge_of(b, ids[least], ids[least + 1]);
    }
    return count;
}

static bool earlier(const bpe_candidate *a, const bpe_candidate *b) {
    return a->rank != b->rank ? a->rank < b->rank : a->position < b->position;
}

bool candidate_push(tokenizer_encoder *e, size_t *count, bpe_candidate c) {
    if (*count == e->heap_capacity) {
        size_t capacity = e->heap_capacity ? e->heap_capacity * 2 : 256;
        bpe_candidate *heap = realloc(e->heap, capacity * sizeof *heap);
        if (!heap) return false;
        e->heap = heap;
        e->heap_capacity = capacity;
    }
    size_t at = (*count)++;
    while (at > 0 && earlier(&c, &e->heap[(at - 1) / 2])) {
        e->heap[at] = e->heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    e->heap[at] = c;
    return true;
}

bpe_candidate candidate_pop(tokenizer_encoder *e, size_t *count) {
    bpe_candidate top = e->heap[0], last = e->heap[--*count];
    size_t at = 0;
    for (size_t child = 1; child < *count; child = 2 * at + 1) {
        if (child + 1 < *count && earlier(&e->heap[child + 1], &e->heap[child])) child++;
        if (!earlier(&e->heap[child], &last)) break;
        e->heap[at] = e->heap[child];
        at = child;
    }
    e->heap[at] = last;
    return top;
}

static bool offer(tokenizer_encoder *e, size_t *count, int32_t left) {
    if (left < 0 || e->symbols[left].after < 0) return true;
    uint64_t merge = merge_of(&e->t->bpe, e->symbols[left].id, e->symbols[e->symbols[left].after].id);
    if (merge == UINT64_MAX) return true;
    return candidate_push(e, count, (bpe_candidate){(uint32_t)(merge >> 32), (uint32_t)left, (uint32_t)merge, 0});
}

static bool merge_long(tokenizer_encoder *e, size_t count) {
    size_t heap = 0;
    bpe_symbol *s = e->symbols;
    for (size_t i = 0; i < count; i++) {
        s[i].before = (int32_t)i - 1;
        s[i].after = i + 1 < count ? (int32_t)i + 1 : -1;
    }
    for (size_t i = 0; i + 1 < count; i++)
        if (!offer(e, &heap, (int32_t)i)) return false;
    while (heap > 0) {
        bpe_candidate top = candidate_pop(e, &heap);
        bpe_symbol *left = &s[top.position];
        if (left->length == 0 || left->after < 0) continue;
        bpe_symbol *right = &s[left->after];
        uint64_t merge = merge_of(&e->t->bpe, left->id, right->id);
        if (merge == UINT64_MAX || (uint32_t)merge != top.id) continue;
        left->id = top.id;
        left->length += right->length;
        right->length = 0;
        left->after = right->after;
        if (right->after >= 0) s[right->after].before = (int32_t)top.position;
        if (!offer(e, &heap, left->before) || !offer(e, &heap, (int32_t)top.position)) return false;
    }
    return true;
}

bool symbol_add(tokenizer_encoder *e, size_t *count, uint32_t id) {
    if (*count == e->symbol_capacity) {
        size_t capacity = e->symbol_capacity ? e->symbol_capacity * 2 : 256;
        bpe_symbol *symbols = realloc(e->symbols, capacity * sizeof *symbols);
        if (!symbols) return false;
        e->symbols = symbols;
        e->symbol_capacity = capacity;
    }
    e->symbols[(*count)++] = (bpe_symbol){id, 1, 0, 0};
    return true;
}

// The symbol of one character with the prefix and suffix of its place.
static uint32_t character_id(tokenizer_encoder *e, const char *at, size_t width, bool first, bool last) {
    const bpe *b = &e->t->bpe;
    e->word.count = 0;
    if (!first && b->prefix) buffer_add(&e->word, b->prefix, strlen(b->prefix));
    buffer_add(&e->word, at, width);
    if (last && b->suffix) buffer_add(&e->word, b->suffix, strlen(b->suffix));
    return vocabulary_find(&e->t->vocabulary, e->word.at, e->word.count);
}

static bool fall_back(tokenizer_encoder *e, size_t *count) {
    const uint32_t *ids = e->t->bpe.fallback_ids;
    for (size_t i = 0; i < e->word.count; i++)
        if (ids[(uint8_t)e->word.at[i]] == TOKENIZER_NO_ID) return false;
    for (size_t i = 0; i < e->word.count; i++)
        if (!symbol_add(e, count, ids[(uint8_t)e->word.at[i]])) return false;
    return true;
}

// All characters as symbols. An unknown one becomes the unknown token, which waits for the next character that is known: so it does in
// tokenizers, where bytes of a fallback come before it.
static bool characters(tokenizer_encoder *e, const char *text, size_t length, size_t *count) {
    const bpe *b = &e->t->bpe;
    bool waiting = false, fine = true;
    for (size_t at = 0, next; at < length && fine; at = next) {
        next = at + utf8_width(text[at]);
        uint32_t id = character_id(e, text + at, next - at, at == 0, next == length);
        if (id != TOKENIZER_NO_ID) {
            if (waiting) fine = symbol_add(e, count, b->unknown);
            waiting = false;
            fine = fine && symbol_add(e, count, id);
        } else if (b->byte_fallback && fall_back(e, count)) {
            continue;
        } else if (b->unknown != TOKENIZER_NO_ID) {
            if (waiting && !b->fuse_unknown) fine = symbol_add(e, count, b->unknown);
            waiting = true;
        }
    }
    if (waiting) fine = fine && symbol_add(e, count, b->unknown);
    return fine && !e->word.failed;
}

static uint32_t whole(tokenizer_encoder *e, const char *text, size_t length) {
    if (!e->t->bpe.raw) return vocabulary_find(&e->t->vocabulary, text, length);
    e->word.count = 0;
    for (size_t i = 0; i < length; i++) buffer_char(&e->word, byte_char((uint8_t)text[i]));
    return vocabulary_find(&e->t->vocabulary, e->word.at, e->word.count);
}

static bool only_newlines(const char *text, size_t length) {
    for (size_t i = 0; i < length; i++)
        if (text[i] != '\n') return false;
    return true;
}

static braid_err encode_short(tokenizer_encoder *e, const char *text, size_t length, tokenizer_ids *ids) {
    uint32_t merged[SHORT_WORD];
    for (size_t i = 0; i < length; i++) merged[i] = e->t->bpe.byte_ids[(uint8_t)text[i]];
    size_t left = merge_short(&e->t->bpe, merged, length);
    for (size_t i = 0; i < left; i++)
        if (!ids_add(ids, merged[i])) return text_no_memory(e->error);
    return BRAID_OK;
}

static braid_err encode_new(tokenizer_encoder *e, const char *text, size_t length, tokenizer_ids *ids) {
    const bpe *b = &e->t->bpe;
    if (b->ignore_merges || (b->whole_newlines && only_newlines(text, length))) {
        uint32_t id = whole(e, text, length);
        if (e->word.failed) return text_no_memory(e->error);
        if (id != TOKENIZER_NO_ID) return ids_add(ids, id) ? BRAID_OK : text_no_memory(e->error);
    }
    if (b->raw && length <= SHORT_WORD) return encode_short(e, text, length, ids);
    size_t count = 0;
    bool fine = true;
    if (b->raw)
        for (size_t i = 0; i < length && fine; i++) fine = symbol_add(e, &count, b->byte_ids[(uint8_t)text[i]]);
    else
        fine = characters(e, text, length, &count);
    fine = fine && merge_long(e, count);
    for (size_t i = 0; i < count && fine; i++)
        if (e->symbols[i].length) fine = ids_add(ids, e->symbols[i].id);
    return fine ? BRAID_OK : text_no_memory(e->error);
}

braid_err bpe_encode(tokenizer_encoder *e, const char *text, size_t length, tokenizer_ids *ids) {
    if (length > CACHE_KEY_BYTES) return encode_new(e, text, length, ids);
    cache_entry *c = &e->cache[hash_bytes(text, length) & (CACHE_SLOTS - 1)];
    if (c->length == length && memcmp(c->key, text, length) == 0) {
        for (unsigned i = 0; i < c->count; i++)
            if (!ids_add(ids, c->ids[i])) return text_no_memory(e->error);
        return BRAID_OK;
    }
    size_t before = ids->count;
    braid_err err = encode_new(e, text, length, ids);
    if (err || ids->count - before > CACHE_IDS) return err;
    c->length = (uint8_t)length;
    c->count = (uint8_t)(ids->count - before);
    memcpy(c->key, text, length);
    if (c->count) memcpy(c->ids, ids->at + before, c->count * sizeof *c->ids);
    return BRAID_OK;
}
