#include "infer/inside.h"

#include "tensor/gemm.h"
#include "tensor/sizes.h"

#include <stdlib.h>
#include <string.h>

enum { FEW_ROWS = 8 };  // this many run on the calling thread

// A and s B of one matrix, in the adapter's memory.
typedef struct low_rank {
    const float *a, *b;  // [rank, in], [out, rank]; NULL: not adapted
    size_t in, out;
} low_rank;

struct engine_adapter {
    size_t rank, bytes;
    float *memory;
    low_rank *matrix;  // [slots]
};

static uint32_t slots_of(const engine *e) { return 1 + (e->layer_end - e->layer_begin) * ADAPTED_KINDS; }

uint32_t adapted_slot(const engine *e, uint32_t layer, adapted_kind kind) {
    return 1 + (layer - e->layer_begin) * ADAPTED_KINDS + kind;
}

static bool in_engine(const engine *e, const peft_matrix *m) {
    return m->layer >= e->layer_begin && m->layer < e->layer_end;
}

// ---- copies

static adapted_kind kind_of(model_role role) {
    switch (role) {
    case ROLE_K: return ADAPTED_K;
    case ROLE_V: return ADAPTED_V;
    case ROLE_O: return ADAPTED_O;
    case ROLE_GATE: return ADAPTED_GATE;
    case ROLE_UP: return ADAPTED_UP;
    case ROLE_DOWN: return ADAPTED_DOWN;
    default: return ADAPTED_Q;
    }
}

// The row of Hugging Face's order at row `row` of GGUF's (weights/model_file.h).
static size_t row_in_pairs(size_t row, size_t width) {
    size_t head = row / width, i = row % width;
    return head * width + i / 2 + i % 2 * (width / 2);
}

static void copy_b(const engine *e, const peft_matrix *m, size_t first, size_t count, bool pairs, float *to) {
    for (size_t r = 0; r < count; r++) {
        const float *from = m->b + (first + (pairs ? row_in_pairs(r, e->width) : r)) * m->rank;
        for (size_t k = 0; k < m->rank; k++) *to++ = m->scale * from[k];
    }
}

// Rows [first, first + count) of an adapted matrix are one matrix of the engine.
static void set_matrix(const engine *e, const peft_matrix *m, adapted_kind kind, size_t first, size_t count,
                       const float *a, float *b, low_rank *all) {
    const engine_block *block = &e->blocks[m->layer - e->layer_begin];
    bool pairs = (kind == ADAPTED_Q && block->q.pairs) || (kind == ADAPTED_K && block->k.pairs);
    copy_b(e, m, first, count, pairs, b);
    all[adapted_slot(e, m->layer, kind)] = (low_rank){a, b, m->in, count};
}

static size_t elements_of(const peft_matrix *m) { return ((size_t)m->in + m->out) * m->rank; }

static void copy_matrix(const engine *e, const peft_matrix *m, float *at, low_rank *all) {
    float *b = at + (size_t)m->rank * m->in;
    memcpy(at, m->a, (size_t)m->rank * m->in * sizeof *at);
    if (m->role != ROLE_QKV) {
        set_matrix(e, m, kind_of(m->role), 0, m->out, at, b, all);
        return;
    }
    size_t queries = e->config.heads * e->width, keys = e->config.kv_heads * e->width;
    set_matrix(e, m, ADAPTED_Q, 0, queries, at, b, all);
    set_matrix(e, m, ADAPTED_K, queries, keys, at, b + queries * m->rank, all);
    set_matrix(e, m, ADAPTED_V, queries + keys, keys, at, b + (queries + keys) * m->rank, all);
}

