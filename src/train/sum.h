// Sums of gradients (docs/protocol.md, Arithmetic).
//
// Reproducible mode: a gradient g becomes the 64-bit integer round-to-nearest-even(g * 2^30).
// Integers add exactly, so a sum does not depend on the order or the place of its additions. |g| >=
// 2^20 or NaN does not fit: such an element adds nothing and sets its block's overflow flag, which
// makes every result of the block NaN and so skips the iteration. At most 2^12 microbatches, so no
// wrap. Fast mode: fp32, added in the given order.
//
// Packed form of a block's integers: one byte of flags (1: overflow, nothing follows), then for
// each group of 128 elements one byte with a width in bits, 0 .. 57 or 64, and the integers of that
// width in two's complement without gaps, the low bit first, up to a whole byte. Lossless.
#ifndef BRAID_TRAIN_SUM_H
#define BRAID_TRAIN_SUM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SUM_GROUP = 128, SUM_SCALE_BITS = 30, SUM_RANGE_BITS = 20, SUM_MAX_PARTS = 64 };

// sum[i] += gradient[i]; returns the number of elements that did not fit. `first`: overwrites the
// sum.
size_t sum_add_fixed(int64_t *sum, const float *gradient, size_t count, bool first);
void sum_add_plain(float *sum, const float *gradient, size_t count, bool first);

// The number of bytes that sum_pack writes for this block.
size_t sum_packed_bytes(const int64_t *sum, size_t count, bool overflow);
size_t sum_pack(const int64_t *sum, size_t count, bool overflow, uint8_t *out);
// The length of the packed block of `count` elements at the start of `bytes`; 0 when it is
// malformed or longer than `left`.
size_t sum_packed_length(const uint8_t *bytes, size_t left, size_t count);
// Unpacks a block that sum_packed_length has validated. False: the overflow flag is set, and `out`
// is all zero.
bool sum_unpack(const uint8_t *bytes, size_t count, int64_t *out);

// One member's contribution to a block; exactly one of the pointers is set.
typedef struct sum_part {
    const int64_t *own;     // reproducible, with `overflow`
    const uint8_t *packed;  // reproducible, sound
    const uint8_t *plain;   // fast: fp32, any alignment
    bool overflow;
} sum_part;

// result[i] = sum of the parts (at most SUM_MAX_PARTS) / tokens, rounded once; all NaN when a part
// overflowed. Allocates nothing. The result may overlap the own sum, or in fast mode the first
// part, if both begin at the same address.
void sum_reduce(const sum_part *parts, uint32_t part_count, size_t count, bool reproducible, uint64_t tokens,
                float *result);

// Sum of squares of one block in fp64, over 16 lanes (element mod 16) that are added pairwise.
double sum_norm2(const float *values, size_t count);

#endif
