#include "tensor/cpu/wide.h"
#include "tensor/kernels.h"

// Sixteen at a time, and what is left at the end of a row as sixteen, too: one by one it would take as long as the rest.
LANES_INLINE void swiglu_lanes(const float *restrict gate, const float *restrict up, float *restrict y) {
    for (size_t l = 0; l < LANES; l++) y[l] = gate[l] * wide_sigmoid(gate[l]) * up[l];
}

TENSOR_WIDE
static void swiglu_row(const float *restrict gate, const float *restrict up, float *restrict y, size_t dim) {
    size_t i = 0;
    for (; i + LANES <= dim; i += LANES) swiglu_lanes(gate + i, up + i, y + i);
    if (i == dim) return;
    float some[3][LANES] = {{0}, {0}, {0}};
    memcpy(some[0], gate + i, (dim - i) * sizeof *gate);
    memcpy(some[1], up + i, (dim - i) * sizeof *up);
    swiglu_lanes(some[0], some[1], some[2]);
    memcpy(y + i, some[2], (dim - i) * sizeof *y);
}

void tensor_swiglu_forward(const float *x, float *y, size_t rows, size_t dim) {
    for (size_t r = 0; r < rows; r++, x += 2 * dim, y += dim) swiglu_row(x, x + dim, y, dim);
}

// Replaces gate and up by their gradients.
LANES_INLINE void swiglu_gradient_lanes(const float *restrict dy, float *restrict gate, float *restrict up) {
    for (size_t l = 0; l < LANES; l++) {
        float g = gate[l], s = wide_sigmoid(g), d = dy[l];
        float slope = s * (1.0f + g * (1.0f - s));
        gate[l] = d * up[l] * slope;
        up[l] = d * (g * s);
    }
}

// The output may lie on the input.
TENSOR_WIDE
static void swiglu_gradient_row(const float *x, const float *dy, float *dx, size_t dim) {
    float gate[LANES] = {0}, up[LANES] = {0}, d[LANES] = {0};
    for (size_t i = 0; i < dim; i += LANES) {
        size_t count = dim - i < LANES ? dim - i : LANES;
        if (count == LANES) {
            memcpy(gate, x + i, sizeof gate), memcpy(up, x + dim + i, sizeof up);
            swiglu_gradient_lanes(dy + i, gate, up);
            memcpy(dx + i, gate, sizeof gate), memcpy(dx + dim + i, up, sizeof up);
        } else {
            size_t bytes = count * sizeof *x;
            memcpy(gate, x + i, bytes), memcpy(up, x + dim + i, bytes), memcpy(d, dy + i, bytes);
            swiglu_gradient_lanes(d, gate, up);
            memcpy(dx + i, gate, bytes), memcpy(dx + dim + i, up, bytes);
        }
    }
}

void tensor_swiglu_input_gradient(const float *x, const float *dy, float *dx, size_t rows, size_t dim) {
    for (size_t r = 0; r < rows; r++, x += 2 * dim, dx += 2 * dim, dy += dim) swiglu_gradient_row(x, dy, dx, dim);
}

static const float gelu_scale = 1.5957691216f;  // 2 sqrt(2 / pi): 0.5 (1 + tanh u) is the logistic function of 2 u
static const float gelu_cubic = 0.044715f;

TENSOR_WIDE
static void gelu(const float *restrict x, float *restrict y, size_t count) {
    for (size_t i = 0; i < count; i++) {
        float v = x[i];
        y[i] = v * wide_sigmoid(gelu_scale * (v + gelu_cubic * v * v * v));
    }
}

void tensor_gelu_forward(const float *x, float *y, size_t count) { gelu(x, y, count); }

TENSOR_WIDE
static void gelu_gradient(const float *x, const float *dy, float *dx, size_t count) {
    LANES_APART
    for (size_t i = 0; i < count; i++) {
        float v = x[i], s = wide_sigmoid(gelu_scale * (v + gelu_cubic * v * v * v));
        float inner = gelu_scale * (1.0f + 3.0f * gelu_cubic * v * v);
        dx[i] = dy[i] * (s + v * (s * (1.0f - s)) * inner);
    }
}

void tensor_gelu_input_gradient(const float *x, const float *dy, float *dx, size_t count) {
    gelu_gradient(x, dy, dx, count);
}
