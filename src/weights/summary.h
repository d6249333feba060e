// Figures about an open model.
#ifndef BRAID_WEIGHTS_SUMMARY_H
#define BRAID_WEIGHTS_SUMMARY_H

#include "weights/model_file.h"

typedef struct summary_type {
    uint32_t tensors;
    uint64_t values, bytes;
} summary_type;

typedef struct summary {
    bool gguf;
    uint32_t files;
    uint64_t file_bytes, values, bytes;  // of all tensors
    summary_type type[WEIGHT_TYPES];
    // values of the key-value cache of one token (BSNS, equation 4, with the heads that have keys
    // and values)
    uint64_t cache_values;
} summary;

// A peer's part: blocks [begin, end), and the two ends (embedding, last norm, head) for peer 0.
typedef struct summary_peer {
    uint32_t begin, end;
    uint64_t bytes, cache_values;
} summary_peer;

void summary_of(const model_file *f, summary *out);
// The part of peer i of `peers`; the first ones have a block more where it does not divide. 0 <
// peers <= layers.
void summary_of_peer(const model_file *f, uint32_t peers, uint32_t i, summary_peer *out);

#endif
