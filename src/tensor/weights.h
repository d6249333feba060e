// A weight matrix in the form of its file: plain numbers, or blocks of quantised ones. Formats are those of GGUF
// (github.com/ggml-org/ggml, ggml-common.h) with their layouts, and `mixed8` of BSNS, section 4.2.
#ifndef BRAID_TENSOR_WEIGHTS_H
#define BRAID_TENSOR_WEIGHTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum weight_type {
    WEIGHT_F32,
    WEIGHT_F16,
    WEIGHT_BF16,
    WEIGHT_Q8_0,
    WEIGHT_Q4_0,
    WEIGHT_Q4_1,
    WEIGHT_Q5_0,
    WEIGHT_Q5_1,
    WEIGHT_Q4_K,
    WEIGHT_Q5_K,
    WEIGHT_Q6_K,
    WEIGHT_MIXED8,
    WEIGHT_TYPES
} weight_type;

// W[rows, cols] of y = W x: rows are outputs, each one stored contiguously (row_bytes). A vector has one row. The memory is
// borrowed, at least 1-byte aligned, often a mapped file.
typedef struct weight_matrix {
    weight_type type;
    size_t rows, cols;
    const void *data;
} weight_matrix;

// Name as in GGUF's tools, e.g. "Q4_1".
const char *weight_type_name(weight_type type);
// Elements that share a block: 1, 32 or 256. Columns are a multiple of it.
size_t weight_block_elements(weight_type type);
size_t weight_block_bytes(weight_type type);
// Bytes of one row; 0 when cols is no multiple of the block.
size_t weight_row_bytes(weight_type type, size_t cols);
// out[count, cols] = the values of rows [first, first + count) as fp32, exactly what ggml's dequantize_row_* gives.
void weight_rows(const weight_matrix *w, size_t first, size_t count, float *out);

#endif
