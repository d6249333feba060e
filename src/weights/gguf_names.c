#include "weights/gguf_names.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct pair {
    const char *hugging_face, *gguf;
} pair;

// Without ".weight" or ".bias".
static const pair ends[] = {
    {"model.embed_tokens", "token_embd"}, {"transformer.wte", "token_embd"}, {"transformer.wpe", "position_embd"},
    {"model.norm", "output_norm"},        {"transformer.ln_f", "output_norm"}, {"lm_head", "output"},
};

static const pair block[] = {
    {"input_layernorm", "attn_norm"},
    {"self_attn.q_proj", "attn_q"},
    {"self_attn.k_proj", "attn_k"},
    {"self_attn.v_proj", "attn_v"},
    {"self_attn.o_proj", "attn_output"},
    {"self_attn.q_norm", "attn_q_norm"},
    {"self_attn.k_norm", "attn_k_norm"},
    {"post_attention_layernorm", "ffn_norm"},
    {"mlp.gate_proj", "ffn_gate"},
    {"mlp.up_proj", "ffn_up"},
    {"mlp.down_proj", "ffn_down"},
    {"mlp.gate", "ffn_gate_inp"},
    {"block_sparse_moe.gate", "ffn_gate_inp"},
    {"ln_1", "attn_norm"},
    {"attn.c_attn", "attn_qkv"},
    {"attn.c_proj", "attn_output"},
    {"ln_2", "ffn_norm"},
    {"mlp.c_fc", "ffn_up"},
    {"mlp.c_proj", "ffn_down"},
};

// Gemma 3 has a norm on either side of each half of a block.
static const pair gemma[] = {
    {"post_attention_layernorm", "post_attention_norm"},
    {"pre_feedforward_layernorm", "ffn_norm"},
    {"post_feedforward_layernorm", "post_ffw_norm"},
};

static const pair experts[] = {
    {"gate_proj", "ffn_gate_exps"}, {"up_proj", "ffn_up_exps"}, {"down_proj", "ffn_down_exps"},
    {"w1", "ffn_gate_exps"},        {"w3", "ffn_up_exps"},      {"w2", "ffn_down_exps"},
};

static const char *find(const pair *table, size_t count, const char *name, size_t length) {
    for (size_t i = 0; i < count; i++)
        if (strlen(table[i].hugging_face) == length && memcmp(table[i].hugging_face, name, length) == 0)
            return table[i].gguf;
    return NULL;
}

#define FIND(table, name, length) find(table, sizeof(table) / sizeof *(table), name, length)

// The number at `*at`, followed by a '.'; moves behind it.
static bool take_number(const char **at, uint32_t *n) {
    char *end;
    if (!isdigit((unsigned char)**at)) return false;
    unsigned long value = strtoul(*at, &end, 10);
    if (*end != '.' || value > UINT32_MAX) return false;
    *n = (uint32_t)value;
    *at = end + 1;
    return true;
}

static const char *after(const char *name, const char *prefix) {
    size_t length = strlen(prefix);
    return strncmp(name, prefix, length) == 0 ? name + length : NULL;
}

// `part`: the name within a block, without its suffix.
static const char *find_block(const model_config *c, const char *part, size_t length, uint32_t *expert) {
    const char *rest = after(part, "mlp.experts."), *found = NULL;
    if (!rest) rest = after(part, "block_sparse_moe.experts.");
    if (rest) return take_number(&rest, expert) ? FIND(experts, rest, (size_t)(part + length - rest)) : NULL;
    if (c->arch == MODEL_GEMMA3) found = FIND(gemma, part, length);
    return found ? found : FIND(block, part, length);
}

bool gguf_name_of(const model_config *config, const char *hugging_face, gguf_name *out) {
    const char *suffix = strrchr(hugging_face, '.'), *part = after(hugging_face, "model.layers.");
    *out = (gguf_name){.expert = GGUF_NO_EXPERT};
    if (!suffix) return false;
    if (!part) part = after(hugging_face, "transformer.h.");
    uint32_t layer;
    if (!part) {
        const char *found = FIND(ends, hugging_face, (size_t)(suffix - hugging_face));
        return found && snprintf(out->name, sizeof out->name, "%s%s", found, suffix) < (int)sizeof out->name;
    }
    if (!take_number(&part, &layer) || part > suffix) return false;
    const char *found = find_block(config, part, (size_t)(suffix - part), &out->expert);
    if (!found) return false;
    out->rotated = strcmp(found, "attn_q") == 0 || strcmp(found, "attn_k") == 0;
    return snprintf(out->name, sizeof out->name, "blk.%u.%s%s", (unsigned)layer, found, suffix) < (int)sizeof out->name;
}

bool gguf_pairs_rows(const model_config *config) {
    return config->arch == MODEL_LLAMA || config->arch == MODEL_MISTRAL || config->arch == MODEL_MIXTRAL ||
           config->arch == MODEL_SMOLLM3;
}

bool gguf_shifts_norms(const model_config *config) { return config->arch == MODEL_GEMMA3; }
