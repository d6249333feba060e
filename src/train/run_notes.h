// Notes at the start of a run about settings that are valid but rarely intended.
#ifndef BRAID_TRAIN_RUN_NOTES_H
#define BRAID_TRAIN_RUN_NOTES_H

#include "train/run.h"

#include <stdbool.h>
#include <stdint.h>

enum { RUN_NOTE = 480 };

typedef void (*run_note_fn)(void *context, const char *text);

// Calls `note` once per note. `text_size`: of all texts together, including held-out ones.
void run_notes(const run_config *run, uint64_t text_size, run_note_fn say, void *context);

// The schedule of the run that wrote a checkpoint at `version`: its number of iterations, and the
// learning rate of its last iteration.
typedef struct run_schedule {
    uint64_t iterations;  // 0: not known
    float learning_rate;
} run_schedule;

// True if the learning rate jumps where the run continues from such a checkpoint; explains it in
// `text`.
bool run_rate_jumps(const train_recipe *recipe, uint64_t version, const run_schedule *had, char text[RUN_NOTE]);

#endif
