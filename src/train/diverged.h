// The message at the end of a run with gradients that are no longer finite.
#ifndef BRAID_TRAIN_DIVERGED_H
#define BRAID_TRAIN_DIVERGED_H

#include "base/err.h"
#include "train/run.h"

#include <stdint.h>

// The last `skipped` of `version` iterations had no finite gradient. `checkpoint`: the newest one
// written, or the start; "": none. Always fails.
braid_err run_diverged(const run_config *run, uint64_t version, uint64_t skipped, const char *checkpoint, braid_error *error);

#endif
