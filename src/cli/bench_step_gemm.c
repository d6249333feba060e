// The peak speed of a core, and the step's matrix products one by one.
#include "cli/bench_step_inside.h"
#include "tensor/gemm.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { PEAK_BURSTS = 9, SHAPE_ROUNDS = 7 };

static const double shape_seconds = 0.02;  // duration of one timing; a small product is repeated

static double seconds_of(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

double step_processor_now(void) { return seconds_of(CLOCK_PROCESS_CPUTIME_ID); }

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double step_median(double *values, uint32_t count) {
    qsort(values, count, sizeof *values, ascending);
    return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

double step_peak(void) {
    double best = 0;
    float sink;
    for (int i = 0; i < PEAK_BURSTS; i++) {
        double start = step_processor_now(), operations = tensor_peak_burst(&sink),
               rate = operations / (step_processor_now() - start);
        if (rate > best) best = rate;
    }
    return best;
}

// --- the products of a step

static void add_shape(step_bench *b, step_shape shape) {
    if (b->shapes < STEP_MAX_SHAPES) b->shape[b->shapes++] = shape;
}

// Forward, input gradient and weight gradient of y[rows, out] = x[rows, in] W. GPT's files store W
// as [in, out], others as [out, in].
static void add_linear(step_bench *b, const char *const *what, size_t rows, size_t in, size_t out, uint32_t layers,
                       bool conv1d) {
    add_shape(b, (step_shape){what[0], rows, out, in, false, !conv1d, layers, 0, 0});
    add_shape(b, (step_shape){what[1], rows, in, out, false, conv1d, layers, 0, 0});
    if (conv1d)
        add_shape(b, (step_shape){what[2], in, out, rows, true, false, layers, 0, 0});
    else
        add_shape(b, (step_shape){what[2], out, in, rows, true, false, layers, 0, 0});
}

static void list_shapes(step_bench *b) {
    static const char *const names[][3] = {{"qkv", "qkv dx", "qkv dW"},
                                           {"o", "o dx", "o dW"},
                                           {"up", "up dx", "up dW"},
                                           {"down", "down dx", "down dW"},
                                           {"head", "head dx", "head dW"}};
    const model_config *c = &b->model->model;
    bool gpt = c->arch == MODEL_GPT;
    size_t rows = (size_t)b->model->sequences * b->model->tokens, dim = c->dim;
    size_t qkv = dim + 2 * (dim / c->heads) * c->kv_heads;
    b->shapes = 0;
    add_linear(b, names[0], rows, dim, qkv, c->layers, gpt);
    add_linear(b, names[1], rows, dim, dim, c->layers, gpt);
    add_linear(b, names[2], rows, dim, gpt ? c->ffn_dim : 2 * (size_t)c->ffn_dim, c->layers, gpt);
    add_linear(b, names[3], rows, c->ffn_dim, dim, c->layers, gpt);
    add_linear(b, names[4], rows, dim, c->vocab, 1, false);
}

static double operations_of(const step_shape *s) { return 2.0 * (double)s->m * (double)s->n * (double)s->k; }

double step_operations(const step_bench *b) {
    step_bench listed = {.model = b->model};
    const model_config *c = &b->model->model;
    list_shapes(&listed);
    double sum = 0;
    for (uint32_t i = 0; i < listed.shapes; i++) sum += operations_of(&listed.shape[i]) * listed.shape[i].per_step;
    // Two products forward and four backward, each over half of the square of tokens.
    double rows = (double)b->model->sequences * (double)b->model->tokens;
    return sum + 6.0 * rows * (double)b->model->tokens * (double)c->dim * c->layers;
}

// --- one product

typedef struct operands {
    float *a, *b, *c;
} operands;

static bool operands_new(operands *o, const step_shape *s) {
    size_t counts[] = {s->m * s->k, s->k * s->n, s->m * s->n};
    float **arrays[] = {&o->a, &o->b, &o->c};
    bool there = true;
    for (int i = 0; i < 3; i++) {
        *arrays[i] = aligned_alloc(64, (counts[i] * sizeof(float) + 63) / 64 * 64);
        there = there && *arrays[i];
        for (size_t j = 0; *arrays[i] && j < counts[i]; j++) (*arrays[i])[j] = (float)(j % 17) - 8;
    }
    return there;
}

static void operands_free(operands *o) {
    free(o->a);
    free(o->b);
    free(o->c);
}

static void time_shape(tensor_pool *pool, step_shape *s, const operands *o, bool fastest) {
    tensor_gemm g = {.m = s->m, .n = s->n, .k = s->k, .c = o->c, .c_stride = s->n, .mode = GEMM_SET, .fastest = fastest};
    g.a = s->a_transposed ? tensor_transposed(o->a, s->m) : tensor_plain(o->a, s->k);
    g.b = s->b_transposed ? tensor_transposed(o->b, s->k) : tensor_plain(o->b, s->n);
    clockid_t clock = tensor_pool_threads(pool) == 1 ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC;
    double seconds[SHAPE_ROUNDS], peaks[SHAPE_ROUNDS], start = seconds_of(clock);
    tensor_gemm_run(pool, &g);
    double once = seconds_of(clock) - start;
    uint32_t repeats = once < shape_seconds ? (uint32_t)(shape_seconds / once) + 1 : 1;
    for (int round = 0; round < SHAPE_ROUNDS; round++) {
        start = seconds_of(clock);
        for (uint32_t i = 0; i < repeats; i++) tensor_gemm_run(pool, &g);
        seconds[round] = (seconds_of(clock) - start) / repeats;
        peaks[round] = step_peak();
    }
    s->seconds = step_median(seconds, SHAPE_ROUNDS);
    s->peak = step_median(peaks, SHAPE_ROUNDS);
}

braid_err step_time_shapes(step_bench *b, braid_error *error) {
    tensor_pool *pool = NULL;
    braid_err err = tensor_pool_new((unsigned)b->threads, &pool, error);
    list_shapes(b);
    for (uint32_t i = 0; i < b->shapes && !err; i++) {
        operands o = {0};
        if (operands_new(&o, &b->shape[i]))
            time_shape(pool, &b->shape[i], &o, b->fastest);
        else
            err = braid_fail(error, BRAID_MEMORY, "no memory for the operands of a product; choose a smaller model");
        operands_free(&o);
    }
    tensor_pool_free(pool);
    return err;
}
