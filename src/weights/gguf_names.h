// GGUF's names of a model's tensors, and how it stores them (llama.cpp, commit 0c1e57098).
#ifndef BRAID_WEIGHTS_GGUF_NAMES_H
#define BRAID_WEIGHTS_GGUF_NAMES_H

#include "model/rows.h"
#include "weights/gguf.h"

// "blk.3.attn_q.weight". False: GGUF has no name for it.
bool gguf_name_of(const model_tensor *t, char name[GGUF_MAX_NAME_BYTES + 1]);
// Whether the matrix is a slice of a tensor [columns, rows, experts].
bool gguf_is_slice(const model_tensor *t);
// Whether the rows of each head are stored with its two halves interleaved.
bool gguf_pairs_rows(const model_config *config, model_role role);
// The number that GGUF adds to each value: 1 for norms that multiply by 1 + weight.
float gguf_shift(const model_config *config, model_role role);

#endif
