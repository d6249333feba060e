// Every kernel against its plain twin, the gradients also against finite differences of the forward twin (central, fp64),
// and the bits with one thread against those with three.
#include "base/rng.h"
#include "tensor/elementary.h"
#include "tensor/gemm.h"
#include "tensor/kernels.h"
#include "tensor/reference.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { POOLS = 2, MOST_ARRAYS = 64, GUARD = 16 };

static const uint64_t seed = 20240607;
static const double tolerance = 2e-5;  // largest error over the root mean square of the expected values
static const float untouched = 12345.678f;

static tensor_pool *pools[POOLS];
static rng numbers;
static struct {
    void *memory;
    size_t floats;  // then GUARD floats that nobody may write; 0: an fp64 array
} arrays[MOST_ARRAYS];
static size_t array_count;

static float *floats(size_t count) {
    float *values = malloc((count + GUARD) * sizeof *values);
    assert_non_null(values);
    assert_true(array_count < MOST_ARRAYS);
    for (size_t i = 0; i < count + GUARD; i++) values[i] = untouched;
    arrays[array_count].memory = values;
    arrays[array_count++].floats = count;
    return values;
}

static double *doubles(size_t count) {
    double *values = calloc(count, sizeof *values);
    assert_non_null(values);
    assert_true(array_count < MOST_ARRAYS);
    arrays[array_count].memory = values;
    arrays[array_count++].floats = 0;
    return values;
}

static void free_arrays(void) {
    for (size_t a = 0; a < array_count; a++) {
        const float *values = arrays[a].memory;
        for (size_t i = 0; arrays[a].floats && i < GUARD; i++) assert_true(values[arrays[a].floats + i] == untouched);
        free(arrays[a].memory);
    }
    array_count = 0;
}

// The same random values in both precisions.
typedef struct pair {
    float *f;
    double *d;
} pair;

static pair random_pair(size_t count, double centre, double spread) {
    pair p = {floats(count), doubles(count)};
    for (size_t i = 0; i < count; i++) {
        p.f[i] = (float)(centre + spread * (2 * rng_unit(&numbers) - 1) * 1.7);
        p.d[i] = (double)p.f[i];
    }
    return p;
}

static float *copy_of(const float *from, size_t count) {
    float *to = floats(count);
    memcpy(to, from, count * sizeof *to);
    return to;
}

static void expect_near_within(const char *what, const float *found, const double *expected, size_t count,
                               double limit) {
    double square = 0, worst = 0;
    for (size_t i = 0; i < count; i++) {
        double difference = fabs((double)found[i] - expected[i]);
        square += expected[i] * expected[i];
        if (!(difference <= worst)) worst = difference;
    }
    double relative = worst / sqrt(square / (double)count + 1e-300);
    if (!(relative <= limit)) fail_msg("%s: error %g of the root mean square", what, relative);
}

static void expect_near(const char *what, const float *found, const double *expected, size_t count) {
    expect_near_within(what, found, expected, count, tolerance);
}

typedef double (*scalar_fn)(const void *context);

// d scalar / d x, one element after another.
static void expect_finite_difference(const char *what, const float *gradient, double *x, size_t count, scalar_fn scalar,
                                     const void *context) {
    double *expected = doubles(count);
    const double step = 1e-5;
    for (size_t i = 0; i < count; i++) {
        double kept = x[i];
        x[i] = kept + step;
        double above = scalar(context);
        x[i] = kept - step;
        expected[i] = (above - scalar(context)) / (2 * step);
        x[i] = kept;
    }
    expect_near_within(what, gradient, expected, count, 5e-5);
}

static double weighted_sum(const double *x, const double *weights, size_t count) {
    double sum = 0;
    for (size_t i = 0; i < count; i++) sum += x[i] * weights[i];
    return sum;
}

// ---- products

static void check_gemm(bool ta, bool tb, bool add, size_t m, size_t n, size_t k) {
    pair a = random_pair(m * k, 0, 1), b = random_pair(k * n, 0, 1), c = random_pair(m * n, 0, 1);
    float *found[POOLS];
    tensor_gemm g = {.m = m, .n = n, .k = k, .c_stride = n, .mode = add ? GEMM_ADD : GEMM_SET};
    g.a = ta ? tensor_transposed(a.f, m) : tensor_plain(a.f, k);
    g.b = tb ? tensor_transposed(b.f, k) : tensor_plain(b.f, n);
    for (int p = 0; p < POOLS; p++) {
        g.c = found[p] = copy_of(c.f, m * n);
        tensor_gemm_run(pools[p], &g);
    }
    reference_gemm(ta, tb, add, m, n, k, a.d, b.d, c.d);
    expect_near("gemm", found[0], c.d, m * n);
    assert_memory_equal(found[0], found[1], m * n * sizeof(float));
    free_arrays();
}

