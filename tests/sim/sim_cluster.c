// A cluster in memory on a virtual clock: runs without faults, one crash of every class, random
// schedules.
//     sim_sim_cluster                          the tests
//     sim_sim_cluster --seeds FROM:COUNT [FLAGS] [--processes N] [--mutant NAME] [--trace]
//     sim_sim_cluster --soak FROM:COUNT        schedules of every kind, with a line after every 500
// FLAGS: [--real | --odd] [--flaps] [--partitions] [--data-deaths | --leader-deaths]
// [--stage-deaths] [--stage-losses] [--short-stores] [--slow-stores] [--comebacks] [--carried]
// [--doubled-tensors] [--crowded] [--moves] [--private | --elastic [--leavers]]
#include "campaign_run.h"
#include "case_run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { RANDOM_FAKE = 400, RANDOM_REAL = 300, RANDOM_FLAPS = 150, RANDOM_ODD = 400, RANDOM_CARRIED = 200, RANDOM_MIXED = 3000, MOST_STEPS = 100 };

static const uint64_t MILLISECOND = 1000000;
static const uint64_t SECOND = 1000000000;

static sim_bench bench;

static void run(const char *name, const sim_case *c, bool real, sim_report *report) {
    char again[256];
    snprintf(again, sizeof again, "  again: sim_sim_cluster --scenario '%s' --trace", name);
    case_run(&bench, name, c, real, again, report);
}

// ---- fixed scenarios

typedef struct scenario {
    const char *name;
    sim_case (*make)(void);
    uint32_t repairs;  // least number of repairs
} scenario;

static sim_case one_data_three_relays(void) { return sim_case_plain(1, 2, 1, 3, 4, 3); }
static sim_case one_relay_per_stage(void) { return sim_case_plain(2, 4, 1, 3, 4, 3); }
static sim_case two_data_six_relays(void) { return sim_case_plain(3, 4, 2, 6, 8, 3); }

static sim_case two_slots_for_eight(void) {
    sim_case c = sim_case_plain(4, 3, 1, 2, 8, 3);
    c.relay_capacity = 2;
    c.data_capacity = 8;
    return c;
}

static sim_case one_slot_everywhere(void) {
    sim_case c = sim_case_plain(5, 4, 2, 6, 8, 2);
    c.relay_capacity = c.data_capacity = 1;
    return c;
}

static sim_case evaluation_and_checkpoints(void) {
    sim_case c = sim_case_plain(6, 3, 2, 4, 4, 4);
    c.eval_every = 2;
    c.eval_microbatches = 3;
    c.checkpoint_every = 2;
    return c;
}

static sim_case void_and_overflow(void) {
    sim_case c = sim_case_plain(7, 3, 2, 4, 8, 4);
    c.fake.void_percent = 30;
    c.fake.overflow_percent = 2;
    return c;
}

static sim_case joiner(void) {
    sim_case c = sim_case_plain(8, 3, 1, 2, 8, 6);
    c.joins = 2;
    c.join_ns[0] = 2500 * MILLISECOND;
    c.join_ns[1] = 3500 * MILLISECOND;
    return c;
}

static sim_case slow_links(void) {
    sim_case c = sim_case_plain(9, 3, 2, 6, 6, 2);
    c.net.latency_ns = 400 * MILLISECOND;
    c.net.jitter_ns = 200 * MILLISECOND;
    c.net.payload_ns = 500 * MILLISECOND;
    return c;
}

static sim_case with_crash(uint64_t seed, sim_crash crash) {
    sim_case c = sim_case_plain(seed, 3, 2, 6, 8, 3);
    crash.iteration = crash.iteration ? crash.iteration : 1;
    c.crash[0] = crash;
    c.crashes = 1;
    return c;
}

