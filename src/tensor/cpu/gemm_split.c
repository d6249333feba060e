// How a split product is divided: as in gemm.c, but both operands are always packed, because
// packing splits the numbers.
#include "tensor/cpu/gemm_split.h"

#include "tensor/cpu/gemm_kernels.h"

#include <string.h>

enum {
    // steps in a block of k: a panel of a stays in the first-level cache for all panels of b
    DEPTH = 4 * SPLIT_STEP,
    BLOCK_COLS = 32 * SPLIT_EDGE,  // columns of b that are packed together: 786 KB
    TASK_COLS = 4 * SPLIT_EDGE
};

bool gemm_splits(const tensor_gemm *g) { return g->fastest && g->k >= SPLIT_STEP && split_kernels_here(); }

const split_kernels *split_kernels_here(void) {
#if defined(__x86_64__)
    if (split_amx.works_here()) return &split_amx;
#endif
    return NULL;
}

static size_t steps_of(size_t depth) { return size_pieces(depth, SPLIT_STEP); }

// --- packing

static split_source lines_of(const tensor_matrix *from, bool of_a, size_t line, size_t lines, size_t first,
                             size_t depth) {
    bool along = of_a != from->transposed;
    const float *at = from->at + (along ? line * from->stride + first : first * from->stride + line);
    return (split_source){at, from->stride, along ? SPLIT_ALONG : SPLIT_ACROSS, lines, depth};
}

// Packs rows [row, row + rows) of a.
static void pack_rows(const split_kernels *kernels, const tensor_gemm *g, size_t row, size_t rows, size_t first,
                      size_t depth, uint16_t *to) {
    for (size_t done = 0; done < rows; done += SPLIT_EDGE, to += steps_of(depth) * SPLIT_PANEL) {
        split_source from = lines_of(&g->a, true, row + done, size_least(SPLIT_EDGE, rows - done), first, depth);
        kernels->pack_a(&from, to);
    }
}

static void pack_cols(const split_kernels *kernels, const tensor_gemm *g, size_t col, size_t cols, size_t first,
                      size_t depth, uint16_t *to) {
    for (size_t done = 0; done < cols; done += SPLIT_EDGE, to += steps_of(depth) * SPLIT_PANEL) {
        split_source from = lines_of(&g->b, false, col + done, size_least(SPLIT_EDGE, cols - done), first, depth);
        kernels->pack_b(&from, to);
    }
}

// --- multiplying

// A product at an edge of c: computed in a full-size buffer, of which rows * cols elements are
// copied.
static void edge_product(const split_kernels *kernels, split_block block, size_t rows, size_t cols) {
    float whole[SPLIT_EDGE * SPLIT_EDGE] = {0}, *c = block.c;
    size_t stride = block.c_stride, bytes = cols * sizeof *c;
    for (size_t i = 0; block.add && i < rows; i++) memcpy(whole + i * SPLIT_EDGE, block.add + i * stride, bytes);
    block.c = whole;
    if (block.add) block.add = whole;
    block.c_next = whole;
    block.c_stride = SPLIT_EDGE;
    kernels->product(&block);
    for (size_t i = 0; i < rows; i++) memcpy(c + i * stride, whole + i * SPLIT_EDGE, bytes);
}

// c[rows, cols] = packed rows [row, row + rows) of a times packed columns [col, col + cols) of b,
// plus the addend.
static void multiply(const split_kernels *kernels, const tensor_gemm *g, const uint16_t *a, size_t row, size_t rows,
                     const uint16_t *b, size_t col, size_t cols, size_t first, size_t depth) {
    const float *add = gemm_added_to(g, first);
    size_t panel = steps_of(depth) * SPLIT_PANEL;
    for (size_t i = 0; i < rows; i += SPLIT_EDGE, a += panel)
        for (size_t j = 0; j < cols; j += SPLIT_EDGE) {
            size_t at = (row + i) * g->c_stride + col + j;
            split_block block = {.steps = steps_of(depth),
                                 .a = a,
                                 .b = b + j / SPLIT_EDGE * panel,
                                 .c = g->c + at,
                                 .c_stride = g->c_stride};
            block.add = add ? add + at : NULL;
            block.c_next = block.c + (j + SPLIT_EDGE < cols ? SPLIT_EDGE : SPLIT_EDGE * g->c_stride - j);
            size_t high = size_least(SPLIT_EDGE, rows - i), wide = size_least(SPLIT_EDGE, cols - j);
            if (high == SPLIT_EDGE && wide == SPLIT_EDGE)
                kernels->product(&block);
            else
                edge_product(kernels, block, high, wide);
        }
}

void split_tile_by(const split_kernels *kernels, const tensor_gemm *g) {
    _Alignas(64) uint16_t a[SPLIT_GROUP * DEPTH * SPLIT_PARTS], b[BLOCK_COLS * DEPTH * SPLIT_PARTS];
    kernels->begin();
    for (size_t col = 0; col < g->n; col += BLOCK_COLS)
        for (size_t first = 0; first < g->k; first += DEPTH) {
            size_t depth = size_least(DEPTH, g->k - first), cols = size_least(BLOCK_COLS, g->n - col);
            pack_cols(kernels, g, col, cols, first, depth, b);
            for (size_t row = 0; row < g->m; row += SPLIT_GROUP) {
                size_t rows = size_least(SPLIT_GROUP, g->m - row);
                pack_rows(kernels, g, row, rows, first, depth, a);
                multiply(kernels, g, a, row, rows, b, col, cols, first, depth);
            }
        }
    kernels->end();
}

// --- by rows

size_t split_packed(size_t n, size_t k) {
    return size_up(n, SPLIT_EDGE) * size_up(k, SPLIT_STEP) * SPLIT_PARTS * sizeof(uint16_t) / sizeof(float);
}

// Address of the packed block of k that begins at `first`, from column `col` on.
static uint16_t *packed_at(const tensor_gemm *g, float *packed, size_t first, size_t col) {
    size_t steps = steps_of(size_least(DEPTH, g->k - first));
    return (uint16_t *)(void *)packed + SPLIT_PARTS * (first * size_up(g->n, SPLIT_EDGE) + col * steps * SPLIT_STEP);
}

size_t split_pack_tasks(const tensor_gemm *g) { return size_pieces(g->n, TASK_COLS) * size_pieces(g->k, DEPTH); }

void split_pack(const split_kernels *kernels, const tensor_gemm *g, float *packed, size_t index) {
    size_t across = size_pieces(g->n, TASK_COLS), col = index % across * TASK_COLS, first = index / across * DEPTH;
    pack_cols(kernels, g, col, size_least(TASK_COLS, g->n - col), first, size_least(DEPTH, g->k - first),
              packed_at(g, packed, first, col));
}

void split_some_rows(const split_kernels *kernels, const tensor_gemm *g, const tensor_gemm_rows *rows, size_t first,
                     size_t count) {
    _Alignas(64) uint16_t a[SPLIT_GROUP * DEPTH * SPLIT_PARTS];
    kernels->begin();
    for (size_t row = first; row < first + count; row += SPLIT_GROUP) {
        size_t here = size_least(SPLIT_GROUP, first + count - row);
        if (rows->before) rows->before(rows->context, row, here);
        for (size_t k = 0; k < g->k; k += DEPTH) {
            size_t depth = size_least(DEPTH, g->k - k);
            pack_rows(kernels, g, row, here, k, depth, a);
            multiply(kernels, g, a, row, here, packed_at(g, rows->packed, k, 0), 0, g->n, k, depth);
        }
        if (rows->after) rows->after(rows->context, row, here);
    }
    kernels->end();
}
