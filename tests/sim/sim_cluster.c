// A cluster in memory on a virtual clock: quiet runs, one crash of every class, random schedules.
//     sim_sim_cluster                          the tests
//     sim_sim_cluster --seeds FROM:COUNT [--real | --odd] [--flaps] [--partitions] [--data-deaths | --leader-deaths] [--stage-deaths] [--stage-losses] [--short-stores] [--slow-stores] [--restarting]
//         [--carried] [--doubled-tensors] [--crowded] [--private | --elastic [--leavers]]
//         [--processes N] [--mutant NAME] [--trace]
//     sim_sim_cluster --soak FROM:COUNT        schedules of every kind, with a line after every 500
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
    uint32_t repairs;  // at least
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
    c.void_percent = 30;
    c.overflow_percent = 2;
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
    c.latency_ns = 400 * MILLISECOND;
    c.jitter_ns = 200 * MILLISECOND;
    c.payload_ns = 500 * MILLISECOND;
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
static sim_case dies_in_forward_silently(void) { return with_crash(21, (sim_crash){.moment = SIM_AFTER_JOB, .kind = JOB_FORWARD, .skip = 3, .machine = true}); }
static sim_case dies_after_accept(void) { return with_crash(22, (sim_crash){.moment = SIM_AFTER_SEND, .kind = MESSAGE_ACCEPT, .skip = 1}); }
static sim_case dies_between_complete_and_forward(void) { return with_crash(23, (sim_crash){.moment = SIM_AFTER_SEND, .kind = MESSAGE_COMPLETE, .skip = 2}); }
static sim_case dies_before_next_accept(void) { return with_crash(24, (sim_crash){.moment = SIM_BEFORE_MESSAGE, .kind = MESSAGE_ACCEPT, .skip = 2}); }
static sim_case dies_after_passing_on(void) { return with_crash(25, (sim_crash){.moment = SIM_AFTER_MESSAGE, .kind = MESSAGE_ACCEPT, .skip = 2}); }
static sim_case dies_in_backward(void) { return with_crash(26, (sim_crash){.moment = SIM_BEFORE_JOB, .kind = JOB_BACKWARD, .skip = 2}); }
static sim_case dies_before_backward_arrives(void) { return with_crash(27, (sim_crash){.moment = SIM_BEFORE_MESSAGE, .kind = MESSAGE_BACKWARD, .machine = true}); }
static sim_case dies_after_sending_gradient(void) { return with_crash(28, (sim_crash){.moment = SIM_AFTER_SEND, .kind = MESSAGE_BACKWARD, .skip = 1}); }
static sim_case dies_before_commit_arrives(void) { return with_crash(29, (sim_crash){.moment = SIM_BEFORE_MESSAGE, .kind = MESSAGE_COMMIT, .skip = 1}); }
static sim_case dies_in_weight(void) { return with_crash(30, (sim_crash){.moment = SIM_BEFORE_JOB, .kind = JOB_WEIGHT, .skip = 1}); }
static sim_case dies_before_saying_counted(void) { return with_crash(31, (sim_crash){.moment = SIM_BEFORE_SEND, .kind = MESSAGE_COUNTED, .skip = 1}); }
static sim_case dies_after_saying_counted(void) { return with_crash(32, (sim_crash){.moment = SIM_AFTER_SEND, .kind = MESSAGE_COUNTED, .skip = 5, .machine = true}); }
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

