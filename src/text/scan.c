// The patterns of GPT-2, LLaMA 3 and Qwen 2 by hand. unit_text_scan proves that they cut as the regular expressions do.
#include "text/inside.h"

enum { LETTER = UNI_LETTER, NUMBER = UNI_NUMBER, SPACE = UNI_SPACE, VISIBLE = LETTER | NUMBER | SPACE };

// The flags of the character at `at` < end; *next is behind it.
static inline unsigned flags_at(const char *text, size_t at, size_t *next) {
    *next = at;
    return unicode_flags(utf8_next(text, next));
}

static size_t run_of(const char *text, size_t at, size_t end, unsigned want) {
    for (size_t next; at < end && flags_at(text, at, &next) & want; at = next) {
    }
    return at;
}

// [^\s\p{L}\p{N}]*
static size_t run_other(const char *text, size_t at, size_t end) {
    for (size_t next; at < end && !(flags_at(text, at, &next) & VISIBLE); at = next) {
    }
    return at;
}

static char lower(char c, bool caseless) { return caseless && c >= 'A' && c <= 'Z' ? (char)(c + 32) : c; }

// 's|'t|'re|'ve|'m|'ll|'d at an apostrophe; `from` itself when it is none. U+017F is an s without case.
static size_t contraction(const char *text, size_t from, size_t end, bool caseless) {
    if (end - from < 2) return from;
    char a = lower(text[from + 1], caseless);
    if (a == 's' || a == 't' || a == 'm' || a == 'd') return from + 2;
    if (end - from < 3) return from;
    if (caseless && (uint8_t)a == 0xc5 && (uint8_t)text[from + 2] == 0xbf) return from + 3;
    char b = lower(text[from + 2], caseless);
    return (a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l') ? from + 3 : from;
}

// \s+(?!\S)|\s+ at a space
static size_t spaces(const char *text, size_t from, size_t end) {
    size_t to = run_of(text, from, end, SPACE);
    if (to == end) return to;
    size_t last = utf8_before(text, to);
    return last > from ? last : to;
}

static size_t scan_gpt2(const char *text, size_t from, size_t end) {
    size_t next;
    if (text[from] == '\'') {
        size_t to = contraction(text, from, end, false);
        if (to > from) return to;
    }
    size_t word = text[from] == ' ' && from + 1 < end ? from + 1 : from;
    unsigned flags = flags_at(text, word, &next);
    if (flags & LETTER) return run_of(text, next, end, LETTER);
    if (flags & NUMBER) return run_of(text, next, end, NUMBER);
    if (!(flags & SPACE)) return run_other(text, next, end);
    return spaces(text, from, end);
}

static bool is_newline(char c) { return c == '\n' || c == '\r'; }

// \s*[\r\n]+|\s+(?!\S)|\s+ : up to the last newline of the spaces
static size_t spaces_lines(const char *text, size_t from, size_t end) {
    size_t to = run_of(text, from, end, SPACE);
    for (size_t at = to; at > from; at--)
        if (is_newline(text[at - 1])) return at;
    return spaces(text, from, end);
}

static size_t scan_llama3(const char *text, size_t from, size_t end, unsigned digits) {
    size_t next, after;
    if (text[from] == '\'') {
        size_t to = contraction(text, from, end, true);
        if (to > from) return to;
    }
    unsigned flags = flags_at(text, from, &next);
    if (flags & LETTER) return run_of(text, next, end, LETTER);
    bool lead = !(flags & NUMBER) && !is_newline(text[from]);
    if (lead && next < end && flags_at(text, next, &after) & LETTER) return run_of(text, after, end, LETTER);
    if (flags & NUMBER) {
        for (unsigned i = 1; i < digits && next < end && flags_at(text, next, &after) & NUMBER; i++) next = after;
        return next;
    }
    size_t other = text[from] == ' ' ? from + 1 : from;
    size_t to = run_other(text, other, end);
    if (to > other) {
        while (to < end && is_newline(text[to])) to++;
        return to;
    }
    return spaces_lines(text, from, end);
}

size_t scan_piece(scan_kind kind, const char *text, size_t from, size_t end) {
    if (kind == SCAN_GPT2) return scan_gpt2(text, from, end);
    return scan_llama3(text, from, end, kind == SCAN_LLAMA3 ? 3 : 1);
}

#define NOCASE "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define TAIL   "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

scan_kind scan_of_pattern(const char *source) {
    static const struct {
        scan_kind kind;
        const char *text;
    } known[] = {
        {SCAN_GPT2, "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"},
        {SCAN_LLAMA3, NOCASE "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}" TAIL},
        {SCAN_QWEN2, NOCASE "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}" TAIL},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(source, known[i].text) == 0) return known[i].kind;
    return SCAN_NONE;
}
