// A product cut into tiles that threads share.
#include "tensor/gemm.h"

#include "tensor/cpu/gemm_kernels.h"
#include "tensor/sizes.h"

typedef struct gemm_cut {
    const tensor_gemm *g;
    size_t rows, cols;  // elements of a tile
    size_t tiles_across;
} gemm_cut;

// Tiles of this size have a small packing overhead. They are smaller when there would be too few
// for all threads.
enum { TILE_ROWS = 512, TILE_ROWS_LEAST = 128, TILE_COLS = 384, TILES_PER_THREAD = 4 };

static void gemm_task(void *context, size_t index) {
    const gemm_cut *cut = context;
    const tensor_gemm *g = cut->g;
    size_t row = index / cut->tiles_across * cut->rows, col = index % cut->tiles_across * cut->cols;
    tensor_gemm part = *g;
    part.m = size_least(cut->rows, g->m - row);
    part.n = size_least(cut->cols, g->n - col);
    part.a.at += g->a.transposed ? row : row * g->a.stride;
    part.b.at += g->b.transposed ? col * g->b.stride : col;
    part.c += row * g->c_stride + col;
    if (g->more) part.more += row * g->c_stride + col;
    tensor_gemm_tile(&part);
}

void tensor_gemm_run(tensor_pool *pool, const tensor_gemm *g) {
    if (g->m == 0 || g->n == 0) return;
    gemm_cut cut = {g, g->m, g->n, 1};
    size_t threads = tensor_pool_threads(pool), tiles = 1;
    if (threads > 1) {
        cut.cols = size_even(g->n, TILE_COLS, PANEL_COLS);
        cut.tiles_across = size_pieces(g->n, cut.cols);
        for (size_t rows = TILE_ROWS; rows >= TILE_ROWS_LEAST && tiles < TILES_PER_THREAD * threads; rows /= 2) {
            cut.rows = size_even(g->m, rows, PANEL_ROWS);
            tiles = size_pieces(g->m, cut.rows) * cut.tiles_across;
        }
    }
    tensor_pool_run(pool, tiles, gemm_task, &cut);
}