braid_err engine_adapter_new(const engine *e, const peft_adapter *p, engine_adapter **out, braid_error *error) {
    size_t elements = 0;
    for (uint32_t i = 0; i < p->count; i++)
        if (in_engine(e, &p->matrix[i])) elements += elements_of(&p->matrix[i]);
    engine_adapter *a = *out = calloc(1, sizeof *a);
    if (a) {
        a->rank = p->rank;
        a->bytes = elements * sizeof(float);
        a->memory = malloc(a->bytes + 1);
        a->matrix = calloc(slots_of(e), sizeof *a->matrix);
    }
    if (!a || !a->memory || !a->matrix) {
        engine_adapter_free(a);
        *out = NULL;
        return braid_fail(error, BRAID_MEMORY, "no memory for an adapter of %zu numbers", elements);
    }
    float *at = a->memory;
    for (uint32_t i = 0; i < p->count; i++) {
        if (!in_engine(e, &p->matrix[i])) continue;
        copy_matrix(e, &p->matrix[i], at, a->matrix);
        at += elements_of(&p->matrix[i]);
    }
    return BRAID_OK;
}

void engine_adapter_free(engine_adapter *a) {
    if (!a) return;
    free(a->memory);
    free(a->matrix);
    free(a);
}

size_t engine_adapter_bytes(const engine_adapter *a) { return a->bytes; }

void sequence_set_adapter(sequence *s, const engine_adapter *a) {
    BRAID_ASSERT(s->length == 0);
    s->adapter = a;
}

const engine_adapter *sequence_adapter(const sequence *s) { return s->adapter; }

// ---- products

braid_err adapters_reserve(engine *e, const engine_adapter *a, size_t rows, braid_error *error) {
    engine_memory *m = &e->adapting.narrow;
    size_t bytes = a ? size_up(rows * a->rank * sizeof(float), INFER_ALIGNMENT) : 0;
    if (bytes <= m->bytes) return BRAID_OK;
    return memory_grow(m, bytes) ? BRAID_OK
                                 : braid_fail(error, BRAID_MEMORY, "no memory for an adapter of rank %zu", a->rank);
}

void adapters_begin(engine *e) { e->adapting.count = 0; }

void adapters_add(engine *e, const engine_adapter *a, size_t rows) {
    engine_adapting *at = &e->adapting;
    adapted_rows *last = at->count > 0 ? &at->rows[at->count - 1] : NULL;
    if (last && last->adapter == a)
        last->count += rows;
    else
        at->rows[at->count++] = (adapted_rows){a, rows};
}

static void multiply(engine *e, const tensor_gemm *g) {
    if (g->m <= FEW_ROWS)
        tensor_gemm_tile(g);
    else
        tensor_gemm_run(e->pool, g);
}

// y += (x A^T) (s B)^T
static void add_low_rank(engine *e, const low_rank *m, size_t rank, const float *x, size_t rows, float *y,
                         size_t stride) {
    float *narrow = e->adapting.narrow.at;
    tensor_gemm g = {.m = rows,
                     .n = rank,
                     .k = m->in,
                     .a = tensor_plain(x, m->in),
                     .b = tensor_transposed(m->a, m->in),
                     .c = narrow,
                     .c_stride = rank};
    multiply(e, &g);
    g = (tensor_gemm){.m = rows,
                      .n = m->out,
                      .k = rank,
                      .a = tensor_plain(narrow, rank),
                      .b = tensor_transposed(m->b, rank),
                      .c = y,
                      .c_stride = stride,
                      .mode = GEMM_ADD};
    multiply(e, &g);
}

void adapters_run(engine *e, const float *x, const engine_product *p) {
    const engine_adapting *at = &e->adapting;
    size_t first = 0, cols = p->matrix->w.cols;
    if (p->matrix->slot == 0) return;
    for (size_t i = 0; i < at->count; first += at->rows[i++].count) {
        const engine_adapter *a = at->rows[i].adapter;
        const low_rank *m = a ? &a->matrix[p->matrix->slot] : NULL;
        if (!m || !m->a) continue;
        add_low_rank(e, m, a->rank, x + first * cols, at->rows[i].count, p->y + first * p->stride, p->stride);
    }
}
