// T2 and T3: their scenarios, and the oracle by hand.
#include "sim/places.h"
#include "bench/training/t2.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

static scenario *parse(const t2_case *c, t2_system system) {
    char text[T2_TEXT];
    scenario *s = NULL;
    braid_error error = {0};
    t2_describe(c, system, text);
    if (scenario_parse(text, strlen(text), "t2", NULL, &s, &error) != BRAID_OK) fail_msg("%s", error.text);
    return s;
}

static void test_systems_share_machines_and_fates(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < 20; seed++) {
        t2_case c = {.model = seed % 2 ? T2_GPT : T2_LLAMA, .heterogeneous = seed % 3 != 0, .churn = 10, .iterations = 1, .seed = seed};
        scenario *braid = parse(&c, T2_BRAID), *swarm = parse(&c, T2_SWARM), *gwtf = parse(&c, T2_GWTF);
        assert_int_equal(braid->routing, ROUTING_BRAID);
        assert_int_equal(gwtf->routing, ROUTING_GWTF);
        assert_int_equal(swarm->routing, ROUTING_SWARM);
        assert_true(swarm->restarts && !gwtf->restarts && !braid->restarts);
        assert_memory_equal(braid->peer, swarm->peer, sizeof braid->peer);
        assert_memory_equal(braid->machine, swarm->machine, sizeof braid->machine);
        assert_memory_equal(braid->peer, gwtf->peer, sizeof braid->peer);
        assert_int_equal(braid->overrides, swarm->overrides);
        assert_memory_equal(braid->override, swarm->override, braid->overrides * sizeof *braid->override);
        assert_true(braid->seed == swarm->seed && braid->churn.crash == swarm->churn.crash && swarm->churn.crash == 0.1);
        assert_int_equal(braid->peers, T2_PEERS);
        assert_int_equal(braid->microbatches, T2_DATA * T2_MICROBATCHES);
        for (uint32_t i = T2_DATA; i < T2_PEERS; i++)
            assert_in_range(braid->peer[i].capacity, c.heterogeneous ? 1 : 4, c.heterogeneous ? 3 : 4);
        scenario_free(braid);
        scenario_free(swarm);
        scenario_free(gwtf);
    }
}

// 4 x 512 x 1024 floats, 32 times; the cost of a block at 2 Tflop/s without that factor, as in T6.
static void test_figures_by_hand(void **state) {
    (void)state;
    t2_case c = {.iterations = 1, .seed = 3};
    scenario *s = parse(&c, T2_BRAID);
    assert_int_equal(s->activation_bytes, (uint64_t)32 * 4 * 512 * 1024 * 4);
    // SwiGLU of width 2752: 4 * 1024^2 + 3 * 1024 * 2752 weights a block, and causal attention
    double products = 2.0 * 2048 * (4.0 * 1024 * 1024 + 3.0 * 1024 * 2752), attention = 2.0 * 512 * 1024 * 2048;
    double expected = 3 * (products + attention) / 2e12 * 1e9;
    double forward = (double)scenario_cost_ns(s, T2_DATA, 1, WORK_FORWARD);
    assert_true(forward > 0.99 * expected && forward < 1.01 * expected);
    for (uint32_t i = 0; i < T2_PEERS; i++)
        for (uint32_t k = 0; k < i; k++) {
            scenario_link link;
            scenario_link_of(s, i, k, &link);
            uint32_t a = s->machine[s->peer[i].machine].place, b = s->machine[s->peer[k].machine].place;
            int64_t bps = place_scaled_bps(a, b, 50000000, 500000000);
            assert_in_range(link.bps, bps - 1000, bps + 1000);
            assert_int_equal(link.latency_ns, place_latency_ns(a, b));
        }
    scenario_free(s);
}

static uint64_t oracle(const scenario *s, const uint16_t *stage) {
    braid_error error = {0};
    t2_time time = {0};
    if (t2_oracle(s, stage, &time, &error) != BRAID_OK) fail_msg("%s", error.text);
    return time.ways_ns + time.exchange_ns;
}

