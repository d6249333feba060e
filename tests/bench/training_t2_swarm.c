// T2 and T3 as runs: reproducible, no repair without deaths, and no tensor sent again while it is
// on a slow line.
#include "bench/training/t2.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

typedef struct outcome {
    uint64_t hash;
    // oracle's time until CLOSE, as a share of the time of all iterations but the first
    double share;
    double exchange;  // time from CLOSE to FINAL over the oracle's exchange, likewise
    double longest_s;  // longest of all iterations
    double all_s;      // time of all iterations
    double double_work;  // repeated compute without a death, as a share of the needed one
    double fewer_s;  // extra time of the oracle without the dead relays
    double counted_s, held_s;  // compute of the dead: added, and not yet added
    uint32_t repairs, dead_after_close;
} outcome;

// The computing time of a relay for one microbatch.
static double relay_ns(const t2_case *c) {
    char text[T2_TEXT];
    scenario *s;
    braid_error error = {0};
    t2_describe(c, T2_BRAID, text);
    if (scenario_parse(text, strlen(text), "t2", NULL, &s, &error) != BRAID_OK) fail_msg("%s", error.text);
    uint64_t ns = scenario_cost_ns(s, T2_DATA, 1, WORK_FORWARD) + scenario_cost_ns(s, T2_DATA, 1, WORK_BACKWARD) + scenario_cost_ns(s, T2_DATA, 1, WORK_WEIGHT);
    scenario_free(s);
    return (double)ns;
}

// Compute added by dead relays is a number of whole microbatches, and all compute that they lost
// was repeated.
static void check_lost(const t2_case *c, const sim_swarm_iteration *it, uint64_t needed_ns) {
    double counted = (double)it->lost_counted_ns / relay_ns(c);
    uint32_t whole = (uint32_t)(counted + 0.5);
    assert_true(counted >= whole && counted < whole + 0.01);
    assert_true(it->useful_ns + it->wasted_ns >= needed_ns + t2_lost_ns(it));
}

// The parts of an iteration's time add up, and no time is charged to deaths before the first one.
static void check_account(const t2_account *a, const sim_swarm_iteration *it) {
    uint32_t died = 0, before_close = 0, joined = 0;
    for (uint32_t i = 0; i < T2_PEERS; i++) {
        joined += it->joined_ns[i] != UINT64_MAX;
        if (it->died_ns[i] == UINT64_MAX) continue;
        assert_in_range(it->died_ns[i], it->start_ns, it->end_ns);
        died++;
        before_close += it->died_ns[i] < it->close_ns;
    }
    assert_true(died <= it->crashes && (died > 0) == (it->crashes > 0));
    assert_true((int64_t)t2_oracle_ns(a) + a->fewer_ns + a->ways_ns + a->exchange_ns == (int64_t)(it->end_ns - it->start_ns));
    assert_true(before_close > 0 || a->fewer_ns == 0);
    assert_true(died + joined > 0 || a->foresight_ns == t2_oracle_ns(a));
    assert_true(a->kept_ns <= a->foresight_ns);
}

