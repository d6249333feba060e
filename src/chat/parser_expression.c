// Expressions, with Jinja's precedence: if-else, or, and, not, comparison, + -, ~, * / // %, **, unary, postfix, filters.
#include "chat/inside.h"

static node *parse_unary(parser *p, bool with_filters);
static node *parse_postfix(parser *p, node *n);
static node *parse_primary(parser *p, bool namespaces);

static node *wrap(parser *p, node_kind kind, uint32_t line, node *a, node *b) {
    node *n = parser_node(p, kind, line);
    n->a = a;
    n->b = b;
    return parser_close(p, n);
}

static node *constant(parser *p, value x, uint32_t line) {
    node *n = parser_node(p, NODE_CONST, line);
    n->text = x;
    return n;
}

// ---- arguments and subscripts

static node *parse_argument(parser *p) {
    uint32_t line = p->now.line;
    if (parser_skip(p, "**")) return wrap(p, NODE_SPREAD_DICT, line, parse_expression(p, true), NULL);
    if (parser_skip(p, "*")) return wrap(p, NODE_SPREAD, line, parse_expression(p, true), NULL);
    const token *after = p->now.kind == TOKEN_NAME ? parser_look(p) : NULL;
    if (!after || after->kind != TOKEN_OPERATOR || strcmp(after->sign, "=") != 0) return parse_expression(p, true);
    value name = p->now.value;
    parser_advance(p);
    parser_advance(p);
    node *n = parser_node(p, NODE_KEYWORD, line);
    n->text = name;
    n->a = parse_expression(p, true);
    return parser_close(p, n);
}

// The rules of Python for the order of arguments.
static bool argument_fits(unsigned *state, node_kind kind) {
    unsigned rank = kind == NODE_SPREAD_DICT ? 3 : kind == NODE_SPREAD ? 2 : kind == NODE_KEYWORD ? 1 : 0;
    bool fits = rank == 0 ? *state == 0 : rank == 1 ? *state < 3 : *state < rank;
    if (rank > *state) *state = rank;
    return fits;
}

// From '(' to ')'; the arguments become the list of `n`.
static void parse_arguments(parser *p, node *n) {
    node **last = &n->list;
    unsigned state = 0;
    parser_expect(p, "(");
    while (!parser_failed(p) && !parser_is(p, ")")) {
        if (n->list && (!parser_expect(p, ",") || parser_is(p, ")"))) break;
        uint32_t line = p->now.line;
        *last = parse_argument(p);
        if (!argument_fits(&state, (node_kind)(*last)->kind))
            lexer_fail(&p->lexer, line, "the arguments of a call are in a wrong order");
        last = &(*last)->next;
    }
    parser_expect(p, ")");
}

static bool slice_ends(parser *p) { return parser_is(p, ":") || parser_is(p, "]") || parser_is(p, ","); }

static node *parse_subscript_item(parser *p) {
    uint32_t line = p->now.line;
    node *first = parser_is(p, ":") ? NULL : parse_expression(p, true);
    if (!parser_skip(p, ":")) return first;
    node *n = parser_node(p, NODE_SLICE, line);
    n->a = first;
    if (!slice_ends(p)) n->b = parse_expression(p, true);
    if (parser_skip(p, ":") && !slice_ends(p)) n->c = parse_expression(p, true);
    return parser_close(p, n);
}

static node *parse_subscript(parser *p, node *of, uint32_t line) {
    node *first = NULL, **last = &first;
    unsigned count = 0;
    while (!parser_failed(p) && !parser_is(p, "]")) {
        if (count > 0 && !parser_expect(p, ",")) break;
        *last = parse_subscript_item(p);
        last = &(*last)->next;
        count++;
    }
    parser_expect(p, "]");
    if (count == 1) return wrap(p, NODE_ITEM, line, of, first);
    node *key = parser_node(p, NODE_TUPLE, line);
    key->list = first;
    for (node *n = first; n; n = n->next)
        if (n->kind == NODE_SLICE) lexer_fail(&p->lexer, n->line, "a slice in a tuple is not supported");
    return wrap(p, NODE_ITEM, line, of, parser_close(p, key));
}

static node *parse_dot(parser *p, node *of, uint32_t line) {
    token t = p->now;
    if (t.kind != TOKEN_NAME && t.kind != TOKEN_INTEGER) {
        parser_unexpected(p, "a name or a number");
        return of;
    }
    parser_advance(p);
    if (t.kind == TOKEN_INTEGER) return wrap(p, NODE_ITEM, line, of, constant(p, t.value, t.line));
    if (t.value.length >= 2 && memcmp(t.value.text, "__", 2) == 0)
        lexer_fail(&p->lexer, t.line, "the attribute '%.*s' is internal to Python", (int)t.value.length, t.value.text);
    node *n = parser_node(p, NODE_ATTRIBUTE, line);
    n->a = of;
    n->text = t.value;
    return parser_close(p, n);
}

