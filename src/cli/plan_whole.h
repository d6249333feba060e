// braid plan --whole: one machine trains the whole model by swapping.
#ifndef BRAID_CLI_PLAN_WHOLE_H
#define BRAID_CLI_PLAN_WHOLE_H

#include "train/profile.h"

#include <stdbool.h>

typedef struct plan_whole_flags {
    uint64_t max_memory;
    const char *profile, *plot;  // files, NULL: measure now; draw nothing
    unsigned threads;
    bool json;
} plan_whole_flags;

// Prints the plan; returns an exit code and complains by itself.
int plan_whole(const run_config *run, const plan_whole_flags *flags);

#endif
