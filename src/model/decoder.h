// A whole model that reads one token after another and keeps the keys and values of those before, so that a token costs each
// weight once. That takes as long as reading the weights from memory, which is why they may be kept as bytes.
#ifndef BRAID_MODEL_DECODER_H
#define BRAID_MODEL_DECODER_H

#include "base/err.h"
#include "model/config.h"
#include "tensor/pool.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct decoder decoder;

// `parameters` (a stage's that holds the whole model) and `pool` are borrowed. `narrow`: matrices as 8-bit integers, each 64
// neighbours of a row with the scale of the largest. Free with decoder_free.
braid_err decoder_new(const model_config *config, const float *parameters, bool narrow, tensor_pool *pool,
                      decoder **out, braid_error *error);
void decoder_free(decoder *d);

// Tokens that were read; at most the model's context.
uint32_t decoder_position(const decoder *d);
void decoder_rewind(decoder *d);
// The next token, below the vocabulary; logits[vocab] of what follows it unless NULL. The position is below the context.
void decoder_read(decoder *d, uint32_t token, float *logits);

#endif
