#include "http/sampling.h"

#include "http/tokens.h"

#include <stdlib.h>
#include <string.h>

static const double most_temperature = 100, most_penalty = 100;

void sampling_begin(sampling *s, http_server *server) {
    *s = (sampling){.settings = {.sampler = sampler_defaults()}, .vocab = server->model->config->vocab};
    sampler_settings *to = &s->settings.sampler;
    to->seed = server_random(server) >> 1;
    const char *config = server->model->generation_config;
    body b;
    // a number that the sampler would refuse must not spoil all requests, so mistakes are skipped
    if (config && body_parse(&b, config, strlen(config))) {
        body_double(&b, b.root, "temperature", 0, most_temperature, &to->temperature);
        body_double(&b, b.root, "top_p", 1e-9, 1, &to->top_p);
        body_double(&b, b.root, "min_p", 0, 1, &to->min_p);
        body_u32(&b, b.root, "top_k", 0, 1 << 20, &to->top_k);
        body_double(&b, b.root, "repetition_penalty", 0.01, most_penalty, &to->repetition_penalty);
        body_free(&b);
    } else if (config) {
        body_free(&b);
    }
}

void sampling_free(sampling *s) { free(s->biases); }

static void add_stop(sampling *s, body *b, const json_value *v) {
    const char *text = json_string(v);
    if (!text || !*text)
        body_mistake(b, "stop", "'stop' must be a string or a list of strings, none of them empty");
    else if (s->settings.stop_count == SAMPLING_MAX_STOPS)
        body_mistake(b, "stop", "'stop' has more than %d strings", SAMPLING_MAX_STOPS);
    else
        s->stops[s->settings.stop_count++] = text;
}

void sampling_read_stops(sampling *s, body *b, const json_value *object) {
    const json_value *stop = body_member(b, object, "stop");
    if (!stop) return;
    s->settings.stop_count = 0;
    if (stop->kind != JSON_ARRAY)
        add_stop(s, b, stop);
    else
        for (const json_value *v = json_first(b->doc, stop); v; v = json_next(b->doc, v)) add_stop(s, b, v);
    s->settings.stops = s->stops;
}

static bool token_of(const char *key, uint32_t *out) {
    char *end;
    unsigned long id = strtoul(key, &end, 10);
    *out = (uint32_t)id;
    return *key >= '0' && *key <= '9' && *end == 0 && id < UINT32_MAX;
}

static void read_biases(sampling *s, body *b, const json_value *object) {
    const json_value *map = body_object(b, object, "logit_bias");
    if (!map || map->count == 0) return;
    if (map->count > SAMPLER_MAX_BIASES) {
        body_mistake(b, "logit_bias", "'logit_bias' has more than %d tokens", SAMPLER_MAX_BIASES);
        return;
    }
    sampler_bias *to = s->biases = calloc(map->count, sizeof *to);
    if (!to) {
        braid_fail(&b->error, BRAID_MEMORY, "no memory for 'logit_bias'");
        return;
    }
    for (const json_value *v = json_first(b->doc, map); v; v = json_next(b->doc, v), to++) {
        double bias;
        if (!token_of(v->key, &to->token) || !json_double(v, &bias) || bias < -100 || bias > 100) {
            body_mistake(b, "logit_bias", "'logit_bias' maps numbers of tokens to numbers from -100 to 100");
            return;
        }
        to->bias = (float)bias;
        if (to->token >= s->vocab) {
            body_mistake(b, "logit_bias", "'logit_bias' names token %u; the model has %u tokens", to->token, s->vocab);
            return;
        }
        s->settings.sampler.bias_count++;
    }
    s->settings.sampler.biases = s->biases;
}

static void read_seed(sampling *s, body *b, const json_value *object) {
    const json_value *v = body_member(b, object, "seed");
    double number;
    // clients send negative seeds, too
    if (v && v->kind == JSON_NUMBER && v->text[0] == '-' && json_double(v, &number) && number > -9e15)
        s->settings.sampler.seed = (uint64_t)(int64_t)number;
    else
        body_u64(b, object, "seed", 0, UINT64_MAX, &s->settings.sampler.seed);
}

void sampling_read(sampling *s, body *b, const json_value *object) {
    sampler_settings *to = &s->settings.sampler;
    body_double(b, object, "temperature", 0, most_temperature, &to->temperature);
    body_double(b, object, "top_p", 0, 1, &to->top_p);
    if (to->top_p < 1e-9) to->top_p = 1e-9;  // the likeliest token alone
    body_double(b, object, "min_p", 0, 1, &to->min_p);
    body_u32(b, object, "top_k", 0, 1 << 20, &to->top_k);
    body_double(b, object, "presence_penalty", -most_penalty, most_penalty, &to->presence_penalty);
    body_double(b, object, "frequency_penalty", -most_penalty, most_penalty, &to->frequency_penalty);
    body_double(b, object, "repeat_penalty", 0.01, most_penalty, &to->repetition_penalty);
    body_double(b, object, "repetition_penalty", 0.01, most_penalty, &to->repetition_penalty);
    body_bool(b, object, "ignore_eos", &s->settings.ignore_stop_ids);
    read_seed(s, b, object);
    sampling_read_stops(s, b, object);
    read_biases(s, b, object);
}

void sampling_read_ollama(sampling *s, body *b, const json_value *options) {
    if (!options) return;
    sampling_read(s, b, options);
    const json_value *most = body_member(b, options, "num_predict");
    // -1: without a limit, -2: to the end of the context
    if (most && most->kind == JSON_NUMBER && most->text[0] == '-') return;
    body_u64(b, options, "num_predict", 0, UINT32_MAX, &s->settings.max_tokens);
}
