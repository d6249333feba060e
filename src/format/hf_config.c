// Reads config.json. An absent key means what transformers 5.23's class of the architecture says
// (model_absent), which may differ from null.
#include "format/hf_config.h"

#include "format/json.h"
#include "model/rows.h"
#include "tensor/elementary.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct reader {
    const json *doc;
    const json_value *root;
    const char *origin, *inside;  // `inside`: the object in which keys are read, "" for the file itself
    const model_row *row;
    braid_error *error;
    braid_err err;  // the first error
} reader;

static void refuse(reader *r, const char *key, const char *why) {
    if (!r->err)
        r->err = braid_fail(r->error, BRAID_FORMAT, "%.200s: '%s%s%s' %s", r->origin, r->inside, *r->inside ? "." : "",
                            key, why);
}

static const json_value *member(const reader *r, const char *key) { return json_member(r->doc, r->root, key); }

static bool is_absent(const reader *r, const char *key) { return !member(r, key); }

// False if a key is absent or null.
static bool is_given(const reader *r, const char *key) {
    const json_value *v = member(r, key);
    return v && v->kind != JSON_NULL;
}

static uint32_t read_count(reader *r, const char *key) {
    uint64_t n = 0;
    if (!json_u64(member(r, key), &n) || n == 0 || n > UINT32_MAX) refuse(r, key, "is missing or not a count");
    return (uint32_t)n;
}

static uint32_t read_count_or(reader *r, const char *key, uint32_t fallback) {
    return is_given(r, key) ? read_count(r, key) : fallback;
}

static float read_real_or(reader *r, const char *key, double fallback) {
    double x = fallback;
    if (is_given(r, key) && !json_double(member(r, key), &x)) refuse(r, key, "is not a number");
    return (float)x;
}

static bool read_bool_or(reader *r, const char *key, bool fallback) {
    bool b = fallback;
    if (is_given(r, key) && !json_bool(member(r, key), &b)) refuse(r, key, "is neither true nor false");
    return b;
}

static void need_text(reader *r, const char *key, const char *one, const char *other) {
    const char *text = json_string(member(r, key));
    if (!is_given(r, key) || (text && (strcmp(text, one) == 0 || strcmp(text, other) == 0))) return;
    refuse(r, key, "has a value that braid does not compute");
}

static void need_false(reader *r, const char *key) {
    if (read_bool_or(r, key, false)) refuse(r, key, "is true, which braid does not compute for this model_type");
}

static void need_absent(reader *r, const char *key) {
    if (is_given(r, key)) refuse(r, key, "is set, which braid does not compute for this model_type");
}

// --- rotation

static void read_yarn(reader *r, model_rope *rope, uint32_t context) {
    rope->beta_fast = read_real_or(r, "beta_fast", 0);
    rope->beta_slow = read_real_or(r, "beta_slow", 0);
    rope->attention_factor = read_real_or(r, "attention_factor", 0);
    if (is_given(r, "attention_factor") && !(rope->attention_factor > 0))
        refuse(r, "attention_factor", "is not positive");
    if (!read_bool_or(r, "truncate", true)) refuse(r, "truncate", "is false, which braid does not compute");
    if (!is_given(r, "factor") && rope->original_context) rope->factor = (float)context / (float)rope->original_context;
    double scale = (double)read_real_or(r, "mscale", 0), all = (double)read_real_or(r, "mscale_all_dim", 0);
    bool both = (scale < 0 || scale > 0) && (all < 0 || all > 0);
    if (!both || rope->attention_factor > 0) return;
    double rise = rope->factor > 1 ? 0.1 * elementary_log((double)rope->factor) : 0;
    rope->attention_factor = (float)((scale * rise + 1) / (all * rise + 1));
}

