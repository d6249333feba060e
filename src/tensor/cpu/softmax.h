// Softmax of transposed scores[keys, queries] (attention.c), for a block of keys at a time.
#ifndef BRAID_TENSOR_CPU_SOFTMAX_H
#define BRAID_TENSOR_CPU_SOFTMAX_H

#include <stddef.h>

enum { SOFTMAX_STEP = 16, SOFTMAX_QUERIES = 3 * SOFTMAX_STEP };

// Running state per query: largest score, sum of exponentials, and the factor by which the last
// keys scaled older sums.
typedef struct softmax {
    float top[SOFTMAX_QUERIES], sum[SOFTMAX_QUERIES], factor[SOFTMAX_QUERIES];
} softmax;

// scores[keys, col .. col + SOFTMAX_STEP) become exp(scale * (score - top)); updates the running
// state.
void softmax_step(softmax *s, float *scores, size_t keys, size_t cols, size_t col, float scale);

// Per query, for the gradient: the largest score from forward, and the sum over keys of d *
// probability.
typedef struct softmax_kept {
    float top[SOFTMAX_QUERIES], delta[SOFTMAX_QUERIES];
} softmax_kept;

// d[keys, col .. col + SOFTMAX_STEP), the gradients of the probabilities divided by the sum, become
// those of the scores.
void softmax_gradient_step(const softmax_kept *s, const float *exponentials, float *d, size_t keys, size_t cols,
                           size_t col, float scale);
// The same, but first recomputes the exponentials from the scores.
void softmax_again_step(const softmax_kept *s, float *scores, float *d, size_t keys, size_t cols, size_t col,
                        float scale);

// to[rows, width] = factor[rows] * x[rows, width]; to may be x.
void softmax_scale_rows(const float *x, size_t x_stride, size_t rows, size_t width, const float *factor, float *to,
                        size_t stride);
// dots[r] = x[r, width] . y[r, width]
void softmax_row_dots(const float *x, size_t x_stride, const float *y, size_t y_stride, size_t rows, size_t width,
                      float *dots);

#endif
