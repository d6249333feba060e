#include "tensor/cpu/head_norm.h"

#include "tensor/cpu/wide.h"
#include "tensor/kernels.h"

#include <math.h>

TENSOR_WIDE
static void norm_row(const float *restrict x, const float *restrict weight, float *restrict y, size_t width,
                     float eps) {
    float inv = 1.0f / sqrtf(lanes_dot(x, x, width) / (float)width + eps);
    for (size_t i = 0; i < width; i++) y[i] = x[i] * inv * weight[i];
}

void tensor_head_norm_rows(const float *weight, float eps, size_t width, size_t rows, const float *from,
                           size_t from_stride, float *to, size_t to_stride) {
    for (size_t r = 0; r < rows; r++) norm_row(from + r * from_stride, weight, to + r * to_stride, width, eps);
}

// The sum of x[i] * y[i] * z[i].
LANES_INLINE float triple_dot(const float *x, const float *y, const float *z, size_t count) {
    lanes sum = {{{0}}}, a, b, c;
    for (size_t i = 0; i < count; i += LANES) {
        size_t left = count - i;
        if (left >= LANES) {
            lanes_load(&a, x + i), lanes_load(&b, y + i), lanes_load(&c, z + i);
        } else {
            lanes_load_some(&a, x + i, left), lanes_load_some(&b, y + i, left), lanes_load_some(&c, z + i, left);
        }
        LANES_EACH(h) sum.part[h] += a.part[h] * b.part[h] * c.part[h];
    }
    return lanes_add(&sum);
}

// With g = dy * weight and inv = 1 / sqrt(mean(x^2) + eps): dx = inv * (g - x * inv^2 * mean(g *
// x)).
TENSOR_WIDE
static void gradient_row(const float *x, const float *restrict weight, const float *restrict dy, float *dx,
                         size_t width, float eps, float *restrict d_weight) {
    float inv = 1.0f / sqrtf(lanes_dot(x, x, width) / (float)width + eps);
    float slope = triple_dot(dy, weight, x, width) / (float)width * (inv * inv);
    LANES_APART
    for (size_t i = 0; i < width; i++) {
        float in = x[i], above = dy[i];
        d_weight[i] += above * (in * inv);
        dx[i] = inv * (above * weight[i] - in * slope);
    }
}

void head_norm_gradient(const float *weight, float eps, size_t width, size_t rows, const float *x, size_t stride,
                        const float *dy, size_t dy_stride, float *dx, float *d_weight) {
    for (size_t r = 0; r < rows; r++)
        gradient_row(x + r * stride, weight, dy + r * dy_stride, dx + r * stride, width, eps, d_weight);
}
