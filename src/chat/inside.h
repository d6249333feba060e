// Internal structures and functions shared by the files of this room.
#ifndef BRAID_CHAT_INSIDE_H
#define BRAID_CHAT_INSIDE_H

#include "chat/template.h"
#include "format/json.h"
#include "text/buffer.h"
#include "text/unicode.h"
#include "text/unicode_category.h"

// ---- arena.c: memory that is freed all at once

typedef struct arena_chunk arena_chunk;
typedef struct arena {
    arena_chunk *chunks;  // the newest first
    size_t total, most;   // bytes taken, and their maximum
} arena;

// Zeroed and aligned for every type; NULL: no memory, or more than a->most.
void *arena_take(arena *a, size_t bytes);
void arena_free(arena *a);

// ---- values. All but namespaces are immutable, as in the sandbox of transformers.

typedef enum value_kind {
    VALUE_MISSING,  // an argument that was not given
    VALUE_UNDEFINED,
    VALUE_NONE,
    VALUE_BOOL,
    VALUE_INT,
    VALUE_BIG,  // an integer beyond 64 bits, as its digits; it can only be printed
    VALUE_FLOAT,
    VALUE_STRING,  // UTF-8
    VALUE_LIST,
    VALUE_TUPLE,
    VALUE_DICT,
    VALUE_RANGE,
    VALUE_VIEW,  // keys, values or items of a dict
    VALUE_ITERATOR,
    VALUE_NAMESPACE,
    VALUE_MACRO,
    VALUE_FUNCTION,  // a global of the environment
    VALUE_METHOD,    // of a string, list or dict
    VALUE_LOOP
} value_kind;

typedef struct value value;
typedef struct value_list value_list;
typedef struct value_dict value_dict;
typedef struct value_range value_range;
typedef struct value_undefined value_undefined;
typedef struct value_method value_method;
typedef struct iterator iterator;
typedef struct macro macro;
typedef struct loop loop;
typedef struct scope scope;
typedef struct node node;
typedef struct vm vm;

struct value {
    uint8_t kind;
    uint8_t mark;     // STRING: of the filters safe and escape; VIEW: a view_kind; FUNCTION: a global_kind
    uint32_t length;  // STRING, BIG: bytes
    union {
        bool truth;
        int64_t integer;
        double real;
        const char *text;
        const value_list *list;  // LIST, TUPLE
        value_dict *dict;        // DICT, NAMESPACE, VIEW
        const value_range *range;
        const value_undefined *undefined;
        const value_method *method;
        iterator *iterator;
        const macro *macro;
        loop *loop;
    };
};

typedef enum view_kind { VIEW_KEYS, VIEW_VALUES, VIEW_ITEMS } view_kind;

struct value_list {
    uint32_t count;
    value *items;
};
typedef struct dict_entry {
    value key, value;
} dict_entry;
struct value_dict {
    uint32_t count, capacity;
    dict_entry *entries;  // in the order of insertion
};
struct value_range {
    int64_t start, stop, step;
    uint32_t count;
};
struct value_undefined {
    const char *hint;   // a whole sentence, or NULL
    value_kind holder;  // kind of the value without this attribute; MISSING: a variable
    value name;
};
struct value_method {
    value self;
    const char *name;
};

#define VALUE_OF(k, member, x) ((value){.kind = (uint8_t)(k), .member = (x)})
static inline value value_none(void) { return (value){.kind = VALUE_NONE}; }
static inline value value_bool(bool truth) { return VALUE_OF(VALUE_BOOL, truth, truth); }
static inline value value_int(int64_t n) { return VALUE_OF(VALUE_INT, integer, n); }
static inline value value_float(double x) { return VALUE_OF(VALUE_FLOAT, real, x); }
static inline value value_text(const char *at, size_t length) {
    return (value){.kind = VALUE_STRING, .length = (uint32_t)length, .text = at};
}
#define VALUE_LITERAL(text) value_text("" text, sizeof text - 1)
static inline bool is_text(value v) { return v.kind == VALUE_STRING; }
static inline bool is_list(value v) { return v.kind == VALUE_LIST || v.kind == VALUE_TUPLE; }
static inline bool is_undefined(value v) { return v.kind == VALUE_UNDEFINED; }
static inline bool is_number(value v) { return v.kind == VALUE_BOOL || v.kind == VALUE_INT || v.kind == VALUE_FLOAT; }
static inline bool text_is(value v, const char *text) {
    return is_text(v) && v.length == strlen(text) && memcmp(v.text, text, v.length) == 0;
}

