// Attention over a cache compared with its definition (cache.h) bit for bit and with fp64: windows,
// soft caps, shared key heads, fp16 caches; rows that depend neither on their neighbours nor on
// threads.
#include "base/rng.h"
#include "tensor/cpu/cache_kernels.h"
#include "tensor/cpu/q_format.h"
#include "tensor/cpu/wide.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { POOLS = 2, GAP = 3 };

static tensor_pool *pools[POOLS];
static rng numbers = {3};
static const float untouched = 12345.678f;

typedef struct cache_case {
    size_t heads, kv_heads, width, count, window;
    float cap;
    bool half;
    tensor_cache cache;
    void *pages[20];
    size_t kv_stride, stride;
    float *keys, *values, *queries;  // [count, ...]: all positions
} cache_case;

static float *any(size_t count, float spread) {
    float *x = malloc(count * sizeof *x);
    assert_non_null(x);
    for (size_t i = 0; i < count; i++) x[i] = spread * (float)(2 * rng_unit(&numbers) - 1);
    return x;
}

static void open_case(cache_case *c) {
    c->kv_stride = c->kv_heads * c->width + GAP;
    c->stride = c->heads * c->width + GAP;
    c->cache = (tensor_cache){.kv_heads = c->kv_heads, .width = c->width, .half = c->half};
    size_t bytes = tensor_cache_bytes(&c->cache), pages = c->count / CACHE_PAGE + 1;
    assert_true(bytes % 64 == 0 && pages <= sizeof c->pages / sizeof *c->pages);
    for (size_t i = 0; i < pages; i++) {  // in an order of memory that has nothing to do with the text's
        void *page = c->pages[pages - 1 - i] = aligned_alloc(64, 2 * bytes + 128);
        assert_non_null(page);
        memset(page, 0xff, 2 * bytes + 128);  // NaN where no position is
    }
    c->cache.pages = c->pages;
    c->cache.keys_at = 64 + bytes;
    c->cache.values_at = 0;
    c->keys = any(c->count * c->kv_stride, 2), c->values = any(c->count * c->kv_stride, 1);
    c->queries = any(c->count * c->stride, 2);
}

static void close_case(cache_case *c) {
    for (size_t i = 0; i < c->count / CACHE_PAGE + 1; i++) free(c->pages[i]);
    free(c->keys), free(c->values), free(c->queries);
}

// out[count, stride] by calls of `chunk` rows.
static float *run(cache_case *c, const cache_kernels *kernels, tensor_pool *pool, size_t chunk) {
    float *out = malloc(c->count * c->stride * sizeof *out);
    assert_non_null(out);
    for (size_t i = 0; i < c->count * c->stride; i++) out[i] = untouched;
    tensor_cache_attention a = {.cache = &c->cache, .heads = c->heads, .cap = c->cap, .window = c->window};
    a.scale = 1 / sqrtf((float)c->width);
    size_t floats = tensor_cache_scratch(pool, &a, c->count);
    a.scratch = aligned_alloc(64, (floats + 16) * sizeof(float) / 64 * 64 + 64);
    assert_non_null(a.scratch);
    for (size_t i = 0; i < 16; i++) a.scratch[floats + i] = untouched;
    for (size_t first = 0; first < c->count; first += chunk) {
        size_t rows = c->count - first < chunk ? c->count - first : chunk;
        tensor_cache_put(&c->cache, first, rows, c->keys + first * c->kv_stride, c->values + first * c->kv_stride,
                         c->kv_stride);
        cache_call call = {&a,   c->queries + first * c->stride, c->stride, first,
                           rows, out + first * c->stride,        c->stride};
        cache_attend_by(kernels, pool, &call);
    }
    for (size_t i = 0; i < 16; i++) assert_true(a.scratch[floats + i] == untouched);
    free(a.scratch);
    return out;
}

// --- the definition

static float stored(const cache_case *c, float x) { return c->half ? q_half(q_to_half(x)) : x; }

static float expect_score(const cache_case *c, const float *query, const float *key) {
    float sum = 0;
    for (size_t i = 0; i < c->width; i++) sum = fmaf(query[i], stored(c, key[i]), sum);
    sum *= 1 / sqrtf((float)c->width);
    if (c->cap > 0) sum = c->cap * (1.0f - 2.0f / (wide_exp(sum / c->cap * 2.0f) + 1.0f));
    return sum;
}

