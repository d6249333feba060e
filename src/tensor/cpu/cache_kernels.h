// The innermost loops of attention over a cache, one set per kind of processor. All sets compute the
// same bits (cache.h).
#ifndef BRAID_TENSOR_CPU_CACHE_KERNELS_H
#define BRAID_TENSOR_CPU_CACHE_KERNELS_H

#include "tensor/cache.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CACHE_ROWS = 8 };  // queries that share reads of keys and values

// scores[rows, 16 * tiles] = chains of queries[width, CACHE_ROWS] and tiles of keys.
typedef struct cache_scores {
    size_t rows, width, tiles;
    const float *queries;
    const void *keys;  // [tiles, width, 16]
    float *scores;     // rows are `stride` apart
    size_t stride;
} cache_scores;

// Continues the chains sums[rows, width] with `count` positions.
typedef struct cache_values {
    size_t rows, width, count;
    const float *weights;  // [rows, count], rows are `stride` apart
    size_t stride;
    const void *values;  // [count, width]
    float *sums;         // rows are sum_stride apart, a multiple of 16; readable and writable up to it
    size_t sum_stride;
} cache_values;

typedef struct cache_kernels {
    const char *name;
    bool (*works_here)(void);
    // for fp32 and for fp16
    void (*scores[2])(const cache_scores *s);
    void (*values[2])(const cache_values *v);
} cache_kernels;

// In order of speed; the last one works on every processor.
#if defined(__x86_64__)
enum { CACHE_KERNELS = 3 };
#elif defined(__aarch64__)
enum { CACHE_KERNELS = 2 };
#else
enum { CACHE_KERNELS = 1 };
#endif
extern const cache_kernels *const cache_kernels_all[CACHE_KERNELS];
extern const cache_kernels cache_avx512, cache_avx2, cache_neon, cache_plain;

const cache_kernels *cache_kernels_here(void);

// tensor_cache_attend with given kernels.
typedef struct cache_call {
    const tensor_cache_attention *a;
    const float *queries;
    size_t query_stride, first, rows;
    float *out;
    size_t out_stride;
} cache_call;

void cache_attend_by(const cache_kernels *kernels, tensor_pool *pool, const cache_call *call);

#endif
