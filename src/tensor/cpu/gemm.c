// How a product is divided: among threads into tiles; a tile into blocks of k and of columns, with
// the packed part of b in the second-level cache; a block into groups of rows. None of it affects
// the bits (gemm_kernels.h).
//
// Operands that will be packed next are prefetched while the kernels multiply, because packing
// would otherwise wait for memory.
#include "tensor/gemm.h"

#include "tensor/cpu/gemm_kernels.h"
#include "tensor/cpu/gemm_split.h"
#include "tensor/sizes.h"

#include <string.h>

enum {
    // columns of packed b: a block and a group fit into a second-level cache of 512 KB
    BLOCK_COLS = 3 * PANEL_COLS,
    BLOCK_FLOATS = DEPTH_MOST * BLOCK_COLS,  // 221 KB
    GROUP_ROWS = PANELS_MOST * PANEL_ROWS,   // rows of packed a: 98 KB
    ROWS_MOST = 16 * GROUP_ROWS,             // rows of a that stay packed for all blocks of b: 1.6 MB
    // rows of each strip before the next strip, so that cache lines that strips share are still
    // present
    PACK_ROWS = 16,
    LINE_FLOATS = 16,     // one cache line
    ALIAS_FLOATS = 1024,  // rows at this distance map to the same sets of the first-level cache
};

// A tile and the current position in it.
typedef struct tile {
    const gemm_kernels *kernels;
    const tensor_gemm *g;
    size_t first, depth;  // of k
    size_t col, cols;     // the current block of b
    size_t row, rows;     // the current group of rows of a
    size_t top, bottom;   // the rows for which one block of b is packed
    bool in_place;        // the kernels read the group unpacked
    bool already_packed;  // an earlier block of columns packed the groups already
    bool pack_on_read;    // the first kernel that reads the group packs it
    const float *add;     // [m, n] with the layout of c: added to the block's products; NULL: nothing
    float *a, *b;         // packed
} tile;

// Part of a block of b: columns [col, col + width) of the tile, of which `cols` exist; the rest is
// padding.
typedef struct panel {
    size_t col, cols, steps, width;
    bool pack_on_read;  // the first kernel that reads the panel packs it
    float *b;
} panel;

static panel panel_at(const tile *t, size_t done) {
    size_t left = size_pieces(t->cols - done, PANEL_STEP);
    panel p = {.col = t->col + done, .steps = gemm_panel_steps(left), .b = t->b + t->depth * done};
    p.width = p.steps * PANEL_STEP;
    p.cols = size_least(p.width, t->cols - done);
    return p;
}

// --- packing

// to[depth, width] = from[depth, stride], or the transpose of from[width, stride] if `transposed`.
// Only `count` <= `width` columns exist, the rest is zero. `width` is a multiple of 8.
static void pack(const gemm_kernels *kernels, const float *from, size_t stride, bool transposed, size_t depth,
                 size_t count, size_t width, float *to) {
    size_t whole = count / 8 * 8;
    for (size_t j = 0; transposed && j < whole; j += 8)
        kernels->transpose(from + j * stride, stride, depth, to + j, width);
    if (!transposed) kernels->copy(from, stride, depth, whole / 8, to, 8, width);
    if (whole == width) return;
    size_t right = transposed ? stride : 1, down = transposed ? 1 : stride;
    for (size_t p = 0; p < depth; p++)
        for (size_t j = whole; j < width; j++) to[p * width + j] = j < count ? from[p * down + j * right] : 0.0f;
}

static const float *source_of_b(const tile *t, size_t col) {
    const tensor_matrix *b = &t->g->b;
    return b->at + (b->transposed ? col * b->stride + t->first : t->first * b->stride + col);
}

static const float *source_of_a(const tile *t, size_t row) {
    const tensor_matrix *a = &t->g->a;
    return a->at + (a->transposed ? t->first * a->stride + row : row * a->stride + t->first);
}

static size_t strip_of(const tile *t, const panel *p) { return p->width / t->kernels->strips[p->steps - 1]; }

static void pack_panel(const tile *t, const panel *p) {
    const tensor_matrix *b = &t->g->b;
    size_t strip = strip_of(t, p), at_once = strip < p->width && !b->transposed ? PACK_ROWS : t->depth;
    for (size_t first = 0; first < t->depth; first += at_once)
        for (size_t col = 0; col < p->width; col += strip) {
            // transposed panels are packed in one pass
            const float *from = source_of_b(t, p->col + col) + first * b->stride;
            size_t count = size_least(strip, p->cols - col);
            size_t depth = size_least(at_once, t->depth - first);
            pack(t->kernels, from, b->stride, b->transposed, depth, count, strip,
                 p->b + t->depth * col + first * strip);
        }
}

