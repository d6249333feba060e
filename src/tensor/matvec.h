// A matrix times one vector, for models that read one token at a time.
#ifndef BRAID_TENSOR_MATVEC_H
#define BRAID_TENSOR_MATVEC_H

#include "tensor/gemm.h"
#include "tensor/sizes.h"

#include <stdint.h>

enum { MATVEC_GROUP = 64 };  // number of inputs that share a scale

// y[out] = x[in] w[in, out] (+ bias[out]), with w as the right operand of a product. If `bytes` is
// set, it is used in place of w.
typedef struct tensor_matvec {
    size_t in, out;
    tensor_matrix w;
    const float *bias;  // [out] or NULL
    // [out, groups * MATVEC_GROUP] in the order of tensor_matvec_narrow, zero beyond `in`; or NULL
    int8_t *bytes;
    float *scales;  // [out, groups]
} tensor_matvec;

static inline size_t matvec_groups(size_t in) { return size_pieces(in, MATVEC_GROUP); }

// Computes bytes and scales from w: the largest number of each group becomes 127 or -127, the
// others are rounded to nearest.
void tensor_matvec_narrow(tensor_pool *pool, tensor_matvec *m);
// x must be readable, and zero, up to a multiple of MATVEC_GROUP. Every element's sum has one
// order, whatever the number of threads.
void tensor_matvec_run(tensor_pool *pool, const tensor_matvec *m, const float *x, float *y);

// Attention of one query[width] to keys and values[count, width] of its head, on the calling thread
// -> out[width]. scores[count] is scratch.
void tensor_attend(const float *query, const float *keys, const float *values, size_t count, size_t width,
                   float *scores, float *out);
// The same with scores multiplied by `scale` and, unless `softcap` is 0, capped (tensor_attention).
void tensor_attend_scaled(const float *query, const float *keys, const float *values, size_t count, size_t width,
                          float scale, float softcap, float *scores, float *out);

#endif
