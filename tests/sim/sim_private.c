// Private data. In a strict run the microbatches of a data peer that dies, is paused or is cut off
// wait for it, and the results are those of a run without faults. An elastic run skips them after a
// timeout, and its results are those of one process on the rest.
#include "campaign_run.h"
#include "case_run.h"
#include "data_deaths.h"

enum { RANDOM = 60, RANDOM_ODD = 60, RANDOM_REAL = 20, RANDOM_OVERFLOW = 60, RANDOM_ENDED = 60, RANDOM_LEAVERS = 40, MOST_STEPS = 100, MUTANT_SEEDS = 4, MUTANT_MOST = 100, LAST_WORD = 15 };

static const uint64_t SECOND = 1000000000;

static sim_bench bench;

// During any absence the relays repeat no work: each microbatch passes each of them once.
static void every_death(bool real, uint64_t away_ns) {
    for (uint32_t i = 0; i < DATA_DEATHS; i++) {
        sim_case c = data_death_case(i, true, away_ns);
        sim_case_make_private(&c);
        sim_report report;
        case_run(&bench, data_deaths[i].name, &c, real, "", &report);
        if (report.stats.crashes != 1) fail_msg("%s: no death", data_deaths[i].name);
        bool waited = report.stats.virtual_ns > away_ns;
        if (!waited) fail_msg("%s: the run did not wait", data_deaths[i].name);
        if (report.stats.relay_jobs != c.microbatches * c.iterations * (c.stages - 1u) * 2u || report.stats.again != 0)
            fail_msg("%s: relays ran %llu F and B, %llu of them again", data_deaths[i].name, (unsigned long long)report.stats.relay_jobs, (unsigned long long)report.stats.again);
    }
}

static void test_every_moment(void **state) {
    (void)state;
    every_death(false, SECOND / 5);
    every_death(false, 40 * SECOND);
    every_death(true, 5 * SECOND);
}

static void random_schedules(sim_campaign campaign) {
    static const uint64_t count[CAMPAIGN_KINDS] = {RANDOM, RANDOM_ODD, RANDOM_REAL};
    sim_campaign_result r[CAMPAIGN_KINDS];
    campaign_kinds_pass(campaign, count, MOST_STEPS, r);
}

static void test_random(void **state) {
    (void)state;
    random_schedules((sim_campaign){.data_deaths = true, .private_data = true});
}

// ---- strict runs without a return of the data peer: the run ends with the results of the iteration
// before

static void dies_for_good(sim_case *c) {
    sim_case_make_private(c);
    for (uint32_t i = 0; i < c->crashes; i++) c->crash[i].restart &= !c->crash[i].data;
}

// Asks the leader to end the run, several times, because a paused leader ignores it.
static void end_run(sim_case *c, uint64_t at_ns) {
    if (c->troubles > SIM_MAX_TROUBLES - 3) c->troubles = SIM_MAX_TROUBLES - 3;
    for (uint32_t i = 0; i < 3; i++) c->trouble[c->troubles++] = (sim_trouble){SIM_DRAIN_LEADER, 1, at_ns + i * 30 * SECOND, 0};
}

static void test_every_moment_then_the_run_ends(void **state) {
    (void)state;
    for (uint32_t i = 0; i < 2 * DATA_DEATHS; i++) {
        sim_case c = data_death_case(i / 2, false, 0);
        const char *name = data_deaths[i / 2].name;
        dies_for_good(&c);
        end_run(&c, 40 * SECOND);
        if (i % 2) c.checkpoint_every = 1;
        sim_report report;
        case_run(&bench, name, &c, i % 4 == 0, "", &report);
        if (report.stats.unfinished != 1) fail_msg("%s: the run was not ended", name);
        if (report.stats.virtual_ns > 60 * SECOND) fail_msg("%s: it took %.1f s", name, (double)report.stats.virtual_ns / 1e9);
    }
}

