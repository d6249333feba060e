#include "text/tokenizer.h"

#include "text/inside.h"

static void free_steps(tokenizer *t) {
    for (uint32_t i = 0; i < t->normals; i++) {
        pattern_free(&t->normal[i].pattern);
        free(t->normal[i].content);
        free(t->normal[i].map.units);
        free(t->normal[i].map.texts);
    }
    for (uint32_t i = 0; i < t->pres; i++) pattern_free(&t->pre[i].pattern);
    for (uint32_t i = 0; i < t->decodes; i++) {
        pattern_free(&t->decode[i].pattern);
        free(t->decode[i].text);
    }
}

void tokenizer_free(tokenizer *t) {
    if (!t) return;
    free_steps(t);
    vocabulary_free(&t->vocabulary);
    bpe_free(&t->bpe);
    free(t->unigram.scores);
    trie_free(&t->unigram.trie);
    free(t->wordpiece.prefix);
    free(t->spm.scores);
    for (uint32_t i = 0; i < t->added_count; i++) {
        free(t->added[i].text);
        free(t->added[i].normalized_text);
    }
    free(t->added);
    free(t->added_by_id);
    trie_free(&t->raw_trie);
    trie_free(&t->normal_trie);
    free(t->prefix);
    free(t->suffix);
    free(t);
}

uint32_t tokenizer_size(const tokenizer *t) { return t->size; }
uint32_t tokenizer_bos(const tokenizer *t) { return t->bos; }
uint32_t tokenizer_eos(const tokenizer *t) { return t->eos; }

const uint32_t *tokenizer_stops(const tokenizer *t, uint32_t *count) {
    *count = t->stop_count;
    return t->stops;
}

uint32_t tokenizer_id(const tokenizer *t, const char *text, size_t length) {
    for (uint32_t i = 0; i < t->added_count; i++)
        if (t->added[i].length == length && memcmp(t->added[i].text, text, length) == 0) return t->added[i].id;
    return vocabulary_find(&t->vocabulary, text, length);
}

const char *tokenizer_token(const tokenizer *t, uint32_t id, size_t *length) {
    if (id >= t->size) return NULL;
    if (t->added_by_id[id] == UINT32_MAX) return vocabulary_text(&t->vocabulary, id, length);
    const added_token *token = &t->added[t->added_by_id[id]];
    *length = token->length;
    return token->text;
}

bool tokenizer_is_special(const tokenizer *t, uint32_t id) {
    return id < t->size && t->added_by_id[id] != UINT32_MAX && t->added[t->added_by_id[id]].special;
}

void tokenizer_ids_free(tokenizer_ids *ids) {
    free(ids->at);
    *ids = (tokenizer_ids){0};
}

tokenizer_encoder *tokenizer_encoder_new(const tokenizer *t) {
    tokenizer_encoder *e = calloc(1, sizeof *e);
    if (!e) return NULL;
    e->t = t;
    e->scratch = regex_scratch_new();
    e->cache = t->kind == MODEL_BPE ? calloc(CACHE_SLOTS, sizeof *e->cache) : NULL;
    if (!e->scratch || (t->kind == MODEL_BPE && !e->cache)) {
        tokenizer_encoder_free(e);
        return NULL;
    }
    return e;
}

void tokenizer_encoder_free(tokenizer_encoder *e) {
    if (!e) return;
    free(e->cache);
    buffer_free(&e->repaired);
    buffer_free(&e->word);
    for (int i = 0; i < 2; i++) {
        buffer_free(&e->normal[i]);
        buffer_free(&e->text[i]);
        free(e->list[i].at);
    }
    free(e->symbols);
    free(e->heap);
    free(e->best);
    free(e->from);
    free(e->node_id);
    regex_scratch_free(e->scratch);
    free(e);
}

