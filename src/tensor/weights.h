// A weight matrix in the form of its file: plain numbers, or blocks of quantised ones. Formats are
// those of GGUF (github.com/ggml-org/ggml, ggml-common.h) with their layouts, and `mixed8` of BSNS,
// section 4.2.
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

// W[rows, cols] of y = W x: rows are outputs, each one stored contiguously (row_bytes). A vector
// has one row. The memory is borrowed, at least 1-byte aligned, often a mapped file.
typedef struct weight_matrix {
    weight_type type;
    size_t rows, cols;
    const void *data;
} weight_matrix;

// Name as in GGUF's tools, e.g. "Q4_1".
const char *weight_type_name(weight_type type);
// Elements that share a block: 1, 32 or 256. Columns are a multiple of it. `mixed8` has no blocks:
// 1.
size_t weight_block_elements(weight_type type);
size_t weight_block_bytes(weight_type type);  // 1 for mixed8
// Bytes of one row; 0 when cols is no multiple of the block, or the product is too large.
size_t weight_row_bytes(weight_type type, size_t cols);
// Bytes of a matrix: its rows, and the table of columns of mixed8. 0: as above.
size_t weight_bytes(weight_type type, size_t rows, size_t cols);
// The first byte of a row.
const uint8_t *weight_row(const weight_matrix *w, size_t row);
// out[count, cols] = the values of rows [first, first + count) as fp32, exactly what ggml's
// dequantize_row_* gives.
void weight_rows(const weight_matrix *w, size_t first, size_t count, float *out);

// mixed8 (BSNS, section 4, "mixed matrix decomposition"): W = S Q + C. Q has 8-bit integers, S one
// fp32 scale for each row, and C the critical columns in F16, where Q is zero. A matrix in memory:
//   uint32 column[k]                              the critical columns, ascending; k = mixed8_critical(cols)
//   rows of: float scale, int8 q[cols], F16 c[k]  value of column j: scale * q[j]; of column[i]: c[i]
enum { MIXED8_COLUMNS_PER_CRITICAL = 128 };
size_t mixed8_critical(size_t cols);
// The i-th critical column of a matrix; column tables of files are checked with mixed8_valid first.
uint32_t mixed8_column(const weight_matrix *w, size_t i);
// Whether the table of columns is ascending and in range. `w->data` has weight_bytes bytes.
bool mixed8_valid(const weight_matrix *w);

// Packs values[count] as F32, F16, BF16 or Q8_0 (blocks as ggml's quantize_row_q8_0_ref: halves are
// rounded away from zero). Values are finite; `count` is a multiple of the block. `out` needs
// weight_row_bytes(type, count).
void weight_pack(weight_type type, const float *values, size_t count, void *out);
// Packs a matrix as mixed8 in two passes over its rows. First, mixed8_score adds to score[cols]
// (zero at the start) how far each column's values stand out in these rows, sum of (w^2 / mean of
// the row's w^2)^2. Then mixed8_choose writes the table of the columns with the highest scores, and
// mixed8_pack one row after the other.
void mixed8_score(const float *values, size_t rows, size_t cols, double *score);
void mixed8_choose(const double *score, size_t cols, uint32_t *column);
void mixed8_pack(const uint32_t *column, const float *row, size_t cols, void *out);

#endif
