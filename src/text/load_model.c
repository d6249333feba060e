// The model of a tokenizer.json.
#include "text/inside.h"
#include "text/json_scan.h"

#include <stdio.h>

// The members of the object "model"; length 0: absent.
typedef struct members {
    json_span type, vocab, merges, dropout, unk_token, unk_id, prefix, suffix, fuse, fallback, ignore, most_chars;
} members;

static braid_err malformed(const char *what, braid_error *error) {
    return braid_fail(error, BRAID_FORMAT, "tokenizer.json: %s is malformed", what);
}

static bool is(json_span s, const char *text) { return s.length == strlen(text) && memcmp(s.at, text, s.length) == 0; }
static bool given(json_span s) { return s.length > 0 && !is(s, "null"); }

static bool find_members(const char *text, size_t length, members *m) {
    const struct {
        const char *name;
        json_span *span;
    } known[] = {{"type", &m->type},
                 {"vocab", &m->vocab},
                 {"merges", &m->merges},
                 {"dropout", &m->dropout},
                 {"unk_token", &m->unk_token},
                 {"unk_id", &m->unk_id},
                 {"fuse_unk", &m->fuse},
                 {"continuing_subword_prefix", &m->prefix},
                 {"byte_fallback", &m->fallback},
                 {"end_of_word_suffix", &m->suffix},
                 {"ignore_merges", &m->ignore},
                 {"max_input_chars_per_word", &m->most_chars}};
    json_scan s = {text, text + length};
    bool first = true, fine = json_scan_take(&s, '{');
    while (fine && json_scan_more(&s, '}', &first, &fine)) {
        json_span key, value;
        if (!json_scan_value(&s, &key) || key.length < 2 || !json_scan_take(&s, ':') || !json_scan_value(&s, &value))
            return false;
        for (size_t i = 0; i < sizeof known / sizeof *known; i++)
            if (key.length == strlen(known[i].name) + 2 && memcmp(key.at + 1, known[i].name, key.length - 2) == 0)
                *known[i].span = value;
    }
    return fine;
}

static braid_err read_flag(json_span s, const char *name, bool *out, braid_error *error) {
    *out = is(s, "true");
    return *out || !given(s) || is(s, "false") ? BRAID_OK : malformed(name, error);
}

// NULL where it is null or absent.
static braid_err read_text(json_span span, const char *name, char **out, braid_error *error) {
    json_scan s = json_scan_of(span);
    buffer b = {0};
    const char *text;
    size_t length;
    *out = NULL;
    if (!given(span)) return BRAID_OK;
    bool fine = json_scan_string(&s, &b, &text, &length) && !memchr(text, 0, length);
    if (fine && (*out = malloc(length + 1)) != NULL) {
        memcpy(*out, text, length);
        (*out)[length] = 0;
    }
    buffer_free(&b);
    return !fine ? malformed(name, error) : *out ? BRAID_OK : text_no_memory(error);
}

// {"text": id, ...}
static braid_err read_vocabulary(json_span span, vocabulary *v, braid_error *error) {
    json_scan s = json_scan_of(span);
    buffer b = {0};
    bool first = true, fine = span.length > 0 && json_scan_take(&s, '{');
    // a member has some twenty bytes
    braid_err err = vocabulary_reserve(v, span.length / 20) ? BRAID_OK : text_no_memory(error);
    while (fine && !err && json_scan_more(&s, '}', &first, &fine)) {
        const char *text;
        size_t length;
        uint32_t id;
        fine = json_scan_string(&s, &b, &text, &length) && json_scan_take(&s, ':') && json_scan_u32(&s, &id);
        if (fine) err = vocabulary_add(v, text, length, id, error);
    }
    buffer_free(&b);
    if (!err && !fine) err = malformed("model.vocab", error);
    return err ? err : vocabulary_index(v, error);
}

