#include "model/config.h"

#include "model/rows.h"

#include <math.h>
#include <stddef.h>

// Checks in turn; the first failure is kept.
typedef struct checker {
    const model_config *c;
    const model_row *row;
    braid_error *error;
    braid_err err;
} checker;

static void check_count(checker *k, const char *name, uint32_t value, uint32_t most) {
    if (k->err || (value >= 1 && value <= most)) return;
    k->err = braid_fail(k->error, BRAID_CONFIG, "model: %s is %u, it must be between 1 and %u", name, value, most);
}

// `least` itself is refused if it is 0.
static void check_number(checker *k, const char *name, float value, double least, double most) {
    double x = (double)value;
    if (k->err || ((least > 0 ? x >= least : x > 0) && x <= most)) return;
    k->err = braid_fail(k->error, BRAID_CONFIG, "model: %s is %g, it must be %s %g and at most %g", name, x,
                        least > 0 ? "at least" : "above", least, most);
}

static bool same(float a, float b) { return a <= b && a >= b; }

// A switch that is set needs a row that has it.
static void check_switch(checker *k, const char *name, bool set, bool may) {
    if (!k->err && set && !may)
        k->err = braid_fail(k->error, BRAID_CONFIG, "model: a %s has no %s", k->row->name, name);
}

static void check_ranges(checker *k) {
    const model_config *c = k->c;
    check_count(k, "dim", c->dim, MODEL_MAX_DIM);
    check_count(k, "layers", c->layers, MODEL_MAX_LAYERS);
    check_count(k, "heads", c->heads, c->dim);
    check_count(k, "kv_heads", c->kv_heads, c->heads);
    check_count(k, "ffn_dim", c->ffn_dim, MODEL_MAX_FFN_DIM);
    check_count(k, "vocab", c->vocab, MODEL_MAX_VOCAB);
    check_count(k, "context", c->context, MODEL_MAX_CONTEXT);
    if (!k->err && !(c->norm_eps > 0.0f && c->norm_eps < 1.0f))
        k->err = braid_fail(k->error, BRAID_CONFIG, "model: norm_eps is %g, it must be above 0 and below 1",
                            (double)c->norm_eps);
}

static void check_heads(checker *k) {
    const model_config *c = k->c;
    if (k->err) return;
    bool divides = c->dim % c->heads == 0;
    if (!divides && (c->head_dim == 0 || k->row->dim_by_heads || !k->row->may_head_dim)) {
        k->err =
            braid_fail(k->error, BRAID_CONFIG, "model: dim (%u) must be a multiple of heads (%u)", c->dim, c->heads);
        return;
    }
    uint32_t width = model_head_dim(c);
    check_switch(k, "head_dim that differs from dim / heads", !divides || width != c->dim / c->heads,
                 k->row->may_head_dim);
    check_count(k, "head_dim", width, c->head_dim ? MODEL_MAX_HEAD_DIM : MODEL_MAX_DIM);
    if (!k->err && (uint64_t)c->heads * width > MODEL_MAX_QUERY_DIM)
        k->err = braid_fail(k->error, BRAID_CONFIG, "model: heads (%u) * head_dim (%u) is above %d", c->heads, width,
                            MODEL_MAX_QUERY_DIM);
    if (!k->err && k->row->learned_positions && c->kv_heads != c->heads)
        k->err = braid_fail(k->error, BRAID_CONFIG, "model: a %s has kv_heads equal to heads (%u), not %u",
                            k->row->name, c->heads, c->kv_heads);
    if (!k->err && c->heads % c->kv_heads != 0)
        k->err = braid_fail(k->error, BRAID_CONFIG, "model: heads (%u) must be a multiple of kv_heads (%u)", c->heads,
                            c->kv_heads);
}