static sim_case dies_in_forward(void) { return with_crash(20, (sim_crash){.moment = SIM_BEFORE_JOB, .kind = JOB_FORWARD, .skip = 2}); }
static sim_case machine_dies_in_forward(void) { return with_crash(21, (sim_crash){.moment = SIM_AFTER_JOB, .kind = JOB_FORWARD, .skip = 3, .machine = true}); }
static sim_case dies_after_accept(void) { return with_crash(22, (sim_crash){.moment = SIM_AFTER_SEND, .kind = MESSAGE_ACCEPT, .skip = 1}); }
static sim_case dies_between_complete_and_forward(void) { return with_crash(23, (sim_crash){.moment = SIM_AFTER_SEND, .kind = MESSAGE_COMPLETE, .skip = 2}); }
static sim_case dies_before_next_accept(void) { return with_crash(24, (sim_crash){.moment = SIM_BEFORE_MESSAGE, .kind = MESSAGE_ACCEPT, .skip = 2}); }
static sim_case dies_after_forwarding(void) { return with_crash(25, (sim_crash){.moment = SIM_AFTER_MESSAGE, .kind = MESSAGE_ACCEPT, .skip = 2}); }
static sim_case dies_in_backward(void) { return with_crash(26, (sim_crash){.moment = SIM_BEFORE_JOB, .kind = JOB_BACKWARD, .skip = 2}); }
static sim_case dies_before_backward_arrives(void) { return with_crash(27, (sim_crash){.moment = SIM_BEFORE_MESSAGE, .kind = MESSAGE_BACKWARD, .machine = true}); }
static sim_case dies_after_sending_gradient(void) { return with_crash(28, (sim_crash){.moment = SIM_AFTER_SEND, .kind = MESSAGE_BACKWARD, .skip = 1}); }
static sim_case dies_before_commit_arrives(void) { return with_crash(29, (sim_crash){.moment = SIM_BEFORE_MESSAGE, .kind = MESSAGE_COMMIT, .skip = 1}); }
static sim_case dies_in_weight(void) { return with_crash(30, (sim_crash){.moment = SIM_BEFORE_JOB, .kind = JOB_WEIGHT, .skip = 1}); }
static sim_case dies_before_sending_counted(void) { return with_crash(31, (sim_crash){.moment = SIM_BEFORE_SEND, .kind = MESSAGE_COUNTED, .skip = 1}); }
static sim_case dies_after_sending_counted(void) { return with_crash(32, (sim_crash){.moment = SIM_AFTER_SEND, .kind = MESSAGE_COUNTED, .skip = 5, .machine = true}); }
static sim_case dies_at_begin(void) { return with_crash(33, (sim_crash){.moment = SIM_AFTER_MESSAGE, .kind = MESSAGE_BEGIN_AGGREGATION, .skip = 1}); }
static sim_case dies_packing(void) { return with_crash(34, (sim_crash){.moment = SIM_BEFORE_JOB, .kind = JOB_PACK, .skip = 1}); }
static sim_case dies_reducing(void) { return with_crash(35, (sim_crash){.moment = SIM_AFTER_JOB, .kind = JOB_REDUCE, .skip = 1}); }
static sim_case dies_with_a_result(void) { return with_crash(36, (sim_crash){.moment = SIM_AFTER_SEND, .kind = MESSAGE_RESULT, .skip = 1}); }
static sim_case dies_after_reduced(void) { return with_crash(37, (sim_crash){.moment = SIM_AFTER_SEND, .kind = MESSAGE_REDUCED, .skip = 1}); }
static sim_case dies_before_apply(void) { return with_crash(38, (sim_crash){.moment = SIM_BEFORE_JOB, .kind = JOB_APPLY, .skip = 1, .restart = true, .same_id = true, .restart_ns = SECOND}); }
static sim_case dies_after_apply(void) { return with_crash(39, (sim_crash){.moment = SIM_AFTER_JOB_TOLD, .kind = JOB_APPLY, .skip = 1}); }

static sim_case joiner_dies(void) {
    sim_case c = joiner();
    c.crash[0] = (sim_crash){.moment = SIM_BEFORE_JOB, .kind = JOB_STATE_PUT, .restart = true, .same_id = true, .restart_ns = 50 * MILLISECOND};
    c.crashes = 1;
    return c;
}

static sim_case donor_dies(void) {
    sim_case c = sim_case_plain(41, 3, 1, 4, 8, 8);
    c.joins = 1;
    c.join_ns[0] = 2500 * MILLISECOND;
    c.crash[0] = (sim_crash){.moment = SIM_BEFORE_JOB, .kind = JOB_STATE_GET};
    c.crashes = 1;
    return c;
}

static sim_case restarts_with_identity(void) {
    return with_crash(42, (sim_crash){.moment = SIM_BEFORE_JOB, .kind = JOB_WEIGHT, .restart = true, .same_id = true, .restart_ns = 20 * MILLISECOND});
}

static sim_case neighbours_die(void) {
    sim_case c = with_crash(43, (sim_crash){.moment = SIM_BEFORE_JOB, .kind = JOB_BACKWARD, .skip = 2});
    c.crash[1] = (sim_crash){.moment = SIM_BEFORE_JOB, .kind = JOB_BACKWARD, .skip = 3, .iteration = 1};
    c.crash[2] = (sim_crash){.moment = SIM_AFTER_SEND, .kind = MESSAGE_COUNTED, .skip = 1, .iteration = 2};
    c.crashes = 3;
    return c;
}

static sim_case repair_with_full_slots(void) {
    sim_case c = with_crash(44, (sim_crash){.moment = SIM_AFTER_SEND, .kind = MESSAGE_BACKWARD, .skip = 1});
    c.relay_capacity = 1;
    return c;
}

