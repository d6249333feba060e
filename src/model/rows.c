#include "model/rows.h"

#include "base/err.h"

#include <stdio.h>
#include <string.h>

// clang-format off
#define LLAMA_ENDS                                   \
    [ROLE_EMBEDDING] = "model.embed_tokens.weight",  \
    [ROLE_NORM] = "model.norm.weight",               \
    [ROLE_HEAD] = "lm_head.weight"
#define LLAMA_ATTENTION                              \
    [ROLE_NORM1] = "input_layernorm.weight",         \
    [ROLE_Q] = "self_attn.q_proj.weight",            \
    [ROLE_K] = "self_attn.k_proj.weight",            \
    [ROLE_V] = "self_attn.v_proj.weight",            \
    [ROLE_Q_BIAS] = "self_attn.q_proj.bias",         \
    [ROLE_K_BIAS] = "self_attn.k_proj.bias",         \
    [ROLE_V_BIAS] = "self_attn.v_proj.bias",         \
    [ROLE_O] = "self_attn.o_proj.weight",            \
    [ROLE_O_BIAS] = "self_attn.o_proj.bias"
#define QK_NORM                                      \
    [ROLE_Q_NORM] = "self_attn.q_norm.weight",       \
    [ROLE_K_NORM] = "self_attn.k_norm.weight"
#define GATED_MLP                                    \
    [ROLE_GATE] = "mlp.gate_proj.weight",            \
    [ROLE_UP] = "mlp.up_proj.weight",                \
    [ROLE_DOWN] = "mlp.down_proj.weight"
#define LLAMA_MLP                                    \
    GATED_MLP,                                       \
    [ROLE_GATE_BIAS] = "mlp.gate_proj.bias",         \
    [ROLE_UP_BIAS] = "mlp.up_proj.bias",             \
    [ROLE_DOWN_BIAS] = "mlp.down_proj.bias"
#define LLAMA_NORM2 [ROLE_NORM2] = "post_attention_layernorm.weight"
#define LLAMA_BLOCK LLAMA_ATTENTION, LLAMA_NORM2, LLAMA_MLP

#define SILU .activation = MODEL_SILU, .activation_key = "hidden_act"
#define GELU(key) .activation = MODEL_GELU_TANH, .activation_key = key
#define LLAMA_NAMES .block = "model.layers", .tensor = {LLAMA_ENDS, LLAMA_BLOCK}
#define GEMMA_NORMS                                                \
    [ROLE_POST1] = "post_attention_layernorm.weight",              \
    [ROLE_NORM2] = "pre_feedforward_layernorm.weight",             \
    [ROLE_POST2] = "post_feedforward_layernorm.weight"

