// The tensors that a model of a given shape must have, in canonical order with Hugging Face's names.
#ifndef BRAID_WEIGHTS_EXPECTED_H
#define BRAID_WEIGHTS_EXPECTED_H

#include "weights/model_file.h"

typedef struct expected_tensor {
    char name[MODEL_FILE_NAME];
    uint64_t rows, cols;  // a vector has one row
    bool vector;
    bool transposed;  // [in, out], as GPT-2's Conv1D
} expected_tensor;

typedef struct expected_list {
    expected_tensor *tensor;
    uint32_t count;
} expected_list;

// The caller frees out->tensor.
braid_err expected_tensors(const model_config *config, expected_list *out, braid_error *error);

#endif
