#include "model/layout.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const float deviation = 0.02f;  // the initializer_range of GPT-2 and LLaMA

typedef struct builder {
    const model_config *config;
    layout *out;
    float residual;          // deviation of the projections that add to the residual stream
    size_t at[MODEL_ROLES];  // offset of the last tensor of each role; of an expert's roles, of expert 0
} builder;

static layout_start start_of(const builder *b, const model_tensor *t) {
    const model_row *row = model_row_of(b->config->arch);
    switch (t->role) {
    case ROLE_O:
    case ROLE_DOWN:
    case ROLE_EXPERT_DOWN: return (layout_start){b->residual, 0};
    case ROLE_NORM1:
    case ROLE_NORM2:
    case ROLE_POST1:
    case ROLE_POST2:
    case ROLE_Q_NORM:
    case ROLE_K_NORM:
    case ROLE_NORM: return (layout_start){0, row->norm_plus_one ? 0.0f : 1.0f};
    default: return (layout_start){t->vector ? 0 : deviation, 0};
    }
}

static void add_tensor(builder *b, uint32_t canonical) {
    layout *l = b->out;
    stage_tensor *to = &l->tensor[l->tensors];
    model_tensor t;
    model_tensor_at(b->config, canonical, &t);
    memcpy(to->name, t.name, sizeof to->name);
    to->canonical = canonical;
    to->rows = t.vector ? t.cols : t.rows;
    to->cols = t.vector ? 1 : t.cols;
    to->dims = t.vector ? 1 : 2;
    to->decay = !t.vector;
    to->offset = l->parameters;
    to->elements = (size_t)t.rows * t.cols;
    l->start[l->tensors++] = start_of(b, &t);
    l->parameters += to->elements;
    if (t.expert == 0) b->at[t.role] = to->offset;
}

static layout_norm norm_at(const builder *b, model_role weight, model_role bias) {
    return (layout_norm){b->at[weight], b->at[bias]};
}

// Adjacent matrices, of which `weight` is the first; so are the biases.
static layout_linear linear_at(const builder *b, model_role weight, model_role bias, uint32_t in, uint32_t out) {
    return (layout_linear){.weight = b->at[weight],
                           .bias = b->at[bias],
                           .in = in,
                           .out = out,
                           .conv1d = model_row_of(b->config->arch)->transposed,
                           .has_bias = model_has(b->config, bias)};
}

static void build_attention(const builder *b, layout_block *k) {
    const model_config *c = b->config;
    uint32_t queries = c->heads * model_head_dim(c), keys = c->kv_heads * model_head_dim(c), all = queries + 2 * keys;
    if (model_has(c, ROLE_QKV))
        k->qkv = linear_at(b, ROLE_QKV, ROLE_QKV_BIAS, c->dim, all);
    else
        k->qkv = linear_at(b, ROLE_Q, ROLE_Q_BIAS, c->dim, all);
    k->o = linear_at(b, ROLE_O, ROLE_O_BIAS, queries, c->dim);
    k->q_norm = norm_at(b, ROLE_Q_NORM, ROLE_Q_NORM);
    k->k_norm = norm_at(b, ROLE_K_NORM, ROLE_K_NORM);
}

static void build_mlp(const builder *b, layout_block *k) {
    const model_config *c = b->config;
    uint32_t dim = c->dim, ffn = c->ffn_dim, narrow = c->expert_ffn_dim;
    if (model_row_of(c->arch)->mixture) {
        k->router = linear_at(b, ROLE_ROUTER, ROLE_UP_BIAS, dim, c->experts);
        k->expert_up = linear_at(b, ROLE_EXPERT_GATE, ROLE_UP_BIAS, dim, 2 * narrow);
        k->expert_down = linear_at(b, ROLE_EXPERT_DOWN, ROLE_DOWN_BIAS, narrow, dim);
        k->expert_floats = 3 * (size_t)dim * narrow;
        return;
    }
    if (model_has(c, ROLE_GATE))
        k->up = linear_at(b, ROLE_GATE, ROLE_GATE_BIAS, dim, 2 * ffn);
    else
        k->up = linear_at(b, ROLE_UP, ROLE_UP_BIAS, dim, ffn);
    k->down = linear_at(b, ROLE_DOWN, ROLE_DOWN_BIAS, ffn, dim);
}

static void build_block(builder *b, uint32_t layer, layout_block *k) {
    uint32_t each = model_tensors_per_block(b->config), first = model_tensors_before(b->config) + layer * each;
    k->first = b->out->parameters;
    for (uint32_t i = 0; i < each; i++) add_tensor(b, first + i);
    k->norm1 = norm_at(b, ROLE_NORM1, ROLE_NORM1_BIAS);
    k->norm2 = norm_at(b, ROLE_NORM2, ROLE_NORM2_BIAS);
    k->post1 = norm_at(b, ROLE_POST1, ROLE_POST1);
    k->post2 = norm_at(b, ROLE_POST2, ROLE_POST2);
    build_attention(b, k);
    build_mlp(b, k);
}

static void build_embeddings(builder *b) {
    for (uint32_t i = 0; i < model_tensors_before(b->config); i++) add_tensor(b, i);
    b->out->embedding = b->at[ROLE_EMBEDDING];
    b->out->positions = b->at[ROLE_POSITIONS];
}

static void build_head(builder *b) {
    const model_config *c = b->config;
    uint32_t first = model_tensors_before(c) + c->layers * model_tensors_per_block(c);
    for (uint32_t i = first; i < model_tensor_count(c); i++) add_tensor(b, i);
    b->out->norm = norm_at(b, ROLE_NORM, ROLE_NORM_BIAS);
    b->out->head = c->tied ? b->out->embedding : b->at[ROLE_HEAD];
}

braid_err layout_new(const model_config *config, const stage_shape *shape, layout *out, braid_error *error) {
    uint32_t blocks = shape->layer_end - shape->layer_begin, each = model_tensors_per_block(config);
    size_t most = model_tensor_count(config) - (size_t)(config->layers - blocks) * each;
    *out = (layout){.blocks = blocks};
    out->tensor = calloc(most, sizeof *out->tensor);
    out->start = calloc(most, sizeof *out->start);
    out->block = calloc(blocks ? blocks : 1, sizeof *out->block);
    if (!out->tensor || !out->start || !out->block) {
        layout_free(out);
        return braid_fail(error, BRAID_MEMORY, "no memory for the list of %zu tensors", most);
    }
    builder b = {.config = config, .out = out, .residual = deviation / sqrtf(2.0f * (float)config->layers)};
    if (shape->ends) build_embeddings(&b);
    for (uint32_t i = 0; i < blocks; i++) build_block(&b, shape->layer_begin + i, &out->block[i]);
    if (shape->ends) build_head(&b);
    return BRAID_OK;
}

void layout_free(layout *l) {
    free(l->tensor);
    free(l->start);
    free(l->block);
    *l = (layout){0};
}