static void test_gemm(void **state) {
    (void)state;
    const size_t sizes[][3] = {{1, 1, 1},     {5, 7, 3},     {33, 65, 70},  {300, 41, 19},
                               {17, 1030, 9}, {64, 64, 600}, {270, 520, 33}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int flags = 0; flags < 8; flags++)
            check_gemm(flags & 1, flags & 2, flags & 4, sizes[i][0], sizes[i][1], sizes[i][2]);
}

// Strides wider than the rows: what lies between must stay.
static void test_gemm_strides(void **state) {
    (void)state;
    pair a = random_pair(20 * 30, 0, 1), b = random_pair(20 * 30, 0, 1);
    float *c = floats(20 * 30);
    tensor_gemm_tile(&(tensor_gemm){9, 11, 13, tensor_plain(a.f + 2, 30), tensor_transposed(b.f + 5, 30), c + 3, 30,
                                    GEMM_SET, NULL});
    for (size_t i = 0; i < 20; i++)
        for (size_t j = 0; j < 30; j++) {
            bool inside = i < 9 && j >= 3 && j < 14;
            double sum = 0;
            for (size_t p = 0; inside && p < 13; p++) sum += a.d[i * 30 + 2 + p] * b.d[(j - 3) * 30 + 5 + p];
            if (inside)
                assert_true(fabs((double)c[i * 30 + j] - sum) < 1e-4);
            else
                assert_true(c[i * 30 + j] == untouched);
        }
    free_arrays();
}

// ---- norms

typedef struct norm_case {
    reference_norm n;
    double *x, *y;
    const double *dy;
} norm_case;

static double norm_scalar(const void *context) {
    const norm_case *c = context;
    reference_norm_forward(&c->n, c->x, c->y);
    return weighted_sum(c->y, c->dy, c->n.rows * c->n.dim);
}

static void check_norm(bool centred, size_t rows, size_t dim) {
    size_t count = rows * dim;
    pair x = random_pair(count, 0.5, 1), dy = random_pair(count, 0, 1), residual = random_pair(count, 0, 1);
    pair weight = random_pair(dim, 1, 0.3), bias = random_pair(dim, 0, 1);
    float *y[POOLS], *dx[POOLS], *bare = floats(count), *d_weight[POOLS], *d_bias = floats(dim);
    for (int p = 0; p < POOLS; p++) {
        tensor_norm n = {.centred = centred,
                         .rows = rows,
                         .dim = dim,
                         .eps = 1e-5f,
                         .weight = weight.f,
                         .bias = centred ? bias.f : NULL,
                         .mean = floats(rows),
                         .inverse = floats(rows)};
        y[p] = floats(count), d_weight[p] = floats(dim), dx[p] = copy_of(x.f, count);
        tensor_norm_forward(pools[p], &n, x.f, y[p]);
        tensor_norm_gradient g = {.norm = &n, .x = x.f, .dy = dy.f};
        g.dx = bare, g.d_weight = d_weight[p], g.d_bias = centred ? d_bias : NULL;
        tensor_norm_gradient_rows(&g, 0, rows);
        g.x = g.dx = dx[p], g.residual = residual.f;  // in place, in two parts
        tensor_norm_gradient_rows(&g, 0, rows / 2);
        float *first = copy_of(d_weight[p], dim);
        tensor_norm_gradient_rows(&g, rows / 2, rows - rows / 2);
        for (size_t i = 0; i < dim; i++) d_weight[p][i] += first[i];
        tensor_norm_gradient_rows(&(tensor_norm_gradient){&n, x.f, dy.f, NULL, bare, first, g.d_bias}, 0, rows);
    }
    norm_case c = {{centred, rows, dim, 1e-5, weight.d, bias.d}, x.d, doubles(count), dy.d};
    double *expected = doubles(count), *expected_weight = doubles(dim), *expected_bias = doubles(dim);
    reference_norm_forward(&c.n, x.d, c.y);
    reference_norm_gradient(&c.n, x.d, dy.d, expected, expected_weight, centred ? expected_bias : NULL);
    expect_near("norm", y[0], c.y, count);
    expect_near("norm's input gradient", bare, expected, count);
    expect_near("norm's weight gradient", d_weight[0], expected_weight, dim);
    if (centred) expect_near("norm's bias gradient", d_bias, expected_bias, dim);
    expect_finite_difference("norm's input gradient, differences", bare, x.d, count, norm_scalar, &c);
    expect_finite_difference("norm's weight gradient, differences", d_weight[0], weight.d, dim, norm_scalar, &c);
    if (centred) expect_finite_difference("norm's bias gradient, differences", d_bias, bias.d, dim, norm_scalar, &c);
    for (size_t i = 0; i < count; i++) expected[i] += residual.d[i];
    expect_near("norm's input gradient with residual", dx[0], expected, count);
    assert_memory_equal(y[0], y[1], count * sizeof(float));
    assert_memory_equal(dx[0], dx[1], count * sizeof(float));
    assert_memory_equal(d_weight[0], d_weight[1], dim * sizeof(float));
    free_arrays();
}

