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
    uint32_t parts, part_out[3];
} layout_linear;

typedef struct layout_norm {
    size_t weight, bias;
} layout_norm;

typedef struct layout_block {
    layout_norm norm1, norm2;
    layout_linear qkv, o, up, down;
} layout_block;

typedef struct layout {
    uint32_t tensors, blocks;
    stage_tensor *tensor;  // canonical order
    float *deviation;      // deviation of each tensor's initial values; 0: norm weights are 1, biases 0
    layout_block *block;
    size_t parameters;
    // stage 0
    size_t embedding, positions, head;  // equal to embedding if tied
    layout_norm norm;
} layout;

braid_err layout_new(const model_config *config, const stage_shape *shape, layout *out, braid_error *error);
void layout_free(layout *l);

#endif
