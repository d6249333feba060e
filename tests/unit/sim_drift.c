// Costs that drift, and instances in which nobody knows everybody.
#include "sim/routing_drift.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static const routing_settings settings = {.algorithm = ROUTER_MINCOST, .limit_rounds = 2000, .slack = ROUTING_SCALE / 20};
static const routing_drift usual = {.told = ROUTING_TOLD_BAND,
                                    .rule = {.relative_ppm = 100000, .absolute = 100, .patience = 2000000000},
                                    .seconds = 60,
                                    .look_seconds = 10,
                                    .plan_seconds = 1,
                                    .sample_seconds = 1,
                                    .leg_seconds = 1,
                                    .drift_ppm = 200000,
                                    .noise_ppm = 100000,
                                    .spike_ppm = 10000};

static routing_drift_result run(uint32_t test, uint64_t listing, const routing_drift *drift) {
    routing_instance instance;
    routing_optimum best;
    routing_drift_result result;
    braid_error error = {0};
    assert_int_equal(routing_f7_make(test, 1, ROUTING_EQUAL, listing, &instance, &error), BRAID_OK);
    assert_int_equal(routing_optimum_find(&instance, 1, &best, &error), BRAID_OK);
    assert_int_equal(routing_run_drift(&instance, &settings, drift, best.units, &result, &error), BRAID_OK);
    routing_optimum_close(&best);
    routing_instance_close(&instance);
    return result;
}

static void test_where_nothing_drifts_nothing_moves(void **state) {
    (void)state;
    routing_drift still = usual;
    still.drift_ppm = still.noise_ppm = still.spike_ppm = 0;
    for (uint32_t told = 0; told < ROUTING_TOLDS; told++) {
        still.told = (routing_told)told;
        routing_drift_result r = run(1, 0, &still);
        assert_int_equal(r.looks, 6);
        assert_int_equal(r.told, 0);
        assert_int_equal(r.messages, 0);
        assert_int_equal(r.moved_rounds, 0);
        for (uint32_t l = 0; l < r.looks; l++) assert_true(r.follower[ROUTING_FOLLOW_RUN].ratio[l] == 1);
        routing_drift_result_close(&r);
    }
}

static void test_followed_whatever_the_listing(void **state) {
    (void)state;
    routing_drift_result a = run(3, 0, &usual), b = run(3, 77, &usual);
    assert_true(a.told > 0 && a.messages > 0 && a.moved_rounds > 0);
    assert_int_equal(a.over_capacity, 0);
    assert_true(a.follower[ROUTING_FOLLOW_RUN].mean < 1.02);
    assert_true(a.follower[ROUTING_FOLLOW_OPTIMUM].worst == 1);
    assert_int_equal(a.hash, b.hash);
    routing_drift_result_close(&a);
    routing_drift_result_close(&b);
}

static void test_what_cannot_be_compared_is_refused(void **state) {
    (void)state;
    routing_instance two;
    routing_drift_result result;
    braid_error error = {0};
    assert_int_equal(routing_f7_make(5, 1, ROUTING_EQUAL, 0, &two, &error), BRAID_OK);
    assert_int_equal(routing_run_drift(&two, &settings, &usual, 1, &result, &error), BRAID_ARGUMENT);
    routing_instance_close(&two);
    routing_drift odd = usual;
    odd.plan_seconds = 3;
    assert_int_equal(routing_f7_make(1, 1, ROUTING_EQUAL, 0, &two, &error), BRAID_OK);
    assert_int_equal(routing_run_drift(&two, &settings, &odd, 1, &result, &error), BRAID_ARGUMENT);
    routing_instance_close(&two);
}

static void test_thin(void **state) {
    (void)state;
    enum { VIEWS = 6 };
    routing_f7 table = routing_f7_tests[0];
    table.relays = 160;
    routing_instance whole, thin;
    braid_error error = {0};
    assert_int_equal(routing_f7_draw(&table, 9, ROUTING_EQUAL, 0, &whole, &error), BRAID_OK);
    assert_int_equal(routing_f7_draw(&table, 9, ROUTING_EQUAL, 5, &thin, &error), BRAID_OK);
    assert_int_equal(routing_thin(&thin, VIEWS, &error), BRAID_OK);
    uint32_t cheap_of_none = 0;
    for (uint32_t i = 0; i < whole.problem.peers; i++) {
        int64_t cheapest = INT64_MAX, kept = INT64_MAX;
        uint32_t all = 0, count = 0;
        for (uint32_t l = 0; l < whole.problem.links; l++) {
            if (whole.problem.link[l].from != i) continue;
            all++;
            if (whole.problem.link[l].cost < cheapest) cheapest = whole.problem.link[l].cost;
        }
        for (uint32_t l = 0; l < thin.problem.links; l++) {
            if (thin.problem.link[l].from != i) continue;
            count++;
            if (thin.problem.link[l].cost < kept) kept = thin.problem.link[l].cost;
        }
        uint32_t stage = whole.problem.peer[i].stage;
        assert_int_equal(count, stage == 0 || stage == whole.problem.stages ? all : VIEWS);
        cheap_of_none += kept != cheapest;
    }
    assert_int_equal(cheap_of_none, 0);
    routing_instance_close(&whole);
    routing_instance_close(&thin);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_where_nothing_drifts_nothing_moves),
        cmocka_unit_test(test_followed_whatever_the_listing),
        cmocka_unit_test(test_what_cannot_be_compared_is_refused),
        cmocka_unit_test(test_thin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
