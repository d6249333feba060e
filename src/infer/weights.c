// The tensors of an engine's layers, found by name. Matrices stay in the form of their file;
// vectors become fp32, and matrices stored [in, out] are transposed once.
#include "infer/inside.h"

#include "tensor/sizes.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { REGION_BYTES = 16 << 20, LARGE_PAGE = 2 << 20 };

typedef struct loader {
    engine *e;
    const engine_source *source;
    braid_error *error;
    braid_err err;  // the first error
} loader;

const model_config *engine_config(const engine *e) { return &e->config; }

// A new region of memory for copies. Large pages make the first touch and the products of one row
// faster.
static bool region_new(engine *e, size_t least) {
    size_t bytes = size_up(least > REGION_BYTES ? least : REGION_BYTES, LARGE_PAGE);
    void **more = realloc(e->owned, (e->owned_count + 1) * sizeof *more);
    if (!more) return false;
    e->owned = more;
    void *region = aligned_alloc(LARGE_PAGE, bytes);
    if (!region) return false;
#ifdef MADV_HUGEPAGE
    madvise(region, bytes, MADV_HUGEPAGE);
#endif
    e->owned[e->owned_count++] = region;
    e->region_at = region;
    e->region_left = bytes;
    return true;
}

// Memory that the engine frees.
static void *own(loader *l, size_t bytes) {
    engine *e = l->e;
    bytes = size_up(bytes, INFER_ALIGNMENT);
    if (bytes > e->region_left && !region_new(e, bytes)) {
        l->err = braid_fail(l->error, BRAID_MEMORY, "no memory for this model's weights");
        return NULL;
    }
    void *memory = e->region_at;
    e->region_at += bytes;
    e->region_left -= bytes;
    e->owned_bytes += bytes;
    return memory;
}

// The file's bytes of a matrix that was copied.
static void release(const loader *l, const weight_matrix *w) {
    size_t bytes = weight_bytes(w->type, w->rows, w->cols);
    if (l->source->release) l->source->release(l->source->context, w->data, bytes);
}

static const model_file_tensor *find(loader *l, const model_tensor *t) {
    if (l->err) return NULL;
    const model_file_tensor *found = l->source->find(l->source->context, t->name);
    if (!found) {
        l->err = braid_fail(l->error, BRAID_FORMAT, "the model has no tensor '%s'", t->name);
        return NULL;
    }
    const weight_matrix *w = &found->weights;
    bool turned = found->transposed != t->transposed;
    size_t rows = turned ? t->cols : t->rows, cols = turned ? t->rows : t->cols;
    if (found->vector != t->vector || w->rows != rows || w->cols != cols) {
        l->err = braid_fail(l->error, BRAID_FORMAT, "tensor '%s' is %zu x %zu; this model needs %zu x %zu", t->name,
                            w->rows, w->cols, rows, cols);
        return NULL;
    }
    return found;
}

static const float *vector_of(loader *l, const model_tensor *t) {
    const model_file_tensor *found = find(l, t);
    float *values = found ? own(l, found->weights.cols * sizeof *values) : NULL;
    if (values) weight_rows(&found->weights, 0, 1, values);
    return values;
}

static const float *norm_vector(loader *l, const model_tensor *t) {
    float *values = (float *)vector_of(l, t);
    if (values && l->e->row->norm_plus_one)
        for (uint32_t i = 0; i < t->cols; i++) values[i] += 1;
    return values;
}

// to[cols, rows] = from[rows, cols] of numbers of `size` bytes.
static void transpose(const unsigned char *from, unsigned char *to, size_t rows, size_t cols, size_t size) {
    enum { TILE = 32 };
    for (size_t first = 0; first < rows; first += TILE)
        for (size_t c = 0; c < cols; c++)
            for (size_t r = first; r < rows && r < first + TILE; r++)
                memcpy(to + (c * rows + r) * size, from + (r * cols + c) * size, size);
}

static void matrix_of(loader *l, const model_tensor *t, engine_matrix *out) {
    const model_file_tensor *found = find(l, t);
    if (!found) return;
    out->w = found->weights;
    out->pairs = found->rope_pairs;
    if (!found->transposed) return;
    size_t elements = out->w.rows * out->w.cols;
    if (weight_block_elements(out->w.type) != 1) {
        l->err = braid_fail(l->error, BRAID_FORMAT,
                            "tensor '%s' is stored [in, out] in blocks, which no program writes", t->name);
        return;
    }
    unsigned char *turned = own(l, elements * weight_block_bytes(out->w.type));
    if (!turned) return;
    transpose(out->w.data, turned, out->w.rows, out->w.cols, weight_block_bytes(out->w.type));
    release(l, &out->w);
    out->w = (weight_matrix){out->w.type, out->w.cols, out->w.rows, turned};
}

// Rows [first, first + count) of a matrix, with their bias.
static engine_matrix some_rows(const engine_matrix *m, size_t first, size_t count) {
    engine_matrix part = *m;
    part.w.rows = count;
    part.w.data = (const unsigned char *)m->w.data + first * weight_row_bytes(m->w.type, m->w.cols);
    if (m->bias) part.bias = m->bias + first;
    return part;
}