static const scenario scenarios[] = {
    {"one data peer, three relays", one_data_three_relays, 0},
    {"one relay per stage", one_relay_per_stage, 0},
    {"two data peers, six relays, three stages", two_data_six_relays, 0},
    {"two slots for eight microbatches", two_slots_for_eight, 0},
    {"one slot everywhere", one_slot_everywhere, 0},
    {"held-out losses and checkpoints", evaluation_and_checkpoints, 0},
    {"void microbatches and overflows", void_and_overflow, 0},
    {"joiners", joiner, 0},
    {"slow links", slow_links, 0},
    {"dies in forward", dies_in_forward, 0},
    {"machine dies in forward", machine_dies_in_forward, 0},
    {"dies after ACCEPT", dies_after_accept, 0},
    {"dies between COMPLETE and FORWARD", dies_between_complete_and_forward, 0},
    {"dies before the next ACCEPT", dies_before_next_accept, 0},
    {"dies after passing on", dies_after_forwarding, 0},
    {"dies in backward", dies_in_backward, 0},
    {"dies before BACKWARD arrives", dies_before_backward_arrives, 0},
    {"dies after sending its gradient", dies_after_sending_gradient, 0},
    {"dies before COMMIT arrives", dies_before_commit_arrives, 0},
    {"dies in its weight gradient", dies_in_weight, 1},
    {"dies before it says COUNTED", dies_before_sending_counted, 1},
    {"dies after it said COUNTED", dies_after_sending_counted, 1},
    {"dies at BEGIN AGGREGATION", dies_at_begin, 0},
    {"dies packing its part", dies_packing, 0},
    {"dies reducing", dies_reducing, 0},
    {"dies with a result", dies_with_a_result, 0},
    {"dies after REDUCED", dies_after_reduced, 0},
    {"dies between FINAL and apply", dies_before_apply, 0},
    {"dies after apply", dies_after_apply, 0},
    {"a joiner dies", joiner_dies, 0},
    {"a donor dies", donor_dies, 0},
    {"restarts with its identity at once", restarts_with_identity, 0},
    {"neighbours die", neighbours_die, 0},
    {"repair where all slots are full", repair_with_full_slots, 0},
};

enum { SCENARIOS = sizeof scenarios / sizeof *scenarios };

static void every_scenario(bool real) {
    for (uint32_t i = 0; i < SCENARIOS; i++) {
        sim_case c = scenarios[i].make();
        sim_report report;
        if (real && (c.fake.void_percent || c.fake.overflow_percent)) continue;
        run(scenarios[i].name, &c, real, &report);
        if (report.stats.crashes != c.crashes) fail_msg("%s: %u of %u crashes came to pass", scenarios[i].name, report.stats.crashes, c.crashes);
        if (report.stats.repairs < scenarios[i].repairs) fail_msg("%s: nothing was repaired", scenarios[i].name);
        if (report.stats.again > 0) fail_msg("%s: %llu F and B in relays had been done by a living peer that still had them", scenarios[i].name, (unsigned long long)report.stats.again);
    }
}

static void test_scenarios_fake(void **state) {
    (void)state;
    every_scenario(false);
}

static void test_scenarios_real(void **state) {
    (void)state;
    every_scenario(true);
}

// Two runs of a case have the same events.
static void test_repeatable(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 5; seed++) {
        sim_case c = sim_case_random(seed, false);
        sim_report a, b;
        sim_bench_run(&bench, &c, false, NULL, &a);
        sim_bench_run(&bench, &c, false, NULL, &b);
        assert_memory_equal(&a.stats, &b.stats, sizeof a.stats);
    }
}

// ---- random schedules

static void random_schedules(uint64_t count, bool real, bool flaps, bool odd) {
    sim_campaign_result r;
    campaign_passes((sim_campaign){.count = count, .real = real, .flaps = flaps, .odd = odd}, MOST_STEPS, &r);
    assert_true(flaps || r.quiet > count / 40);
}

static void test_random_fake(void **state) {
    (void)state;
    random_schedules(RANDOM_FAKE, false, false, false);
}

static void test_random_real(void **state) {
    (void)state;
    random_schedules(RANDOM_REAL, true, false, false);
}

static void test_random_flaps(void **state) {
    (void)state;
    random_schedules(RANDOM_FLAPS, false, true, false);
}

static void test_random_unusual(void **state) {
    (void)state;
    random_schedules(RANDOM_ODD, false, false, true);
    random_schedules(RANDOM_ODD, false, true, true);
}