// "left right" or ["left", "right"]; *left: in b[0] or the file
static bool read_merge(json_scan *s, bool pairs, buffer b[2], tokenizer_text *left, tokenizer_text *right) {
    if (pairs)
        return json_scan_take(s, '[') && json_scan_string(s, &b[0], &left->at, &left->length) &&
               json_scan_take(s, ',') && json_scan_string(s, &b[1], &right->at, &right->length) &&
               json_scan_take(s, ']');
    if (!json_scan_string(s, &b[0], &left->at, &left->length)) return false;
    const char *space = memchr(left->at, ' ', left->length);
    if (left->length >= 8 && memcmp(left->at, "#version", 8) == 0) return left->length = 0, true;
    if (!space) return false;
    right->at = space + 1;
    right->length = left->length - (size_t)(space + 1 - left->at);
    left->length = (size_t)(space - left->at);
    return !memchr(right->at, ' ', right->length);
}

static braid_err read_merges(json_span span, tokenizer *t, braid_error *error) {
    json_scan s = json_scan_of(span);
    buffer b[2] = {{0}, {0}};
    size_t count = 0;
    bool first = true, fine = span.length > 0 && json_scan_take(&s, '[');
    bool pairs = fine && json_scan_peek(&s) == '[';
    // a merge has at least four bytes of text: "a b" or [..], and a comma
    for (const char *c = span.at; fine && c < span.at + span.length; c++) count += *c == ',';
    braid_err err = bpe_reserve(&t->bpe, (pairs ? count / 2 : count) + 2, error);
    while (fine && !err && json_scan_more(&s, ']', &first, &fine)) {
        tokenizer_text left = {0}, right = {0};
        fine = read_merge(&s, pairs, b, &left, &right);
        if (fine && (left.length > 0 || pairs)) err = bpe_add(&t->bpe, &t->vocabulary, left, right, error);
    }
    buffer_free(&b[0]);
    buffer_free(&b[1]);
    return err || fine ? err : malformed("model.merges", error);
}

static braid_err named_unknown(tokenizer *t, json_span span, uint32_t *id, braid_error *error) {
    char *name;
    braid_err err = read_text(span, "model.unk_token", &name, error);
    *id = !err && name ? vocabulary_find(&t->vocabulary, name, strlen(name)) : TOKENIZER_NO_ID;
    if (!err && name && *id == TOKENIZER_NO_ID && t->kind == MODEL_BPE)
        err = braid_fail(error, BRAID_FORMAT, "tokenizer.json: the vocabulary lacks model.unk_token '%.64s'", name);
    free(name);
    return err;
}

static braid_err load_bpe(tokenizer *t, const members *m, braid_error *error) {
    bpe *b = &t->bpe;
    double dropout = 0;
    t->kind = MODEL_BPE;
    json_scan s = json_scan_of(m->dropout);
    if (given(m->dropout) && (!json_scan_double(&s, &dropout) || dropout != 0))
        return braid_fail(error, BRAID_CONFIG, "tokenizer.json: model.dropout is not supported; set it to null");
    braid_err err = read_flag(m->fuse, "model.fuse_unk", &b->fuse_unknown, error);
    if (!err) err = read_flag(m->fallback, "model.byte_fallback", &b->byte_fallback, error);
    if (!err) err = read_flag(m->ignore, "model.ignore_merges", &b->ignore_merges, error);
    if (!err) err = read_text(m->prefix, "model.continuing_subword_prefix", &b->prefix, error);
    if (!err) err = read_text(m->suffix, "model.end_of_word_suffix", &b->suffix, error);
    if (!err) err = read_vocabulary(m->vocab, &t->vocabulary, error);
    if (!err) err = named_unknown(t, m->unk_token, &b->unknown, error);
    if (!err) err = read_merges(m->merges, t, error);
    if (!err) bpe_finish(b, &t->vocabulary);
    return err;
}

static braid_err load_wordpiece(tokenizer *t, const members *m, bool words_only, braid_error *error) {
    wordpiece *w = &t->wordpiece;
    uint32_t most = 100;
    t->kind = MODEL_WORDPIECE;
    w->words_only = words_only;
    json_scan s = json_scan_of(m->most_chars);
    if (!words_only && (!given(m->most_chars) || !json_scan_u32(&s, &most)))
        return malformed("model.max_input_chars_per_word", error);
    w->most_chars = most;
    braid_err err = words_only ? BRAID_OK : read_text(m->prefix, "model.continuing_subword_prefix", &w->prefix, error);
    if (!err) err = read_vocabulary(m->vocab, &t->vocabulary, error);
    for (uint32_t i = 0; i < t->vocabulary.count; i++)
        if (t->vocabulary.entries[i].length > w->longest) w->longest = t->vocabulary.entries[i].length;
    return err ? err : named_unknown(t, m->unk_token, &w->unknown, error);
}

