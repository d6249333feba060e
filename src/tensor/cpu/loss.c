#include "tensor/cpu/wide.h"
#include "tensor/elementary.h"
#include "tensor/kernels.h"

enum { ROWS_PER_TASK = 32 };

TENSOR_WIDE
static float row_maximum(const float *x, size_t count) {
    float top = x[0];
    size_t i = 0;
    if (count >= LANES) {
        float lane[LANES];
        memcpy(lane, x, sizeof lane);
        for (i = LANES; i + LANES <= count; i += LANES)
            for (size_t l = 0; l < LANES; l++) lane[l] = x[i + l] > lane[l] ? x[i + l] : lane[l];
        for (size_t l = 0; l < LANES; l++) top = lane[l] > top ? lane[l] : top;
    }
    for (; i < count; i++) top = x[i] > top ? x[i] : top;
    return top;
}

TENSOR_WIDE
static float exponentials(float *x, size_t count, float top) {
    for (size_t i = 0; i < count; i++) x[i] = wide_exp(x[i] - top);
    return lanes_sum(x, count);
}

void tensor_loss_exponentials(const tensor_loss_tile *t, float *target_logits) {
    for (size_t r = 0; r < t->rows; r++) {
        float *row = t->logits + r * t->cols;
        // wraps to a value beyond cols if the target is in another tile
        size_t target = (size_t)t->targets[r] - t->first;
        if (target_logits && t->targets[r] >= 0 && target < t->cols) target_logits[r] = row[target];
        t->tops[r] = row_maximum(row, t->cols);
        t->sums[r] = exponentials(row, t->cols, t->tops[r]);
    }
}

TENSOR_WIDE
static void scale_row(float *x, size_t count, float factor) {
    for (size_t i = 0; i < count; i++) x[i] *= factor;
}

void tensor_loss_gradient(const tensor_loss_tile *t, const float *maximum, const float *inverse) {
    for (size_t r = 0; r < t->rows; r++) {
        float *row = t->logits + r * t->cols;
        size_t target = (size_t)t->targets[r] - t->first;
        if (t->targets[r] < 0) {
            memset(row, 0, t->cols * sizeof *row);
            continue;
        }
        scale_row(row, t->cols, wide_exp(t->tops[r] - maximum[r]) * inverse[r]);
        if (target < t->cols) row[target] -= 1.0f;
    }
}

TENSOR_WIDE
static void raise_maximum(float *restrict maximum, const float *restrict tops, size_t count) {
    for (size_t r = 0; r < count; r++) maximum[r] = tops[r] > maximum[r] ? tops[r] : maximum[r];
}

// Sums tiles in fp64, so that a vocabulary of 10^5 terms is as exact as one of 10^2.
TENSOR_WIDE
static void add_sums(double *restrict total, const float *restrict sums, const float *restrict tops,
                     const float *restrict maximum, size_t count) {
    for (size_t r = 0; r < count; r++) total[r] += (double)(sums[r] * wide_exp(tops[r] - maximum[r]));
}

static void loss_rows(const void *context, size_t begin, size_t end) {
    const tensor_loss *l = context;
    size_t count = end - begin;
    double total[ROWS_PER_TASK] = {0};
    float *maximum = l->maximum + begin;
    memcpy(maximum, l->tops + begin, count * sizeof *maximum);
    for (size_t t = 1; t < l->tiles; t++) raise_maximum(maximum, l->tops + t * l->rows + begin, count);
    for (size_t t = 0; t < l->tiles; t++)
        add_sums(total, l->sums + t * l->rows + begin, l->tops + t * l->rows + begin, maximum, count);
    for (size_t i = 0; i < count; i++) {
        size_t r = begin + i;
        l->inverse[r] = (float)(1.0 / total[i]);
        l->losses[r] = 0;
        if (l->targets[r] >= 0)
            l->losses[r] = elementary_log(total[i]) + ((double)maximum[i] - (double)l->target_logits[r]);
    }
}

void tensor_loss_rows(tensor_pool *pool, const tensor_loss *l) {
    tensor_pool_ranges(pool, l->rows, ROWS_PER_TASK, loss_rows, l);
}