// Each kind of fault occurred at least half as often as expected in so many schedules.
static void check_fault_counts(const sim_campaign_result *r) {
    static const struct {
        sim_trouble_kind kind;
        uint32_t schedules;  // schedules for one such fault
    } fault_count[] = {{SIM_SLOW, 23}, {SIM_PAUSE, 22}, {SIM_PAUSE_DATA, 11}, {SIM_PAUSE_LEADER, 11}, {SIM_DRAIN, 110}, {SIM_DRAIN_DATA, 48},
                  {SIM_DRAIN_LEADER, 320}, {SIM_CUT, 13}, {SIM_CUT_ONE_WAY, 12}, {SIM_CLOCK_JUMPS, 20}, {SIM_PARTITION, 7}, {SIM_PARTITION_ONE_WAY, 8}};
    for (size_t i = 0; i < sizeof fault_count / sizeof *fault_count; i++) {
        uint64_t times = r->fault_count[fault_count[i].kind];
        if (times * fault_count[i].schedules >= r->runs) continue;
        fail_msg("%s: only %llu times in %llu schedules", sim_trouble_name(fault_count[i].kind), (unsigned long long)times, (unsigned long long)r->runs);
    }
    assert_true(r->link_falls > r->runs * 8 / 10);
    assert_true(r->returns > r->runs * 4 / 10);
    assert_true(r->lost > r->runs * 9);
    assert_true(r->doubled > r->runs * 65);
    assert_true(r->delayed > r->runs * 130);
    assert_true(r->reordered > r->runs * 660);
}

// All kinds of faults at once, also dying leaders and lost stages, mostly on real kernels. Together
// with the schedules above and those of sim_takeover and sim_leader these are more than 5,000.
static void test_random_mixed(void **state) {
    (void)state;
    sim_campaign_result r;
    campaign_passes((sim_campaign){.count = RANDOM_MIXED, .mixed = true, .all_kinds = true, .leader_deaths = true}, MOST_STEPS, &r);
    print_message("%llu standbys took a stage over, %llu rollbacks, %llu logs were compacted, %llu microbatches were skipped\n", (unsigned long long)r.promotions,
                  (unsigned long long)r.rollbacks, (unsigned long long)r.shortened, (unsigned long long)r.left_out);
    assert_true(r.real > RANDOM_MIXED * 3 / 4);
    assert_true(r.leader_deaths > RANDOM_MIXED / 10);
    assert_true(r.stage_deaths > RANDOM_MIXED / 10);
    assert_true(r.promotions > RANDOM_MIXED / 30);
    assert_true(r.rollbacks > RANDOM_MIXED / 30);
    assert_true(r.shortened > 0);
    assert_true(r.left_out > 0);
    // a hedged request to another peer may repeat work that was not lost
    assert_true(r.again * 200 < r.relay_jobs);
    check_fault_counts(&r);
}

// Tensors take relayed transfers. Forwarders die, lose links, and corrupt tensors.
static void test_random_forwarders(void **state) {
    (void)state;
    const uint64_t count[CAMPAIGN_KINDS] = {RANDOM_CARRIED, RANDOM_CARRIED, RANDOM_CARRIED};
    sim_campaign_result r[CAMPAIGN_KINDS];
    campaign_kinds_pass((sim_campaign){.carried = true}, count, MOST_STEPS, r);
}

static void one_passes(sim_campaign kind, uint64_t seed) {
    kind.first = seed;
    kind.count = kind.processes = kind.print = 1;
    kind.real = !kind.odd;
    kind.replay = "sim_sim_cluster";
    sim_campaign_result r;
    sim_campaign_run(&kind, stdout, &r);
    assert_int_equal(r.failures, 0);
}

// A stage holds two copies of a microbatch, and its later stages were lost: TRACE messages of the
// copies must not count as progress.
static void test_copies_of_a_microbatch_do_not_hide_a_loss(void **state) {
    (void)state;
    one_passes((sim_campaign){.partitions = true}, 2160);
}

// A leader may decide on a rollback for a stage that it cannot reach. The entry may commit after
// that stage is reachable again.
static void test_rollback_entry_commits_after_a_partition(void **state) {
    (void)state;
    one_passes((sim_campaign){.partitions = true, .leader_deaths = true}, 9028112);
}

// The sole reporter of a stage's results dies silently while FINAL waits for a checkpoint. It is
// removed, and a standby has the results.
static void test_dead_reporter_does_not_block_FINAL(void **state) {
    (void)state;
    one_passes((sim_campaign){.stage_deaths = true}, 9118358);
}

// All voters restart with compacted logs. A peer that missed FINAL installs a snapshot and loses
// its membership, but keeps the results that FINAL needs.
static void test_snapshot_keeps_unapplied_results(void **state) {
    (void)state;
    one_passes((sim_campaign){.stage_losses = true, .private_data = true, .partitions = true, .short_stores = true, .leader_deaths = true}, 10006198);
}