// Slow lines, and a run that is asked to end in its first iteration, long before the data peer dies
// with its reduced sums.
static sim_case ended_early(bool returns) {
    sim_case c = data_death_case(LAST_WORD, returns, 5 * SECOND);
    sim_case_make_private(&c);
    c.crash[0].restart = returns;
    c.crash[0].iteration = 0;
    // it repeats its report: the others of its stage have the results by then
    if (!returns) c.crash[0].skip = 12;
    c.net.payload_ns = 30 * SECOND;
    c.trouble[c.troubles++] = (sim_trouble){SIM_DRAIN_LEADER, 1, 5 * SECOND, 0};
    return c;
}

// The data peer has already reported, or restarts before the timeout: the iteration ends.
static void test_iteration_ends_with_a_report_or_a_restart(void **state) {
    (void)state;
    for (int returns = 0; returns < 2; returns++) {
        sim_case c = ended_early(returns);
        sim_report report;
        case_run(&bench, "an iteration that can end", &c, false, "", &report);
        print_message("%u crashes, %u unfinished, %.1f s\n", report.stats.crashes, report.stats.unfinished, (double)report.stats.virtual_ns / 1e9);
        assert_int_equal(report.stats.crashes, 1);
        assert_int_equal(report.stats.unfinished, 0);
    }
}

static void test_random_early_ends(void **state) {
    (void)state;
    uint32_t unfinished = 0, finished = 0;
    for (uint64_t seed = 1; seed <= RANDOM_ENDED; seed++) {
        bool odd = seed % 2;
        const sim_campaign campaign = {.data_deaths = true, .private_data = true, .odd = odd, .flaps = odd, .partitions = odd};
        sim_case c = sim_campaign_case(&campaign, seed);
        dies_for_good(&c);
        end_run(&c, 60 * SECOND);
        sim_report report;
        char name[64];
        snprintf(name, sizeof name, "seed %llu", (unsigned long long)seed);
        case_run(&bench, name, &c, false, "", &report);
        unfinished += report.stats.unfinished;
        finished += !report.stats.unfinished;
    }
    print_message("%u runs ended for want of data, %u otherwise\n", unfinished, finished);
    assert_true(unfinished > RANDOM_ENDED / 5);
}

// ---- elastic

// The data peer dies at each moment and never returns. Each of the three iterations continues
// without it, and only the first one waits.
static void test_every_moment_skips_the_dead_peer(void **state) {
    (void)state;
    uint64_t left_out = 0;
    for (uint32_t i = 0; i < DATA_DEATHS; i++) {
        sim_case c = data_death_case(i, false, 0);
        c.private_data = c.elastic = true;
        c.patience_ns = 100 * SECOND;
        sim_report report;
        case_run(&bench, data_deaths[i].name, &c, false, "", &report);
        // a silent peer is taken for dead after 10 s
        if (report.stats.virtual_ns > c.patience_ns + 30 * SECOND)
            fail_msg("%s: it took %.1f s", data_deaths[i].name, (double)report.stats.virtual_ns / 1e9);
        left_out += report.stats.left_out;
    }
    print_message("left out %llu microbatches in %u runs\n", (unsigned long long)left_out, (uint32_t)DATA_DEATHS);
    assert_true(left_out >= DATA_DEATHS * 2);  // at least those of the last iteration, two or three
}

static void test_data_peer_returns_before_the_timeout(void **state) {
    (void)state;
    for (uint32_t i = 0; i < DATA_DEATHS; i++) {
        sim_case c = data_death_case(i, true, 5 * SECOND);
        c.private_data = c.elastic = true;
        c.patience_ns = 60 * SECOND;
        sim_report report;
        case_run(&bench, data_deaths[i].name, &c, false, "", &report);
        if (report.stats.left_out != 0) fail_msg("%s: %llu microbatches were skipped", data_deaths[i].name, (unsigned long long)report.stats.left_out);
    }
}

