#include "weights/gguf_names.h"

#include <stdio.h>
#include <string.h>

static const char *const names[MODEL_ROLES] = {
    [ROLE_EMBEDDING] = "token_embd.weight",
    [ROLE_POSITIONS] = "position_embd.weight",
    [ROLE_NORM1] = "attn_norm.weight",
    [ROLE_NORM1_BIAS] = "attn_norm.bias",
    [ROLE_QKV] = "attn_qkv.weight",
    [ROLE_QKV_BIAS] = "attn_qkv.bias",
    [ROLE_Q] = "attn_q.weight",
    [ROLE_K] = "attn_k.weight",
    [ROLE_V] = "attn_v.weight",
    [ROLE_Q_BIAS] = "attn_q.bias",
    [ROLE_K_BIAS] = "attn_k.bias",
    [ROLE_V_BIAS] = "attn_v.bias",
    [ROLE_Q_NORM] = "attn_q_norm.weight",
    [ROLE_K_NORM] = "attn_k_norm.weight",
    [ROLE_O] = "attn_output.weight",
    [ROLE_O_BIAS] = "attn_output.bias",
    [ROLE_POST1] = "post_attention_norm.weight",
    [ROLE_NORM2] = "ffn_norm.weight",
    [ROLE_NORM2_BIAS] = "ffn_norm.bias",
    [ROLE_ROUTER] = "ffn_gate_inp.weight",
    [ROLE_EXPERT_GATE] = "ffn_gate_exps.weight",
    [ROLE_EXPERT_UP] = "ffn_up_exps.weight",
    [ROLE_EXPERT_DOWN] = "ffn_down_exps.weight",
    [ROLE_GATE] = "ffn_gate.weight",
    [ROLE_UP] = "ffn_up.weight",
    [ROLE_GATE_BIAS] = "ffn_gate.bias",
    [ROLE_UP_BIAS] = "ffn_up.bias",
    [ROLE_DOWN] = "ffn_down.weight",
    [ROLE_DOWN_BIAS] = "ffn_down.bias",
    [ROLE_POST2] = "post_ffw_norm.weight",
    [ROLE_NORM] = "output_norm.weight",
    [ROLE_NORM_BIAS] = "output_norm.bias",
    [ROLE_HEAD] = "output.weight",
};

bool gguf_name_of(const model_tensor *t, char name[GGUF_MAX_NAME_BYTES + 1]) {
    if (!names[t->role]) return false;
    bool in_block = t->role >= ROLE_NORM1 && t->role <= ROLE_POST2;
    if (in_block)
        snprintf(name, GGUF_MAX_NAME_BYTES + 1, "blk.%u.%s", (unsigned)t->layer, names[t->role]);
    else
        snprintf(name, GGUF_MAX_NAME_BYTES + 1, "%s", names[t->role]);
    return true;
}

bool gguf_is_slice(const model_tensor *t) { return t->role >= ROLE_EXPERT_GATE && t->role <= ROLE_EXPERT_DOWN; }

// llama.cpp rotates neighbours in these architectures, and halves in the others.
bool gguf_pairs_rows(const model_config *config, model_role role) {
    const char *arch = model_row_of(config->arch)->gguf;
    bool rotated = role == ROLE_Q || role == ROLE_K || role == ROLE_Q_BIAS || role == ROLE_K_BIAS;
    return rotated && (strcmp(arch, "llama") == 0 || strcmp(arch, "smollm3") == 0);
}

float gguf_shift(const model_config *config, model_role role) {
    bool norm = role == ROLE_NORM1 || role == ROLE_NORM2 || role == ROLE_POST1 || role == ROLE_POST2 ||
                role == ROLE_NORM || role == ROLE_Q_NORM || role == ROLE_K_NORM;
    return norm && model_row_of(config->arch)->norm_plus_one ? 1 : 0;
}
