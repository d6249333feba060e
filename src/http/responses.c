// POST /v1/responses: OpenAI's newer form of a chat. Nothing is stored, so `previous_response_id` is
// refused.
#include "http/constraint.h"
#include "http/openai.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct responses {
    texts all;        // first
    body body, chat;  // the request, and its messages in the form of a chat
    sampling sampling;
    grammar *grammar;
    bool stream, tools, opened;
    tools_style style;
    size_t shown;
    uint64_t created, number;
    char id[64], item[64];
} responses;

// ---- the request

static void put_content(json_out *o, const body *b, const json_value *item) {
    const json_value *content = body_member(b, item, "content");
    if (content) json_out_value(o, "content", b->doc, content);
}

static void put_call(json_out *o, const body *b, const json_value *item) {
    const json_value *name = body_member(b, item, "name"), *arguments = body_member(b, item, "arguments");
    json_out_string(o, "role", "assistant");
    json_out_string(o, "content", "");
    json_out_open(o, "tool_calls", '[');
    json_out_open(o, NULL, '{');
    json_out_string(o, "type", "function");
    if (body_member(b, item, "call_id")) json_out_value(o, "id", b->doc, body_member(b, item, "call_id"));
    json_out_open(o, "function", '{');
    if (name) json_out_value(o, "name", b->doc, name);
    if (arguments) json_out_value(o, "arguments", b->doc, arguments);
    json_out_close(o, '}');
    json_out_close(o, '}');
    json_out_close(o, ']');
}

static void put_item(json_out *o, body *b, const json_value *item) {
    const char *type = json_string(json_member(b->doc, item, "type"));
    const json_value *role = body_member(b, item, "role"), *output = body_member(b, item, "output");
    if (type && strcmp(type, "reasoning") == 0) return;
    json_out_open(o, NULL, '{');
    if (type && strcmp(type, "function_call") == 0) {
        put_call(o, b, item);
    } else if (type && strcmp(type, "function_call_output") == 0) {
        json_out_string(o, "role", "tool");
        if (output) json_out_value(o, "content", b->doc, output);
        if (body_member(b, item, "call_id")) json_out_value(o, "tool_call_id", b->doc, body_member(b, item, "call_id"));
    } else if ((!type || strcmp(type, "message") == 0) && role) {
        json_out_value(o, "role", b->doc, role);
        put_content(o, b, item);
    } else {
        body_mistake(b, "input", "an item of 'input' is of the type '%.40s', which is not supported",
                     type ? type : "(none)");
    }
    json_out_close(o, '}');
}

// {"messages": [...]}, with the tools in the form of a chat.
static void make_chat(responses *r) {
    body *b = &r->body;
    const json_value *input = body_member(b, b->root, "input"), *tools = body_array(b, b->root, "tools");
    const char *instructions = body_string(b, b->root, "instructions");
    json_out o = {0};
    json_out_open(&o, NULL, '{');
    json_out_open(&o, "messages", '[');
    if (instructions) {
        json_out_open(&o, NULL, '{');
        json_out_string(&o, "role", "system");
        json_out_string(&o, "content", instructions);
        json_out_close(&o, '}');
    }
    if (json_string(input)) {
        json_out_open(&o, NULL, '{');
        json_out_string(&o, "role", "user");
        json_out_string(&o, "content", json_string(input));
        json_out_close(&o, '}');
    } else if (input && input->kind == JSON_ARRAY) {
        for (const json_value *v = json_first(b->doc, input); v; v = json_next(b->doc, v)) put_item(&o, b, v);
    } else {
        body_mistake(b, "input", "'input' must be a text or a list of items");
    }
    json_out_close(&o, ']');
    if (tools) {
        json_out_open(&o, "tools", '[');
        for (const json_value *v = json_first(b->doc, tools); v; v = json_next(b->doc, v)) {
            json_out_open(&o, NULL, '{');
            json_out_string(&o, "type", "function");
            json_out_value(&o, "function", b->doc, v);
            json_out_close(&o, '}');
        }
        json_out_close(&o, ']');
    }
    json_out_close(&o, '}');
    size_t length = 0;
    char *text = json_out_take(&o, &length);
    if (!b->error.code && !body_parse(&r->chat, text, text ? length : 0)) b->error = r->chat.error;
    free(text);
}

