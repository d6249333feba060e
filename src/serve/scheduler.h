// The service over an executor: texts wait in a queue, have a place, are read and drawn together,
// and lose their place when keys and values have no room.
//
// One thread does all that. In each iteration it submits one token of each text that is being
// written, and a bounded number of prompt tokens beside them.
#ifndef BRAID_SERVE_SCHEDULER_H
#define BRAID_SERVE_SCHEDULER_H

#include "serve/adapters.h"
#include "braid/executor.h"
#include "serve/service.h"

enum {
    SCHEDULER_PARALLEL = 16,  // defaults of the settings
    SCHEDULER_QUEUE = 1024,
    SCHEDULER_PROMPT_ROWS = 64,
    SCHEDULER_MOST_PARALLEL = 1024,
    SCHEDULER_MOST_QUEUE = 1 << 20,
};

// Drafts (serve/draft.h).
typedef enum scheduler_draft {
    SCHEDULER_DRAFT_OFF,
    SCHEDULER_DRAFT_PAYS,    // as long as they are expected to pay
    SCHEDULER_DRAFT_ALWAYS,  // as long as possible, for tests
} scheduler_draft;

typedef struct scheduler_settings {
    executor *executor;          // freed with the service, also after a failure of scheduler_new
    engine *ends;                // with embedding, final norm and head; borrowed until service_free
    const service_model *model;  // borrowed until service_free; its context is the longest text
    uint32_t parallel;           // texts with a place at once; 0: SCHEDULER_PARALLEL
    uint32_t queue;              // texts that wait; 0: SCHEDULER_QUEUE
    uint32_t prompt_rows;        // prompt tokens an iteration while texts are written; 0: SCHEDULER_PROMPT_ROWS
    scheduler_draft draft;
    engine *draft_model;    // makes the drafts, with the vocabulary of `model`; NULL: prompt lookup; borrowed as `ends`
    uint64_t memory_limit;  // for service_status
    void (*released)(void *context);  // NULL, or called at the end of service_free, also after a failure
    void *context;
} scheduler_settings;

// Memory of a service for logits and rows besides its executor's.
size_t scheduler_bytes(const model_config *c, uint32_t parallel);

// Starts the thread, which uses `ends` and its pool from now on. Free with service_free.
braid_err scheduler_new(const scheduler_settings *settings, service **out, braid_error *error);

#endif
