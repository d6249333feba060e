// Head and cross-entropy together. For some rows at a time, the logits are computed tile by tile of
// the vocabulary, and both gradients while the logits are in memory. The head's own gradient stays
// in the stash until the commit: only its addition to the iteration's sum must wait for the commit.
// Computing it later would need the logits again, a fourth product of the size of the other three.
// A stage that recomputes does that, because it saves vocab * dim floats per microbatch. Both ways
// run the same operations, so the bits agree.
//
// A tile of logits is read from memory twice, for its row sums and for the gradients.
// LOGITS_ELEMENTS limits the rows at a time; each group of rows costs one pass over the head's
// gradient.
#include "model/stage_inner.h"
#include "tensor/gemm.h"
#include "tensor/sizes.h"

enum {
    LOGITS_ELEMENTS = 1 << 24,
    ROWS_STEP = 64,
    COLS_LEAST = 96,
    COLS_MOST = 576,
    COLS_STEP = 48,   // the width of the product kernels
    COLS_PIECES = 8,  // a short vocabulary is divided so that several threads have work
    GROUPS_MOST = 16,
    GROUPS_LEAST = 2,
    GROUP_ELEMENTS = 1 << 23,
};

head_cut head_cut_of(const model_config *config, size_t rows) {
    head_cut cut;
    size_t vocab = config->vocab, fitting = LOGITS_ELEMENTS / vocab;
    cut.rows = size_least(rows, size_even(rows, fitting > ROWS_STEP ? fitting : ROWS_STEP, ROWS_STEP));
    cut.cols = size_even(vocab, size_clamp(vocab / COLS_PIECES, COLS_LEAST, COLS_MOST), COLS_STEP);
    cut.tiles = size_pieces(vocab, cut.cols);
    size_t groups = size_clamp(GROUP_ELEMENTS / (cut.rows * config->dim), GROUPS_LEAST, GROUPS_MOST);
    cut.groups = size_least(groups, cut.tiles);
    return cut;
}

// Rows [first, first + count) of the microbatch.
typedef struct head_rows {
    stage *s;
    const stash_view *v;
    size_t first, count;
} head_rows;

static tensor_loss_tile tile_of(const head_rows *h, size_t tile) {
    const stage *s = h->s;
    size_t first = tile * s->head.cols, left = s->config.vocab - first;
    return (tensor_loss_tile){.rows = h->count,
                              .first = first,
                              .cols = size_least(left, s->head.cols),
                              .targets = h->v->targets + h->first,
                              .logits = s->ends.logits + first * h->count,
                              .tops = s->ends.tops + tile * h->count,
                              .sums = s->ends.sums + tile * h->count};
}

static const float *input_of(const head_rows *h) { return h->v->head_input + h->first * h->s->config.dim; }

static const float *weight_of(const stage *s, const tensor_loss_tile *t) {
    return s->parameters + s->layout.head + t->first * s->config.dim;
}

// Of the softcap, with the layout of the tile's logits; NULL: none.
static float *slopes_of(const head_rows *h, const tensor_loss_tile *t) {
    return h->s->ends.slopes ? h->s->ends.slopes + t->first * h->count : NULL;
}

static void tile_logits(const head_rows *h, const tensor_loss_tile *t, float *slopes) {
    size_t dim = h->s->config.dim;
    tensor_gemm_tile(&(tensor_gemm){t->rows, t->cols, dim, tensor_plain(input_of(h), dim),
                                    tensor_transposed(weight_of(h->s, t), dim), t->logits, t->cols, GEMM_SET, NULL,
                                    h->s->shape.fastest});
    float cap = h->s->config.logit_softcap;
    if (cap > 0) tensor_softcap(t->logits, slopes, t->rows * t->cols, 1, cap);
}

// After the exponentials: the gradient of the logits before the softcap.
static void tile_loss_gradient(const head_rows *h, const tensor_loss_tile *t, const float *slopes) {
    tensor_loss_gradient(t, h->v->head_maximum + h->first, h->v->head_inverse + h->first);
    for (size_t i = 0; slopes && i < t->rows * t->cols; i++) t->logits[i] *= slopes[i];
}

