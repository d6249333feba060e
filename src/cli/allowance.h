// Defaults and messages of the verbs for processors, memory and open files (base/machine.h).
#ifndef BRAID_CLI_ALLOWANCE_H
#define BRAID_CLI_ALLOWANCE_H

#include "base/err.h"
#include "base/machine.h"
#include "cli/report.h"
#include "train/run.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    ALLOWANCE_MOST_THREADS = 1024,
    ALLOWANCE_SOLO_FILES = 8,   // for a process that trains alone: a checkpoint and its lock
    ALLOWANCE_NODE_FILES = 16,  // the least for a node: libuv aborts if its loop cannot open its own
};

// Number of compute threads without a user's choice: one per processor that the process may use.
uint64_t allowance_threads(const machine *m);
// The first event of a process. `max_memory`: the cap that holds, 0: none, then all of the memory
// is assumed to be free.
void allowance_tell(report *r, const machine *m, uint64_t max_memory);
// BRAID_LIMIT unless the process may open this many more files.
braid_err allowance_files(const machine *m, unsigned more, braid_error *error);
// Whether the processes of `braid up` together need more than the machine provides; `text` receives
// the message.
bool allowance_swarm_exceeds(const machine *m, const run_config *run, uint64_t data_peers, uint64_t relays, uint64_t capacity, uint64_t max_memory, char *text, size_t room);

#endif