// `outer` is the whole file, r->root the object with the scaling.
static void read_scaling(reader *r, const reader *outer, model_config *c) {
    static const char *const kinds[] = {"default", "linear", "llama3", "yarn"};
    const char *key = is_given(r, "rope_type") ? "rope_type" : "type", *text = json_string(member(r, key));
    model_rope *rope = &c->rope;
    uint32_t kind = 0;
    while (text && kind <= MODEL_ROPE_YARN && strcmp(text, kinds[kind]) != 0) kind++;
    if ((is_given(r, key) && !text) || kind > MODEL_ROPE_YARN) {
        refuse(r, key, "is neither default, linear, llama3 nor yarn");
        return;
    }
    rope->kind = (model_rope_kind)kind;
    if (is_given(r, "partial_rotary_factor") && !(read_real_or(r, "partial_rotary_factor", 1) >= 1))
        refuse(r, "partial_rotary_factor", "is below 1, which braid does not compute");
    if (rope->kind == MODEL_ROPE_PLAIN) return;
    rope->factor = read_real_or(r, "factor", 0);
    if (!is_given(r, "factor") && rope->kind != MODEL_ROPE_YARN) refuse(r, "factor", "of the rope scaling is missing");
    if (rope->kind == MODEL_ROPE_LINEAR) return;
    reader whole = *outer;
    rope->original_context = is_given(outer, "original_max_position_embeddings")
                                 ? read_count(&whole, "original_max_position_embeddings")
                                 : read_count_or(r, "original_max_position_embeddings", c->context);
    if (!r->err) r->err = whole.err;
    rope->low_freq_factor = rope->kind == MODEL_ROPE_LLAMA3 ? read_real_or(r, "low_freq_factor", 0) : 0;
    rope->high_freq_factor = rope->kind == MODEL_ROPE_LLAMA3 ? read_real_or(r, "high_freq_factor", 0) : 0;
    if (rope->kind == MODEL_ROPE_YARN) read_yarn(r, rope, c->context);
}

// True if `key` of `from` is an object, which *out reads.
static bool enter(reader *from, const char *key, reader *out) {
    *out = *from;
    if (!is_given(from, key)) return false;
    out->root = member(from, key);
    out->inside = key;
    if (out->root->kind == JSON_OBJECT) return true;
    refuse(from, key, "is not an object");
    return false;
}

static void leave(reader *r, const reader *inner) {
    if (!r->err) r->err = inner->err;
}

static float read_theta(reader *r, float fallback) {
    if (!is_absent(r, "rope_theta") && !is_given(r, "rope_theta")) refuse(r, "rope_theta", "is null");
    return read_real_or(r, "rope_theta", (double)fallback);
}

// An object rope_scaling replaces rope_parameters, with its theta. A theta of the object takes
// precedence over that of the file.
static void read_rope(reader *r, model_config *c) {
    reader rope;
    c->rope_theta = read_real_or(r, "rope_theta", (double)r->row->absent.rope_theta);
    bool old = enter(r, "rope_scaling", &rope) && rope.root->count > 0;
    if (!old && !enter(r, "rope_parameters", &rope)) return;
    if (is_given(&rope, "full_attention") || is_given(&rope, "sliding_attention"))
        refuse(&rope, is_given(&rope, "full_attention") ? "full_attention" : "sliding_attention",
               "has a rotation of its own, which braid does not compute for this model_type");
    c->rope_theta = read_theta(&rope, c->rope_theta);
    read_scaling(&rope, r, c);
    leave(r, &rope);
}

// Gemma 3 has a rotation of the windowed layers, too. rope_scaling belongs to the other layers.
static void read_two_ropes(reader *r, model_config *c) {
    reader both, rope;
    c->rope_theta = read_real_or(r, "rope_theta", (double)r->row->absent.rope_theta);
    c->local_rope_theta = read_real_or(r, "rope_local_base_freq", (double)r->row->absent.local_rope_theta);
    if (enter(r, "rope_parameters", &both)) {
        if (enter(&both, "full_attention", &rope)) {
            c->rope_theta = read_theta(&rope, c->rope_theta);
            read_scaling(&rope, r, c);
            leave(&both, &rope);
        }
        if (enter(&both, "sliding_attention", &rope)) {
            c->local_rope_theta = read_theta(&rope, c->local_rope_theta);
            need_text(&rope, "rope_type", "default", "default");
            leave(&both, &rope);
        }
        leave(r, &both);
    }
    if (!enter(r, "rope_scaling", &rope) || rope.root->count == 0) return;
    c->rope_theta = read_theta(&rope, c->rope_theta);
    read_scaling(&rope, r, c);
    leave(r, &rope);
}

