// The escapes of string literals, as Python reads them.
#include "chat/inside.h"

static int hex_value(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

// After \x, \u or \U: `count` hexadecimal digits.
static bool take_hex(const char **at, const char *end, int count, uint32_t *out) {
    *out = 0;
    for (; count > 0; count--, (*at)++) {
        int digit = *at < end ? hex_value(**at) : -1;
        if (digit < 0) return false;
        *out = *out << 4 | (uint32_t)digit;
    }
    return true;
}

static uint32_t take_octal(const char **at, const char *end) {
    uint32_t c = 0;
    for (int i = 0; i < 3 && *at < end && **at >= '0' && **at <= '7'; i++, (*at)++) c = c * 8 + (uint32_t)(**at - '0');
    return c;
}

// One escape, after its backslash; false: a mistake.
static bool take_escape(const char **at, const char *end, char **out) {
    static const char names[] = "\\'\"abfnrtv", values[] = "\\'\"\a\b\f\n\r\t\v";
    char c = **at;
    const char *simple = c ? strchr(names, c) : NULL;
    uint32_t code = 0;
    if (c == '\n') return ++*at, true;
    if (simple) return *(*out)++ = values[simple - names], ++*at, true;
    if (c >= '0' && c <= '7') {
        code = take_octal(at, end);
    } else if (c == 'x' || c == 'u' || c == 'U') {
        ++*at;
        if (!take_hex(at, end, c == 'x' ? 2 : c == 'u' ? 4 : 8, &code)) return false;
    } else {
        *(*out)++ = '\\';  // the character itself follows
        return c != 'N';
    }
    if (code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff)) return false;
    *out += utf8_put(*out, code);
    return true;
}

bool lexer_unescape(lexer *x, const char *text, size_t length, value *out) {
    *out = value_text(text, length);
    if (!memchr(text, '\\', length)) return true;
    char *start = arena_take(x->arena, length + 1), *to = start;
    if (!start) {
        lexer_fail(x, x->line, "no memory for a string");
        return false;
    }
    for (const char *at = text, *end = text + length; at < end;) {
        if (*at != '\\' || at + 1 == end) {
            *to++ = *at++;
            continue;
        }
        at++;
        if (!take_escape(&at, end, &to)) {
            lexer_fail(x, x->line, "a string has an escape that is not supported; \\N and lone surrogates are not");
            return false;
        }
    }
    *out = value_text(start, (size_t)(to - start));
    return true;
}
