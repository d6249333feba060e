// Cross-entropy in tiles compared with its reference implementation. The gradient is also compared
// with finite differences (central, fp64), and the bits with one thread with those of three.
#include "kernel_case.h"

typedef struct loss_case {
    size_t rows, vocab;
    const int32_t *targets;
    double *logits;
} loss_case;

static double loss_scalar(const void *context) {
    const loss_case *c = context;
    return reference_loss(c->logits, c->targets, c->rows, c->vocab, NULL);
}

// Results of a loss, and its tiles: logits divided at multiples of `cols`, tile after tile.
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_loss),
        cmocka_unit_test(test_loss_shows_bad_numbers),
    };
    return cmocka_run_group_tests(tests, kernel_setup, kernel_teardown);
}
