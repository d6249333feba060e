// Shared by the tests of kernels: arrays that detect writes beyond their end, random numbers in
// both precisions, comparisons with a reference implementation and with its finite differences, and
// two thread pools.
#ifndef BRAID_TESTS_KERNEL_CASE_H
#define BRAID_TESTS_KERNEL_CASE_H

#include "base/rng.h"
#include "tensor/gemm.h"
#include "tensor/kernels.h"
#include "tensor/reference.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { POOLS = 2, MOST_ARRAYS = 64, GUARD = 16 };

static const uint64_t seed = 20240607;
// largest error divided by the root mean square of the expected values
static const double tolerance = 2e-5;
static const float untouched = 12345.678f;

static tensor_pool *pools[POOLS];
static rng numbers;
static struct {
    void *memory;
    size_t floats;  // then GUARD floats that must stay unchanged; 0: an fp64 array
} arrays[MOST_ARRAYS];
static size_t array_count;

static inline float *floats(size_t count) {
    float *values = malloc((count + GUARD) * sizeof *values);
    assert_non_null(values);
    assert_true(array_count < MOST_ARRAYS);
    for (size_t i = 0; i < count + GUARD; i++) values[i] = untouched;
    arrays[array_count].memory = values;
    arrays[array_count++].floats = count;
    return values;
}

static inline double *doubles(size_t count) {
    double *values = calloc(count, sizeof *values);
    assert_non_null(values);
    assert_true(array_count < MOST_ARRAYS);
    arrays[array_count].memory = values;
    arrays[array_count++].floats = 0;
    return values;
}

static inline void free_arrays(void) {
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

static inline pair random_pair(size_t count, double centre, double spread) {
    pair p = {floats(count), doubles(count)};
    for (size_t i = 0; i < count; i++) {
        p.f[i] = (float)(centre + spread * (2 * rng_unit(&numbers) - 1) * 1.7);
        p.d[i] = (double)p.f[i];
    }
    return p;
}

static inline float *copy_of(const float *from, size_t count) {
    float *to = floats(count);
    memcpy(to, from, count * sizeof *to);
    return to;
}

static inline void expect_near_within(const char *what, const float *found, const double *expected, size_t count,
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

static inline void expect_near(const char *what, const float *found, const double *expected, size_t count) {
    expect_near_within(what, found, expected, count, tolerance);
}

typedef double (*scalar_fn)(const void *context);

// d scalar / d x by finite differences, one element after another.
static inline void expect_finite_difference(const char *what, const float *gradient, double *x, size_t count,
                                            scalar_fn scalar, const void *context) {
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

static inline double weighted_sum(const double *x, const double *weights, size_t count) {
    double sum = 0;
    for (size_t i = 0; i < count; i++) sum += x[i] * weights[i];
    return sum;
}

static inline int kernel_setup(void **state) {
    (void)state;
    numbers.state = seed;
    print_message("products by %s, seed %llu\n", tensor_gemm_name(false), (unsigned long long)seed);
    return tensor_pool_new(1, &pools[0], NULL) || tensor_pool_new(3, &pools[1], NULL);
}

static inline int kernel_teardown(void **state) {
    (void)state;
    for (int p = 0; p < POOLS; p++) tensor_pool_free(pools[p]);
    return 0;
}

#endif
