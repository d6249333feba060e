#include "text/regex.h"

#include "text/unicode.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdio.h>
#include <stdint.h>
#include <string.h>

enum { REGEX_MAX_DEPTH = 32, REGEX_STACK_BYTES = 1 << 20, REGEX_MATCH_LIMIT = 10000000 };

struct regex {
    pcre2_code *code;
};

struct regex_scratch {
    pcre2_match_data *data;
    pcre2_match_context *context;
    pcre2_jit_stack *stack;
};

typedef struct translation {
    const char *at, *end;
    buffer *out;
    unsigned depth, caseless;  // caseless: a bit for each open group
    char before;               // the last letter of a caseless literal, 0: none
    braid_error *error;
} translation;

static braid_err refuse(const translation *t, const char *what) {
    return braid_fail(t->error, BRAID_FORMAT, "a regular expression has %s, which is not supported", what);
}

static void put(translation *t, const char *text) { buffer_add(t->out, text, strlen(text)); }

#define SPACES \
    "\\x{9}-\\x{d}\\x{20}\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}"

// Whether the general category of `c` is `name`: one letter or two.
static bool in_category(uint32_t c, const char *name, size_t length) {
    static const char names[] = "CnCcCfCoCsLlLmLoLtLuMcMeMnNdNlNoPcPdPePfPiPoPsScSkSmSoZlZpZs";
    return memcmp(names + 2 * (unicode_flags(c) & UNI_CATEGORY), name, length) == 0;
}

// \p{NAME}: PCRE2's own property, with the characters that versions of Unicode up to 16 have added to it.
static void put_newer(translation *t, const char *name, size_t length) {
    // where Unicode 16 differs from 14, which PCRE2 10.42 has
    static const uint32_t news[][2] = {
        {0x897, 0x897},     {0xcf3, 0xcf3},     {0xece, 0xece},     {0x1b4e, 0x1b7f},   {0x1c89, 0x1c8a},
        {0x2427, 0x2429},   {0x2ffc, 0x2fff},   {0x31e4, 0x31ef},   {0xa7cb, 0xa7dc},   {0x105c0, 0x105f3},
        {0x10d40, 0x10d8f}, {0x10ec2, 0x10eff}, {0x1123f, 0x11241}, {0x11380, 0x113e2}, {0x116d0, 0x1171e},
        {0x11b00, 0x11bf9}, {0x11f00, 0x11f5a}, {0x1342f, 0x143fa}, {0x16100, 0x16139}, {0x16d40, 0x16d79},
        {0x18cff, 0x18cff}, {0x1b132, 0x1b155}, {0x1cc00, 0x1ceb3}, {0x1d2c0, 0x1d2d3}, {0x1df25, 0x1df2a},
        {0x1e030, 0x1e08f}, {0x1e4d0, 0x1e4f9}, {0x1e5d0, 0x1e5ff}, {0x1f6dc, 0x1f7d9}, {0x1f8b2, 0x1f8c1},
        {0x1fa75, 0x1faf8}, {0x1fbcb, 0x1fbef}, {0x2b739, 0x2b739}, {0x2ebf0, 0x2ee5d}, {0x31350, 0x323af}};
    for (size_t i = 0; length <= 2 && i < sizeof news / sizeof *news; i++) {
        for (uint32_t c = news[i][0], from = c; c <= news[i][1] + 1; c++) {
            if (c <= news[i][1] && in_category(c, name, length)) continue;
            char text[40];
            snprintf(text, sizeof text, "\\x{%x}-\\x{%x}", (unsigned)from, (unsigned)c - 1);
            if (c > from) put(t, text);
            from = c + 1;
        }
    }
}

