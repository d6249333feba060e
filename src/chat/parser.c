// Statements.
#include "chat/inside.h"

#include <stdio.h>

// ---- tokens and nodes

node *parser_node(parser *p, node_kind kind, uint32_t line) {
    node *n = arena_take(&p->template->arena, sizeof *n);
    if (!n) {
        lexer_fail(&p->lexer, line, "the template is too large");
        p->none = (node){0};
        return &p->none;
    }
    n->kind = (uint8_t)kind;
    n->line = line;
    n->depth = 1;
    return n;
}

static unsigned list_depth(const node *n) {
    unsigned most = 0;
    for (; n; n = n->next)
        if (n->depth > most) most = n->depth;
    return most;
}

node *parser_close(parser *p, node *n) {
    const node *const below[] = {n->a, n->b, n->c, n->d};
    unsigned most = list_depth(n->list);
    for (size_t i = 0; i < 4; i++)
        if (below[i] && list_depth(below[i]) > most) most = list_depth(below[i]);
    if (most >= CHAT_MAX_NODE_DEPTH)
        lexer_fail(&p->lexer, n->line, "an expression has a chain of more than %d operators", CHAT_MAX_NODE_DEPTH);
    n->depth = (uint16_t)(most + 1);
    return n;
}

void parser_advance(parser *p) {
    if (p->looked)
        p->now = p->after;
    else
        p->now = lexer_next(&p->lexer);
    p->looked = false;
    if (parser_failed(p)) p->now = (token){.kind = TOKEN_END, .line = p->now.line};
}

const token *parser_look(parser *p) {
    if (!p->looked) p->after = lexer_next(&p->lexer);
    p->looked = true;
    return &p->after;
}

bool parser_is(const parser *p, const char *sign) {
    return p->now.kind == TOKEN_OPERATOR && strcmp(p->now.sign, sign) == 0;
}
bool parser_is_name(const parser *p, const char *name) {
    return p->now.kind == TOKEN_NAME && text_is(p->now.value, name);
}

bool parser_skip(parser *p, const char *sign) {
    bool there = parser_is(p, sign);
    if (there) parser_advance(p);
    return there;
}

bool parser_skip_name(parser *p, const char *name) {
    bool there = parser_is_name(p, name);
    if (there) parser_advance(p);
    return there;
}

static const char *describe(const token *t, char out[64]) {
    switch (t->kind) {
    case TOKEN_END: return "the end of the template";
    case TOKEN_TAG_END: return "'%}'";
    case TOKEN_OUTPUT_END: return "'}}'";
    case TOKEN_TAG_BEGIN: return "'{%'";
    case TOKEN_OUTPUT_BEGIN: return "'{{'";
    case TOKEN_DATA: return "text";
    case TOKEN_INTEGER:
    case TOKEN_FLOAT: return "a number";
    case TOKEN_STRING: return "a string";
    case TOKEN_NAME:
        snprintf(out, 64, "'%.*s'", t->value.length < 50 ? (int)t->value.length : 50, t->value.text);
        return out;
    default: snprintf(out, 64, "'%s'", t->sign); return out;
    }
}

void parser_unexpected(parser *p, const char *expected) {
    char seen[64];
    lexer_fail(&p->lexer, p->now.line, "%s is expected, not %s", expected, describe(&p->now, seen));
}

bool parser_expect(parser *p, const char *sign) {
    if (parser_skip(p, sign)) return true;
    char quoted[8];
    snprintf(quoted, sizeof quoted, "'%s'", sign);
    parser_unexpected(p, quoted);
    return false;
}

static bool expect_kind(parser *p, token_kind kind, const char *text) {
    if (p->now.kind != kind) {
        parser_unexpected(p, text);
        return false;
    }
    parser_advance(p);
    return true;
}

static value expect_name(parser *p) {
    value name = p->now.value;
    if (!expect_kind(p, TOKEN_NAME, "a name")) return VALUE_LITERAL("");
    return name;
}

