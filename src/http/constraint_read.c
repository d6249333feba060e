#include "http/constraint.h"

#include "http/tools.h"

#include <stdlib.h>
#include <string.h>

static void keep(body *b, braid_err err, const braid_error *error, const char *field) {
    if (err) body_mistake(b, field, "%s", error->text);
}

void constraint_read_format(grammar **out, body *b, const json_value *format, const char *name) {
    braid_error error = {0};
    const char *type = body_string(b, format, "type");
    if (b->error.code || *out) return;
    if (type && strcmp(type, "text") == 0) return;
    if (type && strcmp(type, "json_object") == 0) {
        keep(b, grammar_of_objects(out, &error), &error, name);
        return;
    }
    if (!type || strcmp(type, "json_schema") != 0) {
        body_mistake(b, name, "'%s' must be of the type text, json_object or json_schema", name);
        return;
    }
    // OpenAI's chat nests the schema, its responses do not
    const json_value *outer = body_object(b, format, "json_schema");
    const json_value *schema = body_member(b, outer ? outer : format, "schema");
    if (!schema)
        body_mistake(b, name, "'%s' has no schema", name);
    else
        keep(b, grammar_from_schema(b->doc, schema, out, &error), &error, name);
}

void constraint_read(grammar **out, body *b) {
    braid_error error = {0};
    const json_value *format = body_object(b, b->root, "response_format");
    const char *text = body_string(b, b->root, "grammar");
    if (format) constraint_read_format(out, b, format, "response_format");
    if (text && *text && *out)
        body_mistake(b, "grammar", "'grammar' and 'response_format' exclude each other");
    else if (text && *text && !b->error.code)
        keep(b, grammar_from_text(text, strlen(text), out, &error), &error, "grammar");
}

// ---- tools

// In chat the function is an object of the tool, in responses the tool is the function.
static const json_value *function_of(const body *b, const json_value *tool) {
    const json_value *f = body_member(b, tool, "function");
    return f ? f : tool;
}

static void put_string(grammar *g, grammar_sequence *s, const char *text) {
    json_out o = {0};
    size_t length = 0;
    json_out_string(&o, NULL, text);
    char *quoted = json_out_take(&o, &length);
    if (quoted) grammar_put_text(g, s, quoted, length);
    free(quoted);
}

// MARK {"name": NAME, "arguments": {...}} END
static void add_call(grammar *g, uint32_t rule, const body *b, const json_value *function, tools_style style) {
    static const char *const begin[] = {"<tool_call>\n{\"name\": ", "[TOOL_CALLS][{\"name\": ", "{\"name\": "};
    static const char *const middle[] = {", \"arguments\": ", ", \"arguments\": ", ", \"parameters\": "};
    static const char *const end[] = {"}\n</tool_call>", "}]", "}"};
    const json_value *parameters = body_member(b, function, "parameters");
    const char *name = json_string(body_member(b, function, "name"));
    grammar_sequence s = {0};
    grammar_put_text(g, &s, begin[style], strlen(begin[style]));
    put_string(g, &s, name ? name : "");
    grammar_put_text(g, &s, middle[style], strlen(middle[style]));
    if (parameters)
        grammar_put(g, &s, GRAMMAR_RULE, grammar_add_schema(g, b->doc, parameters));
    else
        grammar_put_text(g, &s, "{}", 2);
    grammar_put_text(g, &s, end[style], strlen(end[style]));
    grammar_alternative_add(g, rule, &s);
}

// A call of the tool `name`, or of any if it is NULL.
static void force(grammar **out, const http_server *s, body *b, const json_value *tools, const char *name) {
    braid_error error = {0};
    grammar *g = grammar_new();
    if (!g) {
        braid_fail(&b->error, BRAID_MEMORY, "no memory for a grammar");
        return;
    }
    uint32_t root = grammar_rule(g), found = 0;
    for (const json_value *v = json_first(b->doc, tools); v && !g->error.code; v = json_next(b->doc, v)) {
        const json_value *function = function_of(b, v);
        const char *own = json_string(body_member(b, function, "name"));
        if (name && (!own || strcmp(own, name) != 0)) continue;
        add_call(g, root, b, function, tools_style_of(s->chat.source));
        found++;
    }
    braid_err err = grammar_finish(g, root, &error);
    if (err)
        keep(b, err, &error, "tools");
    else if (found == 0)
        body_mistake(b, "tool_choice", "'tool_choice' names a function that is not in 'tools'");
    if (b->error.code)
        grammar_free(g);
    else
        *out = g;
}

static void check_tools(body *b, const json_value *tools) {
    for (const json_value *v = json_first(b->doc, tools); v; v = json_next(b->doc, v))
        if (v->kind != JSON_OBJECT || !json_string(body_member(b, function_of(b, v), "name")))
            body_mistake(b, "tools", "each tool must be an object with a function that has a name");
}

void constraint_read_tools(grammar **out, const http_server *s, body *b, prompt_chat *chat, bool *calls) {
    const json_value *choice = body_member(b, b->root, "tool_choice");
    const char *word = json_string(choice), *name = NULL;
    if (chat->tools && chat->tools->count == 0) chat->tools = NULL;
    if (!chat->tools && choice && (!word || (strcmp(word, "auto") != 0 && strcmp(word, "none") != 0)))
        body_mistake(b, "tool_choice", "'tool_choice' forces a call, and there are no 'tools'");
    if (!chat->tools || (word && strcmp(word, "none") == 0)) {
        chat->tools = NULL;
        return;
    }
    check_tools(b, chat->tools);
    *calls = true;
    if (b->error.code || !choice || (word && strcmp(word, "auto") == 0)) return;
    if (!word) name = json_string(body_member(b, function_of(b, choice), "name"));
    if ((word && strcmp(word, "required") != 0) || (!word && !name))
        body_mistake(b, "tool_choice", "'tool_choice' must be none, auto, required or a function");
    else if (*out)
        body_mistake(b, "tool_choice", "a forced call and 'response_format' exclude each other");
    else
        force(out, s, b, chat->tools, name);
}
