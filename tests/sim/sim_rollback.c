// All that have a stage's state die at once, shadows too: the run goes back to what was saved, or to its beginning, and comes to the same
// weights all the same. Every moment of an iteration, several stages at once, all data peers, random schedules, and broken variants.
#include "campaign_run.h"
#include "case_run.h"

enum { MOST_STEPS = 100, MUTANT_SEEDS = 8 };

static const uint64_t SECOND = 1000000000;

static sim_bench bench;

// ---- one stage is lost

static const case_death deaths[] = {
    {"before a forward", {.moment = SIM_BEFORE_JOB, .kind = JOB_FORWARD, .skip = 1}},
    {"with forwards sent on", {.moment = SIM_AFTER_SEND, .kind = MESSAGE_FORWARD, .skip = 1}},
    {"in a backward, without a word", {.moment = SIM_BEFORE_JOB, .kind = JOB_BACKWARD, .skip = 1, .machine = true}},
    {"before COMMIT", {.moment = SIM_BEFORE_MESSAGE, .kind = MESSAGE_COMMIT, .skip = 1}},
    {"after it said COUNTED", {.moment = SIM_AFTER_SEND, .kind = MESSAGE_COUNTED, .skip = 3}},
    {"at BEGIN AGGREGATION, without a word", {.moment = SIM_AFTER_MESSAGE, .kind = MESSAGE_BEGIN_AGGREGATION, .machine = true}},
    {"with a result", {.moment = SIM_AFTER_JOB_TOLD, .kind = JOB_REDUCE}},
    {"with all results, which only they have", {.moment = SIM_AFTER_SEND, .kind = MESSAGE_REDUCED}},
    {"after applying", {.moment = SIM_AFTER_JOB_TOLD, .kind = JOB_APPLY}},
    {"giving its state to be saved", {.moment = SIM_AFTER_JOB_TOLD, .kind = JOB_STATE_GET}},
};

enum { DEATHS = sizeof deaths / sizeof *deaths };

// The third iteration's, of `relays` of two stages; a checkpoint every `every`, 0: none before the end.
static sim_case case_of(uint32_t index, uint32_t relays, uint32_t every) {
    sim_case c = sim_case_plain(90 + index, 3, 2, relays, 6, 5);
    c.checkpoint_every = every;
    c.crashes = 1;
    c.crash[0] = deaths[index].crash;
    c.crash[0].stage = c.crash[0].lost = c.crash[0].restart = true;
    c.crash[0].restart_ns = SECOND;
    c.crash[0].iteration = 3;
    return c;
}

static void check_went_back(const char *name, const sim_report *report, uint32_t times, uint64_t least, uint64_t most) {
    if (report->stats.rollbacks != times) fail_msg("%s: the run went back %u times, not %u", name, report->stats.rollbacks, times);
    uint64_t again = report->stats.again_iterations;
    if (again < least || again > most) fail_msg("%s: %llu iterations were computed again", name, (unsigned long long)again);
}

// With a checkpoint of each second iteration one or two are computed again, without one all of them.
static void test_every_moment(void **state) {
    (void)state;
    for (uint32_t i = 0; i < DEATHS; i++)
        for (uint32_t every = 0; every <= 2; every += 2) {
            if (every == 0 && deaths[i].crash.kind == JOB_STATE_GET && deaths[i].crash.moment == SIM_AFTER_JOB_TOLD) continue;  // nobody asks for it
            sim_case c = case_of(i, 4, every);
            sim_report report;
            case_run(&bench, deaths[i].name, &c, i % 2 == 0, "", &report);
            check_went_back(deaths[i].name, &report, 1, every ? 0 : 3, every ? 2 : 4);
        }
}