static outcome run(const t2_case *c, t2_system system) {
    t2_result r;
    braid_error error = {0};
    sim_swarm_options how = {.check = SIM_CHECK_LIVENESS};
    outcome out = {0};
    double oracle_s = 0, seconds = 0, exchange_s = 0, sums_s = 0, computed = 0;
    // the figures of this file belong to the stages that GWTF's rule gives, without moves
    t2_case fixed = *c;
    fixed.placement = T2_PLACE_CAPACITY;
    if (t2_run(&fixed, system, &how, &r, &error) != BRAID_OK) fail_msg("%s", error.text);
    if (r.report.failed) fail_msg("%s", r.report.text);
    assert_int_equal(r.report.iterations, c->iterations);
    for (uint32_t i = 0; i < c->iterations; i++) {
        const sim_swarm_iteration *it = &r.report.iteration[i];
        assert_int_equal(it->microbatches, T2_DATA * T2_MICROBATCHES);
        uint64_t oracle_ns = t2_oracle_ns(&r.account[i]);
        assert_true(it->transfer_ns > 0 && oracle_ns > 0);
        check_account(&r.account[i], it);
        check_lost(c, it, r.needed_ns);
        out.fewer_s += (double)r.account[i].fewer_ns / 1e9;
        out.counted_s += (double)it->lost_counted_ns / 1e9;
        out.held_s += (double)it->lost_held_ns / 1e9;
        double lasted_s = (double)(it->end_ns - it->start_ns) / 1e9;
        if (lasted_s > out.longest_s) out.longest_s = lasted_s;
        out.all_s += lasted_s;
        if (i > 0) {
            oracle_s += (double)r.account[i].oracle.ways_ns / 1e9;
            seconds += (double)(it->close_ns - it->start_ns) / 1e9;
            exchange_s += (double)r.account[i].oracle.exchange_ns / 1e9;
            sums_s += (double)(it->end_ns - it->close_ns) / 1e9;
        }
        computed += (double)(it->useful_ns + it->wasted_ns) - (double)t2_lost_ns(it);
        // In the first iteration lines are not measured yet, and relays help that joined after its
        // start. The oracle's exchange begins when all is computed, a swarm's a little earlier.
        if (i > 0 && c->churn == 0) assert_true(oracle_ns <= (it->end_ns - it->start_ns) / 100 * 102);
        out.repairs += it->repairs;
        for (uint32_t who = 0; who < T2_PEERS; who++) out.dead_after_close += it->died_ns[who] != UINT64_MAX && it->died_ns[who] > it->close_ns;
    }
    out.hash = r.report.hash;
    out.share = oracle_s / seconds;
    out.exchange = sums_s / exchange_s;
    out.double_work = computed / ((double)r.needed_ns * c->iterations) - 1;
    t2_result_close(&r);
    return out;
}

static void test_the_same_again(void **state) {
    (void)state;
    t2_case c = {.iterations = 1, .churn = 20, .heterogeneous = true, .seed = 5};
    outcome first = run(&c, T2_BRAID), again = run(&c, T2_BRAID), swarm = run(&c, T2_SWARM);
    assert_true(first.hash == again.hash && first.hash != swarm.hash);
}

// Without crashes: no run is faster than the oracle, and however long a tensor takes, no peer is
// suspected.
static void test_swarm_without_crashes_repairs_nothing(void **state) {
    (void)state;
    t2_case c = {.iterations = 3, .seed = 1};
    outcome o = run(&c, T2_BRAID);
    print_message("%.3f of the oracle, sums %.1f times its time\n", o.share, o.exchange);
    // measured 0.964 of the time until CLOSE with planned paths and forwarders; 0.905 if each
    // sender chooses its forwarder
    assert_true(o.share > 0.92);
    assert_true(o.exchange < 4);  // measured 2.7
    assert_int_equal(o.repairs, 0);
    assert_true(o.double_work < 0.001);
}

// Relays hold 1 to 3 microbatches. A slot is free when the gradient is sent on, and the next
// microbatch waits for it. Measured: 0.95; 0.91 without waiting microbatches, and about 0.8 if a
// slot is free only after the COMMIT of the whole path.
static void test_no_slot_stays_empty(void **state) {
    (void)state;
    t2_case c = {.iterations = 2, .heterogeneous = true, .seed = 1};
    outcome o = run(&c, T2_BRAID);
    print_message("%.3f of the oracle, sums %.1f times its time\n", o.share, o.exchange);
    assert_true(o.share > 0.93);
    assert_int_equal(o.repairs, 0);
}

// Repairs must not request a tensor again while it is on a slow line, or copies fill the line.
// Measured: 232 s; if a gradient on its way is requested again, an iteration never ends.
static void test_no_tensor_is_requested_again_while_on_its_way(void **state) {
    (void)state;
    t2_case c = {.iterations = 6, .churn = 20, .seed = 3};
    outcome o = run(&c, T2_BRAID);
    print_message("the longest iteration: %.0f s\n", o.longest_s);
    assert_true(o.longest_s < 275);
    assert_true(o.fewer_s > 0 && o.counted_s > 0 && o.held_s > 0);
}

