// Random schedules of the cluster in memory: those that must pass, and those with a mutation that
// must fail.
#ifndef BRAID_TESTS_CAMPAIGN_RUN_H
#define BRAID_TESTS_CAMPAIGN_RUN_H

#include "sim/campaign.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

// Runs a campaign of random schedules from seed 1 on. `most_steps`: limit on the steps of one peer
// in one second, because no peer may wake without a reason.
static inline void campaign_passes(sim_campaign campaign, uint64_t most_steps, sim_campaign_result *r) {
    char troubles[SIM_MAX_TROUBLES_TEXT];
    campaign.first = 1;
    campaign.processes = 2;
    campaign.print = 3;
    campaign.replay = "sim_sim_cluster";
    sim_campaign_run(&campaign, stdout, r);
    print_message("%llu random schedules: %llu crashes (%llu of leaders, %llu times a whole stage), %llu joins, %llu changes of leader, %llu repairs, %.1f virtual hours\n",
                  (unsigned long long)r->runs, (unsigned long long)r->crashes, (unsigned long long)r->leader_deaths, (unsigned long long)r->stage_deaths,
                  (unsigned long long)r->joins, (unsigned long long)r->leaders, (unsigned long long)r->repairs, r->virtual_hours);
    sim_campaign_troubles(r, troubles, sizeof troubles);
    print_message("  %s\n", troubles);
    assert_int_equal(r->runs, campaign.count);
    assert_int_equal(r->failures, 0);
    assert_true(r->crashes > campaign.count / 3);
    assert_in_range(r->most_ticks, 1, most_steps);
}

// A schedule that once failed, by its seed in campaign.first.
static inline void campaign_ends(sim_campaign campaign) {
    campaign.count = campaign.processes = campaign.print = 1;
    campaign.replay = "sim_sim_cluster";
    sim_campaign_result r;
    sim_campaign_run(&campaign, stdout, &r);
    assert_int_equal(r.runs, 1);
    assert_int_equal(r.failures, 0);
}

enum { CAMPAIGN_PLAIN, CAMPAIGN_ODD, CAMPAIGN_REAL, CAMPAIGN_KINDS };

// The same faults in ordinary runs, in odd ones with falling links, and on real kernels: this many
// schedules of each.
static inline void campaign_kinds_pass(sim_campaign campaign, const uint64_t count[CAMPAIGN_KINDS], uint64_t most_steps, sim_campaign_result r[CAMPAIGN_KINDS]) {
    for (int kind = 0; kind < CAMPAIGN_KINDS; kind++) {
        campaign.count = count[kind];
        campaign.odd = campaign.flaps = kind == CAMPAIGN_ODD;
        campaign.real = kind == CAMPAIGN_REAL;
        campaign_passes(campaign, most_steps, &r[kind]);
    }
}

// The mutation is noticed within `most` schedules from campaign.first on, in batches of
// campaign.count, and the error has `why` in it. `flags`: of sim_sim_cluster, to repeat it.
static inline void campaign_notices_as(sim_campaign campaign, uint64_t most, const char *flags, const char *why) {
    uint64_t first = campaign.first, end = first + most;
    campaign.processes = 2;
    campaign.replay = "sim_sim_cluster";
    sim_campaign_result r;
    do {
        if (campaign.first + campaign.count > end) campaign.count = end - campaign.first;
        sim_campaign_run(&campaign, stdout, &r);
        campaign.first += campaign.count;
    } while (r.failures == 0 && campaign.first < end);
    const char *name = sim_mutant_name(campaign.mutant);
    if (r.failures == 0) fail_msg("mutant %s went unnoticed (%s --seeds %llu:%llu)", name, flags, (unsigned long long)first, (unsigned long long)most);
    print_message("mutant %s: noticed with seed %llu %s\n", name, (unsigned long long)r.first_failure, flags);
    if (!strstr(r.first_why, why)) fail_msg("mutant %s was to be noticed as \"%s\": %s", name, why, r.first_why);
    campaign.first = r.first_failure;
    campaign.mutant = SIM_MUTANT_NONE;
    campaign_ends(campaign);  // the mutation caused the failure
}

// The same with any error text.
static inline void campaign_notices(sim_campaign campaign, uint64_t most, const char *flags) { campaign_notices_as(campaign, most, flags, ""); }

#endif