// Nobody has what was saved, though each disk says so: it is noticed before it is used, and the run goes back to its beginning.
static void test_spoilt_checkpoints_are_not_used(void **state) {
    (void)state;
    for (uint32_t i = 0; i < DEATHS; i += 3) {
        sim_case c = case_of(i, 4, 2);
        sim_report report;
        c.wrong_checkpoints = true;
        case_run(&bench, "spoilt checkpoints", &c, i % 2 == 0, "", &report);
        check_went_back("spoilt checkpoints", &report, 2, 3, 6);
    }
}

// Its shadows die with it.
static void test_shadows_die_as_well(void **state) {
    (void)state;
    for (uint32_t i = 0; i < DEATHS; i++) {
        sim_case c = case_of(i, 4, 2);
        c.shadows = 1;
        c.shadow_peers = 2;
        sim_report report;
        case_run(&bench, deaths[i].name, &c, false, "", &report);
        check_went_back(deaths[i].name, &report, 1, 0, 2);
    }
}

static void test_several_stages_at_once(void **state) {
    (void)state;
    for (uint32_t i = 0; i < 4; i++) {
        sim_case c = case_of(0, 4 + i, 2);
        c.seed += i;
        c.crashes = 2;
        c.crash[0].moment = SIM_AT_TIME;
        c.crash[0].at_ns = 2 * SECOND;
        c.crash[1] = c.crash[0];
        sim_report report;
        case_run(&bench, "two stages", &c, false, "", &report);
        if (report.stats.stage_deaths < 1 || report.stats.rollbacks < 1) fail_msg("%u stages died, the run went back %u times", report.stats.stage_deaths, report.stats.rollbacks);
    }
}

// Nobody comes in the place of the dead: a relay of a stage that has two of them does.
static void test_others_fill_the_stage(void **state) {
    (void)state;
    sim_case c = case_of(0, 5, 2);  // stage 1 has three
    c.crash[0].restart_ns = 4000 * SECOND;
    sim_report report;
    case_run(&bench, "nobody comes back", &c, false, "", &report);
    check_went_back("nobody comes back", &report, 1, 0, 2);
}

// All data peers, the leader among them, die and come back with what they had stored: the log and, one of them, the checkpoint.
static void test_all_data_peers(void **state) {
    (void)state;
    for (uint32_t i = 0; i < 6; i++) {
        sim_case c = sim_case_plain(120 + i, 3, 3, 4, 6, 5);
        c.voters = 3 + i % 2 * 2;
        c.data_deaths = c.leader_deaths = true;
        c.checkpoint_every = i % 3;
        c.crashes = 1;
        c.crash[0] = (sim_crash){.moment = SIM_AFTER_SEND, .kind = MESSAGE_SETTLED, .skip = i, .iteration = 3, .data = true, .stage = true, .lost = true, .restart_ns = (1 + i) * SECOND / 2};
        sim_report report;
        case_run(&bench, "all data peers", &c, false, "", &report);
        assert_int_equal(report.stats.stage_deaths, 1);
        check_went_back("all data peers", &report, 1, 0, c.checkpoint_every ? 2 : 4);
    }
}

// The same when all is computed and the last checkpoint is not written: the relays wait for a while, and are sent again if they
// have gone.
static void test_all_data_peers_at_the_end(void **state) {
    (void)state;
    for (uint32_t i = 0; i < 4; i++) {
        bool late = i >= 2;
        sim_case c = sim_case_plain(160 + i, 3, 3, 4, 6, 3);
        c.voters = 3;
        c.data_deaths = c.leader_deaths = true;
        c.checkpoint_every = i % 2;
        c.crashes = 1;
        c.crash[0] = (sim_crash){.moment = SIM_BEFORE_MESSAGE, .kind = MESSAGE_DATA, .iteration = 3, .data = true, .stage = true, .lost = true, .restart_ns = (late ? 40 : 14) * SECOND};
        if (!late) c.compute_ns = 2 * SECOND;  // to compute one iteration again takes longer
        sim_report report;
        case_run(&bench, late ? "all data peers, long after the end" : "all data peers at the end", &c, false, "", &report);
        assert_int_equal(report.stats.stage_deaths, 1);
        assert_int_equal(report.stats.joins, late ? 3 + 4 : 3);
        check_went_back("all data peers at the end", &report, 1, 0, c.checkpoint_every ? 1 : 3);
    }
}