static const model_row rows[MODEL_ARCHS] = {
    [MODEL_LLAMA] = {
        .name = "llama", .type = "llama", .class_name = "LlamaForCausalLM", .gguf = "llama",
        .absent = {.context = 2048, .norm_eps = 1e-6f, .rope_theta = 10000},
        .may_attention_bias = true, .may_mlp_bias = true, .may_head_dim = true, .dim_by_heads = true,
        .gated = true, SILU, LLAMA_NAMES,
    },
    [MODEL_GPT] = {
        .name = "gpt", .type = "gpt2", .class_name = "GPT2LMHeadModel", .gguf = "gpt2",
        .absent = {.context = 1024, .norm_eps = 1e-5f, .tied = true},
        .layer_norm = true, .learned_positions = true, .transposed = true, .all_biases = true,
        GELU("activation_function"), .block = "transformer.h",
        .tensor = {
            [ROLE_EMBEDDING] = "transformer.wte.weight", [ROLE_POSITIONS] = "transformer.wpe.weight",
            [ROLE_NORM1] = "ln_1.weight", [ROLE_NORM1_BIAS] = "ln_1.bias",
            [ROLE_QKV] = "attn.c_attn.weight", [ROLE_QKV_BIAS] = "attn.c_attn.bias",
            [ROLE_O] = "attn.c_proj.weight", [ROLE_O_BIAS] = "attn.c_proj.bias",
            [ROLE_NORM2] = "ln_2.weight", [ROLE_NORM2_BIAS] = "ln_2.bias",
            [ROLE_UP] = "mlp.c_fc.weight", [ROLE_UP_BIAS] = "mlp.c_fc.bias",
            [ROLE_DOWN] = "mlp.c_proj.weight", [ROLE_DOWN_BIAS] = "mlp.c_proj.bias",
            [ROLE_NORM] = "transformer.ln_f.weight", [ROLE_NORM_BIAS] = "transformer.ln_f.bias",
            [ROLE_HEAD] = "lm_head.weight",
        },
    },
    [MODEL_MISTRAL] = {
        .name = "mistral", .type = "mistral", .class_name = "MistralForCausalLM", .gguf = "llama",
        .absent = {.kv_heads = 8, .context = 131072, .window = 4096, .norm_eps = 1e-6f, .rope_theta = 10000},
        .may_head_dim = true, .windows = MODEL_WINDOWS_ALL,
        .gated = true, SILU, LLAMA_NAMES,
    },
    [MODEL_QWEN2] = {
        .name = "qwen2", .type = "qwen2", .class_name = "Qwen2ForCausalLM", .gguf = "qwen2",
        .absent = {.kv_heads = 32, .context = 32768, .window = 4096, .window_from = 28, .norm_eps = 1e-6f,
                   .rope_theta = 10000},
        .always_qkv_bias = true, .may_head_dim = true, .windows = MODEL_WINDOWS_ANY, .window_switch = true,
        .gated = true, SILU, LLAMA_NAMES,
    },
    [MODEL_QWEN3] = {
        .name = "qwen3", .type = "qwen3", .class_name = "Qwen3ForCausalLM", .gguf = "qwen3",
        .absent = {.kv_heads = 32, .head_dim = 128, .context = 32768, .window = 4096, .window_from = 28,
                   .norm_eps = 1e-6f, .rope_theta = 10000},
        .may_attention_bias = true, .may_head_dim = true, .windows = MODEL_WINDOWS_ANY, .window_switch = true,
        .gated = true, SILU, .block = "model.layers", .tensor = {LLAMA_ENDS, LLAMA_BLOCK, QK_NORM},
    },
    [MODEL_SMOLLM3] = {
        .name = "smollm3", .type = "smollm3", .class_name = "SmolLM3ForCausalLM", .gguf = "smollm3",
        .absent = {.kv_heads = 4, .context = 32768, .norm_eps = 1e-6f, .rope_theta = 2e6f, .tied = true,
                   .pads = true},
        .may_attention_bias = true, .may_mlp_bias = true, .may_head_dim = true, .may_unrotated = true,
        .windows = MODEL_WINDOWS_ANY, .window_switch = true, .gated = true, SILU, LLAMA_NAMES,
    },
    [MODEL_GEMMA3] = {
        .name = "gemma3", .type = "gemma3_text", .class_name = "Gemma3ForCausalLM", .gguf = "gemma3",
        .absent = {.kv_heads = 4, .head_dim = 256, .context = 131072, .window = 4096, .window_period = 6, .query_scalar = 256,
                   .norm_eps = 1e-6f, .rope_theta = 1e6f, .local_rope_theta = 10000, .tied = true,
                   .pads = true},
        .norm_plus_one = true, .scaled_embedding = true, .may_attention_bias = true, .may_head_dim = true,
        .dim_by_heads = true, .local_theta = true, .query_scalar = true, .may_logit_softcap = true,
        .windows = MODEL_WINDOWS_ANY, .gated = true, GELU("hidden_activation"),
        .block = "model.layers", .tensor = {LLAMA_ENDS, LLAMA_ATTENTION, QK_NORM, GEMMA_NORMS, GATED_MLP},
    },
    // transformers 5 has all experts of a layer in mlp.experts.gate_up_proj[experts, 2 * ffn, dim]
    // and mlp.experts.down_proj[experts, dim, ffn], and the router in mlp.gate.weight. It reads and
    // writes files with the names of transformers 4, which are those below.
    [MODEL_MIXTRAL] = {
        .name = "mixtral", .type = "mixtral", .class_name = "MixtralForCausalLM", .gguf = "llama",
        .absent = {.kv_heads = 8, .context = 131072, .experts = 8, .experts_used = 2, .norm_eps = 1e-5f,
                   .rope_theta = 1e6f},
        .may_head_dim = true, .windows = MODEL_WINDOWS_ALL, .gated = true, SILU,
        .mixture = true, .always_normalised = true, .one_ffn_dim = true,
        .block = "model.layers", .expert = "block_sparse_moe.experts",
        .tensor = {
            LLAMA_ENDS, LLAMA_ATTENTION, LLAMA_NORM2, [ROLE_ROUTER] = "block_sparse_moe.gate.weight",
            [ROLE_EXPERT_GATE] = "w1.weight", [ROLE_EXPERT_UP] = "w3.weight", [ROLE_EXPERT_DOWN] = "w2.weight",
        },
    },
    [MODEL_QWEN3_MOE] = {
        .name = "qwen3-moe", .type = "qwen3_moe", .class_name = "Qwen3MoeForCausalLM", .gguf = "qwen3moe",
        .absent = {.kv_heads = 4, .context = 32768, .window = 4096, .experts = 128, .experts_used = 8,
                   .expert_ffn_dim = 768, .norm_eps = 1e-6f, .rope_theta = 10000},
        .may_attention_bias = true, .may_head_dim = true, .windows = MODEL_WINDOWS_ALL, .window_switch = true,
        .gated = true, SILU, .mixture = true,
        .block = "model.layers", .expert = "mlp.experts",
        .tensor = {
            LLAMA_ENDS, LLAMA_ATTENTION, QK_NORM, LLAMA_NORM2, [ROLE_ROUTER] = "mlp.gate.weight",
            [ROLE_EXPERT_GATE] = "gate_proj.weight", [ROLE_EXPERT_UP] = "up_proj.weight",
            [ROLE_EXPERT_DOWN] = "down_proj.weight",
        },
    },
    [MODEL_GEMMA2] = {
        .name = "gemma2", .type = "gemma2", .class_name = "Gemma2ForCausalLM", .gguf = "gemma2",
        .absent = {.kv_heads = 4, .head_dim = 256, .context = 8192, .window = 4096, .window_period = 2, .query_scalar = 256,
                   .norm_eps = 1e-6f, .rope_theta = 10000, .attention_softcap = 50, .logit_softcap = 30, .tied = true,
                   .pads = true},
        .norm_plus_one = true, .scaled_embedding = true, .may_attention_bias = true, .may_head_dim = true,
        .dim_by_heads = true, .query_scalar = true, .may_attention_softcap = true, .may_logit_softcap = true,
        .windows = MODEL_WINDOWS_ANY, .gated = true, GELU("hidden_activation"),
        .block = "model.layers", .tensor = {LLAMA_ENDS, LLAMA_ATTENTION, GEMMA_NORMS, GATED_MLP},
    },
};
// clang-format on

