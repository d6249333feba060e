#include "model/layout.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct builder {
    const model_config *config;
    layout *out;
    uint32_t canonical;  // offset of the next tensor
    float residual;      // deviation of the projections that add to the residual stream
} builder;

static const float deviation = 0.02f;  // the initializer_range of GPT-2 and LLaMA

static uint32_t tensors_before_blocks(const model_config *c) { return c->arch == MODEL_GPT ? 2 : 1; }
static uint32_t tensors_per_block(const model_config *c) { return c->arch == MODEL_GPT ? 12 : 9; }
static uint32_t tensors_after_blocks(const model_config *c) {
    return (c->arch == MODEL_GPT ? 2u : 1u) + (c->tied ? 0u : 1u);
}

uint32_t model_tensor_count(const model_config *config) {
    return tensors_before_blocks(config) + config->layers * tensors_per_block(config) + tensors_after_blocks(config);
}

void model_tensor_stages(const model_config *config, const uint32_t *blocks_per_stage, uint32_t stages, uint16_t *out) {
    uint32_t next = 0, count = model_tensor_count(config);
    for (; next < tensors_before_blocks(config); next++) out[next] = 0;
    for (uint32_t at = 0; at < stages; at++)
        for (uint32_t i = 0; i < blocks_per_stage[at] * tensors_per_block(config); i++) out[next++] = (uint16_t)at;
    for (; next < count; next++) out[next] = 0;
}

static size_t add_tensor(builder *b, const char *name, uint32_t rows, uint32_t cols, float spread) {
    layout *l = b->out;
    stage_tensor *t = &l->tensor[l->tensors];
    snprintf(t->name, sizeof t->name, "%s", name);
    t->canonical = b->canonical++;
    t->rows = rows;
    t->cols = cols;
    t->dims = spread > 0.0f ? 2 : 1;
    t->decay = t->dims == 2;
    t->offset = l->parameters;
    t->elements = (size_t)rows * cols;
    l->deviation[l->tensors++] = spread;
    l->parameters += t->elements;
    return t->offset;
}

static size_t add_block_tensor(builder *b, uint32_t layer, const char *suffix, uint32_t rows, uint32_t cols,
                               float spread) {
    char name[sizeof b->out->tensor->name];
    const char *prefix = b->config->arch == MODEL_GPT ? "transformer.h" : "model.layers";
    snprintf(name, sizeof name, "%s.%u.%s", prefix, layer, suffix);
    return add_tensor(b, name, rows, cols, spread);
}

static void build_llama_block(builder *b, uint32_t layer, layout_block *k) {
    const model_config *c = b->config;
    uint32_t dim = c->dim, kv = c->dim / c->heads * c->kv_heads, ffn = c->ffn_dim;
    k->norm1.weight = add_block_tensor(b, layer, "input_layernorm.weight", dim, 1, 0.0f);
    k->qkv = (layout_linear){.in = dim, .out = dim + 2 * kv, .parts = 3, .part_out = {dim, kv, kv}};
    k->qkv.weight = add_block_tensor(b, layer, "self_attn.q_proj.weight", dim, dim, deviation);
    add_block_tensor(b, layer, "self_attn.k_proj.weight", kv, dim, deviation);
    add_block_tensor(b, layer, "self_attn.v_proj.weight", kv, dim, deviation);
    k->o = (layout_linear){.in = dim, .out = dim, .parts = 1, .part_out = {dim}};
    k->o.weight = add_block_tensor(b, layer, "self_attn.o_proj.weight", dim, dim, b->residual);
    k->norm2.weight = add_block_tensor(b, layer, "post_attention_layernorm.weight", dim, 1, 0.0f);
    k->up = (layout_linear){.in = dim, .out = 2 * ffn, .parts = 2, .part_out = {ffn, ffn}};
    k->up.weight = add_block_tensor(b, layer, "mlp.gate_proj.weight", ffn, dim, deviation);
    add_block_tensor(b, layer, "mlp.up_proj.weight", ffn, dim, deviation);
    k->down = (layout_linear){.in = ffn, .out = dim, .parts = 1, .part_out = {dim}};
    k->down.weight = add_block_tensor(b, layer, "mlp.down_proj.weight", dim, ffn, b->residual);
}

