// JSON schemas (draft 2020-12) as grammars of the JSON texts that satisfy them.
#include "http/grammar.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_ITEMS = 1024, MAX_LENGTH = 4096, MAX_REFERENCES = 256, MAX_PROPERTIES = 256 };

typedef struct reference {
    const json_value *schema;
    uint32_t rule;
} reference;

typedef struct maker {
    grammar *g;
    const json *doc;
    const json_value *root;
    reference reference[MAX_REFERENCES];
    uint32_t references;
    uint32_t depth;
    // rules of JSON itself, UINT32_MAX: not made yet
    uint32_t space, string, character, integer, number, value;
} maker;

static uint32_t schema_rule(maker *m, const json_value *schema);

static void refuse(maker *m, const char *format, const char *name) {
    if (m->g->error.code) return;
    braid_fail(&m->g->error, BRAID_ARGUMENT, format, name);
}

// ---- short ways to write rules

static void text(maker *m, grammar_sequence *s, const char *t) { grammar_put_text(m->g, s, t, strlen(t)); }
static void rule(maker *m, grammar_sequence *s, uint32_t r) { grammar_put(m->g, s, GRAMMAR_RULE, r); }

// A rule from GBNF's notation of one class, or of a text.
static uint32_t class_rule(maker *m, const grammar_range *ranges, uint32_t count, bool inverse) {
    grammar_sequence s = {0};
    uint32_t r = grammar_rule(m->g);
    grammar_put_class(m->g, &s, ranges, count, inverse);
    grammar_alternative_add(m->g, r, &s);
    return r;
}

static uint32_t text_rule(maker *m, const char *t) {
    grammar_sequence s = {0};
    uint32_t r = grammar_rule(m->g);
    text(m, &s, t);
    grammar_alternative_add(m->g, r, &s);
    return r;
}

static void alternative(maker *m, uint32_t to, uint32_t r) {
    grammar_sequence s = {0};
    rule(m, &s, r);
    grammar_alternative_add(m->g, to, &s);
}

// ---- JSON itself

// Nothing, a space, or a line break with indentation: enough for each usual layout, and finite.
static uint32_t space_rule(maker *m) {
    if (m->space != UINT32_MAX) return m->space;
    uint32_t r = m->space = grammar_rule(m->g);
    grammar_sequence s = {0};
    grammar_alternative_add(m->g, r, &s);
    text(m, &s, " ");
    grammar_alternative_add(m->g, r, &s);
    text(m, &s, "\n");
    rule(m, &s, grammar_repeat(m->g, text_rule(m, " "), 0, 24));
    grammar_alternative_add(m->g, r, &s);
    return r;
}

static uint32_t character_rule(maker *m) {
    static const grammar_range plain[] = {{0, 0x1f}, {'"', '"'}, {'\\', '\\'}, {0x7f, 0x7f}};
    static const grammar_range escaped[] = {{'"', '"'}, {'\\', '\\'}, {'/', '/'}, {'b', 'b'},
                                            {'f', 'f'}, {'n', 'n'},   {'r', 'r'}, {'t', 't'}};
    // \u stands for characters that are no surrogates; those need two escapes, and are written as they are
    static const grammar_range hex[] = {{'0', '9'}, {'a', 'f'}, {'A', 'F'}};
    static const grammar_range not_d[] = {{'1', '9'}, {'a', 'c'}, {'e', 'f'}, {'A', 'C'}, {'E', 'F'}};
    static const grammar_range low[] = {{'0', '7'}}, d[] = {{'d', 'd'}, {'D', 'D'}},
                               one[] = {{'1', '9'}, {'a', 'f'}, {'A', 'F'}};
    if (m->character != UINT32_MAX) return m->character;
    uint32_t r = m->character = grammar_rule(m->g), digit = class_rule(m, hex, 3, false);
    grammar_sequence s = {0};
    alternative(m, r, class_rule(m, plain, 4, true));
    text(m, &s, "\\");
    rule(m, &s, class_rule(m, escaped, 8, false));
    grammar_alternative_add(m->g, r, &s);
    const struct {
        const grammar_range *first;
        uint32_t count;
        const grammar_range *second;
        uint32_t second_count;
    } codes[] = {{not_d, 5, hex, 3}, {d, 2, low, 1}};
    for (int i = 0; i < 2; i++) {
        text(m, &s, "\\u");
        rule(m, &s, class_rule(m, codes[i].first, codes[i].count, false));
        rule(m, &s, class_rule(m, codes[i].second, codes[i].second_count, false));
        rule(m, &s, digit);
        rule(m, &s, digit);
        grammar_alternative_add(m->g, r, &s);
    }
    text(m, &s, "\\u0");  // not the zero byte
    rule(m, &s, class_rule(m, one, 3, false));
    rule(m, &s, digit);
    rule(m, &s, digit);
    grammar_alternative_add(m->g, r, &s);
    text(m, &s, "\\u00");
    rule(m, &s, class_rule(m, one, 3, false));
    rule(m, &s, digit);
    grammar_alternative_add(m->g, r, &s);
    return r;
}

