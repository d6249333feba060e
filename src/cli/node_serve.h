// `braid node` with the ticket of a swarm that serves a model.
#ifndef BRAID_CLI_NODE_SERVE_H
#define BRAID_CLI_NODE_SERVE_H

#include "cli/options.h"
#include "node/ticket.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct node_serve_flags {
    const ticket *join;
    const char *model;            // the file of --model; NULL: layers come from other peers
    const char *state_directory;  // keeps such layers; NULL: in memory
    const char *layers;           // "0:10" or NULL
    const char *listen, *public_address, *identity;
    uint64_t threads, max_memory, patience_ns, dead_ns;
    const option_list *adapters;  // NAME=DIRECTORY
    bool json, supervised;
} node_serve_flags;

// Returns an exit code. stop_watch was called.
int node_serve(const node_serve_flags *flags);

#endif
