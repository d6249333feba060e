// Relayed transfers. Where the line between two peers is slow and both have a fast one to a third
// peer, tensors take that route: iterations get shorter, also when the forwarder dies. Where the
// slow line is shared by all routes, no transfer is relayed.
#include "sim/scenario.h"
#include "sim/swarm.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { ITERATIONS = 4 };

// Two microbatches of 8 MiB: 6.7 s on the slow line between the data peer and stage 1, 0.7 s on any
// other.
static const char head[] =
    "model: {preset: demo, sequences: 128, tokens: 128}\n"
    "stages: 3\nmicrobatches: 2\n"
    "peers:\n"
    "- {name: d, role: data, gflops: 5000, capacity: 8}\n"
    "- {name: a, stage: 1, gflops: 5000, capacity: 4}\n"
    "- {name: b, stage: 2, count: 3, gflops: 5000, capacity: 4%s}\n";
static const char own_lines[] = "links: {latency_ms: 10, mbps: 100, pairs: [{between: [d, a], mbps: 10}]}\n";
static const char house_lines[] = "links: {latency_ms: 10, up_mbps: 20, down_mbps: 100}\n";

static scenario *parse(const char *text) {
    scenario *s = NULL;
    braid_error error = {0};
    if (scenario_parse(text, strlen(text), "s.yaml", NULL, &s, &error) != BRAID_OK) fail_msg("%s", error.text);
    s->iterations = ITERATIONS;
    return s;
}

// Seconds of all iterations but the first, in which the lines are not measured yet; and bytes sent.
static double run_among(const char *carriers, const char *more, sim_swarm_report *out) {
    char text[2048];
    snprintf(text, sizeof text, head, carriers);
    strncat(text, more, sizeof text - strlen(text) - 1);
    scenario *s = parse(text);
    braid_error error = {0};
    const sim_swarm_options options = {.check = SIM_CHECK_RULES, .replay = "the command"};
    if (sim_swarm_run(s, &options, out, &error) != BRAID_OK) fail_msg("%s", error.text);
    if (out->failed) fail_msg("%s", out->text);
    assert_int_equal(out->iterations, ITERATIONS);
    double seconds = 0;
    for (uint32_t i = 1; i < ITERATIONS; i++) seconds += (double)(out->iteration[i].end_ns - out->iteration[i].start_ns) / 1e9;
    scenario_free(s);
    return seconds;
}

static double run(const char *more, sim_swarm_report *out) { return run_among("", more, out); }

static double bytes_up(const sim_swarm_report *r) {
    double bytes = 0;
    for (uint32_t i = 0; i < r->peers; i++) bytes += (double)r->peer[i].bytes_up;
    return bytes;
}

static double run_with(const char *lines, const char *more, sim_swarm_report *out) {
    char text[1024];
    snprintf(text, sizeof text, "%s%s", lines, more);
    return run(text, out);
}

static void test_tensors_avoid_a_slow_line(void **state) {
    (void)state;
    sim_swarm_report straight, round;
    double slow = run_with(own_lines, "routing: swarm\n", &straight), fast = run_with(own_lines, "", &round);
    print_message("%.1f s straight, %.1f s by way of others\n", slow, fast);
    assert_true(fast < slow / 2);
    assert_true(bytes_up(&round) > 1.2 * bytes_up(&straight));  // each relayed tensor is sent twice
    assert_true(round.repairs == 0);
    sim_swarm_report_free(&straight);
    sim_swarm_report_free(&round);
}

// Peers of stage 2 are forwarders. Two of three die and restart.
static void test_forwarders_die(void **state) {
    (void)state;
    sim_swarm_report straight, round;
    const char *churn = "churn: {crash: 0.3, rejoin: 1}\n";
    char with[256];
    snprintf(with, sizeof with, "%srouting: swarm\n", churn);
    double slow = run_with(own_lines, with, &straight), fast = run_with(own_lines, churn, &round);
    print_message("%.1f s straight, %.1f s by way of others, %llu and %llu crashes\n", slow, fast, (unsigned long long)straight.crashes, (unsigned long long)round.crashes);
    assert_true(round.crashes > 0);
    assert_true(fast < slow);
    sim_swarm_report_free(&straight);
    sim_swarm_report_free(&round);
}

// Each peer's own line is slow, to every other peer.
static void test_no_relayed_transfer_without_a_gain(void **state) {
    (void)state;
    sim_swarm_report straight, round;
    run_with(house_lines, "routing: swarm\n", &straight);
    run_with(house_lines, "", &round);
    assert_true(bytes_up(&round) < 1.05 * bytes_up(&straight));
    sim_swarm_report_free(&straight);
    sim_swarm_report_free(&round);
}

// All possible forwarders refuse to forward, and receive no request.
static void test_peers_that_forward_nothing_receive_no_request(void **state) {
    (void)state;
    sim_swarm_report straight, round;
    run_with(own_lines, "routing: swarm\n", &straight);
    run_among(", carries: false", own_lines, &round);
    assert_true(bytes_up(&round) < 1.05 * bytes_up(&straight));
    sim_swarm_report_free(&straight);
    sim_swarm_report_free(&round);
}

// ---- sums ---------------------------------------------------------------------------------------------------------

