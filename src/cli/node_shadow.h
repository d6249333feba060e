// Starts a standby replica (shadow) beside a working peer: the same program as a child process,
// with its own identity. The child ends with its parent at the latest, and its output is discarded.
#ifndef BRAID_CLI_NODE_SHADOW_H
#define BRAID_CLI_NODE_SHADOW_H

#include "base/err.h"
#include "base/id.h"

#include <stdint.h>

typedef struct node_shadow {
    const char *ticket;           // of the run
    const char *listen, *public_address;  // the parent's, or NULL: the shadow uses address_beside these
    const char *from;             // the model that the run adapts, or NULL
    const char *state_directory;  // directory for the replicated state
    uint64_t threads, capacity, max_memory, patience_ns;
} node_shadow;

braid_err node_shadow_start(const node_shadow *shadow, const braid_id *beside, braid_error *error);

#endif
