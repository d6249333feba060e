// Loops of attention over a cache, for every kind of processor. The including file defines:
//   VECTOR       16 floats in registers
//   TARGET       the attribute of functions that use it
//   vector_zero, vector_load, vector_load_half, vector_store, vector_all (one float, 16 times),
//   vector_multiply_add (x * y + z, fused)
//   BLOCK_ROWS, BLOCK_VECTORS   rows (at least 3) and vectors of sums that fit into registers
//   PREFIX(NAME)                its name for a function
#include "tensor/cpu/cache_kernels.h"

#include <string.h>

#define INLINE static inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 8")

// Vector `index` of an array of fp32 or fp16 numbers.
TARGET INLINE VECTOR vector_at(const bool half, const void *at, size_t first) {
    return half ? vector_load_half((const uint16_t *)at + first) : vector_load((const float *)at + first);
}

// Rows [row, row + rows) with tiles [tile, tile + tiles).
TARGET INLINE void score_block(const bool half, const cache_scores *s, size_t row, const size_t rows, size_t tile,
                               const size_t tiles) {
    VECTOR sums[BLOCK_ROWS][BLOCK_VECTORS], keys[BLOCK_VECTORS];
    const size_t tile_numbers = s->width * CACHE_TILE;
    UNROLL for (size_t r = 0; r < rows; r++) UNROLL for (size_t v = 0; v < tiles; v++) sums[r][v] = vector_zero();
    for (size_t i = 0; i < s->width; i++) {
        UNROLL for (size_t v = 0; v < tiles; v++)
            keys[v] = vector_at(half, s->keys, (tile + v) * tile_numbers + i * CACHE_TILE);
        UNROLL for (size_t r = 0; r < rows; r++) {
            VECTOR query = vector_all(s->queries[i * CACHE_ROWS + row + r]);
            UNROLL for (size_t v = 0; v < tiles; v++) sums[r][v] = vector_multiply_add(query, keys[v], sums[r][v]);
        }
    }
    UNROLL for (size_t r = 0; r < rows; r++) UNROLL for (size_t v = 0; v < tiles; v++)
        vector_store(s->scores + (row + r) * s->stride + (tile + v) * CACHE_TILE, sums[r][v]);
}

TARGET INLINE void score_tiles(const bool half, const cache_scores *s, size_t row, const size_t rows) {
    size_t tile = 0;
    for (; tile + BLOCK_VECTORS <= s->tiles; tile += BLOCK_VECTORS)
        score_block(half, s, row, rows, tile, BLOCK_VECTORS);
    for (; tile < s->tiles; tile++) score_block(half, s, row, rows, tile, 1);
}

TARGET INLINE void score_rows(const bool half, const cache_scores *s) {
    size_t row = 0;
    for (; row + BLOCK_ROWS <= s->rows; row += BLOCK_ROWS) score_tiles(half, s, row, BLOCK_ROWS);
    for (; row + 3 <= s->rows; row += 3) score_tiles(half, s, row, 3);
    for (; row < s->rows; row++) score_tiles(half, s, row, 1);
}

// Sums of rows [row, row + rows) in columns [col, col + 16 * vectors).
TARGET INLINE void value_block(const bool half, const cache_values *v, size_t row, const size_t rows, size_t col,
                               const size_t vectors) {
    VECTOR sums[BLOCK_ROWS][BLOCK_VECTORS], values[BLOCK_VECTORS];
    UNROLL for (size_t r = 0; r < rows; r++) UNROLL for (size_t i = 0; i < vectors; i++)
        sums[r][i] = vector_load(v->sums + (row + r) * v->sum_stride + col + i * CACHE_TILE);
    for (size_t t = 0; t < v->count; t++) {
        UNROLL for (size_t i = 0; i < vectors; i++)
            values[i] = vector_at(half, v->values, t * v->width + col + i * CACHE_TILE);
        UNROLL for (size_t r = 0; r < rows; r++) {
            VECTOR weight = vector_all(v->weights[(row + r) * v->stride + t]);
            UNROLL for (size_t i = 0; i < vectors; i++) sums[r][i] = vector_multiply_add(weight, values[i], sums[r][i]);
        }
    }
    UNROLL for (size_t r = 0; r < rows; r++) UNROLL for (size_t i = 0; i < vectors; i++)
        vector_store(v->sums + (row + r) * v->sum_stride + col + i * CACHE_TILE, sums[r][i]);
}

// The columns of a width that is no multiple of 16: a row at a time is copied.
TARGET INLINE void value_rest(const bool half, const cache_values *v, size_t col) {
    const size_t size = half ? sizeof(uint16_t) : sizeof(float);
    float copy[CACHE_TILE] = {0};  // of either kind of number
    for (size_t t = 0; t < v->count; t++) {
        memcpy(copy, (const char *)v->values + (t * v->width + col) * size, (v->width - col) * size);
        VECTOR values = vector_at(half, copy, 0);
        for (size_t r = 0; r < v->rows; r++) {
            float *sums = v->sums + r * v->sum_stride + col;
            vector_store(sums,
                         vector_multiply_add(vector_all(v->weights[r * v->stride + t]), values, vector_load(sums)));
        }
    }
}

TARGET INLINE void value_columns(const bool half, const cache_values *v, size_t row, const size_t rows) {
    size_t col = 0;
    for (; col + BLOCK_VECTORS * CACHE_TILE <= v->width; col += BLOCK_VECTORS * CACHE_TILE)
        value_block(half, v, row, rows, col, BLOCK_VECTORS);
    for (; col + CACHE_TILE <= v->width; col += CACHE_TILE) value_block(half, v, row, rows, col, 1);
}

TARGET INLINE void value_rows(const bool half, const cache_values *v) {
    size_t row = 0;
    for (; row + BLOCK_ROWS <= v->rows; row += BLOCK_ROWS) value_columns(half, v, row, BLOCK_ROWS);
    for (; row + 3 <= v->rows; row += 3) value_columns(half, v, row, 3);
    for (; row < v->rows; row++) value_columns(half, v, row, 1);
    if (v->width % CACHE_TILE) value_rest(half, v, v->width / CACHE_TILE * CACHE_TILE);
}

TARGET static void PREFIX(scores)(const cache_scores *s) { score_rows(false, s); }
TARGET static void PREFIX(scores_half)(const cache_scores *s) { score_rows(true, s); }
TARGET static void PREFIX(values)(const cache_values *v) { value_rows(false, v); }
TARGET static void PREFIX(values_half)(const cache_values *v) { value_rows(true, v); }
