// How products with weights in their file's form are divided: into strips of outputs, which threads
// share, and into tiles of rows. None of it affects the bits.
#include "tensor/cpu/q_product.h"

#include "tensor/cpu/q_floats.h"
#include "tensor/sizes.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum {
    OWN_ROWS = 4,  // up to here each thread makes its own integers of x, which saves a loop of the pool
    TASKS_PER_THREAD = 8,
    STRIPS_MOST = 16,
    FLOAT_STRIPS_MOST = 24,
    PACK_STRIPS = 4
};

static bool is_float(weight_type type) {
    return type == WEIGHT_F32 || type == WEIGHT_F16 || type == WEIGHT_BF16 || type == WEIGHT_MIXED8;
}

bool tensor_quantised_fits(weight_type type, size_t cols) {
    const q_format *f = q_format_of(type);
    return cols > 0 && (f ? cols % f->elements == 0 : is_float(type));
}

size_t tensor_quantised_bytes(const weight_matrix *w) {
    const q_format *f = q_format_of(w->type);
    return f ? size_pieces(w->rows, Q_STRIP) * q_strip_bytes(f, w->cols) : 0;
}

const char *tensor_quantised_name(void) { return q_kernels_here()->name; }

// --- preparing

typedef struct pack_job {
    const q_format *format;
    const weight_matrix *w;
    uint8_t *copy;
} pack_job;

static void pack_strips(const void *context, size_t begin, size_t end) {
    const pack_job *job = context;
    for (size_t s = begin; s < end; s++)
        q_pack_strip(job->format, job->w, s * Q_STRIP, job->copy + s * q_strip_bytes(job->format, job->w->cols));
}

void tensor_quantised_prepare(tensor_pool *pool, const weight_matrix *w, void *copy, tensor_quantised *out) {
    pack_job job = {q_format_of(w->type), w, copy};
    *out = (tensor_quantised){w->type, w->rows, w->cols, job.format ? copy : w->data};
    if (job.format) tensor_pool_ranges(pool, size_pieces(w->rows, Q_STRIP), PACK_STRIPS, pack_strips, &job);
}

// --- scratch

// Bytes of the arrays of a tile; each number of a block has four bytes.
typedef struct tile_sizes {
    size_t values, scales, all;
} tile_sizes;

static tile_sizes sizes_of_tile(size_t rows, size_t blocks) {
    tile_sizes s;
    s.values = size_up(blocks * rows * Q_BLOCK, Q_LINE);
    s.scales = size_up(blocks * rows * sizeof(float), Q_LINE);
    s.all = s.values + 4 * s.scales;
    return s;
}

static size_t panel_bytes(size_t blocks) {
    return blocks * (Q_BLOCK * Q_STRIP + (Q_PARTS + 1) * Q_STRIP * sizeof(float));
}

static size_t wide_bytes(size_t cols) { return size_up(Q_FLOAT_ROWS * cols * sizeof(float), Q_LINE); }

// A thread's own part: a tile of OWN_ROWS, and a panel or widened rows.
static size_t own_bytes(size_t cols) {
    size_t blocks = size_pieces(cols, Q_BLOCK), panel = panel_bytes(blocks), wide = wide_bytes(cols);
    return sizes_of_tile(OWN_ROWS, blocks).all + (panel > wide ? panel : wide) + Q_LINE;
}

size_t tensor_quantised_scratch(const tensor_pool *pool, size_t m, size_t cols) {
    size_t tiles = size_pieces(m, Q_ROWS) * sizes_of_tile(Q_ROWS, size_pieces(cols, Q_BLOCK)).all;
    return tiles + tensor_pool_threads(pool) * own_bytes(cols);
}

static q_rows rows_at(uint8_t *at, size_t rows, size_t blocks) {
    tile_sizes s = sizes_of_tile(rows, blocks);
    q_rows x = {.rows = rows, .blocks = blocks, .values = (int8_t *)at};
    uint8_t *scales = at + s.values;
    x.scales = (float *)scales;
    x.sums = (float *)(scales + s.scales);
    for (size_t h = 0; h < 2; h++) x.halves[h] = (int32_t *)(scales + (2 + h) * s.scales);
    return x;
}

static q_panel panel_at(uint8_t *at, const q_format *f, size_t blocks) {
    q_panel p = {.format = f, .blocks = blocks, .values = (int8_t *)at};
    p.scales = (float *)(at + blocks * Q_BLOCK * Q_STRIP);
    p.minimums = f->minimum ? p.scales + blocks * Q_PARTS * Q_STRIP : NULL;
    return p;
}

// --- running

typedef struct run_job {
    const q_kernels *kernels;
    const q_call *call;
    uint8_t *tiles;  // [tiles of Q_ROWS rows]
    uint8_t *own;    // [threads, own_bytes]
    size_t blocks, tile_bytes;
    bool own_rows;
    size_t strips, float_strips;  // of a task
} run_job;

static q_rows tile_of(const run_job *job, size_t tile) {
    size_t rows = size_least(Q_ROWS, job->call->m - tile * Q_ROWS);
    return rows_at(job->tiles + tile * job->tile_bytes, rows, job->blocks);
}

static void quantise_tiles(const void *context, size_t begin, size_t end) {
    const run_job *job = context;
    for (size_t t = begin; t < end; t++) {
        q_rows tile = tile_of(job, t);
        job->kernels->quantise(job->call->x + t * Q_ROWS * job->call->x_stride, job->call->x_stride, &tile);
    }
}

