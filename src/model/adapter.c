#include "model/adapter.h"

#include "model/stage_inner.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// The place of an adapted matrix in the computation: some columns of a product's output.
typedef struct adapted {
    uint8_t source;  // tile_source
    uint32_t block;
    size_t column, width;  // first output, and outputs of the whole product
} adapted;

struct adapter {
    stage *s;
    adapter_config config;
    float scale;
    uint32_t count;
    adapter_tensor *tensor;
    adapted *place;
    size_t parameters;
    float *narrow[2];          // [rows, rank] products with A and B
    float *scaled, *gradient;  // [widest, rank]
    size_t widest;
    size_t work_bytes;  // of these four
};

bool adapter_may_target(model_role role) {
    switch (role) {
    case ROLE_QKV:
    case ROLE_Q:
    case ROLE_K:
    case ROLE_V:
    case ROLE_O:
    case ROLE_GATE:
    case ROLE_UP:
    case ROLE_DOWN: return true;
    default: return false;
    }
}

float adapter_scale(float alpha, uint32_t rank, bool rank_stabilised) {
    return rank_stabilised ? alpha / sqrtf((float)rank) : alpha / (float)rank;
}

static adapted place_of(const stage *s, model_role role, uint32_t block) {
    size_t keys = (s->qkv_dim - s->q_dim) / 2;
    switch (role) {
    case ROLE_K: return (adapted){SOURCE_QKV, block, s->q_dim, s->qkv_dim};
    case ROLE_V: return (adapted){SOURCE_QKV, block, s->q_dim + keys, s->qkv_dim};
    case ROLE_O: return (adapted){SOURCE_O, block, 0, s->config.dim};
    case ROLE_GATE: return (adapted){SOURCE_UP, block, 0, s->up_dim};
    case ROLE_UP: return (adapted){SOURCE_UP, block, s->up_dim - s->act_dim, s->up_dim};
    case ROLE_DOWN: return (adapted){SOURCE_DOWN, block, 0, s->config.dim};
    default: return (adapted){SOURCE_QKV, block, 0, s->qkv_dim};
    }
}

static bool is_target(const adapter *a, const model_tensor *t) {
    return adapter_may_target(t->role) && (a->config.roles >> t->role & 1) != 0;
}

static void list_targets(adapter *a) {
    const stage *s = a->s;
    for (uint32_t i = 0; i < s->layout.tensors; i++) {
        model_tensor t;
        model_tensor_at(&s->config, s->layout.tensor[i].canonical, &t);
        if (!is_target(a, &t)) continue;
        adapter_tensor *to = &a->tensor[a->count];
        *to = (adapter_tensor){.tensor = i, .in = t.cols, .out = t.rows, .a = a->parameters};
        if (t.transposed) to->in = t.rows;
        if (t.transposed) to->out = t.cols;
        to->b = to->a + (size_t)to->in * a->config.rank;
        a->parameters = to->b + (size_t)to->out * a->config.rank;
        a->place[a->count++] = place_of(s, t.role, t.layer - s->shape.layer_begin);
    }
}

static braid_err check(const stage *s, const adapter_config *c, braid_error *error) {
    if (c->rank < 1 || c->rank > ADAPTER_MAX_RANK)
        return braid_fail(error, BRAID_CONFIG, "adapter: a rank of %u; give one from 1 to %d", c->rank,
                          ADAPTER_MAX_RANK);
    if (!isfinite(c->alpha)) return braid_fail(error, BRAID_CONFIG, "adapter: alpha is not a finite number");
    for (uint32_t role = 0; role < MODEL_ROLES; role++) {
        if ((c->roles >> role & 1) == 0) continue;
        if (!adapter_may_target((model_role)role) || !model_has(&s->config, (model_role)role))
            return braid_fail(error, BRAID_CONFIG,
                              "adapter: the model has no such matrix, or it cannot be adapted; name projections of "
                              "attention or of the MLP");
    }
    return c->roles ? BRAID_OK : braid_fail(error, BRAID_CONFIG, "adapter: no matrix is named");
}

static braid_err reserve(adapter *a, braid_error *error) {
    size_t widest = 0, rank = a->config.rank;
    for (uint32_t i = 0; i < a->count; i++) {
        const adapter_tensor *t = &a->tensor[i];
        if (t->in > widest) widest = t->in;
        if (t->out > widest) widest = t->out;
    }
    a->widest = widest;
    a->work_bytes = 2 * (a->s->rows * rank + widest * rank + 1) * sizeof(float);
    for (int i = 0; i < 2; i++) a->narrow[i] = calloc(a->s->rows * rank, sizeof(float));
    a->scaled = calloc(widest * rank + 1, sizeof(float));
    a->gradient = calloc(widest * rank + 1, sizeof(float));
    if (a->narrow[0] && a->narrow[1] && a->scaled && a->gradient) return BRAID_OK;
    return braid_fail(error, BRAID_MEMORY, "no memory for an adapter of rank %u", a->config.rank);
}