// What FINAL will say is decided, and it waits for the checkpoint of the version before; the only one who has the results dies meanwhile. Behind
// FINAL the run would have to go back by one iteration: it goes back to what is being saved.
static void test_a_result_is_lost_while_final_waits(void **state) {
    (void)state;
    for (uint32_t i = 0; i < 4; i++) {
        sim_case c = sim_case_plain(7, 3, 1, 2, 2, 4);
        c.checkpoint_every = 1;
        c.blocks = 200;
        c.payload_ns = SECOND / 10;
        c.crashes = 1;
        c.crash[0] = (sim_crash){.moment = SIM_AT_TIME, .at_ns = (45 + i) * SECOND / 10, .stage = true, .lost = true, .restart = true, .restart_ns = 8 * SECOND};
        sim_report report;
        case_run(&bench, "while FINAL waits", &c, false, "", &report);
        check_went_back("while FINAL waits", &report, 1, 0, 0);
    }
}

// Where nobody dies no run goes back, though peers stand still and are cut off for a while.
static void test_nobody_goes_back_for_nothing(void **state) {
    (void)state;
    for (uint32_t i = 0; i < 6; i++) {
        sim_case c = sim_case_plain(140 + i, 3, 2, 4, 6, 4);
        c.checkpoint_every = 1;
        c.troubles = 1;
        c.trouble[0] = (sim_trouble){i % 2 ? SIM_PARTITION : SIM_PAUSE, 1, 2 * SECOND, 8 * SECOND};
        sim_report report;
        case_run(&bench, "eight seconds of silence", &c, false, "", &report);
        assert_int_equal(report.stats.rollbacks, 0);
    }
}

// ---- random schedules

