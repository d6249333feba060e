// The start of a run in a checkpoint directory: one run per directory, and newer versions are never
// overwritten.
//
// DIR/braid.lock is locked (flock) while a run saves there; the lock ends with its process. The
// file names the process, its host and its run, for messages. A run removes the file at its end;
// the file of a killed process has no effect.
#ifndef BRAID_TRAIN_CHECKPOINT_CLAIM_H
#define BRAID_TRAIN_CHECKPOINT_CLAIM_H

#include "base/err.h"
#include "base/id.h"

#include <stdbool.h>
#include <stdint.h>

enum { CHECKPOINT_WAIT_MS = 2000 };  // for processes of a killed run to exit

typedef struct checkpoint_start {
    const char *directory;
    braid_hash run;
    uint64_t version;  // version at which the run starts: 0, or that of the checkpoint
    const char *from;  // directory of that checkpoint (checkpoint_path); NULL: the run starts from its seed
    bool anew;         // move newer versions aside
    bool newest;       // the start is from the newest version; a later one by then is refused
    // the run has a durable log: versions in DIR are its own, and another peer of it may be saving
    bool goes_on;
    uint32_t wait_ms;                               // time to wait for the lock
    void (*note)(void *context, const char *text);  // may be NULL
    void *context;
} checkpoint_start;

// Claims DIR for this process. `*lock` is for checkpoint_release at the end of the run. It is -1 if
// the file system has no locks (noted), or if another peer of the same run holds the lock.
// BRAID_STATE: another process uses DIR, or DIR has versions that are newer than the start; the
// message names the options.
braid_err checkpoint_claim(const checkpoint_start *start, int *lock, braid_error *error);
// The same for a peer that becomes the leader: only the lock of another run is an error.
braid_err checkpoint_claim_to_save(const char *directory, const braid_hash *run, int *lock, braid_error *error);
// -1 is fine.
void checkpoint_release(const char *directory, int lock);

#endif
