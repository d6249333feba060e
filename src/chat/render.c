// Parsing and rendering of a template: its variables as transformers sets them.
#include "chat/inside.h"

#include <stdio.h>

// ---- parsing

// Every line end becomes a line feed, and one at the end goes.
static size_t normal_lines(const char *source, size_t length, char *out) {
    size_t n = 0;
    for (size_t i = 0; i < length; i++) {
        if (source[i] != '\r')
            out[n++] = source[i];
        else if (i + 1 == length || source[i + 1] != '\n')
            out[n++] = '\n';
    }
    if (n > 0 && out[n - 1] == '\n') n--;
    return n;
}

braid_err chat_template_parse(const char *source, size_t length, chat_template **out, braid_error *error) {
    *out = NULL;
    if (length > CHAT_MAX_SOURCE_BYTES)
        return braid_fail(error, BRAID_LIMIT, "chat template: %zu bytes are more than %d", length,
                          CHAT_MAX_SOURCE_BYTES);
    if (utf8_valid(source, length) != length)
        return braid_fail(error, BRAID_FORMAT, "chat template: the text is not UTF-8");
    chat_template *t = calloc(1, sizeof *t);
    char *copy = malloc(length + 1);
    if (!t || !copy || !unicode_init()) {
        free(t);
        free(copy);
        return braid_fail(error, BRAID_MEMORY, "no memory for a chat template");
    }
    t->source = copy;
    t->arena.most = CHAT_MAX_MEMORY_BYTES;
    parser p = {.template = t};
    lexer_start(&p.lexer, copy, normal_lines(source, length, copy), &t->arena, error);
    t->root = parse_template(&p);
    if (parser_failed(&p)) {
        chat_template_free(t);
        return p.lexer.err;
    }
    *out = t;
    return BRAID_OK;
}

void chat_template_free(chat_template *t) {
    if (!t) return;
    arena_free(&t->arena);
    free(t->source);
    free(t->names);
    free(t);
}

// ---- variables

static void set_variable(vm *v, value name, value x) {
    const chat_template *t = v->template;
    for (uint32_t i = 0; i < t->name_count; i++)
        if (t->names[i].length == name.length && memcmp(t->names[i].text, name.text, name.length) == 0)
            scope_set(v, i, x);
}

static void set_named(vm *v, const char *name, value x) { set_variable(v, value_text(name, strlen(name)), x); }

static void set_text(vm *v, const char *name, const char *text) {
    if (!text) return;
    buffer valid = {0};
    utf8_repair(text, strlen(text), &valid);
    value x = value_take_buffer(v, &valid);
    set_named(v, name, x);
}

// As transformers does with a message: members that are null go, and reasoning has three names.
static value make_message(vm *v, value m) {
    static const char *const names[] = {"reasoning_content", "thinking", "reasoning"};
    value out = value_new_dict(v, m.dict->count + 2);
    if (vm_failed(v)) return out;
    const value *reasoning = NULL;
    for (size_t i = 0; i < 3; i++) {
        const value *x = dict_find_text(v, m.dict, names[i]);
        if (x && x->kind != VALUE_NONE && !reasoning) reasoning = x;
    }
    if (reasoning) dict_put(v, out.dict, VALUE_LITERAL("thinking"), *reasoning);
    for (uint32_t i = 0; i < m.dict->count && !vm_failed(v); i++)
        if (m.dict->entries[i].value.kind != VALUE_NONE)
            dict_put(v, out.dict, m.dict->entries[i].key, m.dict->entries[i].value);
    if (reasoning) dict_put(v, out.dict, VALUE_LITERAL("reasoning_content"), *reasoning);
    return out;
}

static bool all_dicts(value x) {
    if (x.kind != VALUE_LIST) return false;
    for (uint32_t i = 0; i < x.list->count; i++)
        if (x.list->items[i].kind != VALUE_DICT) return false;
    return true;
}

static void set_messages(vm *v, value messages) {
    if (vm_failed(v)) return;
    if (!all_dicts(messages) || messages.list->count == 0) {
        vm_fail(v, "the messages must be an array of at least one object with 'role' and 'content'");
        return;
    }
    for (uint32_t i = 0; i < messages.list->count && !vm_failed(v); i++)
        messages.list->items[i] = make_message(v, messages.list->items[i]);
    set_named(v, "messages", messages);
}