// ---- the syntax tree

typedef enum node_kind {
    // expressions
    NODE_CONST,
    NODE_NAME,
    NODE_LIST,         // list: items
    NODE_TUPLE,        // list: items
    NODE_DICT,         // list: key, value, key, value ...
    NODE_ATTRIBUTE,    // a.text
    NODE_ITEM,         // a[b]
    NODE_SLICE,        // within ITEM: [a:b:c], each may be NULL
    NODE_CALL,         // a(list)
    NODE_FILTER,       // a | text(list); a is NULL in a block
    NODE_TEST,         // a is text(list)
    NODE_KEYWORD,      // argument text=a
    NODE_SPREAD,       // argument *a
    NODE_SPREAD_DICT,  // argument **a
    NODE_NOT,
    NODE_NEGATE,
    NODE_PLUS,
    NODE_AND,
    NODE_OR,
    NODE_BINARY,     // a op b
    NODE_CONCAT,     // list, with ~
    NODE_COMPARE,    // a, then list of OPERAND
    NODE_OPERAND,    // op a
    NODE_CONDITION,  // b if a else c; c may be NULL
    // targets of an assignment besides NAME and TUPLE
    NODE_NAMESPACE_ATTRIBUTE,  // name.text
    // statements; bodies are lists
    NODE_DATA,          // text
    NODE_OUTPUT,        // list of expressions
    NODE_IF,            // a, body list; b: the next IF of an elif, or a BLOCK of else
    NODE_BLOCK,         // list: a body without a condition
    NODE_FOR,           // a: target, b: iterable, c: condition or NULL, list: body, d: BLOCK of else
    NODE_SET,           // a = b
    NODE_SET_BLOCK,     // a = list, through filter b
    NODE_WITH,          // a: SET of each variable, list: body
    NODE_MACRO,         // name, a: parameters, list: body
    NODE_PARAMETER,     // name, a: default
    NODE_CALL_BLOCK,    // a: MACRO without a name, b: CALL
    NODE_FILTER_BLOCK,  // a: FILTER, list: body
    NODE_GENERATION,    // list: body
    NODE_BREAK,
    NODE_CONTINUE
} node_kind;

typedef enum operator_kind {
    OP_ADD,
    OP_SUB,
    OP_MUL,
    OP_DIV,
    OP_FLOORDIV,
    OP_MOD,
    OP_POW,
    OP_EQ,
    OP_NE,
    OP_LT,
    OP_LE,
    OP_GT,
    OP_GE,
    OP_IN,
    OP_NOT_IN
} operator_kind;

enum { MACRO_VARARGS = 1, MACRO_KWARGS = 2, MACRO_CALLER = 4, FOR_RECURSIVE = 8 };  // node.flags

struct node {
    uint8_t kind, op, flags;
    uint16_t depth;  // of the deepest node below, and itself
    uint32_t line;
    uint32_t name;  // interned
    value text;     // constants, names of attributes, filters and tests
    node *a, *b, *c, *d;
    node *list, *next;
};

struct chat_template {
    arena arena;
    char *source;
    value *names;  // interned
    uint32_t name_count, name_capacity;
    node *root;  // BLOCK
};

// ---- lexer.c

typedef enum token_kind {
    TOKEN_END,
    TOKEN_DATA,
    TOKEN_OUTPUT_BEGIN,
    TOKEN_OUTPUT_END,
    TOKEN_TAG_BEGIN,
    TOKEN_TAG_END,
    TOKEN_NAME,
    TOKEN_STRING,
    TOKEN_INTEGER,
    TOKEN_FLOAT,
    TOKEN_OPERATOR
} token_kind;

