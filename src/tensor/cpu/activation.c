#include "tensor/cpu/wide.h"
#include "tensor/kernels.h"

// Processes 16 elements at a time. The rest of a row is padded to 16, because a scalar loop over it
// would take as long as all the vectors before it.
// [16] gate, up -> y = silu(gate) * up, and logistic = the logistic function of gate.
LANES_INLINE void swiglu_lanes(const float *gate, const float *up, float *y, float *logistic) {
    lanes g, u, s;
    lanes_load(&g, gate), lanes_load(&u, up);
    LANES_EACH(h) s.part[h] = -g.part[h];
    lanes_exp(&s);
    LANES_EACH(h) {
        s.part[h] = 1.0f / (1.0f + s.part[h]);
        u.part[h] = g.part[h] * s.part[h] * u.part[h];
    }
    lanes_store(logistic, &s), lanes_store(y, &u);
}

TENSOR_WIDE
static void swiglu_row(const float *gate, const float *up, float *y, float *logistic, size_t dim) {
    size_t i = 0, bytes = dim % LANES * sizeof *gate;
    for (; i + LANES <= dim; i += LANES) swiglu_lanes(gate + i, up + i, y + i, logistic + i);
    if (bytes == 0) return;
    float some[4][LANES] = {{0}, {0}, {0}, {0}};
    memcpy(some[0], gate + i, bytes), memcpy(some[1], up + i, bytes);
    swiglu_lanes(some[0], some[1], some[2], some[3]);
    memcpy(y + i, some[2], bytes), memcpy(logistic + i, some[3], bytes);
}

TENSOR_WIDE
static void swiglu_row_only(const float *restrict gate, const float *restrict up, float *restrict y, size_t dim) {
    for (size_t i = 0; i < dim; i++) y[i] = gate[i] * wide_sigmoid(gate[i]) * up[i];
}

void tensor_swiglu_forward(const float *x, float *y, float *logistic, size_t rows, size_t dim) {
    for (size_t r = 0; r < rows; r++, x += 2 * dim, y += dim) {
        if (logistic)
            swiglu_row(x, x + dim, y, logistic + r * dim, dim);
        else
            swiglu_row_only(x, x + dim, y, dim);
    }
}

// [16] d_gate and d_up from dy; logistic becomes y, the activation's output.
LANES_INLINE void swiglu_gradient_lanes(const float *gate, const float *up, float *logistic, const float *dy,
                                        float *d_gate, float *d_up) {
    lanes g, u, s, d;
    lanes_load(&g, gate), lanes_load(&u, up), lanes_load(&s, logistic), lanes_load(&d, dy);
    LANES_EACH(h) {
        lanes_part silu = g.part[h] * s.part[h], slope = s.part[h] * (1.0f + g.part[h] * (1.0f - s.part[h]));
        s.part[h] = silu * u.part[h];
        g.part[h] = d.part[h] * u.part[h] * slope;
        u.part[h] = d.part[h] * silu;
    }
    lanes_store(logistic, &s), lanes_store(d_gate, &g), lanes_store(d_up, &u);
}

// x[2 * dim], logistic[dim], dy[dim] -> dx[2 * dim]; dx may be x.
TENSOR_WIDE
static void swiglu_gradient_row(const float *x, float *logistic, const float *dy, float *dx, size_t dim) {
    size_t i = 0, bytes = dim % LANES * sizeof *x;
    for (; i + LANES <= dim; i += LANES)
        swiglu_gradient_lanes(x + i, x + dim + i, logistic + i, dy + i, dx + i, dx + dim + i);
    if (bytes == 0) return;
    float gate[LANES] = {0}, up[LANES] = {0}, some[LANES] = {0}, d[LANES] = {0};
    memcpy(gate, x + i, bytes), memcpy(up, x + dim + i, bytes), memcpy(some, logistic + i, bytes),
        memcpy(d, dy + i, bytes);
    swiglu_gradient_lanes(gate, up, some, d, gate, up);
    memcpy(dx + i, gate, bytes), memcpy(dx + dim + i, up, bytes), memcpy(logistic + i, some, bytes);
}

void tensor_swiglu_input_gradient(const float *x, float *logistic, const float *dy, float *dx, size_t rows,
                                  size_t dim) {
    for (size_t r = 0; r < rows; r++, x += 2 * dim, dx += 2 * dim, dy += dim)
        swiglu_gradient_row(x, logistic + r * dim, dy, dx, dim);
}