const model_row *model_row_of(model_arch arch) { return (uint32_t)arch < MODEL_ARCHS ? &rows[arch] : NULL; }

model_arch model_arch_of_type(const char *type) {
    uint32_t i = 0;
    while (i < MODEL_ARCHS && strcmp(rows[i].type, type) != 0) i++;
    return (model_arch)i;
}

model_arch model_arch_named(const char *name) {
    uint32_t i = 0;
    while (i < MODEL_ARCHS && strcmp(rows[i].name, name) != 0) i++;
    return (model_arch)i;
}

// --- tensors

static bool is_expert(model_role role) { return role >= ROLE_EXPERT_GATE && role <= ROLE_EXPERT_DOWN; }

bool model_has(const model_config *c, model_role role) {
    const model_row *row = &rows[c->arch];
    if (!row->tensor[role]) return false;
    switch (role) {
    case ROLE_Q_BIAS:
    case ROLE_K_BIAS:
    case ROLE_V_BIAS: return row->all_biases || c->qkv_bias;
    case ROLE_O_BIAS: return row->all_biases || c->o_bias;
    case ROLE_GATE_BIAS:
    case ROLE_UP_BIAS:
    case ROLE_DOWN_BIAS: return row->all_biases || c->mlp_bias;
    case ROLE_HEAD: return !c->tied;
    default: return true;
    }
}

static uint32_t count_roles(const model_config *c, model_role first, model_role last) {
    uint32_t count = 0;
    for (uint32_t role = first; role <= last; role++) {
        uint32_t times = is_expert((model_role)role) ? c->experts : 1;
        if (model_has(c, (model_role)role)) count += times;
    }
    return count;
}

uint32_t model_tensors_before(const model_config *c) { return count_roles(c, ROLE_EMBEDDING, ROLE_POSITIONS); }
uint32_t model_tensors_per_block(const model_config *c) { return count_roles(c, ROLE_NORM1, ROLE_POST2); }

uint32_t model_tensor_count(const model_config *c) {
    return model_tensors_before(c) + c->layers * model_tensors_per_block(c) + count_roles(c, ROLE_NORM, ROLE_HEAD);
}

// The role of the i-th tensor from `first`. An expert's index is left in out->expert.
static model_role role_at(const model_config *c, model_role first, uint32_t i, model_tensor *out) {
    uint32_t role = first;
    for (;; role++) {
        BRAID_ASSERT(role < MODEL_ROLES);
        if (!model_has(c, (model_role)role)) continue;
        if (role == ROLE_EXPERT_GATE && i < 3 * c->experts) {
            out->expert = i / 3;
            return (model_role)(ROLE_EXPERT_GATE + i % 3);
        }
        if (role == ROLE_EXPERT_GATE) {
            i -= 3 * c->experts;
            role = ROLE_EXPERT_DOWN;
            continue;
        }
        if (i == 0) return (model_role)role;
        i--;
    }
}