static void test_norms(void **state) {
    (void)state;
    for (int centred = 0; centred < 2; centred++) {
        check_norm(centred, 3, 37);
        check_norm(centred, 70, 16);
        check_norm(centred, 5, 130);
    }
}

static void test_column_sums(void **state) {
    (void)state;
    size_t rows = 50, cols = 150, stride = 160;
    pair x = random_pair(rows * stride, 0.3, 1);
    float *sums[POOLS];
    double *expected = doubles(cols);
    for (size_t r = 0; r < rows; r++)
        for (size_t i = 0; i < cols; i++) expected[i] += x.d[r * stride + i];
    for (int p = 0; p < POOLS; p++) {
        sums[p] = floats(cols);
        tensor_column_sums(pools[p], x.f, rows, cols, stride, sums[p]);
    }
    expect_near("column sums", sums[0], expected, cols);
    assert_memory_equal(sums[0], sums[1], cols * sizeof(float));
    free_arrays();
}

static void test_seed_rows(void **state) {
    (void)state;
    size_t rows = 130, dim = 9;
    pair x = random_pair(rows * dim, 0, 1), bias = random_pair(dim, 0, 1);
    for (int alone = 0; alone < 2; alone++) {
        float *y = floats(rows * dim);
        tensor_seed_rows(alone ? NULL : x.f, bias.f, y, rows, dim);
        for (size_t i = 0; i < rows * dim; i++) assert_true(y[i] == (alone ? 0.0f : x.f[i]) + bias.f[i % dim]);
    }
    free_arrays();
}

// ---- activations

typedef struct activation_case {
    bool swiglu;
    size_t rows, dim;
    double *x, *y;
    const double *dy;
} activation_case;

static double activation_scalar(const void *context) {
    const activation_case *c = context;
    if (c->swiglu)
        reference_swiglu(c->x, c->y, c->rows, c->dim);
    else
        reference_gelu(c->x, c->y, c->rows * c->dim);
    return weighted_sum(c->y, c->dy, c->rows * c->dim);
}

static void check_activation(bool swiglu, size_t rows, size_t dim, bool differences) {
    size_t count = rows * dim, inputs = swiglu ? 2 * count : count;
    pair x = random_pair(inputs, 0, 3), dy = random_pair(count, 0, 1);
    float *y = floats(count), *only = floats(count), *kept = floats(count);
    float *dx = copy_of(x.f, inputs);  // the gradient in place
    if (swiglu) {
        tensor_swiglu_forward(x.f, only, NULL, rows, dim);
        tensor_swiglu_forward(x.f, y, kept, rows, dim);
        tensor_swiglu_input_gradient(dx, kept, dy.f, dx, rows, dim);
    } else {
        tensor_gelu_forward(x.f, only, NULL, count);
        tensor_gelu_forward(x.f, y, kept, count);
        tensor_gelu_input_gradient(dx, kept, dy.f, dx, count);
    }
    assert_memory_equal(y, only, count * sizeof *y);
    assert_memory_equal(y, kept, count * sizeof *y);
    activation_case c = {swiglu, rows, dim, x.d, doubles(count), dy.d};
    double *expected = doubles(inputs);
    activation_scalar(&c);
    if (swiglu)
        reference_swiglu_gradient(x.d, dy.d, expected, rows, dim);
    else
        reference_gelu_gradient(x.d, dy.d, expected, count);
    expect_near("activation", y, c.y, count);
    expect_near("activation's gradient", dx, expected, inputs);
    if (differences)
        expect_finite_difference("activation's gradient, differences", dx, x.d, inputs, activation_scalar, &c);
    free_arrays();
}

