#include "train/diverged.h"

#include <stdio.h>

static void good_text(uint64_t good, char *text, size_t room) {
    if (good > 0) snprintf(text, room, "iteration %llu was the last good one", (unsigned long long)good);
    else snprintf(text, room, "no iteration was good");
}

static void way_on_text(const run_config *run, const char *checkpoint, char *text, size_t room) {
    if (*checkpoint) snprintf(text, room, "resume from an earlier checkpoint (--resume); the newest is %.180s", checkpoint);
    else if (run->checkpoint[0]) snprintf(text, room, "start again: there is no earlier checkpoint");
    else snprintf(text, room, "start again");
}

braid_err run_diverged(const run_config *run, uint64_t version, uint64_t skipped, const char *checkpoint, braid_error *error) {
    char good[64], way_on[256];
    good_text(version - skipped, good, sizeof good);
    way_on_text(run, checkpoint, way_on, sizeof way_on);
    return braid_fail(error, BRAID_STATE, "the run has diverged: no gradient was finite in %llu iterations in a row (%llu to %llu); %s. Lower train.learning_rate (%g)%s, and %s",
                      (unsigned long long)skipped, (unsigned long long)(version - skipped + 1), (unsigned long long)version, good, (double)run->recipe.learning_rate,
                      run->recipe.clip == 0 ? ", set train.clip" : " or lengthen train.warmup", way_on);
}
