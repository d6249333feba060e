// Matrix products of fp32 numbers that are split into three bf16 parts, for processors with bf16
// tile instructions.
//
// x = high + middle + low. Each part is the nearest bf16 to the remainder of x (halves away from
// zero). The split is exact unless x is below 2^-102 (parts and sums below 2^-126 count as zero) or
// above the largest bf16 (then the result is not a number, as for infinity). Six of the nine
// products of parts are summed in fp32. The other three are each below 2^-25 of |x y|, less than
// the rounding of x y in fp32. So the error is that of a sum in fp32. The sums of gemm_kernels.h,
// in blocks, have a smaller error where k is above about 2,000. The bits differ from those of
// gemm_kernels.h, so a product is split only on request (tensor_gemm.fastest).
//
// Every element of c begins as zero or as the addend, and goes through k in steps of 32, in order.
// Within a step the products of two parts are summed for all of k before those of the next two:
// high high, low high, middle high, middle middle, high middle, high low. So here, too, the bits
// depend on values and k alone.
#ifndef BRAID_TENSOR_CPU_GEMM_SPLIT_H
#define BRAID_TENSOR_CPU_GEMM_SPLIT_H

#include "tensor/gemm.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    SPLIT_LINES = 16,  // rows of a tile of a, columns of a tile of b
    SPLIT_STEP = 32,   // numbers of k in a tile
    SPLIT_HALF = SPLIT_STEP / 2,
    SPLIT_TILE = SPLIT_LINES * SPLIT_STEP,  // elements of a tile
    SPLIT_PARTS = 3,
    SPLIT_EDGE = 2 * SPLIT_LINES,                        // rows and columns of c that a kernel computes at a time
    SPLIT_PANEL = SPLIT_EDGE * SPLIT_STEP * SPLIT_PARTS  // elements of a panel, per step of k
};

// Which numbers of the source are adjacent in memory.
typedef enum split_order {
    SPLIT_ALONG,  // consecutive k of one line
    SPLIT_ACROSS  // consecutive lines of one k
} split_order;

// Up to 32 lines, which are rows of a or columns of b, with `depth` numbers each.
typedef struct split_source {
    const float *at;
    size_t stride;
    split_order order;
    size_t lines, depth;
} split_source;

typedef struct split_block {
    size_t steps;
    const uint16_t *a, *b;  // one packed panel each
    float *c;               // [SPLIT_EDGE, SPLIT_EDGE]
    size_t c_stride;
    const float *add;     // addend with the layout of c, may be c; NULL: zero
    const float *c_next;  // c of the next block, prefetched
} split_block;

// A panel is 32 lines; missing lines and numbers beyond the depth are zero. For each step and part
// it has two tiles of 16 lines. A tile holds the pairs of k = i and 16 + i of the step: at
// [line][i] in a tile of a, at [i][line] in a tile of b.
typedef struct split_kernels {
    const char *name;
    bool (*works_here)(void);
    void (*pack_a)(const split_source *from, uint16_t *to);
    void (*pack_b)(const split_source *from, uint16_t *to);
    void (*begin)(void);  // called before and after a thread multiplies
    void (*end)(void);
    void (*product)(const split_block *block);
} split_kernels;

enum { SPLIT_GROUP = 8 * SPLIT_EDGE };  // rows of a that are packed together

// True if this product is split on this processor; that depends on `fastest` and on the depth.
bool gemm_splits(const tensor_gemm *g);
const split_kernels *split_kernels_here(void);  // NULL: none

// tensor_gemm_tile, tensor_gemm_pack (task `index` of split_pack_tasks) and tensor_gemm_some_rows
// with split kernels.
void split_tile_by(const split_kernels *kernels, const tensor_gemm *g);
size_t split_packed(size_t n, size_t k);  // floats
size_t split_pack_tasks(const tensor_gemm *g);
void split_pack(const split_kernels *kernels, const tensor_gemm *g, float *packed, size_t index);
void split_some_rows(const split_kernels *kernels, const tensor_gemm *g, const tensor_gemm_rows *rows, size_t first,
                     size_t count);

extern const split_kernels split_amx;

#endif
