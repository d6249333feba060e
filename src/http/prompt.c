#include "http/prompt.h"

#include "http/tokens.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

void prompt_free(texts_prompt *prompts, uint32_t count) {
    for (uint32_t i = 0; prompts && i < count; i++) {
        free(prompts[i].tokens);
        free(prompts[i].echo);
    }
    free(prompts);
}

static void keep_error(body *b, braid_err err, const braid_error *error, const char *field) {
    if (!err || b->error.code) return;
    body_mistake(b, field, "%s", error->text);
    b->error.code = err;
}

static void from_text(http_server *s, body *b, const char *field, const json_value *v, bool echo, texts_prompt *to) {
    tokenizer_ids ids = {0};
    braid_error error = {0};
    keep_error(b, tokens_encode(s, v->text, v->length, TOKENIZER_ADD_SPECIAL | TOKENIZER_PARSE_SPECIAL, &ids, &error),
               &error, field);
    to->tokens = ids.at;
    to->count = ids.count;
    if (!b->error.code && ids.count == 0) body_mistake(b, field, "'%s' has no token", field);
    if (!echo) return;
    to->echo = strdup(v->text);
    to->echo_length = v->length;
    if (!to->echo) braid_fail(&b->error, BRAID_MEMORY, "no memory for a prompt");
}

static void from_ids(http_server *s, body *b, const char *field, const json_value *list, bool echo, texts_prompt *to) {
    to->tokens = malloc((list->count + 1u) * sizeof *to->tokens);
    if (!to->tokens) {
        braid_fail(&b->error, BRAID_MEMORY, "no memory for a prompt");
        return;
    }
    for (const json_value *v = json_first(b->doc, list); v; v = json_next(b->doc, v)) {
        uint64_t id;
        if (!json_u64(v, &id) || id >= tokens_vocabulary(s)) {
            body_mistake(b, field, "'%s' has a token that is no whole number below %u", field, tokens_vocabulary(s));
            return;
        }
        to->tokens[to->count++] = (uint32_t)id;
    }
    if (to->count == 0) body_mistake(b, field, "'%s' has no token", field);
    braid_error error = {0};
    if (echo && !b->error.code)
        keep_error(b, tokens_decode(s, to->tokens, to->count, &to->echo, &to->echo_length, &error), &error, field);
}

static void one(http_server *s, body *b, const char *field, const json_value *v, bool echo, texts_prompt *to) {
    if (v->kind == JSON_STRING)
        from_text(s, b, field, v, echo, to);
    else if (v->kind == JSON_ARRAY)
        from_ids(s, b, field, v, echo, to);
    else
        body_mistake(b, field, "'%s' must be a text, token ids, or a list of these", field);
}

void prompt_read(http_server *s, body *b, const char *field, bool echo, texts_prompt **out, uint32_t *count) {
    const json_value *v = body_member(b, b->root, field);
    if (!v) {
        body_mistake(b, field, "'%s' is missing", field);
        return;
    }
    const json_value *first = v->kind == JSON_ARRAY ? json_first(b->doc, v) : NULL;
    bool several = first && first->kind != JSON_NUMBER;
    uint32_t n = several ? v->count : 1;
    if (n > TEXTS_MAX) body_mistake(b, field, "'%s' has more than %d texts", field, TEXTS_MAX);
    *out = b->error.code ? NULL : calloc(n, sizeof **out);
    if (!*out) {
        if (!b->error.code) braid_fail(&b->error, BRAID_MEMORY, "no memory for the prompts");
        return;
    }
    *count = n;
    if (!several) one(s, b, field, v, echo, *out);
    for (uint32_t i = 0; several && i < n && !b->error.code; i++, first = json_next(b->doc, first))
        one(s, b, field, first, echo, &(*out)[i]);
}

// ---- messages

static void put_parts(json_out *o, body *b, const json_value *parts) {
    char *text = NULL;
    size_t length = 0;
    for (const json_value *v = json_first(b->doc, parts); v; v = json_next(b->doc, v)) {
        const char *type = json_string(json_member(b->doc, v, "type"));
        const json_value *piece = json_member(b->doc, v, "text");
        bool is_text =
            type && (strcmp(type, "text") == 0 || strcmp(type, "input_text") == 0 || strcmp(type, "output_text") == 0);
        if (!is_text || !json_string(piece)) {
            body_mistake(b, "messages", "a part of a message is of the type '%.40s': this model reads text only",
                         type ? type : "(none)");
            break;
        }
        char *larger = realloc(text, length + piece->length + 1);
        if (!larger) {
            braid_fail(&b->error, BRAID_MEMORY, "no memory for a message");
            break;
        }
        text = larger;
        memcpy(text + length, piece->text, piece->length + 1u);
        length += piece->length;
    }
    json_out_string(o, "content", text ? text : "");
    free(text);
}

// Templates iterate over the arguments, so a string of JSON is written as the object in it.
static void put_arguments(json_out *o, const body *b, const json_value *v) {
    const char *text = json_string(v);
    json *doc = NULL;
    braid_error error;
    if (text && json_parse(text, v->length, &doc, &error) == BRAID_OK && json_root(doc)->kind == JSON_OBJECT)
        json_out_value(o, "arguments", doc, json_root(doc));
    else
        json_out_value(o, "arguments", b->doc, v);
    json_free(doc);
}

