// Attention over a cache of keys and values, for inference.
//
// Bits. A row's result depends on its query and on the keys and values that it sees, and on nothing
// else: not on the rows of the same call, on threads or on the processor. The definition, with t in
// ascending order:
//   s[t] = scale * (chain of fma(query[i], key[t][i]) over i, from zero)
//   s[t] = cap * tanh(s[t] / cap), for a soft cap
//   p[t] = exp(s[t] - largest s);  sum = sum of p in 16 lanes (t mod 16), then lanes_add (cpu/wide.h)
//   out[i] = (sum over blocks of CACHE_BLOCK positions of the chain of fma(p[t], value[t][i])) * (1 / sum)
#ifndef BRAID_TENSOR_CACHE_H
#define BRAID_TENSOR_CACHE_H

#include "tensor/pool.h"

#include <stdbool.h>
#include <stddef.h>

// Positions share a tile of keys, a page of memory, or a chain of values.
enum { CACHE_TILE = 16, CACHE_PAGE = 64, CACHE_BLOCK = 512 };

// Keys and values of one layer, in pages of the caller. A page has keys[kv_heads, CACHE_PAGE / 16,
// width, 16]: number i of position t is at [t / 16][i][t % 16], so that one vector holds 16
// positions; and values[kv_heads, CACHE_PAGE, width].
typedef struct tensor_cache {
    size_t kv_heads, width;
    bool half;                  // numbers are stored as fp16, rounded half to even; else fp32
    void *const *pages;         // position t is in pages[t / CACHE_PAGE]; each is aligned to 64
    size_t keys_at, values_at;  // where the layer's keys and values are in a page, multiples of 64
} tensor_cache;

// Bytes of the keys, and of the values, in a page; a multiple of 64.
size_t tensor_cache_bytes(const tensor_cache *c);
// Stores positions first .. first + count - 1. keys and values[count, kv_heads * width], with rows
// `stride` apart, after any rotation.
void tensor_cache_put(const tensor_cache *c, size_t first, size_t count, const float *keys, const float *values,
                      size_t stride);

typedef struct tensor_cache_attention {
    const tensor_cache *cache;
    size_t heads;    // a multiple of kv_heads; head h reads kv head h / (heads / kv_heads)
    float scale;     // factor of scores, e.g. 1 / sqrt(width)
    float cap;       // soft cap of scores; 0: none
    size_t window;   // a position sees itself and window - 1 before it; 0: all before it
    float *scratch;  // tensor_cache_scratch floats, aligned to 64
} tensor_cache_attention;

// For queries at positions below `end`.
size_t tensor_cache_scratch(const tensor_pool *pool, const tensor_cache_attention *a, size_t end);
// out[rows, heads * width] = attention of queries[rows, heads * width] at positions first .. first +
// rows - 1. The cache has the keys and values of these positions. Strides are of rows, in floats;
// `out` may be `queries`.
void tensor_cache_attend(tensor_pool *pool, const tensor_cache_attention *a, const float *queries, size_t query_stride,
                         size_t first, size_t rows, float *out, size_t out_stride);

#endif