static void test_activations(void **state) {
    (void)state;
    for (int swiglu = 0; swiglu < 2; swiglu++) {
        check_activation(swiglu, 7, 19, true);
        check_activation(swiglu, 100, 1000, false);
    }
}

static void test_activations_at_the_edges(void **state) {
    (void)state;
    float x[8] = {-1e4f, -100, -20, -0.0f, 0, 20, 100, 1e4f}, y[8], ones[8] = {1, 1, 1, 1, 1, 1, 1, 1}, dx[8], kept[8];
    tensor_gelu_forward(x, y, kept, 8);
    tensor_gelu_input_gradient(x, kept, ones, dx, 8);
    for (int i = 0; i < 8; i++) {
        assert_true(fabsf(y[i] - (x[i] > 0 ? x[i] : 0)) < 1e-6f);
        assert_true(fabsf(dx[i] - (x[i] > 0 ? 1.0f : x[i] < 0 ? 0.0f : 0.5f)) < 1e-6f);
    }
    float nan = NAN;
    tensor_gelu_forward(&nan, y, kept, 1);
    assert_true(isnan(y[0]));
}

// ---- rotary positions

static void test_rope(void **state) {
    (void)state;
    size_t tokens = 300, heads = 5, width = 10, stride = 70, half = width / 2, first = 17, count = tokens * stride;
    pair x = random_pair(count, 0, 1);
    float *cosines = floats(tokens * half), *sines = floats(tokens * half), *turned = copy_of(x.f, count),
          *back = copy_of(x.f, count);
    double *plain = doubles(tokens * heads * width);
    tensor_rope_tables(tokens, width, 10000.0f, cosines, sines);
    tensor_rope r = {width, cosines, sines};
    for (size_t h = 0; h < heads; h++) {
        size_t later = first * stride + h * width;
        tensor_rope_rows(&r, 0, first, false, x.f + h * width, stride, turned + h * width, stride);
        tensor_rope_rows(&r, first, tokens - first, false, x.f + later, stride, turned + later, stride);
        tensor_rope_rows(&r, 0, tokens, true, turned + h * width, stride, back + h * width, stride);
    }
    for (size_t t = 0; t < tokens; t++)
        memcpy(plain + t * heads * width, x.d + t * stride, heads * width * sizeof *plain);
    reference_rope(tokens, heads, width, 10000, false, plain);
    for (size_t t = 0; t < tokens; t++) {
        expect_near("rope", turned + t * stride, plain + t * heads * width, heads * width);
        for (size_t i = heads * width; i < stride; i++) assert_true(turned[t * stride + i] == x.f[t * stride + i]);
    }
    expect_near("rope and back", back, x.d, count);  // a rotation: its gradient is its inverse
    free_arrays();
}

static void test_rope_gradient(void **state) {
    (void)state;
    size_t tokens = 20, width = 6, count = tokens * width;
    pair x = random_pair(count, 0, 1), dy = random_pair(count, 0, 1);
    float *cosines = floats(count / 2), *sines = floats(count / 2), *dx = floats(count);
    tensor_rope_tables(tokens, width, 500.0f, cosines, sines);
    tensor_rope r = {width, cosines, sines};
    tensor_rope_rows(&r, 0, tokens, true, dy.f, width, dx, width);
    double after = 0, before = 0;
    for (size_t i = 0; i < count; i++) before += x.d[i] * (double)dx[i];
    reference_rope(tokens, 1, width, 500, false, x.d);
    after = weighted_sum(x.d, dy.d, count);
    assert_true(fabs(after - before) < 1e-4);
    free_arrays();
}

// ---- attention

typedef struct attention_case {
    reference_attention a;
    bool rope;
    size_t sequences;
    double *qkv, *turned, *out;
    double *part;  // [tokens, heads + kv_heads, width]
    const double *d_out;
} attention_case;

