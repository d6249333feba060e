// The shape of a model, independent of how it is split. Names follow Hugging Face's config.json.
#ifndef BRAID_MODEL_CONFIG_H
#define BRAID_MODEL_CONFIG_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

// The largest values that a description or a file may specify.
enum {
    MODEL_MAX_DIM = 1 << 15,
    MODEL_MAX_LAYERS = 1 << 10,
    MODEL_MAX_FFN_DIM = 1 << 18,
    MODEL_MAX_VOCAB = 1 << 20,
    MODEL_MAX_CONTEXT = 1 << 20,
};

typedef enum model_arch { MODEL_LLAMA, MODEL_GPT } model_arch;

typedef struct model_config {
    model_arch arch;
    uint32_t dim, layers, heads, kv_heads;  // kv_heads == heads for GPT
    uint32_t ffn_dim;                       // inner width of SwiGLU, or of GELU (4 * dim)
    uint32_t vocab, context;                // the longest sequence
    float rope_theta;                       // LLaMA
    float norm_eps;
    bool tied;  // the head uses the embedding's weights
} model_config;

// Checks all relations (dim divisible by heads, even head width for RoPE, heads divisible by
// kv_heads, ...).
braid_err model_config_check(const model_config *config, braid_error *error);

#endif
