// Context-free grammars over bytes, for texts of a prescribed form. Made from GBNF, the notation of
// llama.cpp (grammar_text.c), or from a JSON schema (grammar_schema.c); matched by matcher.h.
//
// Grammars are untrusted: rules, elements and nesting have maxima, and left recursion is refused.
#ifndef BRAID_HTTP_GRAMMAR_H
#define BRAID_HTTP_GRAMMAR_H

#include "format/json.h"

enum {
    GRAMMAR_MAX_RULES = 1 << 14,
    GRAMMAR_MAX_ELEMENTS = 1 << 18,
    GRAMMAR_MAX_SETS = 1 << 14,
    GRAMMAR_MAX_NESTING = 64,
    GRAMMAR_MAX_CHAIN = 1000,   // rules that begin with one another
    GRAMMAR_MAX_REPEAT = 4096,  // of {m,n}
};

typedef enum grammar_kind { GRAMMAR_END, GRAMMAR_SET, GRAMMAR_RULE } grammar_kind;

typedef struct grammar_element {
    grammar_kind kind;
    uint32_t value;  // a set of bytes, or a rule
} grammar_element;

typedef struct grammar_set {
    uint64_t bits[4];
} grammar_set;

// An alternative of a rule: elements [first, ...) up to GRAMMAR_END.
typedef struct grammar_alternative {
    uint32_t rule, first;
} grammar_alternative;

typedef struct grammar {
    grammar_element *element;          // [elements]
    grammar_set *set;                  // [sets]
    grammar_alternative *alternative;  // [alternatives], ordered by rule
    uint32_t *first_of;                // [rules + 1], the alternatives of a rule
    uint32_t elements, sets, alternatives, rules, root;
    uint32_t element_capacity, set_capacity, alternative_capacity;
    braid_error error;  // the first mistake while it is made
} grammar;

static inline bool grammar_set_has(const grammar_set *s, unsigned char byte) {
    return s->bits[byte >> 6] >> (byte & 63) & 1;
}

// ---- making one: rules and alternatives in any order, an alternative with all its elements at once
grammar *grammar_new(void);  // NULL: no memory
void grammar_free(grammar *g);
uint32_t grammar_rule(grammar *g);  // a new rule
// A sequence of elements under way; `elements` grow in it.
typedef struct grammar_sequence {
    grammar_element *at;
    uint32_t count, capacity;
} grammar_sequence;
void grammar_put(grammar *g, grammar_sequence *s, grammar_kind kind, uint32_t value);
void grammar_put_text(grammar *g, grammar_sequence *s, const char *text, size_t length);
// One of the code points in the ranges [from, to], or one that is in none of them.
typedef struct grammar_range {
    uint32_t from, to;
} grammar_range;
void grammar_put_class(grammar *g, grammar_sequence *s, const grammar_range *ranges, uint32_t count, bool inverse);
// The sequence as an alternative of a rule; frees it.
void grammar_alternative_add(grammar *g, uint32_t rule, grammar_sequence *s);
// A new rule that repeats `item` from `least` to `most` times (UINT32_MAX: any number).
uint32_t grammar_repeat(grammar *g, uint32_t item, uint32_t least, uint32_t most);
// Orders and checks. The grammar is read-only afterwards.
braid_err grammar_finish(grammar *g, uint32_t root, braid_error *error);

// ---- from texts; free with grammar_free
braid_err grammar_from_text(const char *text, size_t length, grammar **out, braid_error *error);
// Objects have their properties in the order of the schema; those that are not required may be
// absent. Unsupported keywords are refused by name.
braid_err grammar_from_schema(const json *doc, const json_value *schema, grammar **out, braid_error *error);
// Any JSON object.
braid_err grammar_of_objects(grammar **out, braid_error *error);
// Adds the rule of a schema to a grammar under way.
uint32_t grammar_add_schema(grammar *g, const json *doc, const json_value *schema);

#endif