static uint32_t quoted(maker *m, uint32_t inside) {
    grammar_sequence s = {0};
    uint32_t r = grammar_rule(m->g);
    text(m, &s, "\"");
    rule(m, &s, inside);
    text(m, &s, "\"");
    grammar_alternative_add(m->g, r, &s);
    return r;
}

static uint32_t string_rule(maker *m) {
    if (m->string == UINT32_MAX) m->string = quoted(m, grammar_repeat(m->g, character_rule(m), 0, UINT32_MAX));
    return m->string;
}

static uint32_t digits(maker *m, uint32_t least, uint32_t most) {
    static const grammar_range ten[] = {{'0', '9'}};
    return grammar_repeat(m->g, class_rule(m, ten, 1, false), least, most);
}

static uint32_t integer_rule(maker *m) {
    static const grammar_range nine[] = {{'1', '9'}};
    if (m->integer != UINT32_MAX) return m->integer;
    uint32_t r = m->integer = grammar_rule(m->g), sign = grammar_repeat(m->g, text_rule(m, "-"), 0, 1);
    grammar_sequence s = {0};
    text(m, &s, "0");
    grammar_alternative_add(m->g, r, &s);
    rule(m, &s, sign);
    rule(m, &s, class_rule(m, nine, 1, false));
    rule(m, &s, digits(m, 0, 17));
    grammar_alternative_add(m->g, r, &s);
    return r;
}

static uint32_t number_rule(maker *m) {
    static const grammar_range e[] = {{'e', 'e'}, {'E', 'E'}}, signs[] = {{'-', '-'}, {'+', '+'}};
    if (m->number != UINT32_MAX) return m->number;
    uint32_t r = m->number = grammar_rule(m->g), fraction = grammar_rule(m->g), exponent = grammar_rule(m->g);
    grammar_sequence s = {0};
    text(m, &s, ".");
    rule(m, &s, digits(m, 1, 17));
    grammar_alternative_add(m->g, fraction, &s);
    rule(m, &s, class_rule(m, e, 2, false));
    rule(m, &s, grammar_repeat(m->g, class_rule(m, signs, 2, false), 0, 1));
    rule(m, &s, digits(m, 1, 3));
    grammar_alternative_add(m->g, exponent, &s);
    for (int zero = 0; zero < 2; zero++) {
        if (zero)
            text(m, &s, "-0");
        else
            rule(m, &s, integer_rule(m));
        rule(m, &s, grammar_repeat(m->g, fraction, zero ? 1 : 0, 1));
        rule(m, &s, grammar_repeat(m->g, exponent, 0, 1));
        grammar_alternative_add(m->g, r, &s);
    }
    return r;
}

// open, items with commas, close. `more`: a comma and an item.
static void put_list(maker *m, uint32_t to, const char *open, uint32_t item, uint32_t least, uint32_t most,
                     const char *close) {
    uint32_t space = space_rule(m), more = grammar_rule(m->g);
    grammar_sequence s = {0};
    rule(m, &s, space);
    text(m, &s, ",");
    rule(m, &s, space);
    rule(m, &s, item);
    grammar_alternative_add(m->g, more, &s);
    if (least == 0) {
        text(m, &s, open);
        rule(m, &s, space);
        text(m, &s, close);
        grammar_alternative_add(m->g, to, &s);
    }
    if (most == 0) return;
    text(m, &s, open);
    rule(m, &s, space);
    rule(m, &s, item);
    rule(m, &s, grammar_repeat(m->g, more, least > 0 ? least - 1 : 0, most == UINT32_MAX ? most : most - 1));
    rule(m, &s, space);
    text(m, &s, close);
    grammar_alternative_add(m->g, to, &s);
}

static uint32_t member_rule(maker *m, uint32_t key, uint32_t value) {
    uint32_t r = grammar_rule(m->g), space = space_rule(m);
    grammar_sequence s = {0};
    rule(m, &s, key);
    rule(m, &s, space);
    text(m, &s, ":");
    rule(m, &s, space);
    rule(m, &s, value);
    grammar_alternative_add(m->g, r, &s);
    return r;
}

