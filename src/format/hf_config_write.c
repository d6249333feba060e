// Writes config.json for transformers 4 and 5, which spell the rotation differently. Types are
// those that transformers 5 insists on: a float has a decimal point.
#include "format/hf_config.h"
#include "format/json.h"
#include "model/rows.h"

#include <math.h>

static bool layer_in(const uint64_t layers[MODEL_MAX_LAYERS / 64], uint32_t i) { return layers[i / 64] >> i % 64 & 1; }

// --- rotation

static void write_scaling(json_out *o, const model_rope *r) {
    static const char *const kinds[] = {"default", "linear", "llama3", "yarn"};
    json_out_string(o, "rope_type", kinds[r->kind]);
    if (r->kind == MODEL_ROPE_PLAIN) return;
    json_out_float(o, "factor", r->factor);
    if (r->kind == MODEL_ROPE_LINEAR) return;
    json_out_u64(o, "original_max_position_embeddings", r->original_context);
    if (r->kind == MODEL_ROPE_LLAMA3) {
        json_out_float(o, "low_freq_factor", r->low_freq_factor);
        json_out_float(o, "high_freq_factor", r->high_freq_factor);
        return;
    }
    if (r->beta_fast > 0) json_out_float(o, "beta_fast", r->beta_fast);
    if (r->beta_slow > 0) json_out_float(o, "beta_slow", r->beta_slow);
    if (r->attention_factor > 0) json_out_float(o, "attention_factor", r->attention_factor);
}

static void write_rotation(json_out *o, const char *key, const model_rope *rope, float theta) {
    json_out_open(o, key, '{');
    write_scaling(o, rope);
    json_out_float(o, "rope_theta", theta);
    json_out_close(o, '}');
}

// transformers 4 reads rope_theta, rope_local_base_freq and rope_scaling; transformers 5
// rope_parameters, in place of which it takes rope_scaling where that is present.
static void write_rope(json_out *o, const model_config *c) {
    const model_rope plain = {0};
    json_out_float(o, "rope_theta", c->rope_theta);
    if (c->rope.kind != MODEL_ROPE_PLAIN) write_rotation(o, "rope_scaling", &c->rope, c->rope_theta);
    if (!model_row_of(c->arch)->local_theta) {
        write_rotation(o, "rope_parameters", &c->rope, c->rope_theta);
        return;
    }
    json_out_float(o, "rope_local_base_freq", c->local_rope_theta);
    json_out_open(o, "rope_parameters", '{');
    write_rotation(o, "full_attention", &c->rope, c->rope_theta);
    write_rotation(o, "sliding_attention", &plain, c->local_rope_theta);
    json_out_close(o, '}');
}

// --- layers

static void write_window(json_out *o, const model_config *c) {
    if (c->window > 0)
        json_out_u64(o, "sliding_window", c->window);
    else
        json_out_null(o, "sliding_window");
}

static void write_layers(json_out *o, const model_config *c) {
    const model_row *row = model_row_of(c->arch);
    if (row->may_unrotated) {
        json_out_open(o, "no_rope_layers", '[');
        for (uint32_t i = 0; i < c->layers; i++) json_out_u64(o, NULL, !layer_in(c->unrotated, i));
        json_out_close(o, ']');
    }
    if (row->windows == MODEL_WINDOWS_NONE) return;
    if (row->window_switch) json_out_bool(o, "use_sliding_window", c->window > 0);
    write_window(o, c);
    if (row->windows == MODEL_WINDOWS_ALL) return;
    uint32_t first = 0;
    while (first < c->layers && !layer_in(c->windowed, first)) first++;
    if (row->absent.window_from) json_out_u64(o, "max_window_layers", first);
    json_out_open(o, "layer_types", '[');
    for (uint32_t i = 0; i < c->layers; i++)
        json_out_string(o, NULL, layer_in(c->windowed, i) ? "sliding_attention" : "full_attention");
    json_out_close(o, ']');
}

// --- the rest

