// One schedule of the cluster in memory that must pass.
#ifndef BRAID_TESTS_CASE_RUN_H
#define BRAID_TESTS_CASE_RUN_H

#include "sim/campaign.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

// A crash in a fixed schedule, at one moment of an iteration.
typedef struct case_death {
    const char *name;
    sim_crash crash;
} case_death;

// `again`: the command that repeats it, or nothing.
static inline void case_run(sim_bench *bench, const char *name, const sim_case *c, bool real, const char *again, sim_report *report) {
    sim_bench_run(bench, c, real, NULL, report);
    if (!report->failed) return;
    char text[2048];
    sim_case_describe(c, text, sizeof text);
    fail_msg("%s (%s): %s\n%s%s", name, real ? "real" : "fake", report->text, text, again);
}

#endif
