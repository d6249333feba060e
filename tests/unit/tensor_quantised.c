// Every kernel for quantised weights compared with the definition (quantised.h) bit for bit, from the
// blocks of a file and for all formats; the error against fp64; rows that do not depend on their
// neighbours; fp32 weights against products of fp32.
#include "base/rng.h"
#include "tensor/cpu/q_floats.h"
#include "tensor/gemm.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MOST_COLS = 1536, MOST_M = 40, GAP = 3, POOLS = 2 };

static tensor_pool *pools[POOLS];
static rng numbers = {20261127};
static const float untouched = 12345.678f;

static const weight_type types[] = {WEIGHT_Q8_0, WEIGHT_Q4_0, WEIGHT_Q4_1, WEIGHT_Q5_0,
                                    WEIGHT_Q5_1, WEIGHT_Q4_K, WEIGHT_Q5_K, WEIGHT_Q6_K};
enum { TYPES = sizeof types / sizeof *types };

// --- the formats, number by number

typedef struct number {
    int integer;
    float scale, minimum;  // the weight is scale * integer + minimum
} number;

static float half_at(const uint8_t *at) { return q_half((uint16_t)(at[0] | at[1] << 8)); }

static unsigned nibble(const uint8_t *at, bool high) { return high ? *at >> 4 : *at & 15u; }

static number super_number(const uint8_t *block, size_t i, unsigned integer) {
    const uint8_t *q = block + 4;
    size_t b = i / 32;
    unsigned scale = b < 4 ? q[b] & 63u : (q[b + 4] & 15u) | (q[b - 4] & 0xc0u) >> 2;
    unsigned minimum = b < 4 ? q[b + 4] & 63u : (unsigned)(q[b + 4] >> 4) | (q[b] & 0xc0u) >> 2;
    return (number){(int)integer, half_at(block) * (float)scale, -(half_at(block + 2) * (float)minimum)};
}

static number q6_k_number(const uint8_t *block, size_t i) {
    size_t part = i / 128, l = i % 128, quarter = l / 32;
    unsigned low = nibble(block + part * 64 + l % 64, quarter >= 2);
    unsigned high = (unsigned)block[128 + part * 32 + l % 32] >> 2 * quarter & 3u;
    return (number){(int)(low | high << 4) - 32, half_at(block + 208) * (float)(int8_t)block[192 + i / 16], 0};
}

// Bit i of a little-endian row of bits.
static unsigned bit(const uint8_t *bits, size_t i) { return (unsigned)bits[i / 8] >> i % 8 & 1u; }

// Number i of a block.
static number number_of(weight_type type, const uint8_t *block, size_t i) {
    unsigned at = (unsigned)i % 16;
    bool up = i >= 16;
    switch (type) {
    case WEIGHT_Q8_0: return (number){(int8_t)block[2 + i], half_at(block), 0};
    case WEIGHT_Q4_0: return (number){(int)nibble(block + 2 + at, up) - 8, half_at(block), 0};
    case WEIGHT_Q4_1: return (number){(int)nibble(block + 4 + at, up), half_at(block), half_at(block + 2)};
    case WEIGHT_Q5_0:
        return (number){(int)(nibble(block + 6 + at, up) | bit(block + 2, i) << 4) - 16, half_at(block), 0};
    case WEIGHT_Q5_1:
        return (number){(int)(nibble(block + 8 + at, up) | bit(block + 4, i) << 4), half_at(block), half_at(block + 2)};
    case WEIGHT_Q4_K: return super_number(block, i, nibble(block + 16 + i / 64 * 32 + i % 32, i % 64 >= 32));
    case WEIGHT_Q5_K:
        return super_number(block, i,
                            nibble(block + 48 + i / 64 * 32 + i % 32, i % 64 >= 32) |
                                ((unsigned)block[16 + i % 32] >> i / 32 & 1u) << 4);
    default: return q6_k_number(block, i);
    }
}

// --- a case

typedef struct quantised_case {
    weight_matrix w;
    const q_format *format;
    uint8_t *data, *copy;
    tensor_quantised prepared;
    size_t m, x_stride, y_stride;
    float *x;
} quantised_case;

static float any(void) { return (float)(2 * rng_unit(&numbers) - 1); }

