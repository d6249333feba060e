// Added tokens: texts that are cut out of the input before the model sees it.
#include "text/inside.h"

static bool is_word_at(const char *text, size_t at) { return unicode_flags(utf8_next(text, &at)) & UNI_WORD; }

static size_t spaces_before(const char *text, size_t at) {
    while (at > 0) {
        size_t before = utf8_before(text, at), next = before;
        if (!(unicode_flags(utf8_next(text, &next)) & UNI_SPACE)) break;
        at = before;
    }
    return at;
}

static size_t spaces_after(const char *text, size_t at, size_t length) {
    for (size_t next = at; at < length && unicode_flags(utf8_next(text, &next)) & UNI_SPACE;) at = next;
    return at;
}

// The longest token at text[at]; its end, or 0.
static size_t longest(const trie *in, const char *text, size_t at, size_t length, uint32_t *index) {
    size_t end = 0;
    uint32_t node = 0;
    while (at < length && (node = trie_child(in, node, (uint8_t)text[at])) != 0) {
        at++;
        if (in->nodes[node].value == TOKENIZER_NO_ID) continue;
        *index = in->nodes[node].value;
        end = at;
    }
    return end;
}

// The next place where some token's first byte stands.
static size_t next_candidate(const trie *in, const char *text, size_t at, size_t length) {
    if (in->nodes[0].count == 1) {
        const char *found = memchr(text + at, in->nodes[in->nodes[0].children].label, length - at);
        return found ? (size_t)(found - text) : length;
    }
    while (at < length && !trie_child(in, 0, (uint8_t)text[at])) at++;
    return at;
}

bool added_next(const tokenizer *t, const trie *in, const char *text, size_t length, size_t *at, size_t taken,
                bool parse_special, added_match *match) {
    while (in->count && (*at = next_candidate(in, text, *at, length)) < length) {
        size_t start = *at, end = longest(in, text, start, length, &match->index);
        if (!end) {
            ++*at;
            continue;
        }
        *at = end;
        const added_token *token = &t->added[match->index];
        if (token->special && !parse_special) continue;
        if (token->single_word) {
            bool before = start > 0 && is_word_at(text, utf8_before(text, start));
            if (before || (end < length && is_word_at(text, end))) continue;
        }
        if (token->lstrip) {
            start = spaces_before(text, start);
            if (start < taken) start = taken;
        }
        if (token->rstrip) end = spaces_after(text, end, length);
        match->start = start;
        match->end = end;
        return true;
    }
    return false;
}

static added_token *find(const tokenizer *t, const char *text, size_t length) {
    for (uint32_t i = 0; i < t->added_count; i++)
        if (t->added[i].length == length && memcmp(t->added[i].text, text, length) == 0) return &t->added[i];
    return NULL;
}

braid_err added_add(tokenizer *t, const added_token *token, const char *text, size_t length, uint32_t *next_id,
                    braid_error *error) {
    if (length == 0) return BRAID_OK;
    if (length > TOKENIZER_MAX_TOKEN_BYTES) return braid_fail(error, BRAID_LIMIT, "an added token is too long");
    uint32_t id = vocabulary_find(&t->vocabulary, text, length);
    // in the vocabulary of a GGUF file and in most files each text is there; only new ones can be there twice
    added_token *same = id == TOKENIZER_NO_ID || !t->gguf ? find(t, text, length) : NULL;
    if (same) {
        bool was_special = same->special;
        char *kept = same->text;
        id = same->id;
        *same = *token;
        same->text = kept;
        same->special |= was_special;
        same->id = id;
        same->length = (uint32_t)length;
        return BRAID_OK;
    }
    if (t->added_count == TOKENIZER_MAX_ADDED) return braid_fail(error, BRAID_LIMIT, "there are too many added tokens");
    if ((t->added_count & (t->added_count - 1)) == 0) {
        uint32_t capacity = t->added_count ? t->added_count * 2 : 1;
        added_token *added = realloc(t->added, capacity * sizeof *added);
        if (!added) return text_no_memory(error);
        t->added = added;
    }
    if (id == TOKENIZER_NO_ID) id = (*next_id)++;
    if (id >= TOKENIZER_MAX_IDS) return braid_fail(error, BRAID_LIMIT, "an added token has too large an id");
    added_token *own = &t->added[t->added_count];
    *own = *token;
    own->text = malloc(length);
    if (!own->text) return text_no_memory(error);
    memcpy(own->text, text, length);
    own->id = id;
    own->length = (uint32_t)length;
    own->normalized_text = NULL;
    t->added_count++;
    return BRAID_OK;
}

static braid_err normalize_texts(tokenizer *t, braid_error *error) {
    tokenizer_encoder *e = tokenizer_encoder_new(t);
    braid_err err = e ? BRAID_OK : text_no_memory(error);
    for (uint32_t i = 0; i < t->added_count && !err; i++) {
        added_token *token = &t->added[i];
        const char *text = token->text;
        size_t length = token->length, zero = 0;
        if (!token->normalized) continue;
        e->error = error;
        err = normalize(e, &text, &length, &zero);
        if (err || (length == token->length && memcmp(text, token->text, length) == 0)) continue;
        token->normalized_text = malloc(length + 1);
        if (!token->normalized_text) {
            err = text_no_memory(error);
            continue;
        }
        if (length) memcpy(token->normalized_text, text, length);
        token->normalized_length = (uint32_t)length;
    }
    tokenizer_encoder_free(e);
    return err;
}

static braid_err build(tokenizer *t, bool normalized, trie *out, braid_error *error) {
    trie_key *keys = malloc((t->added_count + 1) * sizeof *keys);
    if (!keys) return text_no_memory(error);
    uint32_t n = 0;
    for (uint32_t i = 0; i < t->added_count; i++) {
        const added_token *token = &t->added[i];
        if (token->normalized != normalized) continue;
        keys[n++] = token->normalized_text ? (trie_key){token->normalized_text, token->normalized_length, i}
                                           : (trie_key){token->text, token->length, i};
    }
    braid_err err = n ? trie_build(out, keys, n, true, error) : BRAID_OK;
    free(keys);
    return err;
}

braid_err added_finish(tokenizer *t, braid_error *error) {
    t->size = t->vocabulary.end;
    for (uint32_t i = 0; i < t->added_count; i++)
        if (t->added[i].id >= t->size) t->size = t->added[i].id + 1;
    t->added_by_id = malloc((t->size + 1) * sizeof *t->added_by_id);
    if (!t->added_by_id) return text_no_memory(error);
    memset(t->added_by_id, 0xff, (t->size + 1) * sizeof *t->added_by_id);
    for (uint32_t i = 0; i < t->added_count; i++) t->added_by_id[t->added[i].id] = i;
    braid_err err = t->normals ? normalize_texts(t, error) : BRAID_OK;
    if (!err) err = build(t, false, &t->raw_trie, error);
    return err ? err : build(t, true, &t->normal_trie, error);
}
