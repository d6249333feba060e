// Private data: strict, the microbatches of a data peer that dies, stands still or is cut off wait for it, and what came out is what would
// have come out anyway; elastic, they are left out after a while, and what came out is what one process makes of the rest.
#include "campaign_run.h"
#include "case_run.h"
#include "data_deaths.h"

enum { RANDOM = 60, RANDOM_ODD = 60, RANDOM_REAL = 20, RANDOM_OVERFLOW = 60, RANDOM_ENDED = 60, RANDOM_LEAVERS = 40, MOST_STEPS = 100, MUTANT_SEEDS = 4, MUTANT_MOST = 100, LAST_WORD = 15 };

static const uint64_t SECOND = 1000000000;

static sim_bench bench;

// However long it is away, the relays compute nothing again: each microbatch goes once through each of them.
static void every_death(bool real, uint64_t away_ns) {
    for (uint32_t i = 0; i < DATA_DEATHS; i++) {
        sim_case c = data_death_case(i, true, away_ns);
        sim_case_make_private(&c);
        sim_report report;
        case_run(&bench, data_deaths[i].name, &c, real, "", &report);
        if (report.stats.crashes != 1) fail_msg("%s: nobody died", data_deaths[i].name);
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

// ---- strict, and it never comes back: whoever ends the run gets what was learnt before that iteration

static void dies_for_good(sim_case *c) {
    sim_case_make_private(c);
    for (uint32_t i = 0; i < c->crashes; i++) c->crash[i].restart &= !c->crash[i].data;
}

// The one who leads may be asleep just then.
static void end_it(sim_case *c, uint64_t at_ns) {
    if (c->troubles > SIM_MAX_TROUBLES - 3) c->troubles = SIM_MAX_TROUBLES - 3;
    for (uint32_t i = 0; i < 3; i++) c->trouble[c->troubles++] = (sim_trouble){SIM_DRAIN_LEADER, 1, at_ns + i * 30 * SECOND, 0};
}

static void test_every_moment_ended(void **state) {
    (void)state;
    for (uint32_t i = 0; i < 2 * DATA_DEATHS; i++) {
        sim_case c = data_death_case(i / 2, false, 0);
        const char *name = data_deaths[i / 2].name;
        dies_for_good(&c);
        end_it(&c, 40 * SECOND);
        if (i % 2) c.checkpoint_every = 1;
        sim_report report;
        case_run(&bench, name, &c, i % 4 == 0, "", &report);
        if (report.stats.unfinished != 1) fail_msg("%s: the run was not ended", name);
        if (report.stats.virtual_ns > 60 * SECOND) fail_msg("%s: it took %.1f s", name, (double)report.stats.virtual_ns / 1e9);
    }
}

// Lines are slow, and the run is asked to end in its first iteration, long before it dies there with what it has reduced.
static sim_case ended_early(bool returns) {
    sim_case c = data_death_case(LAST_WORD, returns, 5 * SECOND);
    sim_case_make_private(&c);
    c.crash[0].restart = returns;
    c.crash[0].iteration = 0;
    if (!returns) c.crash[0].skip = 12;  // it says so again and again: the others of its stage have the results by then
    c.payload_ns = 30 * SECOND;
    c.trouble[c.troubles++] = (sim_trouble){SIM_DRAIN_LEADER, 1, 5 * SECOND, 0};
    return c;
}

// What it had to say of the iteration is said, or it is back before it is given up: the iteration ends.
static void test_who_is_not_needed_or_soon_back_is_not_given_up(void **state) {
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

static void test_random_ended(void **state) {
    (void)state;
    uint32_t unfinished = 0, finished = 0;
    for (uint64_t seed = 1; seed <= RANDOM_ENDED; seed++) {
        bool odd = seed % 2;
        const sim_campaign campaign = {.data_deaths = true, .private_data = true, .odd = odd, .flaps = odd, .partitions = odd};
        sim_case c = sim_campaign_case(&campaign, seed);
        dies_for_good(&c);
        end_it(&c, 60 * SECOND);
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

// It dies at each moment and never comes back: each of the three iterations goes on without it, and only the first one waits.
static void test_every_moment_left_out(void **state) {
    (void)state;
    uint64_t left_out = 0;
    for (uint32_t i = 0; i < DATA_DEATHS; i++) {
        sim_case c = data_death_case(i, false, 0);
        c.private_data = c.elastic = true;
        c.patience_ns = 100 * SECOND;
        sim_report report;
        case_run(&bench, data_deaths[i].name, &c, false, "", &report);
        // silent ones are found dead after 10 s
        if (report.stats.virtual_ns > c.patience_ns + 30 * SECOND)
            fail_msg("%s: it took %.1f s", data_deaths[i].name, (double)report.stats.virtual_ns / 1e9);
        left_out += report.stats.left_out;
    }
    print_message("left out %llu microbatches in %u runs\n", (unsigned long long)left_out, (uint32_t)DATA_DEATHS);
    assert_true(left_out >= DATA_DEATHS * 2);  // of the last iteration at least, two or three
}

static void test_back_while_it_is_waited_for(void **state) {
    (void)state;
    for (uint32_t i = 0; i < DATA_DEATHS; i++) {
        sim_case c = data_death_case(i, true, 5 * SECOND);
        c.private_data = c.elastic = true;
        c.patience_ns = 60 * SECOND;
        sim_report report;
        case_run(&bench, data_deaths[i].name, &c, false, "", &report);
        if (report.stats.left_out != 0) fail_msg("%s: %llu microbatches were left out", data_deaths[i].name, (unsigned long long)report.stats.left_out);
    }
}

// Left out, and back later: counted from the next iteration on.
static void test_back_when_it_was_left_out(void **state) {
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
        print_message("%llu data peers left, %llu microbatches were left out and %llu void\n", (unsigned long long)r[kind].departures, (unsigned long long)r[kind].left_out,
                      (unsigned long long)r[kind].voided);
        assert_true(r[kind].fault_count[SIM_DRAIN_DATA] > RANDOM_LEAVERS * 7 / 10);
        assert_true(r[kind].departures > RANDOM_LEAVERS / 5);
        assert_true(r[kind].left_out > RANDOM_LEAVERS * 3);
        if (kind != CAMPAIGN_REAL) assert_true(r[kind].voided > RANDOM_LEAVERS);
    }
}

// Data peers leave, some for good, and what is void is neither counted nor left out.
static void test_random_leavers(void **state) {
    (void)state;
    departures((sim_campaign){.data_deaths = true});
    departures((sim_campaign){.leader_deaths = true, .partitions = true});
}

// A microbatch that overflowed, was summed and is left out skips nothing: what counts is what one process makes of the rest.
static void test_an_overflow_goes_with_what_is_left_out(void **state) {
    (void)state;
    const sim_campaign campaign = {.data_deaths = true, .elastic = true};
    for (uint64_t seed = 1; seed <= RANDOM_OVERFLOW; seed++) {
        sim_case c = sim_campaign_case(&campaign, seed);
        c.overflow_percent = 5;
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
        cmocka_unit_test(test_every_moment_ended),
        cmocka_unit_test(test_who_is_not_needed_or_soon_back_is_not_given_up),
        cmocka_unit_test(test_random_ended),
        cmocka_unit_test(test_every_moment_left_out),
        cmocka_unit_test(test_back_while_it_is_waited_for),
        cmocka_unit_test(test_back_when_it_was_left_out),
        cmocka_unit_test(test_random_elastic),
        cmocka_unit_test(test_random_leavers),
        cmocka_unit_test(test_an_overflow_goes_with_what_is_left_out),
        cmocka_unit_test(test_mutants_are_noticed),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    sim_bench_close(&bench);
    return failed;
}