static void stand_in_turn(uint16_t *stage) {
    for (uint32_t i = 0; i < T2_PEERS; i++) stage[i] = i < T2_DATA ? 0 : (uint16_t)(1 + (i - T2_DATA) % (T2_STAGES - 1));
}

// All lines are equal, computing is short, and each microbatch may have peers of its own in four
// stages of five: twelve hops, and only those at the data peers and in the stages of three are
// shared.
static void test_oracle_of_equal_lines(void **state) {
    (void)state;
    t2_case c = {.iterations = 1, .seed = 1};
    scenario *s = parse(&c, T2_BRAID);
    uint16_t stage[T2_PEERS];
    stand_in_turn(stage);
    s->overrides = 0;
    s->link = (scenario_link){.bps = 1000000000};
    for (uint32_t i = 0; i < s->machines; i++) s->machine[i].place = SCENARIO_NOWHERE;
    double hop = (double)s->activation_bytes * 8 / 1e9, whole = (double)oracle(s, stage) / 1e9;
    for (uint16_t at = 0; at < T2_STAGES; at++) assert_true(s->stage[at].parameters > 0);
    assert_true(whole > 12 * hop);
    assert_true(whole < 18 * hop);
    // one relay a stage: eight microbatches one after another over each line
    for (uint32_t i = T2_DATA + 5; i < T2_PEERS; i++) stage[i] = SIM_SWARM_ABSENT;
    double lone = (double)oracle(s, stage) / 1e9;
    assert_true(lone > 12 * hop + 7 * hop);
    // then they even run one after another from end to end, except for the first and the last hop
    s->peer[T2_DATA].capacity = 1;
    assert_true((double)oracle(s, stage) / 1e9 > 8 * 10 * hop);
    scenario_free(s);
}

static void test_oracle_needs_every_stage(void **state) {
    (void)state;
    t2_case c = {.iterations = 1, .seed = 1};
    scenario *s = parse(&c, T2_BRAID);
    uint16_t stage[T2_PEERS];
    t2_time time;
    braid_error error = {0};
    stand_in_turn(stage);
    for (uint32_t i = 0; i < T2_PEERS; i++)
        if (stage[i] == 3) stage[i] = SIM_SWARM_ABSENT;
    assert_int_equal(t2_oracle(s, stage, &time, &error), BRAID_ARGUMENT);
    assert_non_null(strstr(error.text, "stage 3"));
    scenario_free(s);
}

static int64_t foresight(const scenario *s, const t2_presence *there) {
    braid_error error = {0};
    int64_t ways_ns = 0;
    if (t2_foresight(s, there, &ways_ns, &error) != BRAID_OK) fail_msg("%s", error.text);
    return ways_ns;
}

// All lines equal, one relay a stage and a second one in the first stage, each with room for one
// microbatch: it halves the time.
static scenario *two_in_the_first(t2_presence there[T2_PEERS], t2_presence **second) {
    t2_case c = {.iterations = 1, .seed = 1};
    scenario *s = parse(&c, T2_BRAID);
    uint16_t stage[T2_PEERS];
    stand_in_turn(stage);
    *second = &there[T2_DATA + T2_STAGES - 1];
    s->overrides = 0;
    s->link = (scenario_link){.bps = 1000000000};
    for (uint32_t i = 0; i < s->machines; i++) s->machine[i].place = SCENARIO_NOWHERE;
    for (uint32_t i = 0; i < T2_PEERS; i++) there[i] = (t2_presence){.stage = &there[i] <= *second ? stage[i] : SIM_SWARM_ABSENT, .until_ns = INT64_MAX};
    s->peer[T2_DATA].capacity = s->peer[T2_DATA + T2_STAGES - 1].capacity = 1;
    return s;
}

