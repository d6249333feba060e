// The tensors that a model of a given shape must have, in canonical order with Hugging Face's
// names.
#ifndef BRAID_WEIGHTS_EXPECTED_H
#define BRAID_WEIGHTS_EXPECTED_H

#include "model/rows.h"

enum { EXPECTED_MAX_TENSORS = 1 << 18 };

typedef struct expected_list {
    model_tensor *tensor;
    uint32_t count;
} expected_list;

// The caller frees out->tensor.
braid_err expected_tensors(const model_config *config, expected_list *out, braid_error *error);

#endif
