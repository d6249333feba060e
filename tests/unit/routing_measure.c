// Link costs from samples that are noisy, late or impossible.
#include "routing/core/measure.h"

#include "base/rng.h"
#include "routing/core/router.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define MS      ((int64_t)1000000)
#define SECOND  (1000 * MS)
#define MEBI    ((uint64_t)1 << 20)
#define MEGABIT ((int64_t)125000)

static void test_formula(void **state) {
    (void)state;
    measure_link l = {0};
    assert_int_equal(measure_cost(&l, 0, 0, MEBI), 0);
    assert_int_equal(measure_cost(&l, 30 * MS, 10 * MS, MEBI), 20000);
    assert_int_equal(measure_cost(&l, 30 * MS, 0, MEBI), 30000);  // unknown: taken from this end
    measure_round_trip(&l, 100 * MS);
    assert_int_equal(measure_cost(&l, 30 * MS, 10 * MS, MEBI), 20000 + 50000);
    // 8 and 2 Mbit/s: two mebibytes at their sum.
    measure_transfer(&l, MEASURE_TO, 1000000, SECOND, false);
    assert_int_equal(measure_value(&l.rate[MEASURE_TO]), 8 * MEGABIT);
    measure_transfer(&l, MEASURE_FROM, 1000000, 4 * SECOND, false);
    assert_int_equal(measure_cost(&l, 30 * MS, 10 * MS, 1250000), 70000 + 2000000);
    l.rate[MEASURE_FROM] = (measure){0};  // only one direction was used: the other is assumed equal
    assert_int_equal(measure_cost(&l, 30 * MS, 10 * MS, 1250000), 70000 + 1250000);
}

static void test_transfers(void **state) {
    (void)state;
    measure_link l = {0};
    measure_transfer(&l, MEASURE_TO, MEASURE_BULK_BYTES - 1, MS, false);
    assert_int_equal(measure_value(&l.rate[MEASURE_TO]), 0);
    measure_round_trip(&l, 40 * MS);
    measure_transfer(&l, MEASURE_TO, 1000000, 540 * MS, true);
    assert_int_equal(measure_value(&l.rate[MEASURE_TO]), 2000000);
    measure_transfer(&l, MEASURE_TO, 1000000, 10 * MS, true);  // faster than its own round trip: only "very fast"
    assert_true(measure_value(&l.rate[MEASURE_TO]) > 0);
}

static void test_arbitrary_samples_stay_in_bounds(void **state) {
    (void)state;
    const int64_t odd[] = {INT64_MIN, -1, 0, 1, 999, SECOND, MEASURE_MAX, INT64_MAX};
    const uint64_t sizes[] = {0, 1, MEBI, (uint64_t)1 << 40, UINT64_MAX};
    enum { ODD = sizeof odd / sizeof *odd, SIZES = sizeof sizes / sizeof *sizes };
    rng r = {7};
    measure_link l = {0};
    for (int i = 0; i < 20000; i++) {
        measure_round_trip(&l, odd[rng_below(&r, ODD)]);
        measure_transfer(&l, (measure_direction)rng_below(&r, 2), sizes[rng_below(&r, SIZES)], odd[rng_below(&r, ODD)],
                         rng_below(&r, 2) == 1);
        uint64_t size = sizes[rng_below(&r, SIZES)];
        int64_t mine = odd[rng_below(&r, ODD)], theirs = odd[rng_below(&r, ODD)];
        assert_true(measure_is_cost(measure_cost(&l, mine, theirs, size)));
        measure_announce(&l, NULL, i * SECOND, mine, theirs, size);
        assert_true(measure_is_cost(l.cost));
    }
    assert_false(measure_is_cost(0));
    assert_false(measure_is_cost(-5));
    assert_true(measure_is_cost(ROUTER_MAX_COST));
    assert_false(measure_is_cost((int64_t)ROUTER_MAX_COST + 1));
}

static void test_noise_is_smoothed(void **state) {
    (void)state;
    measure m = {0};
    rng r = {1};
    for (int i = 0; i < 1000; i++) {
        measure_add(&m, 1000000 + (int64_t)rng_below(&r, 400000) - 200000);
        if (i < 20) continue;
        assert_true(measure_value(&m) > 890000 && measure_value(&m) < 1110000);
    }
}

