#include "weights/gguf_config.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KEY_NAME = 128 };

typedef struct reader {
    const gguf *g;
    const char *origin;
    const char *arch;  // general.architecture
    char name[KEY_NAME];
    braid_error *error;
    braid_err err;  // the first error
} reader;

static void refuse(reader *r, const char *suffix, const char *why) {
    if (!r->err) r->err = braid_fail(r->error, BRAID_FORMAT, "%s: the key '%s.%s' %s", r->origin, r->arch, suffix, why);
}

static const gguf_key *find(reader *r, const char *suffix) {
    snprintf(r->name, sizeof r->name, "%s.%s", r->arch, suffix);
    return gguf_find(r->g, r->name);
}

// A count, or an array of equal counts, one for each layer.
static uint32_t read_count_or(reader *r, const char *suffix, uint32_t fallback) {
    const gguf_key *key = find(r, suffix);
    uint64_t n = 0;
    int64_t first = 0, element;
    if (!key) return fallback;
    if (key->array) {
        bool fine = gguf_element(key, 0, &first) && first > 0;
        for (uint64_t i = 1; i < key->count && fine; i++) fine = gguf_element(key, i, &element) && element == first;
        n = fine ? (uint64_t)first : 0;
        if (!fine) refuse(r, suffix, "differs from layer to layer, which braid does not compute");
    } else if (!gguf_u64(key, &n)) {
        refuse(r, suffix, "is not a count");
    }
    if (n > UINT32_MAX) refuse(r, suffix, "is too large");
    return (uint32_t)n;
}

static uint32_t read_count(reader *r, const char *suffix) {
    if (!find(r, suffix)) refuse(r, suffix, "is missing");
    uint32_t n = read_count_or(r, suffix, 0);
    if (n == 0) refuse(r, suffix, "is 0");
    return n;
}

static float read_real_or(reader *r, const char *suffix, float fallback) {
    const gguf_key *key = find(r, suffix);
    double x = (double)fallback;
    if (key && (!gguf_real(key, &x) || !isfinite((float)x))) refuse(r, suffix, "is not a number");
    return (float)x;
}

static void read_arch(reader *r, model_config *c) {
    gguf_text text = {0};
    if (!gguf_string(gguf_find(r->g, "general.architecture"), &text)) {
        r->err = braid_fail(r->error, BRAID_FORMAT,
                            "%s: the key 'general.architecture' is missing; is it the first shard of a model?",
                            r->origin);
        return;
    }
    for (uint32_t i = 0; i < MODEL_ARCHS; i++) {
        const model_row *row = model_row_of((model_arch)i);
        if (!gguf_is_text(gguf_find(r->g, "general.architecture"), row->gguf)) continue;
        c->arch = (model_arch)i;
        r->arch = row->gguf;
        return;
    }
    char printable[48] = "";
    for (size_t i = 0; i < text.length && i + 1 < sizeof printable; i++)
        printable[i] = text.at[i] >= ' ' && text.at[i] <= '~' ? text.at[i] : '?';
    r->err =
        braid_fail(r->error, BRAID_CONFIG,
                   "%s: the key 'general.architecture' is '%s', which braid does not compute; it computes llama, gpt2, "
                   "qwen2, qwen3, qwen3moe, smollm3, gemma2 and gemma3",
                   r->origin, printable);
}

static void read_scaling(reader *r, model_config *c) {
    const gguf_key *type = find(r, "rope.scaling.type");
    float factor = read_real_or(r, "rope.scaling.factor", read_real_or(r, "rope.scale_linear", 0));
    if (gguf_is_text(type, "none") || (!type && !(factor > 0))) return;
    if (!type || gguf_is_text(type, "linear")) {
        if (!(factor > 0)) return;
        if (factor < 1 || factor > 1) c->rope = (model_rope){.kind = MODEL_ROPE_LINEAR, .factor = factor};
        return;
    }
    if (!gguf_is_text(type, "yarn")) {
        refuse(r, "rope.scaling.type", "has a value that braid does not compute; it computes none, linear and yarn");
        return;
    }
    c->rope = (model_rope){.kind = MODEL_ROPE_YARN, .factor = factor};
    c->rope.original_context = read_count_or(r, "rope.scaling.original_context_length", c->context);
    c->rope.beta_fast = read_real_or(r, "rope.scaling.yarn_beta_fast", 0);
    c->rope.beta_slow = read_real_or(r, "rope.scaling.yarn_beta_slow", 0);
    c->rope.attention_factor = read_real_or(r, "rope.scaling.yarn_attn_factor", 0);
    float ext = read_real_or(r, "rope.scaling.yarn_ext_factor", 1);
    if (ext < 1 || ext > 1) refuse(r, "rope.scaling.yarn_ext_factor", "is not 1, which braid does not compute");
}

