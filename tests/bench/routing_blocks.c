// Memory blocks for messages in flight.
#include "base/rng.h"
#include "bench/routing/blocks.h"
#include "seed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCKS = 200 };

static void test_blocks_do_not_overlap_and_are_used_again(void **state) {
    (void)state;
    rng r = seeded_rng("blocks", 2);
    routing_blocks b = {0};
    unsigned char *block[BLOCKS] = {0};
    size_t bytes[BLOCKS] = {0}, held = 0;
    for (uint32_t step = 0; step < 20000; step++) {
        uint32_t i = (uint32_t)rng_below(&r, BLOCKS);
        if (block[i] != NULL) {
            for (size_t at = 0; at < bytes[i]; at++) assert_int_equal(block[i][at], i);
            routing_blocks_give(&b, block[i], bytes[i]);
            block[i] = NULL;
            continue;
        }
        bytes[i] = 1 + (size_t)rng_below(&r, ROUTING_BLOCK_MAX);
        block[i] = routing_blocks_take(&b, bytes[i]);
        assert_non_null(block[i]);
        assert_int_equal((uintptr_t)block[i] % ROUTING_BLOCK_GRAIN, 0);
        memset(block[i], (int)i, bytes[i]);
        if (step == 10000) held = b.bytes;
    }
    // memory is bounded by the largest number of waiting messages
    assert_true(b.bytes <= held + (size_t)4 * ROUTING_BLOCK_PIECE);
    routing_blocks_close(&b);
    assert_true(b.bytes == 0);
}

static void test_large_memory_is_aligned(void **state) {
    (void)state;
    for (size_t bytes = 1; bytes < (size_t)8 << 20; bytes = bytes * 3 + 1) {
        unsigned char *memory = routing_memory(bytes);
        assert_non_null(memory);
        assert_int_equal((uintptr_t)memory % ROUTING_BLOCK_GRAIN, 0);
        memory[0] = memory[bytes - 1] = 1;
        free(memory);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_blocks_do_not_overlap_and_are_used_again),
        cmocka_unit_test(test_large_memory_is_aligned),
    };
    return cmocka_run_group_tests_name("routing_blocks", tests, NULL, NULL);
}
