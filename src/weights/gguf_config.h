// The shape of a model from the keys of a GGUF file.
#ifndef BRAID_WEIGHTS_GGUF_CONFIG_H
#define BRAID_WEIGHTS_GGUF_CONFIG_H

#include "model/rows.h"
#include "weights/gguf.h"

// The largest head has so many pairs of rotated elements.
enum { GGUF_MAX_PAIRS = MODEL_MAX_DIM / 2 };

// Parts of the model's shape that follow from the tensors of a file.
typedef struct gguf_facts {
    uint64_t vocab;  // rows of the embedding
    bool tied;       // no output.weight
    bool qkv_bias, o_bias, mlp_bias;
    const float *rope_freqs;  // rope_freqs.weight; NULL: none
    uint64_t rope_pairs;      // its elements
} gguf_facts;

// An architecture, a scaling or a combination that braid does not compute is refused with the name
// of the key.
braid_err gguf_config_read(const gguf *g, const gguf_facts *facts, const char *origin, model_config *out,
                           braid_error *error);
// The scale of scores that llama.cpp has for a Gemma: from the width of a head, or of the model in
// the largest ones.
float gguf_attention_scale(const model_config *config);
// factors[head width / 2] of llama3's scaling, by which llama.cpp divides each frequency.
void gguf_rope_factors(const model_config *config, float *factors);

#endif
