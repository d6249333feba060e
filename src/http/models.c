// State and model: /health, /ready, /v1/models, /v1/swarm, /tokenizer_info.
#include "http/inside.h"
#include "serve/adapters.h"

#include <stdlib.h>
#include <string.h>

void handle_health(exchange *x) {
    json_out o = {0};
    json_out_open(&o, NULL, '{');
    json_out_string(&o, "status", "ok");
    json_out_close(&o, '}');
    reply_json(x, 200, &o);
}

static bool is_ready(http_server *s, service_status *status) {
    if (!s->service) return s->run.ready(s->run.context, status->blocker);
    service_status_of(s->service, status);
    return status->ready;
}

void handle_ready(exchange *x) {
    service_status status = {0};
    json_out o = {0};
    bool ready = is_ready(x->server, &status);
    json_out_open(&o, NULL, '{');
    json_out_string(&o, "status", ready ? "ready" : "not ready");
    if (!ready) json_out_text(&o, "blocker", status.blocker, strlen(status.blocker));
    json_out_close(&o, '}');
    reply_json(x, ready ? 200 : 503, &o);
}

// `name`: the model's, or that of one of its adapters.
static void put_named(json_out *o, const char *key, const http_server *s, const char *name) {
    const service_model *m = s->model;
    json_out_open(o, key, '{');
    json_out_text(o, "id", name, strlen(name));
    json_out_string(o, "object", "model");
    json_out_u64(o, "created", m->created);
    json_out_string(o, "owned_by", "braid");
    json_out_u64(o, "max_model_len", m->context);
    json_out_bool(o, "chat", s->chat.template != NULL);
    if (name != m->name) json_out_text(o, "parent", m->name, strlen(m->name));
    if (m->hash[0] && name == m->name) json_out_string(o, "sha256", m->hash);
    json_out_close(o, '}');
}

static void put_model(json_out *o, const char *key, const http_server *s) { put_named(o, key, s, s->model->name); }

void handle_models(exchange *x) {
    json_out o = {0};
    json_out_open(&o, NULL, '{');
    json_out_string(&o, "object", "list");
    json_out_open(&o, "data", '[');
    put_model(&o, NULL, x->server);
    const adapter_set *adapters = x->server->model->adapters;
    for (uint32_t i = 0; i < adapter_set_count(adapters); i++)
        put_named(&o, NULL, x->server, adapter_set_name(adapters, i));
    json_out_close(&o, ']');
    json_out_close(&o, '}');
    reply_json(x, 200, &o);
}

// NULL: there is none.
static const char *model_named(const service_model *m, const char *name) {
    if (strcmp(name, m->name) == 0) return m->name;
    for (uint32_t i = 0; i < adapter_set_count(m->adapters); i++)
        if (strcmp(name, adapter_set_name(m->adapters, i)) == 0) return adapter_set_name(m->adapters, i);
    return NULL;
}

void handle_model(exchange *x) {
    const char *name = x->path + strlen("/v1/models/"), *known = model_named(x->server->model, name);
    json_out o = {0};
    if (!known) {
        reply_error(x, 404, "model", "model_not_found", "there is no model '%.200s'; GET /v1/models lists them", name);
        return;
    }
    put_named(&o, NULL, x->server, known);
    reply_json(x, 200, &o);
}

static void put_status(json_out *o, service *of) {
    service_status status = {0}, *s = &status;
    if (!of) {
        json_out_null(o, "service");
        return;
    }
    service_status_of(of, s);
    json_out_open(o, "service", '{');
    json_out_bool(o, "ready", s->ready);
    json_out_text(o, "blocker", s->blocker, strlen(s->blocker));
    json_out_u64(o, "running", s->running);
    json_out_u64(o, "queued", s->queued);
    json_out_u64(o, "queue_limit", s->queue_limit);
    json_out_u64(o, "texts", s->texts);
    json_out_u64(o, "failed", s->failed);
    json_out_u64(o, "prompt_tokens", s->prompt_tokens);
    json_out_u64(o, "cached_tokens", s->cached_tokens);
    json_out_u64(o, "drawn_tokens", s->drawn_tokens);
    json_out_double(o, "tokens_per_second", s->tokens_per_second);
    json_out_u64(o, "cache_bytes", s->cache_bytes);
    json_out_u64(o, "cache_limit", s->cache_limit);
    json_out_u64(o, "memory_limit", s->memory_limit);
    json_out_close(o, '}');
}

// A document that other code wrote; frees it.
static void put_document(json_out *o, const char *key, char *text) {
    json *doc = NULL;
    braid_error error;
    if (text && json_parse(text, strlen(text), &doc, &error) == BRAID_OK)
        json_out_value(o, key, doc, json_root(doc));
    else
        json_out_null(o, key);
    json_free(doc);
    free(text);
}

char *swarm_document(http_server *s, size_t *length) {
    json_out o = {0};
    json_out_open(&o, NULL, '{');
    json_out_string(&o, "version", BRAID_VERSION);
    if (s->model)
        put_model(&o, "model", s);
    else
        json_out_null(&o, "model");
    put_status(&o, s->service);
    put_document(&o, "swarm", s->service ? service_swarm(s->service) : NULL);
    put_document(&o, "run", s->service ? NULL : s->run.state(s->run.context));
    json_out_close(&o, '}');
    return json_out_take(&o, length);
}

void handle_swarm(exchange *x) {
    size_t length = 0;
    char *text = swarm_document(x->server, &length);
    exchange_reply(x, 200, "application/json", text, length);
}

static void put_optional(json_out *o, const char *key, const char *text) {
    if (text)
        json_out_text(o, key, text, strlen(text));
    else
        json_out_null(o, key);
}

// As lm-eval asks for it.
void handle_tokenizer_info(exchange *x) {
    const http_server *s = x->server;
    json_out o = {0};
    json_out_open(&o, NULL, '{');
    json_out_string(&o, "tokenizer_class", "braid");
    put_optional(&o, "bos_token", s->chat.bos);
    put_optional(&o, "eos_token", s->chat.eos);
    put_optional(&o, "pad_token", s->chat.eos);
    put_optional(&o, "chat_template", s->chat.source);
    json_out_u64(&o, "model_max_length", s->model->context);
    json_out_close(&o, '}');
    reply_json(x, 200, &o);
}
