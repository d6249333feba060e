// Every kernel of the matrix product compared with its definition (gemm_kernels.h) bit for bit, and
// with fp64. All sizes from 1 to 70, both transposes, both modes, strides wider than rows; sizes
// that are divided into blocks; any number of threads.
#include "product_case.h"
#include "tensor/cpu/gemm_kernels.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

#ifdef ALL_CASES  // tests/campaign/tensor_gemm.c
enum { STRIDE = 1, SAMPLE = 61, NEXT_FORM = 1 };
#else
enum { STRIDE = 23, SAMPLE = 509, NEXT_FORM = 3 };
#endif
enum { SMALL = 70, POOLS = 2 };

static tensor_pool *pools[POOLS];

static expected expect(const product *p, size_t row, size_t col) {
    const tensor_gemm *g = &p->g;
    bool added = g->mode == GEMM_ADD;
    float before = p->c[row * g->c_stride + col], sum = added ? before : 0;
    expected e = {.exact = added ? (double)before : 0};
    e.weight = fabs(e.exact);
    size_t depth = g->k > 0 ? gemm_depth(g->k) : 0;
    for (size_t first = 0; first < g->k; first += depth) {
        float block = 0;
        for (size_t i = first; i < g->k && i < first + depth; i++) {
            float x = element(&g->a, row, i), y = element(&g->b, i, col);
            block = fmaf(x, y, block);
            e.exact += (double)x * (double)y;
            e.weight += fabs((double)x * (double)y);
        }
        sum = first > 0 || added ? sum + block : block;
    }
    e.bits = sum;
    return e;
}

// The error of a sum is at most that of its longest chain of roundings: depth + blocks, half a unit
// each.
static double bound_of(const tensor_gemm *g, const expected *e) {
    size_t depth = g->k > 0 ? gemm_depth(g->k) : 1;
    return (double)(2 * depth + g->k / depth + 2) * 0x1p-24 * e->weight;
}

static void make(const void *kernels, const tensor_gemm *g) { gemm_tile_by(kernels, g); }

static void check_element(const void *kernels, const product *p, size_t row, size_t col, float found) {
    const gemm_kernels *by = kernels;
    expected e = expect(p, row, col);
    bool fused = strstr(by->name, "not fused") == NULL;
    bool fine = fabs((double)found - e.exact) <= bound_of(&p->g, &e) && (!fused || found == e.bits);
    if (!fine) fail_element(by->name, p, row, col, found, &e);
}

static product_maker maker_of(const gemm_kernels *kernels) { return (product_maker){kernels, make, check_element}; }

static float *run_by(const gemm_kernels *kernels, const product *p) {
    const product_maker maker = maker_of(kernels);
    return made_by(&maker, p);
}

static void check_product(const gemm_kernels *kernels, const product *p, size_t step) {
    const product_maker maker = maker_of(kernels);
    check_made_by(&maker, p, step);
}

static void check_shape(size_t m, size_t n, size_t k, size_t step) {
    for (int form = 0; form < FORMS; form += NEXT_FORM) {
        product p = product_new(m, n, k, form);
        for (int i = 0; i < GEMM_KERNELS; i++)
            if (gemm_kernels_all[i]->works_here()) check_product(gemm_kernels_all[i], &p, step);
        product_free(&p);
    }
}

static size_t any_size(void) { return 1 + (size_t)rng_below(&numbers, SMALL); }

static void test_small(void **state) {
    (void)state;
    for (size_t size = 1; size <= SMALL; size += STRIDE) {
        check_shape(size, any_size(), any_size(), 1);
        check_shape(any_size(), size, any_size(), 1);
        check_shape(any_size(), any_size(), size, 1);
    }
}