static size_t attention_stride(const attention_case *c) { return (c->a.heads + 2 * c->a.kv_heads) * c->a.width; }

// Queries and keys of all sequences.
static void turn_reference(const attention_case *c, bool inverse, double *qkv) {
    size_t tokens = c->a.tokens, stride = attention_stride(c), width = stride - c->a.kv_heads * c->a.width;
    double *part = c->part;
    for (size_t s = 0; c->rope && s < c->sequences; s++, qkv += tokens * stride) {
        for (size_t t = 0; t < tokens; t++) memcpy(part + t * width, qkv + t * stride, width * sizeof *part);
        reference_rope(tokens, c->a.heads + c->a.kv_heads, c->a.width, 10000, inverse, part);
        for (size_t t = 0; t < tokens; t++) memcpy(qkv + t * stride, part + t * width, width * sizeof *part);
    }
}

static double attention_scalar(const void *context) {
    const attention_case *c = context;
    size_t in = c->a.tokens * attention_stride(c), out = c->a.tokens * c->a.heads * c->a.width;
    memcpy(c->turned, c->qkv, c->sequences * in * sizeof *c->qkv);
    turn_reference(c, false, c->turned);
    for (size_t s = 0; s < c->sequences; s++) reference_attention_forward(&c->a, c->turned + s * in, c->out + s * out);
    return weighted_sum(c->out, c->d_out, c->sequences * out);
}

// `keep`: what forward may leave for the gradient.
static void run_attention(const attention_case *c, tensor_pool *pool, bool keep, const float *qkv, const float *d_out,
                          float *found, float *gradient) {
    const reference_attention *shape = &c->a;
    size_t half = shape->width / 2, rows = c->sequences * shape->heads * shape->tokens;
    tensor_rope rope = {shape->width, NULL, NULL};
    float *cosines = floats(shape->tokens * half), *sines = floats(shape->tokens * half);
    tensor_rope_tables(shape->tokens, shape->width, 10000.0f, cosines, sines);
    rope.cosines = cosines, rope.sines = sines;
    tensor_attention a = {.sequences = c->sequences,
                          .tokens = shape->tokens,
                          .heads = shape->heads,
                          .kv_heads = shape->kv_heads,
                          .width = shape->width,
                          .rope = c->rope ? &rope : NULL,
                          .maximum = floats(rows),
                          .inverse = floats(rows)};
    assert_int_equal(tensor_attention_kept(&a) > 0, shape->tokens <= 128);
    if (keep) a.kept = floats(tensor_attention_kept(&a));
    a.scratch = floats(tensor_attention_scratch(&a) * tensor_pool_threads(pool));
    tensor_attention_forward(pool, &a, qkv, found);
    tensor_attention_input_gradient(pool, &a, gradient, found, d_out);
}

static void check_attention(size_t sequences, reference_attention shape, bool rope, bool differences) {
    attention_case c = {.a = shape, .rope = rope, .sequences = sequences};
    size_t in = shape.tokens * attention_stride(&c), out = shape.tokens * shape.heads * shape.width;
    pair qkv = random_pair(sequences * in, 0, 1.5), d_out = random_pair(sequences * out, 0, 1);
    float *found[POOLS], *gradient[POOLS];
    for (int p = 0; p < POOLS; p++) {
        found[p] = floats(sequences * out), gradient[p] = copy_of(qkv.f, sequences * in);
        run_attention(&c, pools[p], p > 0, qkv.f, d_out.f, found[p], gradient[p]);
    }
    c.a.probabilities = doubles(shape.heads * shape.tokens * shape.tokens);
    c.qkv = qkv.d, c.d_out = d_out.d, c.turned = doubles(sequences * in), c.out = doubles(sequences * out);
    c.part = doubles(sequences * in);
    double *expected = doubles(sequences * in);
    memcpy(c.turned, c.qkv, sequences * in * sizeof *c.qkv);
    turn_reference(&c, false, c.turned);
    for (size_t s = 0; s < sequences; s++) {
        reference_attention_forward(&c.a, c.turned + s * in, c.out + s * out);
        reference_attention_gradient(&c.a, c.turned + s * in, d_out.d + s * out, expected + s * in);
    }
    turn_reference(&c, true, expected);
    expect_near("attention", found[0], c.out, sequences * out);
    expect_near("attention's gradient", gradient[0], expected, sequences * in);
    if (differences)
        expect_finite_difference("attention's gradient, differences", gradient[0], qkv.d, sequences * in,
                                 attention_scalar, &c);
    assert_memory_equal(found[0], found[1], sequences * out * sizeof(float));
    assert_memory_equal(gradient[0], gradient[1], sequences * in * sizeof(float));
    free_arrays();
}