uint32_t parser_intern(parser *p, value name) {
    chat_template *t = p->template;
    for (uint32_t i = 0; i < t->name_count; i++)
        if (t->names[i].length == name.length && memcmp(t->names[i].text, name.text, name.length) == 0) return i;
    if (t->name_count == t->name_capacity) {
        uint32_t capacity = t->name_capacity ? t->name_capacity * 2 : 32;
        value *more = capacity <= 4096 ? realloc(t->names, capacity * sizeof *more) : NULL;
        if (!more) {
            lexer_fail(&p->lexer, p->now.line, "the template has too many names");
            return 0;
        }
        t->names = more;
        t->name_capacity = capacity;
    }
    t->names[t->name_count] = name;
    return t->name_count++;
}

bool parser_enter(parser *p) {
    if (p->nesting++ < 2 * CHAT_MAX_NESTING) return true;
    lexer_fail(&p->lexer, p->now.line, "expressions are nested more than %d deep", CHAT_MAX_NESTING);
    return false;
}

// ---- bodies

static node *parse_body(parser *p, const char *opener, uint32_t line, const char *const *ends);

static bool is_end(const parser *p, const char *const *ends) {
    for (; *ends; ends++)
        if (parser_is_name(p, *ends)) return true;
    return false;
}

// After the expressions of a tag: its '%}', the body, and the word of the tag that ends it, at which the parser stays.
static node *parse_block_body(parser *p, const char *opener, uint32_t line, const char *const *ends) {
    bool soft = p->soft;
    parser_skip(p, ":");
    expect_kind(p, TOKEN_TAG_END, "'%}'");
    p->soft = strcmp(opener, "if") == 0;
    node *list = parse_body(p, opener, line, ends);
    p->soft = soft;
    return list;
}

// The same with one word for the end, which is passed.
static node *parse_whole_body(parser *p, const char *opener, uint32_t line, const char *end) {
    const char *const ends[] = {end, NULL};
    node *list = parse_block_body(p, opener, line, ends);
    parser_skip_name(p, end);
    return list;
}

static node *block_of(parser *p, node *list, uint32_t line) {
    node *n = parser_node(p, NODE_BLOCK, line);
    n->list = list;
    return parser_close(p, n);
}

// ---- the tags

static node *parse_if(parser *p, uint32_t line) {
    static const char *const ends[] = {"elif", "else", "endif", NULL};
    node *first = NULL, **place = &first;
    for (;;) {
        node *n = parser_node(p, NODE_IF, p->now.line);
        n->a = parse_tuple(p, false, NULL);
        n->list = parse_block_body(p, "if", line, ends);
        *place = n;
        place = &n->b;
        if (!parser_skip_name(p, "elif") || parser_failed(p)) break;
    }
    if (parser_skip_name(p, "else"))
        *place = block_of(p, parse_whole_body(p, "if", line, "endif"), line);
    else
        parser_skip_name(p, "endif");
    // depths from the last branch to the first would be a chain; each branch counts for itself
    for (node *n = first; n && n->kind == NODE_IF; n = n->b) {
        node *rest = n->b;
        n->b = NULL;
        parser_close(p, n);
        n->b = rest;
    }
    unsigned most = 0;
    for (node *n = first; n; n = n->kind == NODE_IF ? n->b : NULL)
        if (n->depth > most) most = n->depth;
    first->depth = (uint16_t)most;
    return first;
}

static void check_loop_target(parser *p, const node *n) {
    if (n->kind == NODE_TUPLE)
        for (const node *item = n->list; item; item = item->next) check_loop_target(p, item);
    else if (n->kind == NODE_NAME && text_is(p->template->names[n->name], "loop"))
        lexer_fail(&p->lexer, n->line, "a loop cannot assign to 'loop'");
}

static node *parse_for(parser *p, uint32_t line) {
    static const char *const ends[] = {"else", "endfor", NULL};
    node *n = parser_node(p, NODE_FOR, line);
    n->a = parse_target(p, false, "in");
    if (!parser_failed(p)) check_loop_target(p, n->a);
    if (!parser_skip_name(p, "in")) parser_unexpected(p, "'in'");
    n->b = parse_tuple(p, false, "recursive");
    if (parser_skip_name(p, "if")) n->c = parse_expression(p, true);
    if (parser_skip_name(p, "recursive")) n->flags |= FOR_RECURSIVE;
    p->loops++;
    n->list = parse_block_body(p, "for", line, ends);
    p->loops--;
    if (parser_skip_name(p, "else"))
        n->d = block_of(p, parse_whole_body(p, "for", line, "endfor"), line);
    else
        parser_skip_name(p, "endfor");
    return parser_close(p, n);
}

