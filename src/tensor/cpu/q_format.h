// Quantised weights: the blocks of a file, and the repacked form that kernels read.
//
// The repacked form is a sequence of strips of 16 rows (outputs), the last one filled up with zero
// rows. A strip has the integers of its blocks of 32 columns, in order, and then their scales. In a
// block, group g is columns 4 g .. 4 g + 3; a vector of 64 bytes holds one group of all 16 rows,
// byte 4 r + i for column 4 g + i of row r. This is the operand of the processors' instructions for
// sums of four products, and a tile of AMX.
//   8 bits: groups 0 .. 7
//   4 bits: byte vector g has group g in its low nibbles and group g + 4 in its high ones, g < 4
//   5 bits: the same, then a vector of which bit g is the highest bit of group g
//   6 bits: the same as 4 bits, then two vectors; bits 2 f and 2 f + 1 of vector h are the highest
//           bits of group 4 h + f
// Scales of a block, or of 8 blocks for types with blocks of 256 numbers:
//   fp16 scale[16], fp16 minimum[16] where there is one
//   blocks of 256: the same, then for each of the 8 blocks 16 bytes each of factors of the scale
//   (two in Q6_K, for 16 columns each) and of the minimum (Q4_K and Q5_K)
#ifndef BRAID_TENSOR_CPU_Q_FORMAT_H
#define BRAID_TENSOR_CPU_Q_FORMAT_H

#include "tensor/weights.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    Q_STRIP = 16,  // rows of a strip
    Q_BLOCK = 32,  // columns of a block
    Q_GROUP = 4,   // columns of a group
    Q_GROUPS = Q_BLOCK / Q_GROUP,
    Q_SUPER = 256,  // columns of a block of the types with two levels of scales
    Q_LINE = 64,    // bytes of a vector
    Q_PARTS = 2     // the most scales of a row in a block
};

typedef struct q_format {
    size_t elements, bytes;  // of a block in the file
    unsigned bits;           // 4, 5, 6 or 8 of an integer
    int offset;              // subtracted from the stored integer
    size_t parts;            // scales of a row in a block of 32: 1 or 2
    bool minimum;
    size_t value_bytes;  // of a strip, for each 32 columns
    size_t scale_bytes;  // of a strip, for each `elements` columns
} q_format;

// NULL: not a quantised type.
const q_format *q_format_of(weight_type type);
// Bytes of a strip, a multiple of Q_LINE; cols is a multiple of the format's block.
size_t q_strip_bytes(const q_format *f, size_t cols);
// Repacks rows [first, first + 16) of w, as far as they exist.
void q_pack_strip(const q_format *f, const weight_matrix *w, size_t first, uint8_t *strip);

// Where the scales of a strip begin.
static inline size_t q_scales_at(const q_format *f, size_t cols) { return cols / Q_BLOCK * f->value_bytes; }

float q_half(uint16_t bits);
// The nearest fp16, half to even.
uint16_t q_to_half(float x);

#endif
