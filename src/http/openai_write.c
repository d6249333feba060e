#include "http/openai.h"

#include "http/constraint.h"
#include "http/tokens.h"

#include <stdlib.h>
#include <string.h>

// Progress of a choice that is streamed.
typedef struct sent {
    size_t text, entries;
    size_t characters;  // before the next entry
    bool begun;
} sent;

static sent *sent_of(text_choice *c) {
    if (!c->state) c->state = calloc(1, sizeof(sent));
    if (!c->state) texts_cancel(c->all);
    return c->state;
}

// ---- log-probabilities

static void put_top_names(json_out *o, const openai_answer *a, const text_entry *e) {
    if (e->absent || a->top == 0) {
        json_out_null(o, NULL);
        return;
    }
    json_out_open(o, NULL, '{');
    bool chosen = false;
    for (uint32_t i = 0; i < e->top_count && i < a->top; i++) {
        char name[1200], other[1200];
        bool twice = false;
        tokens_name(a->all.x->server, e->top[i].token, name, sizeof name);
        for (uint32_t k = 0; k < i && !twice; k++) {
            tokens_name(a->all.x->server, e->top[k].token, other, sizeof other);
            twice = strcmp(name, other) == 0;
        }
        if (!twice) json_out_float(o, name, e->top[i].logprob);
        chosen |= e->top[i].token == e->token;
    }
    if (!chosen) {
        char name[1200];
        tokens_name(a->all.x->server, e->token, name, sizeof name);
        json_out_float(o, name, e->logprob);
    }
    json_out_close(o, '}');
}

// Of /v1/completions: four lists, of the entries from `first` on. `characters` are before them.
static size_t put_lists(json_out *o, const openai_answer *a, const text_choice *c, size_t first, size_t characters) {
    const http_server *s = a->all.x->server;
    size_t at = characters;
    json_out_open(o, "logprobs", '{');
    json_out_open(o, "tokens", '[');
    for (size_t i = first; i < c->entries; i++) tokens_put(o, NULL, s, c->entry[i].token);
    json_out_close(o, ']');
    json_out_open(o, "token_logprobs", '[');
    for (size_t i = first; i < c->entries; i++)
        if (c->entry[i].absent)
            json_out_null(o, NULL);
        else
            json_out_float(o, NULL, c->entry[i].logprob);
    json_out_close(o, ']');
    json_out_open(o, "top_logprobs", '[');
    for (size_t i = first; i < c->entries; i++) put_top_names(o, a, &c->entry[i]);
    json_out_close(o, ']');
    json_out_open(o, "text_offset", '[');
    for (size_t i = first; i < c->entries; i++) {
        json_out_u64(o, NULL, at);
        at += tokens_characters(s, c->entry[i].token);
    }
    json_out_close(o, ']');
    json_out_close(o, '}');
    return at;
}

static void put_token(json_out *o, const http_server *s, uint32_t token, float logprob) {
    char bytes[256];
    size_t n = tokens_bytes(s, token, bytes, sizeof bytes);
    tokens_put(o, "token", s, token);
    json_out_float(o, "logprob", logprob);
    json_out_open(o, "bytes", '[');
    for (size_t i = 0; i < n && i < sizeof bytes; i++) json_out_u64(o, NULL, (unsigned char)bytes[i]);
    json_out_close(o, ']');
}

// Of /v1/chat/completions: one list of objects.
static void put_contents(json_out *o, const openai_answer *a, const text_choice *c, size_t first) {
    const http_server *s = a->all.x->server;
    json_out_open(o, "logprobs", '{');
    json_out_open(o, "content", '[');
    for (size_t i = first; i < c->entries; i++) {
        const text_entry *e = &c->entry[i];
        json_out_open(o, NULL, '{');
        put_token(o, s, e->token, e->logprob);
        json_out_open(o, "top_logprobs", '[');
        for (uint32_t k = 0; k < e->top_count && k < a->top; k++) {
            json_out_open(o, NULL, '{');
            put_token(o, s, e->top[k].token, e->top[k].logprob);
            json_out_close(o, '}');
        }
        json_out_close(o, ']');
        json_out_close(o, '}');
    }
    json_out_close(o, ']');
    json_out_null(o, "refusal");
    json_out_close(o, '}');
}

// ---- streams

static const char *model_of(const openai_answer *a) { return texts_model(&a->all); }

static void open_document(json_out *o, const openai_answer *a, const char *object) {
    json_out_open(o, NULL, '{');
    json_out_string(o, "id", a->id);
    json_out_string(o, "object", object);
    json_out_u64(o, "created", a->created);
    json_out_text(o, "model", model_of(a), strlen(model_of(a)));
}

static void open_chunk(json_out *o, const openai_answer *a, const text_choice *c) {
    open_document(o, a, a->chat ? "chat.completion.chunk" : "text_completion");
    json_out_open(o, "choices", '[');
    json_out_open(o, NULL, '{');
    json_out_u64(o, "index", c->index);
}