// After "\p" or "\P".
static braid_err property(translation *t, bool negated, bool in_class) {
    static const char *const known[] = {"L",  "Ll", "Lm", "Lo", "Lt", "Lu", "M",  "Mc", "Me", "Mn", "N",
                                        "Nd", "Nl", "No", "P",  "Pc", "Pd", "Pe", "Pf", "Pi", "Po", "Ps",
                                        "S",  "Sc", "Sk", "Sm", "So", "Z",  "Zl", "Zp", "Zs", "Han"};
    if (t->at == t->end || *t->at != '{') return refuse(t, "\\p without braces");
    const char *name = ++t->at;
    while (t->at < t->end && *t->at != '}') t->at++;
    if (t->at == t->end) return refuse(t, "a brace without its end");
    size_t length = (size_t)(t->at++ - name);
    bool found = false;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        found |= strlen(known[i]) == length && memcmp(known[i], name, length) == 0;
    if (!found)
        return braid_fail(t->error, BRAID_FORMAT,
                          "a regular expression has the property '%.*s', which is not supported",
                          (int)(length < 40 ? length : 40), name);
    if (negated && in_class) return refuse(t, "\\P inside brackets");
    if (!in_class) put(t, negated ? "[^" : "[");
    put(t, "\\p{");
    buffer_add(t->out, name, length);
    put(t, "}");
    put_newer(t, name, length);
    if (!in_class) put(t, "]");
    return BRAID_OK;
}

static int hex_value(char c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

// After "\x" or "\u".
static braid_err code_point(translation *t, char kind) {
    uint32_t c = 0;
    size_t digits = 0;
    bool braces = kind == 'x' && t->at < t->end && *t->at == '{';
    if (braces) t->at++;
    size_t most = braces ? 6 : kind == 'u' ? 4 : 2;
    for (; digits < most && t->at < t->end && hex_value(*t->at) >= 0; digits++)
        c = c * 16 + (uint32_t)hex_value(*t->at++);
    if (braces && (t->at == t->end || *t->at++ != '}')) return refuse(t, "a brace without its end");
    bool fine = digits > 0 && (braces || digits == most) && c < 0x110000 && !(c >= 0xd800 && c < 0xe000);
    if (!fine || (!braces && kind == 'x' && c > 0x7f)) return refuse(t, "a malformed \\x or \\u");
    char text[16];
    snprintf(text, sizeof text, "\\x{%x}", (unsigned)c);
    put(t, text);
    return BRAID_OK;
}

// After a backslash.
static braid_err escape(translation *t, bool in_class) {
    if (t->at == t->end) return refuse(t, "a backslash at its end");
    char c = *t->at++;
    char plain[3] = {'\\', c, 0};
    t->before = 0;
    switch (c) {
    case 'p': return property(t, false, in_class);
    case 'P': return property(t, true, in_class);
    case 'x':
    case 'u': return code_point(t, c);
    case 's': return put(t, in_class ? SPACES : "[" SPACES "]"), BRAID_OK;
    case 'S':
        if (in_class) return refuse(t, "\\S inside brackets");
        return put(t, "[^" SPACES "]"), BRAID_OK;
    case 'd': return put(t, "\\p{Nd}"), BRAID_OK;
    case 'D':
        if (in_class) return refuse(t, "\\D inside brackets");
        return put(t, "\\P{Nd}"), BRAID_OK;
    case 'v': return put(t, "\\x{b}"), BRAID_OK;
    case 'n':
    case 'r':
    case 't':
    case 'f': return put(t, plain), BRAID_OK;
    default: break;
    }
    bool letter = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (uint8_t)c >= 0x80;
    if (letter) {
        char what[16];
        snprintf(what, sizeof what, "\\%c", (uint8_t)c < 0x80 ? c : '?');
        return refuse(t, what);
    }
    return put(t, plain), BRAID_OK;
}

// After '['.
static braid_err brackets(translation *t) {
    put(t, "[");
    if (t->at < t->end && *t->at == '^') put(t, "^"), t->at++;
    bool first = true;
    for (braid_err err; t->at < t->end; first = false) {
        char c = *t->at++;
        if (c == ']' && first) return refuse(t, "empty brackets");
        if (c == ']') return put(t, "]"), BRAID_OK;
        if (c == '[') return refuse(t, "brackets inside brackets");
        if (c == '&' && t->at < t->end && *t->at == '&') return refuse(t, "&& inside brackets");
        if ((uint8_t)c >= 0x80 && t->caseless >> t->depth & 1)
            return refuse(t, "case-insensitive letters beyond ASCII");
        if (c != '\\')
            buffer_byte(t->out, c);
        else if ((err = escape(t, true)) != BRAID_OK)
            return err;
    }
    return refuse(t, "a bracket without its end");
}

// After '('.
static braid_err group(translation *t) {
    static const char *const kinds[] = {"?:", "?=", "?!", "?<=", "?<!", "?>", "?i:"};
    if (t->depth + 1 == REGEX_MAX_DEPTH) return refuse(t, "groups nested too deeply");
    bool caseless = t->caseless >> t->depth & 1;
    t->depth++;
    t->caseless = (t->caseless & ~(1u << t->depth)) | (unsigned)caseless << t->depth;
    put(t, "(");
    if (t->at == t->end || *t->at != '?') return put(t, "?:"), BRAID_OK;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        size_t n = strlen(kinds[i]);
        if ((size_t)(t->end - t->at) < n || memcmp(t->at, kinds[i], n) != 0) continue;
        if (i == 6) t->caseless |= 1u << t->depth;
        put(t, kinds[i]);
        t->at += n;
        return BRAID_OK;
    }
    return refuse(t, "a group of an unknown kind");
}

