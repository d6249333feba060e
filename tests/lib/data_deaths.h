// The death of one data peer at each moment of an iteration.
#ifndef BRAID_TESTS_DATA_DEATHS_H
#define BRAID_TESTS_DATA_DEATHS_H

#include "case_run.h"

static const case_death data_deaths[] = {
    {"before its own forward", {.moment = SIM_BEFORE_JOB, .kind = JOB_FORWARD, .skip = 1}},
    {"with forwards under way", {.moment = SIM_AFTER_SEND, .kind = MESSAGE_FORWARD, .skip = 3}},
    {"before one comes home", {.moment = SIM_BEFORE_MESSAGE, .kind = MESSAGE_FORWARD, .skip = 1}},
    {"in its loss", {.moment = SIM_BEFORE_JOB, .kind = JOB_LOSS, .skip = 1}},
    {"with gradients under way", {.moment = SIM_AFTER_SEND, .kind = MESSAGE_BACKWARD, .skip = 2}},
    {"before a gradient comes home", {.moment = SIM_BEFORE_MESSAGE, .kind = MESSAGE_BACKWARD, .skip = 1, .machine = true}},
    {"in its last backward", {.moment = SIM_AFTER_JOB, .kind = JOB_BACKWARD, .skip = 1}},
    {"between two COMMITs of one microbatch", {.moment = SIM_AFTER_SEND, .kind = MESSAGE_COMMIT}},
    {"between COMMIT and its own weight gradient", {.moment = SIM_BEFORE_JOB, .kind = JOB_WEIGHT}},
    {"before it hears COUNTED", {.moment = SIM_BEFORE_MESSAGE, .kind = MESSAGE_COUNTED, .skip = 1}},
    {"before it says SETTLED", {.moment = SIM_BEFORE_SEND, .kind = MESSAGE_SETTLED, .skip = 1}},
    {"after it said SETTLED", {.moment = SIM_AFTER_SEND, .kind = MESSAGE_SETTLED, .skip = 3, .machine = true}},
    {"at BEGIN AGGREGATION", {.moment = SIM_AFTER_MESSAGE, .kind = MESSAGE_BEGIN_AGGREGATION}},
    {"packing its part", {.moment = SIM_BEFORE_JOB, .kind = JOB_PACK}},
    {"with its results", {.moment = SIM_AFTER_JOB, .kind = JOB_NORM}},
    {"after REDUCED", {.moment = SIM_AFTER_SEND, .kind = MESSAGE_REDUCED}},
    {"between FINAL and apply", {.moment = SIM_BEFORE_JOB, .kind = JOB_APPLY}},
};

enum { DATA_DEATHS = sizeof data_deaths / sizeof *data_deaths };

static inline sim_case data_death_case(uint32_t i, bool returns, uint64_t restart_ns) {
    sim_case c = sim_case_plain(60 + i, 3, 3, 6, 8, 3);
    c.data_deaths = true;
    c.crashes = 1;
    c.crash[0] = data_deaths[i].crash;
    c.crash[0].data = true;
    c.crash[0].iteration = 1;
    c.crash[0].restart = c.crash[0].same_id = returns;
    c.crash[0].restart_ns = restart_ns;
    return c;
}

#endif