typedef struct token {
    token_kind kind;
    uint32_t line;
    char sign[3];  // OPERATOR
    value value;   // DATA, NAME, STRING, INTEGER, FLOAT
} token;

enum lexer_state { LEX_TEXT, LEX_TAG, LEX_OUTPUT, LEX_RAW, LEX_DONE };

typedef struct lexer {
    const char *at, *end, *begin;
    arena *arena;
    braid_error *error;
    braid_err err;
    enum lexer_state state;
    uint32_t line;
    bool line_starting;              // the last match ended in a line feed
    bool opened;                     // the token that begins the tag is due
    char closing[CHAT_MAX_NESTING];  // of the open brackets
    unsigned open;
} lexer;

// `source` has line feeds only. Errors set lexer.err once; then every token is TOKEN_END.
void lexer_start(lexer *x, const char *source, size_t length, arena *arena, braid_error *error);
token lexer_next(lexer *x);
// "chat template, line N: ..." with the code BRAID_FORMAT; the first call counts.
void lexer_fail(lexer *x, uint32_t line, const char *format, ...) __attribute__((format(printf, 3, 4)));
// string_literal.c: the value of the characters between two quotes.
bool lexer_unescape(lexer *x, const char *text, size_t length, value *out);

// ---- parser.c, parser_expression.c

typedef struct parser {
    lexer lexer;
    token now, after;
    bool looked;  // `after` is valid
    chat_template *template;
    unsigned nesting, loops;
    bool soft;  // in a branch of `if`: an unknown filter or test is an error only when it is used, as in Jinja
    unsigned macro_flags;  // of names that were used in the macro
    node none;             // stands for a node when memory ran out
} parser;

// Names that have these numbers in every template.
enum { ID_LOOP, ID_VARARGS, ID_KWARGS, ID_CALLER, ID_COUNT };

node *parser_node(parser *p, node_kind kind, uint32_t line);
// Sets the depth of a node from its children.
node *parser_close(parser *p, node *n);
void parser_advance(parser *p);
const token *parser_look(parser *p);
bool parser_is(const parser *p, const char *sign);       // the operator
bool parser_is_name(const parser *p, const char *name);  // the word
bool parser_skip(parser *p, const char *sign);
bool parser_skip_name(parser *p, const char *name);
bool parser_expect(parser *p, const char *sign);
uint32_t parser_intern(parser *p, value name);
bool parser_enter(parser *p);  // one level of nesting; false: too deep
void parser_unexpected(parser *p, const char *expected);
static inline bool parser_failed(const parser *p) { return p->lexer.err != BRAID_OK; }

node *parse_expression(parser *p, bool conditions);
// Expressions with commas between them become a tuple. `end`: a word that ends the tuple, or NULL.
node *parse_tuple(parser *p, bool conditions, const char *end);
// A name, a tuple of names, or with `namespaces` NAME.ATTRIBUTE.
node *parse_target(parser *p, bool namespaces, const char *end);
// The filters from the present '|' on; `in` is NULL in a block. `at_name`: the first has no '|'.
node *parse_filters(parser *p, node *in, bool at_name);
node *parse_template(parser *p);

// ---- the interpreter

typedef struct binding binding;
struct binding {
    uint32_t name;
    value value;
    binding *next;
};
struct scope {
    scope *parent;
    binding *bindings;
};

typedef struct arguments {
    uint32_t count, named_count;
    value *at;
    dict_entry *named;
} arguments;

struct macro {
    const node *node;
    scope *scope;
    value name;
};

typedef enum flow { FLOW_ON, FLOW_BREAK, FLOW_CONTINUE } flow;

struct vm {
    const chat_template *template;
    arena arena;
    uint64_t steps;
    unsigned depth;
    uint32_t line;
    braid_err err;
    braid_error *error;
    buffer *out;
    size_t written;
    scope *scope;
    flow flow;
    const struct tm *now;
    // set by render.c, so that lower files need not know the higher ones
    value (*call)(vm *v, value callee, const arguments *a);
    value (*filter)(vm *v, value name, value in, const arguments *a);
    bool (*test)(vm *v, value name, value in, const arguments *a);
    bool (*test_node)(vm *v, const node *n, scope *s, const node *target, value item);  // of a filtered loop
};

