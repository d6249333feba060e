#include "format/json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct json {
    json_value *values;
    uint32_t count, capacity;
    char *strings;  // decoded text; never longer than the source
};

typedef struct parser {
    const char *text, *at, *end;
    json *doc;
    char *string_end;
    unsigned depth;
    braid_error *error;
} parser;

static braid_err fail(const parser *p, const char *what) {
    size_t line = 1, column = 1;
    for (const char *c = p->text; c < p->at; c++) {
        column = *c == '\n' ? 1 : column + 1;
        line += *c == '\n';
    }
    braid_fail(p->error, BRAID_FORMAT, "not valid JSON: %s at line %zu, column %zu", what, line, column);
    return BRAID_FORMAT;
}

static void skip_space(parser *p) {
    while (p->at < p->end && (*p->at == ' ' || *p->at == '\t' || *p->at == '\n' || *p->at == '\r')) p->at++;
}

static bool take(parser *p, char c) {
    if (p->at == p->end || *p->at != c) return false;
    p->at++;
    return true;
}

static braid_err new_value(parser *p, uint32_t *index) {
    json *doc = p->doc;
    if (doc->count == JSON_MAX_VALUES) return fail(p, "too many values");
    if (doc->count == doc->capacity) {
        uint32_t capacity = doc->capacity ? doc->capacity * 2 : 64;
        json_value *values = realloc(doc->values, capacity * sizeof *values);
        if (!values) {
            braid_fail(p->error, BRAID_MEMORY, "no memory for a JSON document");
            return BRAID_MEMORY;
        }
        doc->values = values;
        doc->capacity = capacity;
    }
    *index = doc->count++;
    doc->values[*index] = (json_value){0};
    return BRAID_OK;
}

static int hex_digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

static bool take_hex4(parser *p, uint32_t *code) {
    if (p->end - p->at < 4) return false;
    *code = 0;
    for (int i = 0; i < 4; i++) {
        int digit = hex_digit(*p->at++);
        if (digit < 0) return false;
        *code = *code << 4 | (uint32_t)digit;
    }
    return true;
}

static char *put_utf8(char *out, uint32_t code) {
    if (code < 0x80) {
        *out++ = (char)code;
        return out;
    }
    unsigned more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
    static const uint8_t lead[] = {0, 0xc0, 0xe0, 0xf0};
    *out++ = (char)(lead[more] | code >> (6 * more));
    while (more-- > 0) *out++ = (char)(0x80 | (code >> (6 * more) & 0x3f));
    return out;
}

// After "\u": reads one code point, which may be encoded as two surrogates.
static bool take_code_point(parser *p, uint32_t *code) {
    uint32_t low;
    if (!take_hex4(p, code) || *code == 0) return false;
    if (*code < 0xd800 || *code > 0xdfff) return true;
    if (*code > 0xdbff || !take(p, '\\') || !take(p, 'u') || !take_hex4(p, &low)) return false;
    if (low < 0xdc00 || low > 0xdfff) return false;
    *code = 0x10000 + ((*code - 0xd800) << 10 | (low - 0xdc00));
    return true;
}

static bool take_escape(parser *p) {
    static const char names[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
    if (p->at == p->end) return false;
    char c = *p->at++;
    if (c == 'u') {
        uint32_t code;
        if (!take_code_point(p, &code)) return false;
        p->string_end = put_utf8(p->string_end, code);
        return true;
    }
    const char *name = c ? strchr(names, c) : NULL;
    if (!name) return false;
    *p->string_end++ = values[name - names];
    return true;
}

// Copies one UTF-8 sequence of two bytes or more; false when it is malformed, overlong or a
// surrogate.
static bool take_utf8(parser *p) {
    uint8_t lead = (uint8_t)*p->at;
    unsigned more = lead >= 0xf0 ? 3 : lead >= 0xe0 ? 2 : 1;
    if (lead < 0xc2 || lead > 0xf4 || p->end - p->at < 1 + (int)more) return false;
    uint32_t code = lead & (0x3fu >> more);
    for (unsigned i = 1; i <= more; i++) {
        uint8_t byte = (uint8_t)p->at[i];
        if ((byte & 0xc0) != 0x80) return false;
        code = code << 6 | (byte & 0x3f);
    }
    static const uint32_t least[] = {0, 0x80, 0x800, 0x10000};
    if (code < least[more] || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff)) return false;
    memcpy(p->string_end, p->at, more + 1);
    p->string_end += more + 1;
    p->at += more + 1;
    return true;
}