// Without case, Oniguruma takes some pairs of letters for one character (ss and U+00DF); PCRE2 does not.
static braid_err literal(translation *t, char c) {
    bool caseless = t->caseless >> t->depth & 1;
    char lower = c >= 'A' && c <= 'Z' ? (char)(c + 32) : c;
    if (caseless && (uint8_t)c >= 0x80) return refuse(t, "case-insensitive letters beyond ASCII");
    bool pair = (t->before == 's' && (lower == 's' || lower == 't')) ||
                (t->before == 'f' && (lower == 'f' || lower == 'i' || lower == 'l'));
    if (caseless && pair) return refuse(t, "case-insensitive letters that single characters may stand for");
    t->before = caseless ? lower : 0;
    buffer_byte(t->out, c);
    return BRAID_OK;
}

static braid_err quantifier(translation *t) {
    const char *close = memchr(t->at, '}', (size_t)(t->end - t->at));
    bool digit = t->at < t->end && *t->at >= '0' && *t->at <= '9';
    if (!close || !digit) return refuse(t, "a brace that is not a quantifier");
    for (const char *c = t->at; c < close; c++)
        if ((*c < '0' || *c > '9') && *c != ',') return refuse(t, "a brace that is not a quantifier");
    if (close + 1 < t->end && (close[1] == '+' || close[1] == '{')) return refuse(t, "a quantifier of a quantifier");
    put(t, "{");
    buffer_add(t->out, t->at, (size_t)(close + 1 - t->at));
    t->at = close + 1;
    return BRAID_OK;
}

static braid_err translate(translation *t) {
    braid_err err = BRAID_OK;
    while (t->at < t->end && !err) {
        char c = *t->at++;
        if (c == '\\') {
            err = escape(t, false);
        } else if (c == '[') {
            t->before = 0;
            err = brackets(t);
        } else if (c == '(') {
            t->before = 0;
            err = group(t);
        } else if (c == ')') {
            if (t->depth == 0) return refuse(t, "a parenthesis without its beginning");
            t->depth--;
            put(t, ")");
        } else if (c == '{') {
            err = quantifier(t);
        } else if (strchr("|*+?.^$", c) && c) {
            if (c == '|') t->before = 0;
            buffer_byte(t->out, c);
        } else {
            err = c ? literal(t, c) : refuse(t, "a zero byte");
        }
    }
    if (!err && t->depth > 0) return refuse(t, "a parenthesis without its end");
    return err;
}

