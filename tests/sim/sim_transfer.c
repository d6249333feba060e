// State transfer: a joiner fetches its stage's state from several donors at once, while they die,
// are slow, send wrong data or are cut off, and training goes on. `sim_sim_transfer --table` prints
// the time to join by donors, with and without faults.
#include "case_run.h"

#include <stdio.h>
#include <string.h>

enum { BLOCKS = 200, SEEDS = 12, JOIN_S = 30 };

static const uint64_t MILLISECOND = 1000000;
static const uint64_t SECOND = 1000000000;

static sim_bench bench;

// One stage of relays, and another relay that joins in the second or third iteration. A chunk takes
// up to 80 ms on each link. Iterations are long enough for most of the state to come at one
// version, and too short for all of it.
static sim_case joining(uint64_t seed, uint32_t donors) {
    sim_case c = sim_case_plain(seed, 2, 1, donors, 8, 6);
    c.fake.blocks = BLOCKS;
    c.net.payload_ns = 80 * MILLISECOND;
    c.compute_ns = 300 * MILLISECOND;
    c.joins = 1;
    c.join_ns[0] = JOIN_S * SECOND;
    return c;
}

static void run(const char *name, const sim_case *c, sim_report *report) { case_run(&bench, name, c, false, "", report); }

static void expect_joined(const char *name, const sim_case *c, const sim_report *r, uint32_t joined) {
    if (r->stats.joined.count != joined) fail_msg("%s, seed %llu: %u of %u have had their state", name, (unsigned long long)c->seed, r->stats.joined.count, joined);
}

// ---- several at once

static double seconds_to_join(uint32_t donors, void (*change)(sim_case *c), uint64_t *blocks) {
    double sum = 0;
    *blocks = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        sim_case c = joining(seed, donors);
        sim_report r;
        if (change) change(&c);
        run("several donors", &c, &r);
        expect_joined("several donors", &c, &r, 1);
        sum += (double)r.stats.joined.most_ns / 1e9;
        *blocks += r.stats.state_blocks;
    }
    *blocks /= SEEDS;
    return sum / SEEDS;
}

static void test_donors_share(void **state) {
    (void)state;
    uint64_t blocks;
    double one = seconds_to_join(1, NULL, &blocks), two = seconds_to_join(2, NULL, &blocks), four = seconds_to_join(4, NULL, &blocks);
    print_message("%.2f s from one donor, %.2f s from two, %.2f s from four\n", one, two, four);
    assert_true(two < 0.8 * one);
    assert_true(four < 0.8 * two);
}

// A new member has computed nothing and cannot estimate its time. Its first microbatches must not
// be probed while it computes those before them.
static void test_first_microbatches_of_a_new_member_are_not_probed(void **state) {
    (void)state;
    static const struct {
        uint64_t seed;
        uint32_t donors;
    } once[] = {{84, 1}, {86, 1}, {96, 1}, {99, 1}, {25, 2}, {98, 2}, {42, 4}, {85, 4}, {121, 1}, {86, 4}, {178, 4}};
    for (size_t i = 0; i < sizeof once / sizeof *once; i++) {
        sim_case c = joining(once[i].seed, once[i].donors);
        sim_report r;
        run("nothing happens", &c, &r);
    }
}

// ---- faults

static void one_dies(sim_case *c) {
    c->crashes = 1;
    c->crash[0] = (sim_crash){.moment = SIM_BEFORE_JOB, .kind = JOB_STATE_GET, .skip = 20, .machine = c->seed % 2 == 0};
}

static void two_die(sim_case *c) {
    one_dies(c);
    c->crashes = 2;
    c->crash[1] = (sim_crash){.moment = SIM_AFTER_JOB_TOLD, .kind = JOB_STATE_GET, .skip = 30, .machine = c->seed % 3 == 0};
}

static void one_sends_wrong_data(sim_case *c) {
    c->corrupt_donors = 1;
    c->rough = true;
}