static uint32_t value_rule(maker *m) {
    if (m->value != UINT32_MAX) return m->value;
    uint32_t r = m->value = grammar_rule(m->g), member = member_rule(m, string_rule(m), r);
    put_list(m, r, "{", member, 0, UINT32_MAX, "}");
    put_list(m, r, "[", r, 0, UINT32_MAX, "]");
    alternative(m, r, string_rule(m));
    alternative(m, r, number_rule(m));
    alternative(m, r, text_rule(m, "true"));
    alternative(m, r, text_rule(m, "false"));
    alternative(m, r, text_rule(m, "null"));
    return r;
}

// ---- keywords

static const json_value *member(const maker *m, const json_value *schema, const char *key) {
    return json_member(m->doc, schema, key);
}

static uint32_t bound(maker *m, const json_value *schema, const char *key, uint32_t otherwise, uint32_t most) {
    const json_value *v = member(m, schema, key);
    uint64_t n;
    if (!v) return otherwise;
    if (json_u64(v, &n) && n <= most) return (uint32_t)n;
    refuse(m, "'%s' in the schema is no whole number, or too large", key);
    return 0;
}

static uint32_t constant_rule(maker *m, const json_value *v) {
    json_out o = {0};
    json_out_value(&o, NULL, m->doc, v);
    char *t = json_out_take(&o, NULL);
    uint32_t r = t ? text_rule(m, t) : 0;
    if (!t) braid_fail(&m->g->error, BRAID_MEMORY, "no memory for a grammar");
    free(t);
    return r;
}

static uint32_t string_of(maker *m, const json_value *schema) {
    uint32_t least = bound(m, schema, "minLength", 0, MAX_LENGTH);
    uint32_t most = bound(m, schema, "maxLength", UINT32_MAX, MAX_LENGTH);
    if (least == 0 && most == UINT32_MAX) return string_rule(m);
    if (least > most) refuse(m, "'minLength' is larger than 'maxLength'%s", "");
    return quoted(m, grammar_repeat(m->g, character_rule(m), least, most));
}

static uint32_t array_of(maker *m, const json_value *schema) {
    const json_value *items = member(m, schema, "items");
    uint32_t least = bound(m, schema, "minItems", 0, MAX_ITEMS),
             most = bound(m, schema, "maxItems", UINT32_MAX, MAX_ITEMS);
    uint32_t r = grammar_rule(m->g);
    if (least > most) refuse(m, "'minItems' is larger than 'maxItems'%s", "");
    if (m->g->error.code) return r;
    put_list(m, r, "[", items ? schema_rule(m, items) : value_rule(m), least, most, "]");
    return r;
}

static bool is_required(const maker *m, const json_value *schema, const char *key) {
    const json_value *list = member(m, schema, "required");
    if (!list || list->kind != JSON_ARRAY) return false;
    for (const json_value *v = json_first(m->doc, list); v; v = json_next(m->doc, v))
        if (json_string(v) && strcmp(json_string(v), key) == 0) return true;
    return false;
}

// The rest of an object from property `i` on. `tail[i]` follows a property, `head[i]` nothing yet:
//
//   head[i] ::= member[i] tail[i+1]  |  head[i+1] if it is not required
//   tail[i] ::= "," member[i] tail[i+1]  |  tail[i+1] if it is not required
typedef struct object {
    uint32_t member, head, tail;
    bool required;
} object;

static void put_property(maker *m, object *o, uint32_t space) {
    grammar_sequence s = {0};
    rule(m, &s, o->member);
    rule(m, &s, o[1].tail);
    grammar_alternative_add(m->g, o->head, &s);
    rule(m, &s, space);
    text(m, &s, ",");
    rule(m, &s, space);
    rule(m, &s, o->member);
    rule(m, &s, o[1].tail);
    grammar_alternative_add(m->g, o->tail, &s);
    if (o->required) return;
    alternative(m, o->head, o[1].head);
    alternative(m, o->tail, o[1].tail);
}

// The members that the schema does not name: none, or any number.
static void put_others(maker *m, object *last, const json_value *others, uint32_t space) {
    grammar_sequence s = {0};
    grammar_alternative_add(m->g, last->head, &s);
    grammar_alternative_add(m->g, last->tail, &s);
    if (!others || others->kind == JSON_FALSE) return;
    uint32_t value = others->kind == JSON_OBJECT ? schema_rule(m, others) : value_rule(m);
    uint32_t one = member_rule(m, string_rule(m), value), more = grammar_rule(m->g), all;
    rule(m, &s, space);
    text(m, &s, ",");
    rule(m, &s, space);
    rule(m, &s, one);
    grammar_alternative_add(m->g, more, &s);
    all = grammar_repeat(m->g, more, 0, UINT32_MAX);
    rule(m, &s, one);
    rule(m, &s, all);
    grammar_alternative_add(m->g, last->head, &s);
    rule(m, &s, more);
    rule(m, &s, all);
    grammar_alternative_add(m->g, last->tail, &s);
}

