// Reports of a simulated swarm that are computed from hand-made data.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "sim/summary.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const uint64_t SECOND = 1000000000;

static scenario *s;
static sim_swarm_peer peer[4];
static sim_swarm_iteration iteration[4];
static sim_swarm_report report;
static sim_summary summary;

// A data peer and three relays in two stages; four iterations of 10 s with 8 s of microbatches
// each; no activity yet.
static void make(const char *more) {
    static char text[1024];
    snprintf(text, sizeof text,
             "model: gpt2-small\nstages: 3\nmicrobatches: 6\npeers:\n- {name: anna, role: data, gflops: 100}\n"
             "- {name: low, stage: 1, gflops: 100, capacity: 6}\n- {name: up, stage: 2, gflops: 200, capacity: 6, "
             "count: 2}\n%s",
             more);
    braid_error error = {0};
    if (scenario_parse(text, strlen(text), "s.yaml", NULL, &s, &error) != BRAID_OK) fail_msg("%s", error.text);
    static const char *const names[] = {"anna", "low", "up-1", "up-2"};
    static const uint16_t stages[] = {0, 1, 2, 2};
    static const uint32_t counts[] = {24, 24, 12, 12};
    for (uint32_t i = 0; i < 4; i++) {
        peer[i] = (sim_swarm_peer){.data = i == 0,
                                   .alive = true,
                                   .member = true,
                                   .ever_member = true,
                                   .stage = stages[i],
                                   .up_ns = 40 * SECOND,
                                   .microbatches = counts[i]};
        snprintf(peer[i].name, sizeof peer[i].name, "%s", names[i]);
        iteration[i] = (sim_swarm_iteration){.iteration = i,
                                             .start_ns = i * 10 * SECOND,
                                             .close_ns = i * 10 * SECOND + 8 * SECOND,
                                             .end_ns = (i + 1) * 10 * SECOND,
                                             .microbatches = 6};
    }
    report = (sim_swarm_report){
        .iteration = iteration, .iterations = 4, .peer = peer, .peers = 4, .virtual_ns = 40 * SECOND};
}

static void expect(sim_limit limit, uint16_t stage, const char *words) {
    sim_summarise(s, &report, &summary);
    if (summary.limit != limit)
        fail_msg("%s, not %s: %s", sim_limit_name(summary.limit), sim_limit_name(limit), summary.text);
    assert_int_equal(summary.limit_stage, stage);
    if (strstr(summary.text, words) == NULL) fail_msg("'%s' does not hold '%s'", summary.text, words);
    scenario_free(s);
}

static bool near(double a, double b) { return fabs(a - b) < 1e-9; }

static void test_times(void **state) {
    (void)state;
    make("");
    iteration[3].end_ns += 8 * SECOND;
    sim_summarise(s, &report, &summary);
    assert_true(near(summary.mean_s, 12));
    assert_true(near(summary.worst_s, 18));
    assert_int_equal(summary.worst, 3);
    assert_true(near(summary.sd_s, 4));
    assert_true(near(summary.pipeline_s, 8));
    assert_true(near(summary.update_s, 4));
    assert_true(near(summary.tokens_per_s, 24 * 1024 / 48.0));
    scenario_free(s);
}

static void test_shares(void **state) {
    (void)state;
    make("");
    peer[2].busy_ns = 30 * SECOND, peer[3].busy_ns = 10 * SECOND;
    peer[2].useful_ns = 12 * SECOND, peer[3].useful_ns = 4 * SECOND, peer[3].wasted_ns = 4 * SECOND;
    peer[2].up_share = 0.5, peer[3].down_share = 0.25;
    sim_summarise(s, &report, &summary);
    const sim_stage_summary *at = &summary.stage[2];
    assert_int_equal(at->peers, 2);
    assert_int_equal(at->capacity, 12);
    assert_int_equal(at->microbatches, 24);
    assert_true(near(at->busy, 0.5));
    assert_true(near(at->up, 0.25));
    assert_true(near(at->down, 0.125));
    assert_true(near(at->compute, 20.0 / 64));  // of twice 32 s
    assert_true(near(summary.wasted, 0.2));
    scenario_free(s);
}

