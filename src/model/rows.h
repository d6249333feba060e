// The architectures, one row each. Layout, computation, config.json and GGUF follow a row's
// switches and the members of model_config; no other file tests for an architecture.
#ifndef BRAID_MODEL_ROWS_H
#define BRAID_MODEL_ROWS_H

#include "model/config.h"

#include <stdbool.h>
#include <stdint.h>

// The tensors of a model in canonical order: embeddings, those of each block, final norm and head.
// Matrices with the same input are adjacent, and so are their biases.
typedef enum model_role {
    ROLE_EMBEDDING,
    ROLE_POSITIONS,
    ROLE_NORM1,  // before attention
    ROLE_NORM1_BIAS,
    ROLE_QKV,  // queries, keys and values in one matrix
    ROLE_QKV_BIAS,
    ROLE_Q,
    ROLE_K,
    ROLE_V,
    ROLE_Q_BIAS,
    ROLE_K_BIAS,
    ROLE_V_BIAS,
    ROLE_Q_NORM,  // of each head
    ROLE_K_NORM,
    ROLE_O,
    ROLE_O_BIAS,
    ROLE_POST1,  // norm of the attention's output, before it is added
    ROLE_NORM2,  // before the MLP
    ROLE_NORM2_BIAS,
    ROLE_ROUTER,       // scores of the experts
    ROLE_EXPERT_GATE,  // gate, up, down of expert 0, then of expert 1, ...
    ROLE_EXPERT_UP,
    ROLE_EXPERT_DOWN,
    ROLE_GATE,
    ROLE_UP,
    ROLE_GATE_BIAS,
    ROLE_UP_BIAS,
    ROLE_DOWN,
    ROLE_DOWN_BIAS,
    ROLE_POST2,  // norm of the MLP's output
    ROLE_NORM,
    ROLE_NORM_BIAS,
    ROLE_HEAD,
    MODEL_ROLES
} model_role;

typedef enum model_activation { MODEL_SILU, MODEL_GELU_TANH } model_activation;

// The layers that may have a window, besides none: all or any.
typedef enum model_windows { MODEL_WINDOWS_NONE, MODEL_WINDOWS_ALL, MODEL_WINDOWS_ANY } model_windows;

// The values of keys that config.json does not have: the defaults of transformers 5.23's class.
typedef struct model_absent {
    uint32_t kv_heads, head_dim;  // 0: heads; dim / heads
    uint32_t context, window;     // 0: no window
    uint32_t window_period;       // layers with a window: all but the last of each period
    uint32_t window_from;         // or those from this one
    uint32_t query_scalar;        // of the attention's scale
    uint32_t experts, experts_used, expert_ffn_dim;
    float norm_eps, rope_theta, local_rope_theta;
    float attention_softcap, logit_softcap;
    bool tied;
    bool pads;  // the class has a padding token, which may be beyond the vocabulary
} model_absent;

typedef struct model_row {
    const char *name;               // `arch` of a run's description
    const char *type, *class_name;  // model_type and architectures[0] of config.json
    const char *gguf;               // general.architecture of a GGUF file
    model_absent absent;
    bool layer_norm;          // centred norms with biases; otherwise RMS norms
    bool norm_plus_one;       // a norm multiplies by 1 + weight
    bool learned_positions;   // an embedding of positions, no rotation
    bool transposed;          // matrices are stored [in, out]
    bool scaled_embedding;    // model_config.embedding_scale is sqrt(dim)
    bool all_biases;          // every projection has a bias, without the flags of model_config
    bool always_qkv_bias;     // model_config.qkv_bias is true
    bool may_attention_bias;  // qkv_bias and o_bias may be true together
    bool may_mlp_bias;
    bool may_head_dim;  // head_dim may differ from dim / heads
    bool dim_by_heads;  // dim is a multiple of heads nevertheless
    bool may_unrotated;
    bool local_theta;   // model_config.local_rope_theta is set
    bool query_scalar;  // model_config.attention_scale is 1 / sqrt(a whole number)
    bool may_attention_softcap, may_logit_softcap;
    model_windows windows;
    bool window_switch;  // config.json needs use_sliding_window, too
    bool gated;          // down(activation(gate) * up); otherwise down(activation(up))
    model_activation activation;
    const char *activation_key;  // of config.json
    bool mixture;                // experts in place of one MLP
    bool always_normalised;      // model_config.normalised_experts is true
    bool one_ffn_dim;            // expert_ffn_dim is ffn_dim
    const char *block, *expert;  // prefixes of names, e.g. model.layers and mlp.experts
    // Names after the prefix, which begins a name of a block; NULL: the architecture has no such
    // tensor.
    const char *tensor[MODEL_ROLES];
} model_row;

// NULL: there is no such architecture.
const model_row *model_row_of(model_arch arch);
// The row of a model_type of config.json, or of a name in a run's description. MODEL_ARCHS: none.
model_arch model_arch_of_type(const char *type);
model_arch model_arch_named(const char *name);

enum { MODEL_TENSOR_NAME = 96 };

// A tensor as its file stores it, [rows, cols]; a vector has one row.
typedef struct model_tensor {
    char name[MODEL_TENSOR_NAME];  // Hugging Face's name, e.g. model.layers.3.self_attn.q_proj.weight
    model_role role;
    uint32_t layer, expert;  // of a block's tensor; of an expert's
    uint32_t rows, cols;
    bool vector;
    bool transposed;  // stored [in, out]: rows are inputs
} model_tensor;

// The number of tensors of a checked config, and tensor `i` of them in canonical order. All tensors
// of a model: for (i = 0; i < model_tensor_count(config); i++) model_tensor_at(config, i, &t).
uint32_t model_tensor_count(const model_config *config);
void model_tensor_at(const model_config *config, uint32_t i, model_tensor *out);
// out[model_tensor_count] = the stage of each canonical tensor, for blocks_per_stage[stages].
void model_tensor_stages(const model_config *config, const uint32_t *blocks_per_stage, uint32_t stages, uint16_t *out);

// True if models of this config have the tensor, in every block if it is a block's.
bool model_has(const model_config *config, model_role role);
// Tensors before the first block, of each block, and after the last one.
uint32_t model_tensors_before(const model_config *config);
uint32_t model_tensors_per_block(const model_config *config);

#endif
