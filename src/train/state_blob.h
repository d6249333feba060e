// The format of blocks of state for transfer and checkpoints: for each block its version (8 bytes,
// little-endian), then its weights, first and second moments (fp32). Written by JOB_STATE_GET and
// checkpoint_state, read by JOB_STATE_PUT and checkpoint_put.
#ifndef BRAID_TRAIN_STATE_BLOB_H
#define BRAID_TRAIN_STATE_BLOB_H

#include "base/id.h"
#include "train/blocks.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "state travels little-endian");

enum { STATE_PARTS = 3 };  // weights, moment1, moment2

static inline size_t state_block_bytes(uint32_t elements) {
    return sizeof(uint64_t) + STATE_PARTS * sizeof(float) * elements;
}

static inline size_t state_blob_bytes(const block *blocks, uint32_t first, uint32_t count) {
    return count * sizeof(uint64_t) + STATE_PARTS * sizeof(float) * blocks_elements(blocks, first, count);
}

static inline uint64_t state_block_version(const uint8_t *bytes) {
    uint64_t version;
    memcpy(&version, bytes, sizeof version);
    return version;
}

// True if all weights of a block are finite.
bool state_block_is_finite(const uint8_t *bytes, uint32_t elements);

// Part 0 .. STATE_PARTS - 1 of a block of `elements`.
static inline const uint8_t *state_block_part(const uint8_t *bytes, uint32_t elements, uint32_t part) {
    return bytes + sizeof(uint64_t) + part * sizeof(float) * elements;
}

static inline void state_block_write(uint8_t *out, uint64_t version, uint32_t elements,
                                     const float *const parts[STATE_PARTS]) {
    memcpy(out, &version, sizeof version);
    for (uint32_t i = 0; i < STATE_PARTS; i++)
        memcpy(out + sizeof version + i * sizeof(float) * elements, parts[i], elements * sizeof(float));
}

// The content hash of a block: of its weights and moments, without its version.
braid_hash state_name(const void *const parts[STATE_PARTS], uint32_t elements);
// Of two blocks, which is faster than one after the other.
void state_name_pair(const void *const parts[2][STATE_PARTS], const uint32_t elements[2], braid_hash out[2]);

// True if `bytes` are blocks [first, first + count), all at one version.
static inline bool state_blob_sound(const block *blocks, uint32_t first, uint32_t count, const uint8_t *bytes,
                                    uint64_t byte_count) {
    if (count == 0 || byte_count != state_blob_bytes(blocks, first, count)) return false;
    uint64_t version = state_block_version(bytes);
    for (uint32_t i = first; i < first + count; i++) {
        if (state_block_version(bytes) != version) return false;
        bytes += state_block_bytes(blocks[i].count);
    }
    return true;
}

#endif
