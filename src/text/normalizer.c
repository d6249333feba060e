// Normalizers: the text that the model sees instead of the one that was given.
#include "text/inside.h"

#include "text/unicode_category.h"

#include <utf8proc.h>

// Each character becomes none, one or several; `kept` counts the bytes made of the first `zero` bytes.
typedef struct rewriting {
    const char *text;
    size_t length, zero, kept;
    buffer *out;
} rewriting;

static void keep_zero(rewriting *r, size_t next) {
    if (next <= r->zero) r->kept = r->out->count;
}

// The Unicode 9 tables of tokenizers lack these: they neither decompose nor change places there.
static bool is_new(uint32_t c) {
    static const uint32_t news[][2] = {
        {0x7fd, 0x7fd},     {0x898, 0x89f},     {0x8ca, 0x8d3},     {0x9fe, 0x9fe},     {0xc3c, 0xc3c},
        {0xd3b, 0xd3c},     {0xeba, 0xeba},     {0x1715, 0x1715},   {0x1abf, 0x1ace},   {0x1df6, 0x1dfa},
        {0x32ff, 0x32ff},   {0xa7f2, 0xa7f4},   {0xa82c, 0xa82c},   {0xab69, 0xab69},   {0x10781, 0x107ba},
        {0x10d24, 0x10d27}, {0x10eab, 0x10eac}, {0x10efd, 0x10eff}, {0x10f46, 0x10f50}, {0x10f82, 0x10f85},
        {0x11070, 0x11070}, {0x1133b, 0x1133b}, {0x1145e, 0x1145e}, {0x11839, 0x1183a}, {0x11938, 0x11943},
        {0x119e0, 0x119e0}, {0x11a34, 0x11a34}, {0x11a47, 0x11a47}, {0x11a99, 0x11a99}, {0x11d42, 0x11d45},
        {0x11d97, 0x11d97}, {0x11f41, 0x11f42}, {0x16ff0, 0x16ff1}, {0x1e030, 0x1e08f}, {0x1e130, 0x1e136},
        {0x1e2ae, 0x1e2ae}, {0x1e2ec, 0x1e2ef}, {0x1e4ec, 0x1e4ef}, {0x1f16c, 0x1f16c}, {0x1fbf0, 0x1fbf9}};
    size_t low = 0, high = sizeof news / sizeof *news;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (c > news[middle][1])
            low = middle + 1;
        else
            high = middle;
    }
    return low < sizeof news / sizeof *news && c >= news[low][0];
}

static braid_err compose_run(buffer *out, const char *text, size_t length, int options, braid_error *error) {
    uint8_t *made = NULL;
    if (length == 0) return BRAID_OK;
    utf8proc_ssize_t n = utf8proc_map((const uint8_t *)text, (utf8proc_ssize_t)length, &made,
                                      (utf8proc_option_t)(options | UTF8PROC_STABLE));
    if (n >= 0) buffer_add(out, made, (size_t)n);
    free(made);
    return n >= 0 ? BRAID_OK : braid_fail(error, BRAID_MEMORY, "a text cannot be normalized: %s", utf8proc_errmsg(n));
}

// Without the characters that the older tables lack.
static braid_err compose_part(buffer *out, const char *text, size_t length, int options, braid_error *error) {
    braid_err err = BRAID_OK;
    size_t from = 0;
    for (size_t at = 0, next = 0; at < length && !err; at = next) {
        uint32_t c = utf8_next(text, &next);
        if (c < 0x7fd || !is_new(c)) continue;
        err = compose_run(out, text + from, at - from, options, error);
        buffer_add(out, text + at, next - at);
        from = next;
    }
    return err ? err : compose_run(out, text + from, length - from, options, error);
}

// Only runs of characters from `least` on (the first byte) can change, with the character before each run.
static braid_err compose(rewriting *r, int options, uint8_t least, braid_error *error) {
    braid_err err = BRAID_OK;
    for (size_t at = 0, start, end; at < r->length && !err; at = end) {
        for (end = at; end < r->length && (uint8_t)r->text[end] < least;) end += utf8_width(r->text[end]);
        start = end > at && end < r->length ? utf8_before(r->text, end) : end;
        buffer_add(r->out, r->text + at, start - at);
        while (end < r->length && (uint8_t)r->text[end] >= least) end += utf8_width(r->text[end]);
        err = compose_part(r->out, r->text + start, end - start, options, error);
    }
    if (r->zero > 0 && r->out->count > 0) r->kept = utf8_width(r->out->at[0]);
    return err;
}

