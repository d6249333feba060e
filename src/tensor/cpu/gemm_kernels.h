// What a matrix product is made of: the innermost loop, once for each kind of processor.
//
// Every element of c is a sum over k in blocks of gemm_depth(k): within a block a chain of fused multiply-adds from zero,
// in the order of k; blocks are added in order. So its bits follow from values and k alone: not from the tiles, the threads or
// the width of the vectors.
#ifndef BRAID_TENSOR_CPU_GEMM_KERNELS_H
#define BRAID_TENSOR_CPU_GEMM_KERNELS_H

#include "tensor/gemm.h"
#include "tensor/sizes.h"

#include <stdbool.h>
#include <stddef.h>

// A kernel makes PANEL_ROWS x (16, 32 or 48) elements of c at a time: as many sums as 32 registers hold.
enum { PANEL_ROWS = 8, PANEL_STEP = 16, PANEL_STEPS = 3, PANEL_COLS = PANEL_STEP * PANEL_STEPS, DEPTH_MOST = 384 };
enum { PANELS_MOST = 8 };  // of a, one under the other, that a kernel takes at once

typedef struct gemm_panel {
    size_t depth;
    const float *a;  // element (row, p) at a[row * a_row + p * a_step]
    size_t a_row, a_step;
    const float *b;  // row p of its columns at b + p * b_step
    size_t b_step;
    size_t b_next;  // from one strip of columns (gemm_kernels) to the next; 0: they are neighbours
    // NULL, or where kernels that keep leave packed what they read of a (a_row is 1), of b, for the products that follow
    float *keep_a, *keep_b;
    float *c;
    size_t c_stride;
    const float *add;  // c = a b + this, which lies like c and may be c; NULL: c = a b
    // What is read later, asked for while the kernel multiplies: soon[i * soon_step], i < soon_count. Kernels may ask for less.
    const float *soon;
    size_t soon_step, soon_count;
} gemm_panel;

typedef struct gemm_kernels {
    const char *name;
    bool (*works_here)(void);
    bool keeps;                              // can pack what it reads while it multiplies
    size_t rows_in_place, columns_in_place;  // columns of c up to which those of a are best read where they lie
    // By the number of steps of PANEL_STEP columns, less one: strips that a packed panel of b lies in, one behind the other
    size_t strips[PANEL_STEPS];
    // By the same: `count` <= PANELS_MOST panels of a with one of b, which only the first may find elsewhere and keep. They lie one
    // under another: c and add go on from panel to panel
    void (*product[PANEL_STEPS])(const gemm_panel *panels, size_t count);
    // to[i * to_step + r] = from[r * from_stride + i] for r < 8 and i < count
    void (*turn)(const float *from, size_t from_stride, size_t count, float *to, size_t to_step);
    // `chunks` chunks of 8 from each of `rows` rows: chunk i of row r to to + i * chunk_step + r * row_step
    void (*copy)(const float *from, size_t from_stride, size_t rows, size_t chunks, float *to, size_t chunk_step,
                 size_t row_step);
} gemm_kernels;

// The fastest first; the last works everywhere.
#if defined(__x86_64__)
enum { GEMM_KERNELS = 3 };
#elif defined(__aarch64__)
enum { GEMM_KERNELS = 2 };
#else
enum { GEMM_KERNELS = 1 };
#endif
extern const gemm_kernels *const gemm_kernels_all[GEMM_KERNELS];

// Nearly equal blocks of k.
static inline size_t gemm_depth(size_t k) { return size_even(k, DEPTH_MOST, 1); }

// Of the next panel when so many steps are left: three, but two and two rather than three and one at the end.
static inline size_t gemm_panel_steps(size_t left) {
    return left == 4 ? 2 : left < PANEL_STEPS ? left : (size_t)PANEL_STEPS;
}

// The fastest that this processor can run.
const gemm_kernels *gemm_kernels_here(void);

// What the block of k that begins at `first` is added to; NULL: nothing.
static inline const float *gemm_added_to(const tensor_gemm *g, size_t first) {
    if (first > 0) return g->c;
    if (g->mode == GEMM_SET) return NULL;
    return g->more ? g->more : g->c;
}

// tensor_gemm_tile by these kernels.
void gemm_tile_by(const gemm_kernels *kernels, const tensor_gemm *g);

#endif