static void check_scaling(checker *k) {
    const model_rope *r = &k->c->rope;
    if (!k->err && (uint32_t)r->kind > MODEL_ROPE_YARN)
        k->err = braid_fail(k->error, BRAID_CONFIG, "model: the rope scaling must be plain, linear, llama3 or yarn");
    if (r->kind == MODEL_ROPE_PLAIN) return;
    check_number(k, "the rope's factor", r->factor, 1, 1e6);
    if (r->kind == MODEL_ROPE_LINEAR) return;
    check_count(k, "the rope's original_context", r->original_context, MODEL_MAX_CONTEXT);
    if (r->kind == MODEL_ROPE_LLAMA3) {
        check_number(k, "the rope's low_freq_factor", r->low_freq_factor, 0, 1e6);
        check_number(k, "the rope's high_freq_factor", r->high_freq_factor, 0, 1e6);
        if (!k->err && r->high_freq_factor <= r->low_freq_factor)
            k->err = braid_fail(k->error, BRAID_CONFIG,
                                "model: the rope's high_freq_factor (%g) must be above low_freq_factor (%g)",
                                (double)r->high_freq_factor, (double)r->low_freq_factor);
        return;
    }
    check_number(k, "rope_theta of a yarn rope", k->c->rope_theta, 1.01, 1e9);
    float fast = r->beta_fast > 0 ? r->beta_fast : 32, slow = r->beta_slow > 0 ? r->beta_slow : 1;
    check_number(k, "the rope's beta_fast", fast, 0, 1e6);
    check_number(k, "the rope's beta_slow", slow, 0, 1e6);
    if (!k->err && !(r->beta_fast >= 0 && r->beta_slow >= 0 && r->attention_factor >= 0 &&
                     r->attention_factor <= 1e6f && fast > slow))
        k->err = braid_fail(k->error, BRAID_CONFIG,
                            "model: the rope's beta_fast (%g) must be above beta_slow (%g), and no number negative",
                            (double)fast, (double)slow);
}

static void check_rotation(checker *k) {
    const model_config *c = k->c;
    if (k->row->learned_positions) {
        check_switch(k, "scaled rope", c->rope.kind != MODEL_ROPE_PLAIN, false);
        return;
    }
    if (!k->err && model_head_dim(c) % 2 != 0)
        k->err = braid_fail(k->error, BRAID_CONFIG,
                            "model: heads of width %u (dim %u / heads %u), rotary positions need an even width",
                            model_head_dim(c), c->dim, c->heads);
    check_number(k, "rope_theta", c->rope_theta, 1, 1e9);
    if (k->row->local_theta) check_number(k, "local_rope_theta", c->local_rope_theta, 1, 1e9);
    check_scaling(k);
}

// Counts layers; those beyond the last one are refused.
static uint32_t count_layers(checker *k, const char *name, const uint64_t layers[MODEL_MAX_LAYERS / 64]) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < MODEL_MAX_LAYERS && !k->err; i++) {
        bool set = layers[i / 64] >> i % 64 & 1;
        count += set;
        if (set && i >= k->c->layers)
            k->err = braid_fail(k->error, BRAID_CONFIG, "model: %s names layer %u of %u", name, i, k->c->layers);
    }
    return count;
}

static void check_layers(checker *k) {
    const model_config *c = k->c;
    uint32_t windowed = count_layers(k, "windowed", c->windowed),
             unrotated = count_layers(k, "unrotated", c->unrotated);
    check_switch(k, "window", c->window > 0, k->row->windows != MODEL_WINDOWS_NONE);
    check_switch(k, "layers without rotation", unrotated > 0, k->row->may_unrotated);
    check_switch(k, "local_rope_theta", !same(c->local_rope_theta, 0), k->row->local_theta);
    if (c->window > 0) check_count(k, "window", c->window, MODEL_MAX_CONTEXT);
    if (k->err) return;
    if ((windowed > 0) != (c->window > 0))
        k->err = braid_fail(k->error, BRAID_CONFIG,
                            "model: a window of %u tokens and %u windowed layers: give both or none", c->window,
                            windowed);
    else if (windowed > 0 && windowed < c->layers && k->row->windows == MODEL_WINDOWS_ALL)
        k->err = braid_fail(k->error, BRAID_CONFIG, "model: all layers of a %s are windowed, or none", k->row->name);
}

static void check_biases(checker *k) {
    const model_config *c = k->c;
    const model_row *row = k->row;
    check_switch(k, "qkv_bias", c->qkv_bias, row->always_qkv_bias || row->may_attention_bias);
    check_switch(k, "o_bias", c->o_bias, row->may_attention_bias);
    check_switch(k, "mlp_bias", c->mlp_bias, row->may_mlp_bias);
    if (!k->err && row->always_qkv_bias && !c->qkv_bias)
        k->err = braid_fail(k->error, BRAID_CONFIG, "model: a %s has qkv_bias", row->name);
    if (!k->err && row->may_attention_bias && c->qkv_bias != c->o_bias)
        k->err = braid_fail(k->error, BRAID_CONFIG, "model: qkv_bias and o_bias of a %s are equal", row->name);
}

