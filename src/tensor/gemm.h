// Matrix products with bits that depend on values and on k alone (docs/protocol.md, arithmetic, 5).
// They are the same on all processors with fused multiply-adds, unless `fastest`.
#ifndef BRAID_TENSOR_GEMM_H
#define BRAID_TENSOR_GEMM_H

#include "tensor/pool.h"

#include <stdbool.h>
#include <stddef.h>

// An operand of a product. Rows are `stride` apart; a transposed matrix is stored with rows and
// columns swapped.
typedef struct tensor_matrix {
    const float *at;
    size_t stride;
    bool transposed;
} tensor_matrix;

static inline tensor_matrix tensor_plain(const float *at, size_t stride) { return (tensor_matrix){at, stride, false}; }
static inline tensor_matrix tensor_transposed(const float *at, size_t stride) {
    return (tensor_matrix){at, stride, true};
}

// c[m, n] = a[m, k] b[k, n], plus an addend for GEMM_ADD. c overlaps neither a nor b.
typedef enum tensor_gemm_mode { GEMM_SET, GEMM_ADD } tensor_gemm_mode;

typedef struct tensor_gemm {
    size_t m, n, k;
    tensor_matrix a, b;
    float *c;
    size_t c_stride;
    tensor_gemm_mode mode;
    const float *more;  // GEMM_ADD: the addend, with the layout of c; NULL: c itself
    bool fastest;       // use the processor's fastest kernels: sums of fp32, but possibly other bits
} tensor_gemm;

// Runs on all threads of the pool.
void tensor_gemm_run(tensor_pool *pool, const tensor_gemm *g);

// Work on rows [first, first + count) by the thread that multiplies them, while they are in its
// cache.
typedef void (*tensor_rows_fn)(const void *context, size_t first, size_t count);
typedef struct tensor_gemm_rows {
    // before the rows are read: rows of a, and of c where the product adds; NULL: nothing
    tensor_rows_fn before;
    tensor_rows_fn after;  // after the rows are written: rows of c; NULL: nothing
    const void *context;
    struct {
        // [m, floats]: its same rows are used after the product, so they are prefetched; NULL:
        // nothing
        const float *at;
        size_t floats;
    } prefetch[2];
    float *packed;  // tensor_gemm_packed(n, k) floats of scratch
} tensor_gemm_rows;

// The same product. All threads share one packed b, and c is computed in groups of rows. When the
// packed b would not fit into a cache, it runs as tensor_gemm_run, with all of `before` before it
// and all of `after` after it.
void tensor_gemm_run_rows(tensor_pool *pool, const tensor_gemm *g, const tensor_gemm_rows *rows);
// Packed size of b in floats, for every kind of product; 0 when it would not fit into a cache.
size_t tensor_gemm_packed(size_t n, size_t k);
// The two halves of tensor_gemm_run_rows, for callers with work in between. The first packs g->b
// into rows->packed (tensor_gemm_packed must not be 0). The second computes rows [first, first +
// count) on the calling thread, with 200 KB of its stack.
void tensor_gemm_pack(tensor_pool *pool, const tensor_gemm *g, const tensor_gemm_rows *rows);
void tensor_gemm_some_rows(const tensor_gemm *g, const tensor_gemm_rows *rows, size_t first, size_t count);
// The best number of rows per call; a multiple of 64.
size_t tensor_gemm_group(bool fastest);
// Runs on the calling thread with the same bits. Uses 1 MB of its stack.
void tensor_gemm_tile(const tensor_gemm *g);
// The name of this processor's kernels, for messages and for the name of a kernel class.
const char *tensor_gemm_name(bool fastest);

// Runs only fused multiply-adds on the calling thread's core for some milliseconds, for
// measurements. Returns their number, two operations each. `sink` gets a value that depends on all
// of them.
double tensor_peak_burst(float *sink);

#endif