// 1. A leader dies, restarts at another address and leads again. 2. It waits for a data peer with
// private data, which voted before and has heard of none of this. 3. That peer asks for votes, and
// the peers that it asks answer with the leader's address.
static void test_vote_request_is_answered_with_the_leader(void **state) {
    (void)state;
    one_passes((sim_campaign){.carried = true, .private_data = true, .partitions = true, .short_stores = true, .leader_deaths = true}, 10353998);
}

// A peer that was paused reads the shutdown message of a leader that it does not know yet, before
// older messages of the previous leader.
static void test_shutdown_message_overtakes_older_messages(void **state) {
    (void)state;
    one_passes((sim_campaign){.private_data = true, .elastic = true, .partitions = true, .odd = true, .short_stores = true, .leader_deaths = true}, 10885318);
}

// A leader withdrew a change of voters just after its log was compacted, died, and restarts.
static void test_compacted_log_contains_a_withdrawn_change(void **state) {
    (void)state;
    one_passes((sim_campaign){.stage_losses = true, .partitions = true, .short_stores = true, .leader_deaths = true}, 11127722);
}

// All members of a stage die after the last iteration, when their part of the last checkpoint has
// been sent. Their standby is cut off meanwhile.
static void test_reports_in_the_last_checkpoint_survive_their_stage(void **state) {
    (void)state;
    one_passes((sim_campaign){.stage_deaths = true, .flaps = true, .partitions = true, .odd = true, .data_deaths = true}, 10830472);
}

// A partition ends when its silent peers are about to be removed: the last members of a stage with
// its results, and the standby that has them.
static void test_state_of_peers_about_to_be_removed_does_not_count(void **state) {
    (void)state;
    one_passes((sim_campaign){.stage_deaths = true, .flaps = true, .partitions = true, .slow_stores = true}, 12113353);
}

// The only holder of a stage's state was asked to leave, and a snapshot replaces its log together
// with its membership. It is admitted again before it leaves.
static void test_leaving_holder_is_admitted_again_first(void **state) {
    (void)state;
    one_passes((sim_campaign){.flaps = true, .short_stores = true, .leader_deaths = true, .restarting = true, .doubled_tensors = true}, 12211244);
}

// The last iteration is done when messages between the two halves of the swarm take 16 s. Voters
// then use longer timeouts, and elect a leader 90 s later: no peer may have exited by then.
static void test_no_exit_before_a_late_election(void **state) {
    (void)state;
    one_passes((sim_campaign){.carried = true, .flaps = true, .partitions = true, .leader_deaths = true, .restarting = true}, 14507882);
}

// A promoted standby restarts with its log and leads, and is not needed as a standby. Its old
// membership ends before another standby is promoted.
static void test_leading_standby_loses_its_old_membership(void **state) {
    (void)state;
    one_passes((sim_campaign){.carried = true, .stage_deaths = true, .flaps = true, .leader_deaths = true, .restarting = true}, 15108871);
}

// Each of two relays with one slot holds a microbatch that waits for the other's slot. One
// activation came by plan, its gradient by a repair, which may evict.
static void test_gradient_of_a_repair_evicts(void **state) {
    (void)state;
    one_passes((sim_campaign){.carried = true, .doubled_tensors = true, .elastic = true, .flaps = true, .partitions = true, .odd = true, .data_deaths = true}, 15202126);
}

// The same, but the microbatch had been evicted there before and completed all the same: its
// gradient comes like any other.
static void test_gradient_of_an_evicted_microbatch_evicts(void **state) {
    (void)state;
    one_passes((sim_campaign){.scarce_slots = true, .carried = true, .doubled_tensors = true, .elastic = true, .flaps = true, .partitions = true, .odd = true, .data_deaths = true}, 1228);
}

// A sole voter's log is lost before the new voters have stored their configuration. They must not
// all die then, because the run would be lost.
static void test_some_durable_log_survives(void **state) {
    (void)state;
    one_passes((sim_campaign){.real = true, .slow_stores = true, .stage_losses = true, .flaps = true, .short_stores = true, .leader_deaths = true}, 17119759);
}

// A removed peer is admitted again and updates the state that it kept. Some blocks are fetched
// before the results for that update arrive.
static void test_kept_state_is_updated_in_part(void **state) {
    (void)state;
    one_passes((sim_campaign){.carried = true, .flaps = true, .partitions = true, .odd = true, .data_deaths = true}, 17118269);
}

