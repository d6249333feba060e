// The service of one machine: an engine with all layers, under a memory limit.
//
// The limit covers the weights (the parts of mapped files that the engine reads, its own copies, and
// adapters), the memory for computing, and keys and values, which get the rest.
#ifndef BRAID_SERVE_LOCAL_H
#define BRAID_SERVE_LOCAL_H

#include "serve/adapters.h"
#include "serve/service.h"

typedef struct service_local_settings {
    const model_file *file;      // borrowed until service_free, as all pointers here
    const tokenizer *tokenizer;  // NULL: tokens are bytes
    const char *name;
    const char *generation_config;  // NULL: none
    uint64_t created;
    tensor_pool *pool;
    bool exact, half_cache, narrow;         // as in engine_settings
    uint32_t context;                       // longest text; 0: the model's, or less if there is no room for it
    uint32_t parallel, queue, prompt_rows;  // as in scheduler_settings
    const adapter_place *adapters;          // [adapter_count]
    uint32_t adapter_count;
    engine *draft_model;    // as in scheduler_settings
    bool draft;             // by prompt lookup, while it pays
    uint64_t memory_limit;  // bytes, 0: none, then keys and values have room for `parallel` texts of `context`
} service_local_settings;

typedef struct service_local_memory {
    uint64_t weights, computing, cache;  // bytes; `cache`: the most that keys and values may use
} service_local_memory;

// BRAID_LIMIT: the limit has no room for the weights and one text of `context` tokens, or of
// SERVICE_LOCAL_LEAST where it is 0; the error says how much is needed.
enum { SERVICE_LOCAL_LEAST = 512 };
braid_err service_local_new(const service_local_settings *settings, service **out, service_local_memory *memory,
                            braid_error *error);

#endif
