#include "format/hf_config.h"

#include "format/json.h"

#include <stdlib.h>
#include <string.h>

typedef struct reader {
    const json *doc;
    const json_value *root;
    const char *origin;
    braid_error *error;
    braid_err err;  // the first error
} reader;

static void refuse(reader *r, const char *key, const char *why) {
    if (!r->err) r->err = braid_fail(r->error, BRAID_FORMAT, "%s: '%s' %s", r->origin, key, why);
}

// True if a key is absent or null.
static bool is_given(const reader *r, const char *key) {
    const json_value *v = json_member(r->doc, r->root, key);
    return v && v->kind != JSON_NULL;
}

static uint32_t read_count(reader *r, const char *key) {
    uint64_t n = 0;
    if (!json_u64(json_member(r->doc, r->root, key), &n) || n == 0 || n > UINT32_MAX)
        refuse(r, key, "is missing or not a count");
    return (uint32_t)n;
}

static uint32_t read_count_or(reader *r, const char *key, uint32_t fallback) {
    return is_given(r, key) ? read_count(r, key) : fallback;
}

static float read_real_or(reader *r, const char *key, double fallback) {
    double x = fallback;
    if (is_given(r, key) && !json_double(json_member(r->doc, r->root, key), &x)) refuse(r, key, "is not a number");
    return (float)x;
}

static bool read_bool_or(reader *r, const char *key, bool fallback) {
    bool b = fallback;
    if (is_given(r, key) && !json_bool(json_member(r->doc, r->root, key), &b))
        refuse(r, key, "is neither true nor false");
    return b;
}

static void need_text(reader *r, const char *key, const char *one, const char *other) {
    const char *text = json_string(json_member(r->doc, r->root, key));
    if (!is_given(r, key) || (text && (strcmp(text, one) == 0 || strcmp(text, other) == 0))) return;
    refuse(r, key, "has a value that braid does not compute");
}

static void need_false(reader *r, const char *key) {
    if (read_bool_or(r, key, false)) refuse(r, key, "is true, which braid does not compute");
}

// transformers 5 writes the parameters of the rotation into an object of their own; its base takes
// precedence over the older key.
static void read_rope(reader *r, model_config *c) {
    c->rope_theta = read_real_or(r, "rope_theta", 10000);
    if (is_given(r, "rope_scaling")) refuse(r, "rope_scaling", "is set, which braid does not compute");
    if (!is_given(r, "rope_parameters")) return;
    reader rope = *r;
    rope.root = json_member(r->doc, r->root, "rope_parameters");
    if (rope.root->kind != JSON_OBJECT) {
        refuse(r, "rope_parameters", "is not an object");
        return;
    }
    c->rope_theta = read_real_or(&rope, "rope_theta", (double)c->rope_theta);
    need_text(&rope, "rope_type", "default", "default");
    r->err = rope.err;
}

static void read_llama(reader *r, model_config *c) {
    c->dim = read_count(r, "hidden_size");
    c->layers = read_count(r, "num_hidden_layers");
    c->heads = read_count(r, "num_attention_heads");
    c->kv_heads = read_count_or(r, "num_key_value_heads", c->heads);
    c->ffn_dim = read_count(r, "intermediate_size");
    c->vocab = read_count(r, "vocab_size");
    c->context = read_count(r, "max_position_embeddings");
    read_rope(r, c);
    c->norm_eps = read_real_or(r, "rms_norm_eps", 1e-6);
    c->tied = read_bool_or(r, "tie_word_embeddings", false);
    need_text(r, "hidden_act", "silu", "swish");
    need_false(r, "attention_bias");
    need_false(r, "mlp_bias");
    if (!r->err && read_count_or(r, "head_dim", c->dim / c->heads) != c->dim / c->heads)
        refuse(r, "head_dim", "is not hidden_size / num_attention_heads");
}

