// GGUF's names of tensors for Hugging Face's.
#ifndef BRAID_WEIGHTS_GGUF_NAMES_H
#define BRAID_WEIGHTS_GGUF_NAMES_H

#include "model/config.h"
#include "weights/gguf.h"

#define GGUF_NO_EXPERT UINT32_MAX

typedef struct gguf_name {
    char name[GGUF_MAX_NAME_BYTES + 1];
    // the matrix is a slice of a tensor [columns, rows, experts]; GGUF_NO_EXPERT: it is a tensor of its own
    uint32_t expert;
    bool rotated;  // a query or key, whose rows are in pairs where the architecture says so (gguf_pairs_rows)
} gguf_name;

// False: GGUF has no name for it.
bool gguf_name_of(const model_config *config, const char *hugging_face, gguf_name *out);
// Whether queries and keys are stored with the two halves of each head interleaved.
bool gguf_pairs_rows(const model_config *config);
// Gemma's norms are stored with 1 added.
bool gguf_shifts_norms(const model_config *config);

#endif
