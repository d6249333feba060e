#include "bench/training/repair.h"

#include "base/rng.h"
#include "sim/campaign.h"

static const uint64_t MILLISECOND = 1000000;

// The death comes when the links are old enough that the longer limit for new ones no longer
// applies.
enum { DIES_IN = 4, ITERATIONS = 6 };

typedef struct moment {
    sim_moment when;
    uint8_t kind;
} moment;

static const moment of_relay[] = {
    {SIM_BEFORE_MESSAGE, MESSAGE_FORWARD}, {SIM_BEFORE_JOB, JOB_FORWARD}, {SIM_AFTER_JOB_TOLD, JOB_FORWARD}, {SIM_BEFORE_JOB, JOB_BACKWARD},
    {SIM_AFTER_JOB_TOLD, JOB_BACKWARD},    {SIM_AFTER_MESSAGE, MESSAGE_COMMIT}, {SIM_AFTER_SEND, MESSAGE_COUNTED}, {SIM_AFTER_MESSAGE, MESSAGE_BEGIN_AGGREGATION},
    {SIM_AFTER_JOB, JOB_REDUCE},           {SIM_AFTER_SEND, MESSAGE_REDUCED},
};
static const moment of_owner[] = {
    {SIM_AFTER_SEND, MESSAGE_FORWARD},  {SIM_BEFORE_MESSAGE, MESSAGE_FORWARD}, {SIM_BEFORE_JOB, JOB_LOSS}, {SIM_AFTER_SEND, MESSAGE_BACKWARD},
    {SIM_AFTER_JOB_TOLD, JOB_BACKWARD}, {SIM_AFTER_SEND, MESSAGE_COMMIT},
};
static const struct {
    const moment *moment;
    uint32_t count;
} moments[REPAIR_VICTIMS] = {
    {of_relay, sizeof of_relay / sizeof *of_relay}, {of_owner, sizeof of_owner / sizeof *of_owner}, {of_owner, sizeof of_owner / sizeof *of_owner}};

uint32_t repair_moments(repair_victim victim) { return moments[victim].count; }

static sim_case case_of(const repair_case *c) {
    sim_case out = sim_case_plain(rng_seed(c->seed, c->moment), 4, 3, 9, 12, ITERATIONS);
    const moment *at = &moments[c->victim].moment[c->moment];
    out.compute_ns = 200 * MILLISECOND;
    out.relay_capacity = c->capacity;
    out.crashes = 1;
    out.crash[0] = (sim_crash){.moment = at->when, .kind = at->kind, .iteration = DIES_IN, .skip = (uint32_t)(rng_mix(out.seed) % 6), .machine = c->silent,
                               .data = c->victim == REPAIR_OF_DATA, .leader = c->victim == REPAIR_OF_LEADER};
    out.data_deaths = c->victim != REPAIR_OF_RELAY;
    out.leader_deaths = c->victim == REPAIR_OF_LEADER;
    out.voters = c->victim == REPAIR_OF_LEADER ? 3 : 1;
    return out;
}

uint64_t repair_round_trip_ns(const repair_case *c) {
    sim_case made = case_of(c);
    return 2 * (made.net.latency_ns + made.net.jitter_ns) + made.net.payload_ns;
}

void repair_run(const repair_case *c, sim_report *report) {
    sim_bench bench = {.count = 0};
    sim_case made = case_of(c);
    sim_bench_run(&bench, &made, false, NULL, report);
    sim_bench_close(&bench);
}
