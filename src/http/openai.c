#include "http/openai.h"

#include "http/constraint.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

// ---- the request

static bool same_name(const char *name, const char *of) {
    size_t n = strlen(of);
    return strncmp(name, of, n) == 0 && (name[n] == 0 || strcmp(name + n, ":latest") == 0);
}

// Clients that know one model only send these.
static bool means_the_model(const char *name) {
    static const char *const any[] = {"", "default", "dummy", "tgi"};
    for (size_t i = 0; i < sizeof any / sizeof *any; i++)
        if (strcmp(name, any[i]) == 0) return true;
    return false;
}

void openai_model(http_server *s, body *b, service_text *text) {
    const char *name = body_string(b, b->root, "model");
    if (!name || means_the_model(name) || same_name(name, s->model->name)) return;
    text->model = name;  // an adapter, or the service refuses it
}

static void read_stream(openai_answer *a) {
    body *b = &a->body;
    body_bool(b, b->root, "stream", &a->stream);
    const json_value *options = body_object(b, b->root, "stream_options");
    if (options) body_bool(b, options, "include_usage", &a->usage);
}

openai_answer *openai_new(exchange *x, bool chat) {
    openai_answer *a = calloc(1, sizeof *a);
    if (!a) {
        exchange_reply(x, 500, NULL, NULL, 0);
        return NULL;
    }
    if (!body_read(x, &a->body)) {
        body_free(&a->body);
        free(a);
        return NULL;
    }
    a->all.x = x;
    a->all.calls = &openai_calls;
    a->all.n = 1;
    a->chat = chat;
    a->created = (uint64_t)time(NULL);
    make_id(x->server, chat ? "chatcmpl-" : "cmpl-", a->id);
    sampling_begin(&a->sampling, x->server);
    sampling_read(&a->sampling, &a->body, a->body.root);
    openai_model(x->server, &a->body, &a->all.text);
    body_u32(&a->body, a->body.root, "n", 1, OPENAI_MAX_CHOICES, &a->all.n);
    read_stream(a);
    return a;
}

void openai_free(openai_answer *a) {
    grammar_free(a->grammar);
    sampling_free(&a->sampling);
    body_free(&a->body);
    free(a);
}

void openai_run(openai_answer *a) {
    exchange *x = a->all.x;
    if (!a->body.error.code && (uint64_t)a->all.prompts * a->all.n > TEXTS_MAX)
        body_mistake(&a->body, "n", "prompts times 'n' are more than %d texts", TEXTS_MAX);
    if (body_refused(x, &a->body)) {
        prompt_free(a->all.prompt, a->all.prompts);
        openai_free(a);
        return;
    }
    if (a->log_probabilities) a->sampling.settings.top_logprobs = a->top > 0 ? a->top : 1;
    a->all.log_probabilities = a->log_probabilities;
    a->all.text.settings = a->sampling.settings;
    texts_run(&a->all);
}

// ---- pieces of answers

const char *openai_finish_reason(service_end end) {
    return end == SERVICE_MAX_TOKENS || end == SERVICE_CONTEXT ? "length" : "stop";
}

void openai_put_usage(json_out *o, const char *key, const texts *t) {
    size_t prompt, cached, drawn;
    texts_usage(t, &prompt, &cached, &drawn);
    json_out_open(o, key, '{');
    json_out_u64(o, "prompt_tokens", prompt);
    json_out_u64(o, "completion_tokens", drawn);
    json_out_u64(o, "total_tokens", prompt + drawn);
    json_out_open(o, "prompt_tokens_details", '{');
    json_out_u64(o, "cached_tokens", cached);
    json_out_close(o, '}');
    json_out_close(o, '}');
}

void openai_event(exchange *x, texts *t, json_out *o) {
    size_t length = 0;
    char *text = json_out_take(o, &length);
    exchange_begin(x, "text/event-stream");
    bool sent = text && exchange_write(x, "data: ", 6) && exchange_write(x, text, length) &&
                exchange_write(x, "\n\n", 2);
    free(text);
    if (!sent) texts_cancel(t);
}

void openai_put_calls(json_out *o, const tools_call *calls, uint32_t count, bool stream, http_server *s) {
    json_out_open(o, "tool_calls", '[');
    for (uint32_t i = 0; i < count; i++) {
        char id[64];
        make_id(s, "call_", id);
        json_out_open(o, NULL, '{');
        if (stream) json_out_u64(o, "index", i);
        json_out_string(o, "id", id);
        json_out_string(o, "type", "function");
        json_out_open(o, "function", '{');
        json_out_string(o, "name", calls[i].name);
        json_out_string(o, "arguments", calls[i].arguments);
        json_out_close(o, '}');
        json_out_close(o, '}');
    }
    json_out_close(o, ']');
}

uint32_t openai_find_calls(const openai_answer *a, const text_choice *c, size_t *content, tools_call *calls) {
    *content = c->length;
    return a->tools ? tools_parse(a->style, c->text ? c->text : "", c->length, content, calls) : 0;
}
