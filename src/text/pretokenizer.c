// Pre-tokenizers: a text becomes pieces, of which the model sees each alone.
#include "text/inside.h"

// The pieces of one text, made by matches and the gaps between them in order, as `behavior` says.
typedef struct splitter {
    tokenizer_encoder *e;
    pieces *out;
    behavior behavior;
    bool invert, any, previous;
    piece held;  // the last piece, which the next match may still join
    uint32_t origin;
    bool first;  // the text begins where the whole text does
} splitter;

static bool pieces_add(pieces *p, piece item) {
    if (item.length == 0) return true;
    if (p->count == p->capacity) {
        size_t capacity = p->capacity ? p->capacity * 2 : 256;
        piece *at = realloc(p->at, capacity * sizeof *at);
        if (!at) return p->failed = true, false;
        p->at = at;
        p->capacity = capacity;
    }
    p->at[p->count++] = item;
    return true;
}

static void release(splitter *s) {
    if (s->any) pieces_add(s->out, s->held);
    s->any = false;
}

static void split_event(splitter *s, size_t start, size_t end, bool match) {
    piece item = {s->origin + (uint32_t)start, (uint32_t)(end - start), s->first && start == 0};
    match = match != s->invert;
    bool join = false;
    switch (s->behavior) {
    case SPLIT_REMOVED:
        if (!match) pieces_add(s->out, item);
        return;
    case SPLIT_ISOLATED: pieces_add(s->out, item); return;
    case SPLIT_CONTIGUOUS: join = match == s->previous; break;
    case SPLIT_WITH_PREVIOUS: join = match && !s->previous; break;
    case SPLIT_WITH_NEXT: join = !match && s->previous; break;
    }
    if (join && s->any) {
        s->held.length += item.length;
    } else {
        release(s);
        s->held = item;
        s->any = true;
    }
    s->previous = match;
}

static splitter split_begin(tokenizer_encoder *e, pieces *out, piece of, behavior how, bool invert) {
    return (splitter){.e = e, .out = out, .behavior = how, .invert = invert, .origin = of.start, .first = of.first};
}

static void split_flags(splitter *s, const char *text, size_t length, unsigned flag) {
    size_t gap = 0;
    for (size_t at = 0, next = 0; at < length; at = next) {
        if (!(unicode_flags(utf8_next(text, &next)) & flag)) continue;
        if (gap < at) split_event(s, gap, at, false);
        split_event(s, at, next, true);
        gap = next;
    }
    if (gap < length) split_event(s, gap, length, false);
    release(s);
}

static void split_literal(splitter *s, const char *text, size_t length, const char *what, size_t width) {
    size_t gap = 0;
    const char *found;
    while (gap < length && (found = memmem(text + gap, length - gap, what, width)) != NULL) {
        size_t at = (size_t)(found - text);
        if (gap < at) split_event(s, gap, at, false);
        split_event(s, at, at + width, true);
        gap = at + width;
    }
    if (gap < length) split_event(s, gap, length, false);
    release(s);
}

static braid_err split_pattern(splitter *s, const char *text, size_t length, const pattern *p) {
    regex_place place = {0};
    size_t start, end, gap = 0;
    braid_err err = BRAID_OK;
    while (pattern_next(p, text, length, &place, &start, &end, s->e->scratch, s->e->error, &err)) {
        if (gap != start) split_event(s, gap, start, false);
        split_event(s, start, end, true);
        gap = end;
    }
    if (gap != length) split_event(s, gap, length, false);
    release(s);
    return err;
}

static void split_scan(splitter *s, const char *text, size_t length, scan_kind kind) {
    for (size_t at = 0, next; at < length; at = next) {
        next = scan_piece(kind, text, at, length);
        split_event(s, at, next, true);
    }
    release(s);
}

// \w+|[^\w\s]+
static void split_words(pieces *out, const char *text, piece of) {
    size_t start = 0, next = 0;
    unsigned kind = 0;  // of the run: word, space or other
    for (size_t at = 0; at <= of.length; at = next) {
        unsigned now = 3;
        if (at < of.length) {
            unsigned flags = unicode_flags(utf8_next(text, &next));
            now = flags & UNI_WORD ? 1 : flags & UNI_SPACE ? 0 : 2;
        } else {
            next = at + 1;
        }
        if (now == kind) continue;
        if (kind != 0)
            pieces_add(out, (piece){of.start + (uint32_t)start, (uint32_t)(at - start), of.first && start == 0});
        start = at;
        kind = now;
    }
}

static void split_lengths(pieces *out, const char *text, piece of, uint32_t chars) {
    size_t start = 0;
    uint32_t count = 0;
    for (size_t at = 0; at < of.length;) {
        at += utf8_width(text[at]);
        if (++count < chars && at < of.length) continue;
        pieces_add(out, (piece){of.start + (uint32_t)start, (uint32_t)(at - start), of.first && start == 0});
        start = at;
        count = 0;
    }
}

