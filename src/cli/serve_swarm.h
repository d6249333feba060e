// The API node of `braid serve MODEL --peers N`: a service over a chain of peers, of which N are child
// processes on this machine and others join with the ticket.
#ifndef BRAID_CLI_SERVE_SWARM_H
#define BRAID_CLI_SERVE_SWARM_H

#include "cli/serve_peers.h"
#include "net/identity.h"
#include "serve/adapters.h"
#include "serve/scheduler.h"
#include "span/executor.h"

typedef struct serve_swarm {
    identity *id;
    int lock;  // of the identity's file, -1: none
    engine *ends;
    adapter_set *adapters;  // NULL: none
    service_model described;
    service *service;  // of the caller's requests; freed by serve_swarm_close
    serve_peers *peers;
    span_model model;
    char ticket[TICKET_MAX_TEXT];
} serve_swarm;

typedef struct serve_swarm_settings {
    const char *path;               // of `file`
    const model_file *file;         // borrowed until serve_swarm_close, as all pointers here
    tensor_pool *pool;              // for the ends
    const tokenizer *tokenizer;     // NULL: tokens are bytes
    const char *name;               // NULL: from the path
    const char *generation_config;  // NULL: none
    uint64_t created;
    uint32_t parallel, queue, prompt_rows;  // as in scheduler_settings
    engine *draft_model;                    // as in scheduler_settings
    bool draft;                             // by prompt lookup, while it pays
    const char *program;                    // of the children, NULL: this one
    uint32_t peers, copies;                 // children, 0: none; each layer is on so many of them
    uint32_t own_layers;                    // the first layers, which this process holds itself
    const char *listen;  // for links of peers, NULL: loopback if there are children, else every address
    const char *public_address, *identity;
    uint32_t context;                                    // 0: the model's
    bool exact, half_cache, narrow;                      // as in engine_settings
    unsigned threads;                                    // of one child, 0: its share of the processors
    uint64_t own_memory;                                 // for own layers, 0: half of the machine's
    uint64_t peer_memory;                                // of one child, 0: its default
    uint64_t dead_ns;                                    // 0: the protocol's
    const adapter_place *adapters;                       // of this process and of the children
    uint32_t adapter_count;                              // at most SESSION_MAX_ADAPTERS
    void (*note)(void *note_context, const char *text);  // a sentence for the user, on any thread
    void *note_context;
} serve_swarm_settings;

// Hashes the model's file, starts the links, the service and the children. Close with
// serve_swarm_close, also after a failure.
braid_err serve_swarm_open(serve_swarm *s, const serve_swarm_settings *settings, braid_error *error);
void serve_swarm_close(serve_swarm *s);

#endif