static node *parse_call(parser *p, node *callee) {
    node *n = parser_node(p, NODE_CALL, p->now.line);
    n->a = callee;
    parse_arguments(p, n);
    return parser_close(p, n);
}

static node *parse_postfix(parser *p, node *n) {
    while (!parser_failed(p)) {
        uint32_t line = p->now.line;
        if (parser_is(p, "(")) {
            n = parse_call(p, n);
        } else if (parser_skip(p, ".")) {
            n = parse_dot(p, n, line);
        } else if (parser_skip(p, "[")) {
            n = parse_subscript(p, n, line);
        } else {
            break;
        }
    }
    return n;
}

// ---- filters and tests

static void check_filter(parser *p, value name, uint32_t line) {
    if (filter_exists(name) || p->soft) return;
    lexer_fail(&p->lexer, line, filter_known(name) ? "the filter '%.*s' is not supported" : "there is no filter '%.*s'",
               (int)name.length, name.text);
}

static node *parse_filter(parser *p, node *in) {
    node *n = parser_node(p, NODE_FILTER, p->now.line);
    n->a = in;
    n->text = p->now.value;
    if (p->now.kind != TOKEN_NAME) {
        parser_unexpected(p, "the name of a filter");
        return n;
    }
    check_filter(p, n->text, n->line);
    parser_advance(p);
    if (parser_is(p, "(")) parse_arguments(p, n);
    return parser_close(p, n);
}

node *parse_filters(parser *p, node *in, bool at_name) {
    if (at_name) in = parse_filter(p, in);
    while (!parser_failed(p) && parser_skip(p, "|")) in = parse_filter(p, in);
    return in;
}

// An argument without parentheses, as in `x is divisibleby 3`.
static bool bare_argument(const parser *p) {
    if (p->now.kind == TOKEN_NAME)
        return !parser_is_name(p, "else") && !parser_is_name(p, "or") && !parser_is_name(p, "and");
    return p->now.kind == TOKEN_STRING || p->now.kind == TOKEN_INTEGER || p->now.kind == TOKEN_FLOAT ||
           parser_is(p, "[") || parser_is(p, "{");
}

static node *parse_test(parser *p, node *of, uint32_t line) {
    bool negated = parser_skip_name(p, "not");
    node *n = parser_node(p, NODE_TEST, line);
    n->a = of;
    n->text = p->now.value;
    if (p->now.kind != TOKEN_NAME)
        parser_unexpected(p, "the name of a test");
    else if (!test_exists(n->text) && !p->soft)
        lexer_fail(&p->lexer, line, "there is no test '%.*s'", (int)n->text.length, n->text.text);
    parser_advance(p);
    if (parser_is(p, "(")) {
        parse_arguments(p, n);
    } else if (bare_argument(p)) {
        if (parser_is_name(p, "is")) lexer_fail(&p->lexer, line, "tests with 'is' cannot be chained");
        n->list = parse_postfix(p, parse_primary(p, false));
    }
    n = parser_close(p, n);
    return negated ? wrap(p, NODE_NOT, line, n, NULL) : n;
}

static node *parse_filters_and_tests(parser *p, node *n) {
    while (!parser_failed(p)) {
        uint32_t line = p->now.line;
        if (parser_is(p, "|"))
            n = parse_filters(p, n, false);
        else if (parser_skip_name(p, "is"))
            n = parse_test(p, n, line);
        else if (parser_is(p, "("))
            n = parse_call(p, n);
        else
            break;
    }
    return n;
}

// ---- literals and names

static node *parse_string(parser *p) {
    token t = p->now;
    parser_advance(p);
    buffer joined = {0};
    if (p->now.kind != TOKEN_STRING) return constant(p, t.value, t.line);
    buffer_add(&joined, t.value.text, t.value.length);
    for (; p->now.kind == TOKEN_STRING; parser_advance(p)) buffer_add(&joined, p->now.value.text, p->now.value.length);
    char *text = arena_take(&p->template->arena, joined.count + 1);
    if (!text || joined.failed)
        lexer_fail(&p->lexer, t.line, "no memory for a string");
    else
        memcpy(text, joined.at, joined.count);
    node *n = constant(p, value_text(text, text ? joined.count : 0), t.line);
    buffer_free(&joined);
    return n;
}

static node *parse_list(parser *p, uint32_t line) {
    node *n = parser_node(p, NODE_LIST, line), **last = &n->list;
    while (!parser_failed(p) && !parser_is(p, "]")) {
        if (n->list && (!parser_expect(p, ",") || parser_is(p, "]"))) break;
        *last = parse_expression(p, true);
        last = &(*last)->next;
    }
    parser_expect(p, "]");
    return parser_close(p, n);
}

