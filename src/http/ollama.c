// Ollama's calls: /api/chat, /api/generate, /api/tags, /api/version, /api/show. Answers are lines of
// JSON, without a blank one.
#include "http/constraint.h"
#include "http/openai.h"
#include "serve/adapters.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct ollama {
    texts all;  // first
    body body;
    sampling sampling;
    grammar *grammar;
    bool chat, stream, tools;
    tools_style style;
    size_t shown;  // bytes of the text that were sent
    uint64_t started_ns, first_ns;
} ollama;

static void put_time(json_out *o, const char *key, uint64_t unix_seconds) {
    char text[32];
    struct tm utc;
    time_t seconds = (time_t)unix_seconds;
    gmtime_r(&seconds, &utc);
    strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
    json_out_string(o, key, text);
}

static void put_calls(json_out *o, const tools_call *list, uint32_t count) {
    json_out_open(o, "tool_calls", '[');
    for (uint32_t i = 0; i < count; i++) {
        json *doc = NULL;
        braid_error error;
        json_out_open(o, NULL, '{');
        json_out_open(o, "function", '{');
        json_out_string(o, "name", list[i].name);
        if (json_parse(list[i].arguments, strlen(list[i].arguments), &doc, &error) == BRAID_OK &&
            json_root(doc)->kind == JSON_OBJECT) {
            json_out_value(o, "arguments", doc, json_root(doc));
        } else {
            json_out_open(o, "arguments", '{');
            json_out_close(o, '}');
        }
        json_free(doc);
        json_out_close(o, '}');
        json_out_close(o, '}');
    }
    json_out_close(o, ']');
}

static void open_line(json_out *o, const ollama *a, const char *text, size_t length, const tools_call *list,
                      uint32_t count) {
    const char *model = texts_model(&a->all);
    json_out_open(o, NULL, '{');
    json_out_text(o, "model", model, strlen(model));
    put_time(o, "created_at", (uint64_t)time(NULL));
    if (a->chat) {
        json_out_open(o, "message", '{');
        json_out_string(o, "role", "assistant");
        json_out_text(o, "content", text, length);
        if (count > 0) put_calls(o, list, count);
        json_out_close(o, '}');
    } else {
        json_out_text(o, "response", text, length);
    }
}

static void put_end(json_out *o, const ollama *a, const text_choice *c) {
    uint64_t now = http_now_ns(), first = a->first_ns ? a->first_ns : now;
    json_out_bool(o, "done", true);
    json_out_string(o, "done_reason", openai_finish_reason(c->end));
    json_out_u64(o, "total_duration", now - a->all.x->arrived_ns);
    json_out_u64(o, "load_duration", 0);
    json_out_u64(o, "prompt_eval_count", a->all.prompt[0].count);
    json_out_u64(o, "prompt_eval_duration", a->started_ns ? first - a->started_ns : 0);
    json_out_u64(o, "eval_count", c->drawn);
    json_out_u64(o, "eval_duration", now - first);
    json_out_close(o, '}');
}

static void send_line(ollama *a, json_out *o) {
    size_t length = 0;
    char *text = json_out_take(o, &length);
    exchange_begin(a->all.x, "application/x-ndjson");
    if (!text || !exchange_write(a->all.x, text, length) || !exchange_write(a->all.x, "\n", 1)) texts_cancel(&a->all);
    free(text);
}

static void on_started(texts *t, text_choice *c) {
    (void)c;
    ((ollama *)t)->started_ns = http_now_ns();
}

static void send_text(ollama *a, const char *text, size_t length) {
    json_out o = {0};
    open_line(&o, a, text, length, NULL, 0);
    json_out_bool(&o, "done", false);
    json_out_close(&o, '}');
    send_line(a, &o);
}

static void on_step(texts *t, text_choice *c, const char *text, size_t length) {
    ollama *a = (ollama *)t;
    if (!a->first_ns) a->first_ns = http_now_ns();
    if (!a->stream) return;
    if (a->tools) {
        size_t visible = tools_visible(a->style, c->text ? c->text : "", c->length);
        text = c->text + a->shown;
        length = visible > a->shown ? visible - a->shown : 0;
    }
    if (length == 0) return;
    a->shown += length;
    send_text(a, text, length);
}

