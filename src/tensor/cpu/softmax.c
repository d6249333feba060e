#include "tensor/cpu/softmax.h"

#include "tensor/cpu/wide.h"

_Static_assert((int)SOFTMAX_STEP == (int)LANES, "a step is one operation");

enum { CHAINS = 4 };  // independent maxima, because one would wait for its own latency

// top[16] = the largest of top and of each column of x[keys, 16], with rows `cols` apart.
LANES_INLINE void raise_to_columns(lanes *top, const float *x, size_t keys, size_t cols) {
    lanes maximum[CHAINS] = {*top, *top, *top, *top}, p;
    size_t j = 0;
    for (; j + CHAINS <= keys; j += CHAINS, x += CHAINS * cols)
        for (size_t i = 0; i < CHAINS; i++) {
            lanes_load(&p, x + i * cols);
            lanes_raise(&maximum[i], &p);
        }
    for (; j < keys; j++, x += cols) {
        lanes_load(&p, x);
        lanes_raise(&maximum[0], &p);
    }
    lanes_raise(&maximum[0], &maximum[1]), lanes_raise(&maximum[2], &maximum[3]);
    lanes_raise(&maximum[0], &maximum[2]);
    *top = maximum[0];
}

TENSOR_WIDE
static void softmax_columns(float *x, size_t keys, size_t cols, float scale, float *s_top, float *s_sum,
                            float *s_factor) {
    lanes top, older, sum, p;
    lanes_load(&top, s_top), lanes_load(&sum, s_sum);
    older = top;
    raise_to_columns(&top, x, keys, cols);
    LANES_EACH(h) older.part[h] = (older.part[h] - top.part[h]) * scale;
    lanes_exp(&older);
    LANES_EACH(h) sum.part[h] *= older.part[h];
    lanes_store(s_top, &top), lanes_store(s_factor, &older);
    for (size_t j = 0; j < keys; j++) {
        lanes_load(&p, x + j * cols);
        LANES_EACH(h) p.part[h] = (p.part[h] - top.part[h]) * scale;
        lanes_exp(&p);
        lanes_store(x + j * cols, &p);
        LANES_EACH(h) sum.part[h] += p.part[h];
    }
    lanes_store(s_sum, &sum);
}

void softmax_step(softmax *s, float *scores, size_t keys, size_t cols, size_t col, float scale) {
    softmax_columns(scores + col, keys, cols, scale, s->top + col, s->sum + col, s->factor + col);
}

LANES_INLINE void score_gradient(const lanes *p, lanes *slope, const lanes *delta, float scale) {
    LANES_EACH(h) slope->part[h] = p->part[h] * (slope->part[h] - delta->part[h]) * scale;
}

TENSOR_WIDE
static void gradient_step(const float *x, float *d, size_t keys, size_t cols, float scale, const float *s_delta) {
    lanes delta, p, slope;
    lanes_load(&delta, s_delta);
    for (size_t at = 0; at < keys * cols; at += cols) {
        lanes_load(&p, x + at), lanes_load(&slope, d + at);
        score_gradient(&p, &slope, &delta, scale);
        lanes_store(d + at, &slope);
    }
}

void softmax_gradient_step(const softmax_kept *s, const float *exponentials, float *d, size_t keys, size_t cols,
                           size_t col, float scale) {
    gradient_step(exponentials + col, d + col, keys, cols, scale, s->delta + col);
}

TENSOR_WIDE
static void recompute_gradient_step(float *x, float *d, size_t keys, size_t cols, float scale, const float *s_top,
                                    const float *s_delta) {
    lanes top, delta, p, slope;
    lanes_load(&top, s_top), lanes_load(&delta, s_delta);
    for (size_t at = 0; at < keys * cols; at += cols) {
        lanes_load(&p, x + at), lanes_load(&slope, d + at);
        LANES_EACH(h) p.part[h] = (p.part[h] - top.part[h]) * scale;
        lanes_exp(&p);
        score_gradient(&p, &slope, &delta, scale);
        lanes_store(x + at, &p), lanes_store(d + at, &slope);
    }
}

void softmax_again_step(const softmax_kept *s, float *scores, float *d, size_t keys, size_t cols, size_t col,
                        float scale) {
    recompute_gradient_step(scores + col, d + col, keys, cols, scale, s->top + col, s->delta + col);
}

TENSOR_WIDE
static void scale_rows(const float *x, size_t x_stride, size_t rows, size_t width, const float *factor, float *to,
                       size_t stride) {
    for (size_t r = 0; r < rows; r++) {
        float f = factor[r];
        LANES_APART
        for (size_t i = 0; i < width; i++) to[r * stride + i] = x[r * x_stride + i] * f;
    }
}

void softmax_scale_rows(const float *x, size_t x_stride, size_t rows, size_t width, const float *factor, float *to,
                        size_t stride) {
    scale_rows(x, x_stride, rows, width, factor, to, stride);
}

TENSOR_WIDE
static void row_dots(const float *x, size_t x_stride, const float *y, size_t y_stride, size_t rows, size_t width,
                     float *dots) {
    for (size_t r = 0; r < rows; r++) dots[r] = lanes_dot(x + r * x_stride, y + r * y_stride, width);
}

void softmax_row_dots(const float *x, size_t x_stride, const float *y, size_t y_stride, size_t rows, size_t width,
                      float *dots) {
    row_dots(x, x_stride, y, y_stride, rows, width, dots);
}