static void set_tools(vm *v, value tools) {
    if (vm_failed(v)) return;
    if (tools.kind != VALUE_NONE && !all_dicts(tools)) vm_fail(v, "the tools must be an array of objects");
    set_named(v, "tools", tools);
}

static void set_others(vm *v, value variables) {
    if (vm_failed(v)) return;
    if (variables.kind != VALUE_DICT) {
        vm_fail(v, "the variables must be an object");
        return;
    }
    for (uint32_t i = 0; i < variables.dict->count && !vm_failed(v); i++)
        set_variable(v, variables.dict->entries[i].key, variables.dict->entries[i].value);
}

// ---- rendering

typedef struct documents {
    json *messages, *tools, *variables;
} documents;

static braid_err parse_one(const char *text, const char *name, json **out, braid_error *error) {
    braid_error inner = {0};
    braid_err err = text ? json_parse(text, strlen(text), out, &inner) : BRAID_OK;
    return err ? braid_fail(error, err, "the %s of a chat: %.400s", name, inner.text) : BRAID_OK;
}

static value root_value(vm *v, const json *d) {
    return vm_failed(v) ? value_none() : value_from_json(v, d, json_root(d));
}

static void set_all(vm *v, const chat_input *in, const documents *d) {
    set_messages(v, root_value(v, d->messages));
    set_tools(v, d->tools ? root_value(v, d->tools) : value_none());
    set_named(v, "documents", value_none());
    set_named(v, "add_generation_prompt", value_bool(in->add_generation_prompt));
    set_text(v, "bos_token", in->bos);
    set_text(v, "eos_token", in->eos);
    if (d->variables) set_others(v, root_value(v, d->variables));
}

static braid_err run(const chat_template *t, const chat_input *in, const documents *d, buffer *out,
                     braid_error *error) {
    vm v = {.template = t,
            .error = error,
            .out = out,
            .now = in->now,
            .call = call_value,
            .filter = call_filter,
            .test = call_test,
            .test_node = loop_keeps,
            .line = 1};
    v.arena.most = CHAT_MAX_MEMORY_BYTES;
    v.scope = scope_open(&v, NULL);
    if (v.scope) set_all(&v, in, d);
    if (!vm_failed(&v)) execute(&v, t->root->list);
    arena_free(&v.arena);
    return v.err;
}

braid_err chat_template_render(const chat_template *t, const chat_input *in, char **text, size_t *length,
                               braid_error *error) {
    documents d = {0};
    buffer out = {0};
    *text = NULL;
    braid_err err = parse_one(in->messages, "messages", &d.messages, error);
    if (!err) err = parse_one(in->tools, "tools", &d.tools, error);
    if (!err) err = parse_one(in->variables, "variables", &d.variables, error);
    if (!err && !d.messages) err = braid_fail(error, BRAID_ARGUMENT, "a chat needs messages");
    if (!err) err = run(t, in, &d, &out, error);
    json_free(d.messages);
    json_free(d.tools);
    json_free(d.variables);
    *length = out.count;
    if (!err) buffer_byte(&out, 0);
    if (!err && out.failed) err = braid_fail(error, BRAID_MEMORY, "no memory for the text of a chat");
    if (err)
        buffer_free(&out);
    else
        *text = out.at;
    return err;
}

braid_err chat_append_message(char **messages, const char *role, const char *content, size_t length,
                              braid_error *error) {
    static const char opening[] = "[{\"role\": ", middle[] = ", \"content\": ";
    buffer out = {0}, valid = {0};
    size_t before = *messages ? strlen(*messages) : 0;
    utf8_repair(content, length, &valid);
    if (before >= 2) {
        buffer_add(&out, *messages, before - 1);  // without the last ']'
        buffer_add(&out, ", ", before > 2 ? 2 : 0);
        buffer_add(&out, opening + 1, sizeof opening - 2);
    } else {
        buffer_add(&out, opening, sizeof opening - 1);
    }
    json_quote(role, strlen(role), &out);
    buffer_add(&out, middle, sizeof middle - 1);
    json_quote(valid.at, valid.count, &out);
    buffer_add(&out, "}]", 3);
    bool failed = out.failed || valid.failed;
    buffer_free(&valid);
    if (failed) {
        buffer_free(&out);
        return braid_fail(error, BRAID_MEMORY, "no memory for a message");
    }
    free(*messages);
    *messages = out.at;
    return BRAID_OK;
}
