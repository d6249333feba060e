// The choice of the next token from logits, with the parameters and the order of transformers 5.23: bias,
// penalties, temperature, top-k, top-p, min-p. The same logits, settings and seed give the same tokens on
// every machine.
#ifndef BRAID_INFER_SAMPLER_H
#define BRAID_INFER_SAMPLER_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SAMPLER_MAX_BIASES = 1024, SAMPLER_MAX_TOP = 128 };

typedef struct sampler_bias {
    uint32_t token;
    float bias;  // added to its logit; -INFINITY forbids the token
} sampler_bias;

typedef struct sampler_settings {
    double temperature;  // divides the logits; 0: always the largest (of equal ones the lowest token)
    uint32_t top_k;      // keeps the k largest, and those equal to the k-th; 0: all
    double top_p;        // keeps the fewest of the largest that together have at least this probability; 1: all
    double min_p;        // keeps those with at least this share of the largest probability; 0: all
    // Once for each different token of prompt and text: a positive logit is divided, a negative one multiplied; 1: no penalty.
    double repetition_penalty;
    // Subtracted from the logit of each token that was generated, once and for each time; 0: no penalty.
    double presence_penalty, frequency_penalty;
    uint64_t seed;
    const sampler_bias *biases;  // [bias_count], copied
    uint32_t bias_count;
} sampler_settings;

// Temperature 1 and nothing else.
sampler_settings sampler_defaults(void);

typedef struct sampler sampler;

// Refuses numbers outside their range, by name (BRAID_CONFIG). Free with sampler_free.
braid_err sampler_new(const sampler_settings *settings, uint32_t vocab, sampler **out, braid_error *error);
void sampler_free(sampler *s);
// Tokens of the prompt, and of the text so far, for the penalties. Tokens are below the vocabulary.
void sampler_prompt(sampler *s, const uint32_t *tokens, size_t count);
void sampler_accept(sampler *s, uint32_t token);
// Draws a token; call sampler_accept with the one that is used. Changes logits[vocab]. NaN counts as -INFINITY.
uint32_t sampler_next(sampler *s, float *logits);

typedef struct sampler_top {
    uint32_t token;
    float logprob;  // natural logarithm of its probability
} sampler_top;

// Log-probabilities of unchanged logits, for answers of an API: of one token, and of the `count` <=
// SAMPLER_MAX_TOP likeliest in descending order (fewer if the vocabulary is smaller). Returns how many.
float sampler_logprob(const float *logits, uint32_t vocab, uint32_t token);
uint32_t sampler_likeliest(const float *logits, uint32_t vocab, uint32_t count, sampler_top *out);

#endif