// fp16 scales near 0.01, of both signs; sometimes subnormal.
static void put_half(uint8_t *at) {
    uint16_t bits = q_to_half(any() * (rng_below(&numbers, 16) == 0 ? 1e-6f : 0.02f));
    at[0] = (uint8_t)bits;
    at[1] = (uint8_t)(bits >> 8);
}

static void *aligned(size_t bytes) {
    void *memory = aligned_alloc(TENSOR_QUANTISED_ALIGN, (bytes + 63) / 64 * 64);
    assert_non_null(memory);
    return memory;
}

static void fill_blocks(quantised_case *c) {
    size_t blocks = c->w.rows * c->w.cols / c->format->elements;
    c->data = malloc(blocks * c->format->bytes);
    assert_non_null(c->data);
    for (size_t b = 0; b < blocks; b++) {
        uint8_t *at = c->data + b * c->format->bytes;
        for (size_t i = 0; i < c->format->bytes; i++) at[i] = (uint8_t)rng_below(&numbers, 256);
        put_half(c->w.type == WEIGHT_Q6_K ? at + 208 : at);
        if (c->format->minimum) put_half(at + 2);
    }
}

static void fill_x(quantised_case *c) {
    c->x_stride = c->w.cols + GAP;
    c->x = malloc(c->m * c->x_stride * sizeof *c->x);
    assert_non_null(c->x);
    for (size_t i = 0; i < c->m * c->x_stride; i++) c->x[i] = i % c->x_stride < c->w.cols ? any() : NAN;
    for (size_t i = 0; i < 32; i++) c->x[i] = 0;                                   // a block of zeros
    for (size_t i = 0; i < 32; i++) c->x[(c->m - 1) * c->x_stride + i] *= 1e-33f;  // and one that is too small
}

static quantised_case case_new(weight_type type, size_t m, size_t rows, size_t cols) {
    quantised_case c = {.w = {type, rows, cols, NULL}, .format = q_format_of(type), .m = m, .y_stride = rows + GAP};
    assert_true(tensor_quantised_fits(type, cols));
    fill_blocks(&c);
    c.w.data = c.data;
    c.copy = aligned(tensor_quantised_bytes(&c.w));
    tensor_quantised_prepare(pools[1], &c.w, c.copy, &c.prepared);
    fill_x(&c);
    return c;
}

static void case_free(quantised_case *c) {
    free(c->data);
    free(c->copy);
    free(c->x);
}

// --- the definition

typedef struct row_integers {
    int values[MOST_COLS];
    float scales[MOST_COLS / 32], sums[MOST_COLS / 32];
} row_integers;

static void integers_of(const float *x, size_t cols, row_integers *to) {
    for (size_t b = 0; b < cols / 32; b++) {
        float largest = 0;
        bool finite = true;
        int sum = 0;
        for (size_t i = 32 * b; i < 32 * b + 32; i++) {
            largest = fmaxf(largest, fabsf(x[i]));
            finite &= isfinite(x[i]) != 0;
        }
        bool zero = !finite || largest < 0x1p-100f;
        for (size_t i = 32 * b; i < 32 * b + 32; i++) {
            to->values[i] = zero ? 0 : (int)nearbyintf(x[i] * (127.0f / largest));
            sum += to->values[i];
        }
        to->scales[b] = !finite ? NAN : zero ? 0 : largest / 127.0f;
        to->sums[b] = to->scales[b] * (float)sum;
    }
}

typedef struct expected {
    float bits;
    double exact, bound;
} expected;

static expected expect(const quantised_case *c, const float *x, const row_integers *q, size_t row) {
    const q_format *f = c->format;
    const uint8_t *blocks = c->data + row * c->w.cols / f->elements * f->bytes;
    float dots = 0, mins = 0;
    expected e = {0};
    size_t step = c->w.type == WEIGHT_Q6_K ? 16 : 32;
    for (size_t first = 0; first < c->w.cols; first += step) {
        size_t b = first / 32;
        number n = {0};
        int sum = 0;
        for (size_t i = first; i < first + step; i++) {
            n = number_of(c->w.type, blocks + i / f->elements * f->bytes, i % f->elements);
            sum += n.integer * q->values[i];
            double weight = (double)n.scale * n.integer + (double)n.minimum;
            e.exact += weight * (double)x[i];
            e.bound += fabs(weight) * (0.51 * (double)q->scales[b]) + 1e-5 * fabs(weight * (double)x[i]);
            e.bound += 1e-5 * fabs((double)n.minimum * (double)x[i]);
        }
        dots = fmaf(n.scale * q->scales[b], (float)sum, dots);
        if (f->minimum) mins = fmaf(n.minimum, q->sums[b], mins);
    }
    e.bits = f->minimum ? dots + mins : dots;
    return e;
}