// Schedules that once failed.
static void test_no_schedule_fails_again(void **state) {
    (void)state;
    const sim_campaign once[] = {
        // a relay was expelled and the run went back while it computed a weight gradient: its sum was never cleared of that
        {.first = 8030312, .real = true, .flaps = true, .partitions = true},
        // who led anew had begun its store behind what the other voters knew, and told them nothing until it was in charge
        {.first = 62014, .real = true, .stage_losses = true, .partitions = true, .short_stores = true, .leader_deaths = true},
        // routers: a data peer that was cut off passed by a draft of the others, who forgot its labels
        {.first = 62067, .real = true, .stage_losses = true, .partitions = true, .short_stores = true, .leader_deaths = true},
        // an elected leader again, and what came last in the log had left nothing behind, so a state never reached as far
        {.first = 62131, .real = true, .stage_losses = true, .partitions = true, .short_stores = true, .leader_deaths = true},
        // the checker asked one whether it had settled before it knew that another one still waited
        {.first = 11494167, .stage_losses = true, .flaps = true, .odd = true, .leader_deaths = true},
        // the one voter died before it had the last checkpoint, and the only one with a stage's state went home at once
        {.first = 743, .real = true, .stage_losses = true, .leader_deaths = true},
        // all of a stage fell silent; the checkpoint was another's than the leader's, who waited for the silent ones for ever
        {.first = 654, .real = true, .stage_losses = true, .leader_deaths = true},
        // all data peers came back at other addresses, knew the log, and were told by nobody where the others were
        {.first = 8104949, .real = true, .carried = true, .stage_losses = true, .private_data = true, .flaps = true, .partitions = true, .leader_deaths = true},
        // a relay that never voted sent its state to a voter that was back, and did not say how far it goes
        {.first = 8107992, .carried = true, .stage_losses = true, .elastic = true, .odd = true, .short_stores = true, .leader_deaths = true},
        // a state was taken from two of different times: the expelled stayed among the living, and a new owner waited for its answer
        {.first = 8410259, .carried = true, .stage_losses = true, .elastic = true, .odd = true, .short_stores = true, .leader_deaths = true},
        // one came back to a swarm in which all others were elsewhere by then, and believed its store more than its user
        {.first = 8403283, .real = true, .carried = true, .stage_losses = true, .private_data = true, .flaps = true, .partitions = true, .leader_deaths = true},
        // all data peers died before the last checkpoint was there, and the relays were gone when they came back
        {.first = 2006, .real = true, .stage_losses = true, .leader_deaths = true},
        // who joined read of the last FINAL before it read that the run went back, knew no voter but the leader, and went home at once
        {.first = 8518942, .real = true, .stage_losses = true, .short_stores = true, .leader_deaths = true},
        // a voter was sent the log from where a state broke off, and took the run's beginning in it for the newest generation
        {.first = 8900272, .real = true, .stage_losses = true, .private_data = true, .flaps = true, .partitions = true, .leader_deaths = true},
        // who joined lost the link to the only one that it knew, and sought the leader for ever where an earlier life of that one had been
        {.first = 8910108, .real = true, .stage_losses = true, .private_data = true, .flaps = true, .partitions = true, .leader_deaths = true},
        // the only data peer ended the run while it was cut off, and the others went back after 10 s, to wait for another one for ever
        {.first = 8911245, .stage_losses = true, .partitions = true, .odd = true, .short_stores = true, .leader_deaths = true},
        // the harness let voters die for good while the others were about to come back, and too few were left
        {.first = 8521549, .real = true, .stage_losses = true, .short_stores = true, .leader_deaths = true},
        // the user of a peer that knew only a dead one named another, and forgot who knew only that peer where it had been
        {.first = 8518856, .real = true, .stage_losses = true, .private_data = true, .flaps = true, .partitions = true, .leader_deaths = true},
        // a state came in place of a voter's own and broke off; that one was elected, and could neither begin nor be told the rest
        {.first = 9102499, .real = true, .carried = true, .stage_losses = true, .elastic = true, .partitions = true, .short_stores = true, .leader_deaths = true},
        // a relay was moved to an empty stage, and let back to where it had been, again and again, while the other one there was cut off;
        // and that one was to leave, went when it was expelled, and the harness sent nobody who could have gone to the empty stage
        {.first = 9549722, .stage_losses = true, .odd = true, .data_deaths = true},
        // the harness let who led die when the last FINAL rested on its own report alone: of what it tells itself nobody had heard
        {.first = 9702988, .partitions = true, .odd = true, .short_stores = true, .leader_deaths = true},
        // what was to be repaired for an owner that died held a relay's only slot, and waited for the heir's, whose holder waited for the relay's
        {.first = 9704749, .carried = true, .partitions = true, .odd = true},
        // shadows that worked for a stage were expelled while they were cut off, and not let back, for nothing had been applied yet
        {.first = 9742773, .stage_deaths = true, .partitions = true, .odd = true, .data_deaths = true},
        // an iteration was skipped, and parts of sums that nobody would add any more stayed where they were
        {.first = 9536018, .carried = true, .partitions = true, .odd = true},
        // in a fast run a relay that missed a BEGIN put results of two rounds together; it finds out by their root, and gets them again
        {.first = 9752596, .stage_losses = true, .private_data = true, .flaps = true, .odd = true, .data_deaths = true},
        // a COMMIT was lost with its link, and its holder moved because it had denied a RESUME, to which it promises nothing
        {.first = 88602895, .real = true, .flaps = true, .partitions = true},
        // a state of the log came twice, its own store had a FINAL from before the run went back, and that was applied between the two
        {.first = 9965239, .real = true, .stage_losses = true, .private_data = true, .flaps = true, .partitions = true, .short_stores = true, .leader_deaths = true},
        // a shadow that had not heard of its promotion refused what a repair sent, and each refusal sent twice as much again
        {.first = 10061133, .real = true, .stage_deaths = true, .flaps = true, .partitions = true, .data_deaths = true},
        // the harness removed a checkpoint when the next was written, of which the log never said a word: a host keeps the one before
        {.first = 10107624, .real = true, .stage_losses = true, .partitions = true, .leader_deaths = true},
        // all but one of each stage died at once; a relay went back to the empty stage that a shadow was about to work for, and not to the other one
        {.first = 1023644, .stage_deaths = true, .flaps = true, .partitions = true, .odd = true},
        // a carried result was given up before any of the state was there, which then came as it was before that result, and nobody asked again
        {.first = 838931, .carried = true, .flaps = true, .partitions = true, .odd = true},
        // the harness ended a cut when a second one of the same peer began, but not for what had been sent meanwhile
        {.first = 1304807, .partitions = true, .odd = true, .data_deaths = true},
        // two of three voters died during the last checkpoint; the third went home after a while, and the harness brought it back without its store
        {.first = 1543807, .real = true, .stage_losses = true, .short_stores = true, .leader_deaths = true},
        // the first FINAL was about to be stored when the only one who had reported a stage's results, and was cut off, was expelled
        {.first = 2552, .real = true, .flaps = true, .partitions = true},
        // all of a stage were cut off, and about to be expelled when their reports came: FINAL rested on these, behind their expulsions in the log
        {.first = 14489, .carried = true, .private_data = true, .partitions = true, .odd = true, .data_deaths = true},
    };
    for (size_t i = 0; i < sizeof once / sizeof *once; i++) campaign_ends(once[i]);
}

