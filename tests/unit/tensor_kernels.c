// Norms, activations, embeddings and row sums compared with their reference implementations.
// Gradients are also compared with finite differences of the reference forward pass (central,
// fp64), and the bits with one thread with those of three. Also the elementary functions.
#include "tensor/elementary.h"

#include "kernel_case.h"

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
    float *dx = copy_of(x.f, inputs);  // gradient in place
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
        check_activation(swiglu, 3, 5, true);
        check_activation(swiglu, 2, 32, true);
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

// ---- embedding

static void test_embedding(void **state) {
    (void)state;
    size_t rows = 150, dim = 11, sequence = 50, vocab = 40;
    int32_t tokens[150];
    for (size_t r = 0; r < rows; r++)
        tokens[r] = (int32_t)rng_below(&numbers, vocab / 2);  // the other rows have no gradient
    tensor_embedding e = {.rows = rows, .dim = dim, .sequence = sequence, .tokens = tokens};
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
    embedding_case c = {
        {.rows = 6, .dim = dim, .sequence = sequence, .tokens = tokens}, table.d, positions.d, doubles(6 * dim), dy.d};
    float *d_table = floats(vocab * dim), *d_positions = floats(sequence * dim);
    memset(d_table, 0, vocab * dim * sizeof *d_table);
    tensor_embedding_gradient(&c.e, dy.f, 0, vocab, d_table);
    tensor_position_gradient(&c.e, dy.f, 0, sequence, d_positions);
    expect_finite_difference("embedding's gradient, differences", d_table, table.d, vocab * dim, embedding_scalar, &c);
    expect_finite_difference("positions' gradient, differences", d_positions, positions.d, sequence * dim,
                             embedding_scalar, &c);
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_norms),       cmocka_unit_test(test_column_sums),
        cmocka_unit_test(test_seed_rows),   cmocka_unit_test(test_sum_parts),
        cmocka_unit_test(test_activations), cmocka_unit_test(test_activations_at_the_edges),
        cmocka_unit_test(test_embedding),   cmocka_unit_test(test_embedding_differences),
        cmocka_unit_test(test_elementary),
    };
    return cmocka_run_group_tests(tests, kernel_setup, kernel_teardown);
}
