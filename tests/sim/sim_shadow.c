// All workers of a stage die at once. A standby takes over at the right version, and the results
// are those of a run without faults. Every moment of an iteration, random schedules, and mutants.
#include "campaign_run.h"
#include "case_run.h"

enum { MOST_STEPS = 100, MUTANT_SEEDS = 4, MUTANT_MOST = 40 };

static const uint64_t SECOND = 1000000000;

static sim_bench bench;

// ---- one death of a whole stage

static const case_death deaths[] = {
    {"before a forward", {.moment = SIM_BEFORE_JOB, .kind = JOB_FORWARD, .skip = 1}},
    {"with a forward computed", {.moment = SIM_AFTER_JOB, .kind = JOB_FORWARD, .skip = 2}},
    {"with forwards sent on", {.moment = SIM_AFTER_SEND, .kind = MESSAGE_FORWARD, .skip = 1}},
    {"before a gradient arrives", {.moment = SIM_BEFORE_MESSAGE, .kind = MESSAGE_BACKWARD}},
    {"in a backward", {.moment = SIM_BEFORE_JOB, .kind = JOB_BACKWARD, .skip = 1}},
    {"with gradients sent on, machine dies", {.moment = SIM_AFTER_SEND, .kind = MESSAGE_BACKWARD, .skip = 1, .machine = true}},
    {"before COMMIT", {.moment = SIM_BEFORE_MESSAGE, .kind = MESSAGE_COMMIT, .skip = 1}},
    {"between COMMIT and weight gradient", {.moment = SIM_BEFORE_JOB, .kind = JOB_WEIGHT, .skip = 1}},
    {"after it said COUNTED", {.moment = SIM_AFTER_SEND, .kind = MESSAGE_COUNTED, .skip = 3}},
    {"between commit and aggregation", {.moment = SIM_BEFORE_MESSAGE, .kind = MESSAGE_BEGIN_AGGREGATION}},
    {"at BEGIN AGGREGATION, machine dies", {.moment = SIM_AFTER_MESSAGE, .kind = MESSAGE_BEGIN_AGGREGATION, .machine = true}},
    {"in the reduction", {.moment = SIM_BEFORE_JOB, .kind = JOB_REDUCE}},
    {"with a result", {.moment = SIM_AFTER_JOB_TOLD, .kind = JOB_REDUCE}},
    {"with all results", {.moment = SIM_AFTER_JOB, .kind = JOB_NORM}},
    {"after applying", {.moment = SIM_AFTER_JOB_TOLD, .kind = JOB_APPLY}},
    {"packing a part", {.moment = SIM_BEFORE_JOB, .kind = JOB_PACK}},
};

// a sole member packs nothing
enum { DEATHS = sizeof deaths / sizeof *deaths, DEATHS_OF_ONE = DEATHS - 1 };

// `relays` relays for two stages; each stage has one standby.
static sim_case case_of(uint32_t index, uint32_t relays) {
    sim_case c = sim_case_plain(80 + index, 3, 2, relays, 8, 4);
    c.shadows = 1;
    c.shadow_peers = 2;
    c.crashes = 1;
    c.crash[0] = deaths[index].crash;
    c.crash[0].stage = true;
    c.crash[0].iteration = 1;
    return c;
}

static void every_death(bool real, uint32_t relays) {
    for (uint32_t i = 0; i < (relays > 2 ? DEATHS : DEATHS_OF_ONE); i++) {
        sim_case c = case_of(i, relays);
        sim_report report;
        case_run(&bench, deaths[i].name, &c, real, "", &report);
        if (report.stats.stage_deaths != 1 || report.stats.promotions != 1)
            fail_msg("%s: %u stages died, %u shadows took over", deaths[i].name, report.stats.stage_deaths, report.stats.promotions);
    }
}

static void test_every_moment(void **state) {
    (void)state;
    every_death(false, 4);
    every_death(true, 4);
}

static void test_every_moment_of_a_stage_of_one(void **state) {
    (void)state;
    every_death(false, 2);
}

// The dead restart with new identities, and fetch the state from the standby that replaced them.
static void test_dead_workers_restart(void **state) {
    (void)state;
    for (uint32_t i = 0; i < DEATHS_OF_ONE; i++) {
        sim_case c = case_of(i, 2);
        c.crash[0].restart = true;
        c.crash[0].restart_ns = SECOND / 5;
        sim_report report;
        case_run(&bench, deaths[i].name, &c, false, "", &report);
        if (report.stats.stage_deaths != 1) fail_msg("%s: no stage died", deaths[i].name);
    }
}