// Characters below U+0300 are composed already; below U+0080, nothing changes in any form.
static bool is_plain(const char *text, size_t length, bool composing) {
    for (size_t i = 0; i < length; i++)
        if ((uint8_t)text[i] >= (composing ? 0xcc : 0x80)) return false;
    return true;
}

// Lower-case letters of Unicode 16 and 17, which utf8proc lacks; 0: none.
static uint32_t newer_lower(uint32_t c) {
    if (c == 0x1c89 || c == 0xa7cc || c == 0xa7ce || c == 0xa7d2 || c == 0xa7d4 || c == 0xa7da) return c + 1;
    if (c == 0xa7cb) return 0x264;
    if (c == 0xa7dc) return 0x19b;
    if (c >= 0x10d50 && c <= 0x10d65) return c + 0x20;
    return c >= 0x16ea0 && c <= 0x16eb8 ? c + 0x1b : 0;
}

static void put_lower(buffer *out, uint32_t c) {
    if (c == 0x130) return buffer_add(out, "i\xcc\x87", 3);
    if (c >= 0x1c89 && newer_lower(c)) return buffer_char(out, newer_lower(c));
    buffer_char(out, c < 0x80 ? c >= 'A' && c <= 'Z' ? c + 32 : c : (uint32_t)utf8proc_tolower((utf8proc_int32_t)c));
}

static bool is_chinese(uint32_t c) {
    return (c >= 0x4e00 && c <= 0x9fff) || (c >= 0x3400 && c <= 0x4dbf) || (c >= 0x20000 && c <= 0x2a6df) ||
           (c >= 0x2a700 && c <= 0x2b73f) || (c >= 0x2b740 && c <= 0x2b81f) || (c >= 0x2b920 && c <= 0x2ceaf) ||
           (c >= 0xf900 && c <= 0xfaff) || (c >= 0x2f800 && c <= 0x2fa1f);
}

static void put_nmt(buffer *out, uint32_t c) {
    if ((c >= 1 && c <= 8) || c == 0xb || (c >= 0xe && c <= 0x1f) || c == 0x7f || c == 0x8f || c == 0x9f) return;
    bool space = c == 9 || c == 0xa || c == 0xc || c == 0xd || c == 0x1680 || (c >= 0x200b && c <= 0x200f) ||
                 c == 0x2028 || c == 0x2029 || c == 0x2581 || c == 0xfeff || c == 0xfffd;
    buffer_char(out, space ? ' ' : c);
}

static void put_bert(buffer *out, const normal_step *step, uint32_t c) {
    if (step->clean) {
        unsigned flags = unicode_flags(c);
        if (c == 0 || c == 0xfffd || flags & UNI_OTHER) return;
        if (flags & UNI_SPACE) c = ' ';
    }
    bool alone = step->chinese && is_chinese(c);
    if (alone) buffer_byte(out, ' ');
    buffer_char(out, c);
    if (alone) buffer_byte(out, ' ');
}

// llama.cpp's preprocessing of WordPiece: words apart, punctuation and CJK characters alone.
static void put_wpm(buffer *out, const normal_step *step, uint32_t c) {
    unsigned flags = unicode_flags(c), category = flags & UNI_CATEGORY;
    if (flags & UNI_SPACE) return buffer_byte(out, ' ');
    if (c == 0 || c == 0xfffd || (category >= UNICODE_CC && category <= UNICODE_CS)) return;
    if (step->accents && flags & UNI_MARK) return;
    bool symbol = c < 0x7f && category >= UNICODE_SC && category <= UNICODE_SO;
    bool punctuation = category >= UNICODE_PC && category <= UNICODE_PS;
    bool alone = punctuation || symbol || is_chinese(c);
    if (alone) buffer_byte(out, ' ');
    if (step->lowercase)
        buffer_char(out, (uint32_t)utf8proc_tolower((utf8proc_int32_t)c));
    else
        buffer_char(out, c);
    if (alone) buffer_byte(out, ' ');
}