// A skipped data peer returns later: its microbatches count again from the next iteration.
static void test_skipped_data_peer_returns_later(void **state) {
    (void)state;
    sim_case c = data_death_case(7, true, 10 * SECOND);
    c.private_data = c.elastic = true;
    c.patience_ns = SECOND;
    c.iterations = 60;
    sim_report report;
    case_run(&bench, "a long absence", &c, false, "", &report);
    uint64_t its = (uint64_t)(c.iterations - 1) * (c.microbatches / c.data_peers);
    print_message("left out %llu microbatches in %.1f s\n", (unsigned long long)report.stats.left_out, (double)report.stats.virtual_ns / 1e9);
    assert_in_range(report.stats.left_out, 2, its / 2);
}

static void test_random_elastic(void **state) {
    (void)state;
    random_schedules((sim_campaign){.data_deaths = true, .elastic = true});
}

static void departures(sim_campaign campaign) {
    static const uint64_t count[CAMPAIGN_KINDS] = {RANDOM_LEAVERS, RANDOM_LEAVERS, RANDOM_LEAVERS};
    sim_campaign_result r[CAMPAIGN_KINDS];
    campaign.elastic = campaign.departures = true;
    campaign_kinds_pass(campaign, count, MOST_STEPS, r);
    for (int kind = 0; kind < CAMPAIGN_KINDS; kind++) {
        print_message("%llu data peers left, %llu microbatches were skipped and %llu void\n", (unsigned long long)r[kind].departures, (unsigned long long)r[kind].left_out,
                      (unsigned long long)r[kind].voided);
        assert_true(r[kind].fault_count[SIM_DRAIN_DATA] > RANDOM_LEAVERS * 7 / 10);
        assert_true(r[kind].departures > RANDOM_LEAVERS / 5);
        assert_true(r[kind].left_out > RANDOM_LEAVERS * 3);
        if (kind != CAMPAIGN_REAL) assert_true(r[kind].voided > RANDOM_LEAVERS);
    }
}

// Data peers leave, some for good. Void microbatches are neither counted nor skipped.
static void test_random_departures(void **state) {
    (void)state;
    departures((sim_campaign){.data_deaths = true});
    departures((sim_campaign){.leader_deaths = true, .partitions = true});
}

// A microbatch overflowed, was added, and is then skipped. The optimizer step is not skipped: the
// result is that of one process on the rest.
static void test_overflow_in_a_skipped_microbatch_skips_no_step(void **state) {
    (void)state;
    const sim_campaign campaign = {.data_deaths = true, .elastic = true};
    for (uint64_t seed = 1; seed <= RANDOM_OVERFLOW; seed++) {
        sim_case c = sim_campaign_case(&campaign, seed);
        c.fake.overflow_percent = 5;
        sim_report report;
        case_run(&bench, "some overflow", &c, false, "", &report);
    }
}

static void expect_noticed(sim_mutant mutant) {
    bool elastic = mutant != SIM_MUTANT_LENDS_SHARES;
    const sim_campaign campaign = {.first = 1, .count = MUTANT_SEEDS, .data_deaths = true, .private_data = true, .elastic = elastic, .mutant = mutant};
    campaign_notices_as(campaign, MUTANT_MOST, elastic ? "--data-deaths --private --elastic" : "--data-deaths --private", elastic ? "" : "I10: ");
}

static void test_mutants_are_noticed(void **state) {
    (void)state;
    expect_noticed(SIM_MUTANT_LENDS_SHARES);
    expect_noticed(SIM_MUTANT_KEEPS_LEFT_OUT);
    expect_noticed(SIM_MUTANT_DIVIDES_BY_ALL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_moment),
        cmocka_unit_test(test_random),
        cmocka_unit_test(test_every_moment_then_the_run_ends),
        cmocka_unit_test(test_iteration_ends_with_a_report_or_a_restart),
        cmocka_unit_test(test_random_early_ends),
        cmocka_unit_test(test_every_moment_skips_the_dead_peer),
        cmocka_unit_test(test_data_peer_returns_before_the_timeout),
        cmocka_unit_test(test_skipped_data_peer_returns_later),
        cmocka_unit_test(test_random_elastic),
        cmocka_unit_test(test_random_departures),
        cmocka_unit_test(test_overflow_in_a_skipped_microbatch_skips_no_step),
        cmocka_unit_test(test_mutants_are_noticed),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    sim_bench_close(&bench);
    return failed;
}