// The factors by which llama3's scaling divides the frequencies (transformers,
// modeling_rope_utils.py).
void gguf_rope_factors(const model_config *c, float *factors) {
    uint32_t width = model_head_dim(c);
    double longest = (double)c->rope.original_context / (double)c->rope.low_freq_factor;
    double shortest = (double)c->rope.original_context / (double)c->rope.high_freq_factor;
    double factor = (double)c->rope.factor;
    for (uint32_t i = 0; i < width / 2; i++) {
        double wave = 2 * acos(-1.0) * pow((double)c->rope_theta, 2.0 * i / width);
        double smooth = ((double)c->rope.original_context / wave - (double)c->rope.low_freq_factor) /
                        ((double)c->rope.high_freq_factor - (double)c->rope.low_freq_factor);
        factors[i] = (float)(wave < shortest ? 1 : wave > longest ? factor : 1 / ((1 - smooth) / factor + smooth));
    }
}

// rope_freqs.weight has the factors of llama3's scaling, not its parameters. All models so far use
// these.
static void read_factors(reader *r, const gguf_facts *facts, model_config *c) {
    uint32_t pairs = model_head_dim(c) / 2;
    float *factors = NULL, factor = facts->rope_freqs[facts->rope_pairs - 1];
    bool fine = facts->rope_pairs == pairs && isfinite(factor) && factor >= 1;
    c->rope = (model_rope){.kind = MODEL_ROPE_LLAMA3,
                           .factor = factor,
                           .low_freq_factor = 1,
                           .high_freq_factor = 4,
                           .original_context = 8192};
    if (fine) factors = malloc(pairs * sizeof *factors);
    if (factors) gguf_rope_factors(c, factors);
    for (uint32_t i = 0; i < pairs && fine && factors; i++)
        fine = fabsf(facts->rope_freqs[i] - factors[i]) <= 1e-4f * factors[i];
    bool plain = true;
    for (uint32_t i = 0; i < facts->rope_pairs; i++) plain &= facts->rope_freqs[i] >= 1 && facts->rope_freqs[i] <= 1;
    if (plain) c->rope = (model_rope){0};
    if (!fine && !r->err)
        r->err = braid_fail(r->error, BRAID_FORMAT,
                            "%s: the tensor 'rope_freqs.weight' has other factors than llama3's scaling with "
                            "low_freq_factor 1, high_freq_factor 4 and 8192 positions; braid computes no others",
                            r->origin);
    if (fine && !factors && !r->err) r->err = braid_fail(r->error, BRAID_MEMORY, "no memory for rotary factors");
    free(factors);
}

static void read_rope(reader *r, const gguf_facts *facts, model_config *c) {
    c->rope_theta = read_real_or(r, "rope.freq_base", 10000);
    read_scaling(r, c);
    if (read_count_or(r, "rope.dimension_count", model_head_dim(c)) != model_head_dim(c))
        refuse(r, "rope.dimension_count", "is not the width of a head, which braid does not compute");
    if (facts->rope_freqs && facts->rope_pairs > 0 && !r->err) read_factors(r, facts, c);
}

// llama.cpp tells the largest models by their number of layers.
float gguf_attention_scale(const model_config *c) {
    uint32_t largest = c->arch == MODEL_GEMMA2 ? 46 : 62;
    return (float)(1 / sqrt((double)(c->layers == largest ? c->dim / c->heads : model_head_dim(c))));
}

static void read_windows(reader *r, model_config *c, uint32_t period) {
    const gguf_key *pattern = find(r, "attention.sliding_window_pattern");
    bool listed = pattern && pattern->array;
    if (!listed) period = read_count_or(r, "attention.sliding_window_pattern", period);
    bool any = false;
    for (uint32_t i = 0; i < c->layers && i < MODEL_MAX_LAYERS && c->window; i++) {
        int64_t windowed = period == 0 || i % period < period - 1;
        if (listed && !gguf_element(pattern, i, &windowed))
            refuse(r, "attention.sliding_window_pattern", "has no element for each layer");
        if (windowed) model_set_layer(c->windowed, i);
        any |= windowed != 0;
    }
    if (!any) c->window = 0;
}

