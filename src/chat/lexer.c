// The tokens of a template. The rules for white space around tags are those of Jinja with trim_blocks and lstrip_blocks:
// a line feed after a tag goes, and so do spaces between the start of a line and a tag that is no output.
#include "chat/inside.h"

#include <stdarg.h>
#include <stdio.h>

void lexer_fail(lexer *x, uint32_t line, const char *format, ...) {
    if (x->err) return;
    char text[400];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    x->err = braid_fail(x->error, BRAID_FORMAT, "chat template, line %u: %s", (unsigned)line, text);
    x->state = LEX_DONE;
}

void lexer_start(lexer *x, const char *source, size_t length, arena *a, braid_error *error) {
    *x = (lexer){.at = source,
                 .begin = source,
                 .end = source + length,
                 .arena = a,
                 .error = error,
                 .line = 1,
                 .line_starting = true};
}

static bool sees(const lexer *x, const char *at, const char *text) {
    size_t n = strlen(text);
    return (size_t)(x->end - at) >= n && memcmp(at, text, n) == 0;
}

static const char *skip_space(const lexer *x, const char *at) {
    while (at < x->end) {
        size_t bytes = 0;
        if (!is_space(utf8_next(at, &bytes))) break;
        at += bytes;
    }
    return at;
}

static const char *strip_right(const char *begin, const char *end) {
    while (end > begin) {
        size_t before = utf8_before(begin, (size_t)(end - begin)), at = before;
        if (!is_space(utf8_next(begin, &at))) break;
        end = begin + before;
    }
    return end;
}

// Moves to `to`, counting lines.
static void move(lexer *x, const char *to) {
    for (const char *c = x->at; c < to; c++) x->line += *c == '\n';
    if (to > x->at) x->line_starting = to[-1] == '\n';
    x->at = to;
}

// The end of the text before a tag with the sign `sign`.
static const char *text_end(const lexer *x, const char *begin, const char *end, char sign, bool output) {
    if (sign == '-') return strip_right(begin, end);
    if (sign == '+' || output) return end;
    const char *line = end;
    while (line > begin && line[-1] != '\n') line--;
    if (line == begin && !x->line_starting) return end;
    return skip_space(x, line) >= end ? line : end;
}

// After the opening of a tag: is it {% raw %}? *after: behind its end.
static bool is_raw(const lexer *x, const char *at, const char **after) {
    if (at < x->end && (*at == '-' || *at == '+')) at++;
    at = skip_space(x, at);
    if (!sees(x, at, "raw")) return false;
    at = skip_space(x, at + 3);
    if (sees(x, at, "-%}"))
        *after = skip_space(x, at + 3);
    else if (sees(x, at, "%}"))
        *after = at + 2;
    else
        return false;
    return true;
}

// Behind the end of a comment or of {% endraw %}, which ends in `close`; NULL: `at` is not that.
static const char *close_tag(const lexer *x, const char *at, const char *close) {
    if (at < x->end && *at == '+' && sees(x, at + 1, close)) return at + 3;
    if (at < x->end && *at == '-' && sees(x, at + 1, close)) return skip_space(x, at + 3);
    if (!sees(x, at, close)) return NULL;
    return at + 2 + (at + 2 < x->end && at[2] == '\n');
}

static void skip_comment(lexer *x, const char *at) {
    uint32_t line = x->line;
    for (; at < x->end; at++) {
        const char *after = close_tag(x, at, "#}");
        if (!after) continue;
        move(x, after);
        return;
    }
    lexer_fail(x, line, "the comment has no end; '#}' is missing");
}

static token data_token(const char *begin, const char *end, uint32_t line) {
    return (token){.kind = TOKEN_DATA, .line = line, .value = value_text(begin, (size_t)(end - begin))};
}

