// GBNF: NAME ::= ALTERNATIVES, with "text", [classes], ., (groups), ? * + {m} {m,} {m,n} and
// comments from '#'. The rule `root` is the whole text.
#include "http/grammar.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_NAME = 64, MAX_RANGES = 256 };

typedef struct name {
    const char *at;
    size_t length;
    uint32_t rule;
    bool defined;
} name;

typedef struct reader {
    const char *text, *at, *end;
    grammar *g;
    name *names;
    uint32_t count, capacity;
    uint32_t depth;
} reader;

static bool mistake(reader *r, const char *text) {
    size_t line = 1;
    for (const char *c = r->text; c < r->at; c++) line += *c == '\n';
    if (!r->g->error.code) braid_fail(&r->g->error, BRAID_ARGUMENT, "the grammar, line %zu: %s", line, text);
    return false;
}

// `lines`: line breaks are skipped, too.
static void skip(reader *r, bool lines) {
    while (r->at < r->end) {
        if (*r->at == '#')
            while (r->at < r->end && *r->at != '\n') r->at++;
        else if (*r->at == ' ' || *r->at == '\t' || (lines && (*r->at == '\n' || *r->at == '\r')))
            r->at++;
        else
            return;
    }
}

static bool is_name(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

static name *read_name(reader *r) {
    const char *start = r->at;
    while (r->at < r->end && is_name(*r->at)) r->at++;
    size_t length = (size_t)(r->at - start);
    if (length == 0 || length > MAX_NAME) {
        mistake(r, length ? "a name is too long" : "the name of a rule is missing");
        return NULL;
    }
    for (uint32_t i = 0; i < r->count; i++)
        if (r->names[i].length == length && memcmp(r->names[i].at, start, length) == 0) return &r->names[i];
    if (r->count == r->capacity) {
        uint32_t capacity = 2 * r->capacity + 16;
        name *larger = capacity > 2 * GRAMMAR_MAX_RULES ? NULL : realloc(r->names, capacity * sizeof *larger);
        if (!larger) {
            mistake(r, "there are too many rules");
            return NULL;
        }
        r->names = larger;
        r->capacity = capacity;
    }
    r->names[r->count] = (name){start, length, grammar_rule(r->g), false};
    return &r->names[r->count++];
}

static bool hex(reader *r, int digits, uint32_t *out) {
    *out = 0;
    for (int i = 0; i < digits; i++) {
        char c = r->at < r->end ? *r->at++ : 0;
        int d = c >= '0' && c <= '9'   ? c - '0'
                : c >= 'a' && c <= 'f' ? c - 'a' + 10
                : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                       : -1;
        if (d < 0) return mistake(r, "a hexadecimal digit is missing");
        *out = *out << 4 | (uint32_t)d;
    }
    return *out <= 0x10ffff && (*out < 0xd800 || *out > 0xdfff) ? true : mistake(r, "there is no such character");
}

static bool escape(reader *r, uint32_t *out) {
    char c = r->at < r->end ? *r->at++ : 0;
    switch (c) {
    case 'x': return hex(r, 2, out);
    case 'u': return hex(r, 4, out);
    case 'U': return hex(r, 8, out);
    case 'n': *out = '\n'; return true;
    case 'r': *out = '\r'; return true;
    case 't': *out = '\t'; return true;
    case '\\':
    case '"':
    case '[':
    case ']':
    case '-':
    case '^': *out = (unsigned char)c; return true;
    default: return mistake(r, "an unknown escape");
    }
}

// One character of a text or a class; the source is valid UTF-8.
static bool character(reader *r, uint32_t *out) {
    unsigned char c = (unsigned char)*r->at++;
    if (c == '\\') return escape(r, out);
    unsigned more = c >= 0xf0 ? 3 : c >= 0xe0 ? 2 : c >= 0xc0 ? 1 : 0;
    if (r->end - r->at < (ptrdiff_t)more || (c >= 0x80 && more == 0)) return mistake(r, "the text is no UTF-8");
    *out = more ? c & (0x3fu >> more) : c;
    for (; more > 0; more--) *out = *out << 6 | ((unsigned char)*r->at++ & 0x3fu);
    return *out <= 0x10ffff && (*out < 0xd800 || *out > 0xdfff) ? true : mistake(r, "the text is no UTF-8");
}

static bool read_text(reader *r, grammar_sequence *s) {
    for (r->at++; r->at < r->end && *r->at != '"' && *r->at != '\n';) {
        uint32_t c;
        if (!character(r, &c)) return false;
        grammar_range one = {c, c};
        char ascii = (char)c;
        if (c < 0x80)
            grammar_put_text(r->g, s, &ascii, 1);
        else
            grammar_put_class(r->g, s, &one, 1, false);
        if (r->g->error.code) return false;
    }
    return r->at < r->end && *r->at++ == '"' ? true : mistake(r, "a text has no end");
}

static bool read_class(reader *r, grammar_sequence *s) {
    grammar_range ranges[MAX_RANGES];
    uint32_t count = 0;
    bool inverse = r->end - r->at > 1 && r->at[1] == '^';
    for (r->at += inverse ? 2 : 1; r->at < r->end && *r->at != ']';) {
        if (count == MAX_RANGES) return mistake(r, "a class has too many characters");
        grammar_range *to = &ranges[count++];
        if (!character(r, &to->from)) return false;
        to->to = to->from;
        if (r->end - r->at < 2 || *r->at != '-' || r->at[1] == ']') continue;
        r->at++;
        if (!character(r, &to->to)) return false;
        if (to->to < to->from) return mistake(r, "a range of a class is reversed");
    }
    if (r->at >= r->end) return mistake(r, "a class has no end");
    r->at++;
    grammar_put_class(r->g, s, ranges, count, inverse);
    return !r->g->error.code;
}

static bool number(reader *r, uint32_t *out) {
    const char *start = r->at;
    for (*out = 0; r->at < r->end && *r->at >= '0' && *r->at <= '9'; r->at++) {
        *out = *out * 10 + (uint32_t)(*r->at - '0');
        if (*out > GRAMMAR_MAX_REPEAT) return mistake(r, "a repetition is too large");
    }
    return r->at > start ? true : mistake(r, "a number is missing");
}

static bool braces(reader *r, uint32_t *least, uint32_t *most) {
    r->at++;
    if (!number(r, least)) return false;
    *most = *least;
    if (r->at < r->end && *r->at == ',') {
        r->at++;
        *most = UINT32_MAX;
        if (r->at < r->end && *r->at != '}' && !number(r, most)) return false;
    }
    if (r->at >= r->end || *r->at++ != '}') return mistake(r, "a '}' is missing");
    return *most >= *least ? true : mistake(r, "a repetition ends before it begins");
}

// Replaces the elements from `first` on by a repetition of them.
static bool read_repeat(reader *r, grammar_sequence *s, uint32_t first) {
    uint32_t least = 0, most = UINT32_MAX;
    char c = r->at < r->end ? *r->at : 0;
    if (c == '{') {
        if (!braces(r, &least, &most)) return false;
    } else if (c == '?' || c == '*' || c == '+') {
        r->at++;
        least = c == '+';
        most = c == '?' ? 1 : UINT32_MAX;
    } else {
        return true;
    }
    uint32_t item = grammar_rule(r->g);
    grammar_sequence inner = {0};
    for (uint32_t i = first; i < s->count; i++) grammar_put(r->g, &inner, s->at[i].kind, s->at[i].value);
    grammar_alternative_add(r->g, item, &inner);
    s->count = first;
    grammar_put(r->g, s, GRAMMAR_RULE, grammar_repeat(r->g, item, least, most));
    return !r->g->error.code;
}

static bool read_alternatives(reader *r, uint32_t rule, bool inside);

static bool read_group(reader *r, grammar_sequence *s) {
    if (r->depth == GRAMMAR_MAX_NESTING) return mistake(r, "groups are nested too deeply");
    uint32_t rule = grammar_rule(r->g);
    r->at++;
    r->depth++;
    bool fine = read_alternatives(r, rule, true);
    r->depth--;
    if (!fine) return false;
    if (r->at >= r->end || *r->at++ != ')') return mistake(r, "a ')' is missing");
    grammar_put(r->g, s, GRAMMAR_RULE, rule);
    return true;
}

static bool read_item(reader *r, grammar_sequence *s) {
    char c = *r->at;
    if (c == '"') return read_text(r, s);
    if (c == '[') return read_class(r, s);
    if (c == '(') return read_group(r, s);
    if (c == '.') {
        r->at++;
        grammar_put_class(r->g, s, NULL, 0, true);
        return !r->g->error.code;
    }
    name *n = read_name(r);
    if (n) grammar_put(r->g, s, GRAMMAR_RULE, n->rule);
    return n && !r->g->error.code;
}

// Whether a new rule begins here: NAME ::=
static bool at_rule(reader *r) {
    const char *c = r->at;
    while (c < r->end && is_name(*c)) c++;
    if (c == r->at) return false;
    while (c < r->end && (*c == ' ' || *c == '\t')) c++;
    return r->end - c >= 3 && memcmp(c, "::=", 3) == 0;
}

static bool read_sequence(reader *r, uint32_t rule, bool inside) {
    grammar_sequence s = {0};
    bool fine = true;
    for (;;) {
        skip(r, inside);
        const char *line = r->at;
        // outside of groups an alternative goes on in the next line after '|' only
        if (r->at >= r->end || *r->at == '|' || *r->at == ')' || *r->at == '\n' || *r->at == '\r') break;
        if (!inside && at_rule(r)) break;
        uint32_t first = s.count;
        fine = read_item(r, &s) && read_repeat(r, &s, first);
        if (!fine || r->at == line) break;
    }
    if (fine) grammar_alternative_add(r->g, rule, &s);
    free(s.at);
    return fine && !r->g->error.code;
}

static bool read_alternatives(reader *r, uint32_t rule, bool inside) {
    for (;;) {
        if (!read_sequence(r, rule, inside)) return false;
        const char *end = r->at;
        skip(r, true);
        if (r->at >= r->end || *r->at != '|') {
            if (!inside) r->at = end;
            return true;
        }
        r->at++;
        skip(r, true);
    }
}

static bool read_rules(reader *r) {
    for (skip(r, true); r->at < r->end; skip(r, true)) {
        name *n = read_name(r);
        if (!n) return false;
        if (n->defined) return mistake(r, "a rule is defined twice");
        n->defined = true;
        uint32_t rule = n->rule;  // the array moves when it grows
        skip(r, false);
        if (r->end - r->at < 3 || memcmp(r->at, "::=", 3) != 0) return mistake(r, "'::=' is missing");
        r->at += 3;
        skip(r, true);
        if (!read_alternatives(r, rule, false)) return false;
        skip(r, false);
        if (r->at < r->end && *r->at != '\n' && *r->at != '\r') return mistake(r, "a rule ends unexpectedly");
    }
    return true;
}

static braid_err finish(reader *r, braid_error *error) {
    uint32_t root = UINT32_MAX;
    for (uint32_t i = 0; i < r->count && !r->g->error.code; i++) {
        const name *n = &r->names[i];
        if (n->length == 4 && memcmp(n->at, "root", 4) == 0) root = n->rule;
        if (!n->defined)
            braid_fail(&r->g->error, BRAID_ARGUMENT, "the grammar has no rule '%.*s'", (int)n->length, n->at);
    }
    if (root == UINT32_MAX && !r->g->error.code)
        braid_fail(&r->g->error, BRAID_ARGUMENT, "the grammar has no rule 'root'");
    return grammar_finish(r->g, root, error);
}

braid_err grammar_from_text(const char *text, size_t length, grammar **out, braid_error *error) {
    *out = NULL;
    reader r = {.text = text, .at = text, .end = text + length, .g = grammar_new()};
    if (!r.g) return braid_fail(error, BRAID_MEMORY, "no memory for a grammar");
    read_rules(&r);
    braid_err err = finish(&r, error);
    free(r.names);
    if (err)
        grammar_free(r.g);
    else
        *out = r.g;
    return err;
}