braid_err adapter_new(stage *s, const adapter_config *config, adapter **out, braid_error *error) {
    *out = NULL;
    braid_err err = check(s, config, error);
    if (err) return err;
    adapter *a = calloc(1, sizeof *a);
    if (!a) return braid_fail(error, BRAID_MEMORY, "no memory for an adapter");
    a->s = s;
    a->config = *config;
    a->scale = adapter_scale(config->alpha, config->rank, config->rank_stabilised);
    a->tensor = calloc(s->layout.tensors + 1, sizeof *a->tensor);
    a->place = calloc(s->layout.tensors + 1, sizeof *a->place);
    if (a->tensor && a->place) {
        list_targets(a);
        err = reserve(a, error);
    } else {
        err = braid_fail(error, BRAID_MEMORY, "no memory for an adapter's list of matrices");
    }
    if (err)
        adapter_free(a);
    else
        *out = a;
    return err;
}

void adapter_free(adapter *a) {
    if (!a) return;
    free(a->tensor);
    free(a->place);
    free(a->narrow[0]);
    free(a->narrow[1]);
    free(a->scaled);
    free(a->gradient);
    free(a);
}

void adapter_wipe(adapter *a) {
    size_t rank = a->config.rank;
    for (int i = 0; i < 2; i++) memset(a->narrow[i], 0, a->s->rows * rank * sizeof(float));
    memset(a->scaled, 0, a->widest * rank * sizeof(float));
    memset(a->gradient, 0, a->widest * rank * sizeof(float));
}

size_t adapter_parameters(const adapter *a) { return a->parameters; }
size_t adapter_work_bytes(const adapter *a) { return a->work_bytes; }
uint32_t adapter_tensor_count(const adapter *a) { return a->count; }
const adapter_tensor *adapter_tensors(const adapter *a) { return a->tensor; }
const char *adapter_tensor_name(const adapter *a, uint32_t i) { return a->s->layout.tensor[a->tensor[i].tensor].name; }

static void scale_by(float factor, const float *from, size_t count, float *to) {
    for (size_t i = 0; i < count; i++) to[i] = factor * from[i];
}

static void merge_one(const adapter *a, const adapter_tensor *t, const float *base, const float *parameters,
                      float *merged) {
    const stage_tensor *w = &a->s->layout.tensor[t->tensor];
    size_t rank = a->config.rank;
    scale_by(a->scale, parameters + t->b, (size_t)t->out * rank, a->scaled);
    tensor_gemm g = {.k = rank, .c = merged + w->offset, .mode = GEMM_ADD, .more = base + w->offset};
    if (a->s->row->transposed) {  // W[in, out]
        g.a = tensor_transposed(parameters + t->a, t->in);
        g.b = tensor_transposed(a->scaled, rank);
        g.m = t->in;
        g.n = t->out;
    } else {
        g.a = tensor_plain(a->scaled, rank);
        g.b = tensor_plain(parameters + t->a, t->in);
        g.m = t->out;
        g.n = t->in;
    }
    g.c_stride = g.n;
    tensor_gemm_run(a->s->pool, &g);
}

void adapter_merge(const adapter *a, const float *base, const float *parameters, bool all, float *merged) {
    if (all) memcpy(merged, base, a->s->layout.parameters * sizeof *merged);
    for (uint32_t i = 0; i < a->count; i++) merge_one(a, &a->tensor[i], base, parameters, merged);
}

// c[m, n] = left^T right, times the scale, to the sink; k rows of the microbatch.
static void pass_gradient(const adapter *a, tensor_matrix left, tensor_matrix right, size_t m, size_t n, size_t offset,
                          const stage_sink *sink) {
    tensor_gemm g = {.m = m, .n = n, .k = a->s->rows, .a = left, .b = right, .c = a->gradient, .c_stride = n};
    tensor_gemm_run(a->s->pool, &g);
    scale_by(a->scale, a->gradient, m * n, a->gradient);
    sink->take(sink->context, offset, a->gradient, m * n);
}

// dB = s dy^T (x A^T), dA = s (dy B)^T x.
static void gradient_of(adapter *a, uint32_t i, const stash_view *v, const float *parameters, const stage_sink *sink) {
    const adapter_tensor *t = &a->tensor[i];
    const adapted *at = &a->place[i];
    stage_operands o = stage_linear_operands(a->s, v, at->block, (tile_source)at->source);
    const float *dy = o.dy + at->column;
    size_t rank = a->config.rank;
    tensor_gemm g = {.m = o.rows, .n = rank, .c_stride = rank};
    g.k = t->in;
    g.a = tensor_plain(o.x, t->in);
    g.b = tensor_transposed(parameters + t->a, t->in);
    g.c = a->narrow[0];
    tensor_gemm_run(a->s->pool, &g);
    g.k = t->out;
    g.a = tensor_plain(dy, at->width);
    g.b = tensor_plain(parameters + t->b, rank);
    g.c = a->narrow[1];
    tensor_gemm_run(a->s->pool, &g);
    pass_gradient(a, tensor_transposed(a->narrow[1], rank), tensor_plain(o.x, t->in), rank, t->in, t->a, sink);
    pass_gradient(a, tensor_transposed(dy, at->width), tensor_plain(a->narrow[0], rank), t->out, rank, t->b, sink);
}

void adapter_gradient(adapter *a, void *stash, const float *parameters, const stage_sink *sink) {
    stash_view v = stage_open_gradients(a->s, stash);
    for (uint32_t i = 0; i < a->count; i++) gradient_of(a, i, &v, parameters, sink);
    v.header->phase = PHASE_EMPTY;
}
