// The innermost loops of matrix products, one set per kind of processor.
//
// Every element of c is a sum over k in blocks of gemm_depth(k). Within a block it is a chain of
// fused multiply-adds from zero, in the order of k; blocks are added in order. So the bits depend
// on values and k alone, not on tiles, threads or vector width.
#ifndef BRAID_TENSOR_CPU_GEMM_KERNELS_H
#define BRAID_TENSOR_CPU_GEMM_KERNELS_H

#include "tensor/gemm.h"
#include "tensor/sizes.h"

#include <stdbool.h>
#include <stddef.h>

// A kernel computes c[PANEL_ROWS, 16, 32 or 48] at a time: as many sums as 32 registers hold.
enum { PANEL_ROWS = 8, PANEL_STEP = 16, PANEL_STEPS = 3, PANEL_COLS = PANEL_STEP * PANEL_STEPS, DEPTH_MOST = 384 };
enum { PANELS_MOST = 8 };  // consecutive panels of a that a kernel processes in one call

typedef struct gemm_panel {
    size_t depth;
    const float *a;  // element (row, p) at a[row * a_row + p * a_step]
    size_t a_row, a_step;
    const float *b;  // row p of its columns at b + p * b_step
    size_t b_step;
    // offset from one strip of columns (gemm_kernels.strips) to the next; 0: strips are adjacent
    size_t b_next;
    // Where kernels with `keeps` store packed copies of what they read: of a (a_row is 1) and of b.
    // NULL: nowhere.
    float *keep_a, *keep_b;
    float *c;
    size_t c_stride;
    const float *add;  // c = a b + add, with the layout of c; may be c itself. NULL: c = a b
    // Addresses to prefetch while the kernel multiplies: prefetch[i * prefetch_step] for i <
    // prefetch_count. Kernels may prefetch fewer.
    const float *prefetch;
    size_t prefetch_step, prefetch_count;
} gemm_panel;

typedef struct gemm_kernels {
    const char *name;
    bool (*works_here)(void);
    bool keeps;                              // can pack its operands while it multiplies
    size_t rows_in_place, columns_in_place;  // width of c up to which unpacked rows or columns of a are faster
    // The number of strips in a packed panel of b of 1, 2 or 3 times PANEL_STEP columns; strips are
    // contiguous.
    size_t strips[PANEL_STEPS];
    // Kernels for panels of 1, 2 or 3 times PANEL_STEP columns. Multiplies `count` <= PANELS_MOST
    // panels of a with one panel of b. Only the first may have an unpacked b and keep_b. Rows of c
    // and add continue from panel to panel.
    void (*product[PANEL_STEPS])(const gemm_panel *panels, size_t count);
    // to[i * to_step + r] = from[r * from_stride + i] for r < 8 and i < count: transposes 8 rows
    void (*transpose)(const float *from, size_t from_stride, size_t count, float *to, size_t to_step);
    // Copies `chunks` chunks of 8 floats from each of `rows` rows: chunk i of row r goes to to + i
    // * chunk_step + r * row_step.
    void (*copy)(const float *from, size_t from_stride, size_t rows, size_t chunks, float *to, size_t chunk_step,
                 size_t row_step);
} gemm_kernels;

// In order of speed; the last one works on every processor.
#if defined(__x86_64__)
enum { GEMM_KERNELS = 3 };
#elif defined(__aarch64__)
enum { GEMM_KERNELS = 2 };
#else
enum { GEMM_KERNELS = 1 };
#endif
extern const gemm_kernels *const gemm_kernels_all[GEMM_KERNELS];

// Blocks of k of nearly equal size.
static inline size_t gemm_depth(size_t k) { return size_even(k, DEPTH_MOST, 1); }

// Width of the next panel, in steps, when `left` steps remain: three at a time, but the last four
// as two and two.
static inline size_t gemm_panel_steps(size_t left) {
    return left == 4 ? 2 : left < PANEL_STEPS ? left : (size_t)PANEL_STEPS;
}

// The fastest kernels that this processor supports.
const gemm_kernels *gemm_kernels_here(void);

// The addend of the block of k that begins at `first`; NULL: none.
static inline const float *gemm_added_to(const tensor_gemm *g, size_t first) {
    if (first > 0) return g->c;
    if (g->mode == GEMM_SET) return NULL;
    return g->more ? g->more : g->c;
}

// tensor_gemm_tile with the given kernels.
void gemm_tile_by(const gemm_kernels *kernels, const tensor_gemm *g);

#endif