// Gradients queue for a forwarder's slow line longer than their owner waits for a report, and one
// tensor takes so long that another forwarder is tried.
static void test_slow_lines_cause_no_repair(void **state) {
    (void)state;
    one_passes((sim_campaign){.real = true, .carried = true, .scarce_slots = true}, 17004727);
    one_passes((sim_campaign){.scarce_slots = true, .odd = true}, 17114654);
}

// The only relay of a stage died. Its promoted standby was asked to leave, was cut off, and exits
// when it learns of its removal.
static void test_relay_replaces_a_promoted_standby(void **state) {
    (void)state;
    one_passes((sim_campaign){.real = true, .restarting = true, .stage_deaths = true, .flaps = true, .short_stores = true, .leader_deaths = true}, 18231800);
}

// 1. A restarted peer reads a log in which the run was complete once, with the voters of that time.
// 2. A run resumes a checkpoint, and the peer that can read it is gone: relays with compacted logs
// return each to the stage of which it has the only state. 3. All data peers die while a voter
// reads its log again.
static void test_old_log_entries_do_not_change_a_restarted_peer(void **state) {
    (void)state;
    one_passes((sim_campaign){.real = true, .restarting = true, .stage_losses = true, .partitions = true, .leader_deaths = true}, 19203886);
    one_passes((sim_campaign){.carried = true, .restarting = true, .partitions = true, .odd = true, .leader_deaths = true}, 20007909);
    one_passes((sim_campaign){.real = true, .stage_losses = true, .private_data = true, .flaps = true, .partitions = true, .short_stores = true, .leader_deaths = true}, 21005452);
}

// In runs without faults, with a slot or two and long computations, microbatches wait. The owner
// probes none that waits for a computation, and only probes one that waits for a slot.
static void test_waiting_microbatches_are_not_sent_again(void **state) {
    (void)state;
    const uint64_t seeds[] = {1008, 1175, 1709};
    for (uint32_t i = 0; i < 3; i++) one_passes((sim_campaign){.scarce_slots = true}, seeds[i]);
}

// The log of the only data peer is replaced by a snapshot, and it is admitted again. No other peer
// has the tokens, and none needs them.
static void test_only_data_peer_loses_its_membership(void **state) {
    (void)state;
    campaign_ends((sim_campaign){.first = 70000317, .stage_deaths = true, .flaps = true, .partitions = true, .short_stores = true, .leader_deaths = true});
}

// A relay dies while it is cut off. Before its removal the other one of its stage leaves. A peer
// must start in its place, because the joiners of this schedule come later than the removal.
static void test_last_relay_leaves_beside_a_dead_one(void **state) {
    (void)state;
    campaign_ends((sim_campaign){.first = 983, .flaps = true, .odd = true, .data_deaths = true});
}

// A COMPLETE is lost. Later messages of the receiver show what it has computed, so nothing is
// repeated.
static void test_lost_COMPLETE_repeats_nothing(void **state) {
    (void)state;
    enum { RUNS = 40 };
    sim_report report;
    uint64_t jobs = 0;
    for (uint64_t seed = 1; seed <= RUNS; seed++) {
        sim_case c = sim_case_plain(seed, 4, 2, 9, 8, 3);
        c.net.lost_permille = 30;
        run("a lost COMPLETE", &c, false, &report);
        assert_int_equal(report.stats.again, 0);
        jobs += report.stats.relay_jobs;
    }
    // F and B of each microbatch in each of three stages
    assert_int_equal(jobs, RUNS * 8 * 3 * 3 * 2);
}

// ---- command line

enum { SOAK_SLICE = 500 };

typedef struct options {
    sim_campaign campaign;
    bool trace, soak;
    const char *scenario;
} options;