static node *parse_dict(parser *p, uint32_t line) {
    node *n = parser_node(p, NODE_DICT, line), **last = &n->list;
    while (!parser_failed(p) && !parser_is(p, "}")) {
        if (n->list && (!parser_expect(p, ",") || parser_is(p, "}"))) break;
        *last = parse_expression(p, true);
        last = &(*last)->next;
        if (!parser_expect(p, ":")) break;
        *last = parse_expression(p, true);
        last = &(*last)->next;
    }
    parser_expect(p, "}");
    return parser_close(p, n);
}

static bool constant_name(value name, value *out) {
    bool yes = text_is(name, "true") || text_is(name, "True");
    if (yes || text_is(name, "false") || text_is(name, "False")) return *out = value_bool(yes), true;
    if (text_is(name, "none") || text_is(name, "None")) return *out = value_none(), true;
    return false;
}

static node *parse_name(parser *p, bool namespaces) {
    token t = p->now;
    value known;
    parser_advance(p);
    if (constant_name(t.value, &known)) return constant(p, known, t.line);
    bool attribute = namespaces && parser_skip(p, ".");
    node *n = parser_node(p, attribute ? NODE_NAMESPACE_ATTRIBUTE : NODE_NAME, t.line);
    n->name = parser_intern(p, t.value);
    if (text_is(t.value, "varargs")) p->macro_flags |= MACRO_VARARGS;
    if (text_is(t.value, "kwargs")) p->macro_flags |= MACRO_KWARGS;
    if (text_is(t.value, "caller")) p->macro_flags |= MACRO_CALLER;
    if (!attribute) return n;
    n->text = p->now.value;
    if (p->now.kind != TOKEN_NAME) parser_unexpected(p, "the name of an attribute");
    parser_advance(p);
    return n;
}

static node *parse_parentheses(parser *p, uint32_t line) {
    node *n;
    if (parser_is(p, ")"))
        n = parser_node(p, NODE_TUPLE, line);
    else
        n = parse_tuple(p, true, NULL);
    parser_expect(p, ")");
    return n;
}

static node *parse_primary(parser *p, bool namespaces) {
    token t = p->now;
    if (t.kind == TOKEN_NAME) return parse_name(p, namespaces);
    if (t.kind == TOKEN_STRING) return parse_string(p);
    if (t.kind == TOKEN_INTEGER || t.kind == TOKEN_FLOAT) {
        parser_advance(p);
        return constant(p, t.value, t.line);
    }
    if (parser_skip(p, "(")) return parse_parentheses(p, t.line);
    if (parser_skip(p, "[")) return parse_list(p, t.line);
    if (parser_skip(p, "{")) return parse_dict(p, t.line);
    parser_unexpected(p, "an expression");
    return constant(p, value_none(), t.line);
}

// ---- operators

static node *parse_unary(parser *p, bool with_filters) {
    uint32_t line = p->now.line;
    node *n;
    if (!parser_enter(p)) return constant(p, value_none(), line);
    if (parser_skip(p, "-"))
        n = wrap(p, NODE_NEGATE, line, parse_unary(p, false), NULL);
    else if (parser_skip(p, "+"))
        n = wrap(p, NODE_PLUS, line, parse_unary(p, false), NULL);
    else
        n = parse_primary(p, false);
    n = parse_postfix(p, n);
    if (with_filters) n = parse_filters_and_tests(p, n);
    p->nesting--;
    return n;
}

static node *binary(parser *p, operator_kind op, uint32_t line, node *a, node *b) {
    node *n = wrap(p, NODE_BINARY, line, a, b);
    n->op = (uint8_t)op;
    return n;
}

static node *parse_power(parser *p) {
    uint32_t line = p->now.line;
    node *n = parse_unary(p, true);
    while (parser_skip(p, "**")) n = binary(p, OP_POW, line, n, parse_unary(p, true));
    return n;
}

static node *parse_product(parser *p) {
    static const char *const signs[] = {"*", "/", "//", "%"};
    static const operator_kind ops[] = {OP_MUL, OP_DIV, OP_FLOORDIV, OP_MOD};
    uint32_t line = p->now.line;
    node *n = parse_power(p);
    for (size_t i = 0; i < 4;) {
        if (parser_skip(p, signs[i])) {
            n = binary(p, ops[i], line, n, parse_power(p));
            i = 0;
        } else {
            i++;
        }
    }
    return n;
}

static node *parse_concat(parser *p) {
    uint32_t line = p->now.line;
    node *first = parse_product(p);
    if (!parser_is(p, "~")) return first;
    node *n = parser_node(p, NODE_CONCAT, line), **last = &first->next;
    n->list = first;
    while (parser_skip(p, "~")) {
        *last = parse_product(p);
        last = &(*last)->next;
    }
    return parser_close(p, n);
}

