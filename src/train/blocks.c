#include "train/blocks.h"

#include <string.h>

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

uint32_t blocks_at(const block *blocks, uint32_t count, size_t offset) {
    uint32_t low = 0, high = count;
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (blocks[middle].offset <= offset)
            low = middle;
        else
            high = middle;
    }
    return low;
}

// NaN and infinity have an exponent of all ones.
bool blocks_finite(const float *values, size_t count) {
    uint32_t largest = 0;
    for (size_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, &values[i], sizeof bits);
        bits &= 0x7fffffff;
        largest = bits > largest ? bits : largest;
    }
    return largest < 0x7f800000;
}
