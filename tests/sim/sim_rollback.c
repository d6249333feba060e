// All holders of a stage's state die at once, standbys too. The run rolls back to a checkpoint or
// to its beginning, and reaches the same weights. Every moment of an iteration, several stages at
// once, all data peers, random schedules, and mutants.
#include "campaign_run.h"
#include "case_run.h"

enum { MOST_STEPS = 100, MUTANT_SEEDS = 8 };

static const uint64_t SECOND = 1000000000;

static sim_bench bench;

// ---- one stage is lost

static const case_death deaths[] = {
    {"before a forward", {.moment = SIM_BEFORE_JOB, .kind = JOB_FORWARD, .skip = 1}},
    {"with forwards sent on", {.moment = SIM_AFTER_SEND, .kind = MESSAGE_FORWARD, .skip = 1}},
    {"in a backward, machine dies", {.moment = SIM_BEFORE_JOB, .kind = JOB_BACKWARD, .skip = 1, .machine = true}},
    {"before COMMIT", {.moment = SIM_BEFORE_MESSAGE, .kind = MESSAGE_COMMIT, .skip = 1}},
    {"after it said COUNTED", {.moment = SIM_AFTER_SEND, .kind = MESSAGE_COUNTED, .skip = 3}},
    {"at BEGIN AGGREGATION, machine dies", {.moment = SIM_AFTER_MESSAGE, .kind = MESSAGE_BEGIN_AGGREGATION, .machine = true}},
    {"with a result", {.moment = SIM_AFTER_JOB_TOLD, .kind = JOB_REDUCE}},
    {"with all results, which only they have", {.moment = SIM_AFTER_SEND, .kind = MESSAGE_REDUCED}},
    {"after applying", {.moment = SIM_AFTER_JOB_TOLD, .kind = JOB_APPLY}},
    {"giving its state to be saved", {.moment = SIM_AFTER_JOB_TOLD, .kind = JOB_STATE_GET}},
};

enum { DEATHS = sizeof deaths / sizeof *deaths };

// A loss in the third iteration, with `relays` relays for two stages and a checkpoint every `every`
// iterations; 0: none before the end.
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

static void check_rollbacks(const char *name, const sim_report *report, uint32_t times, uint64_t least, uint64_t most) {
    if (report->stats.rollbacks != times) fail_msg("%s: %u rollbacks, not %u", name, report->stats.rollbacks, times);
    uint64_t again = report->stats.again_iterations;
    if (again < least || again > most) fail_msg("%s: %llu iterations were computed again", name, (unsigned long long)again);
}

// With a checkpoint every second iteration one or two are repeated, without one all of them.
static void test_every_moment(void **state) {
    (void)state;
    for (uint32_t i = 0; i < DEATHS; i++)
        for (uint32_t every = 0; every <= 2; every += 2) {
            // no peer requests it
            if (every == 0 && deaths[i].crash.kind == JOB_STATE_GET && deaths[i].crash.moment == SIM_AFTER_JOB_TOLD) continue;
            sim_case c = case_of(i, 4, every);
            sim_report report;
            case_run(&bench, deaths[i].name, &c, i % 2 == 0, "", &report);
            check_rollbacks(deaths[i].name, &report, 1, every ? 0 : 3, every ? 2 : 4);
        }
}

// Each disk holds a wrong state in place of the checkpoint. It is detected before use, and the run
// rolls back to its beginning.
static void test_wrong_checkpoints_are_not_used(void **state) {
    (void)state;
    for (uint32_t i = 0; i < DEATHS; i += 3) {
        sim_case c = case_of(i, 4, 2);
        sim_report report;
        c.wrong_checkpoints = true;
        case_run(&bench, "spoilt checkpoints", &c, i % 2 == 0, "", &report);
        check_rollbacks("spoilt checkpoints", &report, 2, 3, 6);
    }
}

// The standbys die with the stage.
static void test_standbys_die_with_the_stage(void **state) {
    (void)state;
    for (uint32_t i = 0; i < DEATHS; i++) {
        sim_case c = case_of(i, 4, 2);
        c.shadows = 1;
        c.shadow_peers = 2;
        sim_report report;
        case_run(&bench, deaths[i].name, &c, false, "", &report);
        check_rollbacks(deaths[i].name, &report, 1, 0, 2);
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
        if (report.stats.stage_deaths < 1 || report.stats.rollbacks < 1) fail_msg("%u stages died, %u rollbacks", report.stats.stage_deaths, report.stats.rollbacks);
    }
}

// The dead are not replaced: a relay of a stage with two relays moves.
static void test_relay_of_another_stage_moves_to_the_lost_one(void **state) {
    (void)state;
    sim_case c = case_of(0, 5, 2);  // stage 1 has three
    c.crash[0].restart_ns = 4000 * SECOND;
    sim_report report;
    case_run(&bench, "no peer restarts", &c, false, "", &report);
    check_rollbacks("no peer restarts", &report, 1, 0, 2);
}

// All data peers, also the leader, die and restart with their disks: the log and, at one of them,
// the checkpoint.
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
        check_rollbacks("all data peers", &report, 1, 0, c.checkpoint_every ? 2 : 4);
    }
}