static void one_is_slow(sim_case *c) {
    c->troubles = 1;
    c->trouble[0] = (sim_trouble){.kind = SIM_SLOW, .factor = 10, .at_ns = (JOIN_S - 1) * SECOND, .for_ns = 60 * SECOND};
}

static void one_pauses(sim_case *c) {
    c->troubles = 1;
    c->trouble[0] = (sim_trouble){.kind = SIM_PAUSE, .at_ns = JOIN_S * SECOND + 500 * MILLISECOND, .for_ns = 4 * SECOND};
}

static void joiner_restarts(sim_case *c) {
    c->crashes = 1;
    c->crash[0] = (sim_crash){.moment = SIM_AFTER_JOB, .kind = JOB_STATE_PUT, .skip = 15, .restart = true, .same_id = c->seed % 2 == 0, .restart_ns = SECOND / 5};
}

static void links_fall(sim_case *c) {
    c->flaps = 8;
    for (uint32_t i = 0; i < c->flaps; i++) c->flap_ns[i] = JOIN_S * SECOND + i * SECOND / 3;
}

typedef struct trouble {
    const char *name;
    void (*make)(sim_case *c);
    uint32_t joined, crashes;
    bool lies;
    bool once;  // no other peer fetches because of it
} trouble;

static const trouble troubles[] = {
    {"a donor dies", one_dies, 1, 1, false, true},         {"two donors die", two_die, 1, 2, false, true},
    {"a donor lies", one_sends_wrong_data, 1, 0, true, true},          {"a donor is slow", one_is_slow, 1, 0, false, false},
    {"a donor stands still", one_pauses, 1, 0, false, true}, {"the joiner starts again", joiner_restarts, 1, 1, false, false},
    {"links fall", links_fall, 1, 0, false, true},
};

enum { TROUBLES = sizeof troubles / sizeof *troubles };

// A transfer is never restarted: chunks that have arrived stay, and a fault repeats at most the
// chunks in flight.
static void expect_no_restart(const trouble *t, const sim_case *c, const sim_report *r, uint64_t calm_blocks) {
    if (t->once && r->stats.state_blocks > calm_blocks + BLOCKS / 2)
        fail_msg("%s, seed %llu: %llu blocks were sent, %llu without trouble", t->name, (unsigned long long)c->seed, (unsigned long long)r->stats.state_blocks, (unsigned long long)calm_blocks);
}

static void test_faults_of_donors(void **state) {
    (void)state;
    for (uint32_t i = 0; i < TROUBLES; i++) {
        uint32_t crashes = 0;
        uint64_t lies = 0;
        for (uint64_t seed = 1; seed <= SEEDS; seed++) {
            sim_report calm, r;
            sim_case c = joining(seed, 4);
            run("no trouble", &c, &calm);
            troubles[i].make(&c);
            run(troubles[i].name, &c, &r);
            if (troubles[i].make == joiner_restarts ? r.stats.joined.count < 1 : r.stats.joined.count != 1) expect_joined(troubles[i].name, &c, &r, 1);
            expect_no_restart(&troubles[i], &c, &r, calm.stats.state_blocks);
            crashes += r.stats.crashes;
            lies += r.stats.lies;
        }
        print_message("%s: %u deaths, %llu lies in %d schedules\n", troubles[i].name, crashes, (unsigned long long)lies, SEEDS);
        assert_true(crashes >= troubles[i].crashes * SEEDS / 2);
        assert_true(troubles[i].lies == (lies > 0));
    }
}

// ---- checkpoints

static sim_case saving(uint64_t seed, uint32_t relays, uint32_t corrupt_donors) {
    sim_case c = sim_case_plain(seed, 2, 1, relays, 4, 4);
    c.fake.blocks = 40;
    c.checkpoint_every = 1;
    c.corrupt_donors = corrupt_donors;
    c.rough = true;
    return c;
}