// The products of a call with one or two times the same matrix.
static float *run(const q_kernels *kernels, tensor_pool *pool, const quantised_case *c, size_t first, size_t m,
                  bool add) {
    size_t floats = m * c->y_stride + GAP;
    float *y = malloc(2 * floats * sizeof *y);
    uint8_t *scratch = aligned(tensor_quantised_scratch(pool, m, c->w.cols) + 64);
    memset(scratch, 0xaa, tensor_quantised_scratch(pool, m, c->w.cols) + 64);
    assert_non_null(y);
    for (size_t i = 0; i < 2 * floats; i++) y[i] = add && i % floats % c->y_stride < c->w.rows ? 0.5f : untouched;
    tensor_quantised_product products[2] = {{&c->prepared, y, c->y_stride, add},
                                            {&c->prepared, y + floats, c->y_stride, add}};
    q_call call = {c->x + first * c->x_stride, c->x_stride, m, c->w.cols, products, 2};
    q_run_by(kernels, pool, &call, scratch);
    assert_memory_equal(y, y + floats, (floats - GAP) * sizeof *y);
    for (size_t i = 0; i < 64; i++) assert_true(scratch[tensor_quantised_scratch(pool, m, c->w.cols) + i] == 0xaa);
    free(scratch);
    return y;
}

static void check_row(const q_kernels *kernels, const quantised_case *c, const float *y, size_t row, bool add) {
    static row_integers q;
    const float *x = c->x + row * c->x_stride;
    integers_of(x, c->w.cols, &q);
    for (size_t i = 0; i < c->w.rows; i++) {
        expected e = expect(c, x, &q, i);
        float found = y[row * c->y_stride + i], bits = add ? 0.5f + e.bits : e.bits;
        double error = fabs((double)found - e.exact - (add ? 0.5 : 0));
        if (memcmp(&found, &bits, sizeof bits) != 0 || !(error <= e.bound + 1e-6))
            fail_msg("%s, type %d, %zu x %zu x %zu: y[%zu][%zu] is %.9g, not %.9g (exactly %.9g, bound %g)",
                     kernels->name, (int)c->w.type, c->m, c->w.rows, c->w.cols, row, i, (double)found, (double)bits,
                     e.exact, e.bound);
    }
    for (size_t i = c->w.rows; i < c->y_stride; i++) assert_true(y[row * c->y_stride + i] == untouched);
}

static void check_case(const quantised_case *c, bool add) {
    for (size_t k = 0; k < Q_KERNELS; k++) {
        const q_kernels *kernels = q_kernels_all[k];
        if (!kernels->works_here()) continue;
        float *first = run(kernels, pools[0], c, 0, c->m, add), *second = run(kernels, pools[1], c, 0, c->m, add);
        assert_memory_equal(first, second, c->m * c->y_stride * sizeof *first);
        for (size_t row = 0; row < c->m; row += row < 2 || row + 7 >= c->m ? 1 : 5)
            check_row(kernels, c, first, row, add);
        free(first);
        free(second);
    }
}

static void test_all_formats(void **state) {
    (void)state;
    static const struct {
        size_t m, rows, cols;
    } shapes[] = {{1, 16, 256},  {2, 17, 512},  {3, 1, 256},   {4, 33, 256},  {5, 40, 768},
                  {16, 16, 256}, {17, 31, 512}, {33, 48, 256}, {40, 19, 256}, {7, 20, 1536}};
    for (size_t t = 0; t < TYPES; t++)
        for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
            quantised_case c = case_new(types[t], shapes[s].m, shapes[s].rows, shapes[s].cols);
            check_case(&c, s % 2);
            case_free(&c);
        }
}

// Types with blocks of 32, for every number of rows.
static void test_all_rows(void **state) {
    (void)state;
    for (size_t t = 0; t < TYPES; t++) {
        if (q_format_of(types[t])->elements != 32) continue;
        for (size_t m = 1; m <= MOST_M; m++) {
            quantised_case c = case_new(types[t], m, 1 + (size_t)rng_below(&numbers, 40), 32 * (1 + m % 7));
            check_case(&c, m % 2);
            case_free(&c);
        }
    }
}