static node *parse_set(parser *p, uint32_t line) {
    node *target = parse_target(p, true, NULL);
    if (parser_skip(p, "=")) {
        node *n = parser_node(p, NODE_SET, line);
        n->a = target;
        n->b = parse_tuple(p, true, NULL);
        return parser_close(p, n);
    }
    node *n = parser_node(p, NODE_SET_BLOCK, line);
    n->a = target;
    if (parser_is(p, "|")) n->b = parse_filters(p, NULL, false);
    n->list = parse_whole_body(p, "set", line, "endset");
    return parser_close(p, n);
}

static node *parse_with(parser *p, uint32_t line) {
    node *n = parser_node(p, NODE_WITH, line), **last = &n->a;
    while (!parser_failed(p) && p->now.kind != TOKEN_TAG_END && !parser_is(p, ":")) {
        if (n->a && !parser_expect(p, ",")) break;
        node *set = parser_node(p, NODE_SET, p->now.line);
        node *name = parser_node(p, NODE_NAME, p->now.line);
        name->name = parser_intern(p, expect_name(p));
        set->a = name;
        parser_expect(p, "=");
        set->b = parse_expression(p, true);
        *last = parser_close(p, set);
        last = &set->next;
    }
    n->list = parse_whole_body(p, "with", line, "endwith");
    return parser_close(p, n);
}

static node *parse_signature(parser *p) {
    node *first = NULL, **last = &first;
    bool defaults = false;
    parser_expect(p, "(");
    while (!parser_failed(p) && !parser_is(p, ")")) {
        if (first && !parser_expect(p, ",")) break;
        node *n = parser_node(p, NODE_PARAMETER, p->now.line);
        n->text = expect_name(p);
        n->name = parser_intern(p, n->text);
        if (parser_skip(p, "=")) {
            n->a = parse_expression(p, true);
            defaults = true;
        } else if (defaults) {
            lexer_fail(&p->lexer, n->line, "a parameter without a default follows one with a default");
        }
        *last = parser_close(p, n);
        last = &n->next;
    }
    parser_expect(p, ")");
    return first;
}

// The body of a macro or of a call: loops around it do not count, and the names that it uses are seen apart.
static void parse_macro_body(parser *p, node *n, const char *opener, const char *end) {
    unsigned loops = p->loops, flags = p->macro_flags;
    p->loops = 0;
    p->macro_flags = 0;
    n->list = parse_whole_body(p, opener, n->line, end);
    n->flags = (uint8_t)(n->flags | p->macro_flags);
    p->loops = loops;
    p->macro_flags |= flags;
    parser_close(p, n);
}

static node *parse_macro(parser *p, uint32_t line) {
    node *n = parser_node(p, NODE_MACRO, line);
    n->text = expect_name(p);
    n->name = parser_intern(p, n->text);
    n->a = parse_signature(p);
    parse_macro_body(p, n, "macro", "endmacro");
    return n;
}

static node *parse_call_block(parser *p, uint32_t line) {
    node *n = parser_node(p, NODE_CALL_BLOCK, line), *body = parser_node(p, NODE_MACRO, line);
    if (parser_is(p, "(")) body->a = parse_signature(p);
    n->b = parse_expression(p, true);
    if (n->b->kind != NODE_CALL) lexer_fail(&p->lexer, line, "the tag 'call' needs a call");
    body->text = VALUE_LITERAL("caller");
    parse_macro_body(p, body, "call", "endcall");
    n->a = body;
    return parser_close(p, n);
}

static node *parse_filter_block(parser *p, uint32_t line) {
    node *n = parser_node(p, NODE_FILTER_BLOCK, line);
    n->a = parse_filters(p, NULL, true);
    n->list = parse_whole_body(p, "filter", line, "endfilter");
    return parser_close(p, n);
}

static node *parse_generation(parser *p, uint32_t line) {
    node *n = parser_node(p, NODE_GENERATION, line);
    parse_macro_body(p, n, "generation", "endgeneration");
    return n;
}