static void put_function(json_out *o, const body *b, const json_value *function) {
    json_out_open(o, "function", '{');
    for (const json_value *v = json_first(b->doc, function); v; v = json_next(b->doc, v))
        if (strcmp(v->key, "arguments") == 0)
            put_arguments(o, b, v);
        else
            json_out_value(o, v->key, b->doc, v);
    json_out_close(o, '}');
}

static void put_calls(json_out *o, const body *b, const json_value *calls) {
    json_out_open(o, "tool_calls", '[');
    for (const json_value *call = json_first(b->doc, calls); call; call = json_next(b->doc, call)) {
        json_out_open(o, NULL, '{');
        for (const json_value *v = json_first(b->doc, call); v; v = json_next(b->doc, v))
            if (strcmp(v->key, "function") == 0 && v->kind == JSON_OBJECT)
                put_function(o, b, v);
            else
                json_out_value(o, v->key, b->doc, v);
        json_out_close(o, '}');
    }
    json_out_close(o, ']');
}

static void put_message(json_out *o, body *b, const json_value *message) {
    const char *role = json_string(json_member(b->doc, message, "role"));
    if (message->kind != JSON_OBJECT || !role) {
        body_mistake(b, "messages", "each message must be an object with a 'role'");
        return;
    }
    json_out_open(o, NULL, '{');
    for (const json_value *v = json_first(b->doc, message); v; v = json_next(b->doc, v)) {
        if (strcmp(v->key, "role") == 0)
            json_out_string(o, "role", strcmp(role, "developer") == 0 ? "system" : role);
        else if (strcmp(v->key, "content") == 0 && v->kind == JSON_ARRAY)
            put_parts(o, b, v);
        else if (strcmp(v->key, "content") == 0 && v->kind != JSON_STRING && v->kind != JSON_NULL)
            body_mistake(b, "messages", "the content of a message must be a text or a list of parts");
        else if (strcmp(v->key, "tool_calls") == 0 && v->kind == JSON_ARRAY && v->count > 0)
            put_calls(o, b, v);
        else if (v->kind != JSON_NULL && strcmp(v->key, "tool_calls") != 0)
            json_out_value(o, v->key, b->doc, v);
    }
    json_out_close(o, '}');
}

static char *write_messages(body *b, const prompt_chat *chat) {
    json_out o = {0};
    json_out_open(&o, NULL, '[');
    if (chat->system) {
        json_out_open(&o, NULL, '{');
        json_out_string(&o, "role", "system");
        json_out_string(&o, "content", chat->system);
        json_out_close(&o, '}');
    }
    for (const json_value *v = json_first(b->doc, chat->messages); v && !b->error.code; v = json_next(b->doc, v))
        put_message(&o, b, v);
    json_out_close(&o, ']');
    return json_out_take(&o, NULL);
}

static char *write_value(const body *b, const json_value *value) {
    json_out o = {0};
    if (!value) return NULL;
    json_out_value(&o, NULL, b->doc, value);
    return json_out_take(&o, NULL);
}

static void check_chat(http_server *s, body *b, const prompt_chat *chat) {
    if (!s->chat.template)
        body_mistake(b, "messages",
                     "the model has no chat template, so it was not made for conversations: use /v1/completions");
    else if (!chat->messages)
        body_mistake(b, "messages", "'messages' is missing");
    else if (chat->messages->count == 0)
        body_mistake(b, "messages", "'messages' is empty");
    else if (chat->tools && chat->tools->count > PROMPT_MAX_TOOLS)
        body_mistake(b, "tools", "there are more than %d tools", PROMPT_MAX_TOOLS);
}

char *prompt_chat_render(http_server *s, body *b, const prompt_chat *chat, size_t *length) {
    check_chat(s, b, chat);
    if (b->error.code) return NULL;
    char *messages = write_messages(b, chat),
         *tools = write_value(b, chat->tools && chat->tools->count ? chat->tools : NULL);
    char *variables = write_value(b, chat->variables), *text = NULL;
    time_t seconds = time(NULL);
    struct tm now;
    localtime_r(&seconds, &now);
    const chat_input in = {.messages = messages,
                           .tools = tools,
                           .variables = variables,
                           .bos = s->chat.bos,
                           .eos = s->chat.eos,
                           .add_generation_prompt = !chat->no_answer,
                           .now = &now};
    braid_error error = {0};
    if (!messages && !b->error.code) braid_fail(&b->error, BRAID_MEMORY, "no memory for the messages");
    if (!b->error.code)
        keep_error(b, chat_template_render(s->chat.template, &in, &text, length, &error), &error, "messages");
    free(messages);
    free(tools);
    free(variables);
    return text;
}

void prompt_chat_read(http_server *s, body *b, const prompt_chat *chat, texts_prompt **out) {
    tokenizer_ids ids = {0};
    size_t length = 0;
    braid_error error = {0};
    char *text = prompt_chat_render(s, b, chat, &length);
    if (text) keep_error(b, tokens_encode(s, text, length, TOKENIZER_PARSE_SPECIAL, &ids, &error), &error, "messages");
    free(text);
    if (!b->error.code && ids.count == 0) body_mistake(b, "messages", "the chat template wrote no token");
    *out = b->error.code ? NULL : calloc(1, sizeof **out);
    if (*out) {
        (*out)->tokens = ids.at;
        (*out)->count = ids.count;
        return;
    }
    tokenizer_ids_free(&ids);
    if (!b->error.code) braid_fail(&b->error, BRAID_MEMORY, "no memory for the prompt");
}