static void put_character(rewriting *r, const normal_step *step, uint32_t c, size_t from, size_t next) {
    switch (step->kind) {
    case NORMAL_LOWERCASE: put_lower(r->out, c); break;
    case NORMAL_STRIP_ACCENTS:
        if (!(unicode_flags(c) & UNI_COMBINING)) buffer_char(r->out, c);
        break;
    case NORMAL_NMT: put_nmt(r->out, c); break;
    case NORMAL_BERT: put_bert(r->out, step, c); break;
    case NORMAL_WPM: put_wpm(r->out, step, c); break;
    default:
        for (size_t i = from; i < next; i++) buffer_char(r->out, byte_char((uint8_t)r->text[i]));
    }
    keep_zero(r, next);
}

static void strip(rewriting *r, bool left, bool right) {
    size_t start = 0, end = r->length, next = 0;
    while (left && start < end && unicode_flags(utf8_next(r->text, &next)) & UNI_SPACE) start = next;
    while (right && end > start) {
        size_t before = utf8_before(r->text, end), at = before;
        if (!(unicode_flags(utf8_next(r->text, &at)) & UNI_SPACE)) break;
        end = before;
    }
    buffer_add(r->out, r->text + start, end - start);
    r->kept = start < r->zero ? r->zero - start : 0;
}

// The text that the map has for the beginning of `part`; NULL: none. The first match counts, as in the crate spm_precompiled.
static const char *charsmap_find(const charsmap *m, const char *part, size_t length) {
    uint32_t at = 0;
    uint32_t unit = m->units[0];
    at ^= (unit >> 10) << ((unit & (1 << 9)) >> 6);
    for (size_t i = 0; i < length && part[i]; i++) {
        at ^= (uint8_t)part[i];
        if (at >= m->count) return NULL;
        unit = m->units[at];
        if ((unit & (1u << 31 | 0xff)) != (uint8_t)part[i]) return NULL;
        at ^= (unit >> 10) << ((unit & (1 << 9)) >> 6);
        if (!(unit >> 8 & 1)) continue;
        uint32_t value = at < m->count ? m->units[at] & 0x7fffffff : UINT32_MAX;
        return value < m->length ? m->texts + value : NULL;
    }
    return NULL;
}

static void put_grapheme(rewriting *r, const charsmap *m, size_t from, size_t to) {
    const char *made = to - from < 6 ? charsmap_find(m, r->text + from, to - from) : NULL;
    if (made) {
        buffer_add(r->out, made, strlen(made));
    } else {
        for (size_t at = from, next; at < to; at = next) {
            next = at + utf8_width(r->text[at]);
            made = charsmap_find(m, r->text + at, next - at);
            if (made)
                buffer_add(r->out, made, strlen(made));
            else
                buffer_add(r->out, r->text + at, next - at);
        }
    }
    keep_zero(r, to);
}

static void precompiled(rewriting *r, const charsmap *m) {
    utf8proc_int32_t state = 0;
    size_t from = 0, at = 0, next = 0;
    uint32_t before = 0;
    for (; at < r->length; at = next) {
        uint32_t c = utf8_next(r->text, &next);
        if (at > 0 && utf8proc_grapheme_break_stateful((utf8proc_int32_t)before, (utf8proc_int32_t)c, &state)) {
            put_grapheme(r, m, from, at);
            from = at;
        }
        before = c;
    }
    if (r->length) put_grapheme(r, m, from, r->length);
}

static braid_err each_character(rewriting *r, const normal_step *step) {
    for (size_t at = 0, next = 0; at < r->length; at = next) {
        uint32_t c = utf8_next(r->text, &next);
        put_character(r, step, c, at, next);
    }
    return BRAID_OK;
}

static const struct {
    int options;
    bool composing;
} forms[] = {[NORMAL_NFC] = {UTF8PROC_COMPOSE, true},
             [NORMAL_NFD] = {UTF8PROC_DECOMPOSE, false},
             [NORMAL_NFKC] = {UTF8PROC_COMPOSE | UTF8PROC_COMPAT, false},
             [NORMAL_NFKD] = {UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT, false}};

static bool leaves_alone(const normal_step *step, const char *text, size_t length) {
    if (step->kind <= NORMAL_NFKD) return is_plain(text, length, forms[step->kind].composing);
    if (step->kind == NORMAL_STRIP_ACCENTS || step->kind == NORMAL_PRECOMPILED)
        return step->kind == NORMAL_STRIP_ACCENTS && is_plain(text, length, true);
    return step->kind == NORMAL_PREPEND && length == 0;
}