static bool parse_switch(const char *argument, options *o) {
    sim_campaign *c = &o->campaign;
    const struct {
        const char *name;
        bool *at;
    } all[] = {{"--real", &c->real}, {"--flaps", &c->flaps}, {"--odd", &c->odd}, {"--partitions", &c->partitions}, {"--data-deaths", &c->data_deaths},
               {"--leader-deaths", &c->leader_deaths}, {"--private", &c->private_data}, {"--elastic", &c->elastic}, {"--leavers", &c->departures}, {"--stage-deaths", &c->stage_deaths}, {"--stage-losses", &c->stage_losses}, {"--short-stores", &c->short_stores}, {"--trace", &o->trace}, {"--mixed", &c->mixed}, {"--carried", &c->carried},
               {"--comebacks", &c->restarting}, {"--slow-stores", &c->slow_stores}, {"--crowded", &c->scarce_slots}, {"--moves", &c->moves}, {"--doubled-tensors", &c->doubled_tensors}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (strcmp(argument, all[i].name) == 0) return *all[i].at = true;
    return false;
}

static bool parse_mutant(const char *name, options *o) {
    for (int m = 0; m < SIM_MUTANTS; m++)
        if (strcmp(name, sim_mutant_name((sim_mutant)m)) == 0) o->campaign.mutant = (sim_mutant)m;
    return o->campaign.mutant != SIM_MUTANT_NONE;
}

static bool parse_value(const char *name, const char *value, options *o) {
    if (strcmp(name, "--mutant") == 0) return parse_mutant(value, o);
    if (strcmp(name, "--processes") == 0) o->campaign.processes = (unsigned)strtoul(value, NULL, 10);
    else if (strcmp(name, "--scenario") == 0) o->scenario = value;
    else if (strcmp(name, "--seeds") == 0 || strcmp(name, "--soak") == 0) {
        char *end;
        o->campaign.first = strtoull(value, &end, 10);
        o->campaign.count = *end == ':' ? strtoull(end + 1, NULL, 10) : 1;
        o->soak = strcmp(name, "--soak") == 0;
        if (o->soak) o->campaign.mixed = o->campaign.leader_deaths = o->campaign.all_kinds = true;
    } else return false;
    return true;
}

static bool parse(int count, char **arguments, options *o) {
    *o = (options){.campaign = {.first = 1, .count = 100, .processes = 2, .print = 1000, .replay = "sim_sim_cluster"}};
    for (int i = 1; i < count; i++) {
        if (parse_switch(arguments[i], o)) continue;
        if (i + 1 == count || !parse_value(arguments[i], arguments[i + 1], o)) return false;
        i++;
    }
    if (o->campaign.real && o->campaign.odd) {
        fprintf(stderr, "--odd makes runs that the real kernels of these tests do not have (one stage, fast mode, from a checkpoint): leave out --real\n");
        return false;
    }
    if (o->campaign.departures && !o->campaign.elastic) {
        fprintf(stderr, "--leavers are of elastic runs: add --elastic\n");
        return false;
    }
    return o->campaign.processes >= 1 && o->campaign.processes <= SIM_MAX_PROCESSES;
}

static int show_one(const sim_case *c, bool real, bool trace) {
    char text[2048];
    sim_report report;
    sim_case_describe(c, text, sizeof text);
    fputs(text, stdout);
    sim_bench_run(&bench, c, real, trace ? stdout : NULL, &report);
    printf("%s: %s (%.1f virtual s, %llu events, %llu messages, %u crashes, %u repairs)\n", report.failed ? "FAILED" : "ok", report.text,
           (double)report.stats.virtual_ns / 1e9, (unsigned long long)report.stats.events, (unsigned long long)report.stats.messages, report.stats.crashes,
           report.stats.repairs);
    return report.failed;
}

static int show_scenario(const options *o) {
    for (uint32_t i = 0; i < SCENARIOS; i++) {
        if (strcmp(scenarios[i].name, o->scenario) != 0) continue;
        sim_case c = scenarios[i].make();
        c.mutant = o->campaign.mutant;
        return show_one(&c, o->campaign.real, o->trace);
    }
    for (uint32_t i = 0; i < SCENARIOS; i++) printf("%s\n", scenarios[i].name);
    return 2;
}

static void print_result(const sim_campaign_result *r) {
    char when[32], troubles[SIM_MAX_TROUBLES_TEXT];
    time_t now = time(NULL);
    sim_campaign_troubles(r, troubles, sizeof troubles);
    strftime(when, sizeof when, "%H:%M:%S", localtime(&now));
    printf("%s %llu schedules (%llu on real kernels), %llu failed; %llu crashes, %llu joins, %llu changes of leader, %llu repairs (forward %llu, backward %llu, committed %llu, aggregation %llu), %llu events, at most %llu timer steps of a peer in a second, %llu without faults, %.1f virtual hours; %llu of %llu microbatches took routed paths, settled routes were checked %llu times; of %llu F and B in relays %llu repeated a result that a living peer had; %llu whole stages died, %llu standbys took over, %llu rollbacks by %llu iterations in all; %llu logs were compacted, %llu read again; %llu microbatches were skipped, %llu were void; %llu relays moved\n",
           when, (unsigned long long)r->runs, (unsigned long long)r->real, (unsigned long long)r->failures, (unsigned long long)r->crashes, (unsigned long long)r->joins,
           (unsigned long long)r->leaders, (unsigned long long)r->repairs, (unsigned long long)r->repairs_in[0], (unsigned long long)r->repairs_in[1],
           (unsigned long long)r->repairs_in[2], (unsigned long long)r->repairs_in[3], (unsigned long long)r->events, (unsigned long long)r->most_ticks,
           (unsigned long long)r->quiet, r->virtual_hours, (unsigned long long)r->routed, (unsigned long long)(r->routed + r->unrouted),
           (unsigned long long)r->route_checks, (unsigned long long)r->relay_jobs, (unsigned long long)r->again, (unsigned long long)r->stage_deaths,
           (unsigned long long)r->promotions, (unsigned long long)r->rollbacks, (unsigned long long)r->again_iterations, (unsigned long long)r->shortened, (unsigned long long)r->recalled,
           (unsigned long long)r->left_out, (unsigned long long)r->voided, (unsigned long long)r->moves);
    printf("  %s\n", troubles);
    fflush(stdout);
}

// Runs slice by slice, with a line of totals after each.
static int soak(const options *o) {
    sim_campaign_result all = {0};
    for (uint64_t done = 0; done < o->campaign.count; done += SOAK_SLICE) {
        sim_campaign slice = o->campaign;
        sim_campaign_result r;
        slice.first += done;
        slice.count = o->campaign.count - done < SOAK_SLICE ? o->campaign.count - done : SOAK_SLICE;
        sim_campaign_run(&slice, stdout, &r);
        sim_campaign_add(&all, &r);
        print_result(&all);
    }
    return all.failures > 0;
}

static int by_hand(const options *o) {
    if (o->scenario) return show_scenario(o);
    if (o->soak) return soak(o);
    int failed = 0;
    for (uint64_t i = 0; o->trace && i < o->campaign.count; i++) {
        sim_case c = sim_campaign_case(&o->campaign, o->campaign.first + i);
        failed |= show_one(&c, sim_campaign_mix(&o->campaign, c.seed).real, true);
    }
    if (o->trace) return failed;
    sim_campaign_result r;
    sim_campaign_run(&o->campaign, stdout, &r);
    print_result(&r);
    return r.failures > 0;
}

int main(int count, char **arguments) {
    options o;
    if (count > 1 && !parse(count, arguments, &o)) {
        fprintf(stderr, "usage: %s [--seeds FROM:COUNT | --soak FROM:COUNT | --scenario NAME] [--real | --odd] [--flaps] [--partitions] [--data-deaths | --leader-deaths] [--stage-deaths] [--stage-losses] [--carried] [--short-stores] [--slow-stores] [--comebacks] [--doubled-tensors] [--crowded] [--moves] [--private | --elastic [--leavers]] [--mixed] [--trace] [--processes N] [--mutant NAME]\n", arguments[0]);
        return 2;
    }
    if (count > 1) {
        int failed = by_hand(&o);
        sim_bench_close(&bench);
        return failed;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scenarios_fake), cmocka_unit_test(test_scenarios_real), cmocka_unit_test(test_repeatable),
        cmocka_unit_test(test_random_fake),    cmocka_unit_test(test_random_real),    cmocka_unit_test(test_random_flaps),
        cmocka_unit_test(test_random_unusual),     cmocka_unit_test(test_random_mixed), cmocka_unit_test(test_random_forwarders),   cmocka_unit_test(test_copies_of_a_microbatch_do_not_hide_a_loss), cmocka_unit_test(test_rollback_entry_commits_after_a_partition),
        cmocka_unit_test(test_dead_reporter_does_not_block_FINAL), cmocka_unit_test(test_snapshot_keeps_unapplied_results),
        cmocka_unit_test(test_vote_request_is_answered_with_the_leader),
        cmocka_unit_test(test_reports_in_the_last_checkpoint_survive_their_stage),
        cmocka_unit_test(test_shutdown_message_overtakes_older_messages),
        cmocka_unit_test(test_compacted_log_contains_a_withdrawn_change),
        cmocka_unit_test(test_state_of_peers_about_to_be_removed_does_not_count),
        cmocka_unit_test(test_leaving_holder_is_admitted_again_first),
        cmocka_unit_test(test_no_exit_before_a_late_election),
        cmocka_unit_test(test_leading_standby_loses_its_old_membership),
        cmocka_unit_test(test_gradient_of_a_repair_evicts),
        cmocka_unit_test(test_gradient_of_an_evicted_microbatch_evicts),
        cmocka_unit_test(test_some_durable_log_survives),
        cmocka_unit_test(test_kept_state_is_updated_in_part),
        cmocka_unit_test(test_slow_lines_cause_no_repair),
        cmocka_unit_test(test_waiting_microbatches_are_not_sent_again),
        cmocka_unit_test(test_relay_replaces_a_promoted_standby),
        cmocka_unit_test(test_old_log_entries_do_not_change_a_restarted_peer),
        cmocka_unit_test(test_only_data_peer_loses_its_membership),
        cmocka_unit_test(test_last_relay_leaves_beside_a_dead_one),
        cmocka_unit_test(test_lost_COMPLETE_repeats_nothing),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    sim_bench_close(&bench);
    return failed;
}
