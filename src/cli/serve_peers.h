// The peers of `braid serve --peers N`: child processes on this machine that hold the model's
// layers, restarted when they die.
#ifndef BRAID_CLI_SERVE_PEERS_H
#define BRAID_CLI_SERVE_PEERS_H

#include "base/err.h"

#include <stdint.h>

enum { SERVE_MAX_PEERS = 64 };

typedef struct serve_peers serve_peers;

typedef struct serve_peers_config {
    const char *program;                   // NULL: this one
    const char *ticket, *model;            // copied
    uint32_t peers, copies;                // each layer is on `copies` peers; peers >= copies
    uint32_t first_layer, layers;          // they hold the layers from the first one to the model's last
    uint64_t threads, max_memory;          // of one peer; 0: its default
    uint64_t dead_ns;                      // 0: the protocol's
    const struct adapter_place *adapters;  // borrowed until serve_peers_stop
    uint32_t adapter_count;                // at most SESSION_MAX_ADAPTERS
    // A sentence for the user, on the thread of the peers. May be NULL.
    void (*note)(void *context, const char *text);
    void *context;
} serve_peers_config;

// Starts the processes from a new thread.
braid_err serve_peers_start(const serve_peers_config *config, serve_peers **out, braid_error *error);
// Ends the processes in order, within some seconds. NULL is allowed.
void serve_peers_stop(serve_peers *p);

// Layers [*begin, *end) of peer `index`. Peers index, index + peers / copies, ... have the same.
void serve_peers_share(uint32_t peers, uint32_t copies, uint32_t layers, uint32_t index, uint32_t *begin,
                       uint32_t *end);

#endif