static uint32_t object_of(maker *m, const json_value *schema) {
    const json_value *properties = member(m, schema, "properties"), *others = member(m, schema, "additionalProperties");
    static const json_value any = {.kind = JSON_TRUE};
    uint32_t r = grammar_rule(m->g), space = space_rule(m), count = properties ? properties->count : 0, i = 0;
    if (properties && properties->kind != JSON_OBJECT) refuse(m, "'%s' in the schema is no object", "properties");
    if (count > MAX_PROPERTIES) refuse(m, "the schema has more than 256 properties in one object%s", "");
    if (m->g->error.code) return r;
    object *o = calloc(count + 1u, sizeof *o);
    if (!o) {
        braid_fail(&m->g->error, BRAID_MEMORY, "no memory for a grammar");
        return r;
    }
    for (uint32_t k = 0; k <= count; k++) o[k] = (object){.head = grammar_rule(m->g), .tail = grammar_rule(m->g)};
    const json_value *p = properties ? json_first(m->doc, properties) : NULL;
    for (; p && !m->g->error.code; p = json_next(m->doc, p), i++) {
        const json_value key = {.kind = JSON_STRING, .text = p->key};
        o[i].required = is_required(m, schema, p->key);
        o[i].member = member_rule(m, constant_rule(m, &key), schema_rule(m, p));
        put_property(m, &o[i], space);
    }
    put_others(m, &o[count], others || count > 0 ? others : &any, space);
    grammar_sequence s = {0};
    text(m, &s, "{");
    rule(m, &s, space);
    rule(m, &s, o[0].head);
    rule(m, &s, space);
    text(m, &s, "}");
    grammar_alternative_add(m->g, r, &s);
    free(o);
    return r;
}

static uint32_t type_rule(maker *m, const json_value *schema, const char *type) {
    if (strcmp(type, "string") == 0) return string_of(m, schema);
    if (strcmp(type, "integer") == 0) return integer_rule(m);
    if (strcmp(type, "number") == 0) return number_rule(m);
    if (strcmp(type, "null") == 0) return text_rule(m, "null");
    if (strcmp(type, "array") == 0) return array_of(m, schema);
    if (strcmp(type, "object") == 0) return object_of(m, schema);
    if (strcmp(type, "boolean") != 0) refuse(m, "'%.64s' is no type of a JSON schema", type);
    uint32_t r = grammar_rule(m->g);
    alternative(m, r, text_rule(m, "true"));
    alternative(m, r, text_rule(m, "false"));
    return r;
}

static uint32_t any_of(maker *m, const json_value *list, bool constants) {
    uint32_t r = grammar_rule(m->g);
    if (list->kind != JSON_ARRAY || list->count == 0) refuse(m, "a list of the schema is empty%s", "");
    for (const json_value *v = json_first(m->doc, list); v && !m->g->error.code; v = json_next(m->doc, v)) {
        if (constants)
            alternative(m, r, constant_rule(m, v));
        else
            alternative(m, r, schema_rule(m, v));
    }
    return r;
}

// "#/$defs/name", "#".
static const json_value *resolve(maker *m, const char *path) {
    const json_value *at = m->root;
    if (*path++ != '#') return NULL;
    while (at && *path == '/') {
        char key[256];
        size_t n = 0;
        for (path++; *path && *path != '/' && n < sizeof key - 1; path++) {
            key[n] = *path;
            if (*path == '~' && (path[1] == '0' || path[1] == '1')) key[n] = *++path == '1' ? '/' : '~';
            n++;
        }
        key[n] = 0;
        at = member(m, at, key);
    }
    return *path == 0 ? at : NULL;
}

// Each schema that is referred to is one rule, so schemas may contain themselves.
static uint32_t reference_rule(maker *m, const char *path) {
    const json_value *schema = resolve(m, path);
    if (!schema) refuse(m, "the schema refers to '%.100s', which is not in it", path);
    for (uint32_t i = 0; schema && i < m->references; i++)
        if (m->reference[i].schema == schema) return m->reference[i].rule;
    if (m->references == MAX_REFERENCES) refuse(m, "the schema has too many references%s", "");
    if (m->g->error.code) return 0;
    uint32_t r = grammar_rule(m->g);
    m->reference[m->references++] = (reference){schema, r};
    alternative(m, r, schema_rule(m, schema));
    return r;
}