static node *parse_sum(parser *p) {
    uint32_t line = p->now.line;
    node *n = parse_concat(p);
    for (;;) {
        if (parser_skip(p, "+"))
            n = binary(p, OP_ADD, line, n, parse_concat(p));
        else if (parser_skip(p, "-"))
            n = binary(p, OP_SUB, line, n, parse_concat(p));
        else
            return n;
    }
}

static bool comparison(parser *p, operator_kind *op) {
    static const char *const signs[] = {"==", "!=", "<", "<=", ">", ">="};
    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++)
        if (parser_skip(p, signs[i])) return *op = (operator_kind)(OP_EQ + i), true;
    if (parser_skip_name(p, "in")) return *op = OP_IN, true;
    if (!parser_is_name(p, "not")) return false;
    const token *after = parser_look(p);
    if (after->kind != TOKEN_NAME || !text_is(after->value, "in")) return false;
    parser_advance(p);
    parser_advance(p);
    return *op = OP_NOT_IN, true;
}

static node *parse_comparison(parser *p) {
    uint32_t line = p->now.line;
    node *first = parse_sum(p);
    operator_kind op;
    if (!comparison(p, &op)) return first;
    node *n = parser_node(p, NODE_COMPARE, line), **last = &n->list;
    n->a = first;
    do {
        *last = parser_node(p, NODE_OPERAND, p->now.line);
        (*last)->op = (uint8_t)op;
        (*last)->a = parse_sum(p);
        parser_close(p, *last);
        last = &(*last)->next;
    } while (!parser_failed(p) && comparison(p, &op));
    return parser_close(p, n);
}

static node *parse_not(parser *p) {
    uint32_t line = p->now.line;
    if (!parser_is_name(p, "not")) return parse_comparison(p);
    if (!parser_enter(p)) return constant(p, value_none(), line);
    parser_advance(p);
    node *n = wrap(p, NODE_NOT, line, parse_not(p), NULL);
    p->nesting--;
    return n;
}

static node *parse_and(parser *p) {
    uint32_t line = p->now.line;
    node *n = parse_not(p);
    while (parser_skip_name(p, "and")) n = wrap(p, NODE_AND, line, n, parse_not(p));
    return n;
}

static node *parse_or(parser *p) {
    uint32_t line = p->now.line;
    node *n = parse_and(p);
    while (parser_skip_name(p, "or")) n = wrap(p, NODE_OR, line, n, parse_and(p));
    return n;
}

static node *parse_condition(parser *p) {
    node *n = parse_or(p);
    while (!parser_failed(p) && parser_is_name(p, "if")) {
        node *c = parser_node(p, NODE_CONDITION, p->now.line);
        parser_advance(p);
        c->b = n;
        c->a = parse_or(p);
        if (parser_skip_name(p, "else")) c->c = parse_expression(p, true);
        n = parser_close(p, c);
    }
    return n;
}

node *parse_expression(parser *p, bool conditions) {
    if (!parser_enter(p)) return constant(p, value_none(), p->now.line);
    node *n = conditions ? parse_condition(p) : parse_or(p);
    p->nesting--;
    return n;
}

static bool tuple_ends(const parser *p, const char *end) {
    return p->now.kind == TOKEN_TAG_END || p->now.kind == TOKEN_OUTPUT_END || parser_is(p, ")") ||
           (end && parser_is_name(p, end));
}

static node *parse_items(parser *p, bool target, bool namespaces, bool conditions, const char *end) {
    uint32_t line = p->now.line;
    node *first = NULL, **last = &first;
    bool tuple = false;
    while (!parser_failed(p) && !tuple_ends(p, end)) {
        *last = target ? parse_primary(p, namespaces) : parse_expression(p, conditions);
        last = &(*last)->next;
        if (!parser_skip(p, ",")) break;
        tuple = true;
    }
    if (!first) parser_unexpected(p, "an expression");
    if (first && !tuple) return first;
    node *n = parser_node(p, NODE_TUPLE, line);
    n->list = first;
    return parser_close(p, n);
}

node *parse_tuple(parser *p, bool conditions, const char *end) { return parse_items(p, false, false, conditions, end); }

static void check_target(parser *p, const node *n) {
    if (parser_failed(p)) return;
    if (n->kind == NODE_TUPLE) {
        for (const node *item = n->list; item; item = item->next) check_target(p, item);
    } else if (n->kind != NODE_NAME && n->kind != NODE_NAMESPACE_ATTRIBUTE) {
        lexer_fail(&p->lexer, n->line,
                   "a value can be assigned to a name only, a tuple of names or an attribute of a namespace");
    }
}

node *parse_target(parser *p, bool namespaces, const char *end) {
    node *n = parse_items(p, true, namespaces, false, end);
    check_target(p, n);
    return n;
}
