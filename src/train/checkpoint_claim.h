// The start of a run in a directory of checkpoints: one directory, one run, and nothing newer is overwritten.
//
// DIR/braid.lock is locked (flock) while a run saves there; the lock ends with its process. The file names the process, its
// host and its run, for messages. A run removes it at its end; one that a killed process left means nothing.
#ifndef BRAID_TRAIN_CHECKPOINT_CLAIM_H
#define BRAID_TRAIN_CHECKPOINT_CLAIM_H

#include "base/err.h"
#include "base/id.h"

#include <stdbool.h>
#include <stdint.h>

enum { CHECKPOINT_WAIT_MS = 2000 };  // for processes of a killed run to end

typedef struct checkpoint_start {
    const char *directory;
    braid_hash run;
    uint64_t version;  // where the run starts: 0, or that of the checkpoint
    const char *from;  // the step's directory of that checkpoint (checkpoint_path); NULL: the run starts from its seed
    bool anew;         // newer versions are set aside
    bool newest;       // the start is from the newest version: one that came meanwhile is refused
    bool goes_on;      // the run has a log: what lies there is its own, and another peer of it may be saving
    uint32_t wait_ms;  // for the lock
    void (*note)(void *context, const char *text);  // may be NULL
    void *context;
} checkpoint_start;

// Takes DIR for this process. `*lock` is for checkpoint_release at the end of the run, or -1: this file system has no locks
// (noted), or another peer of the same run holds it. BRAID_STATE: another process uses DIR, or DIR holds versions that are
// newer than the start; the message names the ways on.
braid_err checkpoint_claim(const checkpoint_start *start, int *lock, braid_error *error);
// The same for a peer that comes to lead a run: only another run's lock is in its way.
braid_err checkpoint_claim_to_save(const char *directory, const braid_hash *run, int *lock, braid_error *error);
// -1 is fine.
void checkpoint_release(const char *directory, int lock);

#endif