// In a run without faults a standby changes nothing: no repair, no wasted compute (the checkers
// compare), and no work of its own.
static void test_standbys_without_faults_change_nothing(void **state) {
    (void)state;
    for (uint32_t i = 0; i < 4; i++) {
        sim_case c = sim_case_plain(70 + i, 3, 1, 2 + i, 6, 3);
        c.shadows = 1 + i % 2;
        c.shadow_peers = 2 * c.shadows;
        sim_report report;
        case_run(&bench, "in peace", &c, i % 2 == 0, "", &report);
        assert_int_equal(report.stats.promotions, 0);
    }
}

// ---- random schedules

static void test_random(void **state) {
    (void)state;
    static const uint64_t count[CAMPAIGN_KINDS] = {60, 40, 30};
    sim_campaign_result r[CAMPAIGN_KINDS];
    uint64_t runs = 0, stage_deaths = 0, promotions = 0;
    campaign_kinds_pass((sim_campaign){.stage_deaths = true}, count, MOST_STEPS, r);
    for (int kind = 0; kind < CAMPAIGN_KINDS; kind++) {
        runs += r[kind].runs;
        stage_deaths += r[kind].stage_deaths;
        promotions += r[kind].promotions;
    }
    assert_true(stage_deaths > runs / 3);
    assert_true(promotions > stage_deaths / 2);
}

// Several peers vote, and the leader dies as well.
static void test_random_with_voters(void **state) {
    (void)state;
    static const uint64_t count[CAMPAIGN_KINDS] = {40, 40, 20};
    sim_campaign_result r[CAMPAIGN_KINDS];
    campaign_kinds_pass((sim_campaign){.stage_deaths = true, .leader_deaths = true}, count, MOST_STEPS, r);
    uint64_t runs = 0, stage_deaths = 0, promotions = 0, leader_deaths = 0;
    for (int kind = 0; kind < CAMPAIGN_KINDS; kind++) {
        runs += r[kind].runs;
        stage_deaths += r[kind].stage_deaths;
        promotions += r[kind].promotions;
        leader_deaths += r[kind].leader_deaths;
    }
    assert_true(stage_deaths > runs / 3);
    assert_true(promotions > stage_deaths / 2);
    assert_true(leader_deaths > runs / 3);
}

// Schedules that once did not end.
static void test_once_stuck_schedules_end(void **state) {
    (void)state;
    const sim_campaign once_stuck[] = {
        // the holders of a stage's state were removed, and then the peers died for which they had
        // been removed
        {.first = 163, .data_deaths = true},
        {.first = 20171},
        // a restarted peer waited for results of the iteration before it, which only standbys could
        // have
        {.first = 5000161, .flaps = true},
        // a microbatch that had completed, until its last stage died, kept its owner's only slot,
        // which the holder of that stage's last slot needed
        {.first = 8000411, .flaps = true},
        // the harness relied on a standby that the leader was about to move, because its machine
        // worked for the same stage
        {.first = 8824451, .real = true, .partitions = true, .data_deaths = true},
        // the harness started no relays after a rollback with fewer relays than stages, because
        // standbys had done their work
        {.first = 13637209},
    };
    for (size_t i = 0; i < sizeof once_stuck / sizeof *once_stuck; i++) {
        sim_campaign campaign = once_stuck[i];
        campaign.real = campaign.stage_deaths = campaign.partitions = true;
        campaign_ends(campaign);
    }
}

// ---- mutants

static void test_mutants_are_noticed(void **state) {
    (void)state;
    static const struct {
        sim_mutant mutant;
        bool real;
    } all[] = {{SIM_MUTANT_SHADOW_SKIPS, true}, {SIM_MUTANT_SHADOW_TWICE, true}, {SIM_MUTANT_PROMOTES_EARLY, false}, {SIM_MUTANT_COUNTS_SHADOWS, false}};
    for (uint32_t i = 0; i < sizeof all / sizeof *all; i++) {
        const sim_campaign campaign = {.first = 1, .count = MUTANT_SEEDS, .real = all[i].real, .stage_deaths = true, .mutant = all[i].mutant};
        campaign_notices(campaign, MUTANT_MOST, all[i].real ? "--real --stage-deaths" : "--stage-deaths");
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_moment),    cmocka_unit_test(test_every_moment_of_a_stage_of_one), cmocka_unit_test(test_dead_workers_restart),
        cmocka_unit_test(test_standbys_without_faults_change_nothing), cmocka_unit_test(test_once_stuck_schedules_end),      cmocka_unit_test(test_random), cmocka_unit_test(test_random_with_voters),
        cmocka_unit_test(test_mutants_are_noticed),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    sim_bench_close(&bench);
    return failed;
}
