// SentencePiece's BPE as llama.cpp does it: of two neighbours that make a token, those with the greatest score are joined first.
#include "text/inside.h"

// Greater scores get lower ranks.
static uint32_t rank_of(float score) {
    uint32_t bits;
    score += 0.0f;  // one zero
    memcpy(&bits, &score, sizeof bits);
    return bits >> 31 ? bits : ~(bits | 1u << 31);
}

// e->symbols: `id` is where the symbol starts in the text.
static bool offer(tokenizer_encoder *e, const char *text, size_t *heap, int32_t left) {
    if (left < 0 || e->symbols[left].after < 0) return true;
    const bpe_symbol *a = &e->symbols[left], *b = &e->symbols[a->after];
    uint32_t length = a->length + b->length;
    uint32_t id = vocabulary_find(&e->t->vocabulary, text + a->id, length);
    if (id == TOKENIZER_NO_ID) return true;
    return candidate_push(e, heap, (bpe_candidate){rank_of(e->t->spm.scores[id]), (uint32_t)left, id, length});
}

static bool join(tokenizer_encoder *e, const char *text, size_t count) {
    size_t heap = 0;
    bpe_symbol *s = e->symbols;
    for (size_t i = 0; i + 1 < count; i++)
        if (!offer(e, text, &heap, (int32_t)i)) return false;
    while (heap > 0) {
        bpe_candidate top = candidate_pop(e, &heap);
        bpe_symbol *left = &s[top.position];
        if (left->length == 0 || left->after < 0) continue;
        bpe_symbol *right = &s[left->after];
        if (left->length + right->length != top.spare) continue;
        left->length += right->length;
        right->length = 0;
        left->after = right->after;
        if (right->after >= 0) s[right->after].before = (int32_t)top.position;
        if (!offer(e, text, &heap, left->before) || !offer(e, text, &heap, (int32_t)top.position)) return false;
    }
    return true;
}

static bool put(tokenizer_encoder *e, const char *text, size_t length, tokenizer_ids *ids) {
    uint32_t id = vocabulary_find(&e->t->vocabulary, text, length);
    if (id != TOKENIZER_NO_ID) return ids_add(ids, id);
    for (size_t i = 0; i < length; i++) {
        id = e->t->spm.byte_ids[(uint8_t)text[i]];
        if (id != TOKENIZER_NO_ID && !ids_add(ids, id)) return false;
    }
    return true;
}

braid_err spm_encode(tokenizer_encoder *e, const char *text, size_t length, tokenizer_ids *ids) {
    size_t count = 0;
    bool fine = true;
    if (length > INT32_MAX)
        return braid_fail(e->error, BRAID_LIMIT, "a text of %zu bytes is too long to tokenize at once", length);
    for (size_t at = 0, next; at < length && fine; at = next) {
        next = at + utf8_width(text[at]);
        fine = symbol_add(e, &count, (uint32_t)at);
        if (!fine) break;
        e->symbols[count - 1].length = (uint32_t)(next - at);
        e->symbols[count - 1].before = (int32_t)count - 2;
        e->symbols[count - 1].after = next < length ? (int32_t)count : -1;
    }
    fine = fine && join(e, text, count);
    for (size_t i = 0; i < count && fine; i++)
        if (e->symbols[i].length) fine = put(e, text + e->symbols[i].id, e->symbols[i].length, ids);
    return fine ? BRAID_OK : text_no_memory(e->error);
}