// The packed group: [rows / PANEL_ROWS, depth, PANEL_ROWS].
static float *packed_a(const tile *t) { return t->a + (t->row - t->top) * t->depth; }

static void pack_group(const tile *t) {
    const tensor_matrix *a = &t->g->a;
    float *to = packed_a(t);
    size_t panels = a->transposed ? t->rows / PANEL_ROWS : 0;
    t->kernels->copy(source_of_a(t, t->row), a->stride, t->depth, panels, to, t->depth * PANEL_ROWS, PANEL_ROWS);
    for (size_t i = panels * PANEL_ROWS; i < t->rows; i += PANEL_ROWS)
        pack(t->kernels, source_of_a(t, t->row + i), a->stride, !a->transposed, t->depth,
             size_least(PANEL_ROWS, t->rows - i), PANEL_ROWS, to + i * t->depth);
}

// --- prefetching

// Cache lines to prefetch: `lines` per kernel call, line i at at + i * step.
typedef struct prefetch_plan {
    const float *at;
    size_t step, lines;
    size_t shift, calls;  // offset to the lines of the next call; number of calls left
} prefetch_plan;

// Prefetches `rows` rows of `floats` during kernel calls of `depth` steps each.
static prefetch_plan prefetch_rows(const float *from, size_t stride, size_t rows, size_t floats, size_t depth) {
    size_t lines = size_pieces(floats, LINE_FLOATS);
    if (stride != floats) return (prefetch_plan){from, stride, rows, LINE_FLOATS, lines};
    return (prefetch_plan){from, LINE_FLOATS, depth, depth * LINE_FLOATS, size_pieces(rows * lines, depth)};
}

// The tile position after this block of columns or of k; depth 0: none.
static tile next_block(const tile *t, size_t cols_most) {
    tile next = *t;
    next.col += t->cols;
    if (next.col < t->g->n) {
        next.cols = size_least(cols_most, t->g->n - next.col);
        next.already_packed = true;
        return next;
    }
    next.col = 0;
    next.cols = size_least(cols_most, t->g->n);
    next.already_packed = false;
    next.first += t->depth;
    next.depth = next.first < t->g->k ? size_least(t->depth, t->g->k - next.first) : 0;
    return next;
}

// Prefetches a group during kernel calls of `depth` steps each.
static prefetch_plan prefetch_group(const tile *t, size_t row, size_t depth) {
    const tensor_matrix *a = &t->g->a;
    if (row >= t->bottom || t->depth == 0) return (prefetch_plan){0};
    size_t rows = size_least(GROUP_ROWS, t->bottom - row), down = a->transposed ? t->depth : rows;
    if (t->already_packed) return prefetch_rows(t->a + (row - t->top) * t->depth, t->depth, rows, t->depth, depth);
    return prefetch_rows(source_of_a(t, row), a->stride, down, a->transposed ? rows : t->depth, depth);
}

static prefetch_plan prefetch_panel(const tile *t, size_t done, size_t depth) {
    const tensor_matrix *b = &t->g->b;
    if (done >= t->cols || t->depth == 0) return (prefetch_plan){0};
    panel p = panel_at(t, done);
    size_t down = b->transposed ? p.cols : t->depth;
    return prefetch_rows(source_of_b(t, p.col), b->stride, down, b->transposed ? t->depth : p.cols, depth);
}

// Assigns one kernel call's share of prefetches: of b first, then of a.
static void assign_prefetch(prefetch_plan *next_a, prefetch_plan *next_b, gemm_panel *product) {
    prefetch_plan *next = next_b->calls > 0 ? next_b : next_a;
    product->prefetch_count = 0;
    if (next->calls == 0) return;
    product->prefetch = next->at;
    product->prefetch_step = next->step;
    product->prefetch_count = next->lines;
    next->at += next->shift;
    next->calls--;
}

// --- multiplying

