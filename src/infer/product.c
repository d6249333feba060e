// Matrix products with the weights of a file.
#include "infer/inside.h"

#include "tensor/gemm.h"
#include "tensor/sizes.h"

#include <stdlib.h>

enum { TILE_FLOATS = 1 << 15, TILE_ROWS = 64, MOST_PRODUCTS = 3, BIAS_FLOATS = 1 << 14 };

// --- exact: each thread converts some rows of a matrix to fp32 and multiplies them with all rows of x

static size_t tile_rows(size_t cols) { return size_clamp(TILE_FLOATS / cols, 1, TILE_ROWS); }

typedef struct product_job {
    engine *e;
    const float *x;
    size_t rows;
    const engine_product *products;
    size_t count;
} product_job;

static size_t tiles_of(const engine_product *p) { return size_pieces(p->matrix->w.rows, tile_rows(p->matrix->w.cols)); }

static void product_tile(void *context, size_t index) {
    const product_job *job = context;
    const engine_product *p = job->products;
    for (; index >= tiles_of(p); p++) index -= tiles_of(p);
    const weight_matrix *w = &p->matrix->w;
    size_t each = tile_rows(w->cols), first = index * each, count = size_least(each, w->rows - first);
    float *tile = (float *)job->e->product_scratch.at + tensor_pool_slot() * size_up(each * w->cols, INFER_ALIGNMENT);
    weight_rows(w, first, count, tile);
    tensor_gemm g = {.m = job->rows,
                     .n = count,
                     .k = w->cols,
                     .a = tensor_plain(job->x, w->cols),
                     .b = tensor_transposed(tile, w->cols),
                     .c = p->y + first,
                     .c_stride = p->stride,
                     .mode = GEMM_SET};
    tensor_gemm_tile(&g);
}

static bool is_exact(const engine *e, const engine_matrix *m) {
    return !m->fits || (e->exact && weight_block_elements(m->w.type) > 1);
}

// --- both

static size_t scratch_bytes(const engine *e, const engine_matrix *m, size_t rows) {
    size_t cols = m->w.cols;
    if (!is_exact(e, m)) return tensor_quantised_scratch(e->pool, rows, cols);
    return tensor_pool_threads(e->pool) * size_up(tile_rows(cols) * cols, INFER_ALIGNMENT) * sizeof(float);
}

braid_err product_reserve(engine *e, const engine_matrix *m, size_t rows, braid_error *error) {
    if (m->w.rows == 0) return BRAID_OK;
    size_t bytes = size_up(scratch_bytes(e, m, rows), INFER_ALIGNMENT);
    if (bytes <= e->product_scratch.bytes || memory_grow(&e->product_scratch, bytes)) return BRAID_OK;
    return braid_fail(error, BRAID_MEMORY, "no memory for the products of %zu tokens", rows);
}

static void add_bias(const void *context, size_t begin, size_t end) {
    const engine_product *p = context;
    for (size_t r = begin; r < end; r++)
        for (size_t i = 0; i < p->matrix->w.rows; i++) p->y[r * p->stride + i] += p->matrix->bias[i];
}

void product_run(engine *e, const float *x, size_t rows, const engine_product *products, size_t count) {
    tensor_quantised_product rounded[MOST_PRODUCTS];
    size_t rounded_count = 0;
    if (rows == 0) return;
    for (size_t i = 0; i < count; i++) {
        const engine_product *p = &products[i];
        if (!is_exact(e, p->matrix)) {
            rounded[rounded_count++] = (tensor_quantised_product){&p->matrix->prepared, p->y, p->stride, false};
            continue;
        }
        product_job job = {e, x, rows, p, 1};
        tensor_pool_run(e->pool, tiles_of(p), product_tile, &job);
    }
    size_t cols = products->matrix->w.cols;
    if (rounded_count > 0)
        tensor_quantised_run(e->pool, x, cols, rows, cols, rounded, rounded_count, e->product_scratch.at);
    for (size_t i = 0; i < count; i++)
        if (products[i].matrix->bias)
            tensor_pool_ranges(e->pool, rows, BIAS_FLOATS / products[i].matrix->w.rows + 1, add_bias, &products[i]);
    for (size_t i = 0; i < count; i++) adapters_run(e, x, &products[i]);
}
