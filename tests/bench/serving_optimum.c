// Plans against the integer program on tiny swarms, and against the bound and the baselines on larger
// ones; Table 2's order; the flat cost of views.
#include "base/rng.h"
#include "bench/serving/serving.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>

typedef struct memory {
    placement_problem p;
    placement_plan plan;
    placement_work work;
    braid_error error;
} memory;

static memory *memory_new(void) {
    memory *m = calloc(1, sizeof *m);
    assert_non_null(m);
    return m;
}

static placement_figures plan(memory *m, serving_system system, uint32_t effort, uint64_t seed) {
    placement_figures f;
    serving_plan(system, &m->p, effort, seed, &m->plan, &m->work);
    if (placement_measure(&m->p, &m->plan, &f, &m->error) != BRAID_OK) fail_msg("%s", m->error.text);
    return f;
}

static void make_tiny(uint64_t seed, placement_problem *p) {
    rng r = {seed};
    *p = (placement_problem){
        .peers = 3, .layers = 5, .sessions = 3, .layer_bytes = 1, .cache_bytes = 0.1, .rows_per_us = 1e-4};
    for (uint32_t i = 0; i < p->peers; i++) {
        double slow = 1 + rng_unit(&r) * 4;
        p->peer[i] = (placement_peer){400 * slow, 100 * slow, 2 + (double)rng_below(&r, 4), 1};
        for (uint32_t j = 0; j < i; j++) p->hop_us[i][j] = p->hop_us[j][i] = 200 + rng_unit(&r) * 1500;
    }
}

static void test_tiny_plans_reach_the_optimum(void **state) {
    uint32_t proven = 0;
    (void)state;
    memory *m = memory_new();
    for (uint64_t seed = 1; seed <= 6; seed++) {
        serving_optimum o;
        make_tiny(seed, &m->p);
        placement_figures f = plan(m, SERVING_BRAID, 200, seed);
        assert_int_equal(serving_optimum_find(&m->p, 600, &o, &m->error), BRAID_OK);
        if (!o.ran) break;
        double bound = placement_bound(&m->p, f.served == 3 ? f.mean_us : 1e9, 100, &m->work);
        if (f.served < 3) continue;
        assert_true(o.proven);
        assert_true(bound <= o.mean_us * (1 + 1e-6));
        assert_true(f.mean_us >= o.mean_us * (1 - 1e-6) && f.mean_us <= 1.03 * o.mean_us);
        proven++;
    }
#ifdef BRAID_HAVE_GLPK
    assert_true(proven >= 3);
#endif
    free(m);
}

static void test_plans_beat_the_baselines(void **state) {
    double ratio = 0, over[SERVING_SYSTEMS] = {0};
    (void)state;
    memory *m = memory_new();
    for (uint64_t seed = 0; seed < 4; seed++) {
        serving_make(seed, 14, SERVING_LAYERS, &m->p);
        placement_figures ours = plan(m, SERVING_BRAID, 150, seed);
        assert_int_equal(ours.served, m->p.sessions);
        ratio += ours.mean_us / placement_bound(&m->p, ours.mean_us, 100, &m->work) / 4;
        for (int s = 0; s < SERVING_BRAID; s++) {
            placement_figures f = plan(m, (serving_system)s, 150, seed);
            if (f.served == m->p.sessions) assert_true(f.mean_us > ours.mean_us);
            over[s] += f.served == m->p.sessions ? f.mean_us / ours.mean_us / 4 : 1;
        }
    }
    assert_true(ratio >= 1 && ratio < 1.4);
    assert_true(over[SERVING_NESA] > 1.5 && over[SERVING_PETALS] > 1.2);
    free(m);
}

static void test_table_2_keeps_its_order(void **state) {
    (void)state;
    memory *m = memory_new();
    for (uint32_t k = 0; k < 8; k++) {
        serving_n2 c = {.model = SERVING_LLAMA_3_8B,
                        .slow_link = k % 2 == 1,
                        .small_shares = k / 2 % 2 == 1,
                        .batch = 1,
                        .context = k / 4 == 0 ? 64 : 1024};
        serving_n2_make(&c, &m->p);
        placement_figures ours = plan(m, SERVING_BRAID, 100, 1), petals = plan(m, SERVING_PETALS, 100, 1);
        assert_int_equal(ours.served, 1);
        assert_true(petals.served == 0 || ours.mean_us <= petals.mean_us * (1 + 1e-9));
        // the model fits on one fast peer, and a split would be slower
        if (!c.small_shares) assert_true(ours.hops < 1.5);
    }
    free(m);
}

static void test_views_have_flat_cost(void **state) {
    serving_scale small, large;
    braid_error error;
    (void)state;
    assert_int_equal(serving_scale_run(96, 2, 1, &small, &error), BRAID_OK);
    assert_int_equal(serving_scale_run(960, 2, 1, &large, &error), BRAID_OK);
    assert_int_equal(large.served, large.sessions);
    assert_true(large.steps < 2 * small.steps);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tiny_plans_reach_the_optimum),
        cmocka_unit_test(test_plans_beat_the_baselines),
        cmocka_unit_test(test_table_2_keeps_its_order),
        cmocka_unit_test(test_views_have_flat_cost),
    };
    return cmocka_run_group_tests_name("serving_optimum", tests, NULL, NULL);
}