// A product at an edge of c: computed in a full-size buffer, of which rows * cols elements are
// copied.
static void edge_product(const tile *t, gemm_panel product, size_t rows, const panel *p) {
    float whole[PANEL_ROWS * PANEL_COLS] = {0}, *c = product.c;
    size_t stride = product.c_stride, bytes = p->cols * sizeof *c;
    for (size_t i = 0; product.add && i < rows; i++) memcpy(whole + i * PANEL_COLS, product.add + i * stride, bytes);
    product.c = whole;
    if (product.add) product.add = whole;
    product.c_stride = PANEL_COLS;
    t->kernels->product[p->steps - 1](&product, 1);
    for (size_t i = 0; i < rows; i++) memcpy(c + i * stride, whole + i * PANEL_COLS, bytes);
}

// Decides how kernels read the group. Unpacked rows are best, except at an edge of the matrix, or
// where rows map to the same cache sets, or where many panels of b read them again. Kernels that
// support it pack columns while they multiply (`keeps`).
static void begin_group(tile *t) {
    const tensor_matrix *a = &t->g->a;
    bool readable = t->rows % PANEL_ROWS == 0 && a->stride % ALIAS_FLOATS != 0;
    size_t limit = a->transposed ? t->kernels->columns_in_place : t->kernels->rows_in_place;
    t->in_place = readable && t->g->n <= limit;
    t->pack_on_read = t->kernels->keeps && readable && !t->in_place && a->transposed && !t->already_packed;
    if (!t->in_place && !t->pack_on_read && !t->already_packed) pack_group(t);
}

static void begin_panel(const tile *t, panel *p) {
    p->pack_on_read = t->kernels->keeps && !t->g->b.transposed && p->cols == p->width && t->rows >= PANEL_ROWS;
    if (!p->pack_on_read) pack_panel(t, p);
}

// c[rows, width] of the panel = or += a[rows, depth] b[depth, width].
static void multiply_panel(tile *t, const panel *p, prefetch_plan *next_a, prefetch_plan *next_b) {
    const tensor_gemm *g = t->g;
    bool from_source = t->in_place || t->pack_on_read;
    size_t right = g->a.transposed ? g->a.stride : 1, down = g->a.transposed ? 1 : g->a.stride;
    float *packed = packed_a(t);
    gemm_panel product = {.depth = t->depth, .a = packed, .a_row = 1, .a_step = PANEL_ROWS};
    product.c_stride = g->c_stride;
    if (from_source) {
        product.a = source_of_a(t, t->row);
        product.a_row = down;
        product.a_step = right;
    }
    gemm_panel panels[PANELS_MOST];
    size_t count = size_pieces(t->rows, PANEL_ROWS), whole = p->cols == p->width ? t->rows / PANEL_ROWS : 0;
    for (size_t i = 0; i < count; i++) {
        bool pack_on_read = p->pack_on_read && i == 0;
        product.b = pack_on_read ? source_of_b(t, p->col) : p->b;
        product.b_step = pack_on_read ? g->b.stride : strip_of(t, p);
        product.b_next = pack_on_read ? 0 : t->depth * strip_of(t, p);
        product.keep_b = pack_on_read ? p->b : NULL;
        product.keep_a = t->pack_on_read ? packed + i * PANEL_ROWS * t->depth : NULL;
        size_t at = (t->row + i * PANEL_ROWS) * g->c_stride + p->col;
        product.c = g->c + at;
        product.add = t->add ? t->add + at : NULL;
        assign_prefetch(next_a, next_b, &product);
        panels[i] = product;
        product.a += PANEL_ROWS * (from_source ? down : t->depth);
    }
    if (whole > 0) t->kernels->product[p->steps - 1](panels, whole);
    for (size_t i = whole; i < count; i++)
        edge_product(t, panels[i], size_least(PANEL_ROWS, t->rows - i * PANEL_ROWS), p);
    t->pack_on_read = false;
}

// The first group packs each panel of b. The last group prefetches the start of the next block.
static void multiply_block(tile *t, size_t cols_most) {
    tile after = next_block(t, cols_most);
    for (t->row = t->top; t->row < t->bottom; t->row += GROUP_ROWS) {
        t->rows = size_least(GROUP_ROWS, t->bottom - t->row);
        bool last = t->row + GROUP_ROWS >= t->bottom;
        prefetch_plan next_a = last ? prefetch_group(&after, t->top, t->depth)
                                    : prefetch_group(t, t->row + GROUP_ROWS, t->depth);
        prefetch_plan next_b = {0};
        begin_group(t);
        for (size_t done = 0; done < t->cols;) {
            panel p = panel_at(t, done);
            done += p.width;
            if (t->row == t->top) {
                begin_panel(t, &p);
                next_b = prefetch_panel(t, done, t->depth);
            }
            if (last && done >= t->cols) next_b = prefetch_panel(&after, 0, t->depth);
            multiply_panel(t, &p, &next_a, &next_b);
        }
    }
}