// The same after the last iteration, before the last checkpoint is written: the relays wait for a
// while, and are restarted if they have exited.
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
        if (!late) c.compute_ns = 2 * SECOND;  // repeating one iteration takes longer
        sim_report report;
        case_run(&bench, late ? "all data peers, long after the end" : "all data peers at the end", &c, false, "", &report);
        assert_int_equal(report.stats.stage_deaths, 1);
        assert_int_equal(report.stats.joins, late ? 3 + 4 : 3);
        check_rollbacks("all data peers at the end", &report, 1, 0, c.checkpoint_every ? 1 : 3);
    }
}

// 1. FINAL is decided and waits for the checkpoint of the version before. 2. The only holder of the
// results dies. After FINAL the run would have to roll back by one iteration; it rolls back to the
// checkpoint that is being written.
static void test_result_is_lost_while_FINAL_waits(void **state) {
    (void)state;
    for (uint32_t i = 0; i < 4; i++) {
        sim_case c = sim_case_plain(7, 3, 1, 2, 2, 4);
        c.checkpoint_every = 1;
        c.fake.blocks = 200;
        c.net.payload_ns = SECOND / 10;
        c.crashes = 1;
        c.crash[0] = (sim_crash){.moment = SIM_AT_TIME, .at_ns = (41 + i) * SECOND / 10, .stage = true, .lost = true, .restart = true, .restart_ns = 8 * SECOND};
        sim_report report;
        case_run(&bench, "while FINAL waits", &c, false, "", &report);
        check_rollbacks("while FINAL waits", &report, 1, 0, 0);
    }
}