static void read_rest(responses *r) {
    body *b = &r->body;
    const json_value *text = body_object(b, b->root, "text"), *format = text ? body_object(b, text, "format") : NULL;
    const char *before = body_string(b, b->root, "previous_response_id");
    if (before)
        body_mistake(b, "previous_response_id",
                     "responses are not stored here: send the whole conversation as 'input'");
    body_bool(b, b->root, "stream", &r->stream);
    body_u64(b, b->root, "max_output_tokens", 1, UINT32_MAX, &r->sampling.settings.max_tokens);
    if (format) constraint_read_format(&r->grammar, b, format, "text");
}

// ---- the answer

static void put_text_part(json_out *o, const char *key, const char *text, size_t length) {
    json_out_open(o, key, '{');
    json_out_string(o, "type", "output_text");
    json_out_text(o, "text", text, length);
    json_out_open(o, "annotations", '[');
    json_out_close(o, ']');
    json_out_close(o, '}');
}

static void put_message(json_out *o, const char *key, const responses *r, const char *status, const char *text,
                        size_t length, bool empty) {
    json_out_open(o, key, '{');
    json_out_string(o, "type", "message");
    json_out_string(o, "id", r->item);
    json_out_string(o, "status", status);
    json_out_string(o, "role", "assistant");
    json_out_open(o, "content", '[');
    if (!empty) put_text_part(o, NULL, text, length);
    json_out_close(o, ']');
    json_out_close(o, '}');
}

static void put_function_call(json_out *o, const char *key, const tools_call *call, const char *id) {
    json_out_open(o, key, '{');
    json_out_string(o, "type", "function_call");
    json_out_string(o, "id", id);
    json_out_string(o, "call_id", id);
    json_out_string(o, "status", "completed");
    json_out_string(o, "name", call->name);
    json_out_string(o, "arguments", call->arguments);
    json_out_close(o, '}');
}

static void put_usage(json_out *o, const texts *t) {
    size_t prompt, cached, drawn;
    texts_usage(t, &prompt, &cached, &drawn);
    json_out_open(o, "usage", '{');
    json_out_u64(o, "input_tokens", prompt);
    json_out_open(o, "input_tokens_details", '{');
    json_out_u64(o, "cached_tokens", cached);
    json_out_close(o, '}');
    json_out_u64(o, "output_tokens", drawn);
    json_out_open(o, "output_tokens_details", '{');
    json_out_u64(o, "reasoning_tokens", 0);
    json_out_close(o, '}');
    json_out_u64(o, "total_tokens", prompt + drawn);
    json_out_close(o, '}');
}

typedef struct output {
    tools_call call[TOOLS_MAX_CALLS];
    char id[TOOLS_MAX_CALLS][64];
    uint32_t calls;
    size_t content;
} output;

static void put_response(json_out *o, const char *key, const responses *r, const char *status, const output *out) {
    const char *model = texts_model(&r->all);
    const text_choice *c = r->all.choice;
    json_out_open(o, key, '{');
    json_out_string(o, "id", r->id);
    json_out_string(o, "object", "response");
    json_out_u64(o, "created_at", r->created);
    json_out_string(o, "status", status);
    json_out_text(o, "model", model, strlen(model));
    json_out_null(o, "error");
    if (strcmp(status, "incomplete") == 0) {
        json_out_open(o, "incomplete_details", '{');
        json_out_string(o, "reason", "max_output_tokens");
        json_out_close(o, '}');
    } else {
        json_out_null(o, "incomplete_details");
    }
    json_out_open(o, "output", '[');
    if (out && (out->content > 0 || out->calls == 0))
        put_message(o, NULL, r, status, c->text ? c->text : "", out->content, false);
    for (uint32_t i = 0; out && i < out->calls; i++) put_function_call(o, NULL, &out->call[i], out->id[i]);
    json_out_close(o, ']');
    json_out_bool(o, "parallel_tool_calls", true);
    json_out_string(o, "tool_choice", "auto");
    json_out_open(o, "tools", '[');
    json_out_close(o, ']');
    if (out) put_usage(o, &r->all);
    json_out_close(o, '}');
}