static void finish_text(ollama *a) {
    const text_choice *c = &a->all.choice[0];
    tools_call list[TOOLS_MAX_CALLS];
    size_t content = c->length;
    const char *text = c->text ? c->text : "";
    uint32_t count = a->tools ? tools_parse(a->style, text, c->length, &content, list) : 0;
    size_t from = a->stream && a->shown < content ? a->shown : a->stream ? content : 0;
    json_out o = {0};
    open_line(&o, a, text + from, content - from, list, count);
    put_end(&o, a, c);
    tools_free(list, count);
    if (!a->stream) {
        reply_json(a->all.x, 200, &o);
        return;
    }
    send_line(a, &o);
    exchange_end(a->all.x);
}

static void on_finish(texts *t) {
    ollama *a = (ollama *)t;
    json_out o = {0};
    if (!t->error.code) {
        finish_text(a);
    } else if (!exchange_begun(t->x)) {
        reply_failure(t->x, &t->error, NULL, t->late);
    } else {
        json_out_open(&o, NULL, '{');
        json_out_text(&o, "error", t->error.text, strlen(t->error.text));
        json_out_close(&o, '}');
        send_line(a, &o);
        exchange_end(t->x);
    }
}

static void on_keep_alive(texts *t) {
    ollama *a = (ollama *)t;
    if (a->stream) send_text(a, "", 0);
}

static braid_err on_constrain(texts *t, text_choice *c, service_constraint *out, braid_error *error) {
    ollama *a = (ollama *)t;
    (void)c;
    return a->grammar ? constraint_new(t->x->server, a->grammar, out, error) : BRAID_OK;
}

static void ollama_free(ollama *a) {
    grammar_free(a->grammar);
    sampling_free(&a->sampling);
    body_free(&a->body);
    free(a);
}

static void on_release(texts *t) {
    texts_close(t);
    ollama_free((ollama *)t);
}

static const texts_calls calls = {.started = on_started,
                                  .step = on_step,
                                  .finish = on_finish,
                                  .keep_alive = on_keep_alive,
                                  .constrain = on_constrain,
                                  .release = on_release};

// "json", or a schema.
static void read_format(ollama *a) {
    body *b = &a->body;
    const json_value *format = body_member(b, b->root, "format");
    braid_error error = {0};
    braid_err err = BRAID_OK;
    if (!format || (json_string(format) && !*json_string(format))) return;
    if (json_string(format) && strcmp(json_string(format), "json") == 0)
        err = grammar_of_objects(&a->grammar, &error);
    else if (format->kind == JSON_OBJECT)
        err = grammar_from_schema(b->doc, format, &a->grammar, &error);
    else
        body_mistake(b, "format", "'format' must be \"json\" or a schema");
    if (err) body_mistake(b, "format", "%s", error.text);
}

static ollama *ollama_new(exchange *x, bool chat) {
    ollama *a = calloc(1, sizeof *a);
    if (!a) {
        exchange_reply(x, 500, NULL, NULL, 0);
        return NULL;
    }
    if (!body_read(x, &a->body)) {
        body_free(&a->body);
        free(a);
        return NULL;
    }
    body *b = &a->body;
    a->all.x = x;
    a->all.calls = &calls;
    a->all.n = 1;
    a->chat = chat;
    a->stream = true;
    sampling_begin(&a->sampling, x->server);
    body_bool(b, b->root, "stream", &a->stream);
    sampling_read_ollama(&a->sampling, b, body_object(b, b->root, "options"));
    openai_model(x->server, b, &a->all.text);
    read_format(a);
    return a;
}

static void ollama_run(ollama *a) {
    if (body_refused(a->all.x, &a->body)) {
        prompt_free(a->all.prompt, a->all.prompts);
        ollama_free(a);
        return;
    }
    a->sampling.settings.show_special = a->tools;
    a->all.text.settings = a->sampling.settings;
    texts_run(&a->all);
}

