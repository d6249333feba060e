// The state of tuning between iterations, in one file of DIR: tune-state.safetensors.
#ifndef BRAID_TUNE_STATE_H
#define BRAID_TUNE_STATE_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TUNE_STATE_FILE "tune-state.safetensors"

typedef struct tune_state {
    uint64_t iteration;       // completed
    uint64_t best_iteration;  // of the lowest held-out loss
    double best_loss;         // INFINITY: none yet
    uint32_t without_gain;    // evaluations since then
    uint64_t evaluations;     // one more than the iteration of the last evaluation; 0: there was none
    size_t parameters;
    float *now, *moment1, *moment2, *best;  // [parameters] each
} tune_state;

braid_err tune_state_new(size_t parameters, tune_state *out, braid_error *error);
void tune_state_free(tune_state *s);

// `settings` is a JSON object that describes the run; a state belongs to equal settings only.
braid_err tune_state_save(const tune_state *s, const char *settings, const char *directory, braid_error *error);
// *there: false when the directory has no state; then nothing was read. BRAID_STATE: it is of other
// settings; the message names the first that differs.
braid_err tune_state_load(tune_state *s, const char *settings, const char *directory, bool *there, braid_error *error);
// Whether a state or an adapter is in the directory.
bool tune_state_exists(const char *directory);

#endif