static layout_norm build_gpt_norm(builder *b, uint32_t layer, const char *weight, const char *bias) {
    layout_norm n;
    n.weight = add_block_tensor(b, layer, weight, b->config->dim, 1, 0.0f);
    n.bias = add_block_tensor(b, layer, bias, b->config->dim, 1, 0.0f);
    return n;
}

static layout_linear build_conv1d(builder *b, uint32_t layer, const char *weight, const char *bias, uint32_t in,
                                  uint32_t out, float spread) {
    layout_linear l = {.in = in, .out = out, .conv1d = true, .has_bias = true, .parts = 1, .part_out = {out}};
    l.weight = add_block_tensor(b, layer, weight, in, out, spread);
    l.bias = add_block_tensor(b, layer, bias, out, 1, 0.0f);
    return l;
}

static void build_gpt_block(builder *b, uint32_t layer, layout_block *k) {
    uint32_t dim = b->config->dim, ffn = b->config->ffn_dim;
    k->norm1 = build_gpt_norm(b, layer, "ln_1.weight", "ln_1.bias");
    k->qkv = build_conv1d(b, layer, "attn.c_attn.weight", "attn.c_attn.bias", dim, 3 * dim, deviation);
    k->o = build_conv1d(b, layer, "attn.c_proj.weight", "attn.c_proj.bias", dim, dim, b->residual);
    k->norm2 = build_gpt_norm(b, layer, "ln_2.weight", "ln_2.bias");
    k->up = build_conv1d(b, layer, "mlp.c_fc.weight", "mlp.c_fc.bias", dim, ffn, deviation);
    k->down = build_conv1d(b, layer, "mlp.c_proj.weight", "mlp.c_proj.bias", ffn, dim, b->residual);
}

static void build_embeddings(builder *b) {
    const model_config *c = b->config;
    bool gpt = c->arch == MODEL_GPT;
    b->canonical = 0;
    b->out->embedding =
        add_tensor(b, gpt ? "transformer.wte.weight" : "model.embed_tokens.weight", c->vocab, c->dim, deviation);
    if (gpt) b->out->positions = add_tensor(b, "transformer.wpe.weight", c->context, c->dim, deviation);
}

static void build_head(builder *b) {
    const model_config *c = b->config;
    bool gpt = c->arch == MODEL_GPT;
    b->canonical = tensors_before_blocks(c) + c->layers * tensors_per_block(c);
    b->out->norm.weight = add_tensor(b, gpt ? "transformer.ln_f.weight" : "model.norm.weight", c->dim, 1, 0.0f);
    if (gpt) b->out->norm.bias = add_tensor(b, "transformer.ln_f.bias", c->dim, 1, 0.0f);
    b->out->head = c->tied ? b->out->embedding : add_tensor(b, "lm_head.weight", c->vocab, c->dim, deviation);
}

braid_err layout_new(const model_config *config, const stage_shape *shape, layout *out, braid_error *error) {
    uint32_t blocks = shape->layer_end - shape->layer_begin;
    size_t most = (size_t)blocks * tensors_per_block(config) + tensors_before_blocks(config) +
                  tensors_after_blocks(config);
    *out = (layout){.blocks = blocks};
    out->tensor = calloc(most, sizeof *out->tensor);
    out->deviation = calloc(most, sizeof *out->deviation);
    out->block = calloc(blocks ? blocks : 1, sizeof *out->block);
    if (!out->tensor || !out->deviation || !out->block) {
        layout_free(out);
        return braid_fail(error, BRAID_MEMORY, "no memory for the list of %zu tensors", most);
    }
    builder b = {.config = config, .out = out, .residual = deviation / sqrtf(2.0f * (float)config->layers)};
    if (shape->ends) build_embeddings(&b);
    for (uint32_t i = 0; i < blocks; i++) {
        uint32_t layer = shape->layer_begin + i;
        b.canonical = tensors_before_blocks(config) + layer * tensors_per_block(config);
        if (config->arch == MODEL_GPT)
            build_gpt_block(&b, layer, &out->block[i]);
        else
            build_llama_block(&b, layer, &out->block[i]);
    }
    if (shape->ends) build_head(&b);
    return BRAID_OK;
}

void layout_free(layout *l) {
    free(l->tensor);
    free(l->deviation);
    free(l->block);
    *l = (layout){0};
}