static void check_scales(checker *k) {
    const model_config *c = k->c;
    const model_row *row = k->row;
    check_switch(k, "attention_scale", !same(c->attention_scale, 0), row->query_scalar);
    check_switch(k, "attention_softcap", !same(c->attention_softcap, 0), row->may_attention_softcap);
    check_switch(k, "logit_softcap", !same(c->logit_softcap, 0), row->may_logit_softcap);
    if (!same(c->attention_softcap, 0)) check_number(k, "attention_softcap", c->attention_softcap, 0, 1e6);
    if (!same(c->logit_softcap, 0)) check_number(k, "logit_softcap", c->logit_softcap, 0, 1e6);
    if (!k->err && !same(c->attention_scale, 0) && model_query_scalar(c) == 0)
        k->err = braid_fail(k->error, BRAID_CONFIG,
                            "model: attention_scale is %g, it must be 1 / sqrt(n) of a whole number n up to 2^20",
                            (double)c->attention_scale);
    float scale = row->scaled_embedding ? sqrtf((float)c->dim) : 0.0f;
    if (!k->err && !same(c->embedding_scale, scale))
        k->err = braid_fail(k->error, BRAID_CONFIG, "model: the embedding_scale of a %s is %g, not %g", row->name,
                            (double)scale, (double)c->embedding_scale);
}

static void check_mixture(checker *k) {
    const model_config *c = k->c;
    bool mixture = k->row->mixture;
    check_switch(k, "experts", c->experts || c->experts_used || c->expert_ffn_dim || c->normalised_experts, mixture);
    if (!mixture) return;
    check_count(k, "experts", c->experts, MODEL_MAX_EXPERTS);
    check_count(k, "experts_used", c->experts_used,
                c->experts < MODEL_MAX_EXPERTS_USED ? c->experts : MODEL_MAX_EXPERTS_USED);
    check_count(k, "expert_ffn_dim", c->expert_ffn_dim, MODEL_MAX_FFN_DIM);
    if (!k->err && k->row->one_ffn_dim && c->expert_ffn_dim != c->ffn_dim)
        k->err = braid_fail(k->error, BRAID_CONFIG, "model: the expert_ffn_dim of a %s is its ffn_dim (%u), not %u",
                            k->row->name, c->ffn_dim, c->expert_ffn_dim);
    if (!k->err && k->row->always_normalised && !c->normalised_experts)
        k->err = braid_fail(k->error, BRAID_CONFIG, "model: a %s has normalised_experts", k->row->name);
}

uint32_t model_query_scalar(const model_config *c) {
    double inverse = 1 / ((double)c->attention_scale * (double)c->attention_scale);
    if (!(inverse >= 0.5 && inverse <= (1 << 20))) return 0;
    uint32_t n = (uint32_t)(inverse + 0.5);
    return same((float)(1 / sqrt((double)n)), c->attention_scale) ? n : 0;
}

braid_err model_config_check(const model_config *config, braid_error *error) {
    checker k = {.c = config, .row = model_row_of(config->arch), .error = error};
    if (!k.row)
        return braid_fail(error, BRAID_CONFIG, "model: the architecture must be one of %u, it is %u", MODEL_ARCHS,
                          (unsigned)config->arch);
    check_ranges(&k);
    check_heads(&k);
    check_rotation(&k);
    check_layers(&k);
    check_biases(&k);
    check_scales(&k);
    check_mixture(&k);
    return k.err;
}

// --- difference

typedef enum member_kind { MEMBER_COUNT, MEMBER_FLAG, MEMBER_NUMBER } member_kind;

typedef struct model_member {
    const char *name;
    member_kind kind;
    size_t at;
} model_member;