static void write_softcap(json_out *o, const char *key, float cap) {
    if (cap > 0)
        json_out_float(o, key, cap);
    else
        json_out_null(o, key);
}

static void write_scales(json_out *o, const model_config *c) {
    const model_row *row = model_row_of(c->arch);
    if (row->query_scalar)
        json_out_u64(o, "query_pre_attn_scalar", c->attention_scale > 0 ? model_query_scalar(c) : model_head_dim(c));
    if (row->may_attention_softcap) write_softcap(o, "attn_logit_softcapping", c->attention_softcap);
    if (row->may_logit_softcap) write_softcap(o, "final_logit_softcapping", c->logit_softcap);
}

static void write_mixture(json_out *o, const model_config *c) {
    const model_row *row = model_row_of(c->arch);
    if (!row->mixture) return;
    json_out_u64(o, row->one_ffn_dim ? "num_local_experts" : "num_experts", c->experts);
    json_out_u64(o, "num_experts_per_tok", c->experts_used);
    if (!row->one_ffn_dim) json_out_u64(o, "moe_intermediate_size", c->expert_ffn_dim);
    if (!row->always_normalised) json_out_bool(o, "norm_topk_prob", c->normalised_experts);
}

static void write_llama(json_out *o, const model_config *c) {
    const model_row *row = model_row_of(c->arch);
    json_out_u64(o, "hidden_size", c->dim);
    json_out_u64(o, "intermediate_size", c->ffn_dim);
    json_out_u64(o, "num_hidden_layers", c->layers);
    json_out_u64(o, "num_attention_heads", c->heads);
    json_out_u64(o, "num_key_value_heads", c->kv_heads);
    json_out_u64(o, "head_dim", model_head_dim(c));
    json_out_u64(o, "max_position_embeddings", c->context);
    write_rope(o, c);
    json_out_float(o, "rms_norm_eps", c->norm_eps);
    json_out_string(o, row->activation_key, row->activation == MODEL_SILU ? "silu" : "gelu_pytorch_tanh");
    if (row->may_attention_bias) json_out_bool(o, "attention_bias", c->qkv_bias);
    if (row->may_mlp_bias) json_out_bool(o, "mlp_bias", c->mlp_bias);
    write_layers(o, c);
    write_scales(o, c);
    write_mixture(o, c);
}

static void write_gpt2(json_out *o, const model_config *c) {
    json_out_u64(o, "n_embd", c->dim);
    json_out_u64(o, "n_inner", c->ffn_dim);
    json_out_u64(o, "n_layer", c->layers);
    json_out_u64(o, "n_head", c->heads);
    json_out_u64(o, "n_positions", c->context);
    json_out_u64(o, "n_ctx", c->context);
    json_out_float(o, "layer_norm_epsilon", c->norm_eps);
    json_out_string(o, "activation_function", "gelu_new");
    json_out_u64(o, "attn_pdrop", 0);
    json_out_u64(o, "embd_pdrop", 0);
    json_out_u64(o, "resid_pdrop", 0);
}

char *hf_config_write(const model_config *config, size_t *length) {
    const model_row *row = model_row_of(config->arch);
    json_out o = {.pretty = true};
    json_out_open(&o, NULL, '{');
    json_out_open(&o, "architectures", '[');
    json_out_string(&o, NULL, row->class_name);
    json_out_close(&o, ']');
    json_out_string(&o, "model_type", row->type);
    if (row->learned_positions)
        write_gpt2(&o, config);
    else
        write_llama(&o, config);
    json_out_u64(&o, "vocab_size", config->vocab);
    json_out_bool(&o, "tie_word_embeddings", config->tied);
    // Classes have defaults for these.
    json_out_null(&o, "bos_token_id");
    json_out_null(&o, "eos_token_id");
    if (row->absent.pads) json_out_null(&o, "pad_token_id");
    json_out_string(&o, "torch_dtype", "float32");  // transformers 4
    json_out_string(&o, "dtype", "float32");        // and 5
    json_out_close(&o, '}');
    return json_out_take(&o, length);
}