static void open_event(json_out *o, responses *r, const char *type) {
    json_out_open(o, NULL, '{');
    json_out_string(o, "type", type);
    json_out_u64(o, "sequence_number", r->number++);
}

static void close_event(json_out *o, responses *r) {
    json_out_close(o, '}');
    openai_event(r->all.x, &r->all, o);
}

static void send_response(responses *r, const char *type, const char *status, const output *out) {
    json_out o = {0};
    open_event(&o, r, type);
    put_response(&o, "response", r, status, out);
    close_event(&o, r);
}

static void put_place(json_out *o, const responses *r) {
    json_out_string(o, "item_id", r->item);
    json_out_u64(o, "output_index", 0);
    json_out_u64(o, "content_index", 0);
}

static void open_message(responses *r) {
    json_out o = {0};
    if (r->opened) return;
    r->opened = true;
    open_event(&o, r, "response.output_item.added");
    json_out_u64(&o, "output_index", 0);
    put_message(&o, "item", r, "in_progress", "", 0, true);
    close_event(&o, r);
    open_event(&o, r, "response.content_part.added");
    put_place(&o, r);
    put_text_part(&o, "part", "", 0);
    close_event(&o, r);
}

static void send_delta(responses *r, const char *text, size_t length) {
    json_out o = {0};
    open_message(r);
    open_event(&o, r, "response.output_text.delta");
    put_place(&o, r);
    json_out_text(&o, "delta", text, length);
    json_out_open(&o, "logprobs", '[');
    json_out_close(&o, ']');
    close_event(&o, r);
}

static void close_message(responses *r, const char *text, size_t length) {
    json_out o = {0};
    if (!r->opened) return;
    open_event(&o, r, "response.output_text.done");
    put_place(&o, r);
    json_out_text(&o, "text", text, length);
    json_out_open(&o, "logprobs", '[');
    json_out_close(&o, ']');
    close_event(&o, r);
    open_event(&o, r, "response.content_part.done");
    put_place(&o, r);
    put_text_part(&o, "part", text, length);
    close_event(&o, r);
    open_event(&o, r, "response.output_item.done");
    json_out_u64(&o, "output_index", 0);
    put_message(&o, "item", r, "completed", text, length, false);
    close_event(&o, r);
}

static void send_calls(responses *r, const output *out) {
    for (uint32_t i = 0; i < out->calls; i++) {
        uint64_t place = i + (r->opened ? 1u : 0u);
        json_out o = {0};
        open_event(&o, r, "response.output_item.added");
        json_out_u64(&o, "output_index", place);
        put_function_call(&o, "item", &out->call[i], out->id[i]);
        close_event(&o, r);
        open_event(&o, r, "response.function_call_arguments.done");
        json_out_string(&o, "item_id", out->id[i]);
        json_out_u64(&o, "output_index", place);
        json_out_string(&o, "name", out->call[i].name);
        json_out_string(&o, "arguments", out->call[i].arguments);
        close_event(&o, r);
        open_event(&o, r, "response.output_item.done");
        json_out_u64(&o, "output_index", place);
        put_function_call(&o, "item", &out->call[i], out->id[i]);
        close_event(&o, r);
    }
}

static void on_started(texts *t, text_choice *c) {
    responses *r = (responses *)t;
    (void)c;
    if (!r->stream || exchange_begun(t->x)) return;
    send_response(r, "response.created", "in_progress", NULL);
    send_response(r, "response.in_progress", "in_progress", NULL);
}

static void on_step(texts *t, text_choice *c, const char *text, size_t length) {
    responses *r = (responses *)t;
    if (!r->stream) return;
    if (r->tools) {
        size_t visible = tools_visible(r->style, c->text ? c->text : "", c->length);
        text = c->text + r->shown;
        length = visible > r->shown ? visible - r->shown : 0;
    }
    if (length == 0) return;
    r->shown += length;
    send_delta(r, text, length);
}

