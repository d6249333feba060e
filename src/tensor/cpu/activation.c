#include "tensor/cpu/wide.h"
#include "tensor/kernels.h"

enum { ELEMENTS_PER_TASK = 1 << 14 };

typedef struct activation_job {
    const float *x, *dy;
    float *out;
    size_t dim;
} activation_job;

static size_t rows_per_task(size_t dim) { return dim < ELEMENTS_PER_TASK ? ELEMENTS_PER_TASK / dim : 1; }

TENSOR_WIDE
static void swiglu_row(const float *restrict gate, const float *restrict up, float *restrict y, size_t dim) {
    for (size_t i = 0; i < dim; i++) y[i] = gate[i] * wide_sigmoid(gate[i]) * up[i];
}

static void swiglu_rows(const void *context, size_t begin, size_t end) {
    const activation_job *job = context;
    size_t dim = job->dim;
    for (size_t r = begin; r < end; r++)
        swiglu_row(job->x + r * 2 * dim, job->x + r * 2 * dim + dim, job->out + r * dim, dim);
}

void tensor_swiglu_forward(tensor_pool *pool, const float *x, float *y, size_t rows, size_t dim) {
    activation_job job = {.x = x, .dim = dim};
    job.out = y;
    tensor_pool_ranges(pool, rows, rows_per_task(dim), swiglu_rows, &job);
}

// Reads element i of each before it writes element i, so the output may lie on the input.
TENSOR_WIDE
static void swiglu_gradient_row(const float *gate, const float *up, const float *dy, float *d_gate, float *d_up,
                                size_t dim) {
    LANES_APART
    for (size_t i = 0; i < dim; i++) {
        float g = gate[i], s = wide_sigmoid(g), d = dy[i];
        float slope = s * (1.0f + g * (1.0f - s));
        float dg = d * up[i] * slope;
        d_up[i] = d * (g * s);
        d_gate[i] = dg;
    }
}

static void swiglu_gradient_rows(const void *context, size_t begin, size_t end) {
    const activation_job *job = context;
    size_t dim = job->dim;
    for (size_t r = begin; r < end; r++) {
        const float *x = job->x + r * 2 * dim;
        float *dx = job->out + r * 2 * dim;
        swiglu_gradient_row(x, x + dim, job->dy + r * dim, dx, dx + dim, dim);
    }
}

void tensor_swiglu_input_gradient(tensor_pool *pool, const float *x, const float *dy, float *dx, size_t rows,
                                  size_t dim) {
    activation_job job = {.x = x, .dy = dy, .dim = dim};
    job.out = dx;
    tensor_pool_ranges(pool, rows, rows_per_task(dim), swiglu_gradient_rows, &job);
}

static const float gelu_scale = 1.5957691216f;  // 2 sqrt(2 / pi): 0.5 (1 + tanh u) is the logistic function of 2 u
static const float gelu_cubic = 0.044715f;

TENSOR_WIDE
static void gelu_range(const float *restrict x, float *restrict y, size_t count) {
    for (size_t i = 0; i < count; i++) {
        float v = x[i];
        y[i] = v * wide_sigmoid(gelu_scale * (v + gelu_cubic * v * v * v));
    }
}

static void gelu_elements(const void *context, size_t begin, size_t end) {
    const activation_job *job = context;
    gelu_range(job->x + begin, job->out + begin, end - begin);
}

void tensor_gelu_forward(tensor_pool *pool, const float *x, float *y, size_t count) {
    activation_job job = {.x = x};
    job.out = y;
    tensor_pool_ranges(pool, count, ELEMENTS_PER_TASK, gelu_elements, &job);
}

TENSOR_WIDE
static void gelu_gradient_range(const float *x, const float *dy, float *dx, size_t count) {
    LANES_APART
    for (size_t i = 0; i < count; i++) {
        float v = x[i], s = wide_sigmoid(gelu_scale * (v + gelu_cubic * v * v * v));
        float inner = gelu_scale * (1.0f + 3.0f * gelu_cubic * v * v);
        dx[i] = dy[i] * (s + v * (s * (1.0f - s)) * inner);
    }
}

static void gelu_gradient_elements(const void *context, size_t begin, size_t end) {
    const activation_job *job = context;
    gelu_gradient_range(job->x + begin, job->dy + begin, job->out + begin, end - begin);
}

void tensor_gelu_input_gradient(tensor_pool *pool, const float *x, const float *dy, float *dx, size_t count) {
    activation_job job = {.x = x, .dy = dy};
    job.out = dx;
    tensor_pool_ranges(pool, count, ELEMENTS_PER_TASK, gelu_gradient_elements, &job);
}