// The extreme integers: sums of products are largest, and -128 times -127 is one.
static void test_extremes(void **state) {
    (void)state;
    for (size_t t = 0; t < TYPES; t++)
        for (int low = 0; low < 2; low++) {
            quantised_case c = case_new(types[t], 20, 16, 512);
            for (size_t b = 0; b < 16 * 512 / c.format->elements; b++) {
                uint8_t *block = c.data + b * c.format->bytes;
                memset(block, low ? 0x80 : 0x7f, c.format->bytes);
                if (types[t] != WEIGHT_Q8_0) memset(block, low ? 0 : 0xff, c.format->bytes);
                put_half(types[t] == WEIGHT_Q6_K ? block + 208 : block);
                if (c.format->minimum) put_half(block + 2);
            }
            tensor_quantised_prepare(pools[0], &c.w, c.copy, &c.prepared);
            for (size_t i = 0; i < c.m * c.x_stride; i++) c.x[i] = i / c.x_stride % 2 ? -1.0f : 1.0f;
            check_case(&c, false);
            case_free(&c);
        }
}

// Halves are rounded to even, which all vector instructions do.
static void test_rounding(void **state) {
    (void)state;
    quantised_case c = case_new(WEIGHT_Q8_0, 6, 16, 64);
    for (size_t row = 0; row < c.m; row++)
        for (size_t i = 0; i < 64; i++)
            c.x[row * c.x_stride + i] = i % 32 == 0 ? 127.0f : (float)((int)i - 32) + (row % 2 ? 0.5f : -0.5f);
    check_case(&c, false);
    case_free(&c);
}

static void test_not_finite(void **state) {
    (void)state;
    static const float odd[] = {NAN, INFINITY, -INFINITY};
    for (size_t k = 0; k < Q_KERNELS; k++)
        for (size_t o = 0; q_kernels_all[k]->works_here() && o < 3; o++) {
            quantised_case c = case_new(o ? WEIGHT_Q8_0 : WEIGHT_Q4_1, 18, 16, 128);
            c.x[3 * c.x_stride + 70] = odd[o];
            float *y = run(q_kernels_all[k], pools[1], &c, 0, c.m, false);
            for (size_t i = 0; i < 16; i++) assert_true(isnan(y[3 * c.y_stride + i]));
            for (size_t row = 0; row < c.m; row++)
                if (row != 3) check_row(q_kernels_all[k], &c, y, row, false);
            free(y);
            case_free(&c);
        }
}

// A prompt in pieces gives the bits of the whole prompt.
static void test_pieces(void **state) {
    (void)state;
    quantised_case c = case_new(WEIGHT_Q4_1, 37, 40, 576);
    float *whole = run(q_kernels_here(), pools[1], &c, 0, c.m, false);
    for (size_t m = 1; m < 20; m += 3)
        for (size_t first = 0; first + m <= c.m; first += m) {
            float *piece = run(q_kernels_here(), pools[0], &c, first, m, false);
            assert_memory_equal(piece, whole + first * c.y_stride, (m * c.y_stride - GAP) * sizeof *piece);
            free(piece);
        }
    free(whole);
    case_free(&c);
}

// --- fp32, fp16 and bf16

// The product with prepared weights against that with their values in fp32.
static void check_wide(const weight_matrix *w, const float *wide, size_t m) {
    quantised_case k = {.w = *w, .m = m, .y_stride = w->rows + GAP};
    float *c = malloc(m * w->rows * sizeof *c);
    assert_non_null(c);
    fill_x(&k);
    assert_true(tensor_quantised_fits(w->type, w->cols) && tensor_quantised_bytes(w) == 0);
    tensor_quantised_prepare(pools[0], w, NULL, &k.prepared);
    tensor_gemm g = {.m = m, .n = w->rows, .k = w->cols, .c = c, .c_stride = w->rows};
    g.a = tensor_plain(k.x, k.x_stride);
    g.b = tensor_transposed(wide, w->cols);
    tensor_gemm_run(pools[0], &g);
    for (size_t p = 0; p < POOLS; p++) {
        float *y = run(q_kernels_here(), pools[p], &k, 0, m, false);
        for (size_t r = 0; r < m; r++) assert_memory_equal(y + r * k.y_stride, c + r * w->rows, w->rows * sizeof *y);
        free(y);
    }
    free(c), free(k.x);
}

