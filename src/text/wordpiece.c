// WordPiece: the longest token first, again and again (Devlin et al. 2019); WordLevel: whole words; and the GGUF form of WordPiece.
#include "text/inside.h"

static braid_err unknown(tokenizer_encoder *e, tokenizer_ids *ids) {
    uint32_t id = e->t->wordpiece.unknown;
    if (id == TOKENIZER_NO_ID)
        return braid_fail(e->error, BRAID_FORMAT,
                          "the text has a word that the vocabulary lacks, and so it lacks the unknown token itself");
    return ids_add(ids, id) ? BRAID_OK : text_no_memory(e->error);
}

// The longest token at `at`; *end is where it ends.
static uint32_t longest(tokenizer_encoder *e, const char *text, size_t at, size_t length, size_t *end) {
    const wordpiece *w = &e->t->wordpiece;
    size_t prefix = at > 0 && w->prefix ? strlen(w->prefix) : 0;
    e->word.count = 0;
    buffer_add(&e->word, w->prefix, prefix);
    // a longer text than any token need not be tried
    size_t most = w->longest > prefix ? w->longest - prefix : 0;
    *end = length;
    if (length - at > most) {
        *end = at + most;
        while (*end > at && ((uint8_t)text[*end] & 0xc0) == 0x80) --*end;
    }
    buffer_add(&e->word, text + at, *end - at);
    while (*end > at && !e->word.failed) {
        uint32_t id = vocabulary_find(&e->t->vocabulary, e->word.at, prefix + *end - at);
        if (id != TOKENIZER_NO_ID) return id;
        *end = utf8_before(text, *end);
    }
    return TOKENIZER_NO_ID;
}

static braid_err encode_word(tokenizer_encoder *e, const char *text, size_t length, tokenizer_ids *ids) {
    size_t before = ids->count;
    for (size_t at = 0, end; at < length; at = end) {
        uint32_t id = longest(e, text, at, length, &end);
        if (e->word.failed) return text_no_memory(e->error);
        if (id == TOKENIZER_NO_ID) {
            ids->count = before;
            return unknown(e, ids);
        }
        if (!ids_add(ids, id)) return text_no_memory(e->error);
    }
    return BRAID_OK;
}

braid_err wordpiece_encode(tokenizer_encoder *e, const char *text, size_t length, tokenizer_ids *ids) {
    const wordpiece *w = &e->t->wordpiece;
    if (w->words_only) {
        uint32_t id = vocabulary_find(&e->t->vocabulary, text, length);
        if (id == TOKENIZER_NO_ID) return unknown(e, ids);
        return ids_add(ids, id) ? BRAID_OK : text_no_memory(e->error);
    }
    buffer word = {0};
    if (w->phantom) {
        // the beginning of a word is marked instead of its parts
        buffer_add(&word, "\xe2\x96\x81", 3);
        buffer_add(&word, text, length);
        braid_err err = word.failed ? text_no_memory(e->error) : encode_word(e, word.at, word.count, ids);
        buffer_free(&word);
        return err;
    }
    uint64_t chars = 0;
    for (size_t i = 0; i < length; i++) chars += ((uint8_t)text[i] & 0xc0) != 0x80;
    if (chars > w->most_chars) return unknown(e, ids);
    return encode_word(e, text, length, ids);
}
