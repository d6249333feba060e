// Shared by the files of src/infer that compute.
#ifndef BRAID_INFER_INSIDE_H
#define BRAID_INFER_INSIDE_H

#include "infer/adapters.h"
#include "infer/engine.h"
#include "model/rows.h"
#include "tensor/cache.h"
#include "tensor/quantised.h"

#include <stdlib.h>

enum { INFER_ALIGNMENT = 64 };

// y = x W^T + bias, W[out, in].
typedef struct engine_matrix {
    weight_matrix w;            // rows 0: there is no such matrix
    tensor_quantised prepared;  // of w, if `fits`
    bool fits;
    const float *bias;  // [out] or NULL
    uint32_t slot;      // adapted_slot; 0: never adapted
    bool pairs;         // outputs are in GGUF's order of LLaMA's queries and keys (weights/model_file.h)
} engine_matrix;

typedef struct engine_norm {
    const float *weight, *bias;  // weight NULL: there is no such norm
} engine_norm;

// Gate, up and down of one MLP, or of one expert. Without a gate: down(activation(up)).
typedef struct engine_mlp {
    engine_matrix gate, up, down;
} engine_mlp;

typedef struct engine_block {
    engine_norm norm1, norm2, post1, post2;
    const float *q_norm, *k_norm;  // [head_dim] or NULL
    engine_matrix q, k, v, o, router;
    engine_mlp mlp;
    engine_mlp *experts;  // [config.experts] or NULL
} engine_block;

// Cosines and sines of the rotation, extended as texts grow. There are two where windowed layers
// have a base of their own.
typedef struct engine_rotation {
    double *rates;  // [head_dim / 2], radians per position
    double scale;   // of cosines and sines
    float *tables;  // [capacity, cosines then sines]
    uint32_t positions, capacity;
} engine_rotation;

struct sequence {
    engine *engine;
    uint32_t length;      // positions
    uint32_t begin, end;  // layers through which its rows pass
    uint32_t page_count, page_capacity;
    cache_page **pages;  // [page_count], of the first page_count * CACHE_PAGE positions
    const engine_adapter *adapter;
};

typedef struct engine_memory {
    void *at;
    size_t bytes;
} engine_memory;

// Replaces memory by more, aligned, without its content.
static inline bool memory_grow(engine_memory *m, size_t bytes) {
    free(m->at);
    m->at = aligned_alloc(INFER_ALIGNMENT, bytes);
    m->bytes = m->at ? bytes : 0;
    return m->at != NULL;
}

// The adapter of consecutive rows; NULL: none.
typedef struct adapted_rows {
    const engine_adapter *adapter;
    size_t count;
} adapted_rows;

typedef struct engine_adapting {
    adapted_rows rows[ENGINE_CHUNK_ROWS];  // of the chunk under way, in order
    size_t count;
    engine_memory narrow;  // [rows, rank] products with A
} engine_adapting;

// Memory of one call; grows with the largest chunk so far.
typedef struct engine_scratch {
    float *memory;
    size_t bytes, rows;
    float *x, *normed, *queries, *keys, *values, *attention, *added, *up, *act;
    float *router, *shares, *expert_in, *expert_out;  // of a mixture
    float *statistics;                                // of norms
    uint32_t *chosen;                                 // [rows, experts_used]
} engine_scratch;

// Of a source; `call` is NULL where nothing is to be released.
typedef struct engine_release {
    void (*call)(const void *context, const void *at, size_t bytes);
    const void *context;
} engine_release;

struct engine {
    model_config config;
    const model_row *row;
    tensor_pool *pool;
    uint32_t layer_begin, layer_end, context;
    bool ends, exact, half_cache, narrow;
    size_t width;          // of a head
    engine_block *blocks;  // [layer_end - layer_begin]
    engine_matrix embedding, head;
    engine_release release;  // for the embedding: the system maps more than the rows that are read
    engine_norm norm;
    const float *positions;  // [context, dim] or NULL
    void **owned;            // regions with converted tensors
    size_t owned_count, owned_bytes;
    unsigned char *region_at;  // free bytes of the last region
    size_t region_left;
    engine_rotation rotation[2];  // of full layers and of layers with a window
    engine_scratch scratch;
    engine_memory product_scratch, attention_scratch;
    engine_adapting adapting;
    size_t pages_used, page_limit, pages_only_kept;  // page_limit 0: none
    cache_page *free_pages;
};

// --- weights.c
braid_err engine_load(engine *e, const engine_source *source, braid_error *error);
void engine_unload(engine *e);

// --- rotation.c
braid_err rotation_new(engine *e, braid_error *error);
void rotation_free(engine *e);
// Extends the tables to at least this many positions.
braid_err rotation_reach(engine *e, uint32_t positions, braid_error *error);
// to[head_dim] = from[head_dim], rotated to a position of layer `layer`; a copy where the layer has
// no rotation. `pairs`: elements 2i and 2i + 1 of `from` become i and i + head_dim / 2. The arrays
// do not overlap.
void rotation_apply(const engine *e, uint32_t layer, uint32_t position, bool pairs, const float *from, float *to);

// --- cache.c
// Room for the next `tokens` tokens of a sequence.
braid_err cache_reserve(sequence *s, uint32_t tokens, braid_error *error);
// The cache of one layer, valid until the sequence gets other pages.
tensor_cache cache_layer(const sequence *s, uint32_t layer);
// At the end: the free pages.
void cache_free_all(engine *e);

// --- product.c
typedef struct engine_product {
    const engine_matrix *matrix;
    float *y;  // [rows, out], rows `stride` apart
    size_t stride;
} engine_product;

// Scratch memory for products of this matrix with `rows` rows.
braid_err product_reserve(engine *e, const engine_matrix *m, size_t rows, braid_error *error);
// y = x W^T + bias for each of `count` <= 3 matrices with the same input x[rows, in].
void product_run(engine *e, const float *x, size_t rows, const engine_product *products, size_t count);

// --- adapters.c
typedef enum adapted_kind {
    ADAPTED_Q,
    ADAPTED_K,
    ADAPTED_V,
    ADAPTED_O,
    ADAPTED_GATE,
    ADAPTED_UP,
    ADAPTED_DOWN,
    ADAPTED_KINDS
} adapted_kind;
uint32_t adapted_slot(const engine *e, uint32_t layer, adapted_kind kind);
// Scratch memory for `rows` rows of a chunk.
braid_err adapters_reserve(engine *e, const engine_adapter *a, size_t rows, braid_error *error);
// The rows of the next chunk, in order.
void adapters_begin(engine *e);
void adapters_add(engine *e, const engine_adapter *a, size_t rows);
// Adds the adapters' part to a finished product of the chunk's rows.
void adapters_run(engine *e, const float *x, const engine_product *p);

// --- mlp.c
// y[rows, dim] = the MLP or the mixture of a block.
void mlp_run(engine *e, const engine_block *b, const float *x, size_t rows, float *y);

#endif
