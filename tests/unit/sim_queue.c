// The event queue against a plain list, and the blocks that events are kept in.
#include "base/rng.h"
#include "seed.h"
#include "sim/blocks.h"
#include "sim/queue.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

enum { EVENTS = 3000, BLOCKS = 200 };

typedef struct event {
    uint64_t at;
    bool waits;
} event;

// The waiting event that comes first: the least time, then the one put in first.
static uint32_t first_of(const event *list, uint32_t count) {
    uint32_t first = count;
    for (uint32_t i = 0; i < count; i++)
        if (list[i].waits && (first == count || list[i].at < list[first].at)) first = i;
    return first;
}

// Distances between two events: mostly few, sometimes none, sometimes enormous.
static uint64_t draw_gap(rng *r) {
    switch (rng_below(r, 4)) {
    case 0: return 0;
    case 1: return rng_below(r, 8);
    case 2: return rng_below(r, 5000);
    default: return rng_next(r) >> (8 + rng_below(r, 50));
    }
}

static void check_schedule(uint64_t seed) {
    rng r = {seed};
    sim_queue q = {0};
    event *list = calloc(EVENTS, sizeof *list);
    assert_non_null(list);
    uint64_t now = 0, at;
    uint32_t put = 0, waiting = 0;
    void *item;
    while (put < EVENTS || waiting > 0) {
        if (put < EVENTS && (waiting == 0 || rng_below(&r, 5) < 3)) {
            list[put] = (event){now + draw_gap(&r), true};
            sim_queue_put(&q, list[put].at, &list[put]);
            put++;
            waiting++;
            continue;
        }
        uint32_t want = first_of(list, put);
        assert_true(sim_queue_next(&q) == list[want].at);
        assert_true(sim_queue_take(&q, &at, &item));
        assert_ptr_equal(item, &list[want]);
        assert_true(at == list[want].at);
        list[want].waits = false;
        waiting--;
        now = at;
    }
    assert_false(sim_queue_take(&q, &at, &item));
    assert_true(sim_queue_next(&q) == UINT64_MAX);
    sim_queue_put(&q, 1, list);  // an empty queue begins anew, even in the past
    assert_true(sim_queue_take(&q, &at, &item) && at == 1);
    sim_queue_close(&q);
    free(list);
}

// Many events, always of the next round: however many rounds, there is memory for a few times as many.
static void test_memory_is_given_back(void **state) {
    (void)state;
    enum { MANY = 20000, ROUNDS = 100, ROUND = 2000 };
    sim_queue q = {0};
    uint64_t at;
    void *item = &q;
    for (uint64_t i = 0; i < MANY; i++) sim_queue_put(&q, ROUND, item);
    for (uint64_t i = 0; i < (uint64_t)MANY * ROUNDS; i++) {
        assert_true(sim_queue_take(&q, &at, &item));
        sim_queue_put(&q, at + ROUND, item);
    }
    assert_true(sim_queue_bytes(&q) <= 8 * MANY * sizeof(sim_queue_entry));
    sim_queue_close(&q);
}

static void test_events_come_by_time_then_by_turn(void **state) {
    (void)state;
    rng r = seeded_rng("queue", 1);
    for (uint64_t i = 0; i < 10; i++) check_schedule(rng_next(&r));
}

static void test_a_time_that_passed_counts_as_now(void **state) {
    (void)state;
    sim_queue q = {0};
    uint64_t at;
    void *item;
    int a, b, c;
    sim_queue_put(&q, 100, &a);
    sim_queue_put(&q, 100, &b);
    assert_true(sim_queue_take(&q, &at, &item) && item == &a);
    sim_queue_put(&q, 7, &c);
    assert_true(sim_queue_take(&q, &at, &item) && item == &b);
    assert_true(sim_queue_take(&q, &at, &item) && item == &c && at == 100);
    sim_queue_close(&q);
}

static void test_blocks_do_not_overlap_and_are_used_again(void **state) {
    (void)state;
    rng r = seeded_rng("blocks", 2);
    sim_blocks b = {0};
    unsigned char *block[BLOCKS] = {0};
    size_t bytes[BLOCKS] = {0}, held = 0;
    for (uint32_t step = 0; step < 20000; step++) {
        uint32_t i = (uint32_t)rng_below(&r, BLOCKS);
        if (block[i] != NULL) {
            for (size_t at = 0; at < bytes[i]; at++) assert_int_equal(block[i][at], i);
            sim_blocks_give(&b, block[i], bytes[i]);
            block[i] = NULL;
            continue;
        }
        bytes[i] = 1 + (size_t)rng_below(&r, SIM_BLOCK_MAX);
        block[i] = sim_blocks_take(&b, bytes[i]);
        assert_non_null(block[i]);
        assert_int_equal((uintptr_t)block[i] % SIM_BLOCK_GRAIN, 0);
        memset(block[i], (int)i, bytes[i]);
        if (step == 10000) held = b.bytes;
    }
    assert_true(b.bytes <= held + (size_t)4 * SIM_BLOCK_PIECE);  // as much as once waited, and not ever more
    sim_blocks_close(&b);
    assert_true(b.bytes == 0);
}

static void test_large_memory_is_aligned(void **state) {
    (void)state;
    for (size_t bytes = 1; bytes < (size_t)8 << 20; bytes = bytes * 3 + 1) {
        unsigned char *memory = sim_memory(bytes);
        assert_non_null(memory);
        assert_int_equal((uintptr_t)memory % SIM_BLOCK_GRAIN, 0);
        memory[0] = memory[bytes - 1] = 1;
        free(memory);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_events_come_by_time_then_by_turn),
        cmocka_unit_test(test_memory_is_given_back),
        cmocka_unit_test(test_a_time_that_passed_counts_as_now),
        cmocka_unit_test(test_blocks_do_not_overlap_and_are_used_again),
        cmocka_unit_test(test_large_memory_is_aligned),
    };
    return cmocka_run_group_tests_name("sim_queue", tests, NULL, NULL);
}