braid_err model_encode(tokenizer_encoder *e, const char *text, size_t length, tokenizer_ids *ids) {
    switch (e->t->kind) {
    case MODEL_BPE: return bpe_encode(e, text, length, ids);
    case MODEL_UNIGRAM: return unigram_encode(e, text, length, ids);
    case MODEL_WORDPIECE: return wordpiece_encode(e, text, length, ids);
    case MODEL_SPM: return spm_encode(e, text, length, ids);
    }
    return BRAID_OK;
}

// A part without added tokens of the first kind: normalized, then cut at those of the second.
static braid_err encode_part(tokenizer_encoder *e, const char *text, size_t length, bool first, unsigned flags,
                             tokenizer_ids *ids) {
    const tokenizer *t = e->t;
    size_t zero = first && length ? utf8_width(text[0]) : 0, at = 0, taken = 0;
    added_match match;
    braid_err err = normalize(e, &text, &length, &zero);
    while (!err && added_next(t, &t->normal_trie, text, length, &at, taken, flags & TOKENIZER_PARSE_SPECIAL, &match)) {
        if (taken < match.start)
            err = pretokenize_encode(e, text + taken, match.start - taken, zero > taken ? zero - taken : 0, ids);
        if (!err && !ids_add(ids, t->added[match.index].id)) err = text_no_memory(e->error);
        taken = match.end;
    }
    if (!err && taken < length)
        err = pretokenize_encode(e, text + taken, length - taken, zero > taken ? zero - taken : 0, ids);
    return err;
}

// llama.cpp's SPM: a space before the text and before what follows a special token.
static braid_err encode_spaced(tokenizer_encoder *e, const char *text, size_t length, unsigned flags,
                               tokenizer_ids *ids) {
    buffer spaced = {0};
    buffer_byte(&spaced, ' ');
    buffer_add(&spaced, text, length);
    braid_err err = spaced.failed ? text_no_memory(e->error)
                                  : encode_part(e, spaced.at, spaced.count, false, flags, ids);
    buffer_free(&spaced);
    return err;
}

static braid_err encode_all(tokenizer_encoder *e, const char *text, size_t length, unsigned flags, tokenizer_ids *ids) {
    const tokenizer *t = e->t;
    size_t at = 0, taken = 0;
    added_match match;
    braid_err err = BRAID_OK;
    while (!err && added_next(t, &t->raw_trie, text, length, &at, taken, flags & TOKENIZER_PARSE_SPECIAL, &match)) {
        if (taken < match.start && t->gguf_space_prefix)
            err = encode_spaced(e, text + taken, match.start - taken, flags, ids);
        else if (taken < match.start)
            err = encode_part(e, text + taken, match.start - taken, taken == 0, flags, ids);
        if (!err && !ids_add(ids, t->added[match.index].id)) err = text_no_memory(e->error);
        taken = match.end;
    }
    if (err || taken >= length) return err;
    if (t->gguf_space_prefix) return encode_spaced(e, text + taken, length - taken, flags, ids);
    return encode_part(e, text + taken, length - taken, taken == 0, flags, ids);
}

static bool add_several(tokenizer_ids *ids, const uint32_t *more, uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        if (!ids_add(ids, more[i])) return false;
    return true;
}

braid_err tokenizer_encode(tokenizer_encoder *e, const char *text, size_t length, unsigned flags, tokenizer_ids *ids,
                           braid_error *error) {
    const tokenizer *t = e->t;
    bool around = flags & TOKENIZER_ADD_SPECIAL;
    e->error = error;
    if (length > TOKENIZER_MAX_INPUT_BYTES)
        return braid_fail(error, BRAID_LIMIT, "a text of %zu bytes is too long to tokenize at once", length);
    if (around && !add_several(ids, t->prefix, t->prefix_count)) return text_no_memory(error);
    if (utf8_valid(text, length) != length) {
        e->repaired.count = 0;
        utf8_repair(text, length, &e->repaired);
        if (e->repaired.failed) return text_no_memory(error);
        text = e->repaired.at;
        length = e->repaired.count;
    }
    braid_err err = encode_all(e, text, length, flags, ids);
    if (!err && around && !add_several(ids, t->suffix, t->suffix_count)) err = text_no_memory(error);
    return err;
}