static sim_case comes_back_as_itself(void) {
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
    {"dies in forward, silently", dies_in_forward_silently, 0},
    {"dies after ACCEPT", dies_after_accept, 0},
    {"dies between COMPLETE and FORWARD", dies_between_complete_and_forward, 0},
    {"dies before the next ACCEPT", dies_before_next_accept, 0},
    {"dies after passing on", dies_after_passing_on, 0},
    {"dies in backward", dies_in_backward, 0},
    {"dies before BACKWARD arrives", dies_before_backward_arrives, 0},
    {"dies after sending its gradient", dies_after_sending_gradient, 0},
    {"dies before COMMIT arrives", dies_before_commit_arrives, 0},
    {"dies in its weight gradient", dies_in_weight, 1},
    {"dies before it says COUNTED", dies_before_saying_counted, 1},
    {"dies after it said COUNTED", dies_after_saying_counted, 1},
    {"dies at BEGIN AGGREGATION", dies_at_begin, 0},
    {"dies packing its part", dies_packing, 0},
    {"dies reducing", dies_reducing, 0},
    {"dies with a result", dies_with_a_result, 0},
    {"dies after REDUCED", dies_after_reduced, 0},
    {"dies between FINAL and apply", dies_before_apply, 0},
    {"dies after apply", dies_after_apply, 0},
    {"a joiner dies", joiner_dies, 0},
    {"a donor dies", donor_dies, 0},
    {"comes back with its identity at once", comes_back_as_itself, 0},
    {"neighbours die", neighbours_die, 0},
    {"repair where all slots are full", repair_with_full_slots, 0},
};

enum { SCENARIOS = sizeof scenarios / sizeof *scenarios };

