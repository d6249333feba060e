// A matrix times a vector, and one query's attention, compared with sums in fp64. Error bounds: for
// fp32 sums a few units in the last place of the sum of magnitudes; for 8-bit weights also half a
// quantisation step per group.
#include "tensor/matvec.h"

#include "base/rng.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MOST = 700 };

static rng numbers = {5};
static float weights[MOST * MOST], x[MOST + MATVEC_GROUP], bias[MOST], y[MOST + 1];

static float number(void) { return (float)(2 * rng_unit(&numbers) - 1); }

static void fill(size_t in, size_t out) {
    memset(x, 0, sizeof x);
    for (size_t i = 0; i < in * out; i++) weights[i] = number();
    for (size_t i = 0; i < in; i++) x[i] = number();
    for (size_t i = 0; i < out; i++) bias[i] = number();
    // a group, or its part within the row
    if (in > MATVEC_GROUP) memset(weights, 0, MATVEC_GROUP * sizeof *weights);
}

static float weight(const tensor_matvec *m, size_t k, size_t i) {
    return m->w.transposed ? m->w.at[i * m->w.stride + k] : m->w.at[k * m->w.stride + i];
}

static void expect_product(const tensor_matvec *m) {
    for (size_t i = 0; i < m->out; i++) {
        double sum = m->bias ? (double)bias[i] : 0, size = fabs(sum), step = 0;
        for (size_t first = 0; first < m->in; first += MATVEC_GROUP) {
            double largest = 0, inputs = 0;
            for (size_t k = first; k < m->in && k < first + MATVEC_GROUP; k++) {
                double w = (double)weight(m, k, i);
                sum += w * (double)x[k];
                size += fabs(w * (double)x[k]);
                largest = fmax(largest, fabs(w));
                inputs += fabs((double)x[k]);
            }
            step += 0.5 / 127 * largest * inputs;
        }
        double bound = 1e-6 * size + (m->bytes ? 1.001 * step : 0), error = fabs((double)y[i] - sum);
        if (!(error <= bound)) fail_msg("%zu x %zu, output %zu: error %g, bound %g", m->in, m->out, i, error, bound);
    }
    assert_true(y[m->out] == 7);
}

static void check(tensor_pool *pool, size_t in, size_t out) {
    for (int way = 0; way < 6; way++) {
        bool transposed = way % 2, narrow = way / 2 == 1;
        fill(in, out);
        tensor_matvec m = {.in = in, .out = out, .bias = way < 4 ? bias : NULL};
        m.w = transposed ? tensor_transposed(weights, in) : tensor_plain(weights, out);
        if (narrow) {
            m.bytes = malloc(out * matvec_groups(in) * MATVEC_GROUP);
            m.scales = malloc(out * matvec_groups(in) * sizeof *m.scales);
            tensor_matvec_narrow(pool, &m);
        }
        y[out] = 7;
        tensor_matvec_run(pool, &m, x, y);
        expect_product(&m);
        free(m.bytes);
        free(m.scales);
    }
}

static void test_products(void **state) {
    (void)state;
    static const size_t sizes[] = {1, 3, 16, 63, 64, 65, 129, 300, 512, 700};
    tensor_pool *pool;
    assert_int_equal(tensor_pool_new(2, &pool, NULL), BRAID_OK);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (size_t j = 0; j < sizeof sizes / sizeof *sizes; j++) check(pool, sizes[i], sizes[j]);
    tensor_pool_free(pool);
}

static void test_attention_of_one_query(void **state) {
    (void)state;
    enum { WIDTH = 24, COUNT = 77 };
    float query[WIDTH], keys[COUNT * WIDTH], values[COUNT * WIDTH], scores[COUNT], out[WIDTH];
    for (size_t i = 0; i < WIDTH; i++) query[i] = 4 * number();
    for (size_t i = 0; i < COUNT * WIDTH; i++) keys[i] = number(), values[i] = number();
    for (size_t count = 1; count <= COUNT; count += 19) {
        double expected[WIDTH] = {0}, sum = 0;
        for (size_t t = 0; t < count; t++) {
            double score = 0;
            for (size_t i = 0; i < WIDTH; i++) score += (double)query[i] * (double)keys[t * WIDTH + i];
            score = exp(score / sqrt(WIDTH));
            sum += score;
            for (size_t i = 0; i < WIDTH; i++) expected[i] += score * (double)values[t * WIDTH + i];
        }
        tensor_attend(query, keys, values, count, WIDTH, scores, out);
        for (size_t i = 0; i < WIDTH; i++) assert_true(fabs((double)out[i] - expected[i] / sum) < 2e-6);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_products),
        cmocka_unit_test(test_attention_of_one_query),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
