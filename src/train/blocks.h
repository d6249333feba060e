// Blocks of parameters (chunks of the protocol): the units in which weights, moments, sums and
// results are identified, transferred and hashed. A block is a fixed range of one tensor, so its
// identity does not depend on the split into stages.
#ifndef BRAID_TRAIN_BLOCKS_H
#define BRAID_TRAIN_BLOCKS_H

#include "model/stage.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { BLOCK_ELEMENTS = 1 << 16 };

typedef struct block {
    size_t offset;    // offset of the first element in the stage's parameter array
    uint32_t count;   // number of elements, at most BLOCK_ELEMENTS
    uint32_t tensor;  // index in the stage's tensor table
} block;

// Number of blocks of one tensor, and of a stage's table (canonical order: tensors as in the table,
// offsets ascending).
static inline uint32_t blocks_of_tensor(const stage_tensor *tensor) {
    return (uint32_t)((tensor->elements + BLOCK_ELEMENTS - 1) / BLOCK_ELEMENTS);
}
uint32_t blocks_count(const stage_tensor *tensors, uint32_t tensor_count);
void blocks_fill(const stage_tensor *tensors, uint32_t tensor_count, block *out);
// Number of elements in blocks [first, first + count).
size_t blocks_elements(const block *blocks, uint32_t first, uint32_t count);
// The block that has the element at `offset`; the offsets of the table ascend.
uint32_t blocks_at(const block *blocks, uint32_t count, size_t offset);
// True if no value is NaN or infinite.
bool blocks_finite(const float *values, size_t count);

#endif