static void every_scenario(bool real) {
    for (uint32_t i = 0; i < SCENARIOS; i++) {
        sim_case c = scenarios[i].make();
        sim_report report;
        if (real && (c.void_percent || c.overflow_percent)) continue;
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

// The same case twice gives the same run, to the event.
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

static void test_random_odd(void **state) {
    (void)state;
    random_schedules(RANDOM_ODD, false, false, true);
    random_schedules(RANDOM_ODD, false, true, true);
}

// Each kind of trouble came to pass about twice as often as is asked for here, for every schedule.
static void check_befell(const sim_campaign_result *r) {
    static const struct {
        sim_trouble_kind kind;
        uint32_t schedules;  // in so many once
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

// All kinds of trouble at once, leaders that die and stages that are lost among them, most of it on real kernels: with the schedules above and those of sim_takeover and sim_leader more
// than 5,000.
static void test_random_mixed(void **state) {
    (void)state;
    sim_campaign_result r;
    campaign_passes((sim_campaign){.count = RANDOM_MIXED, .mixed = true, .all_kinds = true, .leader_deaths = true}, MOST_STEPS, &r);
    print_message("%llu shadows took a stage's work, %llu times the run went back, %llu stores were begun anew, %llu microbatches were left out\n", (unsigned long long)r.promotions,
                  (unsigned long long)r.rollbacks, (unsigned long long)r.shortened, (unsigned long long)r.left_out);
    assert_true(r.real > RANDOM_MIXED * 3 / 4);
    assert_true(r.leader_deaths > RANDOM_MIXED / 10);
    assert_true(r.stage_deaths > RANDOM_MIXED / 10);
    assert_true(r.promotions > RANDOM_MIXED / 30);
    assert_true(r.rollbacks > RANDOM_MIXED / 30);
    assert_true(r.shortened > 0);
    assert_true(r.left_out > 0);
    assert_true(r.again * 200 < r.relay_jobs);  // a hedge against who is slow may do again what nobody has lost
    check_befell(&r);
}

// Tensors go by way of others, who die, lose links, and spoil what they carry.
static void test_random_carried(void **state) {
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

// Two copies of a microbatch in one stage, and what is behind them lost: their TRACEs must not pass for progress.
static void test_copies_do_not_hide_a_loss(void **state) {
    (void)state;
    one_passes((sim_campaign){.partitions = true}, 2160);
}

// A leader that goes back for a stage that it cannot hear may be right, though its entry holds only when that can be heard again.
static void test_what_was_decided_in_the_dark_may_hold_later(void **state) {
    (void)state;
    one_passes((sim_campaign){.partitions = true, .leader_deaths = true}, 9028112);
}

// While FINAL waits for a checkpoint whoever alone had reported a stage's results dies without a word: it is expelled, and a shadow has them.
static void test_who_dies_before_final_is_not_waited_for(void **state) {
    (void)state;
    one_passes((sim_campaign){.stage_deaths = true}, 9118358);
}

// All voters die and come back with shortened stores, so whoever missed FINAL gets a state instead, and is nobody's member any more: the results that
// FINAL asks for are still its own.
static void test_who_begins_afresh_keeps_its_results(void **state) {
    (void)state;
    one_passes((sim_campaign){.stage_losses = true, .private_data = true, .partitions = true, .short_stores = true, .leader_deaths = true}, 10006198);
}

// A leader dies and comes back elsewhere, leads again, and waits for a data peer with private data that voted before and heard of none of that: it asks for
// votes, and those whom it asks know where the leader is.
static void test_who_asks_for_votes_hears_where_the_leader_is(void **state) {
    (void)state;
    one_passes((sim_campaign){.carried = true, .private_data = true, .partitions = true, .short_stores = true, .leader_deaths = true}, 10353998);
}

// Who stood still reads the goodbye of a leader that it does not know yet before what the one before that had said long ago.
static void test_a_goodbye_may_be_read_before_older_words(void **state) {
    (void)state;
    one_passes((sim_campaign){.private_data = true, .elastic = true, .partitions = true, .odd = true, .short_stores = true, .leader_deaths = true}, 10885318);
}

// Who led took a change of voters back just after its store had begun anew, died, and comes back.
static void test_a_store_may_begin_with_what_was_not_taken_back(void **state) {
    (void)state;
    one_passes((sim_campaign){.stage_losses = true, .partitions = true, .short_stores = true, .leader_deaths = true}, 11127722);
}

// All of a stage die when everything is computed and they have given the last checkpoint what it needs of them, while their shadow is cut off.
static void test_what_the_last_checkpoint_has_is_not_lost(void **state) {
    (void)state;
    one_passes((sim_campaign){.stage_deaths = true, .flaps = true, .partitions = true, .odd = true, .data_deaths = true}, 10830472);
}

// A partition is over, and who was silent for so long is about to be expelled: a stage's last members that had its results, and the shadow that had them.
static void test_what_is_about_to_be_expelled_makes_nothing(void **state) {
    (void)state;
    one_passes((sim_campaign){.stage_deaths = true, .flaps = true, .partitions = true, .slow_stores = true}, 12113353);
}

// The only one that has a stage's state was asked to leave, lost its place in the log, and gets a state of that instead: it comes in again before it goes.
static void test_who_leaves_and_begins_afresh_comes_in_again(void **state) {
    (void)state;
    one_passes((sim_campaign){.flaps = true, .short_stores = true, .leader_deaths = true, .restarting = true, .doubled_tensors = true}, 12211244);
}

// All is computed when half of the swarm hears the other half 16 s late. Those who vote are patient from then on, and stand for election a minute and a
// half later: nobody has gone home by then.
static void test_nobody_goes_home_before_the_patient_stand(void **state) {
    (void)state;
    one_passes((sim_campaign){.carried = true, .flaps = true, .partitions = true, .leader_deaths = true, .restarting = true}, 14507882);
}

// A shadow that did the work of a stage comes back with its store and leads, and is not needed as a shadow. What it was goes before another one is promoted.
static void test_who_leads_is_not_what_it_was(void **state) {
    (void)state;
    one_passes((sim_campaign){.carried = true, .stage_deaths = true, .flaps = true, .leader_deaths = true, .restarting = true}, 15108871);
}

// Each of two relays with one slot holds what waits for the other's; the activation of one came as planned, its gradient in a repair, which may evict.
static void test_a_repaired_gradient_evicts_for_its_activation(void **state) {
    (void)state;
    one_passes((sim_campaign){.carried = true, .doubled_tensors = true, .elastic = true, .flaps = true, .partitions = true, .odd = true, .data_deaths = true}, 15202126);
}

// The same, where that microbatch had been there before, was evicted, and came home all the same: its gradient comes as that of any.
static void test_any_gradient_evicts_for_its_activation(void **state) {
    (void)state;
    one_passes((sim_campaign){.scarce_slots = true, .carried = true, .doubled_tensors = true, .elastic = true, .flaps = true, .partitions = true, .odd = true, .data_deaths = true}, 1228);
}

// The store of who decided alone is lost before the others have stored that they vote; then they must not all die, for nobody would know of the run.
static void test_some_store_remembers_the_run(void **state) {
    (void)state;
    one_passes((sim_campaign){.real = true, .slow_stores = true, .stage_losses = true, .flaps = true, .short_stores = true, .leader_deaths = true}, 17119759);
}

// Who was expelled and is back takes up what it left; before the results come that bring it forward, some of it is fetched.
static void test_what_was_left_is_taken_up_in_part(void **state) {
    (void)state;
    one_passes((sim_campaign){.carried = true, .flaps = true, .partitions = true, .odd = true, .data_deaths = true}, 17118269);
}

// Gradients queue before one carrier's slow line for longer than their owner waits for news, and a tensor takes so long that another one is tried.
static void test_slow_lines_are_no_fault(void **state) {
    (void)state;
    one_passes((sim_campaign){.real = true, .carried = true, .scarce_slots = true}, 17004727);
    one_passes((sim_campaign){.scarce_slots = true, .odd = true}, 17114654);
}

// The only relay of a stage died, and the shadow that did its work was to leave, was cut off, and went when it heard that it was expelled.
static void test_a_relay_comes_when_a_promoted_shadow_goes(void **state) {
    (void)state;
    one_passes((sim_campaign){.real = true, .restarting = true, .stage_deaths = true, .flaps = true, .short_stores = true, .leader_deaths = true}, 18231800);
}

// Who comes again reads a log that says on the way that the run was complete once, and who voted then. And the run goes on from a checkpoint whose reader
// is gone: relays whose logs begin afresh come back each to the stage of which it alone has the state. And all data peers die while who votes reads the log anew.
static void test_who_reads_the_log_anew_stays_what_it_was(void **state) {
    (void)state;
    one_passes((sim_campaign){.real = true, .restarting = true, .stage_losses = true, .partitions = true, .leader_deaths = true}, 19203886);
    one_passes((sim_campaign){.carried = true, .restarting = true, .partitions = true, .odd = true, .leader_deaths = true}, 20007909);
    one_passes((sim_campaign){.real = true, .stage_losses = true, .private_data = true, .flaps = true, .partitions = true, .short_stores = true, .leader_deaths = true}, 21005452);
}

// Quiet runs in which relays with a slot or two and long computations make microbatches wait: their owner looks for none that only it has work left for, and
// does nothing but look where one waits for a slot.
static void test_what_waits_is_not_sent_again(void **state) {
    (void)state;
    const uint64_t seeds[] = {1008, 1175, 1709};
    for (uint32_t i = 0; i < 3; i++) one_passes((sim_campaign){.scarce_slots = true}, seeds[i]);
}

// The log of the only data peer began afresh, and it comes in again: then nobody else has the tokens, and nobody need.
static void test_the_only_data_peer_may_begin_afresh(void **state) {
    (void)state;
    campaign_ends((sim_campaign){.first = 70000317, .stage_deaths = true, .flaps = true, .partitions = true, .short_stores = true, .leader_deaths = true});
}

// What a microbatch's next holder has computed is known from what it sends later, too: its COMPLETE may be lost.
static void test_a_lost_complete_repeats_nothing(void **state) {
    (void)state;
    enum { RUNS = 40 };
    sim_report report;
    uint64_t jobs = 0;
    for (uint64_t seed = 1; seed <= RUNS; seed++) {
        sim_case c = sim_case_plain(seed, 4, 2, 9, 8, 3);
        c.lost_permille = 30;
        run("a lost COMPLETE", &c, false, &report);
        assert_int_equal(report.stats.again, 0);
        jobs += report.stats.relay_jobs;
    }
    assert_int_equal(jobs, RUNS * 8 * 3 * 3 * 2);  // F and B of each microbatch in each of three stages
}

// ---- by hand

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
               {"--comebacks", &c->restarting}, {"--slow-stores", &c->slow_stores}, {"--crowded", &c->scarce_slots}, {"--doubled-tensors", &c->doubled_tensors}};
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
    printf("%s %llu schedules (%llu on real kernels), %llu failed; %llu crashes, %llu joins, %llu changes of leader, %llu repairs (forward %llu, backward %llu, committed %llu, aggregation %llu), %llu events, at most %llu steps of its own by a peer in a second, %llu quiet, %.1f virtual hours; %llu of %llu microbatches went by units, routing was quiet %llu times; of %llu F and B in relays %llu had been done by a living peer that still had them; %llu times a whole stage died, %llu shadows took its work, %llu times the run went back, by %llu iterations in all; %llu stores were begun anew, %llu read again; %llu microbatches were left out, %llu were void\n",
           when, (unsigned long long)r->runs, (unsigned long long)r->real, (unsigned long long)r->failures, (unsigned long long)r->crashes, (unsigned long long)r->joins,
           (unsigned long long)r->leaders, (unsigned long long)r->repairs, (unsigned long long)r->repairs_in[0], (unsigned long long)r->repairs_in[1],
           (unsigned long long)r->repairs_in[2], (unsigned long long)r->repairs_in[3], (unsigned long long)r->events, (unsigned long long)r->most_ticks,
           (unsigned long long)r->quiet, r->virtual_hours, (unsigned long long)r->routed, (unsigned long long)(r->routed + r->unrouted),
           (unsigned long long)r->route_checks, (unsigned long long)r->relay_jobs, (unsigned long long)r->again, (unsigned long long)r->stage_deaths,
           (unsigned long long)r->promotions, (unsigned long long)r->rollbacks, (unsigned long long)r->again_iterations, (unsigned long long)r->shortened, (unsigned long long)r->recalled,
           (unsigned long long)r->left_out, (unsigned long long)r->voided);
    printf("  %s\n", troubles);
    fflush(stdout);
}

// Slice by slice, with a line for what was seen so far after each.
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
        fprintf(stderr, "usage: %s [--seeds FROM:COUNT | --soak FROM:COUNT | --scenario NAME] [--real | --odd] [--flaps] [--partitions] [--data-deaths | --leader-deaths] [--stage-deaths] [--stage-losses] [--carried] [--short-stores] [--slow-stores] [--comebacks] [--doubled-tensors] [--crowded] [--private | --elastic [--leavers]] [--mixed] [--trace] [--processes N] [--mutant NAME]\n", arguments[0]);
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
        cmocka_unit_test(test_random_odd),     cmocka_unit_test(test_random_mixed), cmocka_unit_test(test_random_carried),   cmocka_unit_test(test_copies_do_not_hide_a_loss), cmocka_unit_test(test_what_was_decided_in_the_dark_may_hold_later),
        cmocka_unit_test(test_who_dies_before_final_is_not_waited_for), cmocka_unit_test(test_who_begins_afresh_keeps_its_results),
        cmocka_unit_test(test_who_asks_for_votes_hears_where_the_leader_is),
        cmocka_unit_test(test_what_the_last_checkpoint_has_is_not_lost),
        cmocka_unit_test(test_a_goodbye_may_be_read_before_older_words),
        cmocka_unit_test(test_a_store_may_begin_with_what_was_not_taken_back),
        cmocka_unit_test(test_what_is_about_to_be_expelled_makes_nothing),
        cmocka_unit_test(test_who_leaves_and_begins_afresh_comes_in_again),
        cmocka_unit_test(test_nobody_goes_home_before_the_patient_stand),
        cmocka_unit_test(test_who_leads_is_not_what_it_was),
        cmocka_unit_test(test_a_repaired_gradient_evicts_for_its_activation),
        cmocka_unit_test(test_any_gradient_evicts_for_its_activation),
        cmocka_unit_test(test_some_store_remembers_the_run),
        cmocka_unit_test(test_what_was_left_is_taken_up_in_part),
        cmocka_unit_test(test_slow_lines_are_no_fault),
        cmocka_unit_test(test_what_waits_is_not_sent_again),
        cmocka_unit_test(test_a_relay_comes_when_a_promoted_shadow_goes),
        cmocka_unit_test(test_who_reads_the_log_anew_stays_what_it_was),
        cmocka_unit_test(test_the_only_data_peer_may_begin_afresh),
        cmocka_unit_test(test_a_lost_complete_repeats_nothing),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    sim_bench_close(&bench);
    return failed;
}