static void read_gpt2(reader *r, model_config *c) {
    c->dim = read_count(r, "n_embd");
    c->layers = read_count(r, "n_layer");
    c->heads = read_count(r, "n_head");
    c->kv_heads = c->heads;
    c->ffn_dim = read_count_or(r, "n_inner", 4 * c->dim);
    c->vocab = read_count(r, "vocab_size");
    c->context = read_count(r, "n_positions");
    c->norm_eps = read_real_or(r, "layer_norm_epsilon", 1e-5);
    c->tied = read_bool_or(r, "tie_word_embeddings", true);
    need_text(r, "activation_function", "gelu_new", "gelu_pytorch_tanh");
    need_false(r, "scale_attn_by_inverse_layer_idx");
}

static void read_document(reader *r, model_config *c) {
    const char *type = json_string(json_member(r->doc, r->root, "model_type"));
    if (type && strcmp(type, "llama") == 0) {
        c->arch = MODEL_LLAMA;
        read_llama(r, c);
    } else if (type && strcmp(type, "gpt2") == 0) {
        c->arch = MODEL_GPT;
        read_gpt2(r, c);
    } else {
        refuse(r, "model_type", "is neither 'llama' nor 'gpt2'");
    }
}

braid_err hf_config_read(const char *text, size_t length, const char *origin, model_config *out, braid_error *error) {
    json *doc = NULL;
    braid_error why = {0};
    braid_err err = json_parse(text, length, &doc, &why);
    if (err) return braid_fail(error, err, "%.200s: %s", origin, why.text);
    reader r = {.doc = doc, .root = json_root(doc), .origin = origin, .error = error};
    *out = (model_config){0};
    read_document(&r, out);
    json_free(doc);
    if (r.err) return r.err;
    err = model_config_check(out, &why);
    return err ? braid_fail(error, err, "%.200s: %s", origin, why.text) : BRAID_OK;
}

// Written for transformers 4 and for transformers 5.
static void write_rope(json_out *o, const model_config *c) {
    json_out_float(o, "rope_theta", c->rope_theta);
    json_out_open(o, "rope_parameters", '{');
    json_out_string(o, "rope_type", "default");
    json_out_float(o, "rope_theta", c->rope_theta);
    json_out_close(o, '}');
}

static void write_llama(json_out *o, const model_config *c) {
    json_out_string(o, "model_type", "llama");
    json_out_u64(o, "hidden_size", c->dim);
    json_out_u64(o, "intermediate_size", c->ffn_dim);
    json_out_u64(o, "num_hidden_layers", c->layers);
    json_out_u64(o, "num_attention_heads", c->heads);
    json_out_u64(o, "num_key_value_heads", c->kv_heads);
    json_out_u64(o, "head_dim", c->dim / c->heads);
    json_out_u64(o, "max_position_embeddings", c->context);
    write_rope(o, c);
    json_out_float(o, "rms_norm_eps", c->norm_eps);
    json_out_string(o, "hidden_act", "silu");
    json_out_bool(o, "attention_bias", false);
    json_out_bool(o, "mlp_bias", false);
}

static void write_gpt2(json_out *o, const model_config *c) {
    json_out_string(o, "model_type", "gpt2");
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
    json_out o = {.pretty = true};
    json_out_open(&o, NULL, '{');
    json_out_open(&o, "architectures", '[');
    json_out_string(&o, NULL, config->arch == MODEL_LLAMA ? "LlamaForCausalLM" : "GPT2LMHeadModel");
    json_out_close(&o, ']');
    if (config->arch == MODEL_LLAMA)
        write_llama(&o, config);
    else
        write_gpt2(&o, config);
    json_out_u64(&o, "vocab_size", config->vocab);
    json_out_bool(&o, "tie_word_embeddings", config->tied);
    // Tokens are bytes; none of them begins or ends a text.
    json_out_null(&o, "bos_token_id");
    json_out_null(&o, "eos_token_id");
    json_out_string(&o, "torch_dtype", "float32");  // transformers 4
    json_out_string(&o, "dtype", "float32");        // and 5
    json_out_close(&o, '}');
    return json_out_take(&o, length);
}