// A dying relay is used for tensors that it sends on before; a joining one from its arrival on.
static void test_foresight(void **state) {
    (void)state;
    t2_presence there[T2_PEERS], *second;
    scenario *s = two_in_the_first(there, &second);
    int64_t both = foresight(s, there);
    second->until_ns = 1;
    int64_t alone = foresight(s, there);
    assert_in_range(alone, both / 100 * 160, both / 100 * 210);
    second->until_ns = both;
    assert_int_equal(foresight(s, there), both);
    second->until_ns = both / 2;
    int64_t dies = foresight(s, there);
    assert_in_range(dies, both + both / 10, alone - alone / 10);
    second->sum_dies = true;  // it is used in the forward pass only
    assert_in_range(foresight(s, there), dies + 1, alone - 1);
    second->until_ns = INT64_MAX;
    assert_int_equal(foresight(s, there), alone);
    *second = (t2_presence){.stage = 1, .from_ns = both / 2, .until_ns = INT64_MAX};
    int64_t comes = foresight(s, there);
    assert_in_range(comes, both + both / 10, alone - alone / 10);
    // The first relay dies during a microbatch and the other one replaces it: the first alone would
    // need no longer, except for the tensors under way.
    there[T2_DATA].until_ns = both / 2;
    int64_t follows = foresight(s, there);
    assert_in_range(follows, alone, alone + alone / 8);
    second->stage = SIM_SWARM_ABSENT;
    assert_true(foresight(s, there) == INT64_MAX);
    scenario_free(s);
}

static int64_t at_once(const scenario *s, const t2_presence *there, int64_t *kept_ns) {
    braid_error error = {0};
    int64_t ways_ns = 0;
    if (t2_at_once(s, there, kept_ns, &ways_ns, &error) != BRAID_OK) fail_msg("%s", error.text);
    return ways_ns;
}

// Without churn it equals the oracle with foresight. A death costs more than with foresight, and a
// joiner helps from its arrival on.
static void test_at_once(void **state) {
    (void)state;
    t2_presence there[T2_PEERS], *second;
    scenario *s = two_in_the_first(there, &second);
    int64_t both = foresight(s, there), kept;
    assert_in_range(at_once(s, there, &kept), both, both + both / 20);
    second->until_ns = both / 2;
    int64_t foreseen = foresight(s, there), dies = at_once(s, there, &kept);
    assert_in_range(kept, foreseen, dies);
    assert_in_range(dies, both + both / 10, 2 * both + both / 4);
    second->until_ns = both + both / 2;  // all is done by then, and the sums have been added up
    assert_in_range(at_once(s, there, &kept), both, both + both / 20);
    second->until_ns = 1;
    int64_t alone = at_once(s, there, &kept);
    assert_in_range(alone, both / 100 * 160, both / 100 * 210);
    *second = (t2_presence){.stage = 1, .from_ns = both / 2, .until_ns = INT64_MAX};
    assert_in_range(at_once(s, there, &kept), both + both / 10, alone - alone / 10);
    there[T2_DATA + T2_STAGES] = (t2_presence){.stage = 2, .from_ns = both / 2, .until_ns = both / 2 + 2};
    // the second stage has only the relay that arrived as the other died, until its own death
    there[T2_DATA + 1].until_ns = both / 2 + 1;
    assert_true(at_once(s, there, &kept) == INT64_MAX);
    there[T2_DATA + T2_STAGES].until_ns = INT64_MAX;
    assert_in_range(at_once(s, there, &kept), both + both / 10, 2 * both + both / 2);
    there[T2_DATA].until_ns = both / 4;  // before the other one arrives
    assert_true(at_once(s, there, &kept) == INT64_MAX && kept == INT64_MAX);
    scenario_free(s);
}

// Work in the sum of a dead relay is repeated once its activation and gradient have arrived again.
static void test_at_once_sums_die(void **state) {
    (void)state;
    t2_presence there[T2_PEERS], *second;
    scenario *s = two_in_the_first(there, &second);
    int64_t both = foresight(s, there), kept;
    second->until_ns = both - 1;
    int64_t dies = at_once(s, there, &kept);
    assert_in_range(kept, both - 1, both + both / 8);
    assert_in_range(dies, kept + 1, both + both / 4);
    scenario_free(s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_systems_share_machines_and_fates),
        cmocka_unit_test(test_figures_by_hand),
        cmocka_unit_test(test_oracle_of_equal_lines),
        cmocka_unit_test(test_oracle_needs_every_stage),
        cmocka_unit_test(test_foresight),
        cmocka_unit_test(test_at_once),
        cmocka_unit_test(test_at_once_sums_die),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
