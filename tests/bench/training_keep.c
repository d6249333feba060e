// The cost of a dead stage when standbys, copies or a code keep its state: the results must follow
// from traffic and time.
#include "bench/training/keep.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { SEEDS = 500, PARAMETERS = 37748736 };

static keep_case of(double iteration_s, uint64_t seed) { return (keep_case){.parameters = PARAMETERS, .iteration_s = iteration_s, .checkpoint_every = 10, .spare = 1, .seed = seed}; }

static void takes_what_two_shadows_take(const keep_result *r) { assert_true(fabs(r->bytes - 2.0 * PARAMETERS * KEEP_RESULT_BYTES) < 10); }

// Iterations are so long that any line delivers the results of one within the tenth for which FINAL
// waits.
static void test_standby_that_keeps_up_loses_no_version(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        keep_case c = of(20000, seed);
        keep_result r;
        keep_run(&c, KEEP_SHADOW, &r);
        takes_what_two_shadows_take(&r);
        c.spare = 0;  // with two standbys FINAL waits for the first, and the other one may survive
        keep_run(&c, KEEP_SHADOW, &r);
        assert_int_equal(r.back, 0);
        assert_true(r.lost_s <= c.iteration_s + r.longer_s && r.longer_s <= c.iteration_s / 10);
    }
}

// None of these lines delivers the results within a second.
static void test_standby_that_falls_behind_leaves_the_checkpoint(void **state) {
    (void)state;
    uint32_t seen = 0;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        keep_case c = of(1, seed);
        keep_result r;
        keep_run(&c, KEEP_SHADOW, &r);
        assert_true(r.back < c.checkpoint_every && !(r.longer_s > 0));
        seen |= UINT32_C(1) << r.back;
    }
    assert_int_equal(seen, (1 << 10) - 1);
}

// With a standby's bandwidth a copy takes three iterations, so a complete one is three to six old;
// a code of 4 of 5 takes 15/8.
static void test_age_of_copies_follows_from_traffic(void **state) {
    (void)state;
    double sum[KEEP_WAYS] = {0};
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        keep_case c = of(20000, seed);
        for (int way = KEEP_COPY; way < KEEP_WAYS; way++) {
            keep_result r;
            keep_run(&c, (keep_way)way, &r);
            double takes = way == KEEP_COPY ? 3 : 15 / 8.0;
            assert_in_range(r.back, (uint32_t)takes, (uint32_t)(2 * takes) + 1);
            takes_what_two_shadows_take(&r);
            assert_true(r.lost_s >= r.back * c.iteration_s && !(r.longer_s > 0));
            sum[way] += r.back;
        }
    }
    assert_true(fabs(sum[KEEP_COPY] / SEEDS - 4) < 0.1);
    // its refreshes do not begin with iterations
    assert_true(fabs(sum[KEEP_CODE] / SEEDS - 2.75) < 0.1);
}

static void test_whole_share_makes_copies_younger(void **state) {
    (void)state;
    for (int way = KEEP_COPY; way < KEEP_WAYS; way++) {
        uint64_t thrifty = 0, whole = 0;
        for (uint64_t seed = 0; seed < SEEDS; seed++) {
            keep_case c = of(300, seed);
            keep_result r, again;
            keep_run(&c, (keep_way)way, &r);
            thrifty += r.back;
            c.whole_share = true;
            keep_run(&c, (keep_way)way, &r);
            whole += r.back;
            keep_run(&c, (keep_way)way, &again);
            assert_memory_equal(&r, &again, sizeof r);
        }
        assert_true(5 * whole < thrifty);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_standby_that_keeps_up_loses_no_version),
        cmocka_unit_test(test_standby_that_falls_behind_leaves_the_checkpoint),
        cmocka_unit_test(test_age_of_copies_follows_from_traffic),
        cmocka_unit_test(test_whole_share_makes_copies_younger),
    };
    return cmocka_run_group_tests_name("training_keep", tests, NULL, NULL);
}
