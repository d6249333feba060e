// Shared by the tests of products: a random product with arrays of exactly the required size.
#ifndef BRAID_TESTS_PRODUCT_CASE_H
#define BRAID_TESTS_PRODUCT_CASE_H

#include "base/rng.h"
#include "tensor/gemm.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

enum { GAP = 5, FORMS = 8 };

static const float untouched = 12345.678f;
static const uint64_t seed = 20250401;
static rng numbers;

typedef struct product {
    tensor_gemm g;
    float *a, *b, *c;  // a copy of the initial c
    size_t c_floats;
} product;

static inline float *random_floats(size_t count) {
    float *values = malloc(count * sizeof *values);
    assert_non_null(values);
    for (size_t i = 0; i < count; i++) values[i] = (float)(2 * rng_unit(&numbers) - 1);
    return values;
}

static inline tensor_matrix random_matrix(bool transposed, size_t rows, size_t cols, float **memory) {
    size_t across = transposed ? rows : cols, down = transposed ? cols : rows, stride = across + GAP;
    // Exactly the required size, so that a sanitizer notices reads past the last element.
    size_t count = down * stride - GAP;
    *memory = random_floats(count);
    for (size_t i = 0; i < count; i++)
        // gaps between rows must not be read, not even to multiply by zero
        if (i % stride >= across) (*memory)[i] = NAN;
    return (tensor_matrix){*memory, stride, transposed};
}

// form: bits for a transposed, b transposed, added.
static inline product product_new(size_t m, size_t n, size_t k, int form) {
    product p = {.g = {.m = m, .n = n, .k = k, .c_stride = n + GAP, .mode = form & 4 ? GEMM_ADD : GEMM_SET}};
    p.g.a = random_matrix(form & 1, m, k, &p.a);
    p.g.b = random_matrix(form & 2, k, n, &p.b);
    p.c_floats = (m - 1) * p.g.c_stride + n + GAP;
    p.c = malloc(p.c_floats * sizeof *p.c);
    assert_non_null(p.c);
    for (size_t i = 0; i < p.c_floats; i++) p.c[i] = i % p.g.c_stride < n ? (float)rng_unit(&numbers) : untouched;
    return p;
}

static inline void product_free(product *p) {
    free(p->a);
    free(p->b);
    free(p->c);
}

static inline float element(const tensor_matrix *m, size_t row, size_t col) {
    return m->transposed ? m->at[col * m->stride + row] : m->at[row * m->stride + col];
}

// Computes c into p->c, or into a separate array with p->c as the addend.
static inline float *begin_c(tensor_gemm *g, const product *p, bool beside) {
    float *c = malloc(p->c_floats * sizeof *c);
    assert_non_null(c);
    for (size_t i = 0; i < p->c_floats; i++) c[i] = beside ? untouched : p->c[i];
    g->c = c;
    g->more = beside ? p->c : NULL;
    return c;
}

typedef struct expected {
    float bits;            // by the definition
    double exact, weight;  // in fp64; the sum of magnitudes
} expected;

// The kernels under test: their products, and a message about a wrong element.
typedef struct product_maker {
    const void *kernels;
    void (*make)(const void *kernels, const tensor_gemm *g);
    void (*check)(const void *kernels, const product *p, size_t row, size_t col, float found);
} product_maker;

// Computes c with them; for added products also into a separate array, with the same bits.
static inline float *made_by(const product_maker *m, const product *p) {
    tensor_gemm g = p->g;
    float *c = begin_c(&g, p, false);
    m->make(m->kernels, &g);
    if (g.mode == GEMM_SET) return c;
    float *other = begin_c(&g, p, true);
    m->make(m->kernels, &g);
    assert_memory_equal(other, c, p->c_floats * sizeof *c);
    free(other);
    return c;
}

// Every `step`-th element; also those that must not change.
static inline void check_made_by(const product_maker *m, const product *p, size_t step) {
    float *c = made_by(m, p);
    for (size_t i = 0, there = 0; i < p->c_floats; i++) {
        size_t row = i / p->g.c_stride, col = i % p->g.c_stride;
        if (col >= p->g.n)
            assert_true(c[i] == untouched);
        else if (there++ % step == 0)
            m->check(m->kernels, p, row, col, c[i]);
    }
    free(c);
}

static inline void fail_element(const char *name, const product *p, size_t row, size_t col, float found,
                                const expected *e) {
    const tensor_gemm *g = &p->g;
    fail_msg("%s, %zu x %zu x %zu, %s%s: c[%zu][%zu] is %.9g, not %.9g (exactly %.9g)", name, g->m, g->n, g->k,
             g->a.transposed ? "T" : "N", g->b.transposed ? "T" : "N", row, col, (double)found, (double)e->bits,
             e->exact);
}

#endif