// --- windows, and layers without rotation

static bool any_layer(const uint64_t layers[MODEL_MAX_LAYERS / 64]) {
    for (uint32_t i = 0; i < MODEL_MAX_LAYERS / 64; i++)
        if (layers[i]) return true;
    return false;
}

static void read_layer_types(reader *r, model_config *c) {
    const json_value *list = member(r, "layer_types"), *v;
    uint32_t layer = 0;
    if (list->kind != JSON_ARRAY || list->count != c->layers || c->layers > MODEL_MAX_LAYERS) {
        refuse(r, "layer_types", "is not a list with one entry per layer");
        return;
    }
    for (v = json_first(r->doc, list); v; v = json_next(r->doc, v), layer++) {
        const char *text = json_string(v);
        bool sliding = text && strcmp(text, "sliding_attention") == 0;
        if (!sliding && !(text && strcmp(text, "full_attention") == 0))
            refuse(r, "layer_types", "has an entry that is neither full_attention nor sliding_attention");
        if (sliding) model_set_layer(c->windowed, layer);
    }
}

// The layers that have a window when layer_types is absent.
static void default_windows(reader *r, model_config *c) {
    const model_absent *absent = &r->row->absent;
    uint64_t from = absent->window_from;
    if (r->row->may_unrotated) {
        memcpy(c->windowed, c->unrotated, sizeof c->windowed);
    } else if (absent->window_period) {
        uint32_t period = read_count_or(r, "sliding_window_pattern", absent->window_period);
        for (uint32_t i = 0; i < c->layers && i < MODEL_MAX_LAYERS && period; i++)
            if ((i + 1) % period != 0) model_set_layer(c->windowed, i);
    } else {
        if (from && is_given(r, "max_window_layers") && !json_u64(member(r, "max_window_layers"), &from))
            refuse(r, "max_window_layers", "is not a count");
        for (uint64_t i = from; i < c->layers && i < MODEL_MAX_LAYERS; i++) model_set_layer(c->windowed, (uint32_t)i);
    }
}

static void read_windows(reader *r, model_config *c) {
    if (r->row->windows == MODEL_WINDOWS_NONE) {
        need_absent(r, "sliding_window");
        return;
    }
    uint32_t absent = is_absent(r, "sliding_window") ? r->row->absent.window : 0;  // null: no window
    if (!r->row->window_switch || read_bool_or(r, "use_sliding_window", false))
        c->window = read_count_or(r, "sliding_window", absent);
    if (r->row->windows == MODEL_WINDOWS_ANY && is_given(r, "layer_types"))
        read_layer_types(r, c);
    else if (c->window > 0 || r->row->absent.window_period)
        default_windows(r, c);
    if (any_layer(c->windowed) && c->window == 0)
        refuse(r, "layer_types", "has sliding_attention, but use_sliding_window and sliding_window give no window");
    if (!any_layer(c->windowed)) c->window = 0;
}

static void read_unrotated(reader *r, model_config *c) {
    const json_value *list = member(r, "no_rope_layers"), *v;
    uint32_t layer = 0, period = read_count_or(r, "no_rope_layer_interval", 4);
    bool listed = is_given(r, "no_rope_layers");
    if (listed && (list->kind != JSON_ARRAY || list->count < c->layers))
        refuse(r, "no_rope_layers", "is not a list with an entry for each layer");
    if (r->err || c->layers > MODEL_MAX_LAYERS) return;
    for (v = listed ? json_first(r->doc, list) : NULL; v && layer < c->layers; v = json_next(r->doc, v), layer++) {
        uint64_t rotated = 0;
        if (!json_u64(v, &rotated)) refuse(r, "no_rope_layers", "has an entry that is neither 0 nor 1");
        if (rotated == 0) model_set_layer(c->unrotated, layer);
    }
    for (; !listed && layer < c->layers; layer++)
        if ((layer + 1) % period == 0) model_set_layer(c->unrotated, layer);
}