// Each function of the interpreter that fails sets v->err once and returns UNDEFINED, false or 0. Its callers may go on
// for a few operations, and loops ask vm_failed.
static inline bool vm_failed(const vm *v) { return v->err != BRAID_OK; }
value vm_fail(vm *v, const char *format, ...) __attribute__((format(printf, 2, 3)));
value vm_fail_code(vm *v, braid_err code, const char *format, ...) __attribute__((format(printf, 3, 4)));
bool vm_charge(vm *v, uint64_t steps);  // false: failed
void *vm_take(vm *v, size_t bytes);     // zeroed; NULL: failed
void vm_write(vm *v, const char *text, size_t length);

// ---- value.c

const char *kind_name(value_kind kind);  // Python's, e.g. "str"
value undefined_hint(const char *hint);  // `hint` is a literal
value undefined_name(vm *v, value name);
value undefined_member(vm *v, value holder, value name);
value fail_undefined(vm *v, value undefined);  // the sentence about an undefined value that was used
bool value_truth(vm *v, value x);
bool value_equal(vm *v, value a, value b);
int value_order(vm *v, value a, value b);             // -1, 0, 1; fails for types without an order
double value_real(value x);                           // of a number
bool value_length(vm *v, value x, uint32_t *length);  // false: it has none
value value_copy_text(vm *v, const char *text, size_t length);
value value_take_buffer(vm *v, buffer *b);                     // frees it
value value_new_list(vm *v, value_kind kind, uint32_t count);  // its items are MISSING
value value_new_dict(vm *v, uint32_t capacity);
bool dict_put(vm *v, value_dict *d, value key, value x);
const value *dict_find(vm *v, const value_dict *d, value key);
const value *dict_find_text(vm *v, const value_dict *d, const char *key);
bool can_be_key(value x);

// ---- print.c

void print_value(vm *v, value x, buffer *out);  // str()
void print_repr(vm *v, value x, buffer *out);   // repr()
void print_float(double x, buffer *out);
value value_string(vm *v, value x);  // str() as a value

// ---- iterate.c

typedef enum iterator_kind {
    ITERATE_VALUE,    // of a string, list, tuple, dict, range or view
    ITERATE_REVERSE,  // of a list, tuple, range, dict or view
    ITERATE_MAP,      // results of a filter
    ITERATE_MAP_ATTRIBUTE,
    ITERATE_SELECT,  // items for which a test gives `wanted`
    ITERATE_UNIQUE,
    ITERATE_BATCH,
    ITERATE_LOOP  // items for which the condition of a for loop is true
} iterator_kind;

struct iterator {
    iterator_kind kind;
    value source;
    size_t at;       // bytes of a string, else items
    iterator *from;  // of the kinds that wrap another one
    value name;      // of the filter, the attribute or the test; MISSING: truth
    value attribute;
    value fallback;
    bool wanted, plain;  // plain: upper and lower case differ
    arguments arguments;
    value_dict *seen;
    const node *condition, *target;
    scope *scope;
    uint32_t batch;
};

iterator *iterate(vm *v, value x);                   // NULL: failed
bool iterate_next(vm *v, iterator *it, value *out);  // false: the end, or failed
value iterate_list(vm *v, value x);                  // list(x)
bool is_iterable(value x);
value reverse_value(vm *v, value x);
// "a.b.0" or an integer, as the filters take it.
value attribute_path(vm *v, value x, value path, value fallback);

// ---- access.c

value get_attribute(vm *v, value x, value name);
value get_item(vm *v, value x, value key);
value get_slice(vm *v, value x, value start, value stop, value step);

// ---- operators.c

value operate(vm *v, operator_kind op, value a, value b);
bool compare(vm *v, operator_kind op, value a, value b);
bool contains(vm *v, value holder, value x);
value add_values(vm *v, value a, value b);

// ---- strings.c: texts by characters