// Without deaths no run rolls back, though peers are paused and cut off for a while.
static void test_no_rollback_without_deaths(void **state) {
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
static void test_once_failed_schedules_pass(void **state) {
    (void)state;
    const sim_campaign once[] = {
        // a relay was removed and the run rolled back while it computed a weight gradient, which
        // stayed in its sum
        {.first = 8030312, .real = true, .flaps = true, .partitions = true},
        // a new leader had compacted its log past the other voters, and sent them nothing until it
        // was in charge
        {.first = 62014, .real = true, .stage_losses = true, .partitions = true, .short_stores = true, .leader_deaths = true},
        // routers: a data peer that was cut off skipped a staged plan of the others, and they
        // forgot its labels
        {.first = 62067, .real = true, .stage_losses = true, .partitions = true, .short_stores = true, .leader_deaths = true},
        // again a new leader, and the newest entry had no effect on the state, so no snapshot ever
        // reached its position
        {.first = 62131, .real = true, .stage_losses = true, .partitions = true, .short_stores = true, .leader_deaths = true},
        // the checker asked one router whether it had settled before it knew that another one still
        // waited
        {.first = 11494167, .stage_losses = true, .flaps = true, .odd = true, .leader_deaths = true},
        // the only voter died before the last checkpoint, and the only holder of a stage's state
        // exited at once
        {.first = 743, .real = true, .stage_losses = true, .leader_deaths = true},
        // all of a stage were silent; the checkpoint was not the leader's, and the leader waited
        // for the silent ones for ever
        {.first = 654, .real = true, .stage_losses = true, .leader_deaths = true},
        // all data peers restarted at other addresses, had the log, and did not learn the others'
        // addresses
        {.first = 8104949, .real = true, .carried = true, .stage_losses = true, .private_data = true, .flaps = true, .partitions = true, .leader_deaths = true},
        // a relay that never voted sent its snapshot to a restarted voter, without the position
        {.first = 8107992, .carried = true, .stage_losses = true, .elastic = true, .odd = true, .short_stores = true, .leader_deaths = true},
        // one snapshot was mixed from two of different times: removed peers stayed members, and a
        // new owner waited for their answer
        {.first = 8410259, .carried = true, .stage_losses = true, .elastic = true, .odd = true, .short_stores = true, .leader_deaths = true},
        // all other peers had new addresses when one restarted, and it trusted its log more than
        // its user
        {.first = 8403283, .real = true, .carried = true, .stage_losses = true, .private_data = true, .flaps = true, .partitions = true, .leader_deaths = true},
        // all data peers died before the last checkpoint was written, and the relays had exited
        // when they restarted
        {.first = 2006, .real = true, .stage_losses = true, .leader_deaths = true},
        // a joiner read the last FINAL before it read of the rollback, knew no voter but the
        // leader, and exited at once
        {.first = 8518942, .real = true, .stage_losses = true, .short_stores = true, .leader_deaths = true},
        // a voter received the log from the end of a partial snapshot, and took an old RUN entry
        // for the newest generation
        {.first = 8900272, .real = true, .stage_losses = true, .private_data = true, .flaps = true, .partitions = true, .leader_deaths = true},
        // a joiner lost the link to its only contact, and searched the leader at the address of an
        // earlier incarnation for ever
        {.first = 8910108, .real = true, .stage_losses = true, .private_data = true, .flaps = true, .partitions = true, .leader_deaths = true},
        // the only data peer ended the run while it was cut off, and the others rolled back after
        // 10 s and waited for another one for ever
        {.first = 8911245, .stage_losses = true, .partitions = true, .odd = true, .short_stores = true, .leader_deaths = true},
        // the harness killed voters for good while the others were about to restart, and too few
        // were left
        {.first = 8521549, .real = true, .stage_losses = true, .short_stores = true, .leader_deaths = true},
        // a user gave a peer a new contact in place of a dead one, and the peer that knew only this
        // one lost it
        {.first = 8518856, .real = true, .stage_losses = true, .private_data = true, .flaps = true, .partitions = true, .leader_deaths = true},
        // a snapshot in place of a voter's own log broke off; that voter was elected, and could
        // neither begin nor receive the rest
        {.first = 9102499, .real = true, .carried = true, .stage_losses = true, .elastic = true, .partitions = true, .short_stores = true, .leader_deaths = true},
        // a relay was moved to an empty stage and back again and again, while the other relay there
        // was cut off; that one was to leave, exited on its removal, and the harness started no
        // relay for the empty stage
        {.first = 9549722, .stage_losses = true, .odd = true, .data_deaths = true},
        // the harness killed the leader when the last FINAL rested on the leader's own report
        // alone, which no other peer had received
        {.first = 9702988, .partitions = true, .odd = true, .short_stores = true, .leader_deaths = true},
        // a repair for a dead owner held a relay's only slot and waited for the new owner's
        // slot, and that slot's holder waited for the relay's
        {.first = 9704749, .carried = true, .partitions = true, .odd = true},
        // promoted standbys were removed while they were cut off, and not admitted again, because
        // nothing had been applied yet
        {.first = 9742773, .stage_deaths = true, .partitions = true, .odd = true, .data_deaths = true},
        // an iteration was skipped, and parts of sums stayed that no attempt would add
        {.first = 9536018, .carried = true, .partitions = true, .odd = true},
        // in fast mode a relay missed a BEGIN and mixed results of two attempts; their root reveals
        // it, and it fetches them again
        {.first = 9752596, .stage_losses = true, .private_data = true, .flaps = true, .odd = true, .data_deaths = true},
        // a COMMIT was lost with its link, and the microbatch moved because the holder had denied a
        // RESUME, which is no refusal
        {.first = 88602895, .real = true, .flaps = true, .partitions = true},
        // a snapshot arrived twice, and a FINAL of before the rollback in the peer's own log was
        // applied between the two
        {.first = 9965239, .real = true, .stage_losses = true, .private_data = true, .flaps = true, .partitions = true, .short_stores = true, .leader_deaths = true},
        // a standby that had not read of its promotion refused the tensors of a repair, and each
        // refusal doubled them
        {.first = 10061133, .real = true, .stage_deaths = true, .flaps = true, .partitions = true, .data_deaths = true},
        // the harness removed a checkpoint before the log knew of the next one: a host keeps the
        // previous one
        {.first = 10107624, .real = true, .stage_losses = true, .partitions = true, .leader_deaths = true},
        // all but one of each stage died; a relay moved back to the stage that a standby was about
        // to work for, and not to the other empty one
        {.first = 1023644, .stage_deaths = true, .flaps = true, .partitions = true, .odd = true},
        // a relayed result was dropped before any state had arrived; the state was then one version
        // behind, and the result was not requested again
        {.first = 838931, .carried = true, .flaps = true, .partitions = true, .odd = true},
        // the harness ended a cut when a second one of the same peer began, but not for messages
        // sent meanwhile
        {.first = 1304807, .partitions = true, .odd = true, .data_deaths = true},
        // two of three voters died during the last checkpoint; the third exited after a while, and
        // the harness restarted it without its log
        {.first = 1543807, .real = true, .stage_losses = true, .short_stores = true, .leader_deaths = true},
        // the first FINAL was about to be stored when the only reporter of a stage's results, which
        // was cut off, was removed
        {.first = 2552, .real = true, .flaps = true, .partitions = true},
        // all of a stage were cut off, and about to be removed when their reports came: FINAL
        // rested on these, after their removals in the log
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
        print_message("%llu stages were lost, %llu rollbacks\n", (unsigned long long)lost, (unsigned long long)back);
        assert_true(lost > runs / 2);
        assert_true(back > runs / 4);
    }
}

// ---- mutants

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
        cmocka_unit_test(test_every_moment), cmocka_unit_test(test_wrong_checkpoints_are_not_used),          cmocka_unit_test(test_standbys_die_with_the_stage), cmocka_unit_test(test_several_stages_at_once),
        cmocka_unit_test(test_relay_of_another_stage_moves_to_the_lost_one), cmocka_unit_test(test_all_data_peers), cmocka_unit_test(test_all_data_peers_at_the_end), cmocka_unit_test(test_result_is_lost_while_FINAL_waits), cmocka_unit_test(test_no_rollback_without_deaths),
        cmocka_unit_test(test_once_failed_schedules_pass),
        cmocka_unit_test(test_random),                cmocka_unit_test(test_mutants_are_noticed),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    sim_bench_close(&bench);
    return failed;
}
