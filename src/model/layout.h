// The offset of each parameter of a stage, and its role in the computation.
#ifndef BRAID_MODEL_LAYOUT_H
#define BRAID_MODEL_LAYOUT_H

#include "model/stage.h"

// y = x W^T (+ bias) with W[out, in]; or y = x W (+ bias) with W[in, out] as in GPT-2's files
// (`conv1d`). Adjacent matrices with the same input (queries, keys, values; gate, up) are one
// product of several tensors.
typedef struct layout_linear {
    size_t weight, bias;
    uint32_t in, out;
    bool conv1d, has_bias;
} layout_linear;

typedef struct layout_norm {
    size_t weight, bias;
} layout_norm;

// Norms and matrices that the architecture lacks are zero. expert_up and expert_down are those of
// expert 0 (layout_expert).
typedef struct layout_block {
    size_t first;  // the block's first element
    layout_norm norm1, norm2, post1, post2, q_norm, k_norm;
    layout_linear qkv, o, up, down, router, expert_up, expert_down;
    size_t expert_floats;  // elements of an expert
} layout_block;

// How the values of a tensor begin: normal with `deviation`, or all equal to `value` where that is
// 0.
typedef struct layout_start {
    float deviation, value;
} layout_start;

typedef struct layout {
    uint32_t tensors, blocks;
    stage_tensor *tensor;  // canonical order
    layout_start *start;   // of each tensor
    layout_block *block;
    size_t parameters;
    // stage 0
    size_t embedding, positions, head;  // equal to embedding if tied
    layout_norm norm;
} layout;

// A linear layer of an expert from that of expert 0.
static inline layout_linear layout_expert(const layout_block *b, layout_linear l, uint32_t expert) {
    l.weight += expert * b->expert_floats;
    return l;
}

braid_err layout_new(const model_config *config, const stage_shape *shape, layout *out, braid_error *error);
void layout_free(layout *l);

#endif
