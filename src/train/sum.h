// Sums of gradients (docs/protocol.md, Arithmetic).
//
// Reproducible mode: a gradient g becomes the 64-bit integer round-to-nearest-even(g * 2^30), and integers add exactly, so
// a sum does not depend on who added what when. |g| >= 2^20 or NaN does not fit: such an element adds nothing and its
// block carries an overflow flag, which makes every result of the block NaN and so skips the iteration. At most 2^12
// microbatches, so no wrap. Fast mode: fp32, added in the order given.
//
// Packed form of a block's integers: one byte of flags (1: overflow, nothing follows), then for each group of 128 elements
// one width byte 0 .. 8 and that many bytes each, little-endian two's complement. Lossless.
#ifndef BRAID_TRAIN_SUM_H
#define BRAID_TRAIN_SUM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SUM_GROUP = 128, SUM_SCALE_BITS = 30, SUM_RANGE_BITS = 20, SUM_MAX_PARTS = 64 };

// sum[i] += gradient[i]; how many elements did not fit. `first`: as if the sum were zero, whatever it holds.
size_t sum_add_fixed(int64_t *sum, const float *gradient, size_t count, bool first);
void sum_add_plain(float *sum, const float *gradient, size_t count, bool first);

// Bytes that sum_pack writes for this block.
size_t sum_packed_bytes(const int64_t *sum, size_t count, bool overflow);
size_t sum_pack(const int64_t *sum, size_t count, bool overflow, uint8_t *out);
// Length of the packed block of `count` elements at the start of `bytes`; 0 when it is malformed or longer than `left`.
size_t sum_packed_length(const uint8_t *bytes, size_t left, size_t count);
// Reads a block that sum_packed_length found sound. False: it carries the overflow flag, `out` is all zero.
bool sum_unpack(const uint8_t *bytes, size_t count, int64_t *out);

// One member's contribution to a block: exactly one of the pointers is set.
typedef struct sum_part {
    const int64_t *own;     // reproducible, with `overflow`
    const uint8_t *packed;  // reproducible, sound
    const uint8_t *plain;   // fast: fp32, any alignment
    bool overflow;
} sum_part;

// result[i] = sum of the parts (at most SUM_MAX_PARTS) / tokens, rounded once; all NaN when a part overflowed. Allocates
// nothing. The result may begin where the own sum does, in fast mode where the first part does.
void sum_reduce(const sum_part *parts, uint32_t part_count, size_t count, bool reproducible, uint64_t tokens,
                float *result);

// Sum of squares of one block: fp64, 16 lanes (element mod 16) added pairwise.
double sum_norm2(const float *values, size_t count);

#endif