static void test_attention(void **state) {
    (void)state;
    check_attention(2, (reference_attention){6, 4, 2, 3, NULL}, false, true);
    check_attention(1, (reference_attention){9, 3, 3, 4, NULL}, false, true);
    check_attention(1, (reference_attention){1, 2, 1, 5, NULL}, false, true);
    check_attention(2, (reference_attention){67, 2, 1, 8, NULL}, false, false);
    check_attention(1, (reference_attention){64, 3, 1, 16, NULL}, false, false);
    check_attention(1, (reference_attention){128, 4, 2, 32, NULL}, false, false);
    check_attention(3, (reference_attention){200, 4, 4, 32, NULL}, false, false);
    check_attention(1, (reference_attention){300, 2, 1, 50, NULL}, false, false);
    check_attention(1, (reference_attention){131, 1, 1, 65, NULL}, false, false);
}

static void test_turned_attention(void **state) {
    (void)state;
    check_attention(2, (reference_attention){7, 4, 2, 6, NULL}, true, true);
    check_attention(1, (reference_attention){145, 2, 1, 32, NULL}, true, false);
    check_attention(2, (reference_attention){83, 4, 2, 22, NULL}, true, false);
    check_attention(3, (reference_attention){121, 3, 3, 50, NULL}, true, false);
}

// ---- embedding

static void test_embedding(void **state) {
    (void)state;
    size_t rows = 150, dim = 11, sequence = 50, vocab = 40;
    int32_t tokens[150];
    for (size_t r = 0; r < rows; r++)
        tokens[r] = (int32_t)rng_below(&numbers, vocab / 2);  // others stay without gradient
    tensor_embedding e = {rows, dim, sequence, tokens};
    pair table = random_pair(vocab * dim, 0, 1), positions = random_pair(sequence * dim, 0, 1),
         dy = random_pair(rows * dim, 0, 1);
    float *y = floats(rows * dim), *plain = floats(rows * dim), *d_table = floats(vocab * dim),
          *d_positions = floats(sequence * dim);
    double *expected = doubles(rows * dim), *expected_table = doubles(vocab * dim),
           *expected_positions = doubles(sequence * dim);
    tensor_embedding_forward(pools[1], &e, table.f, positions.f, y);
    tensor_embedding_forward(pools[1], &e, table.f, NULL, plain);
    memset(d_table, 0, vocab * dim * sizeof *d_table);
    tensor_embedding_gradient(&e, dy.f, 0, 13, d_table);
    tensor_embedding_gradient(&e, dy.f, 13, vocab, d_table + 13 * dim);
    tensor_position_gradient(&e, dy.f, 0, 17, d_positions);
    tensor_position_gradient(&e, dy.f, 17, sequence, d_positions + 17 * dim);
    reference_embedding(&e, table.d, positions.d, expected);
    expect_near("embedding", y, expected, rows * dim);
    reference_embedding(&e, table.d, NULL, expected);
    expect_near("embedding without positions", plain, expected, rows * dim);
    reference_embedding_gradient(&e, dy.d, expected_table, vocab, expected_positions);
    expect_near("embedding's gradient", d_table, expected_table, vocab * dim);
    expect_near("positions' gradient", d_positions, expected_positions, sequence * dim);
    free_arrays();
}

typedef struct embedding_case {
    tensor_embedding e;
    double *table, *positions, *y;
    const double *dy;
} embedding_case;

static double embedding_scalar(const void *context) {
    const embedding_case *c = context;
    reference_embedding(&c->e, c->table, c->positions, c->y);
    return weighted_sum(c->y, c->dy, c->e.rows * c->e.dim);
}