// --- the rest

static void read_heads(reader *r, model_config *c) {
    const model_absent *absent = &r->row->absent;
    c->heads = read_count(r, "num_attention_heads");
    uint32_t kv = absent->kv_heads && is_absent(r, "num_key_value_heads") ? absent->kv_heads : c->heads;
    c->kv_heads = read_count_or(r, "num_key_value_heads", kv);
    if (absent->head_dim && !is_absent(r, "head_dim") && !is_given(r, "head_dim")) refuse(r, "head_dim", "is null");
    c->head_dim = read_count_or(r, "head_dim", absent->head_dim);
    // One form for one shape.
    if (!r->err && c->head_dim && c->dim % c->heads == 0 && c->head_dim == c->dim / c->heads) c->head_dim = 0;
}

static void read_biases(reader *r, model_config *c) {
    const model_row *row = r->row;
    if (row->may_attention_bias)
        c->qkv_bias = c->o_bias = read_bool_or(r, "attention_bias", false);
    else
        need_false(r, "attention_bias");
    if (row->always_qkv_bias) c->qkv_bias = true;
    if (row->may_mlp_bias)
        c->mlp_bias = read_bool_or(r, "mlp_bias", false);
    else
        need_false(r, "mlp_bias");
}

// Absent: the class's value; null: none.
static float read_softcap(reader *r, const char *key, bool may, float absent) {
    if (!may) need_absent(r, key);
    float cap = is_absent(r, key) ? absent : read_real_or(r, key, 0);
    if (is_given(r, key) && !(cap > 0)) refuse(r, key, "is not positive");
    return cap;
}

static void read_scales(reader *r, model_config *c) {
    const model_row *row = r->row;
    if (row->query_scalar)
        c->attention_scale =
            (float)(1 / sqrt((double)read_count_or(r, "query_pre_attn_scalar", row->absent.query_scalar)));
    else
        need_absent(r, "query_pre_attn_scalar");
    c->attention_softcap =
        read_softcap(r, "attn_logit_softcapping", row->may_attention_softcap, row->absent.attention_softcap);
    c->logit_softcap = read_softcap(r, "final_logit_softcapping", row->may_logit_softcap, row->absent.logit_softcap);
    if (row->scaled_embedding) c->embedding_scale = sqrtf((float)c->dim);
}

static void read_mixture(reader *r, model_config *c) {
    const model_row *row = r->row;
    if (!row->mixture) {
        need_absent(r, "num_local_experts");
        need_absent(r, "num_experts");
        return;
    }
    const char *key = is_given(r, "num_experts") && !is_given(r, "num_local_experts") ? "num_experts"
                                                                                      : "num_local_experts";
    c->experts = read_count_or(r, key, row->absent.experts);
    c->experts_used = read_count_or(r, "num_experts_per_tok", row->absent.experts_used);
    c->expert_ffn_dim = row->one_ffn_dim ? c->ffn_dim
                                         : read_count_or(r, "moe_intermediate_size", row->absent.expert_ffn_dim);
    c->normalised_experts = row->always_normalised || read_bool_or(r, "norm_topk_prob", false);
    if (read_count_or(r, "decoder_sparse_step", 1) != 1)
        refuse(r, "decoder_sparse_step", "is not 1: braid computes no model with both kinds of layers");
    const json_value *dense = member(r, "mlp_only_layers");
    if (is_given(r, "mlp_only_layers") && (dense->kind != JSON_ARRAY || dense->count > 0))
        refuse(r, "mlp_only_layers", "is not empty: braid computes no model with both kinds of layers");
}

