#include "tensor/gemm.h"

// Large enough that packing the operands costs little beside the product, small enough to share a product among threads.
enum { TILE_ROWS = 256, TILE_COLS = 512, TILE_STEP = 16 };

typedef struct gemm_cut {
    const tensor_gemm *g;
    size_t rows, cols;  // of a tile
    size_t tiles_across;
} gemm_cut;

// Nearly equal pieces of at most `most`, a multiple of the vector width.
static size_t gemm_piece(size_t count, size_t most) {
    size_t pieces = (count + most - 1) / most;
    size_t size = (count + pieces - 1) / pieces;
    return (size + TILE_STEP - 1) / TILE_STEP * TILE_STEP;
}

static size_t least(size_t a, size_t b) { return a < b ? a : b; }

static void gemm_task(void *context, size_t index) {
    const gemm_cut *cut = context;
    const tensor_gemm *g = cut->g;
    size_t row = index / cut->tiles_across * cut->rows, col = index % cut->tiles_across * cut->cols;
    tensor_gemm tile = *g;
    tile.m = least(cut->rows, g->m - row);
    tile.n = least(cut->cols, g->n - col);
    tile.a.at += g->a.transposed ? row : row * g->a.stride;
    tile.b.at += g->b.transposed ? col * g->b.stride : col;
    tile.c += row * g->c_stride + col;
    tensor_gemm_tile(&tile);
}

void tensor_gemm_run(tensor_pool *pool, const tensor_gemm *g) {
    if (g->m == 0 || g->n == 0) return;
    gemm_cut cut = {g, gemm_piece(g->m, TILE_ROWS), gemm_piece(g->n, TILE_COLS), 0};
    cut.tiles_across = (g->n + cut.cols - 1) / cut.cols;
    size_t tiles_down = (g->m + cut.rows - 1) / cut.rows;
    tensor_pool_run(pool, tiles_down * cut.tiles_across, gemm_task, &cut);
}