// More than one block of k, of columns and of rows; strides that are multiples of a page come from
// GAP + 1019.
static void test_blocks(void **state) {
    (void)state;
    const size_t sizes[][3] = {{3, 50, DEPTH_MOST},
                               {9, 17, DEPTH_MOST + 1},
                               {130, 400, 2 * DEPTH_MOST + 5},
                               {67, 1000, DEPTH_MOST - 1},
                               {201, 20000, 3},
                               {20, 31, 1019},
                               {1019, 40, 33},
                               {70, 1019, 20},
                               {64, 288, 300},
                               {64, 193, 1},
                               {64, 208, 7},
                               {72, 240, 387},
                               {1100, 170, 390}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        check_shape(sizes[i][0], sizes[i][1], sizes[i][2], SAMPLE);
}

static void test_empty_sum_copies_the_addend(void **state) {
    (void)state;
    for (int form = 0; form < FORMS; form += 4) {
        product p = product_new(9, 20, 1, form);
        p.g.k = 0;
        for (int i = 0; i < GEMM_KERNELS; i++)
            if (gemm_kernels_all[i]->works_here()) check_product(gemm_kernels_all[i], &p, 1);
        product_free(&p);
    }
}

static void test_threads(void **state) {
    (void)state;
    const size_t sizes[][3] = {{1, 1, 1}, {1000, 100, 50}, {300, 900, 400}, {5, 3000, 20}, {2000, 7, 31}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int form = 0; form < FORMS; form += NEXT_FORM) {
            product p = product_new(sizes[i][0], sizes[i][1], sizes[i][2], form);
            float *whole = run_by(gemm_kernels_here(), &p);
            for (int j = 0; j < POOLS; j++) {
                float *c = begin_c(&p.g, &p, j > 0 && p.g.mode == GEMM_ADD);
                tensor_gemm_run(pools[j], &p.g);
                assert_memory_equal(c, whole, p.c_floats * sizeof *c);
                free(c);
            }
            free(whole);
            product_free(&p);
        }
}

// A product with rows of a and c that are filled in just before, and overwritten just after their
// use.
enum { BAD_ORDER = 100 };

typedef struct rows_case {
    const product *p;
    float *a, *c, *taken;
    atomic_uchar *state;  // state of a row: 0, 1 when filled in, 2 when used
} rows_case;

static void fill_rows(const void *context, size_t first, size_t count) {
    const rows_case *r = context;
    const tensor_gemm *g = &r->p->g;
    for (size_t row = first; row < first + count; row++) {
        if (atomic_fetch_add(&r->state[row], 1) != 0) r->state[row] = BAD_ORDER;
        if (!g->a.transposed) memcpy(r->a + row * g->a.stride, r->p->a + row * g->a.stride, g->k * sizeof *r->a);
        memcpy(r->c + row * g->c_stride, r->p->c + row * g->c_stride, g->n * sizeof *r->c);
    }
}

static void take_rows(const void *context, size_t first, size_t count) {
    const rows_case *r = context;
    const tensor_gemm *g = &r->p->g;
    for (size_t row = first; row < first + count; row++) {
        if (atomic_fetch_add(&r->state[row], 1) != 1) r->state[row] = BAD_ORDER;
        memcpy(r->taken + row * g->c_stride, r->c + row * g->c_stride, g->n * sizeof *r->c);
    }
}

static void check_rows(tensor_pool *pool, const product *p, const float *whole, bool also) {
    tensor_gemm g = p->g;
    size_t packed = tensor_gemm_packed(g.n, g.k), a_floats = (g.m - 1) * g.a.stride + g.k;
    rows_case r = {p, random_floats(a_floats), random_floats(p->c_floats), random_floats(p->c_floats), NULL};
    tensor_gemm_rows rows = {.before = fill_rows, .after = also ? take_rows : NULL, .context = &r};
    r.state = calloc(g.m, sizeof *r.state);
    rows.packed = malloc((packed ? packed : 1) * sizeof *rows.packed);
    assert_true(r.state && rows.packed);
    if (also) rows.prefetch[1].at = p->c, rows.prefetch[1].floats = g.n;
    if (!g.a.transposed) g.a.at = r.a;
    g.c = r.c;
    tensor_gemm_run_rows(pool, &g, &rows);
    for (size_t row = 0; row < g.m; row++) {
        const float *found = (also ? r.taken : r.c) + row * g.c_stride;
        assert_int_equal(r.state[row], also ? 2 : 1);
        assert_memory_equal(found, whole + row * g.c_stride, g.n * sizeof *found);
    }
    free(rows.packed);
    free(r.state);
    free(r.a);
    free(r.c);
    free(r.taken);
}

static void test_rows(void **state) {
    (void)state;
    const size_t sizes[][3] = {{1, 1, 1},       {63, 17, 5},    {64, 64, 128},  {1000, 100, 50},
                               {130, 210, 400}, {200, 33, 800}, {65, 700, 800}, {9, 20, 0}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int form = 0; form < FORMS; form += NEXT_FORM) {
            product p = product_new(sizes[i][0], sizes[i][1], sizes[i][2] ? sizes[i][2] : 1, form);
            p.g.k = sizes[i][2];
            float *whole = run_by(gemm_kernels_here(), &p);
            for (int j = 0; j < POOLS; j++) check_rows(pools[j], &p, whole, form % 4 == j);
            free(whole);
            product_free(&p);
        }
}

static void never_called(const void *context, size_t first, size_t count) {
    (void)context;
    fail_msg("%zu rows from %zu on", count, first);
}

static void test_no_rows(void **state) {
    (void)state;
    product p = product_new(1, 20, 30, 0);
    float *c = begin_c(&p.g, &p, false), packed[32 * 32 * 3 / 2];
    assert_int_equal(tensor_gemm_packed(p.g.n, p.g.k), sizeof packed / sizeof *packed);
    tensor_gemm_rows rows = {.before = never_called, .after = never_called, .packed = packed};
    p.g.m = 0;
    for (int j = 0; j < POOLS; j++) tensor_gemm_run_rows(pools[j], &p.g, &rows);
    assert_memory_equal(c, p.c, p.c_floats * sizeof *c);
    free(c);
    product_free(&p);
}

// NaN and infinity propagate; zeros do not hide them.
static void test_bad_numbers(void **state) {
    (void)state;
    for (int i = 0; i < GEMM_KERNELS; i++) {
        if (!gemm_kernels_all[i]->works_here()) continue;
        product p = product_new(9, 20, 30, 0);
        memset(p.b, 0, 30 * p.g.b.stride * sizeof *p.b - GAP * sizeof *p.b);
        p.a[2 * p.g.a.stride + 7] = NAN;
        p.a[5 * p.g.a.stride + 1] = INFINITY;
        float *c = run_by(gemm_kernels_all[i], &p);
        for (size_t row = 0; row < 9; row++)
            for (size_t col = 0; col < 20; col++)
                assert_int_equal(isnan(c[row * p.g.c_stride + col]), row == 2 || row == 5);
        free(c);
        product_free(&p);
    }
}

static int setup(void **state) {
    (void)state;
    numbers = (rng){seed};
    print_message("products by %s, seed %llu\n", tensor_gemm_name(false), (unsigned long long)seed);
    return tensor_pool_new(1, &pools[0], NULL) || tensor_pool_new(3, &pools[1], NULL);
}

static int teardown(void **state) {
    (void)state;
    for (int p = 0; p < POOLS; p++) tensor_pool_free(pools[p]);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_small),
        cmocka_unit_test(test_blocks),
        cmocka_unit_test(test_empty_sum_copies_the_addend),
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_bad_numbers),
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_no_rows),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