// Keywords that restrict a value and are not part of the grammar.
static void check_keywords(maker *m, const json_value *schema) {
    static const char *const refused[] = {
        "pattern",  "minimum",           "maximum",          "exclusiveMinimum", "multipleOf",    "not",
        "if",       "patternProperties", "uniqueItems",      "minProperties",    "maxProperties", "exclusiveMaximum",
        "contains", "prefixItems",       "dependentSchemas", "propertyNames"};
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        const json_value *v = member(m, schema, refused[i]);
        if (v && v->kind != JSON_FALSE) refuse(m, "'%s' is not supported in a schema", refused[i]);
    }
}

static uint32_t types_rule(maker *m, const json_value *schema, const json_value *types) {
    uint32_t r = grammar_rule(m->g);
    for (const json_value *v = json_first(m->doc, types); v && !m->g->error.code; v = json_next(m->doc, v))
        alternative(m, r, type_rule(m, schema, json_string(v) ? json_string(v) : ""));
    if (types->count == 0) refuse(m, "a list of the schema is empty%s", "");
    return r;
}

static uint32_t keyword_rule(maker *m, const json_value *schema) {
    const json_value *v;
    check_keywords(m, schema);
    if (m->g->error.code) return 0;
    if ((v = member(m, schema, "$ref"))) return reference_rule(m, json_string(v) ? json_string(v) : "");
    if ((v = member(m, schema, "const"))) return constant_rule(m, v);
    if ((v = member(m, schema, "enum"))) return any_of(m, v, true);
    if ((v = member(m, schema, "anyOf"))) return any_of(m, v, false);
    if ((v = member(m, schema, "oneOf"))) return any_of(m, v, false);
    if ((v = member(m, schema, "allOf"))) {
        if (v->kind == JSON_ARRAY && v->count == 1) return schema_rule(m, json_first(m->doc, v));
        refuse(m, "'%s' with more than one schema is not supported", "allOf");
        return 0;
    }
    if ((v = member(m, schema, "type")) && v->kind == JSON_ARRAY) return types_rule(m, schema, v);
    if (v) return type_rule(m, schema, json_string(v) ? json_string(v) : "");
    if (member(m, schema, "properties")) return object_of(m, schema);
    if (member(m, schema, "items")) return array_of(m, schema);
    return value_rule(m);
}

static uint32_t schema_rule(maker *m, const json_value *schema) {
    if (m->g->error.code) return 0;
    if (schema->kind == JSON_TRUE) return value_rule(m);
    if (schema->kind != JSON_OBJECT) refuse(m, "a schema must be an object%s", "");
    if (m->depth == GRAMMAR_MAX_NESTING) refuse(m, "the schema is nested too deeply%s", "");
    if (m->g->error.code) return 0;
    m->depth++;
    uint32_t r = keyword_rule(m, schema);
    m->depth--;
    return r;
}

static void begin(maker *m, grammar *g, const json *doc, const json_value *root) {
    *m = (maker){.g = g, .doc = doc, .root = root};
    m->space = m->string = m->character = m->integer = m->number = m->value = UINT32_MAX;
}

uint32_t grammar_add_schema(grammar *g, const json *doc, const json_value *schema) {
    maker *m = malloc(sizeof *m);
    if (!m) {
        if (!g->error.code) braid_fail(&g->error, BRAID_MEMORY, "no memory for a grammar");
        return 0;
    }
    begin(m, g, doc, schema);
    uint32_t r = schema_rule(m, schema);
    free(m);
    return r;
}

braid_err grammar_from_schema(const json *doc, const json_value *schema, grammar **out, braid_error *error) {
    *out = NULL;
    grammar *g = grammar_new();
    if (!g) return braid_fail(error, BRAID_MEMORY, "no memory for a grammar");
    braid_err err = grammar_finish(g, grammar_add_schema(g, doc, schema), error);
    if (err)
        grammar_free(g);
    else
        *out = g;
    return err;
}

braid_err grammar_of_objects(grammar **out, braid_error *error) {
    static const char schema[] = "{\"type\":\"object\"}";
    json *doc = NULL;
    braid_err err = json_parse(schema, sizeof schema - 1, &doc, error);
    if (!err) err = grammar_from_schema(doc, json_root(doc), out, error);
    json_free(doc);
    return err;
}