static void need_activation(reader *r) {
    bool gelu = r->row->activation == MODEL_GELU_TANH;
    need_text(r, r->row->activation_key, gelu ? "gelu_pytorch_tanh" : "silu", gelu ? "gelu_new" : "swish");
}

static void read_llama(reader *r, model_config *c) {
    const model_absent *absent = &r->row->absent;
    c->dim = read_count(r, "hidden_size");
    c->layers = read_count(r, "num_hidden_layers");
    read_heads(r, c);
    c->ffn_dim = read_count(r, "intermediate_size");
    c->vocab = read_count(r, "vocab_size");
    c->context = read_count_or(r, "max_position_embeddings", absent->context);
    c->norm_eps = read_real_or(r, "rms_norm_eps", (double)absent->norm_eps);
    c->tied = read_bool_or(r, "tie_word_embeddings", absent->tied);
    if (r->row->local_theta)
        read_two_ropes(r, c);
    else
        read_rope(r, c);
    if (r->row->may_unrotated) read_unrotated(r, c);
    read_windows(r, c);
    read_biases(r, c);
    read_scales(r, c);
    read_mixture(r, c);
    need_activation(r);
    need_false(r, "use_bidirectional_attention");
    if (is_given(r, "partial_rotary_factor") && !(read_real_or(r, "partial_rotary_factor", 1) >= 1))
        refuse(r, "partial_rotary_factor", "is below 1, which braid does not compute");
}

static void read_gpt2(reader *r, model_config *c) {
    const model_absent *absent = &r->row->absent;
    c->dim = read_count(r, "n_embd");
    c->layers = read_count(r, "n_layer");
    c->heads = read_count(r, "n_head");
    c->kv_heads = c->heads;
    c->ffn_dim = read_count_or(r, "n_inner", 4 * c->dim);
    c->vocab = read_count(r, "vocab_size");
    c->context = read_count_or(r, "n_positions", absent->context);
    c->norm_eps = read_real_or(r, "layer_norm_epsilon", (double)absent->norm_eps);
    c->tied = read_bool_or(r, "tie_word_embeddings", absent->tied);
    need_activation(r);
    need_false(r, "scale_attn_by_inverse_layer_idx");
    need_false(r, "add_cross_attention");
    if (!read_bool_or(r, "scale_attn_weights", true))
        refuse(r, "scale_attn_weights", "is false, which braid does not compute");
}

static void read_document(reader *r, model_config *c) {
    const char *type = json_string(member(r, "model_type"));
    c->arch = type ? model_arch_of_type(type) : MODEL_ARCHS;
    r->row = model_row_of(c->arch);
    if (!r->row) {
        // A file's text may hold control characters.
        if (type && type[strspn(type, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.")])
            type = "no name";
        if (r->err) return;
        r->err = type ? braid_fail(r->error, BRAID_FORMAT,
                                   "%.200s: 'model_type' is %.60s, which braid does not compute", r->origin, type)
                      : braid_fail(r->error, BRAID_FORMAT,
                                   "%.200s: 'model_type' is missing, so the architecture is not known", r->origin);
        return;
    }
    need_absent(r, "quantization_config");
    if (r->row->learned_positions)
        read_gpt2(r, c);
    else
        read_llama(r, c);
}

braid_err hf_config_read(const char *text, size_t length, const char *origin, model_config *out, braid_error *error) {
    json *doc = NULL;
    braid_error why = {0};
    braid_err err = json_parse(text, length, &doc, &why);
    if (err) return braid_fail(error, err, "%.200s: %s", origin, why.text);
    reader r = {.doc = doc, .root = json_root(doc), .origin = origin, .inside = "", .error = error};
    *out = (model_config){0};
    read_document(&r, out);
    json_free(doc);
    if (r.err) return r.err;
    err = model_config_check(out, &why);
    return err ? braid_fail(error, err, "%.200s: %s", origin, why.text) : BRAID_OK;
}
