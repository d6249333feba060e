// Matrix products whose bits depend on values and on k alone (docs/protocol.md, arithmetic, 5), and are the same on all processors that fuse
// multiply-adds, unless `fastest`.
#ifndef BRAID_TENSOR_GEMM_H
#define BRAID_TENSOR_GEMM_H

#include "tensor/pool.h"

#include <stdbool.h>
#include <stddef.h>

// A matrix as a product reads it: rows lie `stride` apart; a transposed one is stored with rows and columns swapped.
typedef struct tensor_matrix {
    const float *at;
    size_t stride;
    bool transposed;
} tensor_matrix;

static inline tensor_matrix tensor_plain(const float *at, size_t stride) { return (tensor_matrix){at, stride, false}; }
static inline tensor_matrix tensor_transposed(const float *at, size_t stride) {
    return (tensor_matrix){at, stride, true};
}

// c[m, n] = a[m, k] b[k, n], or c (or what lies like c) plus that. c overlaps neither a nor b.
typedef enum tensor_gemm_mode { GEMM_SET, GEMM_ADD } tensor_gemm_mode;

typedef struct tensor_gemm {
    size_t m, n, k;
    tensor_matrix a, b;
    float *c;
    size_t c_stride;
    tensor_gemm_mode mode;
    const float *more;  // GEMM_ADD: what is added to instead of c; NULL: c
    bool fastest;       // by what this processor does best: sums of fp32, but the bits may be of its own
} tensor_gemm;

// Over the pool's threads.
void tensor_gemm_run(tensor_pool *pool, const tensor_gemm *g);

// What else is done to rows [first, first + count), by the thread that multiplies them, while they are in its cache.
typedef void (*tensor_rows_fn)(const void *context, size_t first, size_t count);
typedef struct tensor_gemm_rows {
    tensor_rows_fn before;  // they are read: rows of a, and of c where the product adds; NULL: nothing
    tensor_rows_fn after;   // they are written: rows of c; NULL: nothing
    const void *context;
    struct {
        const float *at;  // [m, floats], whose same rows are read or written soon after; NULL: nothing
        size_t floats;
    } soon[2];
    float *packed;  // tensor_gemm_packed(n, k) floats of scratch
} tensor_gemm_rows;

// The same product: b is packed once for all threads, and c made some rows after others. Not so when b is so large that packed
// it would not stay in a cache: then as tensor_gemm_run, all of `before` before it and all of `after` after it.
void tensor_gemm_run_rows(tensor_pool *pool, const tensor_gemm *g, const tensor_gemm_rows *rows);
// For any kind of product. 0 when b is so large.
size_t tensor_gemm_packed(size_t n, size_t k);
// The two halves of it, for whoever does more between: packs g->b into rows->packed, where tensor_gemm_packed is not 0; then
// rows [first, first + count) on the calling thread, which takes 200 KB of its stack.
void tensor_gemm_pack(tensor_pool *pool, const tensor_gemm *g, const tensor_gemm_rows *rows);
void tensor_gemm_some_rows(const tensor_gemm *g, const tensor_gemm_rows *rows, size_t first, size_t count);
// How many rows that best gets at once; a multiple of 64.
size_t tensor_gemm_group(bool fastest);
// On the calling thread: the same bits. Takes 1 MB of its stack.
void tensor_gemm_tile(const tensor_gemm *g);
// The kernels that this processor gets, for people and for the name of a kernel class.
const char *tensor_gemm_name(bool fastest);

// Keeps the calling thread's core at nothing but fused multiply-adds for some milliseconds and returns how many operations
// that were (two each), for who times it. `sink` gets a value that depends on all of them.
double tensor_peak_burst(float *sink);

#endif