size_t text_chars(vm *v, value x);
size_t text_offset(value x, size_t chars);                     // bytes before the character
bool is_space(uint32_t c);                                     // Python's
size_t text_find(vm *v, value text, value part, size_t from);  // SIZE_MAX: none
size_t text_rfind(vm *v, value text, value part, size_t end);
value text_strip(vm *v, value x, value chars, bool left, bool right);
typedef enum case_kind { CASE_UPPER, CASE_LOWER, CASE_TITLE, CASE_CAPITAL, CASE_SWAP } case_kind;
value text_case(vm *v, value x, case_kind kind);
value text_title_filter(vm *v, value x);  // of the filter `title`
bool text_is_case(value x, bool upper);
bool text_has_flags(value x, const char *what);  // of str.is...()
value text_replace(vm *v, value x, value old, value new, int64_t most);
value text_split(vm *v, value x, value separator, int64_t most, bool from_right);
value text_lines(vm *v, value x, bool keep);
value text_escape(vm *v, value x);  // for HTML; the result is marked
value text_pad(vm *v, value x, int64_t width, value fill, bool left, bool right);

// ---- arguments.c

// Puts the arguments into out[] in the order of `signature`, names separated by spaces; one that ends in '=' may be absent
// (MISSING). `name` is for the message.
bool take_arguments(vm *v, const arguments *a, const char *name, const char *signature, value *out);
int64_t take_int(vm *v, value x, const char *name, int64_t fallback);  // MISSING, NONE: the fallback

// ---- the tables

value call_method(vm *v, const value_method *m, const arguments *a);
const char *method_name(value_kind kind, value name);  // of a type; NULL: none
value call_string_method(vm *v, value self, const char *name, const arguments *a);
value call_filter(vm *v, value name, value in, const arguments *a);
bool filter_exists(value name);
bool filter_known(value name);  // Jinja has it, braid may not
value filter_json(vm *v, value x, const arguments *a);
void json_quote(const char *text, size_t length, buffer *out);  // tojson.c: as a JSON string; zero bytes are left out
// filters_list.c, filters_text.c; false: not one of theirs
typedef value (*filter_function)(vm *v, value in, const arguments *a);
typedef struct filter_entry {
    const char *name;
    filter_function run;
} filter_entry;
extern const filter_entry filters_of_lists[], filters_of_texts[];  // end with a NULL name
bool call_test(vm *v, value name, value x, const arguments *a);
bool test_exists(value name);
value format_percent(vm *v, value format, value operands);
value format_braces(vm *v, value format, const arguments *a);

typedef enum global_kind {
    GLOBAL_RANGE,
    GLOBAL_DICT,
    GLOBAL_NAMESPACE,
    GLOBAL_RAISE,
    GLOBAL_STRFTIME,
    GLOBAL_LIPSUM,
    GLOBAL_CYCLER,
    GLOBAL_JOINER
} global_kind;
bool find_global(value name, value *out);
value call_global(vm *v, value callee, const arguments *a);

// ---- loop.c: the variable `loop`

struct loop {
    iterator *items;
    value source;  // the iterable, for its length
    const node *node;
    scope *scope;  // outside the loop
    int64_t index0, depth0;
    int64_t length;                // -1: not known
    value before, current, after;  // MISSING: none
    value changed;                 // arguments of the last call of changed()
};
bool loop_next(vm *v, loop *l, value *out);
value loop_attribute(vm *v, loop *l, value name);  // MISSING: it has none
value call_loop_method(vm *v, loop *l, const char *name, const arguments *a);

// ---- eval.c, exec.c

value evaluate(vm *v, const node *n);
bool evaluate_arguments(vm *v, const node *list, arguments *out);
void execute(vm *v, const node *list);
void assign(vm *v, const node *target, value x);
void scope_set(vm *v, uint32_t name, value x);
scope *scope_open(vm *v, scope *parent);
value call_macro(vm *v, const macro *m, const arguments *a);
value run_loop(vm *v, const node *n, scope *outside, value source, int64_t depth0);
value call_value(vm *v, value callee, const arguments *a);
bool loop_keeps(vm *v, const node *condition, scope *s, const node *target, value item);

// ---- from_json.c

// Values of a JSON document; texts are borrowed from it.
value value_from_json(vm *v, const json *d, const json_value *j);

#endif