static void close_chunk(json_out *o, openai_answer *a, const char *reason) {
    if (reason)
        json_out_string(o, "finish_reason", reason);
    else
        json_out_null(o, "finish_reason");
    json_out_close(o, '}');
    json_out_close(o, ']');
    json_out_close(o, '}');
    openai_event(a->all.x, &a->all, o);
}

static void put_new_entries(json_out *o, const openai_answer *a, const text_choice *c, sent *s) {
    if (!a->log_probabilities || s->entries == c->entries)
        json_out_null(o, "logprobs");
    else if (a->chat)
        put_contents(o, a, c, s->entries);
    else
        s->characters = put_lists(o, a, c, s->entries, s->characters);
    s->entries = c->entries;
}

static void send_text(openai_answer *a, text_choice *c, const char *text, size_t length) {
    sent *s = sent_of(c);
    json_out o = {0};
    if (!s || (length == 0 && s->entries == c->entries)) return;
    open_chunk(&o, a, c);
    if (a->chat) json_out_open(&o, "delta", '{');
    json_out_text(&o, a->chat ? "content" : "text", text, length);
    if (a->chat) json_out_close(&o, '}');
    put_new_entries(&o, a, c, s);
    close_chunk(&o, a, NULL);
}

static void begin_choice(openai_answer *a, text_choice *c) {
    sent *s = sent_of(c);
    if (!s || s->begun) return;
    s->begun = true;
    if (!a->chat) return;
    json_out o = {0};
    open_chunk(&o, a, c);
    json_out_open(&o, "delta", '{');
    json_out_string(&o, "role", "assistant");
    json_out_string(&o, "content", "");
    json_out_close(&o, '}');
    json_out_null(&o, "logprobs");
    close_chunk(&o, a, NULL);
}

static void on_accepted(texts *t) {
    openai_answer *a = (openai_answer *)t;
    if (a->stream) exchange_begin(t->x, "text/event-stream");
    if (a->stream) begin_choice(a, &t->choice[0]);
}

static void on_started(texts *t, text_choice *c) {
    openai_answer *a = (openai_answer *)t;
    if (!a->stream) return;
    begin_choice(a, c);
    const texts_prompt *prompt = &t->prompt[c->index / t->n];
    // with log-probabilities the prompt's text goes with the first token's, when they are known
    if (a->echo && !a->log_probabilities) send_text(a, c, prompt->echo, prompt->echo_length);
}

static void send_echo(openai_answer *a, text_choice *c) {
    const texts_prompt *prompt = &a->all.prompt[c->index / a->all.n];
    sent *s = sent_of(c);
    if (!s || !a->echo || !a->log_probabilities || s->entries > 0) return;
    size_t all = c->entries;
    c->entries = prompt->count < all ? prompt->count : all;
    send_text(a, c, prompt->echo, prompt->echo_length);
    c->entries = all;
}

static void on_step(texts *t, text_choice *c, const char *text, size_t length) {
    openai_answer *a = (openai_answer *)t;
    if (!a->stream) return;
    begin_choice(a, c);
    send_echo(a, c);
    if (!a->tools) {
        send_text(a, c, text, length);
        return;
    }
    sent *s = sent_of(c);
    size_t visible = tools_visible(a->style, c->text ? c->text : "", c->length);
    if (!s || visible <= s->text) return;
    send_text(a, c, c->text + s->text, visible - s->text);
    s->text = visible;
}

static void send_calls(openai_answer *a, text_choice *c, const tools_call *calls, uint32_t count) {
    json_out o = {0};
    open_chunk(&o, a, c);
    json_out_open(&o, "delta", '{');
    openai_put_calls(&o, calls, count, true, a->all.x->server);
    json_out_close(&o, '}');
    json_out_null(&o, "logprobs");
    close_chunk(&o, a, NULL);
}

// The calls of a choice, or the text that looked like one.
static uint32_t send_rest(openai_answer *a, text_choice *c) {
    tools_call calls[TOOLS_MAX_CALLS];
    size_t content = 0;
    sent *s = sent_of(c);
    if (!a->tools || !s) return 0;
    uint32_t count = openai_find_calls(a, c, &content, calls);
    if (content > s->text) send_text(a, c, c->text + s->text, content - s->text);
    if (count > 0) send_calls(a, c, calls, count);
    tools_free(calls, count);
    return count;
}

static void on_ended(texts *t, text_choice *c) {
    openai_answer *a = (openai_answer *)t;
    sent *s = a->stream ? sent_of(c) : NULL;
    if (!s) return;
    begin_choice(a, c);
    send_echo(a, c);
    uint32_t calls = send_rest(a, c);
    json_out o = {0};
    open_chunk(&o, a, c);
    if (a->chat) {
        json_out_open(&o, "delta", '{');
        json_out_close(&o, '}');
    } else {
        json_out_string(&o, "text", "");
    }
    put_new_entries(&o, a, c, s);
    close_chunk(&o, a, calls > 0 ? "tool_calls" : openai_finish_reason(c->end));
}

