// The executor (braid/executor.h) that sends rows through a chain of peers. It has a thread of its
// own with the API node's links.
#ifndef BRAID_SPAN_EXECUTOR_H
#define BRAID_SPAN_EXECUTOR_H

#include "braid/executor.h"
#include "span/peer.h"

enum {
    EXECUTOR_AHEAD_TOKENS = 256,   // room that a session asks for beyond its first tokens
    EXECUTOR_PATIENCE_MS = 60000,  // for layers that no peer holds, until a text fails
};

// `config` is that of an origin. Its callbacks `note`, `listening` and `tell` come from the new
// thread. The ticket is known once this returns.
braid_err executor_chain_new(const span_config *config, executor **out, braid_error *error);
void executor_chain_ticket(executor *e, char text[TICKET_MAX_TEXT]);

#endif