// k = 0: the product is zero.
static void set_empty(const tensor_gemm *g) {
    const float *from = gemm_added_to(g, 0);
    for (size_t i = 0; from != g->c && i < g->m; i++) {
        float *row = g->c + i * g->c_stride;
        if (from)
            memcpy(row, from + i * g->c_stride, g->n * sizeof *row);
        else
            memset(row, 0, g->n * sizeof *row);
    }
}

// Finishes a block of k for all columns before the next, so that each group of a is packed once per
// block.
void gemm_tile_by(const gemm_kernels *kernels, const tensor_gemm *g) {
    _Alignas(64) float a[ROWS_MOST * DEPTH_MOST], b[BLOCK_FLOATS];
    if (g->k == 0) {
        set_empty(g);
        return;
    }
    size_t depth = gemm_depth(g->k), cols_most = BLOCK_COLS * DEPTH_MOST / depth / PANEL_COLS * PANEL_COLS;
    for (size_t top = 0; top < g->m; top += ROWS_MOST)
        for (size_t first = 0; first < g->k; first += depth)
            for (size_t col = 0; col < g->n; col += cols_most) {
                tile t = {
                    .kernels = kernels, .g = g, .first = first, .col = col, .already_packed = col > 0, .a = a, .b = b};
                t.depth = size_least(depth, g->k - first);
                t.cols = size_least(cols_most, g->n - col);
                t.top = top;
                t.bottom = size_least(top + ROWS_MOST, g->m);
                t.add = gemm_added_to(g, first);
                multiply_block(&t, cols_most);
            }
}

const gemm_kernels *gemm_kernels_here(void) {
    size_t i = 0;
    while (!gemm_kernels_all[i]->works_here()) i++;
    return gemm_kernels_all[i];
}

void tensor_gemm_tile(const tensor_gemm *g) {
    if (gemm_splits(g))
        split_tile_by(split_kernels_here(), g);
    else
        gemm_tile_by(gemm_kernels_here(), g);
}

const char *tensor_gemm_name(bool fastest) {
    const split_kernels *split = fastest ? split_kernels_here() : NULL;
    return split ? split->name : gemm_kernels_here()->name;
}

// --- by rows

enum { PACK_COLS = 4 * PANEL_COLS, TASKS_PER_THREAD = 4, PACKED_MOST = 1 << 19 };

typedef struct rows_job {
    const tensor_gemm *g;
    const tensor_gemm_rows *rows;
    size_t height;  // rows of a tile
    size_t packs_across;
} rows_job;

static size_t padded_cols(size_t n) { return size_up(n, PANEL_STEP); }

size_t tensor_gemm_packed(size_t n, size_t k) {
    size_t floats = padded_cols(n) * k, split = split_packed(n, k);
    return floats > PACKED_MOST ? 0 : floats > split ? floats : split;
}

// The block of k that begins at `first`, with all columns.
static tile rows_tile(const tensor_gemm *g, const tensor_gemm_rows *rows, size_t first) {
    tile t = {.kernels = gemm_kernels_here(), .g = g, .first = first, .cols = g->n};
    t.depth = size_least(gemm_depth(g->k), g->k - first);
    t.b = rows->packed + first * padded_cols(g->n);
    t.add = gemm_added_to(g, first);
    return t;
}

static void rows_split_task(void *context, size_t index) {
    const rows_job *job = context;
    split_pack(split_kernels_here(), job->g, job->rows->packed, index);
}

// Packs the panels that begin in one range of columns of one block of k.
static void rows_pack_task(void *context, size_t index) {
    const rows_job *job = context;
    tile t = rows_tile(job->g, job->rows, index / job->packs_across * gemm_depth(job->g->k));
    size_t from = index % job->packs_across * PACK_COLS;
    for (size_t done = 0; done < t.cols;) {
        panel p = panel_at(&t, done);
        bool mine = done >= from && done < from + PACK_COLS;
        done += p.width;
        if (!mine) continue;
        prefetch_plan next = prefetch_panel(&t, done, t.depth);
        for (; next.calls > 0; next.calls--, next.at += next.shift)
            for (size_t i = 0; i < next.lines; i++) __builtin_prefetch(next.at + i * next.step, 0, 2);
        pack_panel(&t, &p);
    }
}

