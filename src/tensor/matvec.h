// A matrix times one vector: what a model does that reads one token at a time.
#ifndef BRAID_TENSOR_MATVEC_H
#define BRAID_TENSOR_MATVEC_H

#include "tensor/gemm.h"
#include "tensor/sizes.h"

#include <stdint.h>

enum { MATVEC_GROUP = 64 };  // inputs that share a scale

// y[out] = x[in] w (+ bias). w is read as [in, out], like the right side of a product. With `bytes` it is those, and w unused.
typedef struct tensor_matvec {
    size_t in, out;
    tensor_matrix w;
    const float *bias;  // [out] or NULL
    int8_t *bytes;      // [out, groups * MATVEC_GROUP], in the order of tensor_matvec_narrow, zero behind `in`; or NULL
    float *scales;      // [out, groups]
} tensor_matvec;

static inline size_t matvec_groups(size_t in) { return size_pieces(in, MATVEC_GROUP); }

// Fills bytes and scales from w: of each group the largest becomes 127 or -127, the others are rounded to nearest.
void tensor_matvec_narrow(tensor_pool *pool, tensor_matvec *m);
// x is readable and zero up to a multiple of MATVEC_GROUP. Every element's sum has one order, whatever the threads.
void tensor_matvec_run(tensor_pool *pool, const tensor_matvec *m, const float *x, float *y);

// Attention of one query[width] to keys and values[count, width] of its head, on the calling thread; scores[count] is its
// room. out[width].
void tensor_attend(const float *query, const float *keys, const float *values, size_t count, size_t width,
                   float *scores, float *out);

#endif