// A process stopped for half a minute answers one or two requests half a minute late.
static void test_process_pause_changes_nothing(void **state) {
    (void)state;
    measure m = {0};
    for (int i = 0; i < 10; i++) measure_add(&m, 1000);
    for (int pause = 0; pause < 3; pause++) {
        measure_add(&m, 30 * SECOND);
        measure_add(&m, 28 * SECOND);
        assert_int_equal(measure_value(&m), 1000);
        for (int i = 0; i < 4; i++) {
            measure_add(&m, 1000);
            assert_int_equal(measure_value(&m), 1000);
        }
    }
}

static void test_lasting_change_is_followed(void **state) {
    (void)state;
    measure m = {0};
    for (int i = 0; i < 10; i++) measure_add(&m, 1000);
    int needed = 0;
    while (measure_value(&m) < 90000 && needed < 100) {
        measure_add(&m, 100000);
        needed++;
    }
    assert_true(needed > 2 && needed < 30);
    for (int i = 0; i < 100; i++) measure_add(&m, 100000);
    assert_int_equal(measure_value(&m), 100000);
    for (int i = 0; i < 150; i++) measure_add(&m, 7);
    assert_int_equal(measure_value(&m), 7);
}

// A median counts as at most four times the average, and at least a quarter of it.
static void test_median_far_from_the_average_is_clamped(void **state) {
    (void)state;
    measure up = {0}, down = {0};
    for (int i = 0; i < 5; i++) {
        measure_add(&up, 8000);
        measure_add(&down, 8000);
    }
    for (int i = 0; i < 3; i++) {  // more than half of the window
        assert_int_equal(measure_value(&up), 8000);
        assert_int_equal(measure_value(&down), 8000);
        measure_add(&up, 30 * SECOND);
        measure_add(&down, 1);
    }
    assert_int_equal(measure_value(&up), 8000 + (32000 - 8000) / 8);
    assert_int_equal(measure_value(&down), 8000 - (8000 - 2000) / 8);
}

static const measure_rule rule = {.relative_ppm = 100000, .absolute = 10, .patience = 2 * SECOND};

// Sets the smoothed round trip so that the link costs `cost`, and announces.
static bool announce(measure_link *l, int64_t now, int64_t cost) {
    l->round_trip = (measure){.average = cost * 2 * MEASURE_UNIT_NS};
    return measure_announce(l, &rule, now, 0, 0, 0);
}

static void test_hysteresis(void **state) {
    (void)state;
    measure_link l = {0};
    assert_false(measure_announce(&l, &rule, 0, 0, 0, 0));
    assert_true(announce(&l, 0, 1000));  // the first one at once
    assert_int_equal(l.cost, 1000);
    for (int i = 0; i < 100; i++) {  // inside the band
        assert_false(announce(&l, i * SECOND, i % 2 == 0 ? 890 : 1110));
    }
    int64_t now = 100 * SECOND;
    assert_false(announce(&l, now, 1111));
    assert_false(announce(&l, now + SECOND, 1200));
    assert_false(announce(&l, now + SECOND + SECOND / 2, 1100));  // back inside: the time restarts
    assert_false(announce(&l, now + 2 * SECOND, 1200));
    assert_false(announce(&l, now + 3 * SECOND, 800));  // on the other side: likewise
    assert_false(announce(&l, now + 4 * SECOND, 1200));
    assert_false(announce(&l, now + 5 * SECOND, 1300));
    assert_int_equal(l.cost, 1000);
    assert_true(announce(&l, now + 6 * SECOND, 1250));
    assert_int_equal(l.cost, 1250);
    assert_false(announce(&l, now + 7 * SECOND, 1000));
    assert_true(announce(&l, now + 9 * SECOND, 1000));
}

static void test_steady_noise_is_never_announced(void **state) {
    (void)state;
    measure_link l = {0};
    rng r = {3};
    uint32_t announced = 0;
    for (int64_t s = 0; s < 3600; s++) {  // an hour with 10 percent of noise either way
        measure_round_trip(&l, 80 * MS + (int64_t)rng_below(&r, (uint64_t)(16 * MS)) - 8 * MS);
        announced += measure_announce(&l, NULL, s * SECOND, 5 * MS, 5 * MS, 0);
    }
    print_message("%u announced in an hour\n", announced);
    assert_in_range(announced, 1, 5);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_formula),
        cmocka_unit_test(test_transfers),
        cmocka_unit_test(test_arbitrary_samples_stay_in_bounds),
        cmocka_unit_test(test_noise_is_smoothed),
        cmocka_unit_test(test_process_pause_changes_nothing),
        cmocka_unit_test(test_lasting_change_is_followed),
        cmocka_unit_test(test_median_far_from_the_average_is_clamped),
        cmocka_unit_test(test_hysteresis),
        cmocka_unit_test(test_steady_noise_is_never_announced),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