static void check_row(const cache_case *c, size_t head, size_t row, const float *found) {
    size_t from = c->window && row + 1 > c->window ? row + 1 - c->window : 0;
    size_t kv = head / (c->heads / c->kv_heads) * c->width;
    float p[1200], top = -INFINITY, lane[LANES] = {0};
    double exact[1200], sum = 0;
    assert_true(row < 1200);
    for (size_t t = from; t <= row; t++) {
        const float *query = c->queries + row * c->stride + head * c->width, *key = c->keys + t * c->kv_stride + kv;
        p[t] = expect_score(c, query, key);
        top = p[t] > top ? p[t] : top;
        double dot = 0;
        for (size_t i = 0; i < c->width; i++) dot += (double)query[i] * (double)stored(c, key[i]);
        dot /= sqrt((double)c->width);
        sum += exact[t] = exp(c->cap > 0 ? (double)c->cap * tanh(dot / (double)c->cap) : dot);
    }
    for (size_t t = from; t <= row; t++) lane[t % LANES] += p[t] = wide_exp(p[t] - top);
    lanes all;
    lanes_load(&all, lane);
    float inverse = 1.0f / lanes_add(&all);
    for (size_t i = 0; i < c->width; i++) {
        float out = 0, block = 0;
        double wanted = 0;
        for (size_t t = from; t <= row; t++) {
            float value = stored(c, c->values[t * c->kv_stride + kv + i]);
            block = fmaf(p[t], value, block);
            if (t == row || (t + 1) % CACHE_BLOCK == 0) out += block, block = 0;
            wanted += exact[t] / sum * (double)value;
        }
        out *= inverse;
        if (memcmp(&out, &found[i], sizeof out) != 0 || !(fabs((double)out - wanted) < 2e-5))
            fail_msg("head %zu, row %zu: out[%zu] is %.9g, not %.9g (exactly %.9g)", head, row, i, (double)found[i],
                     (double)out, wanted);
    }
}

static void check(cache_case c) {
    open_case(&c);
    float *out = run(&c, &cache_plain, pools[0], c.count);
    for (size_t row = 0; row < c.count; row += row < 40 || row + 20 > c.count ? 1 : 17) {
        for (size_t head = 0; head < c.heads; head++) check_row(&c, head, row, out + row * c.stride + head * c.width);
        for (size_t i = c.heads * c.width; i < c.stride; i++) assert_true(out[row * c.stride + i] == untouched);
    }
    static const size_t chunks[] = {1, 5, 16, 33, 2000};
    for (size_t k = 0; k < CACHE_KERNELS; k++)
        for (size_t i = 0; cache_kernels_all[k]->works_here() && i < sizeof chunks / sizeof *chunks; i++) {
            float *other = run(&c, cache_kernels_all[k], pools[(i + k) % POOLS], chunks[i]);
            for (size_t j = 0; j < c.count * c.stride; j++)
                if (memcmp(&other[j], &out[j], sizeof *out) != 0)
                    fail_msg("%s, %zu positions, width %zu, chunks of %zu: row %zu, number %zu is %.9g, not %.9g",
                             cache_kernels_all[k]->name, c.count, c.width, chunks[i], j / c.stride, j % c.stride,
                             (double)other[j], (double)out[j]);
            free(other);
        }
    free(out);
    close_case(&c);
}

static void test_shapes(void **state) {
    (void)state;
    static const size_t widths[] = {4, 16, 24, 64, 80, 128};
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++)
        for (int half = 0; half < 2; half++)
            check((cache_case){.heads = 6, .kv_heads = i % 2 ? 2 : 3, .width = widths[i], .count = 34, .half = half});
    check((cache_case){.heads = 1, .kv_heads = 1, .width = 64, .count = 1});
    check((cache_case){.heads = 9, .kv_heads = 3, .width = 64, .count = 40});
}

static void test_windows_and_caps(void **state) {
    (void)state;
    static const size_t windows[] = {1, 15, 16, 17, 40, 100};
    for (size_t i = 0; i < sizeof windows / sizeof *windows; i++)
        check((cache_case){
            .heads = 2, .kv_heads = 1, .width = 16, .count = 60, .window = windows[i], .cap = i % 2 ? 3.0f : 0.0f});
}

// More positions than one chain of values has.
static void test_long(void **state) {
    (void)state;
    check((cache_case){.heads = 1, .kv_heads = 1, .width = 4, .count = 540});
    check((cache_case){.heads = 1, .kv_heads = 1, .width = 4, .count = 560, .window = 530, .half = true});
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
        cmocka_unit_test(test_shapes),
        cmocka_unit_test(test_windows_and_caps),
        cmocka_unit_test(test_long),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