// Each checkpoint is read back and compared with the one-process run.
static void test_wrong_data_of_one_donor_is_replaced_in_a_checkpoint(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        sim_case c = saving(seed, 3, 1);
        sim_report r;
        run("a relay lies to the saver", &c, &r);
        assert_int_equal(r.stats.saves_given_up, 0);
        assert_true(r.stats.lies > 0);
    }
}

// The run continues without checkpoints.
static void test_no_checkpoint_when_all_donors_send_wrong_data(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        sim_case c = saving(seed, 2, 2);
        sim_report r;
        run("all relays lie to the saver", &c, &r);
        assert_int_equal(r.stats.saves_given_up, c.iterations);
    }
}

// ---- a local copy of the checkpoint

static void test_joiner_with_the_checkpoint_fetches_nothing(void **state) {
    (void)state;
    sim_case c = sim_case_plain(3, 3, 1, 4, 4, 6);
    c.start_version = 3;
    c.fake.blocks = BLOCKS;
    sim_report r;
    run("without copies", &c, &r);
    assert_true(r.stats.state_blocks >= 4 * BLOCKS);
    c.copies = true;
    run("with copies", &c, &r);
    // only the last checkpoint moves blocks
    assert_in_range(r.stats.state_blocks, 3 * BLOCKS, 3 * BLOCKS + 64);
}

// ---- mutants

typedef struct broken {
    sim_mutant mutant;
    uint32_t donors;
    void (*make)(sim_case *c);
} broken;

static void no_fault(sim_case *c) { (void)c; }

static void only_the_checkpoint_fetches(sim_case *c) {
    *c = saving(c->seed, 3, 1);
}

// Noticed: a rule is broken, or the joiner never has its state.
static void test_mutants_are_noticed(void **state) {
    (void)state;
    static const broken all[] = {{SIM_MUTANT_TRUSTS_DONORS, 4, one_sends_wrong_data}, {SIM_MUTANT_TRUSTS_DONORS, 3, only_the_checkpoint_fetches}, {SIM_MUTANT_WAITS_FOR_THE_DEAD, 4, one_dies}, {SIM_MUTANT_FORWARDS_ANYTHING, 1, no_fault}};
    for (uint32_t i = 0; i < sizeof all / sizeof *all; i++) {
        uint32_t noticed = 0;
        for (uint64_t seed = 1; seed <= SEEDS; seed++) {
            sim_case c = joining(seed, all[i].donors);
            sim_report r;
            all[i].make(&c);
            c.mutant = all[i].mutant;
            sim_bench_run(&bench, &c, false, NULL, &r);
            noticed += r.failed || r.stats.joined.count < c.joins;
        }
        print_message("mutant %s: noticed in %u of %d schedules\n", sim_mutant_name(all[i].mutant), noticed, SEEDS);
        if (noticed == 0) fail_msg("mutant %s went unnoticed", sim_mutant_name(all[i].mutant));
    }
}

int main(int count, char **arguments) {
    if (count == 2 && strcmp(arguments[1], "--table") == 0) {
        printf("| donors | blocks sent | s |\n|-|-|-|\n");
        for (uint32_t donors = 1; donors <= 4; donors *= 2) {
            uint64_t blocks;
            double s = seconds_to_join(donors, NULL, &blocks);
            printf("| %u | %llu | %.2f |\n", donors, (unsigned long long)blocks, s);
        }
        return 0;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_donors_share),
        cmocka_unit_test(test_first_microbatches_of_a_new_member_are_not_probed),
        cmocka_unit_test(test_faults_of_donors),
        cmocka_unit_test(test_wrong_data_of_one_donor_is_replaced_in_a_checkpoint),
        cmocka_unit_test(test_no_checkpoint_when_all_donors_send_wrong_data),
        cmocka_unit_test(test_joiner_with_the_checkpoint_fetches_nothing),
        cmocka_unit_test(test_mutants_are_noticed),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    sim_bench_close(&bench);
    return failed;
}