// Outputs and inputs of a matrix; `in` is 0 for a vector.
static void sizes_of(const model_config *c, model_role role, uint32_t *out, uint32_t *in) {
    uint32_t dim = c->dim, width = model_head_dim(c), queries = c->heads * width, keys = c->kv_heads * width;
    const uint32_t sizes[MODEL_ROLES][2] = {
        [ROLE_EMBEDDING] = {c->vocab, dim},
        [ROLE_POSITIONS] = {c->context, dim},
        [ROLE_NORM1] = {dim},
        [ROLE_NORM1_BIAS] = {dim},
        [ROLE_QKV] = {queries + 2 * keys, dim},
        [ROLE_QKV_BIAS] = {queries + 2 * keys},
        [ROLE_Q] = {queries, dim},
        [ROLE_K] = {keys, dim},
        [ROLE_V] = {keys, dim},
        [ROLE_Q_BIAS] = {queries},
        [ROLE_K_BIAS] = {keys},
        [ROLE_V_BIAS] = {keys},
        [ROLE_Q_NORM] = {width},
        [ROLE_K_NORM] = {width},
        [ROLE_O] = {dim, queries},
        [ROLE_O_BIAS] = {dim},
        [ROLE_POST1] = {dim},
        [ROLE_NORM2] = {dim},
        [ROLE_NORM2_BIAS] = {dim},
        [ROLE_ROUTER] = {c->experts, dim},
        [ROLE_EXPERT_GATE] = {c->expert_ffn_dim, dim},
        [ROLE_EXPERT_UP] = {c->expert_ffn_dim, dim},
        [ROLE_EXPERT_DOWN] = {dim, c->expert_ffn_dim},
        [ROLE_GATE] = {c->ffn_dim, dim},
        [ROLE_UP] = {c->ffn_dim, dim},
        [ROLE_GATE_BIAS] = {c->ffn_dim},
        [ROLE_UP_BIAS] = {c->ffn_dim},
        [ROLE_DOWN] = {dim, c->ffn_dim},
        [ROLE_DOWN_BIAS] = {dim},
        [ROLE_POST2] = {dim},
        [ROLE_NORM] = {dim},
        [ROLE_NORM_BIAS] = {dim},
        [ROLE_HEAD] = {c->vocab, dim},
    };
    *out = sizes[role][0];
    *in = sizes[role][1];
}

static bool is_in_block(model_role role) { return role >= ROLE_NORM1 && role <= ROLE_POST2; }

static void fill(const model_config *c, model_tensor *t) {
    const model_row *row = &rows[c->arch];
    const char *name = row->tensor[t->role];
    bool in_block = is_in_block(t->role);
    if (!in_block)
        snprintf(t->name, sizeof t->name, "%s", name);
    else if (is_expert(t->role))
        snprintf(t->name, sizeof t->name, "%s.%u.%s.%u.%s", row->block, t->layer, row->expert, t->expert, name);
    else
        snprintf(t->name, sizeof t->name, "%s.%u.%s", row->block, t->layer, name);
    uint32_t out, in;
    sizes_of(c, t->role, &out, &in);
    t->vector = in == 0;
    t->transposed = row->transposed && in_block && !t->vector;
    t->rows = t->vector ? 1 : t->transposed ? in : out;
    t->cols = t->vector || t->transposed ? out : in;
}

void model_tensor_at(const model_config *c, uint32_t i, model_tensor *t) {
    uint32_t before = model_tensors_before(c), each = model_tensors_per_block(c), blocks = each * c->layers;
    *t = (model_tensor){.role = ROLE_EMBEDDING};
    BRAID_ASSERT(i < model_tensor_count(c));
    if (i < before) {
        t->role = role_at(c, ROLE_EMBEDDING, i, t);
    } else if (i < before + blocks) {
        t->layer = (i - before) / each;
        t->role = role_at(c, ROLE_NORM1, (i - before) % each, t);
    } else {
        t->role = role_at(c, ROLE_NORM, i - before - blocks, t);
    }
    fill(c, t);
}

void model_tensor_stages(const model_config *config, const uint32_t *blocks_per_stage, uint32_t stages, uint16_t *out) {
    uint32_t next = 0, count = model_tensor_count(config), each = model_tensors_per_block(config);
    while (next < model_tensors_before(config)) out[next++] = 0;
    for (uint32_t at = 0; at < stages; at++)
        for (uint32_t i = 0; i < blocks_per_stage[at] * each; i++) out[next++] = (uint16_t)at;
    while (next < count) out[next++] = 0;
}
