// Text generation from a trained model, byte by byte.
#ifndef BRAID_TRAIN_SAMPLE_H
#define BRAID_TRAIN_SAMPLE_H

#include "base/err.h"
#include "base/rng.h"
#include "train/checkpoint.h"

#include <stddef.h>
#include <stdint.h>

typedef struct sample_settings {
    double temperature;  // 0: always the most likely byte
    uint32_t top_k;      // restricts the choice to the k most likely bytes; 0: all
    double top_p;        // restricts the choice to the most likely bytes with this total probability; 1: all
} sample_settings;

enum { SAMPLE_BYTES = 256 };

// Draws one of `count` (1 .. SAMPLE_BYTES) bytes.
uint32_t sample_token(const float *logits, uint32_t count, const sample_settings *settings, rng *random);

typedef struct generator generator;

// Loads the weights; `narrow`: matrices as 8-bit integers. Refuses a model without a token for
// every byte (BRAID_CONFIG). Free with generator_free; the checkpoint may be closed.
braid_err generator_new(checkpoint *from, bool narrow, unsigned threads, generator **out, braid_error *error);
void generator_free(generator *g);
// Appends bytes to the model's input. Only the last `context` of them matter.
void generator_read(generator *g, const uint8_t *bytes, size_t count);
// Draws the next byte and appends it to the input.
uint8_t generator_next(generator *g, const sample_settings *settings, rng *random);
// Returns -ln of the probability of this next byte, and appends it to the input.
double generator_surprise(generator *g, uint8_t byte);

#endif
