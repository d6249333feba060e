// Settings of a run that are allowed and rarely meant: noted once at the start.
#ifndef BRAID_TRAIN_RUN_NOTES_H
#define BRAID_TRAIN_RUN_NOTES_H

#include "train/run.h"

#include <stdbool.h>
#include <stdint.h>

enum { RUN_NOTE = 480 };

typedef void (*run_note_fn)(void *context, const char *text);

// Each of them by one call. `text_bytes`: of all texts together, held-out ones included.
void run_notes(const run_config *run, uint64_t text_bytes, run_note_fn say, void *context);

// Of a checkpoint after `version` iterations, what its run had planned: iterations in all, and the
// learning rate of the last one.
typedef struct run_schedule {
    uint64_t iterations;  // 0: not known
    float learning_rate;
} run_schedule;

// Whether the learning rate jumps where the run goes on from such a checkpoint; says so in `text`.
bool run_rate_jumps(const train_recipe *recipe, uint64_t version, const run_schedule *had, char text[RUN_NOTE]);

#endif
