// A whole-model peer: a machine that is a member of every stage (or of every stage but 0, without
// the text). Each further stage has a member process of its own, an ordinary relay that ends with
// its parent. Stages share no weights, so the processes share no memory. Their links stay on the
// machine.
#ifndef BRAID_CLI_NODE_WHOLE_H
#define BRAID_CLI_NODE_WHOLE_H

#include "base/err.h"
#include "base/id.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct node_whole node_whole;

typedef struct node_whole_config {
    const char *listen, *public_address;  // the parent's, or NULL; members use the following ports if both are fixed
    const char *from;                     // the model that the run adapts, or NULL
    const char *state_directory;          // for the members' states, NULL: in memory
    uint64_t threads, capacity, patience_ns;  // of each member
    void *context;
    void (*note)(void *context, const char *text);
} node_whole_config;

// NULL: out of memory. The config's texts are borrowed.
node_whole *node_whole_new(const node_whole_config *config);
// The stages of a whole-model peer: first .. stages - 1, of which the parent has `own` (or none of
// them).
typedef struct node_whole_stages {
    uint32_t first, stages, own;
    uint64_t max_memory;  // of each member, 0: no limit
    const char *reason;   // for which this machine takes part in all of them
} node_whole_stages;

// Starts the members of the other stages, which join by `ticket`, the parent's own. `self`: the
// parent.
void node_whole_start(node_whole *w, const braid_id *self, const char *ticket, const node_whole_stages *stages);
bool node_whole_started(const node_whole *w);
// The parent's own state is complete at `version`.
void node_whole_advanced(node_whole *w, uint64_t version);
// Reads the members' events and restarts dead members. Call it about twice a second.
void node_whole_tick(node_whole *w);
// Whether all members have a whole state; `version` is the oldest of them.
bool node_whole_ready(const node_whole *w, uint64_t *version);
// Asks the members to leave in order.
void node_whole_stop(node_whole *w);
// Waits up to `limit_ns` until all members have ended, kills the rest, and frees. Accepts NULL.
void node_whole_free(node_whole *w, uint64_t limit_ns);

#endif
