// Split products compared with their definition (gemm_split.h) bit for bit, and with fp64: with AMX
// where available, and on every machine with plain kernels in this file, so that the division into
// blocks is always tested.
#include "product_case.h"
#include "tensor/cpu/gemm_kernels.h"
#include "tensor/cpu/gemm_split.h"
#include "tensor/sizes.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

#ifdef ALL_CASES  // tests/campaign/tensor_split.c
enum { STRIDE = 1, FORM_STRIDE = 1 };
#else
enum { STRIDE = 9, FORM_STRIDE = 3 };
#endif
enum { POOLS = 2 };

static tensor_pool *pools[POOLS];

// --- the definition

// The nearest bf16, halves away from zero.
static float nearest(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    bits = (bits + (1u << 15)) & ~((1u << 16) - 1);
    memcpy(&x, &bits, sizeof x);
    return x;
}

static void split(float x, float parts[SPLIT_PARTS]) {
    for (int i = 0; i < SPLIT_PARTS - 1; i++) {
        parts[i] = nearest(x);
        x -= parts[i];
    }
    parts[SPLIT_PARTS - 1] = x;
}

static float of_bf16(uint16_t bf16) {
    uint32_t bits = (uint32_t)bf16 << 16;
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static uint16_t to_bf16(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return (uint16_t)(bits >> 16);
}

// The pairs of parts that are multiplied, in this order.
static const int order[][2] = {{0, 0}, {2, 0}, {1, 0}, {1, 1}, {0, 1}, {0, 2}};
enum { ORDERS = sizeof order / sizeof *order };

// One step of k for two parts: products of bf16 are exact.
static float step_sum(const float *x, const float *y) {
    float lower = 0, upper = 0;
    for (int i = 0; i < SPLIT_HALF; i++) {
        lower += x[i] * y[i];
        upper += x[SPLIT_HALF + i] * y[SPLIT_HALF + i];
    }
    return lower + upper;
}

// --- kernels

static float number_of(const split_source *s, size_t line, size_t k) {
    if (line >= s->lines || k >= s->depth) return 0;
    return s->order == SPLIT_ALONG ? s->at[line * s->stride + k] : s->at[k * s->stride + line];
}

// Offset of one part of a number in a panel.
static size_t place_of(bool of_a, size_t line, size_t k, size_t part) {
    size_t step = k / SPLIT_STEP, i = k % SPLIT_HALF, second = k % SPLIT_STEP >= SPLIT_HALF, at = line % SPLIT_LINES;
    size_t tile = step * 2 * SPLIT_PARTS + part * 2 + line / SPLIT_LINES;
    return tile * SPLIT_TILE + (of_a ? at * SPLIT_STEP + 2 * i : i * SPLIT_STEP + 2 * at) + second;
}

static void plain_pack(const split_source *s, bool of_a, uint16_t *to) {
    for (size_t line = 0; line < SPLIT_EDGE; line++)
        for (size_t k = 0; k < size_up(s->depth, SPLIT_STEP); k++) {
            float parts[SPLIT_PARTS];
            split(number_of(s, line, k), parts);
            for (size_t i = 0; i < SPLIT_PARTS; i++) to[place_of(of_a, line, k, i)] = to_bf16(parts[i]);
        }
}

static void plain_pack_a(const split_source *s, uint16_t *to) { plain_pack(s, true, to); }
static void plain_pack_b(const split_source *s, uint16_t *to) { plain_pack(s, false, to); }

static void plain_product(const split_block *p) {
    for (size_t row = 0; row < SPLIT_EDGE; row++)
        for (size_t col = 0; col < SPLIT_EDGE; col++) {
            size_t at = row * p->c_stride + col;
            float sum = p->add ? p->add[at] : 0;
            for (size_t k = 0; k < p->steps * SPLIT_STEP; k += SPLIT_STEP)
                for (int o = 0; o < ORDERS; o++) {
                    float x[SPLIT_STEP], y[SPLIT_STEP];
                    for (size_t i = 0; i < SPLIT_STEP; i++) {
                        x[i] = of_bf16(p->a[place_of(true, row, k + i, (size_t)order[o][0])]);
                        y[i] = of_bf16(p->b[place_of(false, col, k + i, (size_t)order[o][1])]);
                    }
                    sum += step_sum(x, y);
                }
            p->c[at] = sum;
        }
}

static void nothing(void) {}
static bool always(void) { return true; }

static const split_kernels plain = {
    .name = "plain C, split",
    .works_here = always,
    .pack_a = plain_pack_a,
    .pack_b = plain_pack_b,
    .begin = nothing,
    .end = nothing,
    .product = plain_product,
};

static size_t kernels_here(const split_kernels *all[2]) {
    size_t count = 0;
    all[count++] = &plain;
    if (split_kernels_here()) all[count++] = split_kernels_here();
    return count;
}

// --- products

static expected expect(const product *p, size_t row, size_t col) {
    const tensor_gemm *g = &p->g;
    expected e = {.bits = g->mode == GEMM_ADD ? p->c[row * g->c_stride + col] : 0};
    e.exact = (double)e.bits;
    e.weight = fabs(e.exact);
    for (size_t k = 0; k < g->k; k += SPLIT_STEP) {
        float x[SPLIT_PARTS][SPLIT_STEP] = {{0}}, y[SPLIT_PARTS][SPLIT_STEP] = {{0}};
        for (size_t i = 0; i < SPLIT_STEP && k + i < g->k; i++) {
            float a = element(&g->a, row, k + i), b = element(&g->b, k + i, col), a_parts[SPLIT_PARTS],
                  b_parts[SPLIT_PARTS];
            split(a, a_parts);
            split(b, b_parts);
            for (int part = 0; part < SPLIT_PARTS; part++) {
                x[part][i] = a_parts[part];
                y[part][i] = b_parts[part];
            }
            e.exact += (double)a * (double)b;
            e.weight += fabs((double)a * (double)b);
        }
        for (int o = 0; o < ORDERS; o++) e.bits += step_sum(x[order[o][0]], y[order[o][1]]);
    }
    return e;
}

// At most one rounding per step and pair, those within a step, and the size of the three omitted
// products.
static double bound_of(const tensor_gemm *g, const expected *e) {
    return (double)(ORDERS * size_pieces(g->k, SPLIT_STEP) + SPLIT_HALF + 4) * 0x1p-24 * e->weight;
}

static void make(const void *kernels, const tensor_gemm *g) { split_tile_by(kernels, g); }

static void check_element(const void *kernels, const product *p, size_t row, size_t col, float found) {
    const split_kernels *by = kernels;
    expected e = expect(p, row, col);
    bool fine = found == e.bits && fabs((double)found - e.exact) <= bound_of(&p->g, &e);
    if (!fine) fail_element(by->name, p, row, col, found, &e);
}

static product_maker maker_of(const split_kernels *kernels) { return (product_maker){kernels, make, check_element}; }

static float *run_by(const split_kernels *kernels, const product *p) {
    const product_maker maker = maker_of(kernels);
    return made_by(&maker, p);
}

static void check_product(const split_kernels *kernels, const product *p, size_t step) {
    const product_maker maker = maker_of(kernels);
    check_made_by(&maker, p, step);
}

static void check_shape(size_t m, size_t n, size_t k, size_t step) {
    const split_kernels *all[2];
    size_t count = kernels_here(all);
    for (int form = (int)rng_below(&numbers, FORM_STRIDE); form < FORMS; form += FORM_STRIDE) {
        product p = product_new(m, n, k, form);
        for (size_t i = 0; i < count; i++) check_product(all[i], &p, step);
        product_free(&p);
    }
}

static size_t any_size(size_t most) { return 1 + (size_t)rng_below(&numbers, most); }

static void test_small(void **state) {
    (void)state;
    for (size_t size = 1; size <= 70; size += STRIDE)
        check_shape(size % 2 ? size : any_size(40), size % 2 ? any_size(40) : size, any_size(70), 7);
    for (size_t k = 1; k <= 70; k += STRIDE) check_shape(any_size(20), any_size(20), k, 7);
}

// More than one block of k, of columns and of rows.
static void test_blocks(void **state) {
    (void)state;
    const size_t sizes[][3] = {{261, 5, 129}, {5, 1060, 33}, {9, 17, 400}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) check_shape(sizes[i][0], sizes[i][1], sizes[i][2], 97);
}

// Errors of all sums of a product: about as small as those of fused multiply-adds, which are summed
// in blocks.
static double error_of(const product *p, const float *c) {
    double sum = 0;
    for (size_t row = 0; row < p->g.m; row++)
        for (size_t col = 0; col < p->g.n; col++) {
            double difference = (double)c[row * p->g.c_stride + col] - expect(p, row, col).exact;
            sum += difference * difference;
        }
    return sqrt(sum);
}

static void test_precise(void **state) {
    (void)state;
    const size_t depths[] = {32, 128, 700, 2048, 8192};
    const split_kernels *all[2];
    size_t count = kernels_here(all);
    for (size_t i = 0; i < sizeof depths / sizeof *depths; i++) {
        product p = product_new(24, 24, depths[i], 0);
        float *fused = malloc(p.c_floats * sizeof *fused);
        tensor_gemm g = p.g;
        g.c = fused;
        gemm_tile_by(gemm_kernels_here(), &g);
        for (size_t k = 0; k < count; k++) {
            float *c = run_by(all[k], &p);
            double split_error = error_of(&p, c), fused_error = error_of(&p, fused);
            if (k == 0)
                print_message("k %zu: error %.3g, of fused multiply-adds %.3g\n", depths[i], split_error, fused_error);
            assert_true(split_error < (depths[i] > 2048 ? 3 : 1.5) * fused_error);
            free(c);
        }
        free(fused);
        product_free(&p);
    }
}

// Each row of a is the previous row times a power of two; the first row is scaled back.
static void scale_rows(product *p, int first, int step) {
    for (size_t row = 0; row < p->g.m; row++)
        for (size_t k = 0; k < p->g.k; k++) {
            float *x = &p->a[p->g.a.transposed ? k * p->g.a.stride + row : row * p->g.a.stride + k];
            *x = ldexpf(*x, first + step * (int)row);
        }
}

// The smallest numbers lose their lower parts: the error is small in absolute terms, though not
// relative to them.
static void test_smallest(void **state) {
    (void)state;
    const split_kernels *all[2];
    size_t count = kernels_here(all);
    for (int form = 0; form < 4; form++) {
        product p = product_new(20, 20, 50, form);
        scale_rows(&p, -90, -3);  // down to below the smallest number
        for (size_t k = 0; k < count; k++) {
            float *c = run_by(all[k], &p);
            for (size_t row = 0; row < 20; row++)
                for (size_t col = 0; col < 20; col++) {
                    expected e = expect(&p, row, col);
                    double error = fabs((double)c[row * p.g.c_stride + col] - e.exact);
                    assert_true(error <= bound_of(&p.g, &e) + 200 * 0x1p-126);
                }
            free(c);
        }
        product_free(&p);
    }
}

// From the smallest numbers with normal parts to nearly the largest of all.
static void test_far_numbers(void **state) {
    (void)state;
    const split_kernels *all[2];
    size_t count = kernels_here(all);
    for (int form = 0; form < 4; form++) {
        product p = product_new(20, 20, 50, form);
        scale_rows(&p, -95, 10);
        for (size_t i = 0; i < count; i++) check_product(all[i], &p, 1);
        product_free(&p);
    }
}

// NaN and infinity propagate.
static void test_bad_numbers(void **state) {
    (void)state;
    const float bad[] = {NAN, -NAN, INFINITY, -INFINITY};
    const uint32_t full = 0x7fffffff;  // rounding up its mantissa leaves the range of numbers
    const split_kernels *all[2];
    size_t count = kernels_here(all);
    for (size_t i = 0; i < count; i++)
        for (size_t which = 0; which <= sizeof bad / sizeof *bad; which++) {
            product p = product_new(40, 33, 70, 0);
            float *at = &p.a[2 * p.g.a.stride + 67];
            if (which < sizeof bad / sizeof *bad)
                *at = bad[which];
            else
                memcpy(at, &full, sizeof full);
            float *c = run_by(all[i], &p);
            for (size_t row = 0; row < 40; row++)
                for (size_t col = 0; col < 33; col++)
                    assert_int_equal(!isfinite(c[row * p.g.c_stride + col]), row == 2);
            free(c);
            product_free(&p);
        }
}

// --- by rows, and with threads

typedef struct rows_case {
    const product *p;
    float *c;
    atomic_uint begun, ended;  // rows
} rows_case;

static void fill_rows(const void *context, size_t first, size_t count) {
    rows_case *r = (rows_case *)context;
    const tensor_gemm *g = &r->p->g;
    for (size_t row = first; row < first + count; row++)
        memcpy(r->c + row * g->c_stride, r->p->c + row * g->c_stride, g->n * sizeof *r->c);
    atomic_fetch_add(&r->begun, (unsigned)count);
}

static void count_rows(const void *context, size_t first, size_t count) {
    (void)first;
    atomic_fetch_add(&((rows_case *)context)->ended, (unsigned)count);
}

// Packing once and multiplying some rows at a time gives the same bits as one piece.
static void check_some_rows(const split_kernels *kernels, const product *p, const float *whole) {
    tensor_gemm g = p->g;
    rows_case r = {.p = p, .c = begin_c(&g, p, true)};
    tensor_gemm_rows rows = {.before = fill_rows, .after = count_rows, .context = &r};
    rows.packed = malloc(split_packed(g.n, g.k) * sizeof *rows.packed);
    assert_non_null(rows.packed);
    g.more = NULL;
    for (size_t i = 0; i < split_pack_tasks(&g); i++) split_pack(kernels, &g, rows.packed, i);
    for (size_t row = 0; row < g.m; row += 45) split_some_rows(kernels, &g, &rows, row, size_least(45, g.m - row));
    assert_int_equal(r.begun, g.m);
    assert_int_equal(r.ended, g.m);
    for (size_t row = 0; row < g.m; row++)
        assert_memory_equal(r.c + row * g.c_stride, whole + row * g.c_stride, g.n * sizeof *whole);
    free(rows.packed);
    free(r.c);
}

static void test_rows(void **state) {
    (void)state;
    const size_t sizes[][3] = {{1, 1, 1}, {63, 17, 5}, {64, 64, 128}, {300, 40, 50}, {50, 140, 150}};
    const split_kernels *all[2];
    size_t count = kernels_here(all);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int form = (int)(i % FORM_STRIDE); form < FORMS; form += FORM_STRIDE) {
            product p = product_new(sizes[i][0], sizes[i][1], sizes[i][2], form);
            for (size_t k = 0; k < count; k++) {
                float *whole = run_by(all[k], &p);
                check_some_rows(all[k], &p, whole);
                free(whole);
            }
            product_free(&p);
        }
}

