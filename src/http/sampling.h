// The fields of a request that choose tokens: temperature, stop, seed and so on.
#ifndef BRAID_HTTP_SAMPLING_H
#define BRAID_HTTP_SAMPLING_H

#include "http/body.h"

enum { SAMPLING_MAX_STOPS = 16 };

typedef struct sampling {
    generation_settings settings;  // points into this struct and into the body
    sampler_bias *biases;          // owned
    const char *stops[SAMPLING_MAX_STOPS];
    uint32_t vocab;  // tokens of the model
} sampling;

// The defaults of the model (generation_config), else temperature 1, and a seed from chance.
void sampling_begin(sampling *s, http_server *server);
void sampling_free(sampling *s);
// The fields that OpenAI's endpoints share, with top_k, min_p and repetition_penalty beside them.
void sampling_read(sampling *s, body *b, const json_value *object);
// Ollama's `options`.
void sampling_read_ollama(sampling *s, body *b, const json_value *options);
void sampling_read_stops(sampling *s, body *b, const json_value *object);

#endif