// 2 sqrt(2 / pi), because 0.5 (1 + tanh u) is the logistic function of 2 u
static const float gelu_scale = 1.5957691216f;
static const float gelu_cubic = 0.044715f;

TENSOR_WIDE
static void gelu(const float *restrict x, float *restrict y, float *restrict logistic, size_t count) {
    for (size_t i = 0; i < count; i++) {
        float v = x[i], s = wide_sigmoid(gelu_scale * (v + gelu_cubic * v * v * v));
        logistic[i] = s;
        y[i] = v * s;
    }
}

TENSOR_WIDE
static void gelu_only(const float *restrict x, float *restrict y, size_t count) {
    for (size_t i = 0; i < count; i++) {
        float v = x[i];
        y[i] = v * wide_sigmoid(gelu_scale * (v + gelu_cubic * v * v * v));
    }
}

void tensor_gelu_forward(const float *x, float *y, float *logistic, size_t count) {
    if (logistic)
        gelu(x, y, logistic, count);
    else
        gelu_only(x, y, count);
}

TENSOR_WIDE
static void gelu_gradient(const float *x, float *logistic, const float *dy, float *dx, size_t count) {
    LANES_APART
    for (size_t i = 0; i < count; i++) {
        float v = x[i], s = logistic[i];
        float inner = gelu_scale * (1.0f + 3.0f * gelu_cubic * v * v);
        logistic[i] = v * s;
        dx[i] = dy[i] * (s + v * (s * (1.0f - s)) * inner);
    }
}

void tensor_gelu_input_gradient(const float *x, float *logistic, const float *dy, float *dx, size_t count) {
    gelu_gradient(x, logistic, dy, dx, count);
}

TENSOR_WIDE
static void geglu_row(const float *restrict gate, const float *restrict up, float *restrict y, float *restrict logistic,
                      size_t dim) {
    for (size_t i = 0; i < dim; i++) {
        float v = gate[i], s = wide_sigmoid(gelu_scale * (v + gelu_cubic * v * v * v));
        logistic[i] = s;
        y[i] = v * s * up[i];
    }
}

TENSOR_WIDE
static void geglu_row_only(const float *restrict gate, const float *restrict up, float *restrict y, size_t dim) {
    for (size_t i = 0; i < dim; i++) {
        float v = gate[i];
        y[i] = v * wide_sigmoid(gelu_scale * (v + gelu_cubic * v * v * v)) * up[i];
    }
}

void tensor_geglu_forward(const float *x, float *y, float *logistic, size_t rows, size_t dim) {
    for (size_t r = 0; r < rows; r++, x += 2 * dim, y += dim) {
        if (logistic)
            geglu_row(x, x + dim, y, logistic + r * dim, dim);
        else
            geglu_row_only(x, x + dim, y, dim);
    }
}

TENSOR_WIDE
static void geglu_gradient_row(const float *gate, const float *up, float *logistic, const float *dy, float *d_gate,
                               float *d_up, size_t dim) {
    LANES_APART
    for (size_t i = 0; i < dim; i++) {
        float v = gate[i], u = up[i], s = logistic[i], d = dy[i], y = v * s;
        float inner = gelu_scale * (1.0f + 3.0f * gelu_cubic * v * v);
        logistic[i] = y * u;
        d_gate[i] = d * u * (s + v * (s * (1.0f - s)) * inner);
        d_up[i] = d * y;
    }
}

void tensor_geglu_input_gradient(const float *x, float *logistic, const float *dy, float *dx, size_t rows, size_t dim) {
    for (size_t r = 0; r < rows; r++, x += 2 * dim, dx += 2 * dim, dy += dim)
        geglu_gradient_row(x, x + dim, logistic + r * dim, dy, dx, dx + dim, dim);
}

TENSOR_WIDE
static void softcap(float *x, float *restrict slope, size_t count, float scale, float cap) {
    float in = scale / cap;
    for (size_t i = 0; i < count; i++) {
        float t = wide_tanh(x[i] * in);
        slope[i] = (1.0f - t * t) * scale;
        x[i] = cap * t;
    }
}

TENSOR_WIDE
static void softcap_only(float *x, size_t count, float scale, float cap) {
    float in = scale / cap;
    for (size_t i = 0; i < count; i++) x[i] = cap * wide_tanh(x[i] * in);
}

void tensor_softcap(float *x, float *slope, size_t count, float scale, float cap) {
    if (slope)
        softcap(x, slope, count, scale, cap);
    else
        softcap_only(x, count, scale, cap);
}
