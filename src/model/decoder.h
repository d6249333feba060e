// A whole model that reads one token after another and caches the keys and values of earlier
// tokens, so that each token uses every weight once. The time is that of reading the weights from
// memory, so the weights may be stored as 8-bit integers.
#ifndef BRAID_MODEL_DECODER_H
#define BRAID_MODEL_DECODER_H

#include "base/err.h"
#include "model/config.h"
#include "tensor/pool.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct decoder decoder;

// `parameters` (of a stage with the whole model) and `pool` are borrowed. `narrow`: matrices as
// 8-bit integers, with one scale per 64 neighbours of a row. Free with decoder_free.
braid_err decoder_new(const model_config *config, const float *parameters, bool narrow, tensor_pool *pool,
                      decoder **out, braid_error *error);
void decoder_free(decoder *d);

// Number of tokens read so far; at most the model's context.
uint32_t decoder_position(const decoder *d);
void decoder_rewind(decoder *d);
// Reads the next token, which is below the vocabulary. logits[vocab] of the following token, unless
// NULL. Requires a position below the context.
void decoder_read(decoder *d, uint32_t token, float *logits);

#endif
