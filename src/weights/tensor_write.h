// Writes a tensor of an open model in another type and order, a few rows at a time.
#ifndef BRAID_WEIGHTS_TENSOR_WRITE_H
#define BRAID_WEIGHTS_TENSOR_WRITE_H

#include "weights/model_file.h"
#include "weights/output.h"

typedef struct tensor_target {
    weight_type type;
    bool transposed;  // [in, out]
    bool rope_pairs;  // rows in GGUF's order of LLaMA's queries and keys
    float shift;      // added to each value, for Gemma's norms in GGUF
} tensor_target;

// Rows and columns of the target.
void tensor_target_shape(const model_file_tensor *t, const tensor_target *target, size_t *rows, size_t *cols);
// Rows of the same type are copied byte for byte. BRAID_NUMERIC: a value is not finite, or too
// large for the type.
braid_err tensor_write(const model_file_tensor *t, const tensor_target *target, output *o, braid_error *error);

#endif
