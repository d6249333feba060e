#include "train/blocks.h"

uint32_t blocks_count(const stage_tensor *tensors, uint32_t tensor_count) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < tensor_count; i++) n += blocks_of_tensor(&tensors[i]);
    return n;
}

void blocks_fill(const stage_tensor *tensors, uint32_t tensor_count, block *out) {
    for (uint32_t i = 0; i < tensor_count; i++) {
        size_t left = tensors[i].elements;
        for (size_t at = tensors[i].offset; left > 0; out++) {
            uint32_t count = left < BLOCK_ELEMENTS ? (uint32_t)left : BLOCK_ELEMENTS;
            *out = (block){.offset = at, .count = count, .tensor = i};
            at += count;
            left -= count;
        }
    }
}

size_t blocks_elements(const block *blocks, uint32_t first, uint32_t count) {
    size_t n = 0;
    for (uint32_t i = first; i < first + count; i++) n += blocks[i].count;
    return n;
}
