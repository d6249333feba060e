// T6's swarm: its figures by hand, its arrangements, and the times of its flows.
#include "bench/baselines/trade.h"
#include "sim/places.h"
#include "bench/training/t6.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

static t6_settings settings(void) { return (t6_settings){.microbatches = 3, .capacity = 4, .link = PIPELINE_PAIR}; }

static void make(t6_world *w, uint64_t seed) {
    t6_settings s = settings();
    t6_world_make(seed, &s, w);
}

static void test_figures_by_hand(void **state) {
    (void)state;
    t6_world w;
    make(&w, 4);
    // 3 blocks: 3 * (2 * 12 * 1024^2 * 2048 + 4 * 512 * 1024 * 2048) = 167.5e9 operations, 2e12 a second.
    assert_int_equal(w.peer[5].forward_ns, 83751862);
    assert_int_equal(w.peer[5].backward_ns, 2 * w.peer[5].forward_ns);
    assert_int_equal(w.peer[0].forward_ns, w.peer[5].forward_ns / 3);
    // Three times 2 * 32000 * 1024 * 2048 operations.
    assert_int_equal(w.peer[0].home_ns, 201326592);
    bool inside = false, apart = false;
    for (uint32_t i = T6_DATA; i < T6_PEERS; i++)
        for (uint32_t j = T6_DATA; j < i; j++) {
            uint32_t at = i * T6_PEERS + j;
            if (w.place[i] != w.place[j]) {
                apart = true;
                assert_int_equal(w.latency_ns[at], place_latency_ns(w.place[i], w.place[j]));
                continue;
            }
            // 64 Mi bits at 500 / 32 Mb/s; with the latency of 1 ms and the mean of both passes 4.4216 s
            inside = true;
            assert_int_equal(w.transfer_ns[at], 4294967296);
            assert_int_equal(w.cost[at], 4422);
        }
    assert_true(inside && apart);
}

static void test_arrangements_are_whole(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < 3; seed++) {
        t6_world w, again;
        make(&w, seed);
        make(&again, seed);
        assert_memory_equal(&w, &again, sizeof w);
        plan_dtfm_answer answer;
        braid_error error = {0};
        uint32_t stage[3][T6_PEERS], of[T6_PEERS];
        t6_arrange_joined(stage[0]);
        assert_true(t6_arrange_traded(&w, stage[1]) > 0);
        assert_int_equal(t6_arrange_dtfm(&w, stage[2], &answer, &error), BRAID_OK);
        plan_dtfm_problem p = {T6_STAGES, T6_WIDTH, w.cost, NULL, true};
        assert_true(plan_trade_cost(&p, stage[1]) < plan_trade_cost(&p, stage[0]));
        for (uint32_t a = 0; a < 3; a++) {
            uint32_t count[T6_STAGES] = {0};
            for (uint32_t i = 0; i < T6_PEERS; i++) count[stage[a][i]]++;
            for (uint32_t s = 0; s < T6_STAGES; s++) assert_int_equal(count[s], T6_WIDTH);
            assert_true(answer.score <= plan_dtfm_cost(&p, stage[a]).score);
            routing_instance instance;
            assert_int_equal(t6_instance(&w, stage[a], &instance, of, &error), BRAID_OK);
            assert_int_equal(plan_check(&instance.problem, &error), BRAID_OK);
            routing_instance_close(&instance);
        }
    }
}

// The baseline is not weakened: four times as many trials in a population four times as large find
// nothing better.
static void test_a_longer_search_finds_nothing_better(void **state) {
    (void)state;
    plan_dtfm_settings longer = {.population = 4 * PLAN_DTFM_POPULATION, .trials = 4 * PLAN_DTFM_TRIALS, .seed = 77};
    for (uint64_t seed = 0; seed < 2; seed++) {
        t6_world w;
        make(&w, seed);
        plan_dtfm_problem p = {T6_STAGES, T6_WIDTH, w.cost, NULL, true};
        plan_dtfm_answer answer, more;
        uint32_t stage[T6_PEERS];
        braid_error error = {0};
        void *memory = malloc(plan_dtfm_bytes(&p, &longer));
        assert_non_null(memory);
        assert_int_equal(t6_arrange_dtfm(&w, stage, &answer, &error), BRAID_OK);
        assert_int_equal(plan_dtfm(&p, &longer, memory, stage, &more, &error), BRAID_OK);
        assert_int_equal(answer.score, more.score);
        free(memory);
    }
}

static void test_pipelines_take_their_time(void **state) {
    (void)state;
    t6_world w;
    make(&w, 1);
    braid_error error = {0};
    uint32_t stage[T6_PEERS], of[T6_PEERS];
    t6_arrange_joined(stage);
    routing_instance instance;
    assert_int_equal(t6_instance(&w, stage, &instance, of, &error), BRAID_OK);
    int64_t flow[T6_DATA * T6_PEERS * T6_WIDTH], units = 0;
    assert_int_equal(t6_dtfm_flow(&w, stage, &instance, of, flow, &error), BRAID_OK);
    for (uint32_t c = 0; c < T6_DATA * instance.problem.links; c++) units += flow[c];
    assert_int_equal(units, 3 * T6_DATA * T6_STAGES);
    t6_time all, fewer;
    assert_int_equal(t6_time_of(&w, stage, &instance, of, flow, &all, &error), BRAID_OK);
    assert_int_equal(all.microbatches, 9);
    assert_int_equal(all.weights_ns, 0);
    assert_int_equal(all.iteration_ns, all.pipeline_ns);
    // Without one link one data peer's microbatches do not return.
    for (uint32_t l = 0; l < instance.problem.links; l++)
        if (instance.problem.peer[instance.problem.link[l].from].stage == 3) flow[l] = 0;
    assert_int_equal(t6_time_of(&w, stage, &instance, of, flow, &fewer, &error), BRAID_OK);
    assert_int_equal(fewer.microbatches, 6);
    assert_true(fewer.iteration_ns <= all.iteration_ns);
    w.settings.weights = true;
    assert_int_equal(t6_time_of(&w, stage, &instance, of, flow, &fewer, &error), BRAID_OK);
    assert_true(fewer.weights_ns > 0 && fewer.iteration_ns == fewer.pipeline_ns + fewer.weights_ns);
    routing_instance_close(&instance);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_figures_by_hand),
        cmocka_unit_test(test_arrangements_are_whole),
        cmocka_unit_test(test_a_longer_search_finds_nothing_better),
        cmocka_unit_test(test_pipelines_take_their_time),
    };
    return cmocka_run_group_tests_name("training_t6", tests, NULL, NULL);
}