// Two members of a stage with some 28 million parameters exchange half of the exact sums, 8 bytes
// each before they are packed, and half of the results, 4 bytes each. The other members may forward
// them, and have none of their own to send.
static const char sums[] =
    "model: {preset: gpt2-small, sequences: 4, tokens: 512}\nstages: 4\niterations: 4\nmicrobatches: 2\n"
    "peers:\n"
    "- {name: d, role: data, gflops: 90000, capacity: 8%s}\n"
    "- {name: c, stage: 1, gflops: 90000, capacity: 2%s}\n"
    "- {name: e, stage: 2, gflops: 90000, capacity: 2%s}\n"
    "- {name: a, stage: 3, gflops: 90000, capacity: 2}\n"
    "- {name: b, stage: 3, gflops: 90000, capacity: 2}\n%s";

typedef struct reduction {
    double seconds;  // from CLOSE to FINAL, in all iterations but the first
    double bytes;
} reduction;

static reduction reduce_in(uint32_t iterations, const char *data, const char *others, const char *lines) {
    char text[2048];
    sim_swarm_report r;
    snprintf(text, sizeof text, sums, data, others, others, lines);
    scenario *s = parse(text);
    s->iterations = iterations;
    braid_error error = {0};
    const sim_swarm_options options = {.check = SIM_CHECK_RULES, .replay = "the command"};
    if (sim_swarm_run(s, &options, &r, &error) != BRAID_OK) fail_msg("%s", error.text);
    if (r.failed) fail_msg("%s", r.text);
    reduction out = {.bytes = bytes_up(&r)};
    for (uint32_t i = 1; i < r.iterations; i++) out.seconds += (double)(r.iteration[i].end_ns - r.iteration[i].close_ns) / 1e9;
    sim_swarm_report_free(&r);
    scenario_free(s);
    return out;
}

static reduction reduce(const char *data, const char *others, const char *lines) { return reduce_in(ITERATIONS, data, others, lines); }

static const char nobody[] = ", carries: false";

// Sums take the direct line and three forwarders at once.
static void test_sums_avoid_a_slow_line(void **state) {
    (void)state;
    static const char lines[] = "links: {latency_ms: 20, mbps: 200, up_mbps: 1000, down_mbps: 1000, pairs: [{between: [a, b], mbps: 40}]}\n";
    reduction straight = reduce(nobody, nobody, lines), round = reduce("", "", lines);
    print_message("%.1f s straight, %.1f s by way of others, %.2f of the bytes\n", straight.seconds, round.seconds, round.bytes / straight.bytes);
    assert_true(round.seconds < straight.seconds / 3);
}

// The sender's own line is also slow. Then three routes are too many, and some of them remain.
static void test_surplus_routes_are_dropped_one_by_one(void **state) {
    (void)state;
    static const char lines[] = "links: {latency_ms: 20, mbps: 200, up_mbps: 100, down_mbps: 1000, pairs: [{between: [a, b], mbps: 40}]}\n";
    reduction straight = reduce(nobody, nobody, lines), round = reduce("", "", lines);
    print_message("%.1f s straight, %.1f s by way of others, %.2f of the bytes\n", straight.seconds, round.seconds, round.bytes / straight.bytes);
    assert_true(round.seconds < straight.seconds * 2 / 3);
}

// A route that is no faster than the direct line is not used for long, because all routes may share
// the slow line. (Some tensors take it until its rate is known.)
static void expect_direct_line(const char *lines) {
    reduction straight = reduce(nobody, nobody, lines), round = reduce("", "", lines);
    print_message("%.1f s straight, %.1f s if others might carry, %.3f of the bytes\n", straight.seconds, round.seconds, round.bytes / straight.bytes);
    assert_true(round.bytes < 1.15 * straight.bytes && round.seconds < 1.02 * straight.seconds);
}

static void test_sums_stay_on_the_direct_line_without_a_faster_one(void **state) {
    (void)state;
    expect_direct_line("links: {latency_ms: 20, mbps: 100, up_mbps: 1000, down_mbps: 1000}\n");
    expect_direct_line("links: {latency_ms: 20, up_mbps: 40, down_mbps: 200}\n");
}

// Through c and through e the route is no faster than the direct line. But a sends three times as
// much to c, and b receives three times as much from e, so both routes fit into the measured rates.
// The data peer's line carries no more, so it forwards nothing.
static void test_sums_use_measured_rates(void **state) {
    (void)state;
    static const char lines[] = "links: {latency_ms: 20, mbps: 50, up_mbps: 1000, down_mbps: 1000, pairs: [{between: [a, c], mbps: 160}, {between: [b, e], mbps: 160}]}\n";
    // rates are measured on traffic, so the second route is found after some iterations
    reduction straight = reduce_in(2 * ITERATIONS, nobody, nobody, lines), round = reduce_in(2 * ITERATIONS, nobody, "", lines);
    print_message("%.1f s straight, %.1f s by way of others, %.2f of the bytes\n", straight.seconds, round.seconds, round.bytes / straight.bytes);
    assert_true(round.seconds < straight.seconds / 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_tensors_avoid_a_slow_line), cmocka_unit_test(test_peers_that_forward_nothing_receive_no_request), cmocka_unit_test(test_forwarders_die), cmocka_unit_test(test_no_relayed_transfer_without_a_gain),
                                       cmocka_unit_test(test_sums_avoid_a_slow_line), cmocka_unit_test(test_surplus_routes_are_dropped_one_by_one), cmocka_unit_test(test_sums_stay_on_the_direct_line_without_a_faster_one), cmocka_unit_test(test_sums_use_measured_rates)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