// Parses a string after its opening quote.
static braid_err parse_string(parser *p, const char **text, uint32_t *length) {
    char *start = p->string_end;
    while (p->at < p->end && *p->at != '"') {
        uint8_t c = (uint8_t)*p->at;
        bool fine = c >= 0x20;
        if (c == '\\') {
            p->at++;
            fine = take_escape(p);
        } else if (c >= 0x80) {
            fine = take_utf8(p);
        } else {
            *p->string_end++ = *p->at++;
        }
        if (!fine) return fail(p, "a malformed string");
    }
    if (!take(p, '"')) return fail(p, "a string without its end");
    *text = start;
    *length = (uint32_t)(p->string_end - start);
    *p->string_end++ = 0;
    return BRAID_OK;
}

static bool skip_digits(parser *p) {
    const char *start = p->at;
    while (p->at < p->end && *p->at >= '0' && *p->at <= '9') p->at++;
    return p->at > start;
}

static braid_err parse_number(parser *p, json_value *value) {
    const char *start = p->at;
    take(p, '-');
    bool fine = take(p, '0') || skip_digits(p);
    if (fine && take(p, '.')) fine = skip_digits(p);
    if (fine && p->at < p->end && (*p->at == 'e' || *p->at == 'E')) {
        p->at++;
        if (!take(p, '+')) take(p, '-');
        fine = skip_digits(p);
    }
    if (!fine) return fail(p, "a malformed value");
    value->kind = JSON_NUMBER;
    value->length = (uint32_t)(p->at - start);
    value->text = p->string_end;
    memcpy(p->string_end, start, value->length);
    p->string_end += value->length;
    *p->string_end++ = 0;
    return BRAID_OK;
}

static braid_err parse_word(parser *p, json_value *value) {
    static const struct {
        const char *word;
        json_kind kind;
    } words[] = {{"null", JSON_NULL}, {"false", JSON_FALSE}, {"true", JSON_TRUE}};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        size_t n = strlen(words[i].word);
        if ((size_t)(p->end - p->at) < n || memcmp(p->at, words[i].word, n) != 0) continue;
        p->at += n;
        value->kind = words[i].kind;
        return BRAID_OK;
    }
    return parse_number(p, value);
}

static braid_err parse_value(parser *p, uint32_t *index);

static braid_err parse_key(parser *p, const char **key) {
    uint32_t length;
    skip_space(p);
    if (!take(p, '"')) return fail(p, "an object's key is missing");
    braid_err err = parse_string(p, key, &length);
    if (err) return err;
    skip_space(p);
    return take(p, ':') ? BRAID_OK : fail(p, "a ':' is missing");
}

// Parses the children after '{' or '['. Values are identified by index, because the array moves
// when it grows.
static braid_err parse_children(parser *p, uint32_t parent, char end) {
    uint32_t last = 0;
    skip_space(p);
    if (take(p, end)) return BRAID_OK;
    do {
        const char *key = NULL;
        uint32_t child = 0;
        braid_err err = end == '}' ? parse_key(p, &key) : BRAID_OK;
        if (!err) err = parse_value(p, &child);
        if (err) return err;
        json_value *values = p->doc->values;
        values[child].key = key;
        values[parent].count++;
        if (last)
            values[last].next = child;
        else
            values[parent].first = child;
        last = child;
        skip_space(p);
    } while (take(p, ','));
    return take(p, end) ? BRAID_OK : fail(p, "a ',' or a closing bracket is missing");
}

static braid_err parse_value(parser *p, uint32_t *index) {
    skip_space(p);
    braid_err err = new_value(p, index);
    if (err) return err;
    json_value *value = &p->doc->values[*index];
    bool object = p->at < p->end && *p->at == '{', array = p->at < p->end && *p->at == '[';
    if (!object && !array) {
        if (!take(p, '"')) return parse_word(p, value);
        value->kind = JSON_STRING;
        return parse_string(p, &value->text, &value->length);
    }
    if (p->depth == JSON_MAX_DEPTH) return fail(p, "nested too deeply");
    p->at++;
    p->depth++;
    value->kind = object ? JSON_OBJECT : JSON_ARRAY;
    err = parse_children(p, *index, object ? '}' : ']');
    p->depth--;
    return err;
}

