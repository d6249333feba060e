// Products of numbers split into three parts of bf16 each, for processors that multiply whole tiles of those.
//
// x = high + middle + low, each the nearest bf16 to what the parts before it leave of x (halves away from zero): nothing
// is lost unless x is below 2^-102 (parts and sums below 2^-126 count as zero) or above the largest bf16 (no number then,
// as infinity gives none). Of the nine products of parts six are summed, in fp32; the other three are each below 2^-25 of
// |x y|, less than fp32 rounds x y by. So the error is that of a sum in fp32; that of gemm_kernels.h, in blocks, is smaller
// where k is above some 2,000. The bits are of their own: only whoever asks for them gets such products
// (tensor_gemm.fastest).
//
// Every element of c begins as zero or as what is added to, and goes through k in steps of 32, in order. Within a step the
// products of two parts are summed for all of k before the next two's: high high, low high, middle high, middle middle,
// high middle, high low. So bits follow from values and k alone here, too.
#ifndef BRAID_TENSOR_CPU_GEMM_SPLIT_H
#define BRAID_TENSOR_CPU_GEMM_SPLIT_H

#include "tensor/gemm.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    SPLIT_LINES = 16,  // rows of a tile of a, columns of one of b
    SPLIT_STEP = 32,   // of k in a tile
    SPLIT_HALF = SPLIT_STEP / 2,
    SPLIT_TILE = SPLIT_LINES * SPLIT_STEP,  // elements of a tile
    SPLIT_PARTS = 3,
    SPLIT_EDGE = 2 * SPLIT_LINES,                        // a kernel makes so many rows and columns of c at a time
    SPLIT_PANEL = SPLIT_EDGE * SPLIT_STEP * SPLIT_PARTS  // elements of a panel, for each step of k
};

// What lies side by side in memory.
typedef enum split_order {
    SPLIT_ALONG,  // numbers of one line, for k after k
    SPLIT_ACROSS  // numbers of one k, line after line
} split_order;

// Up to 32 rows of a or columns of b, for all of `depth`.
typedef struct split_source {
    const float *at;
    size_t stride;
    split_order order;
    size_t lines, depth;
} split_source;

typedef struct split_block {
    size_t steps;
    const uint16_t *a, *b;  // a panel each
    float *c;               // [SPLIT_EDGE, SPLIT_EDGE]
    size_t c_stride;
    const float *add;     // where c begins, lies like c and may be c; NULL: zero
    const float *c_next;  // that of the next block, asked for meanwhile
} split_block;

// A panel is 32 lines, lines that the source has not and what is beyond its depth being zero: for each step and part two tiles, of 16 lines
// each. In a tile lie pairs of k = i and 16 + i of the step: at [line][i] in one of a, at [i][line] in one of b.
typedef struct split_kernels {
    const char *name;
    bool (*works_here)(void);
    void (*pack_a)(const split_source *from, uint16_t *to);
    void (*pack_b)(const split_source *from, uint16_t *to);
    void (*begin)(void);  // before and after a thread multiplies
    void (*end)(void);
    void (*product)(const split_block *block);
} split_kernels;

enum { SPLIT_GROUP = 8 * SPLIT_EDGE };  // rows of a that are packed together

// Whether such a product is split, here: its depth alone decides.
bool gemm_splits(const tensor_gemm *g);
const split_kernels *split_kernels_here(void);  // NULL: none

// tensor_gemm_tile, tensor_gemm_pack (what belongs to task `index` of split_pack_tasks) and tensor_gemm_some_rows, by these kernels.
void split_tile_by(const split_kernels *kernels, const tensor_gemm *g);
size_t split_packed(size_t n, size_t k);  // floats
size_t split_pack_tasks(const tensor_gemm *g);
void split_pack(const split_kernels *kernels, const tensor_gemm *g, float *packed, size_t index);
void split_some_rows(const split_kernels *kernels, const tensor_gemm *g, const tensor_gemm_rows *rows, size_t first,
                     size_t count);

extern const split_kernels split_amx;

#endif