static void test_compute(void **state) {
    (void)state;
    make("");
    peer[1].useful_ns = 30 * SECOND;
    expect(SIM_LIMIT_COMPUTE, 1, "the computing of stage 1: its one peer works 94 % of the time");
    make("");
    peer[0].useful_ns = 31 * SECOND;
    expect(SIM_LIMIT_COMPUTE, 0, "the computing of data peer anna: it works 97 % of the time");
}

static void test_links(void **state) {
    (void)state;
    make("links: {up_mbps: 50, down_mbps: 1000}\n");  // 24 times 2 x 3 MiB of 8 bits at 50 Mb/s: 24.2 s of 32
    expect(SIM_LIMIT_UP, 0, "the lines of data peer anna");
    make("links: {down_mbps: 50, up_mbps: 1000, pairs: [{between: [low, up], mbps: 1}]}\n");
    peer[0].microbatches = 0;
    expect(SIM_LIMIT_DOWN, 1, "busy 75 % of the time receiving");
}

// Peers on one machine need no link between them.
static void test_links_of_one_machine(void **state) {
    (void)state;
    make("machines: [{name: flat, cores: 4}]\nlinks: {up_mbps: 50, down_mbps: 1000}\n");
    sim_summarise(s, &report, &summary);
    double alone = summary.stage[0].need_up;
    s->peer[1].machine = s->peer[0].machine;  // anna and low; up-1 and up-2 elsewhere
    sim_summarise(s, &report, &summary);
    assert_true(near(summary.stage[0].need_up, alone));  // half of each of two
    s->peer[2].machine = s->peer[3].machine = s->peer[0].machine;
    sim_summarise(s, &report, &summary);
    assert_true(near(summary.stage[0].need_up, 0));
    scenario_free(s);
}

static void test_distance_and_capacity(void **state) {
    (void)state;
    make("links: {latency_ms: 1000, up_mbps: 1000, down_mbps: 1000}\n");
    expect(SIM_LIMIT_DISTANCE, 0, "6.00 s of latency");
    make("links: {latency_ms: 10, up_mbps: 1000, down_mbps: 1000}\n");
    s->peer[1].capacity = 1;
    s->peer[1].flops = s->peer[2].flops = s->peer[3].flops = s->peer[0].flops = 1e12;
    expect(SIM_LIMIT_CAPACITY, 1, "it holds at most 1 at once of an iteration's 6 microbatches");
}

static void test_update(void **state) {
    (void)state;
    make("links: {up_mbps: 400, down_mbps: 1000}\n");
    for (uint32_t i = 0; i < 4; i++) iteration[i].close_ns = iteration[i].start_ns + 2 * SECOND;
    expect(SIM_LIMIT_SUMS, 2, "80 % of an iteration passes after its last microbatch, longest in stage 2");
    make("links: {up_mbps: 100000, down_mbps: 100000}\n");
    for (uint32_t i = 0; i < 4; i++) iteration[i].close_ns = iteration[i].start_ns + 2 * SECOND;
    expect(SIM_LIMIT_UPDATE, 1, "adding sums and applying them");
}

static void test_median(void **state) {
    (void)state;
    make("");
    assert_string_equal(s->peer[sim_median_peer(s, false)].name, "up-1");
    assert_string_equal(s->peer[sim_median_peer(s, true)].name, "anna");
    scenario_free(s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_times),
        cmocka_unit_test(test_shares),
        cmocka_unit_test(test_compute),
        cmocka_unit_test(test_links),
        cmocka_unit_test(test_links_of_one_machine),
        cmocka_unit_test(test_distance_and_capacity),
        cmocka_unit_test(test_update),
        cmocka_unit_test(test_median),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
