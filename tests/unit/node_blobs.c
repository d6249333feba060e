// The table of blobs: references, reuse, bounds.
#include "node/blobs.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <string.h>

static blobs *make(uint64_t max_bytes, uint64_t recycle_bytes) {
    blobs *b = NULL;
    assert_int_equal(blobs_new(max_bytes, recycle_bytes, &b, NULL), BRAID_OK);
    return b;
}

static blobs_count look(blobs *b) {
    blobs_count count;
    blobs_look(b, &count);
    return count;
}

static void bytes_live_until_the_last_release(void **state) {
    (void)state;
    blobs *b = make(0, 1 << 20);
    blob_id id = 0;
    uint8_t *data = blobs_add(b, 1000, &id);
    assert_non_null(data);
    assert_int_equal((uintptr_t)data % BLOBS_ALIGNMENT, 0);
    memset(data, 7, 1000);
    blobs_hold(b, id);
    blobs_release(b, id);
    uint64_t bytes = 0;
    const uint8_t *again = blobs_data(b, id, &bytes);
    assert_ptr_equal(again, data);
    assert_int_equal(bytes, 1000);
    assert_int_equal(again[999], 7);
    blobs_release(b, id);
    assert_int_equal(look(b).live, 0);
    assert_int_equal(look(b).live_bytes, 0);
    blobs_free(b);
}

static void a_steady_run_allocates_nothing(void **state) {
    (void)state;
    blobs *b = make(0, 1 << 20);
    for (int round = 0; round < 100; round++) {
        blob_id id[4];
        for (int i = 0; i < 4; i++) assert_non_null(blobs_add(b, 60000 + (uint64_t)i, &id[i]));
        for (int i = 0; i < 4; i++) blobs_release(b, id[i]);
    }
    assert_int_equal(look(b).allocations, 4);
    assert_int_equal(look(b).recycled, 4);
    blobs_trim(b);
    assert_int_equal(look(b).recycled_bytes, 0);
    blobs_free(b);
}

static void reused_memory_is_bounded(void **state) {
    (void)state;
    blobs *b = make(0, 10000);
    blob_id id[20];
    for (int i = 0; i < 20; i++) assert_non_null(blobs_add(b, 3000, &id[i]));
    for (int i = 0; i < 20; i++) blobs_release(b, id[i]);
    assert_true(look(b).recycled_bytes <= 10000);
    assert_true(look(b).recycled > 0);
    blob_id large;
    assert_non_null(blobs_add(b, 50000, &large));
    blobs_release(b, large);
    assert_true(look(b).recycled_bytes <= 10000);
    blobs_free(b);
}

static void a_small_request_does_not_hold_a_large_buffer(void **state) {
    (void)state;
    blobs *b = make(0, 1 << 20);
    blob_id id;
    assert_non_null(blobs_add(b, 500000, &id));
    blobs_release(b, id);
    assert_non_null(blobs_add(b, 100, &id));
    assert_int_equal(look(b).recycled, 1);
    blobs_release(b, id);
    blobs_free(b);
}

static void live_memory_is_bounded(void **state) {
    (void)state;
    blobs *b = make(1000, 1 << 20);
    blob_id first, second;
    assert_non_null(blobs_add(b, 600, &first));
    assert_null(blobs_add(b, 600, &second));
    assert_null(blobs_add(b, UINT64_MAX - 10, &second));
    blobs_release(b, first);
    assert_non_null(blobs_add(b, 600, &second));
    blobs_free(b);  // frees the remaining blobs
}

static void numbers_are_not_reused(void **state) {
    (void)state;
    blobs *b = make(0, 1 << 20);
    blob_id first, second;
    blobs_add(b, 10, &first);
    blobs_release(b, first);
    blobs_add(b, 10, &second);
    assert_true(first != second);
    assert_true(first != 0 && second != 0);
    blobs_free(b);
}

static void many_at_once(void **state) {
    (void)state;
    enum { COUNT = 5000 };
    static blob_id id[COUNT];
    blobs *b = make(0, 1 << 20);
    for (uint32_t i = 0; i < COUNT; i++) {
        uint32_t *data = blobs_add(b, sizeof i, &id[i]);
        assert_non_null(data);
        *data = i;
    }
    for (uint32_t i = 0; i < COUNT; i += 2) blobs_release(b, id[i]);
    for (uint32_t i = 1; i < COUNT; i += 2) {
        const uint32_t *data = blobs_data(b, id[i], NULL);
        assert_int_equal(*data, i);
    }
    assert_int_equal(look(b).live, COUNT / 2);
    blobs_free(b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_live_until_the_last_release),
        cmocka_unit_test(a_steady_run_allocates_nothing),
        cmocka_unit_test(reused_memory_is_bounded),
        cmocka_unit_test(a_small_request_does_not_hold_a_large_buffer),
        cmocka_unit_test(live_memory_is_bounded),
        cmocka_unit_test(numbers_are_not_reused),
        cmocka_unit_test(many_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
