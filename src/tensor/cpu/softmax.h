// Softmax of scores that lie transposed, a row for each key and a column for each query (attention.c), some keys at a time.
#ifndef BRAID_TENSOR_CPU_SOFTMAX_H
#define BRAID_TENSOR_CPU_SOFTMAX_H

#include <stddef.h>

enum { SOFTMAX_STEP = 16, SOFTMAX_QUERIES = 3 * SOFTMAX_STEP };

// Of each query so far: largest score, sum of exponentials, and what the last keys made of older sums.
typedef struct softmax {
    float top[SOFTMAX_QUERIES], sum[SOFTMAX_QUERIES], factor[SOFTMAX_QUERIES];
} softmax;

// Columns [col, col + SOFTMAX_STEP) of scores[keys, cols] become exp(scale * (score - top)).
void softmax_step(softmax *s, float *scores, size_t keys, size_t cols, size_t col, float scale);

// Of each query, for the gradient: what forward kept, and the sum over keys of d * exponential / sum of exponentials.
typedef struct softmax_kept {
    float top[SOFTMAX_QUERIES], delta[SOFTMAX_QUERIES];
} softmax_kept;

// The same columns of d, gradients of the probabilities by 1 / sum, become those of the scores.
void softmax_gradient_step(const softmax_kept *s, const float *exponentials, float *d, size_t keys, size_t cols,
                           size_t col, float scale);
// And scores become exponentials again before that.
void softmax_again_step(const softmax_kept *s, float *scores, float *d, size_t keys, size_t cols, size_t col,
                        float scale);

// to[rows, width] = x[rows, width], each row by its factor; to may be x.
void softmax_scale_rows(const float *x, size_t x_stride, size_t rows, size_t width, const float *factor, float *to,
                        size_t stride);
// dots[r] = x[r, width] . y[r, width]
void softmax_row_dots(const float *x, size_t x_stride, const float *y, size_t y_stride, size_t rows, size_t width,
                      float *dots);

#endif
