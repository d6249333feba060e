// One run of tuning per directory.
#ifndef BRAID_TUNE_CLAIM_H
#define BRAID_TUNE_CLAIM_H

#include "base/err.h"

// Creates DIR if it is missing and locks DIR/braid.lock (flock, so the lock ends with its process).
// `*lock` is for tune_release. BRAID_IO: DIR cannot be written; BRAID_STATE: another process has it.
braid_err tune_claim(const char *directory, int *lock, braid_error *error);
// Removes the file; -1 is fine.
void tune_release(const char *directory, int lock);

#endif