// The scratch of the calling thread begins with a mark: its integers of x are made.
static uint8_t *own_part(const run_job *job) { return job->own + tensor_pool_slot() * own_bytes(job->call->cols); }

static q_rows own_rows(const run_job *job) {
    uint8_t *part = own_part(job);
    q_rows x = rows_at(part + Q_LINE, job->call->m, job->blocks);
    if (!part[0]) job->kernels->quantise(job->call->x, job->call->x_stride, &x);
    part[0] = 1;
    return x;
}

// Stores the `cols` outputs from `first` of a tile's rows.
static void store(const tensor_quantised_product *p, const float *from, size_t row, size_t rows, size_t first) {
    size_t cols = size_least(Q_STRIP, p->w->rows - first);
    for (size_t r = 0; r < rows; r++) {
        float *y = p->y + (row + r) * p->y_stride + first;
        for (size_t i = 0; i < cols; i++) y[i] = p->add ? y[i] + from[r * Q_STRIP + i] : from[r * Q_STRIP + i];
    }
}

static void multiply_strip(const run_job *job, const tensor_quantised_product *p, size_t strip) {
    const q_format *f = q_format_of(p->w->type);
    const q_kernels *k = job->kernels;
    const uint8_t *packed = (const uint8_t *)p->w->at + strip * q_strip_bytes(f, p->w->cols);
    q_panel panel = panel_at(own_part(job) + Q_LINE + sizes_of_tile(OWN_ROWS, job->blocks).all, f, job->blocks);
    bool direct = k->direct && job->call->m <= k->direct_rows;
    if (!direct) k->unpack(packed, &panel);
    for (size_t row = 0; row < job->call->m; row += Q_ROWS) {
        _Alignas(Q_LINE) float y[Q_ROWS * Q_STRIP];
        q_rows x = job->own_rows ? own_rows(job) : tile_of(job, row / Q_ROWS);
        if (direct)
            k->direct(f, &x, packed, y, Q_STRIP);
        else
            k->product(&x, &panel, y, Q_STRIP);
        store(p, y, row, x.rows, strip * Q_STRIP);
    }
}

static size_t strips_of(const tensor_quantised_product *p) { return size_pieces(p->w->rows, Q_STRIP); }

static size_t task_strips(const run_job *job, const tensor_quantised_product *p) {
    return is_float(p->w->type) ? job->float_strips : job->strips;
}

static void run_task(void *context, size_t index) {
    const run_job *job = context;
    const tensor_quantised_product *p = job->call->products;
    for (; index >= size_pieces(strips_of(p), task_strips(job, p)); p++)
        index -= size_pieces(strips_of(p), task_strips(job, p));
    size_t first = index * task_strips(job, p), end = size_least(first + task_strips(job, p), strips_of(p));
    if (is_float(p->w->type)) {
        size_t outputs = size_least(end * Q_STRIP, p->w->rows) - first * Q_STRIP;
        uint8_t *wide = own_part(job) + Q_LINE + sizes_of_tile(OWN_ROWS, job->blocks).all;
        q_float_product(job->call, p, first * Q_STRIP, outputs, (float *)wide);
        return;
    }
    if (job->kernels->begin) job->kernels->begin();
    for (size_t s = first; s < end; s++) multiply_strip(job, p, s);
    if (job->kernels->end) job->kernels->end();
}

void q_run_by(const q_kernels *kernels, tensor_pool *pool, const q_call *call, void *scratch) {
    run_job job = {.kernels = kernels, .call = call, .own = scratch, .own_rows = call->m <= OWN_ROWS};
    size_t threads = tensor_pool_threads(pool), strips = 0, tasks = 0, tiles = size_pieces(call->m, Q_ROWS);
    bool integers = false;
    job.blocks = size_pieces(call->cols, Q_BLOCK);
    job.tile_bytes = sizes_of_tile(Q_ROWS, job.blocks).all;
    job.tiles = job.own + threads * own_bytes(call->cols);
    for (size_t i = 0; i < threads; i++) job.own[i * own_bytes(call->cols)] = 0;
    for (size_t i = 0; i < call->count; i++) {
        strips += strips_of(&call->products[i]);
        integers |= !is_float(call->products[i].w->type);
    }
    job.strips = size_clamp(strips / (threads * TASKS_PER_THREAD), 1, STRIPS_MOST);
    job.float_strips = size_least(size_up(job.strips, q_float_rows(call->m) / Q_STRIP), FLOAT_STRIPS_MOST);
    for (size_t i = 0; i < call->count; i++)
        tasks += size_pieces(strips_of(&call->products[i]), task_strips(&job, &call->products[i]));
    if (call->m == 0) return;
    if (integers && !job.own_rows) tensor_pool_ranges(pool, tiles, 1, quantise_tiles, &job);
    tensor_pool_run(pool, tasks, run_task, &job);
}

void tensor_quantised_run(tensor_pool *pool, const float *x, size_t x_stride, size_t m, size_t cols,
                          const tensor_quantised_product *products, size_t count, void *scratch) {
    q_call call = {x, x_stride, m, cols, products, count};
    q_run_by(q_kernels_here(), pool, &call, scratch);
}