#define MEMBER(kind, member) \
    { #member, kind, offsetof(model_config, member) }
static const model_member members[] = {
    MEMBER(MEMBER_COUNT, dim),
    MEMBER(MEMBER_COUNT, layers),
    MEMBER(MEMBER_COUNT, heads),
    MEMBER(MEMBER_COUNT, kv_heads),
    MEMBER(MEMBER_COUNT, head_dim),
    MEMBER(MEMBER_COUNT, ffn_dim),
    MEMBER(MEMBER_COUNT, vocab),
    MEMBER(MEMBER_COUNT, context),
    MEMBER(MEMBER_FLAG, tied),
    MEMBER(MEMBER_NUMBER, norm_eps),
    MEMBER(MEMBER_NUMBER, rope_theta),
    MEMBER(MEMBER_FLAG, qkv_bias),
    MEMBER(MEMBER_FLAG, o_bias),
    MEMBER(MEMBER_FLAG, mlp_bias),
    MEMBER(MEMBER_NUMBER, rope.factor),
    MEMBER(MEMBER_NUMBER, rope.low_freq_factor),
    MEMBER(MEMBER_NUMBER, rope.high_freq_factor),
    MEMBER(MEMBER_NUMBER, rope.beta_fast),
    MEMBER(MEMBER_NUMBER, rope.beta_slow),
    MEMBER(MEMBER_NUMBER, rope.attention_factor),
    MEMBER(MEMBER_COUNT, rope.original_context),
    MEMBER(MEMBER_NUMBER, local_rope_theta),
    MEMBER(MEMBER_COUNT, window),
    MEMBER(MEMBER_NUMBER, attention_scale),
    MEMBER(MEMBER_NUMBER, attention_softcap),
    MEMBER(MEMBER_NUMBER, logit_softcap),
    MEMBER(MEMBER_NUMBER, embedding_scale),
    MEMBER(MEMBER_COUNT, experts),
    MEMBER(MEMBER_COUNT, experts_used),
    MEMBER(MEMBER_COUNT, expert_ffn_dim),
    MEMBER(MEMBER_FLAG, normalised_experts),
};

// Replaces each zero that means another value by that value.
static model_config explicit_config(const model_config *config) {
    model_config c = *config;
    model_rope *r = &c.rope;
    c.head_dim = model_head_dim(config);
    if (model_row_of(c.arch)->learned_positions) c.rope_theta = 0;
    if (same(c.attention_scale, 0)) c.attention_scale = (float)(1 / sqrt((double)c.head_dim));
    if (r->kind == MODEL_ROPE_PLAIN) r->factor = 0;
    if (r->kind != MODEL_ROPE_LLAMA3) r->low_freq_factor = r->high_freq_factor = 0;
    if (r->kind != MODEL_ROPE_YARN) r->beta_fast = r->beta_slow = r->attention_factor = 0;
    if (r->kind < MODEL_ROPE_LLAMA3) r->original_context = 0;
    if (r->kind == MODEL_ROPE_YARN && same(r->beta_fast, 0)) r->beta_fast = 32;
    if (r->kind == MODEL_ROPE_YARN && same(r->beta_slow, 0)) r->beta_slow = 1;
    if (r->kind == MODEL_ROPE_YARN && same(r->attention_factor, 0))
        r->attention_factor = (float)(0.1 * log((double)r->factor) + 1);
    return c;
}

static double member_value(const model_config *c, const model_member *m) {
    const char *at = (const char *)c + m->at;
    if (m->kind == MEMBER_COUNT) return *(const uint32_t *)(const void *)at;
    if (m->kind == MEMBER_FLAG) return *(const bool *)at;
    return (double)*(const float *)(const void *)at;
}

static bool differ(const char *name, double a, double b, model_difference *out) {
    if (a <= b && a >= b) return false;
    *out = (model_difference){name, a, b};
    return true;
}

static bool layers_differ(const char *name, const uint64_t *a, const uint64_t *b, model_difference *out) {
    for (uint32_t i = 0; i < MODEL_MAX_LAYERS; i++)
        if (differ(name, (a[i / 64] >> i % 64 & 1) != 0, (b[i / 64] >> i % 64 & 1) != 0, out)) return true;
    return false;
}

bool model_config_differ(const model_config *first, const model_config *second, model_difference *out) {
    model_config a = explicit_config(first), b = explicit_config(second);
    if (differ("architecture", a.arch, b.arch, out) || differ("rope scaling", a.rope.kind, b.rope.kind, out))
        return true;
    for (size_t i = 0; i < sizeof members / sizeof *members; i++)
        if (differ(members[i].name, member_value(&a, &members[i]), member_value(&b, &members[i]), out)) return true;
    return layers_differ("windowed", a.windowed, b.windowed, out) ||
           layers_differ("unrotated", a.unrotated, b.unrotated, out);
}
