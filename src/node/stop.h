// One policy for the signals that end a process or have it save: SIGINT, SIGTERM, SIGHUP and
// SIGUSR1 (docs/user-guide.md, Stopping).
//
// The first of INT, TERM and HUP asks for an orderly end. Those that follow within STOP_AGAIN_MS
// are copies of the same request: a terminal, a service manager and a parent process may each
// deliver one. A later one ends the process at once. Both ends have a limit that holds even if the
// event loop is stuck: SIGALRM ends the process with code 1. No part of this relies on a signal's
// default action, which process 1 of a container does not have.
//
// Signal dispositions belong to the process, so this state does too; all other state of a node is
// in the node.
#ifndef BRAID_NODE_STOP_H
#define BRAID_NODE_STOP_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    STOP_AGAIN_MS = 400,      // from the first request, until another one is a second one
    STOP_AT_ONCE_S = 1,       // from the second request to the end of the process, at most
    // past the limit of an orderly end, for an event loop that works to say why it was not enough
    STOP_GRACE_S = 5,
    // for the iteration under way; then it is dropped, and the state before it is saved
    STOP_FINISH_MS = 5000,
};

#define STOP_WITHIN_NS UINT64_C(60000000000)  // for an orderly end, unless --stop-within says otherwise

typedef struct stop_config {
    const char *verb;
    uint64_t within_ns;  // for an orderly end
    // the parent process decides: SIGINT and SIGHUP do nothing, and requests have no limit here
    bool supervised;
} stop_config;

// Installs the handlers; call it before anything that takes long. A SIGHUP that is ignored already
// (nohup) stays ignored.
braid_err stop_watch(const stop_config *config, braid_error *error);
// For a process without an orderly end: as process 1 it ends by these signals like any other
// process.
void stop_watch_as_first(void);
// The limit of stop_config begins now, by another order than a signal.
void stop_limit(void);

// The signal of the first request, 0: none yet.
int stop_requested(void);
// "SIGTERM", ...
const char *stop_signal_name(int number);
// There was a second request.
bool stop_at_once(void);
// Whether SIGUSR1 came since the last call.
bool stop_take_save(void);
// How long the iteration under way may still take after the first request.
uint64_t stop_finish_ns(uint64_t within_ns);

// Becomes readable with each signal; never closed. stop_clear empties it.
int stop_descriptor(void);
void stop_clear(void);

#endif
