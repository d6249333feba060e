// Data peers die, are cut off or are paused: another one takes their microbatches over, and the
// results are those of a run without faults. One death at every moment of an iteration, and random
// schedules.
#include "campaign_run.h"
#include "case_run.h"
#include "data_deaths.h"

enum { MOST_STEPS = 100 };

static const uint64_t SECOND = 1000000000;
static const uint64_t MILLISECOND = 1000000;

static sim_bench bench;

// ---- one death


static void every_death(bool real, bool returns) {
    for (uint32_t i = 0; i < DATA_DEATHS; i++) {
        sim_case c = data_death_case(i, returns, SECOND / 5);
        sim_report report;
        case_run(&bench, data_deaths[i].name, &c, real, "", &report);
        if (report.stats.crashes != 1) fail_msg("%s: no death", data_deaths[i].name);
        // relays keep their work: each microbatch passes each relay once, forward and backward
        if (report.stats.relay_jobs != c.microbatches * c.iterations * (c.stages - 1u) * 2u || report.stats.again != 0)
            fail_msg("%s: relays ran %llu F and B, %llu of them again", data_deaths[i].name, (unsigned long long)report.stats.relay_jobs, (unsigned long long)report.stats.again);
    }
}

static void test_every_moment(void **state) {
    (void)state;
    every_death(false, false);
    every_death(true, false);
}

static void test_every_moment_with_a_restart(void **state) {
    (void)state;
    every_death(false, true);
}

// ---- three deaths

// Every peer has one slot. The new owner holds a completed microbatch, which waits in the first
// stage for the slot of an incomplete one. That one waits in the last stage for the new owner's
// slot.
static void test_incomplete_microbatch_gets_the_slot_of_a_completed_one(void **state) {
    (void)state;
    const sim_campaign kind = {.carried = true, .flaps = true, .odd = true, .data_deaths = true};
    sim_case c = sim_campaign_case(&kind, 2900);
    c.stages = 3;
    c.data_peers = c.slots = 3;
    c.data_capacity = c.relay_capacity = 1;
    c.relays = 4;
    c.microbatches = 5;
    c.joins = c.eval_every = c.eval_microbatches = 0;
    c.net.payload_ns = 394 * MILLISECOND;
    c.compute_ns = 56 * MILLISECOND;
    c.crashes = 4;
    c.crash[0] = (sim_crash){.moment = SIM_AT_TIME, .at_ns = 3450534816, .data = true};
    c.crash[1] = (sim_crash){.moment = SIM_AT_TIME, .at_ns = 4037744114, .machine = true};
    c.crash[2] = (sim_crash){.moment = SIM_AT_TIME, .at_ns = 3483303621};
    c.crash[3] = (sim_crash){.moment = SIM_AT_TIME, .at_ns = 3162032416};
    sim_report report;
    case_run(&bench, "incomplete microbatch gets the slot", &c, false, "", &report);
    assert_true(report.stats.crashes > 1);
}

// ---- random schedules

static void test_random(void **state) {
    (void)state;
    static const uint64_t count[CAMPAIGN_KINDS] = {100, 80, 40};
    sim_campaign_result r[CAMPAIGN_KINDS];
    campaign_kinds_pass((sim_campaign){.data_deaths = true}, count, MOST_STEPS, r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_moment), cmocka_unit_test(test_every_moment_with_a_restart),
        cmocka_unit_test(test_incomplete_microbatch_gets_the_slot_of_a_completed_one), cmocka_unit_test(test_random),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    sim_bench_close(&bench);
    return failed;
}