static void read_gemma(reader *r, model_config *c) {
    bool second = c->arch == MODEL_GEMMA2;
    c->window = read_count_or(r, "attention.sliding_window", second ? 4096 : 0);
    if (!second) c->local_rope_theta = read_real_or(r, "rope.freq_base_swa", 10000);
    c->logit_softcap = read_real_or(r, "final_logit_softcapping", second ? 30 : 0);
    c->attention_softcap = second ? read_real_or(r, "attn_logit_softcapping", 50) : 0;
    c->embedding_scale = sqrtf((float)c->dim);
    c->attention_scale = gguf_attention_scale(c);
    read_windows(r, c, second ? 2 : 6);
}

static void read_experts(reader *r, model_config *c) {
    c->experts = read_count(r, "expert_count");
    c->experts_used = read_count(r, "expert_used_count");
    c->normalised_experts = true;
    c->expert_ffn_dim = model_row_of(c->arch)->one_ffn_dim ? c->ffn_dim : read_count(r, "expert_feed_forward_length");
    if (read_count_or(r, "expert_shared_count", 0) > 0)
        refuse(r, "expert_shared_count", "is not 0, which braid does not compute");
}

// The name llama stands for LLaMA, Mistral and Mixtral.
static void choose_llama(reader *r, model_config *c) {
    uint32_t window = read_count_or(r, "attention.sliding_window", 0);
    if (read_count_or(r, "expert_count", 0) > 0)
        c->arch = MODEL_MIXTRAL;
    else if (window > 0)
        c->arch = MODEL_MISTRAL;
    c->window = window;
    for (uint32_t i = 0; i < c->layers && i < MODEL_MAX_LAYERS && window; i++) model_set_layer(c->windowed, i);
}

static void read_rows(reader *r, const gguf_facts *facts, model_config *c) {
    if (c->arch == MODEL_LLAMA) choose_llama(r, c);
    const model_row *row = model_row_of(c->arch);
    if (!row->all_biases) {
        c->qkv_bias = facts->qkv_bias;
        c->o_bias = facts->o_bias;
        c->mlp_bias = facts->mlp_bias;
    }
    if (!row->learned_positions) read_rope(r, facts, c);
    if (row->mixture) read_experts(r, c);
    if (row->norm_plus_one) read_gemma(r, c);
    for (uint32_t i = 3; row->may_unrotated && i < c->layers && i < MODEL_MAX_LAYERS; i += 4)
        model_set_layer(c->unrotated, i);
}

static void read_keys(reader *r, const gguf_facts *facts, model_config *c) {
    c->dim = read_count(r, "embedding_length");
    c->layers = read_count(r, "block_count");
    c->heads = read_count(r, "attention.head_count");
    c->kv_heads = read_count_or(r, "attention.head_count_kv", c->heads);
    c->ffn_dim = read_count(r, "feed_forward_length");
    c->context = read_count(r, "context_length");
    c->vocab = (uint32_t)(facts->vocab < UINT32_MAX ? facts->vocab : UINT32_MAX);
    c->tied = facts->tied;
    const char *eps = model_row_of(c->arch)->layer_norm ? "attention.layer_norm_epsilon"
                                                        : "attention.layer_norm_rms_epsilon";
    if (!find(r, eps)) refuse(r, eps, "is missing");
    c->norm_eps = read_real_or(r, eps, 0);
    if (r->err) return;
    uint32_t width = c->dim / c->heads, key = read_count_or(r, "attention.key_length", width);
    if (read_count_or(r, "attention.value_length", key) != key)
        refuse(r, "attention.value_length", "is not attention.key_length, which braid does not compute");
    if (key != width || (uint64_t)width * c->heads != c->dim) c->head_dim = key;
    if (!r->err) read_rows(r, facts, c);
}

braid_err gguf_config_read(const gguf *g, const gguf_facts *facts, const char *origin, model_config *out,
                           braid_error *error) {
    reader r = {.g = g, .origin = origin, .arch = "general", .error = error};
    braid_error why = {0};
    *out = (model_config){0};
    read_arch(&r, out);
    if (!r.err) read_keys(&r, facts, out);
    if (r.err) return r.err;
    braid_err err = model_config_check(out, &why);
    return err ? braid_fail(error, err, "%s: %s", origin, why.text) : BRAID_OK;
}
