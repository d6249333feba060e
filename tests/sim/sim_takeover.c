// Data peers that die, are cut off or stand still: another one takes their microbatches over, and what came out is what
// would have come out anyway. One death at every moment of an iteration, and random schedules.
#include "campaign_run.h"
#include "case_run.h"
#include "data_deaths.h"

enum { MOST_STEPS = 100 };

static const uint64_t SECOND = 1000000000;

static sim_bench bench;

// ---- one death


static void every_death(bool real, bool returns) {
    for (uint32_t i = 0; i < DATA_DEATHS; i++) {
        sim_case c = data_death_case(i, returns, SECOND / 5);
        sim_report report;
        case_run(&bench, data_deaths[i].name, &c, real, "", &report);
        if (report.stats.crashes != 1) fail_msg("%s: nobody died", data_deaths[i].name);
        // relays keep what they have: each microbatch goes once through each, forward and backward
        if (report.stats.relay_jobs != c.microbatches * c.iterations * (c.stages - 1u) * 2u || report.stats.again != 0)
            fail_msg("%s: relays ran %llu F and B, %llu of them again", data_deaths[i].name, (unsigned long long)report.stats.relay_jobs, (unsigned long long)report.stats.again);
    }
}

static void test_every_moment(void **state) {
    (void)state;
    every_death(false, false);
    every_death(true, false);
}

static void test_every_moment_and_back_as_itself(void **state) {
    (void)state;
    every_death(false, true);
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
        cmocka_unit_test(test_every_moment), cmocka_unit_test(test_every_moment_and_back_as_itself),
        cmocka_unit_test(test_random),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    sim_bench_close(&bench);
    return failed;
}