static void finish_stream(openai_answer *a) {
    texts *t = &a->all;
    json_out o = {0};
    if (a->usage) {
        open_document(&o, a, a->chat ? "chat.completion.chunk" : "text_completion");
        json_out_open(&o, "choices", '[');
        json_out_close(&o, ']');
        openai_put_usage(&o, "usage", t);
        json_out_close(&o, '}');
        openai_event(t->x, t, &o);
    }
    exchange_begin(t->x, "text/event-stream");
    exchange_write(t->x, "data: [DONE]\n\n", 14);
    exchange_end(t->x);
}

// ---- whole answers

static void put_message(json_out *o, openai_answer *a, const text_choice *c, const char **reason) {
    tools_call calls[TOOLS_MAX_CALLS];
    size_t content = 0;
    uint32_t count = openai_find_calls(a, c, &content, calls);
    json_out_open(o, "message", '{');
    json_out_string(o, "role", "assistant");
    if (count > 0 && content == 0)
        json_out_null(o, "content");
    else
        json_out_text(o, "content", c->text ? c->text : "", content);
    json_out_null(o, "refusal");
    if (count > 0) openai_put_calls(o, calls, count, false, a->all.x->server);
    json_out_close(o, '}');
    if (count > 0) *reason = "tool_calls";
    tools_free(calls, count);
}

static void put_echoed(json_out *o, const openai_answer *a, const text_choice *c) {
    const texts_prompt *prompt = &a->all.prompt[c->index / a->all.n];
    size_t length = prompt->echo_length + c->length;
    char *both = malloc(length + 1);
    if (!both) {
        o->failed = true;
        return;
    }
    memcpy(both, prompt->echo, prompt->echo_length);
    if (c->length > 0) memcpy(both + prompt->echo_length, c->text, c->length);
    json_out_text(o, "text", both, length);
    free(both);
}

static void put_choice(json_out *o, openai_answer *a, const text_choice *c) {
    const char *reason = openai_finish_reason(c->end);
    json_out_open(o, NULL, '{');
    json_out_u64(o, "index", c->index);
    if (a->chat)
        put_message(o, a, c, &reason);
    else if (a->echo)
        put_echoed(o, a, c);
    else
        json_out_text(o, "text", c->text ? c->text : "", c->length);
    if (!a->log_probabilities)
        json_out_null(o, "logprobs");
    else if (a->chat)
        put_contents(o, a, c, 0);
    else
        put_lists(o, a, c, 0, 0);
    json_out_string(o, "finish_reason", reason);
    json_out_close(o, '}');
}

static void reply_whole(openai_answer *a) {
    json_out o = {0};
    open_document(&o, a, a->chat ? "chat.completion" : "text_completion");
    json_out_open(&o, "choices", '[');
    for (uint32_t i = 0; i < a->all.count; i++) put_choice(&o, a, &a->all.choice[i]);
    json_out_close(&o, ']');
    openai_put_usage(&o, "usage", &a->all);
    json_out_close(&o, '}');
    reply_json(a->all.x, 200, &o);
}

// A stream that has begun ends with an event, and without "[DONE]".
static void send_failure(openai_answer *a) {
    texts *t = &a->all;
    json_out o = {0};
    json_out_open(&o, NULL, '{');
    put_error(&o, "error", failure_status(t->error.code, true), NULL, NULL, t->error.text);
    json_out_close(&o, '}');
    openai_event(t->x, t, &o);
    exchange_end(t->x);
}

static void on_finish(texts *t) {
    openai_answer *a = (openai_answer *)t;
    if (t->error.code && exchange_begun(t->x))
        send_failure(a);
    else if (t->error.code)
        reply_failure(t->x, &t->error, t->error.code == BRAID_NOT_FOUND ? "model" : NULL, t->late);
    else if (a->stream)
        finish_stream(a);
    else
        reply_whole(a);
}

static void on_keep_alive(texts *t) {
    openai_answer *a = (openai_answer *)t;
    json_out o = {0};
    for (uint32_t i = 0; a->stream && i < t->count; i++) {
        text_choice *c = &t->choice[i];
        if (c->ended) continue;
        begin_choice(a, c);
        open_chunk(&o, a, c);
        if (a->chat) json_out_open(&o, "delta", '{');
        json_out_string(&o, a->chat ? "content" : "text", "");
        if (a->chat) json_out_close(&o, '}');
        json_out_null(&o, "logprobs");
        close_chunk(&o, a, NULL);
        return;
    }
}

static braid_err on_constrain(texts *t, text_choice *c, service_constraint *out, braid_error *error) {
    openai_answer *a = (openai_answer *)t;
    (void)c;
    return a->grammar ? constraint_new(t->x->server, a->grammar, out, error) : BRAID_OK;
}

static void on_release(texts *t) {
    texts_close(t);
    openai_free((openai_answer *)t);
}

const texts_calls openai_calls = {.accepted = on_accepted,
                                  .started = on_started,
                                  .step = on_step,
                                  .ended = on_ended,
                                  .finish = on_finish,
                                  .keep_alive = on_keep_alive,
                                  .constrain = on_constrain,
                                  .release = on_release};