// The text up to the next tag. A tag that yields no token (comment, raw) is passed, too.
static token next_text(lexer *x) {
    const char *begin = x->at, *at = begin;
    while (at < x->end && !(at[0] == '{' && (sees(x, at, "{{") || sees(x, at, "{%") || sees(x, at, "{#")))) at++;
    uint32_t line = x->line;
    if (at == x->end) {
        x->state = LEX_DONE;
        move(x, at);
        return data_token(begin, at, line);
    }
    char kind = at[1], sign = at + 2 < x->end ? at[2] : 0;
    const char *end = text_end(x, begin, at, sign, kind == '{');
    const char *after, *behind = at + 2 + (sign == '-' || sign == '+');
    if (kind == '%' && is_raw(x, at + 2, &after)) {
        move(x, after);
        x->state = LEX_RAW;
    } else {
        move(x, behind);
        x->state = kind == '{' ? LEX_OUTPUT : kind == '%' ? LEX_TAG : LEX_TEXT;
        x->opened = kind != '#';
        if (kind == '#') skip_comment(x, behind);
    }
    return data_token(begin, end, line);
}

static token next_raw(lexer *x) {
    const char *begin = x->at;
    uint32_t line = x->line;
    for (const char *at = begin; at < x->end; at++) {
        if (!sees(x, at, "{%")) continue;
        char sign = at + 2 < x->end ? at[2] : 0;
        const char *word = skip_space(x, at + 2 + (sign == '-' || sign == '+'));
        const char *after = sees(x, word, "endraw") ? close_tag(x, skip_space(x, word + 6), "%}") : NULL;
        if (!after) continue;
        const char *end = text_end(x, begin, at, sign, false);
        move(x, after);
        x->state = LEX_TEXT;
        return data_token(begin, end, line);
    }
    lexer_fail(x, line, "the tag 'raw' has no 'endraw'");
    return (token){.line = line};
}

static bool is_digit(char c) { return c >= '0' && c <= '9'; }
static bool is_word(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || is_digit(c); }

// Digits with single underscores between them.
static const char *digits(const char *at, const char *end) {
    const char *start = at;
    while (at < end && (is_digit(*at) || (*at == '_' && at > start && at + 1 < end && is_digit(at[1])))) at++;
    return at;
}

static const char *float_end(const lexer *x) {
    if (x->at > x->begin && x->at[-1] == '.') return NULL;
    const char *whole = digits(x->at, x->end), *at = whole;
    if (at == x->at) return NULL;
    if (at + 1 < x->end && *at == '.' && is_digit(at[1])) at = digits(at + 1, x->end);
    if (at < x->end && (*at == 'e' || *at == 'E')) {
        const char *e = at + 1;
        if (e < x->end && (*e == '+' || *e == '-')) e++;
        const char *last = digits(e, x->end);
        if (last > e) at = last;
    }
    return at > whole ? at : NULL;
}

// Copies without underscores; false: too long for a number.
static bool plain_number(const char *begin, const char *end, char out[64]) {
    size_t n = 0;
    for (; begin < end; begin++) {
        if (*begin == '_') continue;
        if (n == 63) return false;
        out[n++] = *begin;
    }
    out[n] = 0;
    return true;
}

static token number(lexer *x) {
    token t = {.kind = TOKEN_INTEGER, .line = x->line};
    const char *end = float_end(x);
    char plain[64];
    if (end) {
        t.kind = TOKEN_FLOAT;
        if (plain_number(x->at, end, plain))
            t.value = value_float(strtod(plain, NULL));
        else
            lexer_fail(x, x->line, "a number is too long");
        move(x, end);
        return t;
    }
    end = x->at[0] == '0' ? x->at + 1 : digits(x->at, x->end);
    if (x->at[0] == '0' && end < x->end && strchr("bBoOxX", *end)) {
        lexer_fail(x, x->line, "numbers in base 2, 8 or 16 are not supported");
    } else if (!plain_number(x->at, end, plain) || strlen(plain) > 18) {
        lexer_fail(x, x->line, "an integer has more than 18 digits");
    } else {
        t.value = value_int(strtoll(plain, NULL, 10));
    }
    move(x, end);
    return t;
}