static braid_err compile(const buffer *text, regex *r, braid_error *error) {
    int number;
    size_t offset;
    pcre2_compile_context *context = pcre2_compile_context_create(NULL);
    if (!context) return braid_fail(error, BRAID_MEMORY, "no memory for a regular expression");
    pcre2_set_newline(context, PCRE2_NEWLINE_LF);
    pcre2_set_parens_nest_limit(context, REGEX_MAX_DEPTH);
    r->code = pcre2_compile((PCRE2_SPTR)text->at, text->count,
                            PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C | PCRE2_NO_UTF_CHECK,
                            &number, &offset, context);
    pcre2_compile_context_free(context);
    if (!r->code) {
        char why[128];
        pcre2_get_error_message(number, (PCRE2_UCHAR *)why, sizeof why);
        return braid_fail(error, BRAID_FORMAT, "a regular expression cannot be read: %s", why);
    }
    pcre2_jit_compile(r->code, PCRE2_JIT_COMPLETE);  // without it, it is interpreted
    return BRAID_OK;
}

braid_err regex_new(const char *pattern, size_t length, regex **out, braid_error *error) {
    if (length > REGEX_MAX_BYTES)
        return braid_fail(error, BRAID_LIMIT, "a regular expression of %zu bytes is too long", length);
    if (utf8_valid(pattern, length) != length)
        return braid_fail(error, BRAID_FORMAT, "a regular expression is not UTF-8");
    buffer text = {0};
    translation t = {.at = pattern, .end = pattern + length, .out = &text, .error = error};
    regex *r = calloc(1, sizeof *r);
    braid_err err = r ? translate(&t) : BRAID_MEMORY;
    if (!err && text.failed) err = BRAID_MEMORY;
    if (err == BRAID_MEMORY) braid_fail(error, err, "no memory for a regular expression");
    if (!err && text.count == 0) err = braid_fail(error, BRAID_FORMAT, "a regular expression is empty");
    if (!err) err = compile(&text, r, error);
    buffer_free(&text);
    if (err)
        regex_free(r);
    else
        *out = r;
    return err;
}

void regex_free(regex *r) {
    if (!r) return;
    pcre2_code_free(r->code);
    free(r);
}

regex_scratch *regex_scratch_new(void) {
    regex_scratch *s = calloc(1, sizeof *s);
    if (!s) return NULL;
    s->data = pcre2_match_data_create(1, NULL);
    s->context = pcre2_match_context_create(NULL);
    s->stack = pcre2_jit_stack_create(32 << 10, REGEX_STACK_BYTES, NULL);
    if (!s->data || !s->context) {
        regex_scratch_free(s);
        return NULL;
    }
    pcre2_jit_stack_assign(s->context, NULL, s->stack);
    pcre2_set_match_limit(s->context, REGEX_MATCH_LIMIT);
    return s;
}

void regex_scratch_free(regex_scratch *s) {
    if (!s) return;
    pcre2_match_data_free(s->data);
    pcre2_match_context_free(s->context);
    pcre2_jit_stack_free(s->stack);
    free(s);
}

bool regex_next(const regex *r, regex_scratch *s, const char *text, size_t length, regex_place *place, size_t *start,
                size_t *end, braid_error *error, braid_err *err) {
    while (place->at <= length) {
        int n = pcre2_match(r->code, (PCRE2_SPTR)text, length, place->at, PCRE2_NO_UTF_CHECK, s->data, s->context);
        if (n == PCRE2_ERROR_NOMATCH) return false;
        if (n < 0) {
            char why[128];
            pcre2_get_error_message(n, (PCRE2_UCHAR *)why, sizeof why);
            *err = braid_fail(error, BRAID_LIMIT, "a regular expression cannot be matched: %s", why);
            return false;
        }
        const PCRE2_SIZE *found = pcre2_get_ovector_pointer(s->data);
        if (found[0] == found[1] && place->matched && place->last_end == found[1]) {
            place->at += place->at < length ? utf8_width(text[place->at]) : 1;
            continue;
        }
        *start = found[0];
        *end = found[1];
        place->at = place->last_end = found[1];
        place->matched = true;
        return true;
    }
    return false;
}
