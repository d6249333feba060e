// Rotary positions of a model, with the scalings of Hugging Face's rope_parameters: linear
// (positions are divided), llama3 (LLaMA 3.1) and yarn (Peng et al. 2023).
#ifndef BRAID_MODEL_ROPE_H
#define BRAID_MODEL_ROPE_H

#include "model/config.h"

#include <stddef.h>

// True if a model has a second rotation, that of its windowed layers.
bool model_rope_has_local(const model_config *config);
// True if this layer is rotated by it.
bool model_rope_is_local(const model_config *config, uint32_t layer);
// The angle between neighbouring positions of a pair of elements, in radians; and the factor of all cosines and sines.
double model_rope_rate(const model_config *config, bool local, size_t pair);
double model_rope_scale(const model_config *config, bool local);
// Tables[tokens, head_dim / 2] for tensor_rope; `local`: of the windowed layers.
void model_rope_tables(const model_config *config, bool local, size_t tokens, float *cosines, float *sines);

#endif
