// Sums and results in one byte a value, for fast mode (docs/protocol.md, Aggregation, A4a).
//
// A block of values is cut into groups of 64. The encoded form has one byte of scale for each group,
// then one byte for each value: a sign, 4 bits of exponent and 3 of mantissa, relative to the
// group's largest value. So a value keeps 4 significant bits down to 2^-14 of the largest one, and
// AdamW, which divides by each value's own size, sees the same relative error everywhere. With
// integer codes, small values would be zero for many iterations and then far too large.
//
// There is no error feedback: in measured runs it cost more quality than the rounding itself
// (docs/results/links.md).
//
// Encoding decoded values gives the same values, so a result may be passed on any number of times.
// All bytes can be decoded. A group that held NaN or infinity decodes to NaN.
#ifndef BRAID_TRAIN_BYTE_SUM_H
#define BRAID_TRAIN_BYTE_SUM_H

#include "train/sum.h"

#include <stddef.h>
#include <stdint.h>

enum { BYTE_SUM_GROUP = 64 };

// Bytes of `count` encoded values: 1.016 a value.
size_t byte_sum_bytes(size_t count);
void byte_sum_encode(const float *x, size_t count, uint8_t *out);
void byte_sum_decode(const uint8_t *in, size_t count, float *out);

// result = the rounded quotient of (the sum of the parts) / tokens. A part with `plain` is the
// owner's sum in fp32; one with `packed` is another member's encoded sum.
void byte_sum_reduce(const sum_part *parts, uint32_t part_count, size_t count, uint64_t tokens, float *result);

#endif
