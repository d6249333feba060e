#include "weights/convert_inside.h"
#include "weights/gguf_config.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct writer {
    gguf_out *o;
    const char *arch;
    char key[128];
} writer;

static const char *key(writer *w, const char *suffix) {
    snprintf(w->key, sizeof w->key, "%s.%s", w->arch, suffix);
    return w->key;
}

static void put_u32(writer *w, const char *suffix, uint32_t value) { gguf_out_u32(w->o, key(w, suffix), value); }
static void put_f32(writer *w, const char *suffix, float value) { gguf_out_f32(w->o, key(w, suffix), value); }
static void put_text(writer *w, const char *suffix, const char *text) {
    gguf_out_text(w->o, key(w, suffix), text, strlen(text));
}

// llama3's scaling is the tensor rope_freqs.weight.
static void put_scaling(writer *w, const model_rope *r) {
    if (r->kind != MODEL_ROPE_LINEAR && r->kind != MODEL_ROPE_YARN) return;
    put_text(w, "rope.scaling.type", r->kind == MODEL_ROPE_LINEAR ? "linear" : "yarn");
    put_f32(w, "rope.scaling.factor", r->factor);
    if (r->kind == MODEL_ROPE_LINEAR) return;
    put_u32(w, "rope.scaling.original_context_length", r->original_context);
    if (r->attention_factor > 0) put_f32(w, "rope.scaling.yarn_attn_factor", r->attention_factor);
    if (r->beta_fast > 0) put_f32(w, "rope.scaling.yarn_beta_fast", r->beta_fast);
    if (r->beta_slow > 0) put_f32(w, "rope.scaling.yarn_beta_slow", r->beta_slow);
}

static void put_gemma(writer *w, const model_config *c) {
    if (c->attention_softcap > 0) put_f32(w, "attn_logit_softcapping", c->attention_softcap);
    if (c->logit_softcap > 0) put_f32(w, "final_logit_softcapping", c->logit_softcap);
    if (!c->window) return;
    put_u32(w, "attention.sliding_window", c->window);
    if (c->local_rope_theta > 0) put_f32(w, "rope.freq_base_swa", c->local_rope_theta);
    gguf_out_array(w->o, key(w, "attention.sliding_window_pattern"), GGUF_BOOL, c->layers);
    for (uint32_t i = 0; i < c->layers; i++) {
        uint8_t windowed = model_layer_windowed(c, i);
        gguf_out_put(w->o, &windowed, 1);
    }
}

static void put_rotary(writer *w, const model_config *c) {
    uint32_t width = model_head_dim(c);
    put_u32(w, "attention.key_length", width);
    put_u32(w, "attention.value_length", width);
    put_u32(w, "rope.dimension_count", width);
    put_f32(w, "rope.freq_base", c->rope_theta);
    put_scaling(w, &c->rope);
}

// llama.cpp has these from the architecture alone (llama-model.cpp and src/models at the commit
// above).
static const char *differs(const model_config *c) {
    const model_row *row = model_row_of(c->arch);
    bool gemma = row->norm_plus_one;
    if (c->window > 0 && !gemma && row->windows == MODEL_WINDOWS_ANY) return "the windows of its layers";
    for (uint32_t i = 0; i < c->layers; i++)
        if (row->may_unrotated && model_layer_rotated(c, i) == ((i + 1) % 4 == 0))
            return "which of its layers are rotated";
    if (row->mixture && !c->normalised_experts) return "experts without norm_topk_prob";
    float scale = gguf_attention_scale(c);
    if (row->query_scalar && c->attention_scale > 0 && fabsf(c->attention_scale - scale) > 1e-6f * scale)
        return "query_pre_attn_scalar";
    return NULL;
}

braid_err gguf_check_config(const model_config *c, braid_error *error) {
    const char *what = differs(c);
    if (!what) return BRAID_OK;
    return braid_fail(error, BRAID_CONFIG,
                      "llama.cpp does not compute %s of this %s as the model does; write a directory", what,
                      model_row_of(c->arch)->name);
}

void gguf_write_config(gguf_out *o, const model_config *c) {
    const model_row *row = model_row_of(c->arch);
    writer w = {.o = o, .arch = row->gguf};
    gguf_out_text(o, "general.architecture", w.arch, strlen(w.arch));
    put_u32(&w, "context_length", c->context);
    put_u32(&w, "embedding_length", c->dim);
    put_u32(&w, "block_count", c->layers);
    put_u32(&w, "feed_forward_length", c->ffn_dim);
    put_u32(&w, "attention.head_count", c->heads);
    put_u32(&w, "attention.head_count_kv", c->kv_heads);
    put_f32(&w, row->layer_norm ? "attention.layer_norm_epsilon" : "attention.layer_norm_rms_epsilon", c->norm_eps);
    put_u32(&w, "vocab_size", c->vocab);
    if (!row->learned_positions) put_rotary(&w, c);
    if (row->mixture) {
        put_u32(&w, "expert_count", c->experts);
        put_u32(&w, "expert_used_count", c->experts_used);
        if (!row->one_ffn_dim) put_u32(&w, "expert_feed_forward_length", c->expert_ffn_dim);
    }
    if (row->norm_plus_one)
        put_gemma(&w, c);
    else if (c->window > 0)  // of all layers; llama.cpp ignores it
        put_u32(&w, "attention.sliding_window", c->window);
}
