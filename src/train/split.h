// The distribution of a model's parameters over stages: tensors and blocks of the whole model in
// canonical order, and their numbers within a stage. Results that must not depend on the split are
// defined by this order.
#ifndef BRAID_TRAIN_SPLIT_H
#define BRAID_TRAIN_SPLIT_H

#include "base/err.h"
#include "base/id.h"
#include "model/adapter.h"
#include "model/config.h"
#include "train/blocks.h"

#include <stdint.h>

typedef struct split {
    uint32_t stages;
    uint32_t tensor_count, block_count;
    stage_tensor *tensors;   // of the whole model, in canonical order
    uint16_t *tensor_stage;  // [tensor_count]
    block *blocks;           // of the whole model, in canonical order; `tensor` is the canonical number
    uint32_t *stage_blocks;  // [block_count] canonical block numbers, stage by stage in each stage's order
    uint32_t *stage_first;   // [stages + 1] index of each stage's first block in stage_blocks
} split;

// `layers`: model blocks per stage, as in a run's description; their sum is the model's number of
// layers. If an adapter is trained (NULL or rank 0: none), the tensors are those of adapter_table_new, because
// the model's own are fixed.
braid_err split_new(const model_config *model, const adapter_config *trained, const uint32_t *layers, uint32_t stages,
                    split *out, braid_error *error);
void split_free(split *s);
uint32_t split_count(const split *s, uint32_t stage_number);  // number of blocks of a stage
// The canonical number of a stage's block.
uint32_t split_block(const split *s, uint32_t stage_number, uint32_t index);

// Combines the block hashes of all stages (JOB_LEAVES) into the hash of all weights: SHA-256 over
// the leaves in canonical order, the same for every split. False when a blob does not have the
// leaves of its stage.
bool split_put_leaves(const split *s, uint32_t stage_number, const void *leaves, uint64_t bytes, braid_hash *all);
braid_hash split_weights_hash(const split *s, const braid_hash *all);

#endif