static braid_err one_step(tokenizer_encoder *e, const normal_step *step, rewriting *r) {
    braid_err err = BRAID_OK;
    switch (step->kind) {
    case NORMAL_NFC:
    case NORMAL_NFD:
    case NORMAL_NFKC:
    case NORMAL_NFKD: return compose(r, forms[step->kind].options, forms[step->kind].composing ? 0xcc : 0x80, e->error);
    case NORMAL_STRIP: strip(r, step->left, step->right); return BRAID_OK;
    case NORMAL_REPLACE:
        if (!pattern_replace(&step->pattern, r->text, r->length, step->content, step->content_length, r->out,
                             e->scratch, e->error, &err))
            buffer_add(r->out, r->text, r->length);
        r->kept = r->zero && r->out->count ? utf8_width(r->out->at[0]) : 0;
        return err;
    case NORMAL_PREPEND:
        buffer_add(r->out, step->content, step->content_length);
        buffer_add(r->out, r->text, r->length);
        r->kept = r->zero ? step->content_length + r->zero : 0;
        return BRAID_OK;
    case NORMAL_PRECOMPILED: precompiled(r, &step->map); return BRAID_OK;
    default: return each_character(r, step);
    }
}

// BertNormalizer is up to four steps after another.
static uint32_t expand(const normal_step *step, normal_step out[4]) {
    uint32_t n = 0;
    if (step->kind == NORMAL_WPM) {
        if (step->accents) out[n++] = (normal_step){.kind = NORMAL_NFD};
    } else if (step->kind != NORMAL_BERT) {
        return out[0] = *step, 1;
    }
    out[n++] = *step;
    if (step->kind == NORMAL_WPM) return n;
    if (step->accents) {
        out[n++] = (normal_step){.kind = NORMAL_NFD};
        out[n++] = (normal_step){.kind = NORMAL_STRIP_ACCENTS, .left = true};
    }
    if (step->lowercase) out[n++] = (normal_step){.kind = NORMAL_LOWERCASE};
    return n;
}

static void strip_nonspacing(rewriting *r) {
    for (size_t at = 0, next = 0; at < r->length; at = next) {
        uint32_t c = utf8_next(r->text, &next);
        if (!(unicode_flags(c) & UNI_NONSPACING)) buffer_add(r->out, r->text + at, next - at);
        keep_zero(r, next);
    }
}

// A file's normalizers may replace a character by many, again and again. The largest growth of a
// character by Unicode's tables is 18.
enum { MOST_GROWTH = 64, SHORT_TEXT = 1 << 16 };

static size_t most_after(size_t length) {
    size_t most = length > SIZE_MAX / MOST_GROWTH - SHORT_TEXT ? SIZE_MAX : MOST_GROWTH * length + SHORT_TEXT;
    return most < TOKENIZER_MAX_INPUT_BYTES ? most : TOKENIZER_MAX_INPUT_BYTES;
}

braid_err normalize(tokenizer_encoder *e, const char **text, size_t *length, size_t *zero) {
    const size_t given = *length, most = most_after(given);
    unsigned turn = 0;
    for (uint32_t i = 0; i < e->t->normals; i++) {
        normal_step steps[4];
        uint32_t n = expand(&e->t->normal[i], steps);
        for (uint32_t k = 0; k < n; k++) {
            if (leaves_alone(&steps[k], *text, *length)) continue;
            buffer *out = &e->normal[turn];
            turn = 1 - turn;
            *out = (buffer){.at = out->at, .capacity = out->capacity, .most = most + 1};
            rewriting r = {.text = *text, .length = *length, .zero = *zero, .out = out};
            braid_err err = BRAID_OK;
            if (steps[k].kind == NORMAL_STRIP_ACCENTS && steps[k].left)
                strip_nonspacing(&r);
            else
                err = one_step(e, &steps[k], &r);
            if (err) return err;
            if (out->full || out->count > most)
                return braid_fail(e->error, BRAID_LIMIT,
                                  "the tokenizer's normalizers make more than %zu bytes of a text of %zu", most, given);
            if (out->failed || !buffer_room(out, 1)) return text_no_memory(e->error);
            *text = out->at;
            *length = out->count;
            *zero = r.kept;
        }
    }
    return BRAID_OK;
}