// A relay that dies after CLOSE, when others have fetched its sum: nothing is lost, and nothing
// computed again. Sums are fetched within seconds, so few relays do.
static void test_death_after_the_sum_was_fetched_loses_nothing(void **state) {
    (void)state;
    bool found = false;
    for (uint64_t seed = 50; seed < 110 && !found; seed++) {
        t2_case c = {.iterations = 1, .churn = 20, .seed = seed};
        outcome o = run(&c, T2_BRAID);
        found = o.dead_after_close == 1 && o.counted_s == 0 && o.held_s == 0;
    }
    assert_true(found);
}

// An activation takes 4 to 43 s here. A replacement must be allowed that time, or it is replaced
// again and again. Little is computed twice: microbatches evicted for lack of slots.
static void test_repairs_allow_for_slow_lines(void **state) {
    (void)state;
    t2_case c = {.iterations = 2, .churn = 20, .seed = 1};
    outcome o = run(&c, T2_BRAID);
    assert_true(o.repairs > 0);
    print_message("%.4f of what is needed was computed twice, %u repairs\n", o.double_work, o.repairs);
    assert_true(o.double_work < 0.03);
}

// The promise of docs/results/t2-t3.md for crashing relays: on the same machines, with the same
// deaths, braid takes at least 45 % less time than swarm. Measured: 75 %.
static void test_braid_is_ahead(void **state) {
    (void)state;
    double seconds[T2_SYSTEMS] = {0};
    t2_case c = {.iterations = 3, .churn = 10, .seed = 1};
    for (t2_system system = 0; system < T2_SYSTEMS; system++) seconds[system] = run(&c, system).all_s;
    print_message("three iterations in hom10: swarm %.0f s, gwtf %.0f s, braid %.0f s\n", seconds[T2_SWARM], seconds[T2_GWTF], seconds[T2_BRAID]);
    assert_true(seconds[T2_BRAID] < seconds[T2_GWTF]);
    assert_true(seconds[T2_BRAID] < 0.55 * seconds[T2_SWARM]);
}

// The default placement: by gain, with moves. With other deaths than by another rule, the times of few
// iterations differ. Measured: 1.10 of the time by capacity.
static void test_placement_by_gain(void **state) {
    (void)state;
    double seconds[T2_PLACEMENTS] = {0};
    for (t2_placement placement = 0; placement < T2_PLACEMENTS; placement++) {
        t2_case c = {.heterogeneous = true, .iterations = 4, .churn = 20, .placement = placement, .seed = 1};
        t2_result r;
        braid_error error = {0};
        sim_swarm_options how = {.check = SIM_CHECK_LIVENESS};
        if (t2_run(&c, T2_BRAID, &how, &r, &error) != BRAID_OK) fail_msg("%s", error.text);
        if (r.report.failed) fail_msg("%s", r.report.text);
        assert_int_equal(r.report.iterations, c.iterations);
        seconds[placement] = (double)r.report.iteration[c.iterations - 1].end_ns / 1e9;
        t2_result_close(&r);
    }
    print_message("four iterations in het20: by gain %.0f s, by capacity %.0f s, by gain without moves %.0f s\n", seconds[T2_PLACE_GAIN],
                  seconds[T2_PLACE_CAPACITY], seconds[T2_PLACE_STAY]);
    assert_true(seconds[T2_PLACE_GAIN] < 1.25 * seconds[T2_PLACE_CAPACITY]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_same_again),
        cmocka_unit_test(test_swarm_without_crashes_repairs_nothing),
        cmocka_unit_test(test_no_slot_stays_empty),
        cmocka_unit_test(test_no_tensor_is_requested_again_while_on_its_way),
        cmocka_unit_test(test_repairs_allow_for_slow_lines),
        cmocka_unit_test(test_death_after_the_sum_was_fetched_loses_nothing),
        cmocka_unit_test(test_braid_is_ahead),
        cmocka_unit_test(test_placement_by_gain),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