static void test_embedding_differences(void **state) {
    (void)state;
    const int32_t tokens[6] = {2, 0, 2, 4, 1, 2};
    size_t dim = 5, vocab = 6, sequence = 3;
    pair table = random_pair(vocab * dim, 0, 1), positions = random_pair(sequence * dim, 0, 1),
         dy = random_pair(6 * dim, 0, 1);
    embedding_case c = {{6, dim, sequence, tokens}, table.d, positions.d, doubles(6 * dim), dy.d};
    float *d_table = floats(vocab * dim), *d_positions = floats(sequence * dim);
    memset(d_table, 0, vocab * dim * sizeof *d_table);
    tensor_embedding_gradient(&c.e, dy.f, 0, vocab, d_table);
    tensor_position_gradient(&c.e, dy.f, 0, sequence, d_positions);
    expect_finite_difference("embedding's gradient, differences", d_table, table.d, vocab * dim, embedding_scalar, &c);
    expect_finite_difference("positions' gradient, differences", d_positions, positions.d, sequence * dim,
                             embedding_scalar, &c);
    free_arrays();
}

// ---- loss

typedef struct loss_case {
    size_t rows, vocab;
    const int32_t *targets;
    double *logits;
} loss_case;

static double loss_scalar(const void *context) {
    const loss_case *c = context;
    return reference_loss(c->logits, c->targets, c->rows, c->vocab, NULL);
}

// What a loss leaves, and the tiles it was made of: logits cut at multiples of `cols`, tile after tile.
typedef struct loss_run {
    size_t rows, vocab, cols, tiles;
    const int32_t *targets;
    float *logits, *tops, *sums, *target_logits, *maximum, *inverse;
    double *losses;
} loss_run;

static tensor_loss_tile loss_tile(const loss_run *l, size_t tile) {
    size_t first = tile * l->cols, cols = l->vocab - first < l->cols ? l->vocab - first : l->cols;
    return (tensor_loss_tile){.rows = l->rows,
                              .first = first,
                              .cols = cols,
                              .targets = l->targets,
                              .logits = l->logits + first * l->rows,
                              .tops = l->tops + tile * l->rows,
                              .sums = l->sums + tile * l->rows};
}

static void loss_new(loss_run *l, const float *logits) {
    l->tiles = (l->vocab + l->cols - 1) / l->cols;
    l->logits = floats(l->rows * l->vocab), l->losses = doubles(l->rows);
    l->tops = floats(l->tiles * l->rows), l->sums = floats(l->tiles * l->rows), l->target_logits = floats(l->rows);
    l->maximum = floats(l->rows), l->inverse = floats(l->rows);
    for (size_t tile = 0; tile < l->tiles; tile++) {
        tensor_loss_tile t = loss_tile(l, tile);
        for (size_t r = 0; r < l->rows; r++)
            memcpy(t.logits + r * t.cols, logits + r * l->vocab + t.first, t.cols * sizeof *logits);
    }
}

static void loss_forward(const loss_run *l, tensor_pool *pool) {
    for (size_t tile = 0; tile < l->tiles; tile++) {
        tensor_loss_tile t = loss_tile(l, tile);
        tensor_loss_exponentials(&t, l->target_logits);
    }
    tensor_loss loss = {.rows = l->rows, .tiles = l->tiles, .targets = l->targets, .tops = l->tops, .sums = l->sums};
    loss.target_logits = l->target_logits;
    loss.losses = l->losses, loss.maximum = l->maximum, loss.inverse = l->inverse;
    tensor_loss_rows(pool, &loss);
}

// gradient[rows, vocab]
static void loss_backward(const loss_run *l, float *gradient) {
    for (size_t tile = 0; tile < l->tiles; tile++) {
        tensor_loss_tile t = loss_tile(l, tile);
        tensor_loss_gradient(&t, l->maximum, l->inverse);
        for (size_t r = 0; r < l->rows; r++)
            memcpy(gradient + r * l->vocab + t.first, t.logits + r * t.cols, t.cols * sizeof *gradient);
    }
}