void handle_ollama_chat(exchange *x) {
    ollama *a = ollama_new(x, true);
    if (!a) return;
    body *b = &a->body;
    prompt_chat chat = {.messages = body_array(b, b->root, "messages"), .tools = body_array(b, b->root, "tools")};
    constraint_read_tools(&a->grammar, x->server, b, &chat, &a->tools);
    a->style = tools_style_of(x->server->chat.source);
    prompt_chat_read(x->server, b, &chat, &a->all.prompt);
    a->all.prompts = a->all.prompt ? 1 : 0;
    ollama_run(a);
}

// `raw`, or a model without a template: the prompt as it is. Otherwise it is a question in a chat.
void handle_ollama_generate(exchange *x) {
    ollama *a = ollama_new(x, false);
    if (!a) return;
    body *b = &a->body;
    bool raw = false;
    body_bool(b, b->root, "raw", &raw);
    const char *prompt = body_string(b, b->root, "prompt"), *system = body_string(b, b->root, "system");
    if (!prompt || !*prompt) body_mistake(b, "prompt", "'prompt' is missing");
    if (!b->error.code && (raw || !x->server->chat.template)) {
        prompt_read(x->server, b, "prompt", false, &a->all.prompt, &a->all.prompts);
    } else if (!b->error.code) {
        json_out o = {0};
        body question;
        json_out_open(&o, NULL, '{');
        json_out_open(&o, "messages", '[');
        json_out_open(&o, NULL, '{');
        json_out_string(&o, "role", "user");
        json_out_string(&o, "content", prompt);
        json_out_close(&o, '}');
        json_out_close(&o, ']');
        json_out_close(&o, '}');
        size_t length = 0;
        char *text = json_out_take(&o, &length);
        if (body_parse(&question, text, text ? length : 0)) {
            const prompt_chat chat = {.messages = json_member(question.doc, question.root, "messages"),
                                      .system = system && *system ? system : NULL};
            prompt_chat_read(x->server, &question, &chat, &a->all.prompt);
            a->all.prompts = a->all.prompt ? 1 : 0;
        }
        if (question.error.code) b->error = question.error;
        body_free(&question);
        free(text);
    }
    ollama_run(a);
}

static void put_details(json_out *o) {
    json_out_open(o, "details", '{');
    json_out_string(o, "format", "braid");
    json_out_string(o, "family", "braid");
    json_out_string(o, "parameter_size", "");
    json_out_string(o, "quantization_level", "");
    json_out_close(o, '}');
}

static void put_tag(json_out *o, const service_model *m, const char *name, const char *digest) {
    json_out_open(o, NULL, '{');
    json_out_text(o, "name", name, strlen(name));
    json_out_text(o, "model", name, strlen(name));
    put_time(o, "modified_at", m->created);
    json_out_u64(o, "size", 0);
    json_out_string(o, "digest", digest);
    put_details(o);
    json_out_close(o, '}');
}

void handle_ollama_tags(exchange *x) {
    const service_model *m = x->server->model;
    json_out o = {0};
    json_out_open(&o, NULL, '{');
    json_out_open(&o, "models", '[');
    put_tag(&o, m, m->name, m->hash);
    for (uint32_t i = 0; i < adapter_set_count(m->adapters); i++) put_tag(&o, m, adapter_set_name(m->adapters, i), "");
    json_out_close(&o, ']');
    json_out_close(&o, '}');
    reply_json(x, 200, &o);
}

void handle_ollama_version(exchange *x) {
    json_out o = {0};
    json_out_open(&o, NULL, '{');
    json_out_string(&o, "version", BRAID_VERSION);
    json_out_close(&o, '}');
    reply_json(x, 200, &o);
}

void handle_ollama_show(exchange *x) {
    const http_server *s = x->server;
    json_out o = {0};
    json_out_open(&o, NULL, '{');
    put_time(&o, "modified_at", s->model->created);
    json_out_string(&o, "template", s->chat.source ? s->chat.source : "");
    put_details(&o);
    json_out_open(&o, "model_info", '{');
    json_out_u64(&o, "general.context_length", s->model->context);
    json_out_close(&o, '}');
    json_out_open(&o, "capabilities", '[');
    json_out_string(&o, NULL, "completion");
    if (s->chat.source && strstr(s->chat.source, "tools")) json_out_string(&o, NULL, "tools");
    json_out_close(&o, ']');
    json_out_close(&o, '}');
    reply_json(x, 200, &o);
}
