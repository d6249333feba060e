// Blocks: the pieces in which weights, moments, sums and results are named, moved and hashed. A block is a fixed range of
// one tensor, so that no name depends on how the model is split into stages.
#ifndef BRAID_TRAIN_BLOCKS_H
#define BRAID_TRAIN_BLOCKS_H

#include "model/stage.h"

#include <stddef.h>
#include <stdint.h>

enum { BLOCK_ELEMENTS = 1 << 16 };

typedef struct block {
    size_t offset;    // of the first element in the stage's parameter array
    uint32_t count;   // elements, at most BLOCK_ELEMENTS
    uint32_t tensor;  // in the stage's tensor table
} block;

// Blocks of one tensor, and of a stage's table (canonical order: tensors as in the table, offsets ascending).
static inline uint32_t blocks_of_tensor(const stage_tensor *tensor) {
    return (uint32_t)((tensor->elements + BLOCK_ELEMENTS - 1) / BLOCK_ELEMENTS);
}
uint32_t blocks_count(const stage_tensor *tensors, uint32_t tensor_count);
void blocks_fill(const stage_tensor *tensors, uint32_t tensor_count, block *out);
// Elements of blocks [first, first + count).
size_t blocks_elements(const block *blocks, uint32_t first, uint32_t count);

#endif