static token string(lexer *x) {
    token t = {.kind = TOKEN_STRING, .line = x->line};
    const char *at = x->at + 1;
    while (at < x->end && *at != *x->at) at += *at == '\\' && at + 1 < x->end ? 2 : 1;
    if (at >= x->end) {
        lexer_fail(x, x->line, "a string has no closing quote");
        return t;
    }
    lexer_unescape(x, x->at + 1, (size_t)(at - x->at - 1), &t.value);
    move(x, at + 1);
    return t;
}

static void count_brackets(lexer *x, char c) {
    static const char opening[] = "([{", closing[] = ")]}";
    const char *open = strchr(opening, c);
    if (open) {
        if (x->open == CHAT_MAX_NESTING)
            lexer_fail(x, x->line, "brackets are nested more than %d deep", CHAT_MAX_NESTING);
        else
            x->closing[x->open++] = closing[open - opening];
    } else if (strchr(closing, c)) {
        if (x->open == 0)
            lexer_fail(x, x->line, "unexpected '%c'", c);
        else if (x->closing[--x->open] != c)
            lexer_fail(x, x->line, "unexpected '%c', expected '%c'", c, x->closing[x->open]);
    }
}

static token operator_token(lexer *x) {
    static const char *const two[] = {"//", "**", "==", "!=", ">=", "<="};
    token t = {.kind = TOKEN_OPERATOR, .line = x->line};
    size_t length = 1;
    for (size_t i = 0; i < sizeof two / sizeof *two; i++)
        if (sees(x, x->at, two[i])) length = 2;
    if (length == 1 && !strchr("+-/*%~[](){}><=.:|,;", *x->at)) {
        if ((uint8_t)*x->at < 0x80)
            lexer_fail(x, x->line, "unexpected character '%c'", *x->at);
        else
            lexer_fail(x, x->line, "a name may have ASCII characters only");
        return t;
    }
    memcpy(t.sign, x->at, length);
    if (length == 1) count_brackets(x, t.sign[0]);
    move(x, x->at + length);
    return t;
}

// Inside of a tag or an output.
static token next_inside(lexer *x) {
    token t = {.kind = x->state == LEX_TAG ? TOKEN_TAG_END : TOKEN_OUTPUT_END, .line = x->line};
    const char *after = NULL;
    if (x->open == 0 && x->state == LEX_TAG) after = close_tag(x, x->at, "%}");
    if (x->open == 0 && x->state == LEX_OUTPUT) {
        if (sees(x, x->at, "-}}"))
            after = skip_space(x, x->at + 3);
        else if (sees(x, x->at, "}}"))
            after = x->at + 2;
    }
    if (after) {
        move(x, after);
        x->state = LEX_TEXT;
        return t;
    }
    if (is_digit(*x->at)) return number(x);
    if (*x->at == '"' || *x->at == '\'') return string(x);
    if (!is_word(*x->at)) return operator_token(x);
    const char *end = x->at;
    while (end < x->end && is_word(*end)) end++;
    t.kind = TOKEN_NAME;
    t.value = value_text(x->at, (size_t)(end - x->at));
    move(x, end);
    return t;
}

token lexer_next(lexer *x) {
    for (;;) {
        enum lexer_state before = x->state;
        if (before == LEX_DONE) return (token){.kind = TOKEN_END, .line = x->line};
        if (before == LEX_TEXT || before == LEX_RAW) {
            token t = before == LEX_TEXT ? next_text(x) : next_raw(x);
            if (!x->err && t.value.length > 0) return t;
            continue;
        }
        if (x->opened) {
            x->opened = false;
            return (token){.kind = before == LEX_TAG ? TOKEN_TAG_BEGIN : TOKEN_OUTPUT_BEGIN, .line = x->line};
        }
        move(x, skip_space(x, x->at));
        if (x->at >= x->end) {
            lexer_fail(x, x->line, "the template ends inside of '%s'", before == LEX_TAG ? "{%" : "{{");
            continue;
        }
        token t = next_inside(x);
        if (!x->err) return t;
    }
}