static void check_floats(weight_type type, size_t m, size_t rows, size_t cols, size_t shift) {
    size_t size = type == WEIGHT_F32 ? 4 : 2;
    uint8_t *data = malloc(rows * cols * size + shift);
    float *wide = malloc(rows * cols * sizeof *wide);
    assert_true(data && wide);
    for (size_t i = 0; i < rows * cols; i++) {
        float x = any();
        uint32_t bits;
        memcpy(&bits, &x, sizeof bits);
        uint16_t narrow = type == WEIGHT_F16 ? q_to_half(x) : (uint16_t)(bits >> 16);
        memcpy(data + shift + i * size, size == 4 ? (const void *)&x : &narrow, size);
        bits &= 0xffff0000u;
        memcpy(&wide[i], &bits, sizeof bits);
        if (type == WEIGHT_F16) wide[i] = q_half(narrow);
        if (type == WEIGHT_F32) wide[i] = x;
    }
    weight_matrix w = {type, rows, cols, data + shift};
    check_wide(&w, wide, m);
    free(data), free(wide);
}

static void check_mixed8(size_t m, size_t rows, size_t cols) {
    size_t critical = (cols + 127) / 128, row_bytes = 4 + cols + 2 * critical;
    uint8_t *data = malloc(4 * critical + rows * row_bytes);
    float *wide = malloc(rows * cols * sizeof *wide);
    assert_true(data && wide);
    for (size_t row = 0; row < rows; row++) {
        uint8_t *at = data + 4 * critical + row * row_bytes;
        float scale = any();
        memcpy(at, &scale, sizeof scale);
        for (size_t i = 0; i < cols; i++) {
            at[4 + i] = (uint8_t)rng_below(&numbers, 256);
            wide[row * cols + i] = scale * (float)(int8_t)at[4 + i];
        }
        for (uint32_t i = 0; i < critical; i++) {
            uint32_t column = i * 128 + i % 7 % (uint32_t)(cols - i * 128);
            uint16_t bits = q_to_half(any());
            memcpy(data + 4 * i, &column, sizeof column);
            memcpy(at + 4 + cols + 2 * i, &bits, sizeof bits);
            wide[row * cols + column] = q_half(bits);
        }
    }
    weight_matrix w = {WEIGHT_MIXED8, rows, cols, data};
    check_wide(&w, wide, m);
    free(data), free(wide);
}

static void test_mixed8(void **state) {
    (void)state;
    static const size_t widths[] = {32, 128, 129, 300, 577};
    for (size_t i = 0; i < 5; i++)
        for (size_t m = 1; m < 20; m += m < 4 ? 1 : 8) check_mixed8(m, 30 + 25 * i, widths[i]);
}

static void test_floats(void **state) {
    (void)state;
    static const weight_type float_types[] = {WEIGHT_F32, WEIGHT_F16, WEIGHT_BF16};
    static const size_t widths[] = {32, 33, 100, 577, 1000};
    for (size_t t = 0; t < 3; t++)
        for (size_t i = 0; i < 5; i++)
            for (size_t m = 1; m < 20; m += m < 6 ? 1 : 6)
                check_floats(float_types[t], m, 1 + (size_t)rng_below(&numbers, 130), widths[i], m % 3 == 2);
}

// Loops for few rows against products of matrices.
static void test_few(void **state) {
    (void)state;
#if defined(__x86_64__)
    static const size_t widths[] = {1, 3, 4, 17, 386, 577};
    for (size_t k = 0; k < Q_FEW_KERNELS; k++)
        for (size_t m = 1; q_few_all[k]->works_here() && m <= Q_FEW_ROWS; m++)
            for (size_t i = 0; i < 6 * 5; i++) {
                size_t cols = widths[i % 6], rows = i / 6 * 13 + 1 + m, stride = rows + GAP;
                float *w = malloc(rows * cols * sizeof *w), *x = malloc(m * cols * sizeof *x);
                float *y = malloc(2 * m * stride * sizeof *y), *c = y + m * stride;
                assert_true(w && x && y);
                for (size_t j = 0; j < rows * cols; j++) w[j] = any();
                for (size_t j = 0; j < m * cols; j++) x[j] = any();
                for (size_t j = 0; j < m * stride; j++) y[j] = c[j] = any();
                q_few job = {.w = w, .x = x, .rows = rows, .cols = cols, .m = m, .x_stride = cols, .y = y};
                job.y_stride = stride, job.add = i % 2;
                size_t done = q_few_all[k]->product(&job);
                assert_true(done <= rows && rows - done < 32);
                tensor_gemm g = {.m = m, .n = done, .k = cols, .c = c, .c_stride = stride};
                g.a = tensor_plain(x, cols), g.b = tensor_transposed(w, cols);
                g.mode = job.add ? GEMM_ADD : GEMM_SET;
                if (done > 0) tensor_gemm_tile(&g);
                assert_memory_equal(y, c, m * stride * sizeof *y);
                free(w), free(x), free(y);
            }
#endif
}