// `fastest` selects split products where the processor supports them, on any number of threads;
// without it they are never used.
static void test_fastest_selects_split_products(void **state) {
    (void)state;
    const size_t sizes[][3] = {{1, 1, 1}, {300, 100, 31}, {300, 100, 32}, {150, 400, 200}, {700, 40, 50}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int form = (int)(i % FORM_STRIDE); form < 2 * FORMS; form += FORM_STRIDE) {
            product p = product_new(sizes[i][0], sizes[i][1], sizes[i][2], form % FORMS);
            p.g.fastest = form >= FORMS;
            bool splits = p.g.fastest && p.g.k >= SPLIT_STEP && split_kernels_here();
            tensor_gemm g = p.g;
            float *whole = splits ? run_by(split_kernels_here(), &p) : begin_c(&g, &p, false);
            if (!splits) gemm_tile_by(gemm_kernels_here(), &g);
            for (int j = 0; j < POOLS; j++) {
                float *c = begin_c(&p.g, &p, false);
                tensor_gemm_run(pools[j], &p.g);
                assert_memory_equal(c, whole, p.c_floats * sizeof *c);
                free(c);
                c = begin_c(&p.g, &p, false);
                tensor_gemm_rows rows = {.packed = malloc(tensor_gemm_packed(p.g.n, p.g.k) * sizeof *c)};
                tensor_gemm_run_rows(pools[j], &p.g, &rows);
                assert_memory_equal(c, whole, p.c_floats * sizeof *c);
                free(rows.packed);
                free(c);
            }
            free(whole);
            product_free(&p);
        }
}

static int setup(void **state) {
    (void)state;
    numbers = (rng){seed};
    print_message("split products by %s, seed %llu\n",
                  split_kernels_here() ? split_kernels_here()->name : "plain C only", (unsigned long long)seed);
    return tensor_pool_new(1, &pools[0], NULL) || tensor_pool_new(3, &pools[1], NULL);
}

static int teardown(void **state) {
    (void)state;
    for (int p = 0; p < POOLS; p++) tensor_pool_free(pools[p]);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_small),    cmocka_unit_test(test_blocks),
        cmocka_unit_test(test_precise),  cmocka_unit_test(test_far_numbers),
        cmocka_unit_test(test_smallest), cmocka_unit_test(test_bad_numbers),
        cmocka_unit_test(test_rows),     cmocka_unit_test(test_fastest_selects_split_products),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