static void check_loss(size_t rows, size_t vocab, size_t cols, double spread, bool differences) {
    int32_t *targets = calloc(rows, sizeof *targets);
    for (size_t r = 0; r < rows; r++) targets[r] = (int32_t)rng_below(&numbers, vocab + 1) - 1;
    pair logits = random_pair(rows * vocab, 0, spread);
    float *found[POOLS];
    double sum[POOLS] = {0};
    for (int p = 0; p < POOLS; p++) {
        loss_run l = {.rows = rows, .vocab = vocab, .cols = cols, .targets = targets};
        loss_new(&l, logits.f);
        loss_forward(&l, pools[p]);
        for (size_t r = 0; r < rows; r++) sum[p] += l.losses[r];
        found[p] = floats(rows * vocab);
        loss_backward(&l, found[p]);
    }
    double *expected = doubles(rows * vocab), expected_sum = reference_loss(logits.d, targets, rows, vocab, expected);
    assert_true(fabs(sum[0] - expected_sum) <= 1e-6 * fabs(expected_sum) && sum[0] == sum[1]);
    expect_near("loss' gradient", found[0], expected, rows * vocab);
    assert_memory_equal(found[0], found[1], rows * vocab * sizeof(float));
    loss_case c = {rows, vocab, targets, logits.d};
    if (differences)
        expect_finite_difference("loss' gradient, differences", found[0], logits.d, rows * vocab, loss_scalar, &c);
    free_arrays();
    free(targets);
}

static void test_loss(void **state) {
    (void)state;
    check_loss(9, 23, 23, 2, true);
    check_loss(9, 23, 7, 2, true);
    check_loss(3, 5, 2, 30, true);
    check_loss(40, 9001, 256, 5, false);
    check_loss(300, 256, 64, 300, false);
}

static void test_loss_shows_bad_numbers(void **state) {
    (void)state;
    const int32_t target = 1;
    const float bad[3][3] = {{0, NAN, 1}, {INFINITY, 0, 1}, {0, 1, NAN}};
    for (int i = 0; i < 3; i++) {
        loss_run l = {.rows = 1, .vocab = 3, .cols = 2, .targets = &target};
        loss_new(&l, bad[i]);
        loss_forward(&l, pools[0]);
        assert_true(isnan(l.losses[0]) || isinf(l.losses[0]));
        free_arrays();
    }
}

static void test_sum_parts(void **state) {
    (void)state;
    size_t parts = 5, count = 40000;
    pair x = random_pair(parts * count, 0, 1);
    double *expected = doubles(count);
    for (size_t i = 0; i < parts * count; i++) expected[i % count] += x.d[i];
    float *sum = floats(count);
    tensor_sum_parts(pools[1], x.f, parts, count, sum);
    expect_near("sum of parts", sum, expected, count);
    free_arrays();
}

// ---- elementary functions

static void test_elementary(void **state) {
    (void)state;
    for (int i = 0; i < 20000; i++) {
        double x = (rng_unit(&numbers) - 0.5) * 1200, sine, cosine;
        assert_true(fabs(elementary_exp(x) / exp(x) - 1) < 1e-13);
        assert_true(fabs(elementary_log(exp(x)) - x) <= 1e-13 * (1 + fabs(x)));
        elementary_sin_cos(x * 1000, &sine, &cosine);
        assert_true(fabs(sine - sin(x * 1000)) < 1e-10 && fabs(cosine - cos(x * 1000)) < 1e-10);
        elementary_sin_cos(x / 1000, &sine, &cosine);
        assert_true(fabs(sine - sin(x / 1000)) < 1e-15 && fabs(cosine - cos(x / 1000)) < 1e-15);
    }
    assert_true(elementary_log(1.0) == 0.0);
    assert_true(elementary_exp(0.0) == 1.0);
}

static int setup(void **state) {
    (void)state;
    numbers.state = seed;
    print_message("products by %s, seed %llu\n", tensor_gemm_name(), (unsigned long long)seed);
    return tensor_pool_new(1, &pools[0], NULL) || tensor_pool_new(3, &pools[1], NULL);
}

static int teardown(void **state) {
    (void)state;
    for (int p = 0; p < POOLS; p++) tensor_pool_free(pools[p]);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gemm),
        cmocka_unit_test(test_gemm_strides),
        cmocka_unit_test(test_norms),
        cmocka_unit_test(test_column_sums),
        cmocka_unit_test(test_seed_rows),
        cmocka_unit_test(test_activations),
        cmocka_unit_test(test_activations_at_the_edges),
        cmocka_unit_test(test_rope),
        cmocka_unit_test(test_rope_gradient),
        cmocka_unit_test(test_attention),
        cmocka_unit_test(test_turned_attention),
        cmocka_unit_test(test_embedding),
        cmocka_unit_test(test_embedding_differences),
        cmocka_unit_test(test_loss),
        cmocka_unit_test(test_loss_shows_bad_numbers),
        cmocka_unit_test(test_sum_parts),
        cmocka_unit_test(test_elementary),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