static braid_err split_piece(tokenizer_encoder *e, const pre_step *step, const char *text, piece of, pieces *out) {
    splitter s = split_begin(e, out, of, step->behavior, step->invert);
    text += of.start;
    switch (step->kind) {
    case PRE_SPLIT:
        if (!step->scan) return split_pattern(&s, text, of.length, &step->pattern);
        split_scan(&s, text, of.length, step->scan);
        break;
    case PRE_BYTE_LEVEL:
        s.behavior = SPLIT_ISOLATED;
        split_scan(&s, text, of.length, SCAN_GPT2);
        break;
    case PRE_DIGITS:
        s.behavior = step->individual ? SPLIT_ISOLATED : SPLIT_CONTIGUOUS;
        split_flags(&s, text, of.length, UNI_NUMERIC);
        break;
    case PRE_WHITESPACE_SPLIT:
        s.behavior = SPLIT_REMOVED;
        split_flags(&s, text, of.length, UNI_SPACE);
        break;
    case PRE_PUNCTUATION: split_flags(&s, text, of.length, UNI_PUNCTUATION); break;
    case PRE_DELIMITER:
        s.behavior = SPLIT_REMOVED;
        split_literal(&s, text, of.length, step->replacement, strlen(step->replacement));
        break;
    case PRE_METASPACE:
        s.behavior = SPLIT_WITH_NEXT;
        split_literal(&s, text, of.length, step->replacement, strlen(step->replacement));
        break;
    case PRE_WHITESPACE: split_words(out, text, of); break;
    case PRE_FIXED_LENGTH: split_lengths(out, text, of, step->length); break;
    case PRE_BERT: break;  // it is two steps
    }
    return BRAID_OK;
}

// Where the pieces and their text are: list[turn], and `text`.
typedef struct cutting {
    const char *text;
    unsigned turn, text_turn;
} cutting;

static braid_err split_all(tokenizer_encoder *e, const pre_step *step, cutting *c) {
    pieces *from = &e->list[c->turn], *to = &e->list[1 - c->turn];
    to->count = 0;
    braid_err err = BRAID_OK;
    for (size_t i = 0; i < from->count && !err; i++) err = split_piece(e, step, c->text, from->at[i], to);
    c->turn = 1 - c->turn;
    return err ? err : to->failed ? text_no_memory(e->error) : BRAID_OK;
}

static void put_metaspace(buffer *out, const pre_step *step, const char *text, piece of) {
    size_t width = strlen(step->replacement);
    bool there = of.length > 0 && text[0] == ' ';
    there |= of.length >= width && memcmp(text, step->replacement, width) == 0;
    bool wanted = step->scheme == PREPEND_ALWAYS || (step->scheme == PREPEND_FIRST && of.first);
    if (wanted && !there) buffer_add(out, step->replacement, width);
    for (size_t i = 0, gap = 0; i <= of.length; i++) {
        if (i < of.length && text[i] != ' ') continue;
        buffer_add(out, text + gap, i - gap);
        if (i < of.length) buffer_add(out, step->replacement, width);
        gap = i + 1;
    }
}

// Writes all pieces anew, changed.
static braid_err rewrite(tokenizer_encoder *e, const pre_step *step, cutting *c, bool bytes) {
    pieces *p = &e->list[c->turn];
    buffer *out = &e->text[c->text_turn];
    out->count = 0;
    for (size_t i = 0; i < p->count; i++) {
        const char *text = c->text + p->at[i].start;
        size_t start = out->count;
        if (bytes)
            for (uint32_t k = 0; k < p->at[i].length; k++) buffer_char(out, byte_char((uint8_t)text[k]));
        else if (step->kind == PRE_METASPACE)
            put_metaspace(out, step, text, p->at[i]);
        else {
            if (text[0] != ' ') buffer_byte(out, ' ');
            buffer_add(out, text, p->at[i].length);
        }
        if (out->failed || out->count > UINT32_MAX) return text_no_memory(e->error);
        p->at[i].start = (uint32_t)start;
        p->at[i].length = (uint32_t)(out->count - start);
    }
    c->text = out->at;
    c->text_turn = 1 - c->text_turn;
    return BRAID_OK;
}

static braid_err apply(tokenizer_encoder *e, const pre_step *step, cutting *c) {
    braid_err err = BRAID_OK;
    if (step->kind == PRE_METASPACE) {
        err = rewrite(e, step, c, false);
        return err || !step->split ? err : split_all(e, step, c);
    }
    if (step->kind == PRE_BERT) {
        err = split_all(e, &(pre_step){.kind = PRE_WHITESPACE_SPLIT}, c);
        return err ? err : split_all(e, &(pre_step){.kind = PRE_PUNCTUATION, .behavior = SPLIT_ISOLATED}, c);
    }
    if (step->kind != PRE_BYTE_LEVEL) return split_all(e, step, c);
    if (step->prefix_space) err = rewrite(e, step, c, false);
    if (!err && step->use_regex) err = split_all(e, step, c);
    if (!err && step->map_bytes) err = rewrite(e, step, c, true);
    return err;
}

braid_err pretokenize_encode(tokenizer_encoder *e, const char *text, size_t length, size_t zero, tokenizer_ids *ids) {
    const tokenizer *t = e->t;
    braid_err err = BRAID_OK;
    if (length == 0) return BRAID_OK;
    if (t->fast) {
        for (size_t at = 0, next; at < length && !err; at = next) {
            next = scan_piece(t->fast, text, at, length);
            err = bpe_encode(e, text + at, next - at, ids);
        }
        return err;
    }
    cutting c = {.text = text};
    e->list[0].count = 0;
    if (!pieces_add(&e->list[0], (piece){0, (uint32_t)length, zero > 0})) return text_no_memory(e->error);
    for (uint32_t i = 0; i < t->pres && !err; i++) err = apply(e, &t->pre[i], &c);
    const pieces *p = &e->list[c.turn];
    for (size_t i = 0; i < p->count && !err; i++) err = model_encode(e, c.text + p->at[i].start, p->at[i].length, ids);
    return err;
}
