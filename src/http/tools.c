#include "http/tools.h"

#include "format/json.h"

#include <stdlib.h>
#include <string.h>

static const char *const markers[] = {
    [TOOLS_TAGS] = "<tool_call>", [TOOLS_MISTRAL] = "[TOOL_CALLS]", [TOOLS_BARE] = ""};

tools_style tools_style_of(const char *chat_template) {
    if (chat_template && strstr(chat_template, markers[TOOLS_TAGS])) return TOOLS_TAGS;
    if (chat_template && strstr(chat_template, markers[TOOLS_MISTRAL])) return TOOLS_MISTRAL;
    return TOOLS_BARE;
}

static size_t skip_space(const char *text, size_t at, size_t length) {
    while (at < length && (text[at] == ' ' || text[at] == '\n' || text[at] == '\t' || text[at] == '\r')) at++;
    return at;
}

// Where `mark` is, or where a beginning of it ends the text; `length`: neither.
static size_t find_mark(const char *text, size_t length, const char *mark) {
    size_t n = strlen(mark);
    for (size_t i = 0; i < length; i++) {
        size_t rest = length - i < n ? length - i : n;
        if (memcmp(text + i, mark, rest) == 0) return i;
    }
    return length;
}

size_t tools_visible(tools_style style, const char *text, size_t length) {
    if (style != TOOLS_BARE) return find_mark(text, length, markers[style]);
    size_t at = skip_space(text, 0, length);
    return at == length || text[at] == '{' ? 0 : length;
}

// The end of the JSON value at `at`: after the bracket that closes its first one. 0: there is none.
static size_t value_end(const char *text, size_t at, size_t length) {
    size_t depth = 0;
    bool quoted = false;
    for (size_t i = at; i < length; i++) {
        char c = text[i];
        if (quoted && c == '\\')
            i++;
        else if (c == '"')
            quoted = !quoted;
        else if (!quoted && (c == '{' || c == '['))
            depth++;
        else if (!quoted && (c == '}' || c == ']') && depth > 0 && --depth == 0)
            return i + 1;
    }
    return 0;
}

static bool add_call(const json *doc, const json_value *v, tools_call *calls, uint32_t *count) {
    const char *name = json_string(json_member(doc, v, "name"));
    const json_value *arguments = json_member(doc, v, "arguments");
    if (!arguments) arguments = json_member(doc, v, "parameters");
    if (!name || *count == TOOLS_MAX_CALLS) return false;
    tools_call *call = &calls[*count];
    json_out o = {0};
    if (json_string(arguments)) {
        call->arguments = strdup(arguments->text);
    } else {
        if (arguments)
            json_out_value(&o, NULL, doc, arguments);
        else
            json_out_open(&o, NULL, '{'), json_out_close(&o, '}');
        call->arguments = json_out_take(&o, NULL);
    }
    call->name = strdup(name);
    if (!call->name || !call->arguments) {
        free(call->name);
        free(call->arguments);
        return false;
    }
    ++*count;
    return true;
}

// A call, or a list of them.
static bool add_value(const char *text, size_t length, tools_call *calls, uint32_t *count) {
    json *doc = NULL;
    braid_error error;
    if (json_parse(text, length, &doc, &error) != BRAID_OK) return false;
    const json_value *root = json_root(doc);
    bool fine = root->kind == JSON_OBJECT || root->count > 0;
    if (root->kind == JSON_OBJECT)
        fine = add_call(doc, root, calls, count);
    else
        for (const json_value *v = json_first(doc, root); v && fine; v = json_next(doc, v))
            fine = add_call(doc, v, calls, count);
    json_free(doc);
    return fine;
}

void tools_free(tools_call *calls, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        free(calls[i].name);
        free(calls[i].arguments);
    }
}

static size_t skip_mark(const char *text, size_t at, size_t length, const char *mark) {
    size_t n = strlen(mark);
    at = skip_space(text, at, length);
    return n > 0 && length - at >= n && memcmp(text + at, mark, n) == 0 ? at + n : at;
}

uint32_t tools_parse(tools_style style, const char *text, size_t length, size_t *content, tools_call *calls) {
    const char *mark = markers[style];
    size_t at = find_mark(text, length, mark);
    uint32_t count = 0;
    *content = length;
    size_t begin = at;
    while (at < length) {
        size_t start = skip_space(text, skip_mark(text, at, length, mark), length);
        if (style == TOOLS_BARE && length - start > 14 && memcmp(text + start, "<|python_tag|>", 14) == 0) start += 14;
        size_t end = start < length && (text[start] == '{' || text[start] == '[') ? value_end(text, start, length) : 0;
        if (!end || !add_value(text + start, end - start, calls, &count)) {
            if (skip_space(text, at, length) == length && count > 0) break;
            tools_free(calls, count);
            return 0;
        }
        at = skip_space(text, skip_mark(text, end, length, style == TOOLS_TAGS ? "</tool_call>" : ""), length);
        if (style == TOOLS_BARE && at < length && text[at] == ';') at++;
    }
    if (count == 0) return 0;
    while (begin > 0 && skip_space(text, begin - 1, begin) == begin) begin--;
    *content = begin;
    return count;
}