// [["text", score], ...]
static braid_err read_pieces(json_span span, tokenizer *t, braid_error *error) {
    json_scan s = json_scan_of(span);
    buffer b = {0}, scores = {0};
    bool first = true, fine = span.length > 0 && json_scan_take(&s, '[');
    braid_err err = BRAID_OK;
    uint32_t id = 0;
    while (fine && !err && json_scan_more(&s, ']', &first, &fine)) {
        const char *text;
        size_t length;
        double score;
        fine = json_scan_take(&s, '[') && json_scan_string(&s, &b, &text, &length) && json_scan_take(&s, ',') &&
               json_scan_decimal(&s, &score) && json_scan_take(&s, ']');
        if (!fine) break;
        err = vocabulary_add(&t->vocabulary, text, length, id++, error);
        buffer_add(&scores, &score, sizeof score);
    }
    buffer_free(&b);
    t->unigram.scores = (double *)(void *)scores.at;
    if (!err && !fine) err = malformed("model.vocab", error);
    if (!err && scores.failed) err = text_no_memory(error);
    if (!err && id != t->vocabulary.count)
        err = braid_fail(error, BRAID_FORMAT, "tokenizer.json: a Unigram token appears twice in the vocabulary");
    return err ? err : vocabulary_index(&t->vocabulary, error);
}

static braid_err build_unigram_trie(tokenizer *t, braid_error *error) {
    const vocabulary *v = &t->vocabulary;
    unigram *u = &t->unigram;
    trie_key *keys = malloc((v->count + 1) * sizeof *keys);
    if (!keys) return text_no_memory(error);
    double least = 0;
    for (uint32_t i = 0; i < v->count; i++) {
        keys[i] =
            (trie_key){v->text.at ? v->text.at + v->entries[i].start : "", v->entries[i].length, v->entries[i].id};
        if (i == 0 || u->scores[i] < least) least = u->scores[i];
    }
    u->unknown_score = least - 10;
    braid_err err = trie_build(&u->trie, keys, v->count, false, error);
    free(keys);
    return err;
}

static braid_err load_unigram(tokenizer *t, const members *m, braid_error *error) {
    unigram *u = &t->unigram;
    t->kind = MODEL_UNIGRAM;
    u->unknown = TOKENIZER_NO_ID;
    braid_err err = read_flag(m->fallback, "model.byte_fallback", &u->byte_fallback, error);
    if (!err) err = read_pieces(m->vocab, t, error);
    json_scan s = json_scan_of(m->unk_id);
    if (!err && given(m->unk_id) && (!json_scan_u32(&s, &u->unknown) || u->unknown >= t->vocabulary.count))
        return malformed("model.unk_id", error);
    for (unsigned i = 0; i < 256; i++) {
        char name[8];
        snprintf(name, sizeof name, "<0x%02X>", i);
        u->fallback_ids[i] = vocabulary_find(&t->vocabulary, name, 6);
    }
    return err ? err : build_unigram_trie(t, error);
}

braid_err load_model(tokenizer *t, const char *text, size_t length, braid_error *error) {
    members m;
    memset(&m, 0, sizeof m);
    if (!find_members(text, length, &m)) return malformed("model", error);
    if (is(m.type, "\"BPE\"")) return load_bpe(t, &m, error);
    if (is(m.type, "\"WordPiece\"")) return load_wordpiece(t, &m, false, error);
    if (is(m.type, "\"WordLevel\"")) return load_wordpiece(t, &m, true, error);
    if (is(m.type, "\"Unigram\"")) return load_unigram(t, &m, error);
    // files of before 2021 do not name it
    if (!given(m.type) && given(m.merges)) return load_bpe(t, &m, error);
    if (!given(m.type) && given(m.most_chars)) return load_wordpiece(t, &m, false, error);
    return braid_fail(error, BRAID_CONFIG, "tokenizer.json: model type %.*s is not supported",
                      (int)(m.type.length < 40 ? m.type.length : 40), m.type.length ? m.type.at : "");
}