// Converts a matrix to fp32: the rows of mixed8 cannot be separated.
static void widen(loader *l, engine_matrix *m) {
    float *values = own(l, m->w.rows * m->w.cols * sizeof *values);
    if (!values) return;
    weight_rows(&m->w, 0, m->w.rows, values);
    m->w = (weight_matrix){WEIGHT_F32, m->w.rows, m->w.cols, values};
}

// Queries, keys and values of a model that has them in one matrix. The bias is the next tensor.
static void split_qkv(loader *l, engine_matrix *all, engine_block *b) {
    const engine *e = l->e;
    if (all->w.type == WEIGHT_MIXED8) widen(l, all);
    size_t queries = e->config.heads * e->width, keys = e->config.kv_heads * e->width;
    b->q = some_rows(all, 0, queries);
    b->k = some_rows(all, queries, keys);
    b->v = some_rows(all, queries + keys, keys);
}

static void load_expert(loader *l, const model_tensor *t, engine_block *b) {
    engine_mlp *expert = &b->experts[t->expert];
    matrix_of(l, t,
              t->role == ROLE_EXPERT_GATE ? &expert->gate
              : t->role == ROLE_EXPERT_UP ? &expert->up
                                          : &expert->down);
}

static void load_in_block(loader *l, const model_tensor *t, engine_block *b, engine_matrix *qkv) {
    switch (t->role) {
    case ROLE_NORM1: b->norm1.weight = norm_vector(l, t); break;
    case ROLE_NORM1_BIAS: b->norm1.bias = vector_of(l, t); break;
    case ROLE_NORM2: b->norm2.weight = norm_vector(l, t); break;
    case ROLE_NORM2_BIAS: b->norm2.bias = vector_of(l, t); break;
    case ROLE_POST1: b->post1.weight = norm_vector(l, t); break;
    case ROLE_POST2: b->post2.weight = norm_vector(l, t); break;
    case ROLE_Q_NORM: b->q_norm = norm_vector(l, t); break;
    case ROLE_K_NORM: b->k_norm = norm_vector(l, t); break;
    case ROLE_QKV: matrix_of(l, t, qkv); break;
    case ROLE_QKV_BIAS: qkv->bias = vector_of(l, t); break;
    case ROLE_Q: matrix_of(l, t, &b->q); break;
    case ROLE_K: matrix_of(l, t, &b->k); break;
    case ROLE_V: matrix_of(l, t, &b->v); break;
    case ROLE_Q_BIAS: b->q.bias = vector_of(l, t); break;
    case ROLE_K_BIAS: b->k.bias = vector_of(l, t); break;
    case ROLE_V_BIAS: b->v.bias = vector_of(l, t); break;
    case ROLE_O: matrix_of(l, t, &b->o); break;
    case ROLE_O_BIAS: b->o.bias = vector_of(l, t); break;
    case ROLE_ROUTER: matrix_of(l, t, &b->router); break;
    case ROLE_EXPERT_GATE:
    case ROLE_EXPERT_UP:
    case ROLE_EXPERT_DOWN: load_expert(l, t, b); break;
    case ROLE_GATE: matrix_of(l, t, &b->mlp.gate); break;
    case ROLE_UP: matrix_of(l, t, &b->mlp.up); break;
    case ROLE_DOWN: matrix_of(l, t, &b->mlp.down); break;
    case ROLE_GATE_BIAS: b->mlp.gate.bias = vector_of(l, t); break;
    case ROLE_UP_BIAS: b->mlp.up.bias = vector_of(l, t); break;
    case ROLE_DOWN_BIAS: b->mlp.down.bias = vector_of(l, t); break;
    default: break;
    }
}

static const float *positions_of(loader *l, const model_tensor *t) {
    const model_file_tensor *found = find(l, t);
    float *values = found ? own(l, found->weights.rows * found->weights.cols * sizeof *values) : NULL;
    if (values) weight_rows(&found->weights, 0, found->weights.rows, values);
    return values;
}

static void load_end(loader *l, const model_tensor *t) {
    engine *e = l->e;
    switch (t->role) {
    case ROLE_EMBEDDING: matrix_of(l, t, &e->embedding); break;
    case ROLE_POSITIONS: e->positions = positions_of(l, t); break;
    case ROLE_NORM: e->norm.weight = norm_vector(l, t); break;
    case ROLE_NORM_BIAS: e->norm.bias = vector_of(l, t); break;
    case ROLE_HEAD: matrix_of(l, t, &e->head); break;
    default: break;
    }
}

// As Q8_0, a few rows at a time.
static void narrow(loader *l, engine_matrix *m) {
    enum { BLOCK = 32 };
    size_t row_bytes = weight_row_bytes(WEIGHT_Q8_0, m->w.cols);
    if (weight_block_elements(m->w.type) != 1 || m->w.type == WEIGHT_MIXED8 || m->w.cols % BLOCK) return;
    unsigned char *blocks = own(l, m->w.rows * row_bytes);
    float *row = blocks ? malloc(m->w.cols * sizeof *row) : NULL;
    if (blocks && !row) l->err = braid_fail(l->error, BRAID_MEMORY, "no memory for this model's weights");
    for (size_t r = 0; r < m->w.rows && row; r++) {
        weight_rows(&m->w, r, 1, row);
        weight_pack(WEIGHT_Q8_0, row, m->w.cols, blocks + r * row_bytes);
    }
    if (row) release(l, &m->w);
    if (row) m->w = (weight_matrix){WEIGHT_Q8_0, m->w.rows, m->w.cols, blocks};
    free(row);
}

