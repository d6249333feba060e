// A shadow beside a working peer: the same program as a child process, with an identity of its own. It lives as long as its
// parent at most; what it says nobody reads.
#ifndef BRAID_CLI_NODE_SHADOW_H
#define BRAID_CLI_NODE_SHADOW_H

#include "base/err.h"
#include "base/id.h"

#include <stdint.h>

typedef struct node_shadow {
    const char *ticket;           // of the run
    const char *listen, *public_address;  // the parent's, or NULL: the shadow's are address_beside these
    const char *state_directory;  // where it keeps what it holds
    uint64_t threads, capacity, max_memory, patience_ns;
} node_shadow;

braid_err node_shadow_start(const node_shadow *shadow, const braid_id *beside, braid_error *error);
// In the child: ends when the parent does.
void node_shadow_bind(void);

#endif