static int compare_keys(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static braid_err check_keys_of(const parser *p, const json_value *object) {
    const char **keys = malloc(object->count * sizeof *keys);
    if (!keys) return braid_fail(p->error, BRAID_MEMORY, "no memory for a JSON document");
    uint32_t n = 0;
    for (const json_value *v = json_first(p->doc, object); v; v = json_next(p->doc, v)) keys[n++] = v->key;
    qsort(keys, n, sizeof *keys, compare_keys);
    braid_err err = BRAID_OK;
    for (uint32_t i = 1; i < n && !err; i++)
        if (strcmp(keys[i - 1], keys[i]) == 0)
            err = braid_fail(p->error, BRAID_FORMAT, "not valid JSON: the key '%.64s' appears twice in one object",
                             keys[i]);
    free(keys);
    return err;
}

static braid_err check_keys(const parser *p) {
    for (uint32_t i = 0; i < p->doc->count; i++) {
        if (p->doc->values[i].kind != JSON_OBJECT || p->doc->values[i].count < 2) continue;
        braid_err err = check_keys_of(p, &p->doc->values[i]);
        if (err) return err;
    }
    return BRAID_OK;
}

static braid_err parse_document(parser *p) {
    uint32_t root = 0;
    braid_err err = parse_value(p, &root);
    if (err) return err;
    skip_space(p);
    if (p->at < p->end) return fail(p, "text after the end");
    return check_keys(p);
}

braid_err json_parse(const char *text, size_t length, json **out, braid_error *error) {
    if (length > JSON_MAX_BYTES)
        return braid_fail(error, BRAID_LIMIT, "a JSON document of %zu bytes is too large", length);
    json *doc = calloc(1, sizeof *doc);
    // Numbers are copied with a terminating 0, which at worst ("1,1,1") doubles the text.
    char *strings = malloc(2 * length + 2);
    if (!doc || !strings) {
        free(doc);
        free(strings);
        return braid_fail(error, BRAID_MEMORY, "no memory for a JSON document");
    }
    doc->strings = strings;
    parser p = {.text = text, .at = text, .end = text + length, .doc = doc, .string_end = strings, .error = error};
    braid_err err = parse_document(&p);
    if (err) {
        json_free(doc);
        return err;
    }
    *out = doc;
    return BRAID_OK;
}

void json_free(json *document) {
    if (!document) return;
    free(document->values);
    free(document->strings);
    free(document);
}

const json_value *json_root(const json *document) { return &document->values[0]; }

const json_value *json_first(const json *document, const json_value *of) {
    return of->first ? &document->values[of->first] : NULL;
}

const json_value *json_next(const json *document, const json_value *after) {
    return after->next ? &document->values[after->next] : NULL;
}

const json_value *json_member(const json *document, const json_value *object, const char *key) {
    if (!object || object->kind != JSON_OBJECT) return NULL;
    const json_value *v = json_first(document, object);
    while (v && strcmp(v->key, key) != 0) v = json_next(document, v);
    return v;
}

bool json_u64(const json_value *value, uint64_t *out) {
    if (!value || value->kind != JSON_NUMBER) return false;
    uint64_t n = 0;
    for (const char *c = value->text; *c; c++) {
        if (*c < '0' || *c > '9') return false;
        uint64_t digit = (uint64_t)(*c - '0');
        if (n > (UINT64_MAX - digit) / 10) return false;
        n = n * 10 + digit;
    }
    *out = n;
    return true;
}

bool json_double(const json_value *value, double *out) {
    if (!value || value->kind != JSON_NUMBER) return false;
    *out = strtod(value->text, NULL);
    return isfinite(*out);
}

bool json_bool(const json_value *value, bool *out) {
    if (!value || (value->kind != JSON_TRUE && value->kind != JSON_FALSE)) return false;
    *out = value->kind == JSON_TRUE;
    return true;
}

const char *json_string(const json_value *value) { return value && value->kind == JSON_STRING ? value->text : NULL; }