static void finish_text(responses *r) {
    const text_choice *c = r->all.choice;
    const char *text = c->text ? c->text : "";
    bool cut = c->end == SERVICE_MAX_TOKENS || c->end == SERVICE_CONTEXT;
    output *out = calloc(1, sizeof *out);
    json_out o = {0};
    if (!out) {
        exchange_reply(r->all.x, 500, NULL, NULL, 0);
        exchange_end(r->all.x);
        return;
    }
    out->content = c->length;
    if (r->tools) out->calls = tools_parse(r->style, text, c->length, &out->content, out->call);
    for (uint32_t i = 0; i < out->calls; i++) make_id(r->all.x->server, "call_", out->id[i]);
    if (!r->stream) {
        put_response(&o, NULL, r, cut ? "incomplete" : "completed", out);
        reply_json(r->all.x, 200, &o);
    } else {
        if (out->content > r->shown) send_delta(r, text + r->shown, out->content - r->shown);
        if (out->calls == 0) open_message(r);
        close_message(r, text, out->content);
        send_calls(r, out);
        send_response(r, cut ? "response.incomplete" : "response.completed", cut ? "incomplete" : "completed", out);
        exchange_end(r->all.x);
    }
    tools_free(out->call, out->calls);
    free(out);
}

static void on_finish(texts *t) {
    responses *r = (responses *)t;
    json_out o = {0};
    if (!t->error.code) {
        finish_text(r);
    } else if (!exchange_begun(t->x)) {
        reply_failure(t->x, &t->error, NULL, t->late);
    } else {
        open_event(&o, r, "error");
        put_error(&o, "error", failure_status(t->error.code, true), NULL, NULL, t->error.text);
        close_event(&o, r);
        exchange_end(t->x);
    }
}

static void on_keep_alive(texts *t) {
    responses *r = (responses *)t;
    if (!r->stream) return;
    on_started(t, NULL);
    send_delta(r, "", 0);
}

static braid_err on_constrain(texts *t, text_choice *c, service_constraint *out, braid_error *error) {
    responses *r = (responses *)t;
    (void)c;
    return r->grammar ? constraint_new(t->x->server, r->grammar, out, error) : BRAID_OK;
}

static void responses_free(responses *r) {
    grammar_free(r->grammar);
    sampling_free(&r->sampling);
    body_free(&r->body);
    body_free(&r->chat);
    free(r);
}

static void on_release(texts *t) {
    texts_close(t);
    responses_free((responses *)t);
}

static const texts_calls calls = {.started = on_started,
                                  .step = on_step,
                                  .finish = on_finish,
                                  .keep_alive = on_keep_alive,
                                  .constrain = on_constrain,
                                  .release = on_release};

static void read_request(responses *r) {
    exchange *x = r->all.x;
    body *b = &r->body;
    sampling_begin(&r->sampling, x->server);
    sampling_read(&r->sampling, b, b->root);
    openai_model(x->server, b, &r->all.text);
    read_rest(r);
    make_chat(r);
    if (b->error.code) return;
    prompt_chat chat = {.messages = json_member(r->chat.doc, r->chat.root, "messages"),
                        .tools = json_member(r->chat.doc, r->chat.root, "tools")};
    // the choice is in the request, the tools are in the chat
    prompt_chat asked = {.tools = body_array(b, b->root, "tools")};
    constraint_read_tools(&r->grammar, x->server, b, &asked, &r->tools);
    if (!asked.tools) chat.tools = NULL;
    r->style = tools_style_of(x->server->chat.source);
    r->sampling.settings.show_special = r->tools;
    prompt_chat_read(x->server, &r->chat, &chat, &r->all.prompt);
    r->all.prompts = r->all.prompt ? 1 : 0;
    if (!b->error.code) b->error = r->chat.error;
}

void handle_responses(exchange *x) {
    responses *r = calloc(1, sizeof *r);
    if (!r) {
        exchange_reply(x, 500, NULL, NULL, 0);
        return;
    }
    r->all.x = x;
    r->all.calls = &calls;
    r->all.n = 1;
    r->created = (uint64_t)time(NULL);
    make_id(x->server, "resp_", r->id);
    make_id(x->server, "msg_", r->item);
    if (!body_read(x, &r->body)) {
        responses_free(r);
        return;
    }
    read_request(r);
    if (body_refused(x, &r->body)) {
        prompt_free(r->all.prompt, r->all.prompts);
        responses_free(r);
        return;
    }
    r->all.text.settings = r->sampling.settings;
    texts_run(&r->all);
}