static node *parse_print(parser *p, uint32_t line) {
    node *n = parser_node(p, NODE_OUTPUT, line), **last = &n->list;
    while (!parser_failed(p) && p->now.kind != TOKEN_TAG_END) {
        if (n->list && !parser_expect(p, ",")) break;
        *last = parse_expression(p, true);
        last = &(*last)->next;
    }
    return parser_close(p, n);
}

static node *parse_jump(parser *p, node_kind kind, uint32_t line) {
    if (p->loops == 0) lexer_fail(&p->lexer, line, "'%s' outside of a loop", kind == NODE_BREAK ? "break" : "continue");
    return parser_node(p, kind, line);
}

static node *parse_break(parser *p, uint32_t line) { return parse_jump(p, NODE_BREAK, line); }
static node *parse_continue(parser *p, uint32_t line) { return parse_jump(p, NODE_CONTINUE, line); }

static node *parse_statement(parser *p) {
    static const struct {
        const char *name;
        node *(*parse)(parser *p, uint32_t line);
    } tags[] = {{"if", parse_if},
                {"for", parse_for},
                {"set", parse_set},
                {"with", parse_with},
                {"macro", parse_macro},
                {"call", parse_call_block},
                {"filter", parse_filter_block},
                {"generation", parse_generation},
                {"print", parse_print},
                {"break", parse_break},
                {"continue", parse_continue}};
    token t = p->now;
    if (t.kind != TOKEN_NAME) {
        parser_unexpected(p, "the name of a tag");
        return NULL;
    }
    parser_advance(p);
    for (size_t i = 0; i < sizeof tags / sizeof *tags; i++)
        if (text_is(t.value, tags[i].name)) return tags[i].parse(p, t.line);
    bool closing = t.value.length > 3 && memcmp(t.value.text, "end", 3) == 0;
    closing = closing || text_is(t.value, "else") || text_is(t.value, "elif");
    lexer_fail(&p->lexer, t.line,
               closing ? "the tag '%.*s' does not belong to the block that is open here"
                       : "the tag '%.*s' is not supported",
               t.value.length < 50 ? (int)t.value.length : 50, t.value.text);
    return NULL;
}

static node *parse_output(parser *p, uint32_t line) {
    node *n = parser_node(p, NODE_OUTPUT, line);
    n->list = parse_tuple(p, true, NULL);
    expect_kind(p, TOKEN_OUTPUT_END, "'}}'");
    return parser_close(p, n);
}

// One piece of a body; NULL: its end, with the parser at the word of the end tag.
static node *parse_piece(parser *p, const char *const *ends) {
    token t = p->now;
    parser_advance(p);
    if (t.kind == TOKEN_DATA) {
        node *n = parser_node(p, NODE_DATA, t.line);
        n->text = t.value;
        return n;
    }
    if (t.kind == TOKEN_OUTPUT_BEGIN) return parse_output(p, t.line);
    if (is_end(p, ends)) return NULL;
    node *n = parse_statement(p);
    expect_kind(p, TOKEN_TAG_END, "'%}'");
    return n;
}

static node *parse_body(parser *p, const char *opener, uint32_t line, const char *const *ends) {
    node *first = NULL, **last = &first;
    if (!parser_enter(p)) return NULL;
    while (!parser_failed(p)) {
        if (p->now.kind == TOKEN_END) {
            if (*ends)
                lexer_fail(&p->lexer, line, "the tag '%s' has no '%s'", opener, ends[ends[1] ? ends[2] ? 2 : 1 : 0]);
            break;
        }
        node *n = parse_piece(p, ends);
        if (!n) break;
        *last = n;
        last = &n->next;
    }
    p->nesting--;
    return first;
}

node *parse_template(parser *p) {
    static const char *const none[] = {NULL};
    static const char *const fixed[ID_COUNT] = {"loop", "varargs", "kwargs", "caller"};
    for (size_t i = 0; i < ID_COUNT; i++) parser_intern(p, value_text(fixed[i], strlen(fixed[i])));
    parser_advance(p);
    return block_of(p, parse_body(p, "", 1, none), 1);
}