// All fp16 and bf16 numbers.
static void test_widening(void **state) {
    (void)state;
#if defined(__x86_64__)
    enum { COUNT = 1 << 16 };
    uint16_t *from = malloc(COUNT * sizeof *from);
    float *to = malloc(2 * COUNT * sizeof *to);
    assert_true(from && to);
    for (size_t i = 0; i < COUNT; i++) from[i] = (uint16_t)i;
    for (size_t k = 0; k < Q_FEW_KERNELS; k++) {
        if (!q_few_all[k]->works_here()) continue;
        q_few_all[k]->widen_f16((const uint8_t *)from, COUNT - 3, to);
        q_few_all[k]->widen_bf16((const uint8_t *)from, COUNT - 3, to + COUNT);
        for (size_t i = 0; i < COUNT - 3; i++) {
            float half = q_half((uint16_t)i);
            uint32_t bits;
            memcpy(&bits, &to[COUNT + i], sizeof bits);
            assert_int_equal(bits, i << 16);
            assert_true(isnan(half) ? isnan(to[i]) : memcmp(&half, &to[i], sizeof half) == 0);
        }
    }
    free(from), free(to);
#endif
}

static void test_fits(void **state) {
    (void)state;
    assert_true(tensor_quantised_fits(WEIGHT_F32, 7) && tensor_quantised_fits(WEIGHT_BF16, 1));
    assert_true(tensor_quantised_fits(WEIGHT_Q4_1, 96) && tensor_quantised_fits(WEIGHT_Q6_K, 512));
    assert_false(tensor_quantised_fits(WEIGHT_Q4_1, 48) || tensor_quantised_fits(WEIGHT_Q6_K, 96));
    assert_false(tensor_quantised_fits(WEIGHT_Q8_0, 0) || tensor_quantised_fits(WEIGHT_TYPES, 32));
}

// All fp16 numbers survive; rounding is to nearest, half to even.
static void test_halves(void **state) {
    (void)state;
    for (uint32_t bits = 0; bits < 1 << 16; bits++) {
        float x = q_half((uint16_t)bits);
        if ((bits & 0x7c00) == 0x7c00 && (bits & 0x3ff) != 0) {
            assert_true(isnan(x) && isnan(q_half(q_to_half(x))));
            continue;
        }
        assert_int_equal(q_to_half(x), bits);
        if ((bits & 0x7fff) >= 0x7bff) continue;
        float next = q_half((uint16_t)(bits + 1)), middle = 0.5f * (x + next);
        assert_int_equal(q_to_half(middle), bits + (bits & 1));
        assert_int_equal(q_to_half(nextafterf(middle, x)), bits);
        assert_int_equal(q_to_half(nextafterf(middle, next)), bits + 1);
    }
    assert_int_equal(q_to_half(65519.0f), 0x7bff);
    assert_int_equal(q_to_half(-65520.0f), 0xfc00);
}

static int setup(void **state) {
    (void)state;
    for (unsigned p = 0; p < POOLS; p++)
        if (tensor_pool_new(p + 1, &pools[p], NULL)) return -1;
    return 0;
}

static int teardown(void **state) {
    (void)state;
    for (size_t p = 0; p < POOLS; p++) tensor_pool_free(pools[p]);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_formats), cmocka_unit_test(test_all_rows),   cmocka_unit_test(test_extremes),
        cmocka_unit_test(test_rounding),    cmocka_unit_test(test_not_finite), cmocka_unit_test(test_pieces),
        cmocka_unit_test(test_floats),      cmocka_unit_test(test_mixed8),     cmocka_unit_test(test_few),
        cmocka_unit_test(test_widening),    cmocka_unit_test(test_fits),       cmocka_unit_test(test_halves),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