// The matrices of which an adapter may have a part.
static void set_slots(const engine *e, uint32_t layer, engine_block *b) {
    engine_matrix *adapted[ADAPTED_KINDS] = {
        [ADAPTED_Q] = &b->q,           [ADAPTED_K] = &b->k,       [ADAPTED_V] = &b->v,          [ADAPTED_O] = &b->o,
        [ADAPTED_GATE] = &b->mlp.gate, [ADAPTED_UP] = &b->mlp.up, [ADAPTED_DOWN] = &b->mlp.down};
    for (int i = 0; i < ADAPTED_KINDS; i++) adapted[i]->slot = adapted_slot(e, layer, (adapted_kind)i);
}

// Products with rounded activations need matrices in their kernels' order.
static void prepare(loader *l, engine_matrix *m) {
    const engine *e = l->e;
    if (e->narrow && m->w.rows > 0 && !l->err) narrow(l, m);
    if (m->w.rows == 0 || l->err || (e->exact && weight_block_elements(m->w.type) > 1)) return;
    if (!tensor_quantised_fits(m->w.type, m->w.cols)) return;
    size_t bytes = tensor_quantised_bytes(&m->w);
    void *copy = bytes ? own(l, bytes) : NULL;
    if (bytes && !copy) return;
    tensor_quantised_prepare(e->pool, &m->w, copy, &m->prepared);
    if (copy) release(l, &m->w);
    m->fits = true;
}

static void prepare_mlp(loader *l, engine_mlp *m) {
    prepare(l, &m->gate);
    prepare(l, &m->up);
    prepare(l, &m->down);
}

static void prepare_block(loader *l, engine_block *b) {
    engine_matrix *attention[] = {&b->q, &b->k, &b->v, &b->o, &b->router};
    for (size_t i = 0; i < sizeof attention / sizeof *attention; i++) prepare(l, attention[i]);
    if (!b->experts) prepare_mlp(l, &b->mlp);
    for (uint32_t i = 0; i < l->e->config.experts && b->experts; i++) prepare_mlp(l, &b->experts[i]);
}

static void load_block(loader *l, uint32_t layer) {
    engine *e = l->e;
    const model_config *c = &e->config;
    engine_block *b = &e->blocks[layer - e->layer_begin];
    engine_matrix qkv = {0};
    uint32_t each = model_tensors_per_block(c), first = model_tensors_before(c) + layer * each;
    if (e->row->mixture && !(b->experts = calloc(c->experts, sizeof *b->experts)))
        l->err = braid_fail(l->error, BRAID_MEMORY, "no memory for this model's %u experts", c->experts);
    for (uint32_t i = 0; i < each && !l->err; i++) {
        model_tensor t;
        model_tensor_at(c, first + i, &t);
        load_in_block(l, &t, b, &qkv);
    }
    if (qkv.w.rows && !l->err) split_qkv(l, &qkv, b);
    prepare_block(l, b);
    set_slots(e, layer, b);
}

static void load_ends(loader *l) {
    const model_config *c = &l->e->config;
    uint32_t before = model_tensors_before(c), after = before + c->layers * model_tensors_per_block(c);
    for (uint32_t i = 0; i < model_tensor_count(c) && !l->err; i++) {
        if (i >= before && i < after) continue;
        model_tensor t;
        model_tensor_at(c, i, &t);
        load_end(l, &t);
    }
    if (c->tied) l->e->head = l->e->embedding;
    prepare(l, &l->e->head);
    // a tied head that is multiplied in place keeps the memory
    bool in_place = !l->e->head.fits || l->e->head.prepared.at == l->e->embedding.w.data;
    l->e->release = (engine_release){c->tied && in_place ? NULL : l->source->release, l->source->context};
}

braid_err engine_load(engine *e, const engine_source *source, braid_error *error) {
    loader l = {.e = e, .source = source, .error = error};
    e->blocks = calloc(e->layer_end - e->layer_begin + 1, sizeof *e->blocks);
    if (!e->blocks) return braid_fail(error, BRAID_MEMORY, "no memory for this model's layers");
    // the largest matrix first: while it is copied it is in memory twice
    if (e->ends) load_ends(&l);
    for (uint32_t i = e->layer_begin; i < e->layer_end && !l.err; i++) load_block(&l, i);
    return l.err;
}

void engine_unload(engine *e) {
    for (uint32_t i = 0; e->blocks && i < e->layer_end - e->layer_begin; i++) free(e->blocks[i].experts);
    free(e->blocks);
    for (size_t i = 0; i < e->owned_count; i++) free(e->owned[i]);
    free(e->owned);
}
