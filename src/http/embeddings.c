// POST /v1/embeddings and Ollama's /api/embed: the mean over the tokens of the hidden states after the
// final norm, divided by its length.
#include "http/openai.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct embeddings {
    texts all;  // first
    body body;
    bool base64;
} embeddings;

static void keep_vector(texts *t, text_choice *c, const float *mean, uint32_t dim) {
    float *copy = malloc((dim + 1u) * sizeof *copy);
    double square = 0;
    if (!copy) {
        texts_cancel(t);
        return;
    }
    for (uint32_t i = 0; i < dim; i++) square += (double)mean[i] * (double)mean[i];
    float length = (float)sqrt(square);
    for (uint32_t i = 0; i < dim; i++) copy[i] = length > 0 ? mean[i] / length : 0;
    c->state = copy;
}

// Little-endian floats, as OpenAI's Python client asks for them.
static char *base64_of(const float *v, uint32_t dim) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    size_t bytes = (size_t)dim * 4, at = 0;
    char *out = malloc((bytes + 2) / 3 * 4 + 1);
    if (!out) return NULL;
    for (size_t i = 0; i < bytes; i += 3) {
        uint32_t three = 0, have = 0;
        for (size_t k = i; k < i + 3; k++) {
            uint32_t bits = 0;
            if (k < bytes) memcpy(&bits, &v[k / 4], 4), have++;
            three = three << 8 | (k < bytes ? bits >> (8 * (k % 4)) & 0xff : 0);
        }
        for (uint32_t d = 0; d < 4; d++) out[at++] = d <= have ? digits[three >> (18 - 6 * d) & 63] : '=';
    }
    out[at] = 0;
    return out;
}

static void put_vector(json_out *o, const char *key, const embeddings *e, const text_choice *c) {
    uint32_t dim = e->all.x->server->model->config->dim;
    const float *v = c->state;
    char *packed = e->base64 && v ? base64_of(v, dim) : NULL;
    if (!v || (e->base64 && !packed)) {
        o->failed = true;
        return;
    }
    if (packed) {
        json_out_string(o, key, packed);
    } else {
        json_out_open(o, key, '[');
        for (uint32_t i = 0; i < dim; i++) json_out_float(o, NULL, v[i]);
        json_out_close(o, ']');
    }
    free(packed);
}

static void put_openai(json_out *o, const embeddings *e) {
    const char *model = texts_model(&e->all);
    json_out_string(o, "object", "list");
    json_out_open(o, "data", '[');
    for (uint32_t i = 0; i < e->all.count; i++) {
        json_out_open(o, NULL, '{');
        json_out_string(o, "object", "embedding");
        json_out_u64(o, "index", i);
        put_vector(o, "embedding", e, &e->all.choice[i]);
        json_out_close(o, '}');
    }
    json_out_close(o, ']');
    json_out_text(o, "model", model, strlen(model));
    openai_put_usage(o, "usage", &e->all);
}

static void put_ollama(json_out *o, const embeddings *e) {
    const char *model = texts_model(&e->all);
    json_out_text(o, "model", model, strlen(model));
    json_out_open(o, "embeddings", '[');
    for (uint32_t i = 0; i < e->all.count; i++) put_vector(o, NULL, e, &e->all.choice[i]);
    json_out_close(o, ']');
}

static void finish(texts *t) {
    const embeddings *e = (const embeddings *)t;
    json_out o = {0};
    if (t->error.code) {
        reply_failure(t->x, &t->error, NULL, t->late);
        return;
    }
    json_out_open(&o, NULL, '{');
    if (t->x->route->ollama)
        put_ollama(&o, e);
    else
        put_openai(&o, e);
    json_out_close(&o, '}');
    reply_json(t->x, 200, &o);
}

static void release(texts *t) {
    embeddings *e = (embeddings *)t;
    texts_close(t);
    body_free(&e->body);
    free(e);
}

static const texts_calls calls = {.embedding = keep_vector, .finish = finish, .release = release};

void handle_embeddings(exchange *x) {
    embeddings *e = calloc(1, sizeof *e);
    if (!e) {
        exchange_reply(x, 500, NULL, NULL, 0);
        return;
    }
    body *b = &e->body;
    if (body_read(x, b)) {
        const char *format = body_string(b, b->root, "encoding_format");
        e->base64 = format && strcmp(format, "base64") == 0;
        e->all.x = x;
        e->all.calls = &calls;
        e->all.n = 1;
        e->all.text.embed = e->all.text.prompt_only = true;
        e->all.text.settings.sampler = sampler_defaults();
        if (format && !e->base64 && strcmp(format, "float") != 0)
            body_mistake(b, "encoding_format", "'encoding_format' must be float or base64");
        openai_model(x->server, b, &e->all.text);
        uint64_t dim;
        if (body_u64(b, b->root, "dimensions", 1, UINT32_MAX, &dim) && dim != x->server->model->config->dim)
            body_mistake(b, "dimensions", "embeddings of this model have %u dimensions", x->server->model->config->dim);
        prompt_read(x->server, b, "input", false, &e->all.prompt, &e->all.prompts);
        if (!b->error.code) {
            texts_run(&e->all);
            return;
        }
        body_refused(x, b);
        prompt_free(e->all.prompt, e->all.prompts);
    }
    body_free(b);
    free(e);
}