void tensor_gemm_pack(tensor_pool *pool, const tensor_gemm *g, const tensor_gemm_rows *rows) {
    rows_job job = {.g = g, .rows = rows, .packs_across = size_pieces(g->n, PACK_COLS)};
    if (gemm_splits(g))
        tensor_pool_run(pool, split_pack_tasks(g), rows_split_task, &job);
    else if (g->k > 0)
        tensor_pool_run(pool, size_pieces(g->k, gemm_depth(g->k)) * job.packs_across, rows_pack_task, &job);
}

// Packed b is read in order, so the hardware prefetches it; the kernels prefetch the caller's
// arrays instead.
static void multiply_group(tile *t, const tensor_gemm_rows *rows) {
    prefetch_plan next[2] = {{0}, {0}};
    for (int i = 0; i < 2; i++) {
        size_t floats = rows->prefetch[i].floats;
        if (rows->prefetch[i].at && t->first == 0)
            next[i] = prefetch_rows(rows->prefetch[i].at + t->row * floats, floats, t->rows, floats, t->depth);
    }
    begin_group(t);
    for (size_t done = 0; done < t->cols;) {
        panel p = panel_at(t, done);
        done += p.width;
        multiply_panel(t, &p, &next[0], &next[1]);
    }
}

static void some_rows(const tensor_gemm *g, const tensor_gemm_rows *rows, size_t first, size_t count) {
    _Alignas(64) float a[GROUP_ROWS * DEPTH_MOST];
    for (size_t row = first; row < first + count; row += GROUP_ROWS) {
        size_t here = size_least(GROUP_ROWS, first + count - row);
        if (rows->before) rows->before(rows->context, row, here);
        for (size_t k = 0; k < g->k; k += gemm_depth(g->k)) {
            tile t = rows_tile(g, rows, k);
            t.a = a;
            t.row = t.top = row;
            t.rows = here;
            multiply_group(&t, rows);
        }
        if (rows->after) rows->after(rows->context, row, here);
    }
}

void tensor_gemm_some_rows(const tensor_gemm *g, const tensor_gemm_rows *rows, size_t first, size_t count) {
    if (gemm_splits(g))
        split_some_rows(split_kernels_here(), g, rows, first, count);
    else
        some_rows(g, rows, first, count);
}

size_t tensor_gemm_group(bool fastest) {
    return fastest && split_kernels_here() ? (size_t)SPLIT_GROUP : (size_t)GROUP_ROWS;
}

static void rows_task(void *context, size_t index) {
    const rows_job *job = context;
    size_t row = index * job->height;
    tensor_gemm_some_rows(job->g, job->rows, row, size_least(job->height, job->g->m - row));
}

static void rows_before(const void *context, size_t begin, size_t end) {
    const tensor_gemm_rows *rows = context;
    rows->before(rows->context, begin, end - begin);
}

static void rows_after(const void *context, size_t begin, size_t end) {
    const tensor_gemm_rows *rows = context;
    rows->after(rows->context, begin, end - begin);
}

static void run_apart(tensor_pool *pool, const tensor_gemm *g, const tensor_gemm_rows *rows) {
    if (rows->before) tensor_pool_ranges(pool, g->m, GROUP_ROWS, rows_before, rows);
    tensor_gemm_run(pool, g);
    if (rows->after) tensor_pool_ranges(pool, g->m, GROUP_ROWS, rows_after, rows);
}

void tensor_gemm_run_rows(tensor_pool *pool, const tensor_gemm *g, const tensor_gemm_rows *rows) {
    if (g->m == 0) return;
    if (tensor_gemm_packed(g->n, g->k) == 0) {
        run_apart(pool, g, rows);
        return;
    }
    size_t threads = tensor_pool_threads(pool);
    rows_job job = {.g = g, .rows = rows, .height = g->m};
    if (threads > 1) job.height = size_even(g->m, size_pieces(g->m, threads * TASKS_PER_THREAD), GROUP_ROWS);
    tensor_gemm_pack(pool, g, rows);
    tensor_pool_run(pool, size_pieces(g->m, job.height), rows_task, &job);
}
