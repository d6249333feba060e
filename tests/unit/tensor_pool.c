#include "tensor/pool.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MOST = 1000 };

typedef struct counts {
    unsigned threads;
    atomic_uint outside;   // number of tasks that saw an invalid slot
    unsigned calls[MOST];  // by index: each is called by one thread only
} counts;

static void count_call(void *context, size_t index) {
    counts *c = context;
    c->calls[index]++;
    if (tensor_pool_slot() >= c->threads) c->outside++;
}

static void test_each_index_once(void **state) {
    (void)state;
    for (unsigned threads = 1; threads <= 5; threads++) {
        tensor_pool *pool;
        assert_int_equal(tensor_pool_new(threads, &pool, NULL), BRAID_OK);
        assert_int_equal(tensor_pool_threads(pool), threads);
        for (size_t round = 0; round < 400; round++) {
            counts c = {.threads = threads};
            size_t count = round * 37 % MOST;
            tensor_pool_run(pool, count, count_call, &c);
            assert_int_equal(c.outside, 0);
            for (size_t i = 0; i < MOST; i++) assert_int_equal(c.calls[i], i < count ? 1 : 0);
        }
        tensor_pool_free(pool);
    }
}

static void mark_range(const void *context, size_t begin, size_t end) {
    unsigned *marks = *(unsigned *const *)context;
    for (size_t i = begin; i < end; i++) marks[i] = (unsigned)(end - begin);
}

static void test_ranges_cover(void **state) {
    (void)state;
    tensor_pool *pool;
    unsigned marks[100] = {0}, *at = marks;
    assert_int_equal(tensor_pool_new(3, &pool, NULL), BRAID_OK);
    tensor_pool_ranges(pool, 99, 20, mark_range, &at);
    for (size_t i = 0; i < 100; i++) assert_int_equal(marks[i], i < 80 ? 20 : i < 99 ? 19 : 0);
    tensor_pool_ranges(pool, 0, 20, mark_range, &at);
    tensor_pool_free(pool);
}

static void test_refuses_bad_counts(void **state) {
    (void)state;
    tensor_pool *pool;
    braid_error error;
    assert_int_equal(tensor_pool_new(0, &pool, &error), BRAID_ARGUMENT);
    assert_null(pool);
    assert_non_null(strstr(error.text, "0 compute threads"));
    assert_int_equal(tensor_pool_new(100000, &pool, &error), BRAID_ARGUMENT);
    tensor_pool_free(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_index_once),
        cmocka_unit_test(test_ranges_cover),
        cmocka_unit_test(test_refuses_bad_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
