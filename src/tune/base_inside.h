// Shared by the files of a frozen base.
#ifndef BRAID_TUNE_BASE_INSIDE_H
#define BRAID_TUNE_BASE_INSIDE_H

#include "tune/base.h"

enum { BASE_ALIGNMENT = 64, BASE_KINDS = 4, BASE_HEAD_ROWS = 512 };

// Layers that compute alike: with or without a window, with or without rotation. Each kind has one
// stage of one layer.
typedef struct base_kind {
    stage *stage;
    adapter *adapter;
    uint32_t layer;  // that the stage was made for
} base_kind;

struct tune_base {
    tune_base_config config;
    const model_config *model;
    base_kind kinds[BASE_KINDS];      // stage NULL: no layer is of the kind
    size_t rows, dim, layer_adapter;  // layer_adapter: parameters of one layer's adapter
    float *weights, *merged;          // of one layer
    uint32_t loaded;                  // layer that `merged` has; UINT32_MAX: none
    uint32_t kept;                    // of the last layers
    char *stashes;                    // [kept + 1]; the last is of the layers that are not kept
    size_t stash_bytes;
    float *inputs;  // [count - kept + 1, rows, dim]
    float *x[2], *dy[2];
    // the head: rows with a target are gathered, `head_rows` at a time
    stage *head;
    float *head_weights, *head_x, *head_dx, *head_unused;
    int32_t *head_tokens, *head_targets;
    size_t *head_from;
    void *head_stash;
    size_t head_rows;
    uint64_t bytes;
};

// The layers of the base are [first, first + count); those that it computes itself.
static inline uint32_t base_first(const tune_base *b) { return b->config.part.begin; }
static inline uint32_t base_count(const tune_base *b) { return b->config.part.end - b->config.part.begin; }
static inline uint32_t base_computed(const tune_base *b) { return b->config.remote ? 0 : base_count(b); }

static inline uint32_t base_kind_of(const model_config *c, uint32_t layer) {
    return (model_layer_windowed(c, layer) ? 1u : 0u) + (model_layer_rotated(c, layer) ? 2u : 0u);
}

// weights.c of the base
// The tensors of a stage of one layer, or of the head, for layer `layer`, as fp32.
void base_weights(const tune_base *b, const stage *s, uint32_t from_layer, uint32_t layer, float *out);
// x[rows, dim] = the embeddings of the tokens.
void base_embed(const tune_base *b, const int32_t *tokens, float *x);

#endif
