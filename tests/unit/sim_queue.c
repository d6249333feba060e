// The event queue compared with a plain list.
#include "base/rng.h"
#include "seed.h"
#include "sim/queue.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>

enum { EVENTS = 3000 };

typedef struct event {
    uint64_t at;
    bool waits;
} event;

// The pending event that comes first: the earliest time, then the one inserted first.
static uint32_t first_of(const event *list, uint32_t count) {
    uint32_t first = count;
    for (uint32_t i = 0; i < count; i++)
        if (list[i].waits && (first == count || list[i].at < list[first].at)) first = i;
    return first;
}

// Distances between two events: mostly small, sometimes zero, sometimes enormous.
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
    sim_queue_put(&q, 1, list);  // an empty queue accepts any time, even an earlier one
    assert_true(sim_queue_take(&q, &at, &item) && at == 1);
    sim_queue_close(&q);
    free(list);
}

// Many events, always of the next period: memory stays within a few times their number.
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

static void test_events_are_ordered_by_time_then_insertion(void **state) {
    (void)state;
    rng r = seeded_rng("queue", 1);
    for (uint64_t i = 0; i < 10; i++) check_schedule(rng_next(&r));
}

static void test_a_past_time_counts_as_now(void **state) {
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_events_are_ordered_by_time_then_insertion),
        cmocka_unit_test(test_memory_is_given_back),
        cmocka_unit_test(test_a_past_time_counts_as_now),
    };
    return cmocka_run_group_tests_name("sim_queue", tests, NULL, NULL);
}
