// Between the files of a profile.
#ifndef BRAID_TRAIN_PROFILE_INSIDE_H
#define BRAID_TRAIN_PROFILE_INSIDE_H

#include "train/profile.h"

double profile_now(void);  // seconds, monotonic
void profile_memory_rate(train_profile *out);
// Writes and reads a file of a few hundred megabytes in `directory`, and removes it.
braid_err profile_file_rates(const char *directory, train_profile *out, braid_error *error);

#endif