static void test_random(void **state) {
    (void)state;
    static const uint64_t count[CAMPAIGN_KINDS] = {50, 30, 20};
    static const sim_campaign kinds[] = {{.stage_losses = true}, {.stage_losses = true, .leader_deaths = true}, {.stage_losses = true, .data_deaths = true, .elastic = true}};
    for (uint32_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        sim_campaign_result r[CAMPAIGN_KINDS];
        uint64_t runs = 0, lost = 0, back = 0;
        campaign_kinds_pass(kinds[k], count, MOST_STEPS, r);
        for (int kind = 0; kind < CAMPAIGN_KINDS; kind++) {
            runs += r[kind].runs;
            lost += r[kind].stage_deaths;
            back += r[kind].rollbacks;
        }
        print_message("%llu stages were lost, %llu times the run went back\n", (unsigned long long)lost, (unsigned long long)back);
        assert_true(lost > runs / 2);
        assert_true(back > runs / 4);
    }
}

// ---- broken variants

static void test_mutants_are_noticed(void **state) {
    (void)state;
    static const struct {
        sim_mutant mutant;
        uint64_t first;
    } all[] = {{SIM_MUTANT_KEEPS_THE_PAST, 1}, {SIM_MUTANT_IMAGINES_SAVES, 2}};
    for (uint32_t i = 0; i < sizeof all / sizeof *all; i++) {
        const sim_campaign campaign = {.first = all[i].first, .count = MUTANT_SEEDS, .stage_losses = true, .mutant = all[i].mutant};
        campaign_notices(campaign, MUTANT_SEEDS, "--stage-losses");
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_moment), cmocka_unit_test(test_spoilt_checkpoints_are_not_used),          cmocka_unit_test(test_shadows_die_as_well), cmocka_unit_test(test_several_stages_at_once),
        cmocka_unit_test(test_others_fill_the_stage), cmocka_unit_test(test_all_data_peers), cmocka_unit_test(test_all_data_peers_at_the_end), cmocka_unit_test(test_a_result_is_lost_while_final_waits), cmocka_unit_test(test_nobody_goes_back_for_nothing),
        cmocka_unit_test(test_no_schedule_fails_again),
        cmocka_unit_test(test_random),                cmocka_unit_test(test_mutants_are_noticed),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    sim_bench_close(&bench);
    return failed;
}
