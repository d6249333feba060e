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
    MODEL_MAX_HEAD_DIM = 1 << 10,
    MODEL_MAX_QUERY_DIM = 1 << 17,  // heads * head_dim
    MODEL_MAX_EXPERTS = 1 << 9,
    MODEL_MAX_EXPERTS_USED = 1 << 6,
};

// An architecture is a row of rows.c. MODEL_GPT is GPT-2.
typedef enum model_arch {
    MODEL_LLAMA,  // LLaMA 1-3.x, SmolLM2
    MODEL_GPT,
    MODEL_MISTRAL,
    MODEL_QWEN2,
    MODEL_QWEN3,
    MODEL_SMOLLM3,
    MODEL_GEMMA3,  // the text model
    MODEL_MIXTRAL,
    MODEL_QWEN3_MOE,
    MODEL_GEMMA2,
    MODEL_ARCHS
} model_arch;

typedef enum model_rope_kind {
    MODEL_ROPE_PLAIN,
    MODEL_ROPE_LINEAR,
    MODEL_ROPE_LLAMA3,
    MODEL_ROPE_YARN
} model_rope_kind;

// Scaling of the rotary frequencies, with the names of Hugging Face's rope_parameters.
typedef struct model_rope {
    model_rope_kind kind;
    float factor;                             // all but plain
    float low_freq_factor, high_freq_factor;  // llama3
    float beta_fast, beta_slow;               // yarn; 0: 32 and 1
    float attention_factor;                   // yarn; 0: 0.1 ln(factor) + 1
    uint32_t original_context;                // llama3, yarn: original_max_position_embeddings
} model_rope;

// Zero means absent in every member below `tied`, so that a plain LLaMA or GPT-2 needs only those
// above.
typedef struct model_config {
    model_arch arch;
    uint32_t dim, layers, heads, kv_heads;  // kv_heads == heads for GPT
    uint32_t ffn_dim;                       // inner width of SwiGLU, or of GELU (4 * dim)
    uint32_t vocab, context;                // the longest sequence
    float rope_theta;                       // all but GPT
    float norm_eps;
    bool tied;                        // the head uses the embedding's weights
    uint32_t head_dim;                // 0: dim / heads
    bool qkv_bias, o_bias, mlp_bias;  // GPT has all of them without these flags
    model_rope rope;
    float local_rope_theta;  // Gemma 3: of the layers with a window; not scaled
    uint32_t window;         // keys that a token of a windowed layer sees, itself included; 0: all
    // Bit i % 64 of word i / 64 is layer i.
    uint64_t windowed[MODEL_MAX_LAYERS / 64];   // layers with the window
    uint64_t unrotated[MODEL_MAX_LAYERS / 64];  // SmolLM3: layers without rotary positions
    float attention_scale;                      // of scores; 0: 1 / sqrt(head_dim)
    float attention_softcap, logit_softcap;     // c * tanh(x / c); 0: none
    float embedding_scale;                      // Gemma: sqrt(dim); 0: none
    uint32_t experts, experts_used;             // per token; 0: no mixture
    uint32_t expert_ffn_dim;                    // inner width of an expert
    bool normalised_experts;                    // the used experts' probabilities are divided by their sum
} model_config;

// Checks all relations (dim divisible by heads, even head width for RoPE, heads divisible by
// kv_heads, ...), and that the architecture's row (rows.h) has every switch that is set.
braid_err model_config_check(const model_config *config, braid_error *error);

// The first member in which two checked configs describe different models, with its values; false:
// they are the same. Of a set of layers the values are those of one layer. Members that the
// architecture does not use, and zeros that mean another value, do not differ.
typedef struct model_difference {
    const char *member;
    double first, second;
} model_difference;
bool model_config_differ(const model_config *a, const model_config *b, model_difference *out);

// The n of an attention_scale that is 1 / sqrt(n), as config.json of Gemma has it; 0: there is
// none.
uint32_t model_query_scalar(const model_config *c);

static inline uint32_t model_head_dim(const model_config *c) { return c->head_dim ? c->head_dim : c->dim / c->heads; }
static inline bool model_layer_windowed(const model_config *c, uint32_t layer) {
    return c->window && (c->windowed[layer / 64] >> layer % 64 & 1);
}
static inline void model_set_layer(uint64_t layers[MODEL_MAX_LAYERS / 64], uint32_t layer) {
    layers[layer / 64] |= (uint64_t)1 << layer % 64;
}
static inline bool model_layer_rotated(const model_config *c, uint32_t layer) {
    return c->arch != MODEL_GPT && !(c->unrotated[layer / 64] >> layer % 64 & 1);
}

#endif