// d_head[cols, dim] of the tile = or += its logit gradients[rows, cols] transposed times the
// input[rows, dim].
static void tile_weight_gradient(const head_rows *h, const tensor_loss_tile *t, float *gradient) {
    size_t dim = h->s->config.dim;
    tensor_gemm_tile(&(tensor_gemm){t->cols, dim, t->rows, tensor_transposed(t->logits, t->cols),
                                    tensor_plain(input_of(h), dim), gradient, dim, h->first == 0 ? GEMM_SET : GEMM_ADD,
                                    NULL, h->s->shape.fastest});
}

static void logits_task(void *context, size_t index) {
    const head_rows *h = context;
    tensor_loss_tile t = tile_of(h, index);
    tile_logits(h, &t, slopes_of(h, &t));
    tensor_loss_exponentials(&t, h->s->ends.targets);
}

// Each group of tiles has its own sum d_input[rows, dim]. No two threads add to the same numbers,
// and the order of all additions depends on the shape alone.
static void gradient_task(void *context, size_t group) {
    const head_rows *h = context;
    stage *s = h->s;
    size_t dim = s->config.dim, from = group * s->head.tiles / s->head.groups,
           to = (group + 1) * s->head.tiles / s->head.groups;
    float *d_input = s->ends.parts + group * h->count * dim;
    for (size_t tile = from; tile < to; tile++) {
        tensor_loss_tile t = tile_of(h, tile);
        tile_loss_gradient(h, &t, slopes_of(h, &t));
        if (h->v->d_head) tile_weight_gradient(h, &t, h->v->d_head + t.first * dim);
        tensor_gemm_tile(&(tensor_gemm){t.rows, dim, t.cols, tensor_plain(t.logits, t.cols),
                                        tensor_plain(weight_of(s, &t), dim), d_input, dim,
                                        tile == from ? GEMM_SET : GEMM_ADD, NULL, s->shape.fastest});
    }
}

static void rows_loss(head_rows *h, float *d_input) {
    stage *s = h->s;
    tensor_loss l = {.rows = h->count, .tiles = s->head.tiles, .targets = h->v->targets + h->first};
    l.tops = s->ends.tops;
    l.sums = s->ends.sums;
    l.target_logits = s->ends.targets;
    l.losses = s->ends.losses + h->first;
    l.maximum = h->v->head_maximum + h->first;
    l.inverse = h->v->head_inverse + h->first;
    tensor_pool_run(s->pool, s->head.tiles, logits_task, h);
    tensor_loss_rows(s->pool, &l);
    if (!d_input) return;
    tensor_pool_run(s->pool, s->head.groups, gradient_task, h);
    size_t dim = s->config.dim;
    tensor_sum_parts(s->pool, s->ends.parts, s->head.groups, h->count * dim, d_input + h->first * dim);
}

static head_rows rows_from(stage *s, const stash_view *v, size_t first) {
    size_t left = s->rows - first;
    return (head_rows){s, v, first, size_least(left, s->head.rows)};
}

double head_loss(stage *s, const stash_view *v, float *d_input) {
    for (size_t first = 0; first < s->rows; first += s->head.rows) {
        head_rows h = rows_from(s, v, first);
        rows_loss(&h, d_input);
    }
    double sum = 0;
    for (size_t r = 0; r < s->rows; r++) sum += s->ends.losses[r];
    return sum;
}

size_t head_recompute_floats(const stage *s) {
    size_t tiles = s->config.logit_softcap > 0 ? 2 : 1;  // of logits, and of slopes
    return s->head.rows * (tiles * s->head.cols + 2);
}

void head_recompute_tile(stage *s, const stash_view *v, size_t tile, float *scratch, float *gradient) {
    for (size_t first = 0; first < s->rows; first += s->head.rows) {
        head_rows h = rows_from(s, v, first);
        tensor_loss_tile t = tile_of(&h, tile);
        t.logits = scratch;
        t.tops = scratch + s->head.rows * s->head.cols;
        t.sums = t.tops + s->head.rows;
        float *slopes = s->config.logit_softcap > 0 ? t.sums + s->head.rows : NULL;
        tile_logits(&h, &t, slopes);
        tensor_loss_exponentials(&t, NULL);
        tile_loss_gradient(&h, &t, slopes);
        tile_weight_gradient(&h, &t, gradient);
    }
}
